//! The engine of audits: fuel counts what each call computes, the same on
//! every machine. Calls and memory are measured, and nothing escapes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine, Store, Trap};

use crate::plugins::bindings::exports::jackfield::plugin::decisions as wit;
use crate::plugins::bindings::{Capability, CapabilityPre};
use crate::plugins::call::{CallState, Limits, MOST_HANDLES};
use crate::plugins::convert;
use crate::plugins::engine::{CallLimits, TICK, Ticker};
use crate::plugins::error::{Fault, PluginError};
use crate::plugins::wasi;
use crate::rules::audit::finding::{Check, shown};
use crate::rules::manifest::WantedLimits;
use crate::rules::manifest_check::SaidManifest;
use crate::rules::plan::{Answers, SaidStep, ShownCaller, ShownRequest};

/// What one call may compute: some hundred milliseconds of it.
pub(super) const CALL_FUEL: u64 = 500_000_000;

/// Where fuel does not see what is done, such as one copy of much memory: an
/// end by the clock, far beyond what any honest call takes.
const CALL_TIME: Duration = Duration::from_secs(10);

/// What is measured of a plugin, by what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    /// Making an instance.
    Instantiate,
    /// `describe`.
    Describe,
    /// `scopes`.
    Scopes,
    /// `route`.
    Route,
    /// `resume`.
    Resume,
}

impl Function {
    /// The word in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Instantiate => "instantiate",
            Self::Describe => "describe",
            Self::Scopes => "scopes",
            Self::Route => "route",
            Self::Resume => "resume",
        }
    }
}

/// What the calls of one function took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measured {
    /// How many there were.
    pub calls: u64,
    /// The most fuel that one used.
    pub most_fuel: u64,
    /// The most memory that an instance had after one, in bytes.
    pub most_memory: usize,
}

/// What all calls took.
#[derive(Debug, Clone, Default)]
pub(super) struct Measures {
    pub(super) by_function: BTreeMap<Function, Measured>,
    pub(super) fuel: u64,
}

/// Why a call brought nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stop {
    pub(super) during: Function,
    pub(super) why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Fuel,
    Time,
    Memory(usize),
    Other(Fault),
}

impl Stop {
    pub(super) fn found(&self) -> (Check, String) {
        let during = self.during.word();
        match self.why {
            Why::Fuel => (
                Check::OutOfFuel,
                format!("{during} used up {CALL_FUEL} units of fuel"),
            ),
            Why::Time => (
                Check::OutOfTime,
                format!("{during} took longer than {} s", CALL_TIME.as_secs()),
            ),
            Why::Memory(most) => (
                Check::OutOfMemory,
                format!("{during} wanted more than {most} bytes of memory"),
            ),
            Why::Other(fault @ Fault::TooLarge(_)) => {
                (Check::TooLarge, format!("{during} {fault}"))
            }
            Why::Other(fault) => (Check::Trap, format!("{during} {fault}")),
        }
    }
}

/// A compiled component under audit.
pub(super) struct Meter {
    engine: Engine,
    pre: CapabilityPre<CallState>,
    limits: Limits,
    answer: usize,
    most_memory: usize,
    ticker: Arc<Ticker>,
}

/// An instance of it.
pub(super) struct Live<'a> {
    meter: &'a Meter,
    store: Store<CallState>,
    world: Capability,
}

impl Meter {
    /// Compiles a component; where the engine does not take it, in words why.
    pub(super) fn new(
        bytes: &[u8],
        imports: &[String],
        limits: CallLimits,
    ) -> Result<Result<Self, String>, PluginError> {
        let engine = Engine::new(&config(&limits)).map_err(PluginError::engine)?;
        let ticker = Arc::new(Ticker::start(engine.weak())?);
        Ok(prepare(&engine, bytes, imports)
            .map(|pre| Self {
                engine,
                pre,
                limits: Limits {
                    time: CALL_TIME,
                    memory: limits.memory,
                },
                answer: limits.answer,
                most_memory: limits.most_memory,
                ticker,
            })
            .map_err(|cause| shown(&format!("{cause:#}"))))
    }

    /// The same, with the memory that its manifest asks for, as a host gives it.
    pub(super) fn for_manifest(&self, wanted: &WantedLimits) -> Self {
        let memory = match usize::try_from(wanted.memory_bytes) {
            Ok(0) | Err(_) => self.limits.memory,
            Ok(wanted) => wanted.min(self.most_memory),
        };
        Self {
            engine: self.engine.clone(),
            pre: self.pre.clone(),
            limits: Limits {
                memory,
                ..self.limits
            },
            answer: self.answer,
            most_memory: self.most_memory,
            ticker: Arc::clone(&self.ticker),
        }
    }

    /// What an instance may have.
    pub(super) fn memory(&self) -> usize {
        self.limits.memory
    }

    /// A fresh instance.
    pub(super) async fn fresh(&self, measures: &mut Measures) -> Result<Live<'_>, Stop> {
        let mut store = Store::new(&self.engine, CallState::new(self.limits));
        store.limiter(|state| state);
        store.set_hostcall_fuel(self.answer);
        store.set_max_component_handles(MOST_HANDLES);
        let during = Function::Instantiate;
        self.arm(&mut store)
            .map_err(|error| self.stop(during, &error))?;
        let running = self.ticker.run();
        let made = self.pre.instantiate_async(&mut store).await;
        drop(running);
        note(measures, during, &store);
        let world = made.map_err(|error| self.stop(during, &error))?;
        Ok(Live {
            meter: self,
            store,
            world,
        })
    }

    fn arm(&self, store: &mut Store<CallState>) -> wasmtime::Result<()> {
        store.set_fuel(CALL_FUEL)?;
        let ticks = CALL_TIME.as_millis() / TICK.as_millis();
        store.set_epoch_deadline(u64::try_from(ticks).unwrap_or(u64::MAX));
        Ok(())
    }

    fn stop(&self, during: Function, error: &wasmtime::Error) -> Stop {
        let trap = error.downcast_ref::<Trap>();
        let why = if trap == Some(&Trap::OutOfFuel) {
            Why::Fuel
        } else if trap == Some(&Trap::Interrupt) {
            Why::Time
        } else {
            match self.limits.fault(error) {
                Fault::OutOfMemory(most) => Why::Memory(most),
                other @ (Fault::Trapped(_)
                | Fault::TimedOut(_)
                | Fault::TooLarge(_)
                | Fault::Nonsense(_)
                | Fault::Busy
                | Fault::Host) => Why::Other(other),
            }
        };
        Stop { during, why }
    }
}

impl Live<'_> {
    pub(super) async fn describe(&mut self, measures: &mut Measures) -> Result<SaidManifest, Stop> {
        let during = Function::Describe;
        let meter = self.meter;
        let running = self.begin(during)?;
        let decisions = self.world.jackfield_plugin_decisions();
        let said = decisions.call_describe(&mut self.store).await;
        drop(running);
        note(measures, during, &self.store);
        said.map(convert::manifest)
            .map_err(|error| meter.stop(during, &error))
    }

    pub(super) async fn scopes(
        &mut self,
        request: &wit::Request,
        measures: &mut Measures,
    ) -> Result<Option<Vec<String>>, Stop> {
        let during = Function::Scopes;
        let meter = self.meter;
        let running = self.begin(during)?;
        let decisions = self.world.jackfield_plugin_decisions();
        let said = decisions.call_scopes(&mut self.store, request).await;
        drop(running);
        note(measures, during, &self.store);
        said.map_err(|error| meter.stop(during, &error))
    }

    pub(super) async fn route(
        &mut self,
        request: &wit::Request,
        caller: ShownCaller,
        measures: &mut Measures,
    ) -> Result<SaidStep, Stop> {
        let during = Function::Route;
        let meter = self.meter;
        let running = self.begin(during)?;
        let decisions = self.world.jackfield_plugin_decisions();
        let caller = convert::caller(caller);
        let said = decisions
            .call_route(&mut self.store, request, &caller)
            .await;
        drop(running);
        note(measures, during, &self.store);
        said.map(convert::step)
            .map_err(|error| meter.stop(during, &error))
    }

    pub(super) async fn resume(
        &mut self,
        state: &[u8],
        answers: Answers,
        measures: &mut Measures,
    ) -> Result<SaidStep, Stop> {
        let during = Function::Resume;
        let meter = self.meter;
        let running = self.begin(during)?;
        let decisions = self.world.jackfield_plugin_decisions();
        let answers = convert::answers(answers);
        let said = decisions
            .call_resume(&mut self.store, state, &answers)
            .await;
        drop(running);
        note(measures, during, &self.store);
        said.map(convert::step)
            .map_err(|error| meter.stop(during, &error))
    }

    fn begin(&mut self, during: Function) -> Result<crate::plugins::engine::Running, Stop> {
        self.meter
            .arm(&mut self.store)
            .map_err(|error| self.meter.stop(during, &error))?;
        Ok(self.meter.ticker.run())
    }
}

/// A request, as the plugin is shown it.
pub(super) fn request(shown: ShownRequest) -> wit::Request {
    convert::request(shown)
}

fn note(measures: &mut Measures, function: Function, store: &Store<CallState>) {
    let used = CALL_FUEL - store.get_fuel().unwrap_or(0).min(CALL_FUEL);
    measures.fuel = measures.fuel.saturating_add(used);
    let measured = measures.by_function.entry(function).or_default();
    measured.calls += 1;
    measured.most_fuel = measured.most_fuel.max(used);
    measured.most_memory = measured.most_memory.max(store.data().memory_had());
}

fn prepare(
    engine: &Engine,
    bytes: &[u8],
    imports: &[String],
) -> wasmtime::Result<CapabilityPre<CallState>> {
    let component = Component::from_binary(engine, bytes)?;
    let linker = if imports.is_empty() {
        Linker::new(engine)
    } else {
        wasi::linker(engine)?
    };
    CapabilityPre::new(linker.instantiate_pre(&component)?)
}

/// As the host's own engine in all that decides what code means, with fuel, and
/// with no pool: instances come one after the other.
fn config(limits: &CallLimits) -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .epoch_interruption(true)
        .concurrency_support(false)
        .memory_reservation(limits.most_memory as u64)
        .max_wasm_stack(256 * 1024)
        .async_stack_size(512 * 1024)
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .wasm_backtrace_max_frames(None);
    config
}
