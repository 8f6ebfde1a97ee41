//! A box: it says exactly the bytes that a test wants said, and tells an
//! answer's end from a break.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::soon;
use crate::tap::Tap;
use crate::wire::{Fields, Framing, Transport, Wire, framing_of};

/// A request to be said.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The request target, byte for byte.
    pub target: String,
    /// The header lines; `Host` and the body's length are added when sent.
    pub fields: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Bytes,
}

impl Request {
    /// A request of any method.
    #[must_use]
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            fields: Vec::new(),
            body: Bytes::new(),
        }
    }

    /// A GET.
    #[must_use]
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// A POST.
    #[must_use]
    pub fn post(target: &str) -> Self {
        Self::new("POST", target)
    }

    /// Adds a header line.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.fields.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// Adds `Authorization: Bearer`.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.header("authorization", format!("Bearer {token}"))
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets a JSON body.
    #[must_use]
    pub fn json(self, value: &Value) -> Self {
        self.header("content-type", "application/json")
            .body(value.to_string())
    }

    /// The head, and the body after it.
    #[must_use]
    pub fn bytes(&self, host: SocketAddr) -> Vec<u8> {
        let has = |name: &str| {
            self.fields
                .iter()
                .any(|(field, _)| field.eq_ignore_ascii_case(name))
        };
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        if !has("host") {
            bytes.extend_from_slice(format!("Host: {host}\r\n").as_bytes());
        }
        for (name, value) in &self.fields {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        let framed = has("content-length") || has("transfer-encoding");
        if !framed && (self.method == "POST" || !self.body.is_empty()) {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n", self.body.len()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// An answer, whole.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The header lines.
    pub fields: Fields,
    /// The body.
    pub body: Bytes,
    /// The trailers.
    pub trailers: Fields,
}

impl Response {
    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {:?}", self.status, self.text()))
    }
}

/// A connection to the host.
pub struct Client {
    wire: Wire,
    address: SocketAddr,
    method: String,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When nobody listens.
    pub async fn connect(address: SocketAddr, tap: Tap) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self::over(Transport::Plain(stream), address, tap))
    }

    /// Takes a connection that was made already, such as one under TLS.
    #[must_use]
    pub fn over(transport: Transport, address: SocketAddr, tap: Tap) -> Self {
        Self {
            wire: Wire::new(transport, tap),
            address,
            method: String::new(),
        }
    }

    /// Says a request.
    ///
    /// # Panics
    /// When the host does not take it.
    pub async fn send(&mut self, request: &Request) {
        self.method.clone_from(&request.method);
        let bytes = request.bytes(self.address);
        // A host that refuses may answer and close before it has read all of
        // it; the answer is then still to be read.
        let _ = soon("the request is taken", self.wire.send(&bytes)).await;
    }

    /// Says these bytes.
    ///
    /// # Errors
    /// When the host has closed.
    pub async fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        soon("the bytes are taken", self.wire.send(bytes)).await
    }

    /// Says one chunk of a request's body; an empty one ends it.
    ///
    /// # Errors
    /// When the host has closed.
    pub async fn send_chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        soon("the chunk is taken", self.wire.send_chunk(bytes)).await
    }

    /// Reads the answer's head, whatever its status.
    ///
    /// # Errors
    /// When the connection ends before it.
    pub async fn head(&mut self) -> io::Result<Response> {
        let head = soon("an answer's head", self.wire.head()).await?;
        let Some(head) = head else {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the connection ended without an answer",
            ));
        };
        let status: u16 = head
            .start
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .unwrap_or_else(|| panic!("{:?} is no status line", head.start));
        let bodiless = self.method == "HEAD" || status < 200 || status == 204 || status == 304;
        self.wire.expect_body(if bodiless {
            Framing::Done
        } else {
            framing_of(&head.fields, Framing::UntilClose)
        });
        Ok(Response {
            status,
            fields: head.fields,
            body: Bytes::new(),
            trailers: Fields::default(),
        })
    }

    /// The next bytes of the answer's body; none at its clean end.
    ///
    /// # Errors
    /// When the answer breaks off.
    pub async fn part(&mut self) -> io::Result<Option<Bytes>> {
        soon("more of the answer", self.wire.part()).await
    }

    /// Exactly this many bytes of the answer's body.
    ///
    /// # Errors
    /// When it ends or breaks off before.
    pub async fn body_bytes(&mut self, count: usize) -> io::Result<Bytes> {
        soon("more of the answer", self.wire.body_bytes(count)).await
    }

    /// The rest of the answer's body.
    ///
    /// # Errors
    /// When the answer breaks off.
    pub async fn body(&mut self) -> io::Result<Bytes> {
        soon("the rest of the answer", self.wire.body()).await
    }

    /// Reads a whole answer, passing over interim ones.
    ///
    /// # Errors
    /// When it breaks off.
    pub async fn response(&mut self) -> io::Result<Response> {
        let mut response = self.head().await?;
        while response.status < 200 {
            response = self.head().await?;
        }
        response.body = self.body().await?;
        response.trailers = self.wire.trailers().clone();
        Ok(response)
    }

    /// Resolves when the host has ended the connection.
    pub async fn gone(&mut self) {
        soon("the host closes", self.wire.gone()).await;
    }

    /// Ends the sending half.
    ///
    /// # Errors
    /// When the host has closed.
    pub async fn end(&mut self) -> io::Result<()> {
        self.wire.end().await
    }

    /// Leaves with a reset.
    pub fn reset(self) {
        self.wire.reset();
    }
}
