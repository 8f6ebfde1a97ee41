//! The suite's upstreams, on loopback: each request that reaches one is
//! recorded whole, and so is what is no HTTP at all.

use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::conformance::said;

/// How much of a request's body is kept.
const MOST_BODY: usize = 1024 * 1024;

/// How much is kept in all; a broker that floods an upstream is told so.
const MOST_KEPT: usize = 128 * 1024 * 1024;

/// How much of a connection is kept for the case that it is no HTTP.
const MOST_RAW: usize = 64 * 1024;

/// An upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Upstream {
    /// The Anthropic API's stand-in.
    Anthropic,
    /// Fountain's.
    Fountain,
    /// The host of the secret, which repeats the authorization it received.
    Echo,
}

impl Upstream {
    /// What it is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "the Anthropic upstream",
            Self::Fountain => "the Fountain upstream",
            Self::Echo => "the secret's host",
        }
    }
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(super) struct Received {
    pub(super) upstream: Upstream,
    /// Empty for what is no HTTP.
    pub(super) method: String,
    /// The path and the query.
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) trailers: HeaderMap,
    pub(super) body: Bytes,
    /// Whether the body is all there is of it.
    pub(super) whole: bool,
}

impl Received {
    /// The first value of a header, as text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The request line, in short.
    pub(super) fn line(&self) -> String {
        match self.method.as_str() {
            "" => "something that is no HTTP request".to_owned(),
            method => format!("{method} {}", self.target),
        }
    }
}

/// Where the upstreams listen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    pub(super) anthropic: SocketAddr,
    pub(super) fountain: SocketAddr,
    pub(super) echo: SocketAddr,
}

/// What has reached the upstreams so far.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    received: Vec<Received>,
    bytes: usize,
    dropped: usize,
}

impl Log {
    /// How many requests there were.
    pub(super) fn len(&self) -> usize {
        self.lock().received.len()
    }

    /// The requests from the one of this number on.
    pub(super) fn since(&self, mark: usize) -> Vec<Received> {
        let kept = self.lock();
        kept.received.get(mark..).unwrap_or_default().to_vec()
    }

    /// How many could not be kept.
    pub(super) fn dropped(&self) -> usize {
        self.lock().dropped
    }

    fn push(&self, received: Received) {
        let headers: usize = received
            .headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len())
            .sum();
        let size = received.body.len() + received.target.len() + headers + 256;
        let mut kept = self.lock();
        if kept.bytes + size > MOST_KEPT {
            kept.dropped += 1;
            return;
        }
        kept.bytes += size;
        kept.received.push(received);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The running upstreams; dropped, they end.
pub(super) struct Upstreams {
    pub(super) addresses: Addresses,
    pub(super) log: Log,
    _running: JoinSet<()>,
}

impl Upstreams {
    pub(super) async fn start() -> std::io::Result<Self> {
        let log = Log::default();
        let mut running = JoinSet::new();
        let mut listen = async |upstream| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            let address = listener.local_addr()?;
            running.spawn(accept(listener, upstream, log.clone()));
            std::io::Result::Ok(address)
        };
        let addresses = Addresses {
            anthropic: listen(Upstream::Anthropic).await?,
            fountain: listen(Upstream::Fountain).await?,
            echo: listen(Upstream::Echo).await?,
        };
        Ok(Self {
            addresses,
            log,
            _running: running,
        })
    }
}

async fn accept(listener: TcpListener, upstream: Upstream, log: Log) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _peer)) => {
                    connections.spawn(connection(stream, upstream, log.clone()));
                }
                // Out of descriptors, most likely: the broker holds too many.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            },
            Some(_ended) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, upstream: Upstream, log: Log) {
    let raw = Raw::default();
    let stream = Tapped {
        stream,
        raw: raw.clone(),
    };
    let service = service_fn(|request| {
        let log = log.clone();
        async move { Ok::<_, std::convert::Infallible>(answer(request, upstream, &log).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .max_headers(1000)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if served.is_err_and(|error| error.is_parse()) {
        log.push(Received {
            upstream,
            method: String::new(),
            target: String::new(),
            headers: HeaderMap::new(),
            trailers: HeaderMap::new(),
            body: raw.take(),
            whole: false,
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    upstream: Upstream,
    log: &Log,
) -> Response<Full<Bytes>> {
    let (head, mut body) = request.into_parts();
    let mut received = Received {
        upstream,
        method: head.method.as_str().to_owned(),
        target: head.uri.to_string(),
        headers: head.headers,
        trailers: HeaderMap::new(),
        body: Bytes::new(),
        whole: true,
    };
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            received.whole = false;
            break;
        };
        match frame.into_data() {
            Ok(data) if bytes.len() + data.len() > MOST_BODY => {
                received.whole = false;
                break;
            }
            Ok(data) => bytes.extend_from_slice(&data),
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    received.trailers.extend(trailers);
                }
            }
        }
    }
    received.body = bytes.freeze();
    let said = said::answer(&received);
    log.push(received);
    said
}

/// The first bytes of a connection.
#[derive(Clone, Default)]
struct Raw(Arc<Mutex<BytesMut>>);

impl Raw {
    fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST_RAW.saturating_sub(kept.len()).min(bytes.len());
        kept.extend_from_slice(bytes.get(..room).unwrap_or_default());
    }

    fn take(&self) -> Bytes {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *kept).freeze()
    }
}

/// A connection that keeps what comes first.
struct Tapped {
    stream: TcpStream,
    raw: Raw,
}

impl AsyncRead for Tapped {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        let come = buffer.filled().get(before..).unwrap_or_default();
        this.raw.add(come);
        polled
    }
}

impl AsyncWrite for Tapped {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
