//! HTTP/2 on either side.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

use crate::relay::tests::line::{Line, within};
use crate::relay::tests::secure::Authority;
use crate::relay::tests::stage::{Broker, Script, VALUE, relay, relay_with};
use crate::relay::{PoolLimits, RelaySettings};
use crate::rules::origin::Origin;

pub(super) type Fed =
    StreamBody<futures_util::stream::BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>>;

/// What feeds a body, frame by frame.
pub(super) type Feed = mpsc::Sender<Result<Frame<Bytes>, std::io::Error>>;

pub(super) fn fed() -> (Feed, Fed) {
    let (feed, frames) = mpsc::channel(1);
    let frames = futures_util::stream::unfold(frames, |mut frames| async {
        frames.recv().await.map(|frame| (frame, frames))
    });
    (feed, StreamBody::new(Box::pin(frames)))
}

pub(super) fn data(bytes: impl Into<Bytes>) -> Result<Frame<Bytes>, std::io::Error> {
    Ok(Frame::data(bytes.into()))
}

/// A request that waits for its answer.
pub(super) struct Asked {
    pub(super) connection: usize,
    pub(super) request: Request<Incoming>,
    pub(super) answer: oneshot::Sender<Response<Fed>>,
}

impl Asked {
    /// Answers with a body that is fed.
    pub(super) fn answer(self) -> Feed {
        let (feed, body) = fed();
        assert!(self.answer.send(Response::new(body)).is_ok());
        feed
    }
}

/// An upstream that speaks HTTP/2 in TLS and answers what a test says.
pub(super) struct Upstream {
    origin: Origin,
    asked: mpsc::Receiver<Asked>,
    authority: Authority,
}

impl Upstream {
    pub(super) async fn start(streams: u32) -> Self {
        let authority = Authority::new(&["h2"], &["127.0.0.1"]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("https://{}", listener.local_addr().unwrap());
        let (sender, asked) = mpsc::channel(100);
        let acceptor = authority.acceptor.clone();
        tokio::spawn(async move {
            let connections = AtomicUsize::new(0);
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let connection = connections.fetch_add(1, Ordering::Relaxed);
                let (sender, acceptor) = (sender.clone(), acceptor.clone());
                tokio::spawn(async move {
                    let stream = acceptor.accept(stream).await.unwrap();
                    let service = service_fn(move |request| {
                        let sender = sender.clone();
                        async move {
                            let (answer, answered) = oneshot::channel();
                            let asked = Asked {
                                connection,
                                request,
                                answer,
                            };
                            sender.send(asked).await.unwrap();
                            match answered.await {
                                Ok(response) => Ok::<_, std::io::Error>(response),
                                Err(_) => Err(std::io::Error::other("reset")),
                            }
                        }
                    });
                    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .max_concurrent_streams(streams)
                        .serve_connection(TokioIo::new(stream), service)
                        .await
                });
            }
        });
        Self {
            origin: Origin::parse(&origin).unwrap(),
            asked,
            authority,
        }
    }

    pub(super) fn script(&self) -> Script {
        let mut script = Script::to(&self.origin);
        script.destination.extra_ca = Some(self.authority.extra.clone());
        script
    }

    pub(super) async fn asked(&mut self) -> Asked {
        within(self.asked.recv()).await.unwrap()
    }
}

pub(super) async fn client<B>(broker: SocketAddr) -> SendRequest<B>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Unpin
        + Send
        + 'static,
{
    let stream = TcpStream::connect(broker).await.unwrap();
    stream.set_nodelay(true).unwrap();
    // A box that leaves its streams room: what stalls is then ours.
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(64 * 1024 * 1024)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

pub(super) fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("http://broker{path}"))
        .header("te", "trailers")
        .body(Empty::new())
        .unwrap()
}

pub(super) async fn frame(body: &mut Incoming) -> Option<Result<Frame<Bytes>, hyper::Error>> {
    within(body.frame()).await
}

pub(super) async fn next(body: &mut Incoming) -> Bytes {
    frame(body).await.unwrap().unwrap().into_data().unwrap()
}

#[tokio::test]
async fn http2_to_http2_with_trailers_both_ways() {
    let mut upstream = Upstream::start(10).await;
    let broker = Broker::start(relay(), upstream.script()).await;
    let mut client = client::<Fed>(broker.address).await;
    let (upload, body) = fed();
    let request = Request::post("http://broker/v1?q=%20")
        .header("te", "trailers")
        .header("x-two", "1")
        .header("x-two", "2")
        .body(body)
        .unwrap();
    let sending = tokio::spawn(client.send_request(request));
    let mut asked = upstream.asked().await;
    let head = &asked.request;
    assert_eq!(head.version(), Version::HTTP_2);
    assert_eq!(
        head.uri().to_string(),
        format!("{}/v1?q=%20", upstream.origin)
    );
    assert_eq!(head.headers()["authorization"], format!("Bearer {VALUE}"));
    assert_eq!(head.headers()["te"], "trailers");
    assert!(!head.headers().contains_key("host"));
    let twos: Vec<_> = head.headers().get_all("x-two").iter().collect();
    assert_eq!(twos, ["1", "2"]);

    upload.send(data("one")).await.unwrap();
    assert_eq!(next(asked.request.body_mut()).await, "one");
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", HeaderValue::from_static("1"));
    trailers.insert("authorization", HeaderValue::from_static("leak"));
    upload.send(Ok(Frame::trailers(trailers))).await.unwrap();
    let read = frame(asked.request.body_mut()).await.unwrap().unwrap();
    let read = read.into_trailers().unwrap();
    assert_eq!(read["x-sum"], "1");
    assert_eq!(read.len(), 1);

    let answer = asked.answer();
    let mut response = within(sending).await.unwrap().unwrap();
    answer.send(data("two")).await.unwrap();
    assert_eq!(next(response.body_mut()).await, "two");
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers.insert("x-echo", HeaderValue::from_static(VALUE));
    answer.send(Ok(Frame::trailers(trailers))).await.unwrap();
    let read = frame(response.body_mut()).await.unwrap().unwrap();
    let read = read.into_trailers().unwrap();
    assert_eq!(read["grpc-status"], "0");
    assert_ne!(read["x-echo"], VALUE);
}

#[tokio::test]
async fn http1_to_http2_and_head() {
    let mut upstream = Upstream::start(10).await;
    let broker = Broker::start(relay(), upstream.script()).await;
    let mut line = Line::connect(broker.address).await;
    line.send("GET /a HTTP/1.1\r\nHost: b\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\n")
        .await;
    let asked = upstream.asked().await;
    assert_eq!(asked.request.method(), Method::GET);
    assert!(!asked.request.headers().contains_key("x-hop"));
    assert!(asked.request.body().is_end_stream());
    let feed = asked.answer();
    line.head().await;
    feed.send(data("hi")).await.unwrap();
    assert_eq!(line.chunk().await.unwrap(), b"hi");
    drop(feed);
    assert_eq!(line.chunk().await, None);
}

#[tokio::test]
async fn streams_share_a_connection_up_to_a_limit_and_then_open_another() {
    let ask = async |broker: &Broker, upstream: &mut Upstream| {
        let mut line = Line::connect(broker.address).await;
        line.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
        let asked = upstream.asked().await;
        let connection = asked.connection;
        let feed = asked.answer();
        line.head().await;
        (line, feed, connection)
    };
    // Our own limit, and the upstream's.
    for (ours, theirs) in [(2, 100), (64, 2)] {
        let mut upstream = Upstream::start(theirs).await;
        let settings = RelaySettings {
            pool: PoolLimits {
                streams: ours,
                ..PoolLimits::default()
            },
            ..RelaySettings::default()
        };
        let broker = Broker::start(relay_with(settings), upstream.script()).await;
        let first = ask(&broker, &mut upstream).await;
        let second = ask(&broker, &mut upstream).await;
        let third = ask(&broker, &mut upstream).await;
        assert_eq!([first.2, second.2, third.2], [0, 0, 1]);
        // A stream that has ended leaves its place to another.
        let (mut line, feed, _) = first;
        drop(feed);
        assert_eq!(line.chunk().await, None);
        let fourth = ask(&broker, &mut upstream).await;
        let fifth = ask(&broker, &mut upstream).await;
        let mut late = [fourth.2, fifth.2];
        late.sort_unstable();
        assert_eq!(late, [0, 1]);
    }
}

#[tokio::test]
async fn a_reader_that_does_not_read_holds_up_only_itself() {
    let mut upstream = Upstream::start(10).await;
    let broker = Broker::start(relay(), upstream.script()).await;
    let mut client = client(broker.address).await;
    // Several streams on one connection, on both sides, all of them filled
    // until they take no more.
    let mut stuck = Vec::new();
    for _ in 0..6 {
        let sending = tokio::spawn(client.send_request(get("/stuck")));
        let asked = upstream.asked().await;
        assert_eq!(asked.connection, 0);
        let feed = asked.answer();
        let response = within(sending).await.unwrap().unwrap();
        let part = Bytes::from(vec![b'x'; 256 * 1024]);
        while let Ok(sent) = tokio::time::timeout(
            std::time::Duration::from_millis(200),
            feed.send(data(part.clone())),
        )
        .await
        {
            sent.unwrap();
        }
        stuck.push((feed, response));
    }
    let sending = tokio::spawn(client.send_request(get("/free")));
    let asked = upstream.asked().await;
    assert_eq!(asked.connection, 0);
    let feed = asked.answer();
    let mut response = within(sending).await.unwrap().unwrap();
    for _ in 0..20 {
        let part = Bytes::from(vec![b'y'; 64 * 1024]);
        let mut left = part.len();
        feed.send(data(part)).await.unwrap();
        while left > 0 {
            left -= next(response.body_mut()).await.len();
        }
    }
}

#[tokio::test]
async fn leaving_resets_the_stream_and_nothing_else() {
    let mut upstream = Upstream::start(10).await;
    let broker = Broker::start(relay(), upstream.script()).await;
    let mut client = client(broker.address).await;

    let staying = tokio::spawn(client.send_request(get("/stays")));
    let asked = upstream.asked().await;
    let stays = asked.answer();
    let mut staying = within(staying).await.unwrap().unwrap();

    // Before an answer.
    let leaving = tokio::spawn(client.send_request(get("/leaves")));
    let mut asked = upstream.asked().await;
    leaving.abort();
    within(asked.answer.closed()).await;

    // In the middle of one.
    let leaving = tokio::spawn(client.send_request(get("/leaves")));
    let asked = upstream.asked().await;
    let leaves = asked.answer();
    let mut response = within(leaving).await.unwrap().unwrap();
    leaves.send(data("one")).await.unwrap();
    assert_eq!(next(response.body_mut()).await, "one");
    drop(response);
    within(leaves.closed()).await;

    stays.send(data("still")).await.unwrap();
    assert_eq!(next(staying.body_mut()).await, "still");
}

#[tokio::test]
async fn an_upload_that_is_let_go_resets_the_stream() {
    let mut upstream = Upstream::start(10).await;
    let broker = Broker::start(relay(), upstream.script()).await;
    let mut client = client::<Fed>(broker.address).await;
    let (upload, body) = fed();
    let request = Request::post("http://broker/v1").body(body).unwrap();
    let leaving = tokio::spawn(client.send_request(request));
    let mut asked = upstream.asked().await;
    upload.send(data("one")).await.unwrap();
    assert_eq!(next(asked.request.body_mut()).await, "one");
    leaving.abort();
    within(asked.answer.closed()).await;
    assert!(frame(asked.request.body_mut()).await.unwrap().is_err());
}

#[tokio::test]
async fn a_cut_lease_resets_both_sides() {
    let mut upstream = Upstream::start(10).await;
    let script = upstream.script();
    let broker = Broker::start(relay(), script.clone()).await;
    let mut client = client(broker.address).await;
    let sending = tokio::spawn(client.send_request(get("/")));
    let asked = upstream.asked().await;
    let feed = asked.answer();
    let mut response = within(sending).await.unwrap().unwrap();
    feed.send(data("one")).await.unwrap();
    assert_eq!(next(response.body_mut()).await, "one");
    script.lease.cancel();
    within(feed.closed()).await;
    assert!(frame(response.body_mut()).await.unwrap().is_err());
}

#[tokio::test]
async fn a_cut_lease_stops_an_upload_that_goes_on_behind_an_early_answer() {
    let mut upstream = Upstream::start(10).await;
    let script = upstream.script();
    let broker = Broker::start(relay(), script.clone()).await;
    let mut client = client::<Fed>(broker.address).await;
    let (upload, body) = fed();
    let request = Request::post("http://broker/v1").body(body).unwrap();
    let sending = tokio::spawn(client.send_request(request));
    let mut asked = upstream.asked().await;
    upload.send(data("one")).await.unwrap();
    let (answer, _) = oneshot::channel();
    let answer = std::mem::replace(&mut asked.answer, answer);
    let (feed, body) = fed();
    assert!(answer.send(Response::new(body)).is_ok());
    let _response = within(sending).await.unwrap().unwrap();
    assert_eq!(next(asked.request.body_mut()).await, "one");
    script.lease.cancel();
    assert!(frame(asked.request.body_mut()).await.unwrap().is_err());
    within(feed.closed()).await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_reset() {
    let mut upstream = Upstream::start(10).await;
    let broker = Broker::start(relay(), upstream.script()).await;
    let mut client = client(broker.address).await;
    let mut line = Line::connect(broker.address).await;

    let sending = tokio::spawn(client.send_request(get("/")));
    let asked = upstream.asked().await;
    let feed = asked.answer();
    let mut response = within(sending).await.unwrap().unwrap();
    feed.send(data("one")).await.unwrap();
    assert_eq!(next(response.body_mut()).await, "one");
    feed.send(Err(std::io::Error::other("broken")))
        .await
        .unwrap();
    assert!(frame(response.body_mut()).await.unwrap().is_err());

    line.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
    let feed = upstream.asked().await.answer();
    line.head().await;
    feed.send(data("one")).await.unwrap();
    assert_eq!(line.chunk().await.unwrap(), b"one");
    feed.send(Err(std::io::Error::other("broken")))
        .await
        .unwrap();
    assert!(line.rest().await.0.is_empty(), "no last chunk");
}

#[tokio::test]
async fn a_request_that_is_reset_is_not_sent_again() {
    let mut upstream = Upstream::start(10).await;
    let broker = Broker::start(relay(), upstream.script()).await;
    let mut line = Line::connect(broker.address).await;
    for _ in 0..2 {
        line.send("POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 2\r\n\r\nhi")
            .await;
        drop(upstream.asked().await.answer);
        assert!(line.head().await.starts_with("HTTP/1.1 502 "));
        line.until(b"answered.").await;
    }
    assert!(upstream.asked.try_recv().is_err(), "each was asked once");
}

#[tokio::test]
async fn requests_that_come_at_once_share_one_connection() {
    let mut upstream = Upstream::start(100).await;
    let broker = Broker::start(relay(), upstream.script()).await;
    let mut lines = Vec::new();
    for _ in 0..20 {
        let mut line = Line::connect(broker.address).await;
        line.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
        lines.push(line);
    }
    for _ in 0..20 {
        assert_eq!(upstream.asked().await.connection, 0);
    }
}
