//! From bytes to a plugin that could go live: a look without
//! running them, compiled code, and what it says it is.
//!
//! Whether it may go live is decided elsewhere.

use std::ops::Deref;
use std::sync::Arc;

use wasmtime::component::{Component, InstancePre, Linker};

use crate::lease::Tenure;
use crate::plugins::cache::Cache;
use crate::plugins::call::{CallState, Runner};
use crate::plugins::convert;
use crate::plugins::engine::Machine;
use crate::plugins::error::{CallFault, LoadError};
use crate::plugins::hash::ComponentHash;
use crate::plugins::inspect::{Inspected, inspect};
use crate::plugins::live::LivePlugin;
use crate::plugins::wasi;
use crate::rules::manifest::{Manifest, WantedLimits};
use crate::rules::permission::Grants;
use crate::rules::signature::KeyId;

/// What the operator's word is about: a component, and what it says it is.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) hash: ComponentHash,
    /// The trusted key that signed it.
    pub(crate) signer: Option<KeyId>,
}

/// A component that has said what it is, and can be asked.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) is: Identity,
    pub(crate) inert_imports: Vec<String>,
    pub(crate) runner: Arc<Runner>,
}

impl Deref for Loaded {
    type Target = Identity;

    fn deref(&self) -> &Identity {
        &self.is
    }
}

impl Loaded {
    /// The version, to be asked under these grants and this lease.
    pub(crate) fn plugin(&self, grants: Grants, lease: Tenure) -> LivePlugin {
        let (manifest, runner) = (Arc::clone(&self.is.manifest), Arc::clone(&self.runner));
        LivePlugin::new(manifest, self.is.hash, grants, runner, lease)
    }
}

/// Loads a component. Compiling happens in the blocking pool. Who signed it is
/// looked at once its name is known, by whoever loads it.
pub(crate) async fn load(
    machine: &Arc<Machine>,
    cache: &Arc<Cache>,
    hash: ComponentHash,
    bytes: Arc<Vec<u8>>,
) -> Result<Loaded, LoadError> {
    let (of, by) = (Arc::clone(machine), Arc::clone(cache));
    let compiled = tokio::task::spawn_blocking(move || compile(&of, &by, hash, &bytes));
    let (inspected, pre) = compiled
        .await
        .map_err(|cause| LoadError::Host(cause.to_string()))??;
    let runner = |wanted: WantedLimits| {
        let is_pure = inspected.inert_imports.is_empty();
        Runner::new(Arc::clone(machine), pre.clone(), is_pure, wanted)
            .map_err(|cause| LoadError::World(format!("{cause:#}")))
    };
    let asked = runner(WantedLimits::default())?.describe().await;
    let said = asked.map_err(|fault| CallFault {
        plugin: hash.to_string(),
        fault,
    })?;
    let manifest = Manifest::check(convert::manifest(said))?;
    Ok(Loaded {
        runner: Arc::new(runner(manifest.limits)?),
        is: Identity {
            manifest: Arc::new(manifest),
            hash,
            signer: None,
        },
        inert_imports: inspected.inert_imports,
    })
}

fn compile(
    machine: &Machine,
    cache: &Cache,
    hash: ComponentHash,
    bytes: &[u8],
) -> Result<(Inspected, InstancePre<CallState>), LoadError> {
    let inspected = inspect(bytes)?;
    let engine = &machine.engine;
    let component = match cache.load(engine, &hash) {
        Some(component) => component,
        None => {
            let component = Component::from_binary(engine, bytes)
                .map_err(|cause| LoadError::Compile(format!("{cause:#}")))?;
            if let Err(cause) = cache.store(engine, &hash, &component) {
                tracing::warn!(%hash, %cause, "compiled code could not be stored");
            }
            component
        }
    };
    let linker = if inspected.inert_imports.is_empty() {
        Linker::new(engine)
    } else {
        wasi::linker(engine).map_err(|cause| LoadError::Host(format!("{cause:#}")))?
    };
    let pre = linker
        .instantiate_pre(&component)
        .map_err(|cause| LoadError::World(format!("{cause:#}")))?;
    Ok((inspected, pre))
}
