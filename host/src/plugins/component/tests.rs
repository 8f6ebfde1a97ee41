//! Building components with the real toolchain.

use std::os::unix::fs::MetadataExt;

use tempfile::TempDir;

use super::*;
use crate::plugins::inspect::inspect;
use crate::plugins::testing::{component, components};

fn crate_with(manifest: &str, source: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("Cargo.toml", manifest);
    write("src/lib.rs", source);
    folder
}

fn build_one(folder: &Path) -> Result<Vec<Built>, BuildError> {
    let out = tempfile::tempdir().unwrap();
    let target = out.path().join("target");
    build(&[folder.to_owned()], &target, out.path(), &mut |_| {})
}

#[test]
fn what_is_built_imports_nothing_that_it_did_not_ask_for() {
    for file in fs::read_dir(components()).unwrap() {
        let path = file.unwrap().path();
        let inspected = inspect(&fs::read(&path).unwrap()).unwrap();
        let tourist = path.ends_with("tourist.wasm");
        assert_eq!(inspected.inert_imports.is_empty(), !tourist, "{path:?}");
    }
}

#[test]
fn a_component_that_has_not_changed_keeps_its_file() {
    let path = components().join("hermit.wasm");
    let before = fs::metadata(&path).unwrap().ino();
    write_whole(&path, &component("hermit")).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().ino(), before);
}

#[test]
fn others_can_write_neither_the_folder_nor_what_lies_in_it() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("new/plugins");
    let file = folder.join("a.wasm");
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let mut said = Vec::new();
    let mut make = |path: &Path| make_folder(path, &mut |line| said.push(line.to_owned())).unwrap();
    make(&folder);
    for bytes in ["first", "first", "second"] {
        write_whole(&file, bytes.as_bytes()).unwrap();
        assert_eq!((mode(&folder), mode(&file)), (0o755, 0o644), "{bytes}");
        set(&file, 0o666);
    }
    // What is there already loses others' writing and nothing else.
    for (before, after) in [
        (0o775, 0o755),
        (0o770, 0o750),
        (0o700, 0o700),
        (0o1777, 0o1777),
    ] {
        set(&folder, before);
        make(&folder);
        assert_eq!(mode(&folder), after, "{before:o}");
    }
    assert_eq!(said.len(), 2, "{said:?}");
}

#[test]
fn what_cannot_be_built_says_what_is_missing() {
    let empty = tempfile::tempdir().unwrap();
    let error = build_one(empty.path()).unwrap_err().to_string();
    assert!(error.contains("holds no Cargo.toml"), "{error}");

    let package = "[package]\nname = \"sample\"\nedition = \"2024\"\n[workspace]\n";
    let no_module = crate_with(package, "");
    let error = build_one(no_module.path()).unwrap_err().to_string();
    assert!(error.contains("crate-type"), "{error}");

    let manifest = format!("{package}[lib]\ncrate-type = [\"cdylib\"]\n");
    let broken = crate_with(&manifest, "not rust");
    let error = build_one(broken.path()).unwrap_err();
    assert!(matches!(error, BuildError::Cargo(_)), "{error}");
}

#[test]
fn the_build_does_not_see_the_vault_s_key() {
    for tool in ["cargo", "rustc", "rustup"] {
        let command = command(tool);
        let removed = |name: &str| command.get_envs().any(|each| each == (name.as_ref(), None));
        assert!(removed("JACKFIELD_VAULT_KEY"), "{tool}");
        assert!(removed("RUSTFLAGS"), "{tool}");
    }
}
