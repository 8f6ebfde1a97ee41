//! What bytes are, found out without running or compiling them: whether they
//! are a component of our world, and what they want of the host.

use wasmtime::Engine;
use wit_component::DecodedWasm;
use wit_parser::{PackageId, Resolve, SourceMap, WorldId};

use crate::plugins::error::LoadError;
use crate::plugins::wasi;

const WORLD: &str = "capability";
const DECISIONS: &str = "jackfield:plugin/decisions@0.1.0";

const TYPES_WIT: &str = include_str!("../../../wit/types.wit");
const CAPABILITY_WIT: &str = include_str!("../../../wit/capability.wit");

/// What a component of our world wants of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inspected {
    /// WASI interfaces that will be linked to something inert.
    pub(crate) inert_imports: Vec<String>,
}

/// Looks at a component's bytes.
///
/// # Errors
/// When they are no component, of another world, or want anything of the host.
pub(crate) fn inspect(bytes: &[u8]) -> Result<Inspected, LoadError> {
    if Engine::detect_precompiled(bytes).is_some() {
        return Err(LoadError::Precompiled);
    }
    match (bytes.get(..4), bytes.get(6..8)) {
        (Some(b"\0asm"), Some([0, 0])) => return Err(LoadError::CoreModule),
        (Some(b"\0asm"), _) => {}
        (_, _) => return Err(LoadError::NotWasm),
    }
    let decoded =
        wit_component::decode(bytes).map_err(|cause| LoadError::Malformed(text(&cause)))?;
    let (resolve, world) = match decoded {
        DecodedWasm::Component(resolve, world) => (resolve, world),
        DecodedWasm::WitPackage(_, _) => return Err(LoadError::WitPackage),
    };
    let inert_imports = imports(&resolve, world)?;
    if !exports(&resolve, world).any(|name| name == DECISIONS) {
        return Err(LoadError::World(format!("it does not export {DECISIONS}")));
    }
    // With WASI among its imports it fits a larger world than ours; the types
    // of its exports are then looked at when it is instantiated.
    if inert_imports.is_empty() {
        fits(bytes).map_err(LoadError::World)?;
    }
    Ok(Inspected { inert_imports })
}

fn imports(resolve: &Resolve, world: WorldId) -> Result<Vec<String>, LoadError> {
    let Some(world) = resolve.worlds.get(world) else {
        return Err(LoadError::Malformed("it has no world".to_owned()));
    };
    let names: Vec<String> = world
        .imports
        .keys()
        .map(|key| resolve.name_world_key(key))
        .collect();
    match names.iter().find(|name| !wasi::is_inert(name)) {
        Some(foreign) => Err(LoadError::Import(plain(foreign))),
        None => Ok(names),
    }
}

fn exports(resolve: &Resolve, world: WorldId) -> impl Iterator<Item = String> {
    let keys = resolve.worlds.get(world).map(|world| world.exports.keys());
    keys.into_iter()
        .flatten()
        .map(|key| resolve.name_world_key(key))
}

fn fits(bytes: &[u8]) -> Result<(), String> {
    let mut sources = SourceMap::default();
    sources.push_str("types.wit", TYPES_WIT);
    sources.push_str("capability.wit", CAPABILITY_WIT);
    let group = sources.parse().map_err(|(_, cause)| text(&cause))?;
    let mut resolve = Resolve::default();
    let package: PackageId = resolve.push_group(group).map_err(|cause| text(&cause))?;
    let world = resolve
        .select_world(&[package], Some(WORLD))
        .map_err(|cause| text(&cause))?;
    wit_component::targets(&resolve, world, bytes).map_err(|cause| text(&cause))
}

/// A library's account of hostile bytes, for people: cut and escaped.
fn text(cause: &impl std::fmt::Display) -> String {
    plain(&format!("{cause:#}"))
}

fn plain(text: &str) -> String {
    text.chars()
        .take(300)
        .flat_map(char::escape_debug)
        .collect()
}
