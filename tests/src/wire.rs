//! HTTP/1.1 framing over one connection, for both ends: heads and bodies byte
//! for byte, in their order, and an end that is told apart from a break.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

use crate::tap::Tap;

/// A connection, plain or under TLS.
pub enum Transport {
    /// TCP.
    Plain(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// Header lines as they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(pub Vec<(String, Vec<u8>)>);

impl Fields {
    /// The values of every line of this name, in order.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<String> {
        self.0
            .iter()
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
            .collect()
    }

    /// The first value of this name.
    #[must_use]
    pub fn first(&self, name: &str) -> Option<String> {
        self.all(name).into_iter().next()
    }

    /// Whether a line of this name is there.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.first(name).is_some()
    }
}

/// A start line and the header lines after it.
#[derive(Debug, Clone)]
pub struct Head {
    /// The request line or status line.
    pub start: String,
    /// The header lines.
    pub fields: Fields,
}

/// How a body's end is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// This many bytes are still to come.
    Length(u64),
    /// Chunks; this much of the present one is still to come.
    Chunked(u64),
    /// The connection's end is the body's.
    UntilClose,
    /// Nothing more.
    Done,
}

/// One connection.
pub struct Wire {
    transport: Transport,
    buffer: BytesMut,
    tap: Tap,
    framing: Framing,
    trailers: Fields,
}

impl Wire {
    /// Takes a connection.
    #[must_use]
    pub fn new(transport: Transport, tap: Tap) -> Self {
        Self {
            transport,
            buffer: BytesMut::new(),
            tap,
            framing: Framing::Done,
            trailers: Fields::default(),
        }
    }

    /// Sends these bytes.
    ///
    /// # Errors
    /// When the peer is gone.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.transport.write_all(bytes).await?;
        self.transport.flush().await
    }

    /// Sends one chunk.
    ///
    /// # Errors
    /// When the peer is gone.
    pub async fn send_chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.send(&chunk).await
    }

    /// Reads a head; none when the peer ends the connection before one.
    ///
    /// # Errors
    /// When the connection breaks inside the head, or it is none.
    pub async fn head(&mut self) -> io::Result<Option<Head>> {
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if self.fill().await? == 0 {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(broken("the connection ended inside a head"))
                };
            }
        };
        let head = self.buffer.split_to(end);
        parse_head(&head).map(Some)
    }

    /// Says how the body that follows is framed.
    pub fn expect_body(&mut self, framing: Framing) {
        self.framing = framing;
        self.trailers = Fields::default();
    }

    /// The trailers of the body that has ended.
    #[must_use]
    pub fn trailers(&self) -> &Fields {
        &self.trailers
    }

    /// The next bytes of the body as they arrive; none at its end.
    ///
    /// # Errors
    /// When the connection ends before the body does.
    pub async fn part(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            match self.framing {
                Framing::Done => return Ok(None),
                Framing::Length(0) => self.framing = Framing::Done,
                Framing::Length(left) => {
                    let part = self.take(left).await?;
                    self.framing = Framing::Length(left - part.len() as u64);
                    return Ok(Some(part));
                }
                Framing::UntilClose => {
                    if self.buffer.is_empty() && self.fill().await? == 0 {
                        self.framing = Framing::Done;
                        return Ok(None);
                    }
                    return Ok(Some(self.buffer.split().freeze()));
                }
                Framing::Chunked(0) => self.chunk_head().await?,
                Framing::Chunked(left) => {
                    let part = self.take(left).await?;
                    let left = left - part.len() as u64;
                    self.framing = Framing::Chunked(left);
                    if left == 0 {
                        self.line().await?;
                    }
                    return Ok(Some(part));
                }
            }
        }
    }

    /// The rest of the body.
    ///
    /// # Errors
    /// When the connection ends before the body does.
    pub async fn body(&mut self) -> io::Result<Bytes> {
        let mut body = BytesMut::new();
        while let Some(part) = self.part().await? {
            body.extend_from_slice(&part);
        }
        Ok(body.freeze())
    }

    /// Exactly this many bytes of the body, however they are cut.
    ///
    /// # Errors
    /// When the body or the connection ends before.
    pub async fn body_bytes(&mut self, count: usize) -> io::Result<Bytes> {
        let mut body = BytesMut::new();
        while body.len() < count {
            match self.part().await? {
                Some(part) => body.extend_from_slice(&part),
                None => return Err(broken("the body ended early")),
            }
        }
        Ok(body.freeze())
    }

    /// Resolves when the peer has ended or broken the connection.
    pub async fn gone(&mut self) {
        while matches!(self.fill().await, Ok(count) if count > 0) {}
    }

    /// Breaks the connection: the peer sees a reset.
    pub fn reset(self) {
        let _ = socket2::SockRef::from(self.transport.tcp())
            .set_linger(Some(std::time::Duration::ZERO));
    }

    /// Ends the sending half.
    ///
    /// # Errors
    /// When the peer is gone.
    pub async fn end(&mut self) -> io::Result<()> {
        self.transport.shutdown().await
    }

    async fn chunk_head(&mut self) -> io::Result<()> {
        let line = self.line().await?;
        let digits = line.split(';').next().unwrap_or("").trim();
        let size = u64::from_str_radix(digits, 16)
            .map_err(|_| broken(&format!("{line:?} is no chunk size")))?;
        self.framing = Framing::Chunked(size);
        if size == 0 {
            loop {
                let line = self.line().await?;
                if line.is_empty() {
                    break;
                }
                self.trailers.0.push(parse_field(line.as_bytes())?);
            }
            self.framing = Framing::Done;
        }
        Ok(())
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(at) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..at]).into_owned();
                self.buffer.advance(at + 2);
                return Ok(line);
            }
            if self.fill().await? == 0 {
                return Err(broken("the connection ended inside a chunk"));
            }
        }
    }

    async fn take(&mut self, most: u64) -> io::Result<Bytes> {
        if self.buffer.is_empty() && self.fill().await? == 0 {
            return Err(broken("the connection ended inside a body"));
        }
        let count = self
            .buffer
            .len()
            .min(usize::try_from(most).unwrap_or(usize::MAX));
        Ok(self.buffer.split_to(count).freeze())
    }

    async fn fill(&mut self) -> io::Result<usize> {
        let before = self.buffer.len();
        self.buffer.reserve(64 * 1024);
        let count = self.transport.read_buf(&mut self.buffer).await?;
        self.tap.keep(&self.buffer[before..]);
        Ok(count)
    }
}

/// How the body after this head is framed, where nothing is said of it but in
/// the head. `without` is what no framing header means.
#[must_use]
pub fn framing_of(fields: &Fields, without: Framing) -> Framing {
    let chunked = fields
        .all("transfer-encoding")
        .iter()
        .any(|value| value.to_ascii_lowercase().ends_with("chunked"));
    if chunked {
        return Framing::Chunked(0);
    }
    match fields.first("content-length") {
        Some(length) => length.trim().parse().map_or(without, Framing::Length),
        None => without,
    }
}

fn parse_head(bytes: &[u8]) -> io::Result<Head> {
    let text = bytes.strip_suffix(b"\r\n\r\n").unwrap_or(bytes);
    let mut lines = split_lines(text).into_iter();
    let start = lines.next().unwrap_or_default();
    let fields = lines
        .map(parse_field)
        .collect::<io::Result<Vec<(String, Vec<u8>)>>>()?;
    Ok(Head {
        start: String::from_utf8_lossy(start).into_owned(),
        fields: Fields(fields),
    })
}

fn split_lines(mut text: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while let Some(at) = text.windows(2).position(|two| two == b"\r\n") {
        lines.push(&text[..at]);
        text = &text[at + 2..];
    }
    lines.push(text);
    lines
}

fn parse_field(line: &[u8]) -> io::Result<(String, Vec<u8>)> {
    let colon = line
        .iter()
        .position(|byte| *byte == b':')
        .ok_or_else(|| broken("a header line without a colon"))?;
    let name = String::from_utf8_lossy(&line[..colon]).into_owned();
    Ok((name, line[colon + 1..].trim_ascii().to_vec()))
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, what.to_owned())
}
