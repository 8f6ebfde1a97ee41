//! The contract's functions in one component, found once and looked up in each
//! instance.

use std::sync::atomic::{AtomicBool, Ordering};

use wasmtime::component::{
    ComponentExportIndex, ComponentNamedList, Instance, InstancePre, Lift, Lower, TypedFunc,
};
use wasmtime::{Store, format_err};

use crate::plugins::bindings::exports::jackfield::plugin::decisions::{
    Answers, Caller, Request, Step,
};
use crate::plugins::call::CallState;

const DECISIONS: &str = "jackfield:plugin/decisions@0.1.0";

/// What a request needs: `scopes`.
pub(crate) type Scopes<'a> = TypedFunc<(&'a Request,), (Option<Vec<String>>,)>;
/// Where it goes: `route`.
pub(crate) type Route<'a> = TypedFunc<(&'a Request, &'a Caller), (Step,)>;
/// What follows from what a need brought: `resume`.
pub(crate) type Resume<'a> = TypedFunc<(&'a [u8], &'a Answers), (Step,)>;

/// A component that exports the contract, and where its functions are.
pub(crate) struct Functions {
    pre: InstancePre<CallState>,
    scopes: Export,
    route: Export,
    resume: Export,
}

/// One export, and whether its type has been checked.
struct Export {
    index: ComponentExportIndex,
    is_checked: AtomicBool,
}

impl Functions {
    pub(crate) fn new(pre: InstancePre<CallState>) -> wasmtime::Result<Self> {
        let component = pre.component();
        let missing = |name: &str| format_err!("there is no export {name}");
        let decisions = component
            .get_export_index(None, DECISIONS)
            .ok_or_else(|| missing(DECISIONS))?;
        let export = |name| {
            let index = component.get_export_index(Some(&decisions), name);
            Ok::<_, wasmtime::Error>(Export {
                index: index.ok_or_else(|| missing(name))?,
                is_checked: AtomicBool::new(false),
            })
        };
        Ok(Self {
            scopes: export("scopes")?,
            route: export("route")?,
            resume: export("resume")?,
            pre,
        })
    }

    /// A fresh instance that can be left and gone on with.
    pub(crate) async fn instantiate(
        &self,
        store: &mut Store<CallState>,
    ) -> wasmtime::Result<Instance> {
        self.pre.instantiate_async(store).await
    }

    /// A fresh instance that runs where it stands or not at all.
    pub(crate) fn instantiate_here(
        &self,
        store: &mut Store<CallState>,
    ) -> wasmtime::Result<Instance> {
        self.pre.instantiate(store)
    }

    pub(crate) fn scopes<'a>(
        &self,
        store: &mut Store<CallState>,
        instance: Instance,
    ) -> wasmtime::Result<Scopes<'a>> {
        self.scopes.of(store, instance)
    }

    pub(crate) fn route<'a>(
        &self,
        store: &mut Store<CallState>,
        instance: Instance,
    ) -> wasmtime::Result<Route<'a>> {
        self.route.of(store, instance)
    }

    pub(crate) fn resume<'a>(
        &self,
        store: &mut Store<CallState>,
        instance: Instance,
    ) -> wasmtime::Result<Resume<'a>> {
        self.resume.of(store, instance)
    }
}

impl Export {
    /// The function in an instance. Each export is asked for under one type
    /// alone, above: lifetimes are no part of what is checked.
    fn of<Params, Results>(
        &self,
        store: &mut Store<CallState>,
        instance: Instance,
    ) -> wasmtime::Result<TypedFunc<Params, Results>>
    where
        Params: ComponentNamedList + Lower,
        Results: ComponentNamedList + Lift,
    {
        let function = instance
            .get_func(&mut *store, self.index)
            .ok_or_else(|| format_err!("the instance is another component's"))?;
        if !self.is_checked.load(Ordering::Relaxed) {
            // The same walk through both types each time: a tenth of what the
            // two calls of a request take.
            let checked = function.typed(&*store)?;
            self.is_checked.store(true, Ordering::Relaxed);
            return Ok(checked);
        }
        #[expect(unsafe_code, reason = "the proof stands beside it")]
        // SAFETY: this export of this component was found to be of this type.
        // The index is looked up in no other component (`get_func` gives none
        // there), a component's exports have one type in all its instances,
        // and this `Export` is asked for under these parameters alone.
        Ok(unsafe { TypedFunc::new_unchecked(function) })
    }
}
