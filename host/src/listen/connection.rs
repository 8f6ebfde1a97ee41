//! Serving one peer, from its first byte to its last.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, Version};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::listen::ListenSettings;
use crate::listen::aside::Aside;
use crate::listen::body::{InboundBody, Outbound, ResponseBody};
use crate::listen::sniff::{Rewound, sniff};
use crate::listen::socket::Socket;
use crate::listen::traffic::{Flight, Overdue, Traffic};

/// How a connection ended.
enum End {
    /// HTTP ended it.
    Served(Result<(), hyper::Error>),
    /// The peer left, or took too long.
    Cut,
    /// A head took too long.
    SlowHead,
}

/// What happens to a connection beside what HTTP does on it.
enum Beside {
    /// The host goes down.
    Shutdown,
    /// The peer has left.
    Left,
    /// Somebody else needs the room.
    AskedToLeave,
    /// It has taken too long.
    Overdue(Overdue),
}

/// What is said to a peer whose head takes too long.
const TOO_SLOW: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// What serving a peer takes.
pub(super) struct Peer {
    pub(super) settings: Arc<ListenSettings>,
    pub(super) acceptor: Option<TlsAcceptor>,
    pub(super) shutdown: CancellationToken,
}

impl Peer {
    pub(super) async fn serve<S, F>(self, stream: TcpStream, traffic: Arc<Traffic>, service: S)
    where
        S: Fn(Request<InboundBody>) -> F + Clone + Send + Sync + Unpin + 'static,
        F: Future<Output = Response<ResponseBody>> + Send + 'static,
    {
        // Small frames leave at once; without this they still leave.
        let _ = stream.set_nodelay(true);
        let socket = Socket::new(stream, traffic.clone());
        match &self.acceptor {
            Some(acceptor) => {
                let greeting = async {
                    let stream = acceptor.accept(socket.clone()).await?;
                    traffic.no_head_yet();
                    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                        return Ok((Rewound::fresh(stream), true));
                    }
                    sniff(stream).await
                };
                if let Some((io, http2)) = self.greeted(&traffic, greeting).await {
                    self.converse(io, http2, socket, traffic, service).await;
                }
            }
            None => {
                let greeting = sniff(socket.clone());
                if let Some((io, http2)) = self.greeted(&traffic, greeting).await {
                    self.converse(io, http2, socket, traffic, service).await;
                }
            }
        }
    }

    /// What a connection begins with, within its limit.
    async fn greeted<T>(
        &self,
        traffic: &Traffic,
        greeting: impl Future<Output = std::io::Result<T>>,
    ) -> Option<T> {
        tokio::select! {
            () = traffic.asked_to_leave() => None,
            () = self.shutdown.cancelled() => None,
            greeted = tokio::time::timeout(self.settings.first_byte, greeting) => greeted.ok()?.ok(),
        }
    }

    async fn converse<I, S, F>(
        &self,
        io: I,
        http2: bool,
        socket: Socket,
        traffic: Arc<Traffic>,
        service: S,
    ) where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Fn(Request<InboundBody>) -> F + Clone + Send + Sync + Unpin + 'static,
        F: Future<Output = Response<ResponseBody>> + Send + 'static,
    {
        let gone = CancellationToken::new();
        let _ended = gone.clone().drop_guard();
        let old = Arc::new(AtomicBool::new(false));
        let serving = Serving {
            service,
            traffic: traffic.clone(),
            old: old.clone(),
        };
        let service = service_fn(move |request| serving.answer(request));
        let end = if http2 {
            let connection = self
                .http2(Tied(gone))
                .serve_connection(TokioIo::new(io), service);
            self.drive(
                pin!(connection),
                |it| it.graceful_shutdown(),
                &socket,
                &traffic,
                true,
            )
            .await
        } else {
            let mut connection = self.http1().serve_connection(TokioIo::new(io), service);
            let end = self
                .drive(
                    Pin::new(&mut connection),
                    |it| it.graceful_shutdown(),
                    &socket,
                    &traffic,
                    false,
                )
                .await;
            if matches!(end, End::SlowHead) {
                let mut io = connection.into_parts().io.into_inner();
                let said = async {
                    io.write_all(TOO_SLOW).await?;
                    io.flush().await
                };
                // It may take nothing either.
                let _ = tokio::time::timeout(self.settings.farewell, said).await;
            }
            end
        };
        match end {
            // HTTP/1.0 ends an answer by closing: a broken one must not look
            // like that.
            End::Served(Err(error)) if error.is_user() && old.load(Ordering::Relaxed) => {
                socket.reset_on_close();
            }
            End::Served(outcome) if !http2 && (outcome.is_err() || traffic.has_unread()) => {
                socket.linger().await;
            }
            End::SlowHead => socket.linger().await,
            End::Served(_) | End::Cut => {}
        }
    }

    /// Drives a connection until it ends, its peer has left, or it is overdue.
    async fn drive<C>(
        &self,
        mut connection: Pin<&mut C>,
        finish: impl Fn(Pin<&mut C>),
        socket: &Socket,
        traffic: &Traffic,
        http2: bool,
    ) -> End
    where
        C: Future<Output = Result<(), hyper::Error>>,
    {
        let mut shutdown = Aside::new(self.shutdown.cancelled());
        let (mut finishing, mut leaving) = (false, false);
        loop {
            let is_leaving = leaving;
            let mut beside = Aside::new(async move {
                tokio::select! {
                    biased;
                    () = self.left(socket) => Beside::Left,
                    () = traffic.asked_to_leave(), if !is_leaving => Beside::AskedToLeave,
                    overdue = traffic.overdue(&self.settings, http2) => Beside::Overdue(overdue),
                }
            });
            let beside = tokio::select! {
                biased;
                // First: an answer that is given from now on says so.
                () = &mut shutdown, if !finishing => Beside::Shutdown,
                outcome = connection.as_mut() => return End::Served(outcome),
                beside = &mut beside => beside,
            };
            match beside {
                Beside::Shutdown => {
                    finishing = true;
                    finish(connection.as_mut());
                }
                Beside::AskedToLeave => {
                    if !traffic.is_in_use() {
                        return End::Cut;
                    }
                    leaving = true;
                    finish(connection.as_mut());
                }
                Beside::Overdue(Overdue::Unused) if !finishing => {
                    finishing = true;
                    traffic.give_notice();
                    finish(connection.as_mut());
                }
                Beside::Overdue(Overdue::SlowHead) => return End::SlowHead,
                Beside::Overdue(Overdue::Unused | Overdue::Silent | Overdue::Stalled)
                | Beside::Left => return End::Cut,
            }
        }
    }

    /// Waits until the peer has left, and for a little longer.
    async fn left(&self, socket: &Socket) {
        socket.closed().await;
        tokio::time::sleep(self.settings.farewell).await;
    }

    fn http1(&self) -> http1::Builder {
        let head = usize::try_from(self.settings.head_bytes).unwrap_or(usize::MAX);
        let mut builder = http1::Builder::new();
        builder
            // The end of a peer is told by its socket, a read ahead or not.
            .half_close(true)
            .header_read_timeout(None)
            .max_header_size(head)
            .max_buf_size(head.max(8 * 1024));
        builder
    }

    fn http2(&self, tied: Tied) -> http2::Builder<Tied> {
        let settings = &self.settings;
        let mut builder = http2::Builder::new(tied);
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(settings.streams)
            .initial_stream_window_size(settings.stream_window)
            // As large as all its streams together: an upload that is not read
            // leaves the others their share.
            .initial_connection_window_size(
                settings
                    .stream_window
                    .saturating_mul(settings.streams)
                    .min(i32::MAX.unsigned_abs()),
            )
            .max_header_list_size(settings.head_bytes)
            .max_send_buf_size(128 * 1024)
            .max_pending_accept_reset_streams(20)
            .max_local_error_reset_streams(256)
            .keep_alive_interval(std::time::Duration::from_secs(60))
            .keep_alive_timeout(std::time::Duration::from_secs(20));
        builder
    }
}

/// One request as hyper hands it in, answered by the service.
struct Serving<S> {
    service: S,
    traffic: Arc<Traffic>,
    /// Whether the peer has spoken HTTP/1.0.
    old: Arc<AtomicBool>,
}

impl<S> Serving<S> {
    fn answer<F>(
        &self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Outbound>, Infallible>> + use<S, F>
    where
        S: Fn(Request<InboundBody>) -> F,
        F: Future<Output = Response<ResponseBody>>,
    {
        let http2 = request.version() == Version::HTTP_2;
        if request.version() < Version::HTTP_11 {
            self.old.store(true, Ordering::Relaxed);
        }
        let flight = Flight::begin(&self.traffic);
        let request = request.map(|body| InboundBody::new(body, flight.clone()));
        let answer = (self.service)(request);
        async move {
            let mut response = answer.await;
            // What is left of the body would be read as the next request.
            if flight.is_unread() && !http2 {
                response
                    .headers_mut()
                    .insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response.map(|body| Outbound {
                body,
                _flight: flight,
            }))
        }
    }
}

/// Runs what belongs to a connection, and lets it go when the connection ends.
#[derive(Clone)]
struct Tied(CancellationToken);

impl<F> Executor<F> for Tied
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        let gone = self.0.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = gone.cancelled() => {}
                () = future => {}
            }
        });
    }
}
