//! What the end-to-end tests stand on: the real host as a process, upstreams
//! that record what they receive, clients that see every byte. In reading
//! order: [`world`] puts a host and its upstreams together, [`host`] runs the
//! binary, [`plugins`] builds the components, [`upstream`] and [`h2`] stand in
//! for the other side, [`client`] for a box, [`wire`] frames HTTP/1.1 for both.
//!
//! Nothing here knows how the host is made: it speaks the published protocol
//! and the command line.

pub mod client;
pub mod h2;
pub mod host;
pub mod minisign;
pub mod plugins;
pub mod schema;
pub mod sources;
pub mod stand_ins;
pub mod suite;
pub mod tap;
pub mod tls;
pub mod upstream;
pub mod wire;
pub mod world;

use std::future::Future;
use std::time::Duration;

/// Awaits what must happen. The limit is generous: it ends a test that would
/// hang, and measures nothing.
///
/// # Panics
/// When it does not happen.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(30);
    match tokio::time::timeout(limit, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not happen within {limit:?}"),
    }
}

/// Lets this process have as many descriptors as the system allows it, and says
/// how many.
#[must_use]
pub fn raise_descriptors() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let allowed = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: allowed,
        maximum: allowed,
    };
    let _as_before = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Whether the bytes of `needle` stand somewhere in `haystack`.
#[must_use]
pub fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty()
        && haystack
            .windows(needle.len())
            .any(|window| window == needle)
}
