//! What the binary carries for its authors: the SDK, the test kit and the
//! contract that it was built with, and what a new project begins as. The SDK
//! is in no registry, so a project takes it along.

/// A file that the binary carries.
pub(super) struct Carried {
    /// Its path in a project, or below `vendor/`.
    pub(super) path: &'static str,
    /// Its text.
    pub(super) text: &'static str,
}

// Paths of the sources are literals of the compiler's; a function has none.
macro_rules! carried {
    ($($path:literal = $source:literal,)*) => {
        &[$(Carried { path: $path, text: include_str!(concat!("../../../", $source)) },)*]
    };
}

/// What lies in `vendor/`.
pub(super) const VENDORED: &[Carried] = carried! {
    "LICENSE" = "LICENSE",
    "wit/types.wit" = "wit/types.wit",
    "wit/capability.wit" = "wit/capability.wit",
    "sdk/Cargo.toml" = "sdk/Cargo.toml",
    "sdk/src/bindings.rs" = "sdk/src/bindings.rs",
    "sdk/src/export.rs" = "sdk/src/export.rs",
    "sdk/src/heap.rs" = "sdk/src/heap.rs",
    "sdk/src/json.rs" = "sdk/src/json.rs",
    "sdk/src/lib.rs" = "sdk/src/lib.rs",
    "sdk/src/manifest.rs" = "sdk/src/manifest.rs",
    "sdk/src/members.rs" = "sdk/src/members.rs",
    "sdk/src/refuse.rs" = "sdk/src/refuse.rs",
    "sdk/src/request.rs" = "sdk/src/request.rs",
    "sdk/src/step.rs" = "sdk/src/step.rs",
    "sdk/testkit/Cargo.toml" = "sdk/testkit/Cargo.toml",
    "sdk/testkit/src/ask.rs" = "sdk/testkit/src/ask.rs",
    "sdk/testkit/src/outcome.rs" = "sdk/testkit/src/outcome.rs",
    "sdk/testkit/src/lib.rs" = "sdk/testkit/src/lib.rs",
    "sdk/testkit/src/plugin.rs" = "sdk/testkit/src/plugin.rs",
    "sdk/testkit/src/script.rs" = "sdk/testkit/src/script.rs",
    "sdk/testkit/src/wire.rs" = "sdk/testkit/src/wire.rs",
};

/// A capability in Rust. The lock is this version's own, so that a project
/// begins with the releases that this version was tested with; cargo drops
/// from it what the project does not use.
pub(super) const RUST_CAPABILITY: &[Carried] = carried! {
    "Cargo.toml" = "sdk/template/capability/Cargo.toml.in",
    "Cargo.lock" = "Cargo.lock",
    ".gitignore" = "sdk/template/capability/gitignore.in",
    "README.md" = "sdk/template/capability/README.md.in",
    "src/lib.rs" = "sdk/template/capability/src/lib.rs.in",
    "tests/component.rs" = "sdk/template/capability/tests/component.rs.in",
};
