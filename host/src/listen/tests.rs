//! The listener over real sockets, with a service that a test answers for.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::listen::{
    InboundBody, ListenError, ListenSettings, Listener, ResponseBody, TlsSettings, Workers,
};
use crate::relay::tests::line::{LONG, Line, field, within};

/// A request that waits for its answer.
struct Asked {
    request: Request<InboundBody>,
    answer: oneshot::Sender<Response<ResponseBody>>,
}

impl Asked {
    fn answer(self, text: &'static str) {
        let response = Response::new(ResponseBody::full(text));
        assert!(self.answer.send(response).is_ok());
    }
}

struct Server {
    address: SocketAddr,
    asked: mpsc::Receiver<Asked>,
    shutdown: CancellationToken,
    served: JoinHandle<()>,
}

impl Server {
    async fn start(settings: ListenSettings) -> Self {
        Self::start_with(settings, None, Duration::from_secs(10)).await
    }

    async fn start_with(
        settings: ListenSettings,
        tls: Option<TlsSettings>,
        drain: Duration,
    ) -> Self {
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(any, tls, settings).await.unwrap();
        let address = listener.local_addr();
        let (sender, asked) = mpsc::channel(100);
        let service = move |request| {
            let sender = sender.clone();
            async move {
                let (answer, answered) = oneshot::channel();
                sender.send(Asked { request, answer }).await.unwrap();
                answered
                    .await
                    .unwrap_or_else(|_| Response::new(ResponseBody::empty()))
            }
        };
        let shutdown = CancellationToken::new();
        let until = shutdown.clone();
        let served = tokio::spawn(async move {
            let workers = Workers::start().unwrap();
            listener.serve(service, &workers, until, drain).await;
        });
        Self {
            address,
            asked,
            shutdown,
            served,
        }
    }

    async fn connect(&self) -> Line {
        Line::connect(self.address).await
    }

    async fn asked(&mut self) -> Asked {
        within(self.asked.recv()).await.unwrap()
    }
}

fn quick() -> ListenSettings {
    ListenSettings {
        first_byte: Duration::from_millis(150),
        head: Duration::from_millis(150),
        keep_alive: Duration::from_millis(150),
        stall: Duration::from_millis(300),
        ..ListenSettings::default()
    }
}

const GET: &str = "GET /a HTTP/1.1\r\nHost: b\r\n\r\n";

#[tokio::test]
async fn requests_follow_each_other_on_one_connection() {
    let mut server = Server::start(ListenSettings::default()).await;
    let mut line = server.connect().await;
    for _ in 0..3 {
        line.send(GET).await;
        let asked = server.asked().await;
        assert_eq!(asked.request.uri(), "/a");
        assert_eq!(asked.request.version(), Version::HTTP_11);
        asked.answer("hi");
        let head = line.head().await;
        assert!(field(&head, "connection").is_empty(), "{head}");
        assert_eq!(line.take(2).await, b"hi");
    }
}

#[tokio::test]
async fn http2_is_spoken_by_prior_knowledge() {
    let mut server = Server::start(ListenSettings::default()).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let request = Request::get("http://b/a")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let sending = tokio::spawn(client.send_request(request));
    let asked = server.asked().await;
    assert_eq!(asked.request.version(), Version::HTTP_2);
    asked.answer("hi");
    let response = within(sending).await.unwrap().unwrap();
    let body = within(response.into_body().collect()).await.unwrap();
    assert_eq!(body.to_bytes(), "hi");
}

#[tokio::test]
async fn a_preface_in_pieces_is_still_one() {
    let server = Server::start(ListenSettings::default()).await;
    let mut line = server.connect().await;
    for part in ["P", "RI * HTTP/2.0\r\n", "\r\nSM\r\n\r\n"] {
        line.send(part).await;
    }
    line.send([0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
    // SETTINGS of the server's, whose type stands in the fourth byte.
    assert_eq!(line.take(9).await[3], 4);
}

#[tokio::test]
async fn an_unread_body_gets_its_answer_and_a_close_and_no_100() {
    let mut server = Server::start(ListenSettings::default()).await;
    let check = async |server: &mut Server, fields: &str, body: &[u8]| {
        let mut line = server.connect().await;
        let length = body.len().max(1);
        line.send(format!(
            "POST / HTTP/1.1\r\nHost: b\r\n{fields}Content-Length: {length}\r\n\r\n"
        ))
        .await;
        line.send(body).await;
        let asked = server.asked().await;
        drop(asked.request);
        let mut response = Response::new(ResponseBody::full("refused"));
        *response.status_mut() = StatusCode::FORBIDDEN;
        assert!(asked.answer.send(response).is_ok());
        // Late: whatever was on its way has arrived.
        let head = line.head().await;
        assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
        assert_eq!(field(&head, "connection"), ["close"]);
        let (rest, clean) = line.rest().await;
        assert_eq!(String::from_utf8(rest).unwrap(), "refused");
        assert!(clean, "a reset would have destroyed the answer");
    };
    check(&mut server, "Expect: 100-continue\r\n", b"").await;
    check(&mut server, "", b"").await;
    for _ in 0..10 {
        check(&mut server, "", &[b'x'; 700_000]).await;
    }
}

#[tokio::test]
async fn a_refusal_without_a_pause_closes_and_takes_in_what_still_comes() {
    let any = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind(any, None, ListenSettings::default())
        .await
        .unwrap();
    let address = listener.local_addr();
    let refuse = |request: Request<InboundBody>| async move {
        drop(request);
        Response::new(ResponseBody::full("refused"))
    };
    tokio::spawn(async move {
        let workers = Workers::start().unwrap();
        let never = CancellationToken::new();
        listener
            .serve(refuse, &workers, never, Duration::ZERO)
            .await;
    });
    let mut line = Line::connect(address).await;
    line.send("POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 1000000\r\n\r\n")
        .await;
    assert_eq!(field(&line.head().await, "connection"), ["close"]);
    // A client that writes on before it reads the answer does not fail.
    for _ in 0..10 {
        line.send(vec![b'x'; 50_000]).await;
    }
    let (rest, clean) = line.rest().await;
    assert!(rest == b"refused" && clean);
}

#[tokio::test]
async fn expect_is_answered_when_the_body_is_read() {
    let mut server = Server::start(ListenSettings::default()).await;
    let mut line = server.connect().await;
    line.send("POST / HTTP/1.1\r\nHost: b\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        .await;
    let mut asked = server.asked().await;
    let reading = tokio::spawn(async move {
        let read = asked.request.body_mut().collect().await.unwrap();
        (asked, read.to_bytes())
    });
    assert_eq!(line.head().await, "HTTP/1.1 100 Continue\r\n\r\n");
    line.send("hi").await;
    let (asked, read) = within(reading).await.unwrap();
    assert_eq!(read, "hi");
    asked.answer("done");
    let head = line.head().await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(field(&head, "connection").is_empty(), "{head}");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_a_431() {
    let server = Server::start(ListenSettings::default()).await;
    let mut line = server.connect().await;
    line.send(format!(
        "GET / HTTP/1.1\r\nHost: b\r\nX-Long: {}\r\n\r\n",
        "x".repeat(70_000)
    ))
    .await;
    assert!(line.head().await.starts_with("HTTP/1.1 431 "));
    let (rest, clean) = line.rest().await;
    assert!(rest.is_empty() && clean);
}

#[tokio::test]
async fn a_peer_that_says_nothing_or_half_a_head_is_let_go() {
    let server = Server::start(quick()).await;
    for (said, told) in [
        ("", false),
        ("P", false),
        ("PRI * HTTP/2.0\r\n", false),
        ("G", true),
        ("GET / HTTP/1.1\r\nHost: b\r\nX-A: 1\r\n", true),
    ] {
        let mut line = server.connect().await;
        line.send(said).await;
        let (rest, clean) = line.rest().await;
        assert!(clean, "{said:?}");
        assert_eq!(rest.starts_with(b"HTTP/1.1 408 "), told, "{said:?}");
        assert_eq!(rest.is_empty(), !told, "{said:?}");
    }
}

#[tokio::test]
async fn a_slow_head_after_a_request_is_let_go_too() {
    let mut server = Server::start(ListenSettings {
        keep_alive: LONG,
        ..quick()
    })
    .await;
    let mut line = server.connect().await;
    line.send(GET).await;
    server.asked().await.answer("hi");
    line.until(b"hi").await;
    line.send("GET / HT").await;
    line.rest().await;
}

#[tokio::test]
async fn an_unused_connection_is_closed_and_a_used_one_is_not() {
    let mut server = Server::start(quick()).await;
    let mut line = server.connect().await;
    line.send(GET).await;
    let asked = server.asked().await;
    // Longer than all the limits: an answer may take its time.
    let mut idle = server.connect().await;
    idle.send(GET).await;
    server.asked().await.answer("hi");
    idle.until(b"hi").await;
    let (rest, clean) = idle.rest().await;
    assert!(rest.is_empty() && clean);
    asked.answer("hi");
    line.until(b"hi").await;
}

#[tokio::test]
async fn the_peer_leaving_drops_the_service() {
    let mut server = Server::start(ListenSettings::default()).await;
    for ahead in ["", "G", "GET /next HTTP/1.1\r\nHost: b\r\n\r\n"] {
        let mut line = server.connect().await;
        line.send(format!("{GET}{ahead}")).await;
        let mut asked = server.asked().await;
        assert!(!asked.answer.is_closed());
        drop(line);
        let left = tokio::time::Instant::now();
        within(asked.answer.closed()).await;
        assert!(left.elapsed() < Duration::from_secs(1), "{ahead:?}");
    }
}

#[tokio::test]
async fn a_reset_by_the_peer_is_leaving_too() {
    let mut server = Server::start(ListenSettings::default()).await;
    let mut line = server.connect().await;
    line.send(format!("{GET}G")).await;
    let mut asked = server.asked().await;
    line.reset();
    within(asked.answer.closed()).await;
}

#[tokio::test]
async fn a_peer_that_only_closes_its_side_still_gets_a_prompt_answer() {
    let mut server = Server::start(ListenSettings::default()).await;
    let mut line = server.connect().await;
    line.send(GET).await;
    socket2::SockRef::from(&line.stream)
        .shutdown(std::net::Shutdown::Write)
        .unwrap();
    server.asked().await.answer("hi");
    let (answer, clean) = line.rest().await;
    assert!(answer.ends_with(b"hi") && clean);
}

#[tokio::test]
async fn the_peer_leaving_http2_drops_the_service() {
    let mut server = Server::start(ListenSettings::default()).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let driver = tokio::spawn(connection);
    let request = Request::get("http://b/a")
        .body(Empty::<Bytes>::new())
        .unwrap();
    let first = tokio::spawn(client.send_request(request.clone()));
    let mut stays = server.asked().await;
    let second = tokio::spawn(client.send_request(request));
    let mut leaves = server.asked().await;
    second.abort();
    within(leaves.answer.closed()).await;
    assert!(!stays.answer.is_closed());
    first.abort();
    driver.abort();
    drop(client);
    within(stays.answer.closed()).await;
}

#[tokio::test]
async fn an_upload_that_is_not_read_holds_up_only_itself() {
    let mut server = Server::start(ListenSettings::default()).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut client, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let upload = |size: usize| {
        Request::post("http://b/a")
            .body(Full::new(Bytes::from(vec![b'x'; size])))
            .unwrap()
    };
    // More than the windows of all of them together, and nobody reads.
    let mut stuck = Vec::new();
    for _ in 0..100 {
        let sending = tokio::spawn(client.send_request(upload(1024 * 1024)));
        stuck.push((server.asked().await, sending));
    }
    let sending = tokio::spawn(client.send_request(upload(1024 * 1024)));
    let mut asked = server.asked().await;
    let read = within(asked.request.body_mut().collect()).await.unwrap();
    assert_eq!(read.to_bytes().len(), 1024 * 1024);
    asked.answer("hi");
    within(sending).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_cut_in_the_end() {
    let mut server = Server::start(quick()).await;
    let mut line = server.connect().await;
    line.send(GET).await;
    let asked = server.asked().await;
    let (held, gone) = oneshot::channel::<()>();
    let endless = futures_util::stream::repeat_with(move || {
        assert!(!held.is_closed());
        Ok::<_, std::io::Error>(http_body::Frame::data(Bytes::from_static(&[b'x'; 65536])))
    });
    let body = ResponseBody::stream(http_body_util::StreamBody::new(endless));
    assert!(asked.answer.send(Response::new(body)).is_ok());
    // The answer is let go of, and with it what it held.
    assert!(within(gone).await.is_err());
}

#[tokio::test]
async fn shutting_down_finishes_what_is_in_flight() {
    let mut server = Server::start(ListenSettings::default()).await;
    let mut busy = server.connect().await;
    busy.send(GET).await;
    let asked = server.asked().await;
    let mut idle = server.connect().await;
    idle.send(GET).await;
    server.asked().await.answer("hi");
    idle.until(b"hi").await;
    let mut silent = server.connect().await;

    server.shutdown.cancel();
    let (rest, clean) = idle.rest().await;
    assert!(rest.is_empty() && clean);
    silent.rest().await;
    assert!(!server.served.is_finished());
    asked.answer("done");
    let head = busy.head().await;
    assert_eq!(field(&head, "connection"), ["close"]);
    busy.until(b"done").await;
    within(server.served).await.unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn shutting_down_cuts_what_does_not_end_in_time() {
    let settings = ListenSettings::default();
    let drain = Duration::from_millis(100);
    let mut server = Server::start_with(settings, None, drain).await;
    let mut line = server.connect().await;
    line.send(GET).await;
    let mut asked = server.asked().await;
    server.shutdown.cancel();
    within(server.served).await.unwrap();
    within(asked.answer.closed()).await;
    line.rest().await;
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_while_all_are_used() {
    let mut server = Server::start(ListenSettings {
        connections: 1,
        ..ListenSettings::default()
    })
    .await;
    let mut first = server.connect().await;
    first.send(GET).await;
    let asked = server.asked().await;
    let mut second = server.connect().await;
    second.send(GET).await;
    let mut third = server.connect().await;
    third.send(GET).await;
    assert!(
        server.asked.try_recv().is_err(),
        "it is not served beside the first"
    );
    asked.answer("hi");
    first.until(b"hi").await;
    // What is unused makes room.
    for line in [&mut second, &mut third] {
        server.asked().await.answer("hi");
        line.until(b"hi").await;
    }
    let (rest, _) = first.rest().await;
    assert!(rest.is_empty());
}

#[tokio::test]
async fn what_was_unused_for_longest_makes_room_first() {
    let mut server = Server::start(ListenSettings {
        connections: 40,
        ..ListenSettings::default()
    })
    .await;
    let mut used = server.connect().await;
    used.send(GET).await;
    let asked = server.asked().await;
    let mut unused = Vec::new();
    for number in 0..39 {
        let mut line = server.connect().await;
        if number % 2 == 0 {
            line.send(GET).await;
            server.asked().await.answer("hi");
            line.until(b"hi").await;
        }
        unused.push(line);
    }
    for _ in 0..10 {
        let mut line = server.connect().await;
        line.send(GET).await;
        server.asked().await.answer("hi");
        line.until(b"hi").await;
    }
    // The last to come are there, and so is what is in flight.
    let last = unused.len() - 1;
    let line = unused.get_mut(last).unwrap();
    line.send(GET).await;
    server.asked().await.answer("hi");
    line.until(b"hi").await;
    asked.answer("hi");
    used.until(b"hi").await;
    unused.first_mut().unwrap().rest().await;
}

#[tokio::test]
async fn tls_speaks_what_was_agreed_on() {
    let dir = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let tls = TlsSettings {
        cert: dir.path().join("cert.pem"),
        key: dir.path().join("key.pem"),
    };
    std::fs::write(&tls.cert, certificate.pem()).unwrap();
    std::fs::write(&tls.key, key.serialize_pem()).unwrap();
    let settings = ListenSettings::default();
    let mut server = Server::start_with(settings, Some(tls.clone()), Duration::ZERO).await;

    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let check = async |server: &mut Server, alpn: &[&str], version: Version| {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(server.address).await.unwrap();
        let name = "localhost".try_into().unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = within(connector.connect(name, stream)).await.unwrap();
        let io = TokioIo::new(stream);
        let request = Request::get("https://localhost/a")
            .header("host", "localhost")
            .body(Empty::<Bytes>::new())
            .unwrap();
        let sending = if version == Version::HTTP_2 {
            let (mut client, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
                    .await
                    .unwrap();
            tokio::spawn(connection);
            tokio::spawn(client.send_request(request))
        } else {
            let (mut client, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            tokio::spawn(client.send_request(request))
        };
        let asked = server.asked().await;
        assert_eq!(asked.request.version(), version, "{alpn:?}");
        asked.answer("hi");
        assert!(within(sending).await.unwrap().is_ok());
    };
    check(&mut server, &["h2", "http/1.1"], Version::HTTP_2).await;
    check(&mut server, &["http/1.1"], Version::HTTP_11).await;
    check(&mut server, &[], Version::HTTP_11).await;
    check(&mut server, &[], Version::HTTP_2).await;

    std::fs::write(&tls.key, "not a key").unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let refused = Listener::bind(any, Some(tls), ListenSettings::default()).await;
    assert!(matches!(refused, Err(ListenError::Tls { what: "key", .. })));
}

#[tokio::test]
async fn an_address_that_is_taken_is_an_error_that_names_it() {
    let server = Server::start(ListenSettings::default()).await;
    let refused = Listener::bind(server.address, None, ListenSettings::default()).await;
    let message = refused.err().unwrap().to_string();
    assert!(message.contains(&server.address.to_string()), "{message}");
}
