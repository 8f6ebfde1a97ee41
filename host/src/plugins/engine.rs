//! The engine that all plugins run in: how code is compiled, where instances
//! live, and the clock that ends calls.
//!
//! It runs nothing itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::Semaphore;
use wasmtime::{Config, Enabled, Engine, EngineWeak, InstanceAllocationStrategy};
use wasmtime::{OptLevel, PoolingAllocationConfig};

use crate::plugins::error::PluginError;

/// How often a running call is looked at.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// How long the clock goes on after the last call, so that a busy host wakes
/// it once and not with each request.
const LINGER: u32 = 1000;

const MIB: usize = 1024 * 1024;

/// The host's own caps; a manifest's wishes stand below them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Computing time of one call where a manifest says nothing.
    pub time: Duration,
    /// The most that a manifest can ask for.
    pub most_time: Duration,
    /// Memory of one instance where a manifest says nothing.
    pub memory: usize,
    /// The most that a manifest can ask for.
    pub most_memory: usize,
    /// What one call may hand to the host, in bytes.
    pub answer: usize,
    /// Instances alive at once.
    pub instances: usize,
    /// Instances of one plugin alive at once.
    pub share: usize,
    /// How long a request waits for an instance.
    pub wait: Duration,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_millis(250),
            most_time: Duration::from_secs(2),
            memory: 16 * MIB,
            most_memory: 64 * MIB,
            // The most that a need's calls may send, its state, and some more.
            answer: 24 * MIB,
            instances: 64,
            share: 32,
            wait: Duration::from_secs(2),
        }
    }
}

/// The engine with its clock and its queue.
pub(crate) struct Machine {
    pub(crate) engine: Engine,
    pub(crate) ticker: Ticker,
    pub(crate) limits: CallLimits,
    /// One permit for each instance of the pool: a full pool fails at once, so
    /// the queue stands here.
    pub(crate) instances: Arc<Semaphore>,
    /// One permit for each thread that calls which run on take turns at.
    pub(crate) turns: Semaphore,
    /// At how many of those one plugin's calls take turns.
    pub(crate) turns_of_one: usize,
}

/// Opens the map of this process's pages, which the engine resets its instances
/// by, and says whether it may be used. A process that has made itself
/// undumpable cannot open its own, unless it is root: call this before.
pub fn open_page_map() -> bool {
    PoolingAllocationConfig::is_pagemap_scan_available()
}

impl Machine {
    pub(crate) fn new(limits: CallLimits) -> Result<Self, PluginError> {
        let engine = Engine::new(&config(&limits)).map_err(PluginError::engine)?;
        let ticker = Ticker::start(engine.weak())?;
        let threads = thread::available_parallelism()
            .map_or(2, usize::from)
            .max(2);
        Ok(Self {
            engine,
            ticker,
            limits,
            instances: Arc::new(Semaphore::new(limits.instances)),
            turns: Semaphore::new(threads),
            turns_of_one: threads / 2,
        })
    }
}

fn config(limits: &CallLimits) -> Config {
    let instances = u32::try_from(limits.instances).unwrap_or(u32::MAX);
    // A component that imports WASI is made of several core instances.
    let many = instances.saturating_mul(8);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(many)
        .total_memories(instances.saturating_mul(2))
        .total_tables(many)
        .total_stacks(instances)
        .max_core_instances_per_component(32)
        .max_memories_per_component(4)
        .max_tables_per_component(16)
        .max_component_instance_size(256 * 1024)
        .max_core_instance_size(256 * 1024)
        .max_memory_size(limits.most_memory)
        .table_elements(10_000)
        .max_unused_warm_slots(instances)
        .linear_memory_keep_resident(2 * MIB)
        .table_keep_resident(64 * 1024)
        // Resets the pages that a call touched and no others: a fresh instance
        // for each request costs a third of what it does without.
        .pagemap_scan(Enabled::Auto);
    let mut config = Config::new();
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        .memory_reservation(limits.most_memory as u64)
        .memory_guard_size(64 * 1024)
        .epoch_interruption(true)
        .concurrency_support(false)
        .max_wasm_stack(256 * 1024)
        .async_stack_size(512 * 1024)
        // The same inputs give the same answer on every machine.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .cranelift_opt_level(OptLevel::Speed)
        // One plugin's compilation takes one core, never all of them.
        .parallel_compilation(false)
        // What a guest's frames hold is nobody's business.
        .wasm_backtrace_max_frames(None);
    config
}

/// Advances the engine's epoch once a tick while a call runs, and sleeps while
/// none does. The thread ends with this value, or with the engine.
pub(crate) struct Ticker {
    shared: Arc<Ticks>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Ticks {
    running: AtomicUsize,
    asleep: AtomicBool,
    ended: AtomicBool,
}

/// A call is running as long as this lives.
pub(crate) struct Running(Arc<Ticks>);

impl Ticker {
    pub(crate) fn start(engine: EngineWeak) -> Result<Self, PluginError> {
        let shared = Arc::new(Ticks::default());
        let ticks = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("plugin-clock".to_owned())
            .spawn(move || tick(&engine, &ticks))
            .map_err(PluginError::clock)?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    pub(crate) fn run(&self) -> Running {
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        if self.shared.asleep.load(Ordering::SeqCst)
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
        Running(Arc::clone(&self.shared))
    }
}

#[cfg(test)]
impl Ticker {
    /// Dead when the thread is.
    pub(crate) fn watch(&self) -> std::sync::Weak<impl Sized + use<>> {
        Arc::downgrade(&self.shared)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It ends at its next tick; a panic there has been reported.
            let _ = thread.join();
        }
    }
}

fn tick(engine: &EngineWeak, ticks: &Ticks) {
    let mut idle = 0;
    while !ticks.ended.load(Ordering::SeqCst) {
        if ticks.running.load(Ordering::SeqCst) > 0 {
            idle = 0;
        } else {
            idle += 1;
        }
        if idle > LINGER {
            // `asleep` is set before `running` is read again, and `run` writes
            // them in the other order: one of the two sees the other.
            ticks.asleep.store(true, Ordering::SeqCst);
            if ticks.running.load(Ordering::SeqCst) == 0 && !ticks.ended.load(Ordering::SeqCst) {
                thread::park();
            }
            ticks.asleep.store(false, Ordering::SeqCst);
            idle = 0;
            continue;
        }
        thread::sleep(TICK);
        let Some(engine) = engine.upgrade() else {
            return;
        };
        engine.increment_epoch();
    }
}
