//! Putting a program on a disk that forgets every write no `fdatasync`
//! followed (`forgetful.c` says how). Shared by the tests that cut the power.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles the shim into `target` and returns where it lies. Several tests
/// may do so at once: each builds its own and renames it into place.
///
/// # Panics
/// When there is no C compiler: `cc` must be installed.
pub(crate) fn build_shim(target: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/durability/forgetful.c");
    let shim = target.join("forgetful.so");
    let draft = tempfile::Builder::new()
        .prefix("forgetful-")
        .tempdir_in(target)
        .expect("the target folder takes files");
    let built = draft.path().join("forgetful.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .args([&built, &source])
        .arg("-ldl")
        .status()
        .expect("the C compiler `cc` runs: install gcc");
    assert!(compiled.success(), "forgetful.c does not compile");
    std::fs::rename(built, &shim).expect("both lie in the target folder");
    shim
}

/// Puts `command` on the forgetful disk: what it writes below `watch` lies
/// there as always, and in `shadow` what is left after a cut.
pub(crate) fn put_under(command: &mut Command, shim: &Path, watch: &Path, shadow: &Path) {
    command
        .env("LD_PRELOAD", shim)
        .env("FORGETFUL_WATCH", watch)
        .env("FORGETFUL_SHADOW", shadow);
}
