//! The baseline: hyper as a server, hyper as a client, a pool, and nothing in
//! between. It swaps one header, as the simplest credential proxy would.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use http::{HeaderValue, Request, Response, Uri, header};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

/// Connections to the upstream that are idle.
type Idle = Arc<Mutex<Vec<SendRequest<Incoming>>>>;

/// Serves until its standard input closes; says where it listens first.
pub async fn run(upstream: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    super::target::announce(listener.local_addr()?)?;
    let idle = Idle::default();
    let serving = async {
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let idle = Arc::clone(&idle);
            let service = service_fn(move |request| forward(request, upstream, Arc::clone(&idle)));
            tokio::spawn(async move {
                let served = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
                // A connection that breaks is the other side's to count.
                served.ok()
            });
        }
    };
    tokio::select! {
        ended = serving => ended,
        () = super::target::input_closed() => Ok(()),
    }
}

async fn forward(
    mut request: Request<Incoming>,
    upstream: SocketAddr,
    idle: Idle,
) -> Result<Response<Incoming>> {
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = Uri::builder()
        .path_and_query(path.map_or_else(|| "/".to_owned(), |path| path.to_string()))
        .build()?;
    let host = HeaderValue::from_str(&upstream.to_string())?;
    request.headers_mut().insert(header::HOST, host);
    let key = HeaderValue::from_static("sk-a-key-of-the-baseline");
    request.headers_mut().insert("x-api-key", key);
    let held = lock(&idle).pop();
    let mut sender = match held {
        Some(sender) if sender.is_ready() => sender,
        _ => connect(upstream).await?,
    };
    let answer = sender.send_request(request).await?;
    // The connection is ready again once the answer's body has been read.
    tokio::spawn(async move {
        if sender.ready().await.is_ok() {
            lock(&idle).push(sender);
        }
    });
    Ok(answer)
}

async fn connect(upstream: SocketAddr) -> Result<SendRequest<Incoming>> {
    let stream = TcpStream::connect(upstream).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move { connection.await.ok() });
    Ok(sender)
}

fn lock(idle: &Idle) -> std::sync::MutexGuard<'_, Vec<SendRequest<Incoming>>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}
