//! Making a connection: resolve, judge every address, dial the one that was
//! judged. The environment's proxy variables are not read.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::relay::failure::RelayFailure;
use crate::relay::io::UpstreamIo;
use crate::relay::tls::{Clients, ExtraCa, server_name};
use crate::rules::address::may_dial;
use crate::rules::origin::{Origin, Scheme};

/// How long one address may keep the next one waiting.
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// Our own listening addresses, which are never dialed. Filled in once they
/// are bound.
#[derive(Debug, Clone, Default)]
pub struct OwnListeners(Arc<RwLock<Vec<SocketAddr>>>);

impl OwnListeners {
    /// Adds a listener's address.
    pub fn add(&self, address: SocketAddr) {
        self.0
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(address);
    }

    /// Whether dialing this address would reach a listener of ours.
    fn hold(&self, target: SocketAddr) -> bool {
        let listeners = self.0.read().unwrap_or_else(PoisonError::into_inner);
        listeners.iter().any(|own| {
            own.port() == target.port()
                && if own.ip().is_unspecified() {
                    is_local(target.ip())
                } else {
                    own.ip().to_canonical() == target.ip()
                }
        })
    }
}

/// Whether an address is this machine's: only then can a socket be bound to it.
fn is_local(address: IpAddr) -> bool {
    address.is_loopback() || UdpSocket::bind((address, 0)).is_ok()
}

/// Where names are looked up.
#[derive(Debug, Clone, Default)]
pub enum Resolver {
    /// The system's resolver.
    #[default]
    System,
    /// These names and no others.
    Fixed(HashMap<String, Vec<IpAddr>>),
}

impl Resolver {
    async fn resolve(&self, origin: &Origin) -> Vec<IpAddr> {
        if let Some(literal) = origin.literal() {
            return vec![literal];
        }
        match self {
            Self::System => tokio::net::lookup_host((origin.host.as_str(), origin.port))
                .await
                .map(|found| found.map(|address| address.ip()).collect())
                .unwrap_or_default(),
            Self::Fixed(names) => names.get(&origin.host).cloned().unwrap_or_default(),
        }
    }
}

/// Where to connect, and under which conditions.
pub(super) struct Place<'a> {
    pub(super) origin: &'a Origin,
    pub(super) allow_private: bool,
    pub(super) extra_ca: Option<&'a ExtraCa>,
}

/// A connection, and whether both sides agreed on HTTP/2.
pub(super) struct Dialed {
    pub(super) io: UpstreamIo,
    pub(super) http2: bool,
}

pub(super) struct Connector {
    pub(super) clients: Clients,
    pub(super) resolver: Resolver,
    pub(super) own_listeners: OwnListeners,
    pub(super) timeout: Duration,
}

impl Connector {
    pub(super) async fn dial(&self, place: Place<'_>) -> Result<Dialed, RelayFailure> {
        tokio::time::timeout(self.timeout, self.dial_now(place))
            .await
            .unwrap_or(Err(RelayFailure::ConnectTimedOut))
    }

    async fn dial_now(&self, place: Place<'_>) -> Result<Dialed, RelayFailure> {
        let found = self.resolver.resolve(place.origin).await;
        if found.is_empty() {
            return Err(RelayFailure::Unresolved);
        }
        let vetted = self.vet(&found, place.origin.port, place.allow_private);
        if vetted.is_empty() {
            return Err(RelayFailure::AddressRefused);
        }
        let stream = dial_first(&vetted).await.ok_or(RelayFailure::Unreachable)?;
        match place.origin.scheme {
            Scheme::Http => Ok(Dialed {
                io: UpstreamIo::plain(stream),
                http2: false,
            }),
            Scheme::Https => {
                let config = self
                    .clients
                    .config(place.extra_ca)
                    .map_err(|_| RelayFailure::Untrusted)?;
                let name = server_name(place.origin).ok_or(RelayFailure::Untrusted)?;
                let stream = TlsConnector::from(config)
                    .connect(name, stream)
                    .await
                    .map_err(|error| {
                        // For the operator: the box is told less.
                        tracing::debug!(origin = %place.origin, %error, "no secure connection");
                        RelayFailure::Untrusted
                    })?;
                let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                Ok(Dialed {
                    io: UpstreamIo::tls(stream),
                    http2,
                })
            }
        }
    }

    /// The addresses that may be dialed, in the order they came, the two
    /// families taking turns.
    fn vet(&self, found: &[IpAddr], port: u16, allow_private: bool) -> Vec<SocketAddr> {
        let (mut v6, mut v4): (Vec<_>, Vec<_>) = found
            .iter()
            .filter(|address| may_dial(**address, allow_private))
            .map(|address| SocketAddr::new(address.to_canonical(), port))
            .filter(|address| !self.own_listeners.hold(*address))
            .partition(SocketAddr::is_ipv6);
        v6.reverse();
        v4.reverse();
        let mut turns = Vec::with_capacity(v6.len() + v4.len());
        while !(v6.is_empty() && v4.is_empty()) {
            turns.extend(v6.pop());
            turns.extend(v4.pop());
        }
        turns
    }
}

/// The first of these addresses that takes a connection: a slow one does not
/// hold up the next.
async fn dial_first(addresses: &[SocketAddr]) -> Option<TcpStream> {
    let mut waiting = addresses.iter();
    let mut attempts = FuturesUnordered::new();
    attempts.push(dial_one(*waiting.next()?));
    loop {
        let outcome = tokio::time::timeout(NEXT_ADDRESS, attempts.next()).await;
        if let Ok(Some(Ok(stream))) = outcome {
            return Some(stream);
        }
        match (waiting.next(), outcome) {
            (Some(next), _) => attempts.push(dial_one(*next)),
            (None, Ok(None)) => return None,
            (None, _) => {}
        }
    }
}

async fn dial_one(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
