//! The cache of compiled code: what is taken back, and what is compiled anew.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::plugins::testing::component;

struct Stored {
    _folder: tempfile::TempDir,
    cache: Cache,
    engine: Engine,
    hash: ComponentHash,
    file: PathBuf,
}

fn stored() -> Stored {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path().join("cache"), [1; 32]).unwrap();
    let engine = Engine::default();
    let bytes = component("hermit");
    let hash = ComponentHash::of(&bytes);
    let compiled = Component::from_binary(&engine, &bytes).unwrap();
    assert!(cache.load(&engine, &hash).is_none());
    cache.store(&engine, &hash, &compiled).unwrap();
    assert!(cache.load(&engine, &hash).is_some());
    let mut files = fs::read_dir(&cache.folder).unwrap();
    let file = files.next().unwrap().unwrap().path();
    Stored {
        _folder: folder,
        cache,
        engine,
        hash,
        file,
    }
}

#[test]
fn folder_and_file_are_the_host_s_alone() {
    let stored = stored();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&stored.cache.folder), 0o700);
    assert_eq!(mode(&stored.file), 0o600);
    fs::set_permissions(&stored.cache.folder, Permissions::from_mode(0o755)).unwrap();
    let error = Cache::open(stored.cache.folder.clone(), [1; 32]).err();
    assert!(error.unwrap().to_string().contains("chmod 700"));
}

#[test]
fn a_changed_byte_is_not_loaded() {
    let stored = stored();
    let bytes = fs::read(&stored.file).unwrap();
    for at in [0, MAC_LENGTH, bytes.len() / 2, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        fs::write(&stored.file, changed).unwrap();
        assert!(
            stored.cache.load(&stored.engine, &stored.hash).is_none(),
            "{at}"
        );
    }
    fs::write(&stored.file, &bytes[..bytes.len() - 1]).unwrap();
    assert!(stored.cache.load(&stored.engine, &stored.hash).is_none());
    fs::write(&stored.file, b"short").unwrap();
    assert!(stored.cache.load(&stored.engine, &stored.hash).is_none());
    fs::write(&stored.file, bytes).unwrap();
    assert!(stored.cache.load(&stored.engine, &stored.hash).is_some());
}

#[test]
fn code_of_another_host_engine_or_component_is_not_loaded() {
    let stored = stored();
    let foreign = Cache::open(stored.cache.folder.clone(), [2; 32]).unwrap();
    assert!(foreign.load(&stored.engine, &stored.hash).is_none());

    let mut config = wasmtime::Config::new();
    config.epoch_interruption(true);
    let other_engine = Engine::new(&config).unwrap();
    assert!(stored.cache.load(&other_engine, &stored.hash).is_none());

    // Our own code, put in the place of another component's.
    let other = ComponentHash::of(b"another component");
    let place = stored.cache.path(&name(&stored.engine, &other));
    fs::copy(&stored.file, place).unwrap();
    assert!(stored.cache.load(&stored.engine, &other).is_none());
}
