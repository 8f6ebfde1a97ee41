//! A peer's TCP connection, shared between whoever serves HTTP on it and
//! whoever watches for its end: hyper stops reading, and so stops noticing,
//! once it holds a byte of a next request.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::listen::traffic::Traffic;

/// How much of an unread request is read and thrown away, so that closing does
/// not destroy the answer on its way.
const LINGER_BYTES: usize = 1024 * 1024;

/// How long that may take.
const LINGER_TIME: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(super) struct Socket {
    stream: Arc<TcpStream>,
    traffic: Arc<Traffic>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, traffic: Arc<Traffic>) -> Self {
        Self {
            stream: Arc::new(stream),
            traffic,
        }
    }

    /// Waits until the peer has closed its side, whatever is left unread.
    pub(super) async fn closed(&self) {
        // Priority data is not asked for, so this wakes for the end alone.
        loop {
            match self.stream.ready(Interest::PRIORITY).await {
                Ok(ready) if !ready.is_read_closed() => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Closes in peace: says that no more is coming, and takes in what the peer
    /// still sends, within limits.
    pub(super) async fn linger(&self) {
        if SockRef::from(&*self.stream)
            .shutdown(Shutdown::Write)
            .is_err()
        {
            return;
        }
        let drain = async {
            let mut buffer = vec![0; 16 * 1024];
            let mut left = LINGER_BYTES;
            while left > 0 && self.stream.readable().await.is_ok() {
                match self.stream.try_read(&mut buffer) {
                    Ok(0) => return,
                    Ok(read) => left = left.saturating_sub(read),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        };
        // Whether it ended by itself or not, the connection is done.
        let _ = tokio::time::timeout(LINGER_TIME, drain).await;
    }

    /// Makes the close a reset, for a peer that could take a plain one for the
    /// end of an answer.
    pub(super) fn reset_on_close(&self) {
        if let Err(error) = SockRef::from(&*self.stream).set_linger(Some(Duration::ZERO)) {
            tracing::debug!(%error, "a broken answer could not be reset");
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            match self.read_some(buffer) {
                Ok(read) => {
                    if read > 0 {
                        self.traffic.received();
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl Socket {
    /// Reads what is there. A read that leaves room has taken everything, and
    /// the runtime is told so at once: another read to find that out would cost
    /// each request a call of the system.
    fn read_some(&self, buffer: &mut ReadBuf<'_>) -> io::Result<usize> {
        let mut read = None;
        let looked = self.stream.try_io(Interest::READABLE, || {
            match read.insert(self.stream.try_read_buf(buffer)) {
                // Said of what was known before the read: what has come since
                // is told anew.
                Ok(1..) if buffer.remaining() > 0 => Err(io::ErrorKind::WouldBlock.into()),
                Ok(_) | Err(_) => Ok(()),
            }
        });
        read.unwrap_or_else(|| looked.map(|()| 0))
    }

    fn poll_send(
        &self,
        context: &mut Context<'_>,
        send: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let ready = self.stream.poll_write_ready(context);
            self.traffic.sent(ready.is_pending());
            ready!(ready)?;
            match send(&self.stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return Poll::Ready(outcome),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(context, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(context, |stream| stream.try_write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.stream).shutdown(Shutdown::Write))
    }
}
