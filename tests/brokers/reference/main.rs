//! A broker of the protocol that serves everything from memory and buffers
//! every request: what passing the conformance suite takes, and no more. It
//! shares nothing with the host. Each switch makes it break one rule, so that
//! the suite can be seen to fail.

mod broker;
mod decide;
mod declare;
mod faults;
mod forward;
mod rule;

use std::convert::Infallible;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

use broker::Broker;
use faults::Fault;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let faults = faults::read(std::env::args().skip(1));
    let environment = std::env::var_os("CONFORMANCE_ENV").expect("CONFORMANCE_ENV is set");
    let environment = environment.into_string().expect("CONFORMANCE_ENV is text");
    let environment = serde_json::from_str(&environment).expect("CONFORMANCE_ENV is JSON");
    let broker = Arc::new(Broker::new(environment, faults));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    // Before the line: whoever has read it may send the signal.
    let _ignored = broker
        .breaks(Fault::IgnoreTerm)
        .then(|| signal(SignalKind::terminate()).expect("a signal"));
    if broker.breaks(Fault::Crash) {
        return ExitCode::from(3);
    }
    if broker.breaks(Fault::Chatter) {
        say("starting up\n[info] all is well");
    }
    if broker.breaks(Fault::BadLine) {
        say(r#"{"url": "http://127.0.0.1:1"}"#);
    } else if !broker.breaks(Fault::NoLine) {
        say(&broker.line(&format!("http://{address}")));
    }
    if broker.breaks(Fault::Chatter) {
        std::thread::spawn(|| {
            for _ in 0..4096 {
                say(&"on and on ".repeat(100));
            }
        });
    }
    tokio::select! {
        () = accept(&listener, &broker) => ExitCode::from(4),
        () = input_ends(&broker) => ExitCode::SUCCESS,
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _closed = writeln!(out, "{line}").and_then(|()| out.flush());
}

async fn input_ends(broker: &Broker) {
    if broker.breaks(Fault::IgnoreInput) || broker.breaks(Fault::IgnoreTerm) {
        std::future::pending::<()>().await;
    }
    // A thread of its own: the runtime would wait for one that it knows.
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _broken = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _gone = tell.send(());
    });
    let _ended = told.await;
}

async fn accept(listener: &TcpListener, broker: &Arc<Broker>) {
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        if broker.breaks(Fault::EndEarly) {
            return;
        }
        tokio::spawn(connection(stream, broker.clone()));
    }
}

async fn connection(mut stream: TcpStream, broker: Arc<Broker>) {
    if broker.breaks(Fault::Hang) {
        eprintln!("asked");
        tokio::time::sleep(Duration::from_secs(3600)).await;
    }
    if broker.breaks(Fault::Garbage) {
        let _ = stream
            .write_all(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
            .await;
        return;
    }
    let service = service_fn(move |request| {
        let broker = broker.clone();
        async move { Ok::<_, Infallible>(broker.answer(request).await) }
    });
    let _ended = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
