//! One socket towards an upstream, plain or TLS.
//!
//! An upstream may answer early and stop reading. Writing to it then fails
//! while its answer still waits to be read, so a failed write is not an error
//! here: what follows is thrown away, and the reading side tells how it ended.
//! An end of file after that is never taken for a clean one.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(super) struct UpstreamIo {
    transport: Transport,
    write_broken: bool,
    look: Look,
}

/// Asks a socket, at its next read, whether its peer has ended it: the runtime
/// tells that only a moment after it has happened.
#[derive(Clone, Default)]
pub(super) struct Look(Arc<AtomicBool>);

impl Look {
    /// Has the next read look. Only where nothing is expected to come.
    pub(super) fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl UpstreamIo {
    pub(super) fn plain(stream: TcpStream) -> Self {
        Self {
            transport: Transport::Plain(stream),
            write_broken: false,
            look: Look::default(),
        }
    }

    pub(super) fn tls(stream: TlsStream<TcpStream>) -> Self {
        Self {
            transport: Transport::Tls(Box::new(stream)),
            write_broken: false,
            look: Look::default(),
        }
    }

    /// What has its next read look.
    pub(super) fn look(&self) -> Look {
        self.look.clone()
    }

    /// Whether anything has come on a socket on which nothing should have: its
    /// end, or what is no answer to anybody.
    fn has_ended(&self) -> bool {
        let stream = match &self.transport {
            Transport::Plain(stream) => stream,
            Transport::Tls(stream) => stream.get_ref().0,
        };
        let peeked = SockRef::from(stream).peek(&mut [MaybeUninit::uninit()]);
        !peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    fn written(&mut self, outcome: io::Result<usize>, length: usize) -> io::Result<usize> {
        match outcome {
            Err(error) if is_gone(&error) => {
                self.write_broken = true;
                Ok(length)
            }
            Ok(_) | Err(_) => outcome,
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
    )
}

impl AsyncRead for UpstreamIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.look.0.swap(false, Ordering::Relaxed) && self.has_ended() {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        })?;
        let ended = buffer.filled().len() == before && buffer.remaining() > 0;
        if ended && self.write_broken {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for UpstreamIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.write_broken {
            return Poll::Ready(Ok(bytes.len()));
        }
        let outcome = ready!(match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        });
        Poll::Ready(self.written(outcome, bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = slices.iter().map(|slice| slice.len()).sum();
        if self.write_broken {
            return Poll::Ready(Ok(length));
        }
        let outcome = ready!(match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Transport::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        });
        Poll::Ready(self.written(outcome, length))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.write_broken {
            return Poll::Ready(Ok(()));
        }
        let outcome = ready!(match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(context),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(context),
        });
        Poll::Ready(self.written(outcome.map(|()| 0), 0).map(|_| ()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use futures_util::FutureExt;

    use super::*;
    use crate::relay::tests::line::{Upstream, within};

    #[tokio::test]
    async fn an_end_is_seen_before_the_runtime_has_told_it() {
        let upstream = Upstream::start().await;
        for asked in [false, true] {
            let stream = TcpStream::connect(upstream.address()).await.unwrap();
            let line = upstream.accept().await;
            let mut io = UpstreamIo::plain(stream);
            let mut byte = [0; 1];
            assert!(io.read(&mut byte).now_or_never().is_none());
            // Nothing has come: it looks, and goes on.
            io.look().ask();
            assert!(io.read(&mut byte).now_or_never().is_none());
            drop(line);
            // Nothing is awaited here, so the runtime knows of nothing yet.
            if asked {
                io.look().ask();
            }
            let read = io.read(&mut byte).now_or_never();
            assert_eq!(read.map(|read| read.unwrap()), asked.then_some(0));
        }
    }

    #[tokio::test]
    async fn an_end_after_a_failed_write_is_no_clean_end() {
        let upstream = Upstream::start().await;
        let stream = TcpStream::connect(upstream.address()).await.unwrap();
        upstream.accept().await.reset();
        let mut io = UpstreamIo::plain(stream);
        // The first write takes the news of the reset away from the reader.
        while !io.write_broken {
            within(io.write_all(b"x")).await.unwrap();
        }
        assert!(within(io.read(&mut [0; 8])).await.is_err());
    }
}
