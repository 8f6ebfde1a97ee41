//! Running a component under fuel: how many instructions a call takes, and how
//! much memory it holds. No clock ends it, so a call that is stopped here is
//! stopped at the same instruction everywhere.

use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine, OptLevel, ResourceLimiter, Store, Trap};
use wasmtime_wasi::{WasiCtxView, WasiView};

use crate::plugins::alone::wire::Cost;
use crate::plugins::bindings::exports::jackfield::plugin::decisions::{
    Answers, Caller, Manifest as SaidManifest, Request, Step,
};
use crate::plugins::bindings::{Capability, CapabilityPre};
use crate::plugins::engine::CallLimits;
use crate::plugins::error::LoadError;
use crate::plugins::inspect::inspect;
use crate::plugins::wasi::{self, Inert};
use crate::rules::manifest::WantedLimits;

/// How much fuel stands for a millisecond of the host's time limit. A fast
/// machine burns more in one; what is stopped here would be too slow there.
const FUEL_PER_MS: u64 = 2_000_000;

/// A component under fuel.
pub(super) struct Metered {
    engine: Engine,
    pre: CapabilityPre<State>,
    ms: u64,
    memory: usize,
}

/// An instance that has answered `scopes` and can be asked `route`.
pub(super) struct Instance {
    store: Store<State>,
    world: Capability,
}

/// What a call brought, and what it took.
pub(super) struct Called<T> {
    pub(super) said: Result<T, String>,
    pub(super) cost: Cost,
}

impl Metered {
    /// Looks at the bytes as the host does, and compiles them.
    pub(super) fn new(bytes: &[u8]) -> Result<Self, LoadError> {
        let inspected = inspect(bytes)?;
        let host = |cause: wasmtime::Error| LoadError::Host(format!("{cause:#}"));
        let world = |cause: wasmtime::Error| LoadError::World(format!("{cause:#}"));
        let engine = Engine::new(&config()).map_err(host)?;
        let component = Component::from_binary(&engine, bytes)
            .map_err(|cause| LoadError::Compile(format!("{cause:#}")))?;
        let linker = if inspected.inert_imports.is_empty() {
            Linker::new(&engine)
        } else {
            wasi::linker(&engine).map_err(host)?
        };
        let pre = linker.instantiate_pre(&component).map_err(world)?;
        let mut metered = Self {
            pre: CapabilityPre::new(pre).map_err(world)?,
            engine,
            ms: 0,
            memory: 0,
        };
        metered.limit(WantedLimits::default());
        Ok(metered)
    }

    /// Takes what a manifest wants, under the host's own caps.
    pub(super) fn limit(&mut self, wanted: WantedLimits) {
        let limits = CallLimits::default();
        let millis =
            |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.ms = match wanted.time_ms {
            0 => millis(limits.time),
            wanted => u64::from(wanted).min(millis(limits.most_time)),
        };
        self.memory = match usize::try_from(wanted.memory_bytes) {
            Ok(0) | Err(_) => limits.memory,
            Ok(wanted) => wanted.min(limits.most_memory),
        };
    }

    pub(super) async fn describe(&self) -> Called<SaidManifest> {
        let mut store = self.fresh();
        let said = async {
            let world = self.pre.instantiate_async(&mut store).await?;
            let decisions = world.jackfield_plugin_decisions();
            decisions.call_describe(&mut store).await
        };
        let said = said.await;
        self.called("describe", &store, said)
    }

    /// Asks a fresh instance for a request's words.
    pub(super) async fn scopes(
        &self,
        request: &Request,
    ) -> Called<(Instance, Option<Vec<String>>)> {
        let mut store = self.fresh();
        let said = async {
            let world = self.pre.instantiate_async(&mut store).await?;
            let decisions = world.jackfield_plugin_decisions();
            let words = decisions.call_scopes(&mut store, request).await?;
            Ok((world, words))
        };
        let said = said.await;
        let Called { said, cost } = self.called("scopes", &store, said);
        let said = said.map(|(world, words)| (Instance { store, world }, words));
        Called { said, cost }
    }

    /// Asks the instance that answered `scopes`.
    pub(super) async fn route(
        &self,
        mut instance: Instance,
        request: &Request,
        caller: &Caller,
    ) -> Called<Step> {
        let store = &mut instance.store;
        let said = match store.set_fuel(self.fuel()) {
            Ok(()) => {
                let decisions = instance.world.jackfield_plugin_decisions();
                decisions.call_route(&mut *store, request, caller).await
            }
            Err(cause) => Err(cause),
        };
        self.called("route", store, said)
    }

    /// Asks a fresh instance to decide further.
    pub(super) async fn resume(&self, state: &[u8], answers: &Answers) -> Called<Step> {
        let mut store = self.fresh();
        let said = async {
            let world = self.pre.instantiate_async(&mut store).await?;
            let decisions = world.jackfield_plugin_decisions();
            decisions.call_resume(&mut store, state, answers).await
        };
        let said = said.await;
        self.called("resume", &store, said)
    }

    fn fuel(&self) -> u64 {
        self.ms.saturating_mul(FUEL_PER_MS)
    }

    fn fresh(&self) -> Store<State> {
        let state = State {
            held: 0,
            most: self.memory,
            inert: None,
        };
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| state);
        store.set_hostcall_fuel(CallLimits::default().answer);
        // The engine meters, so this cannot fail; were it not so, the call
        // would end at its first instruction.
        let _metered = store.set_fuel(self.fuel());
        store
    }

    fn called<T>(
        &self,
        function: &'static str,
        store: &Store<State>,
        said: wasmtime::Result<T>,
    ) -> Called<T> {
        let left = store.get_fuel().unwrap_or_default();
        Called {
            said: said.map_err(|error| self.reason(function, &error)),
            cost: Cost {
                function,
                fuel: self.fuel().saturating_sub(left),
                memory: store.data().held,
            },
        }
    }

    fn reason(&self, function: &str, error: &wasmtime::Error) -> String {
        if error.is::<MemoryRefused>() {
            return format!(
                "wanted more than {} bytes of memory in {function}",
                self.memory
            );
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => format!(
                "was stopped in {function}: it used up {} units of fuel, which stand for the {} ms \
                 that it may compute",
                self.fuel(),
                self.ms
            ),
            // It is the author who reads this, of a component of their own.
            Some(trap) => format!("failed in {function}: {trap}"),
            None => format!("failed in {function}: {error:#}"),
        }
    }
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .concurrency_support(false)
        .max_wasm_stack(256 * 1024)
        .async_stack_size(512 * 1024)
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .cranelift_opt_level(OptLevel::Speed)
        .wasm_backtrace_max_frames(None);
    config
}

/// What belongs to one store.
pub(super) struct State {
    held: usize,
    most: usize,
    inert: Option<Box<Inert>>,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.inert
            .get_or_insert_with(|| Box::new(Inert::new()))
            .view()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the instance wanted too much memory")]
struct MemoryRefused;

impl ResourceLimiter for State {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let held = self.held.saturating_add(desired.saturating_sub(current));
        if held > self.most {
            return Err(MemoryRefused.into());
        }
        self.held = held;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired > 10_000 {
            return Err(MemoryRefused.into());
        }
        Ok(true)
    }
}
