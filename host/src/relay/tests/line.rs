//! A scripted end of a TCP connection, and HTTP as bytes.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::rules::origin::Origin;

/// The outer limit of everything that is awaited.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Awaits something that must happen.
pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, what)
        .await
        .expect("it happens long before this")
}

/// An upstream that does only what a test says.
pub(crate) struct Upstream(TcpListener);

impl Upstream {
    pub(crate) async fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    pub(crate) fn origin(&self) -> Origin {
        Origin::parse(&format!("http://{}", self.address())).unwrap()
    }

    pub(crate) async fn accept(&self) -> Line {
        let (stream, _) = within(self.0.accept()).await.unwrap();
        Line::new(stream)
    }

    /// Whether nobody has connected: what was connected is queued already.
    pub(crate) fn is_untouched(&self) -> bool {
        socket2::SockRef::from(&self.0).accept().is_err()
    }
}

/// One end of a connection.
pub(crate) struct Line {
    pub(crate) stream: TcpStream,
    read: Vec<u8>,
}

impl Line {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            read: Vec::new(),
        }
    }

    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::new(within(TcpStream::connect(address)).await.unwrap())
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        within(self.stream.write_all(bytes.as_ref())).await.unwrap();
    }

    /// Reads a head, up to the empty line.
    pub(crate) async fn head(&mut self) -> String {
        let bytes = self.until(b"\r\n\r\n").await;
        String::from_utf8(bytes).unwrap()
    }

    /// Reads up to and with a mark.
    pub(crate) async fn until(&mut self, mark: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = memchr::memmem::find(&self.read, mark) {
                return self.read.drain(..at + mark.len()).collect();
            }
            assert!(self.more().await, "ended early: {:?}", self.text());
        }
    }

    /// Reads so many bytes.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<u8> {
        while self.read.len() < count {
            assert!(self.more().await, "ended early: {:?}", self.text());
        }
        self.read.drain(..count).collect()
    }

    /// Reads one chunk of a chunked body; none for the last.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = String::from_utf8(self.until(b"\r\n").await).unwrap();
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        if size == 0 {
            return None;
        }
        let chunk = self.take(size).await;
        assert_eq!(self.take(2).await, b"\r\n");
        Some(chunk)
    }

    /// Reads to the end of a chunked body.
    pub(crate) async fn chunks(&mut self) -> Vec<u8> {
        let mut whole = Vec::new();
        while let Some(chunk) = self.chunk().await {
            whole.extend(chunk);
        }
        assert_eq!(self.take(2).await, b"\r\n");
        whole
    }

    /// Reads to the end; false when it ended by a reset.
    pub(crate) async fn rest(&mut self) -> (Vec<u8>, bool) {
        loop {
            match within(self.stream.read_buf(&mut self.read)).await {
                Ok(0) => return (std::mem::take(&mut self.read), true),
                Ok(_) => {}
                Err(_) => return (std::mem::take(&mut self.read), false),
            }
        }
    }

    async fn more(&mut self) -> bool {
        within(self.stream.read_buf(&mut self.read))
            .await
            .is_ok_and(|read| read > 0)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.read).into_owned()
    }

    /// Ends, and returns when the other side's system knows. It blocks: nothing
    /// else runs meanwhile.
    pub(crate) fn close(self) {
        let stream = self.stream.into_std().unwrap();
        socket2::SockRef::from(&stream)
            .set_linger(Some(LONG))
            .unwrap();
        stream.set_nonblocking(false).unwrap();
        drop(stream);
    }

    /// Ends with a reset.
    pub(crate) fn reset(self) {
        socket2::SockRef::from(&self.stream)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    }
}

/// The lines of one field, in order, as they stand.
pub(crate) fn field<'a>(head: &'a str, name: &str) -> Vec<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .filter(|(field, _)| field.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .collect()
}
