//! HTTP/2 on both ends: a box that speaks it with prior knowledge, and an
//! upstream that offers nothing else.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use crate::soon;
use crate::upstream::{Received, Reply, Shared};
use crate::wire::Fields;

/// A box that speaks HTTP/2.
#[derive(Clone)]
pub struct H2Client {
    sender: SendRequest<Full<Bytes>>,
    address: SocketAddr,
}

impl H2Client {
    /// Connects with prior knowledge.
    ///
    /// # Panics
    /// When the host does not speak it.
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the host listens");
        Self::over(stream, address).await
    }

    /// Speaks HTTP/2 over a connection that was made already.
    ///
    /// # Panics
    /// When the host does not speak it.
    pub async fn over<S>(stream: S, address: SocketAddr) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // A window of the connection that many unread streams cannot fill.
        let handshake = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(256 * 1024)
            .initial_connection_window_size(64 * 1024 * 1024)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = soon("an HTTP/2 handshake", handshake)
            .await
            .expect("the host speaks HTTP/2");
        tokio::spawn(connection);
        Self { sender, address }
    }

    /// Says a request and reads the answer's head.
    ///
    /// # Errors
    /// When the host resets the stream.
    ///
    /// # Panics
    /// When the request is malformed.
    pub async fn send(
        &mut self,
        method: &str,
        target: &str,
        token: &str,
        body: impl Into<Bytes>,
    ) -> hyper::Result<http::Response<Incoming>> {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("http://{}{target}", self.address))
            .header("authorization", format!("Bearer {token}"))
            .body(Full::new(body.into()))
            .expect("a request");
        self.say(request).await
    }

    /// Says a request as it is and reads the answer's head.
    ///
    /// # Errors
    /// When the host resets the stream.
    pub async fn say(
        &mut self,
        request: http::Request<Full<Bytes>>,
    ) -> hyper::Result<http::Response<Incoming>> {
        self.sender.ready().await?;
        soon("an answer's head", self.sender.send_request(request)).await
    }
}

/// The next bytes of an answer; none at its clean end.
///
/// # Errors
/// When the stream is reset.
pub async fn part(response: &mut http::Response<Incoming>) -> hyper::Result<Option<Bytes>> {
    loop {
        match soon("more of the answer", response.body_mut().frame()).await {
            None => return Ok(None),
            Some(frame) => {
                // An empty frame that only carries the end says nothing.
                if let Ok(data) = frame?.into_data()
                    && !data.is_empty()
                {
                    return Ok(Some(data));
                }
            }
        }
    }
}

pub(crate) async fn serve(stream: TlsStream<TcpStream>, connection: usize, shared: Arc<Shared>) {
    let tap = shared.taps.open();
    let service = service_fn(move |request: http::Request<Incoming>| {
        let (shared, tap) = (Arc::clone(&shared), tap.clone());
        async move {
            let (head, body) = request.into_parts();
            let fields = head
                .headers
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
                .collect();
            let body = body.collect().await.map(|body| body.to_bytes());
            let received = Received {
                method: head.method.as_str().to_owned(),
                target: head
                    .uri
                    .path_and_query()
                    .map_or_else(String::new, |target| target.as_str().to_owned()),
                fields: Fields(fields),
                body: body.unwrap_or_default(),
                connection,
            };
            tap.keep(format!("{received:?}").as_bytes());
            tap.keep(&received.body);
            let response = match shared.answer(received) {
                Reply::Message {
                    status,
                    fields,
                    body,
                } => fields
                    .iter()
                    .fold(
                        http::Response::builder().status(status),
                        |built, (name, value)| built.header(name, value.as_slice()),
                    )
                    .body(Full::new(body)),
                Reply::Raw(_) | Reply::Reset => http::Response::builder()
                    .status(500)
                    .body(Full::new(Bytes::from_static(b"not said over HTTP/2"))),
            };
            Ok::<_, Infallible>(response.expect("the stand-in's answer is well formed"))
        }
    });
    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
