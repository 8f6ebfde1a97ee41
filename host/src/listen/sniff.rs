//! Which HTTP a connection speaks, told from its first bytes (RFC 9113, 3.4).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Reads until it is clear, and gives what was read back; true for HTTP/2.
pub(super) async fn sniff<I: AsyncRead + Unpin>(mut io: I) -> io::Result<(Rewound<I>, bool)> {
    let mut read = Vec::with_capacity(PREFACE.len());
    while read.len() < PREFACE.len() && PREFACE.starts_with(&read) {
        let mut rest = (&mut io).take(u64::try_from(PREFACE.len() - read.len()).unwrap_or(0));
        if rest.read_buf(&mut read).await? == 0 {
            break;
        }
    }
    let http2 = read == PREFACE;
    let first = read.into();
    Ok((Rewound { first, io }, http2))
}

/// A connection of which some bytes have been read already.
pub(super) struct Rewound<I> {
    first: Bytes,
    io: I,
}

impl<I> Rewound<I> {
    /// A connection of which nothing has been read.
    pub(super) fn fresh(io: I) -> Self {
        Self {
            first: Bytes::new(),
            io,
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Rewound<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.io).poll_read(context, buffer);
        }
        let length = self.first.len().min(buffer.remaining());
        let chunk = self.first.slice(..length);
        buffer.put_slice(&chunk);
        self.first.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Rewound<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
