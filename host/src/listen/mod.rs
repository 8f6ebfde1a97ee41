//! Where boxes connect: accepting, TLS, HTTP/1.1 and HTTP/2, limits on heads
//! and connections, and an end without loss. It knows no protocol above HTTP.
//!
//! In reading order: [`Listener`] accepts, `crowd` has room for so many,
//! [`Workers`] have a thread for it, `connection` serves one peer, `sniff` tells which HTTP it speaks, `socket`
//! knows when it has left.

mod aside;
mod body;
mod connection;
mod crowd;
mod sniff;
mod socket;
#[cfg(test)]
mod tests;
mod tls;
mod traffic;
mod workers;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use http::{Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::listen::connection::Peer;
use crate::listen::crowd::Crowd;
use crate::listen::traffic::Traffic;

pub use crate::listen::body::{InboundBody, ResponseBody};
pub use crate::listen::tls::TlsSettings;
pub use crate::listen::workers::Workers;

/// Any error of a body that somebody else made.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Limits on connections. Everything has a working default.
#[derive(Debug, Clone)]
pub struct ListenSettings {
    /// How many connections are open at once. One more takes the place of one
    /// that lies unused, or waits.
    pub connections: usize,
    /// How long a new connection may take to say its first byte, TLS included.
    pub first_byte: Duration,
    /// How long a head may take from its first byte to its last.
    pub head: Duration,
    /// How long a connection may lie unused.
    pub keep_alive: Duration,
    /// How long an answer may wait for a reader that takes nothing.
    pub stall: Duration,
    /// How long an answer goes on to a peer that has closed its side, before
    /// it counts as gone.
    pub farewell: Duration,
    /// How large a head may be.
    pub head_bytes: u32,
    /// How many requests one HTTP/2 connection carries at once.
    pub streams: u32,
    /// How much of one HTTP/2 upload is buffered before it is read.
    pub stream_window: u32,
}

impl Default for ListenSettings {
    fn default() -> Self {
        Self {
            connections: 12_288,
            first_byte: Duration::from_secs(10),
            head: Duration::from_secs(15),
            keep_alive: Duration::from_secs(120),
            stall: Duration::from_secs(15 * 60),
            farewell: Duration::from_millis(300),
            head_bytes: 64 * 1024,
            streams: 128,
            stream_window: 256 * 1024,
        }
    }
}

/// Why nothing listens.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Certificate or key cannot be used.
    #[error("{what} of [tls] cannot be used: {reason}")]
    Tls {
        /// The setting.
        what: &'static str,
        /// Why.
        reason: String,
    },
}

/// A bound listener.
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    settings: Arc<ListenSettings>,
    open: Arc<AtomicU64>,
}

impl Listener {
    /// Binds an address; port 0 picks one.
    ///
    /// # Errors
    /// When the address is taken, or TLS cannot be set up.
    pub async fn bind(
        address: SocketAddr,
        tls: Option<TlsSettings>,
        settings: ListenSettings,
    ) -> Result<Self, ListenError> {
        let bind = |source| ListenError::Bind { address, source };
        let acceptor = tls.map(|tls| tls::acceptor(&tls)).transpose()?;
        let listener = TcpListener::bind(address).await.map_err(bind)?;
        Ok(Self {
            address: listener.local_addr().map_err(bind)?,
            listener,
            acceptor,
            settings: Arc::new(settings),
            open: Arc::default(),
        })
    }

    /// The address that is listened on.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// How many connections are open.
    #[must_use]
    pub fn open_connections(&self) -> Arc<AtomicU64> {
        self.open.clone()
    }

    /// Serves on these threads until `shutdown`, then finishes what is in
    /// flight within `drain`, then cuts what is left.
    pub async fn serve<S, F>(
        self,
        service: S,
        workers: &Workers,
        shutdown: CancellationToken,
        drain: Duration,
    ) where
        S: Fn(Request<InboundBody>) -> F + Clone + Send + Sync + Unpin + 'static,
        F: Future<Output = Response<ResponseBody>> + Send + 'static,
    {
        let crowd = Crowd::new(self.settings.connections, self.open);
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                accepted = accept(&self.listener) => accepted,
            };
            let Some(stream) = accepted else {
                continue;
            };
            let traffic = Traffic::new();
            let place = tokio::select! {
                () = shutdown.cancelled() => break,
                place = crowd.place(&traffic) => place,
            };
            let peer = Peer {
                settings: self.settings.clone(),
                acceptor: self.acceptor.clone(),
                shutdown: shutdown.clone(),
            };
            let service = service.clone();
            // It leaves the runtime that accepts, and its events with it.
            let (Ok(stream), Some(seat)) = (stream.into_std(), workers.seat()) else {
                continue;
            };
            let runtime = seat.runtime();
            let served = async move {
                if let Ok(stream) = TcpStream::from_std(stream) {
                    peer.serve(stream, traffic, service).await;
                }
                drop((place, seat));
            };
            connections.spawn_on(served, &runtime);
        }
        // Nobody new; whoever connects now is told so by the system.
        drop(self.listener);
        let finish = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(drain, finish).await.is_err() {
            connections.shutdown().await;
        }
    }
}

/// Waits for a connection; none when accepting failed.
async fn accept(listener: &TcpListener) -> Option<TcpStream> {
    match listener.accept().await {
        Ok((stream, _)) => Some(stream),
        Err(error) => {
            // A peer that left early is no reason to wait; no descriptors is.
            if error.kind() != io::ErrorKind::ConnectionAborted {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            None
        }
    }
}
