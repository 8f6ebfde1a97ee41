//! The commands' side of the admin socket.

use std::io::ErrorKind;
use std::path::PathBuf;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::admin::{socket, wire};

/// The largest answer that a command reads.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// Why a command was not done.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answers.
    #[error(
        "no host is running: nothing answers on {}. Start one with `jackfield serve`, or pass the --config of the one you mean",
        .0.display()
    )]
    NotRunning(PathBuf),
    /// The socket is another user's.
    #[error("{} is another user's: run this as the user that the host runs as", .0.display())]
    NotOurs(PathBuf),
    /// The host said no.
    #[error("{}", .0.message)]
    Refused(wire::Fault),
    /// The connection failed.
    #[error("the host did not answer on {}", .0.display())]
    Failed(PathBuf, #[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Speaks to one running host.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// A client of the host whose admin socket is at `socket`. Connects
    /// nowhere yet.
    #[must_use]
    pub fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// Looks whether a host answers, before somebody types a value for it.
    ///
    /// # Errors
    /// When none does.
    pub async fn answers(&self) -> Result<(), ClientError> {
        self.get::<wire::Status>("/status").await.map(|_status| ())
    }

    /// Asks.
    ///
    /// # Errors
    /// When no host answers, or it refuses.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.call(Method::GET, path, Bytes::new()).await
    }

    /// Has something done that needs nothing but its path.
    ///
    /// # Errors
    /// When no host answers, or it refuses.
    pub async fn act<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
    ) -> Result<T, ClientError> {
        self.call(method, path, Bytes::new()).await
    }

    /// Sends something.
    ///
    /// # Errors
    /// When no host answers, or it refuses.
    pub async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(|error| self.failed(error))?;
        self.call(method, path, body.into()).await
    }

    /// Hands bytes over.
    ///
    /// # Errors
    /// When no host answers, or it refuses.
    pub async fn hand<T: DeserializeOwned>(
        &self,
        path: &str,
        bytes: Bytes,
    ) -> Result<T, ClientError> {
        self.call(Method::POST, path, bytes).await
    }

    /// The counters, as text.
    ///
    /// # Errors
    /// When no host answers.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        let body = self.exchange(Method::GET, "/metrics", Bytes::new()).await?;
        String::from_utf8(body.into()).map_err(|error| self.failed(error))
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, ClientError> {
        let answer = self.exchange(method, path, body).await?;
        serde_json::from_slice(&answer).map_err(|error| self.failed(error))
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Bytes, ClientError> {
        let stream = socket::connect(&self.socket)
            .await
            .map_err(|cause| self.unreachable(cause))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.failed(error))?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "jackfield")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| self.failed(error))?;
        let exchange = async {
            let answer = sender
                .send_request(request)
                .await
                .map_err(|error| self.failed(error))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), MAX_ANSWER)
                .collect()
                .await
                .map_err(|error| self.failed(error))?
                .to_bytes();
            // With the sender the connection ends, and so does the join below.
            drop(sender);
            Ok((status, body))
        };
        // What ends the connection shows in the exchange, too.
        let (exchanged, _ended) = tokio::join!(exchange, connection);
        let (status, body) = exchanged?;
        if status.is_success() {
            return Ok(body);
        }
        match serde_json::from_slice::<wire::Refused>(&body) {
            Ok(refused) => Err(ClientError::Refused(refused.error)),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn unreachable(&self, cause: std::io::Error) -> ClientError {
        let kind = cause.kind();
        if kind == ErrorKind::NotFound || kind == ErrorKind::ConnectionRefused {
            ClientError::NotRunning(self.socket.clone())
        } else if kind == ErrorKind::PermissionDenied {
            ClientError::NotOurs(self.socket.clone())
        } else {
            self.failed(cause)
        }
    }

    fn failed(&self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ClientError {
        ClientError::Failed(self.socket.clone(), cause.into())
    }
}
