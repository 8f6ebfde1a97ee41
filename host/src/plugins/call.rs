//! One call of a plugin: a fresh store and instance, its limits, and what its
//! failure means.
//!
//! An instance is asked for `scopes` and then for `route`, or once for
//! `resume` or `describe`, and thrown away; after any error it is thrown away
//! at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::component::{self, InstancePre};
use wasmtime::{ResourceLimiter, Store, Trap, UpdateDeadline};

use crate::plugins::bindings::CapabilityPre;
use crate::plugins::bindings::exports::jackfield::plugin::decisions::{
    self as wit, Answers, Caller, Request,
};
use crate::plugins::engine::Machine;
use crate::plugins::error::Fault;
use crate::plugins::functions::Functions;
use crate::plugins::lane::{Call, Doubt, Lane, SLICE, computed, millis, ticks};
use crate::plugins::wasi::Inert;
use crate::rules::manifest::WantedLimits;

/// How many requests wait for one plugin's instances before the next is told
/// so at once.
const MOST_WAITING: usize = 1024;

pub(crate) const MOST_HANDLES: usize = 256;
const MOST_TABLE_ELEMENTS: usize = 10_000;

/// After this many ticks a call is looked at, and left where it computes.
const FIRST_SLICE: u64 = 2;

/// A compiled component that can be asked.
pub(crate) struct Runner {
    machine: Arc<Machine>,
    pre: InstancePre<CallState>,
    functions: Arc<Functions>,
    /// Whether it imports nothing, so that a call that ran on can be made again.
    is_pure: bool,
    lane: Lane,
    share: Arc<Semaphore>,
    waiting: AtomicUsize,
    time: Duration,
    memory: usize,
}

/// An instance that has answered `scopes` and can be asked `route`, with the
/// request that it was shown.
pub(crate) struct Instance {
    store: Store<CallState>,
    itself: component::Instance,
    /// Whether it can be left and gone on with.
    can_be_left: bool,
    request: Request,
    words: Option<Vec<String>>,
    slot: Slot,
}

/// A place in the pool, of the host's and of the plugin's share.
struct Slot {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// What `scopes` leaves behind.
type Scoped = (Store<CallState>, component::Instance, Option<Vec<String>>);

impl Instance {
    /// The words that it named.
    pub(crate) fn words(&self) -> Option<&[String]> {
        self.words.as_deref()
    }
}

impl Runner {
    pub(crate) fn new(
        machine: Arc<Machine>,
        pre: InstancePre<CallState>,
        is_pure: bool,
        wanted: WantedLimits,
    ) -> wasmtime::Result<Self> {
        let limits = machine.limits;
        let time = match wanted.time_ms {
            0 => limits.time,
            wanted => Duration::from_millis(wanted.into()).min(limits.most_time),
        };
        let memory = match usize::try_from(wanted.memory_bytes) {
            Ok(0) | Err(_) => limits.memory,
            Ok(wanted) => wanted.min(limits.most_memory),
        };
        Ok(Self {
            functions: Arc::new(Functions::new(pre.clone())?),
            pre,
            is_pure,
            lane: Lane::new(Arc::clone(&machine)),
            share: Arc::new(Semaphore::new(limits.share)),
            waiting: AtomicUsize::new(0),
            time,
            memory,
            machine,
        })
    }

    /// Asks what the plugin is. It is what every component is asked first, and
    /// the types of all its functions are checked here.
    pub(crate) async fn describe(&self) -> Result<wit::Manifest, Fault> {
        let slot = self.slot().await?;
        let (mut store, limits) = self.fresh();
        let pre = self.pre.clone();
        let call = async move {
            let _slot = slot;
            limits.arm(&mut store);
            let said = async {
                let world = CapabilityPre::new(pre)?
                    .instantiate_async(&mut store)
                    .await?;
                let decisions = world.jackfield_plugin_decisions();
                decisions.call_describe(&mut store).await
            };
            said.await.map_err(|error| limits.fault(&error))
        };
        self.lane.run(self.time, Box::pin(call)).await
    }

    /// Asks a fresh instance which words a request needs.
    pub(crate) async fn scopes(&self, request: Request) -> Result<Instance, Fault> {
        let slot = self.slot().await?;
        if let Some(said) = self.here(|| self.scopes_here(&request)) {
            let (store, itself, words) = said?;
            return Ok(Instance {
                store,
                itself,
                can_be_left: false,
                request,
                words,
                slot,
            });
        }
        // On the heap, here and below: what is seldom taken would make every
        // request larger that carries it.
        Box::pin(self.scopes_apart(request, slot)).await
    }

    fn scopes_here(&self, request: &Request) -> wasmtime::Result<Scoped> {
        let mut store = self.store_here();
        let itself = self.functions.instantiate_here(&mut store)?;
        let scopes = self.functions.scopes(&mut store, itself)?;
        let (words,) = scopes.call(&mut store, (request,))?;
        Ok((store, itself, words))
    }

    async fn scopes_apart(&self, request: Request, slot: Slot) -> Result<Instance, Fault> {
        let (mut store, limits) = self.fresh();
        let functions = Arc::clone(&self.functions);
        let call = async move {
            limits.arm(&mut store);
            let said = async {
                let itself = functions.instantiate(&mut store).await?;
                let scopes = functions.scopes(&mut store, itself)?;
                let (words,) = scopes.call_async(&mut store, (&request,)).await?;
                Ok((itself, words))
            };
            let (itself, words) = said.await.map_err(|error| limits.fault(&error))?;
            Ok(Instance {
                store,
                itself,
                can_be_left: true,
                request,
                words,
                slot,
            })
        };
        self.apart(Box::pin(call)).await
    }

    /// Asks the same instance where the request goes, on this thread; none
    /// where that cannot be, or ran on.
    pub(crate) fn route_at_once(
        &self,
        instance: &mut Instance,
        caller: &Caller,
    ) -> Option<Result<wit::Step, Fault>> {
        if instance.can_be_left {
            return None;
        }
        self.here(|| self.route_here(instance, caller))
    }

    /// Asks the same instance where the request goes, or, should it not be one
    /// that can be left, another one that was asked the same: it is as that one
    /// was before `route`.
    pub(crate) async fn route(
        &self,
        mut instance: Instance,
        caller: Caller,
    ) -> Result<wit::Step, Fault> {
        if !instance.can_be_left {
            let Instance {
                store,
                request,
                words,
                slot,
                ..
            } = instance;
            drop(store);
            instance = self.scopes_apart(request, slot).await?;
            if instance.words != words {
                return Err(Fault::Trapped("asked again, it named other words"));
            }
        }
        let limits = self.limits();
        let functions = Arc::clone(&self.functions);
        let call = async move {
            let store = &mut instance.store;
            limits.arm(store);
            let said = async {
                let route = functions.route(store, instance.itself)?;
                let asked = (&instance.request, &caller);
                route.call_async(&mut *store, asked).await
            };
            let (step,) = said.await.map_err(|error| limits.fault(&error))?;
            Ok(step)
        };
        self.apart(Box::pin(call)).await
    }

    fn route_here(&self, instance: &mut Instance, caller: &Caller) -> wasmtime::Result<wit::Step> {
        let store = &mut instance.store;
        store.set_epoch_deadline(FIRST_SLICE);
        store.data_mut().doubt = Doubt::default();
        let route = self.functions.route(store, instance.itself)?;
        let (step,) = route.call(store, (&instance.request, caller))?;
        Ok(step)
    }

    /// Asks a fresh instance to decide further.
    pub(crate) async fn resume(
        &self,
        state: Vec<u8>,
        answers: Answers,
    ) -> Result<wit::Step, Fault> {
        let slot = self.slot().await?;
        if let Some(said) = self.here(|| self.resume_here(&state, &answers)) {
            return said;
        }
        Box::pin(self.resume_apart(state, answers, slot)).await
    }

    async fn resume_apart(
        &self,
        state: Vec<u8>,
        answers: Answers,
        slot: Slot,
    ) -> Result<wit::Step, Fault> {
        let (mut store, limits) = self.fresh();
        let functions = Arc::clone(&self.functions);
        let call = async move {
            let _slot = slot;
            limits.arm(&mut store);
            let said = async {
                let itself = functions.instantiate(&mut store).await?;
                let resume = functions.resume(&mut store, itself)?;
                let asked = (state.as_slice(), &answers);
                resume.call_async(&mut store, asked).await
            };
            let (step,) = said.await.map_err(|error| limits.fault(&error))?;
            Ok(step)
        };
        self.apart(Box::pin(call)).await
    }

    fn resume_here(&self, state: &[u8], answers: &Answers) -> wasmtime::Result<wit::Step> {
        let mut store = self.store_here();
        let itself = self.functions.instantiate_here(&mut store)?;
        let resume = self.functions.resume(&mut store, itself)?;
        let (step,) = resume.call(&mut store, (state, answers))?;
        Ok(step)
    }

    /// Makes a call on this thread, on its own stack: the cheapest way, for a
    /// call that can be made again. None when it is not to be made here, or ran
    /// on.
    fn here<T>(&self, call: impl FnOnce() -> wasmtime::Result<T>) -> Option<Result<T, Fault>> {
        if !self.is_pure {
            return None;
        }
        let said = self.lane.here(call, is_interrupt)?;
        Some(said.map_err(|error| self.limits().fault(&error)))
    }

    /// Makes a call that can be left and gone on with: from its beginning in
    /// another thread where it may have run on before.
    async fn apart<T: Send + 'static>(&self, call: Call<T>) -> Result<T, Fault> {
        if self.is_pure {
            self.lane.run_apart(self.time, call).await
        } else {
            self.lane.run(self.time, call).await
        }
    }

    fn store(&self) -> Store<CallState> {
        let mut store = Store::new(&self.machine.engine, CallState::new(self.limits()));
        store.limiter(|state| state);
        store.set_hostcall_fuel(self.machine.limits.answer);
        store.set_max_component_handles(MOST_HANDLES);
        store
    }

    /// A store for a call on this thread, which ends where it runs on.
    fn store_here(&self) -> Store<CallState> {
        let mut store = self.store();
        store.set_epoch_deadline(FIRST_SLICE);
        store.epoch_deadline_callback(|mut context| {
            Ok(if context.data_mut().doubt.look(computed()) {
                UpdateDeadline::Interrupt
            } else {
                UpdateDeadline::Continue(1)
            })
        });
        store
    }

    fn fresh(&self) -> (Store<CallState>, Limits) {
        let mut store = self.store();
        store.epoch_deadline_callback(|mut context| {
            let state = context.data_mut();
            let next = state.ticks_left.min(SLICE);
            state.ticks_left -= next;
            Ok(if next == 0 {
                UpdateDeadline::Interrupt
            } else {
                UpdateDeadline::Yield(next)
            })
        });
        (store, self.limits())
    }

    fn limits(&self) -> Limits {
        Limits {
            time: self.time,
            memory: self.memory,
        }
    }

    /// A place that is free now: mostly there is one.
    fn free_slot(&self) -> Option<Slot> {
        let own = Arc::clone(&self.share).try_acquire_owned();
        let own = own.ok()?;
        let all = Arc::clone(&self.machine.instances).try_acquire_owned();
        Some(Slot {
            _own: own,
            _all: all.ok()?,
        })
    }

    async fn slot(&self) -> Result<Slot, Fault> {
        match self.free_slot() {
            Some(slot) => Ok(slot),
            None => Box::pin(self.next_slot()).await,
        }
    }

    /// A place once one is free.
    async fn next_slot(&self) -> Result<Slot, Fault> {
        let acquire = async {
            // The share first: a plugin that has used up its own does not
            // stand in anybody else's way.
            let own = Arc::clone(&self.share).acquire_owned().await;
            let all = Arc::clone(&self.machine.instances).acquire_owned().await;
            Some(Slot {
                _own: own.ok()?,
                _all: all.ok()?,
            })
        };
        let waiting = Waiting::count(&self.waiting);
        if waiting.before > MOST_WAITING {
            return Err(Fault::Busy);
        }
        match tokio::time::timeout(self.machine.limits.wait, acquire).await {
            Ok(Some(slot)) => Ok(slot),
            Ok(None) | Err(_) => Err(Fault::Busy),
        }
    }
}

/// What one call may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) time: Duration,
    pub(crate) memory: usize,
}

impl Limits {
    fn arm(self, store: &mut Store<CallState>) {
        store.set_epoch_deadline(FIRST_SLICE);
        store.data_mut().ticks_left = ticks(self.time);
    }

    /// What an error means. Its own text is not told: a guest can shape it.
    pub(crate) fn fault(self, error: &wasmtime::Error) -> Fault {
        if error.is::<MemoryRefused>() {
            return Fault::OutOfMemory(self.memory);
        }
        if let Some(trap) = error.downcast_ref::<Trap>() {
            return if *trap == Trap::Interrupt {
                Fault::TimedOut(millis(self.time))
            } else {
                Fault::Trapped(trap_text(*trap))
            };
        }
        if error.is::<wasmtime_wasi::I32Exit>() {
            return Fault::Trapped("it exited");
        }
        // The engine has no type for this one.
        if error.to_string().contains("fuel allocated for hostcalls") {
            return Fault::TooLarge("more bytes than a call may hand over");
        }
        if error.is::<wasmtime::PoolConcurrencyLimitError>() {
            return Fault::Busy;
        }
        Fault::Trapped("its answer cannot be read")
    }
}

/// Whether a call was ended because its time was over.
fn is_interrupt(error: &wasmtime::Error) -> bool {
    error.downcast_ref::<Trap>() == Some(&Trap::Interrupt)
}

/// The traps that a plugin's author can do something about, in words.
const TRAPS: [(Trap, &str); 9] = [
    (Trap::StackOverflow, "call stack exhausted"),
    (Trap::UnreachableCodeReached, "unreachable code reached"),
    (Trap::MemoryOutOfBounds, "memory access out of bounds"),
    (Trap::TableOutOfBounds, "table access out of bounds"),
    (Trap::IndirectCallToNull, "call to null"),
    (Trap::BadSignature, "call of another type"),
    (Trap::IntegerOverflow, "integer overflow"),
    (Trap::IntegerDivisionByZero, "division by zero"),
    (Trap::BadConversionToInteger, "bad conversion to an integer"),
];

fn trap_text(trap: Trap) -> &'static str {
    let known = TRAPS.iter().find(|(each, _)| *each == trap);
    known.map_or("trap", |(_, text)| text)
}

/// What belongs to one store.
pub(crate) struct CallState {
    memory: usize,
    memory_left: usize,
    ticks_left: u64,
    doubt: Doubt,
    inert: Option<Box<Inert>>,
}

impl CallState {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            memory: limits.memory,
            memory_left: limits.memory,
            ticks_left: 0,
            doubt: Doubt::default(),
            inert: None,
        }
    }

    /// How much memory the store's instances have had so far.
    pub(crate) fn memory_had(&self) -> usize {
        self.memory - self.memory_left
    }

    pub(crate) fn inert(&mut self) -> &mut Inert {
        self.inert.get_or_insert_with(|| Box::new(Inert::new()))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the instance wanted more than {0} bytes of memory")]
struct MemoryRefused(usize);

impl ResourceLimiter for CallState {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // All memories of a store together, and an end at once: a guest that
        // is told `no` would only trap a little later, for another reason.
        match self
            .memory_left
            .checked_sub(desired.saturating_sub(current))
        {
            Some(left) => self.memory_left = left,
            None => return Err(MemoryRefused(self.memory).into()),
        }
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired > MOST_TABLE_ELEMENTS {
            return Err(MemoryRefused(self.memory).into());
        }
        Ok(true)
    }

    fn instances(&self) -> usize {
        64
    }

    fn tables(&self) -> usize {
        64
    }

    fn memories(&self) -> usize {
        8
    }
}

struct Waiting<'a> {
    count: &'a AtomicUsize,
    before: usize,
}

impl<'a> Waiting<'a> {
    fn count(count: &'a AtomicUsize) -> Self {
        let before = count.fetch_add(1, Ordering::Relaxed);
        Self { count, before }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}
