//! Towards upstreams: the only user of the HTTP client, and the place where a
//! credential is sealed into a request. It decides nothing: where a request
//! goes and what it spends has been settled before.
//!
//! In reading order: [`seal_forward`] makes a [`SealedRequest`], [`Relay`]
//! sends it over a connection of its pool, and [`RelayBody`] streams the
//! answer back.

mod body;
mod call;
mod cleaner;
mod connect;
mod decode;
mod drive;
mod failure;
mod forward;
mod io;
mod pool;
mod scrubber;
mod seal;
mod silence;
mod stand_in;
#[cfg(test)]
pub(crate) mod tests;
mod tether;
mod tls;
mod upload;
mod upload_guard;
mod values;

use std::sync::Arc;
use std::time::Duration;

use crate::relay::connect::Connector;
use crate::relay::pool::Pool;
use crate::relay::tls::Clients;
use crate::rules::allow::AllowRule;
use crate::rules::origin::Origin;
use crate::rules::plan::CredentialKey;

pub use crate::relay::body::RelayBody;
pub use crate::relay::call::{CallLimits, CallRoom};
pub use crate::relay::connect::{OwnListeners, Resolver};
pub use crate::relay::failure::{BodyBroken, RelayFailure, SealRefusal};
pub use crate::relay::pool::PoolLimits;
pub use crate::relay::seal::{HeaderPolicy, SealedRequest, ShownToken, seal_call, seal_forward};
pub use crate::relay::tls::{ExtraCa, TlsError};
pub use crate::relay::upload::RequestBody;
pub use crate::vault::OpenedValue;

/// Any error of a body that somebody else made.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Where a request goes: from the host's own records, never from the request.
#[derive(Debug, Clone)]
pub struct Destination {
    /// Scheme, host and port.
    pub origin: Origin,
    /// What stands before the path; empty for none.
    pub base_path: String,
    /// Whether private addresses may be dialed.
    pub allow_private: bool,
    /// Certificates that it is trusted by, beside the system's.
    pub extra_ca: Option<Arc<ExtraCa>>,
    /// What it may be used for; empty for all.
    pub allow: Vec<AllowRule>,
    /// What messages call it, such as `upstream NAME`.
    pub name: String,
}

/// Opens the value of a credential: the vault, for the file that seals a
/// request.
pub trait OpenValue: Send + Sync {
    /// Opens a value.
    ///
    /// # Errors
    /// When there is none, or it does not open.
    fn open_value(&self, key: &CredentialKey) -> Result<Arc<OpenedValue>, ValueUnavailable>;
}

/// A value that cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the value is not there, or does not open")]
pub struct ValueUnavailable;

/// How upstreams are reached.
#[derive(Debug, Clone)]
pub struct RelaySettings {
    /// How long nothing may move before a request is given up. There is no
    /// limit on the whole.
    pub idle: Duration,
    /// How long a connection may take to make, its name and TLS included.
    pub connect: Duration,
    /// Our own listeners, which are never dialed.
    pub own_listeners: OwnListeners,
    /// Where names are looked up.
    pub resolver: Resolver,
    /// How connections are kept and shared.
    pub pool: PoolLimits,
}

impl Default for RelaySettings {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(15 * 60),
            connect: Duration::from_secs(10),
            own_listeners: OwnListeners::default(),
            resolver: Resolver::default(),
            pool: PoolLimits::default(),
        }
    }
}

/// The way to upstreams. Clones share their connections.
#[derive(Clone)]
pub struct Relay(Arc<Inner>);

struct Inner {
    connector: Connector,
    pool: Pool,
    idle: Duration,
}

impl Relay {
    /// Reads the system's roots and opens nothing.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(settings: RelaySettings) -> Result<Self, TlsError> {
        let clients = Clients::new();
        clients.config(None)?;
        Ok(Self(Arc::new(Inner {
            connector: Connector {
                clients,
                resolver: settings.resolver,
                own_listeners: settings.own_listeners,
                timeout: settings.connect,
            },
            pool: Pool::new(settings.pool),
            idle: settings.idle,
        })))
    }

    fn connector(&self) -> &Connector {
        &self.0.connector
    }

    fn pool(&self) -> &Pool {
        &self.0.pool
    }

    fn idle(&self) -> Duration {
        self.0.idle
    }
}
