//! WASI for components whose toolchain cannot do without: every export is
//! there, and none of them can tell two calls apart or reach anything.
//!
//! Empty environment, no arguments, no files, no sockets, closed input, output
//! that goes nowhere, clocks that stand still, waits that are over at once, and
//! a generator that always begins with the same seed. `wasi:http` is not WASI
//! to us, nor is any other version than 0.2.

use std::sync::LazyLock;
use std::time::Duration;

use sha2::{Digest, Sha256};
use wasmtime::component::{Linker, Resource, ResourceTable};
use wasmtime::{Engine, StoreContextMut};
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};
use wasmtime_wasi::{Deterministic, HostMonotonicClock, HostWallClock};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::plugins::call::CallState;

const PACKAGES: [&str; 6] = ["cli", "clocks", "filesystem", "io", "random", "sockets"];

/// The moment at which every plugin's clock stands: 2000-01-01T00:00:00Z.
const NOW: Duration = Duration::from_secs(946_684_800);

const MOST_RANDOM: u64 = 64 * 1024;

/// As many bytes as are needed for code that draws until it likes what it got.
static SEED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    (0u32..256)
        .flat_map(|turn| Sha256::digest(turn.to_le_bytes()))
        .collect()
});

/// Whether an import is one that is linked to something inert, by its name
/// with its version, such as `wasi:cli/environment@0.2.3`.
pub(crate) fn is_inert(import: &str) -> bool {
    let Some((package, rest)) = import
        .strip_prefix("wasi:")
        .and_then(|name| name.split_once('/'))
    else {
        return false;
    };
    let version = rest.split_once('@').map(|(_, version)| version);
    PACKAGES.contains(&package)
        && version
            .and_then(|version| semver::Version::parse(version).ok())
            .is_some_and(|version| {
                (version.major, version.minor) == (0, 2) && version.pre.is_empty()
            })
}

/// A linker that knows every WASI interface of [`is_inert`].
pub(crate) fn linker<T: WasiView + 'static>(engine: &Engine) -> wasmtime::Result<Linker<T>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    // The crate's own clock would wait in real time, for as long as a plugin
    // says. Where time stands still, a wait is over when it begins.
    linker.allow_shadowing(true);
    let mut clock = linker.instance("wasi:clocks/monotonic-clock@0.2.12")?;
    for name in ["subscribe-instant", "subscribe-duration"] {
        clock.func_wrap(name, |mut store: StoreContextMut<'_, T>, (_,): (u64,)| {
            Ok((over_at_once(store.data_mut())?,))
        })?;
    }
    linker.allow_shadowing(false);
    Ok(linker)
}

/// What WASI's exports work on: made at the first call of one.
pub(crate) struct Inert {
    context: WasiCtx,
    table: ResourceTable,
}

impl Inert {
    pub(crate) fn new() -> Self {
        let seed = || Deterministic::new(SEED.clone());
        let mut table = ResourceTable::new();
        table.set_max_capacity(1000);
        Self {
            context: WasiCtx::builder()
                .allow_tcp(false)
                .allow_udp(false)
                .allow_ip_name_lookup(false)
                .wall_clock(Still)
                .monotonic_clock(Still)
                .secure_random(seed())
                .insecure_random(seed())
                .insecure_random_seed(0)
                .max_random_size(MOST_RANDOM)
                .build(),
            table,
        }
    }

    /// As the crate's own functions look at it.
    pub(crate) fn view(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.context,
            table: &mut self.table,
        }
    }
}

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.inert().view()
    }
}

fn over_at_once(state: &mut impl WasiView) -> wasmtime::Result<Resource<DynPollable>> {
    let table = state.ctx().table;
    let over = table.push(Over)?;
    subscribe(table, over)
}

struct Over;

#[wasmtime_wasi::async_trait]
impl Pollable for Over {
    async fn ready(&mut self) {}
}

struct Still;

impl HostWallClock for Still {
    fn resolution(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn now(&self) -> Duration {
        NOW
    }
}

impl HostMonotonicClock for Still {
    fn resolution(&self) -> u64 {
        1_000_000_000
    }

    fn now(&self) -> u64 {
        0
    }
}
