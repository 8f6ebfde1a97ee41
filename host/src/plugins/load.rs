//! From a file to a plugin that could go live: bytes, hash, a look without
//! running it, compiled code, and what it says it is.
//!
//! Whether it may go live is decided elsewhere.

use std::path::Path;
use std::sync::Arc;

use wasmtime::component::{Component, InstancePre, Linker};

use crate::plugins::cache::Cache;
use crate::plugins::call::{CallState, Runner};
use crate::plugins::convert;
use crate::plugins::engine::Machine;
use crate::plugins::error::{CallFault, LoadError};
use crate::plugins::hash::ComponentHash;
use crate::plugins::inspect::{Inspected, inspect};
use crate::plugins::{folder, wasi};
use crate::rules::manifest::{Manifest, WantedLimits};

/// A component that has said what it is.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) hash: ComponentHash,
    pub(crate) inert_imports: Vec<String>,
    pub(crate) runner: Arc<Runner>,
}

/// Loads one file. Compiling happens in the blocking pool.
pub(crate) async fn load(
    machine: &Arc<Machine>,
    cache: &Arc<Cache>,
    path: &Path,
) -> Result<Loaded, LoadError> {
    let path = path.to_owned();
    let (of, by) = (Arc::clone(machine), Arc::clone(cache));
    let compiled = tokio::task::spawn_blocking(move || compile(&of, &by, &path));
    let (hash, inspected, pre) = compiled
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
        manifest: Arc::new(manifest),
        hash,
        inert_imports: inspected.inert_imports,
    })
}

fn compile(
    machine: &Machine,
    cache: &Cache,
    path: &Path,
) -> Result<(ComponentHash, Inspected, InstancePre<CallState>), LoadError> {
    let bytes = folder::read(path)?;
    let hash = ComponentHash::of(&bytes);
    let inspected = inspect(&bytes)?;
    let engine = &machine.engine;
    let component = match cache.load(engine, &hash) {
        Some(component) => component,
        None => {
            let component = Component::from_binary(engine, &bytes)
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
    Ok((hash, inspected, pre))
}
