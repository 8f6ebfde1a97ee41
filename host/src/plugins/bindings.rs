//! Generated from `wit/` and nothing else.

wasmtime::component::bindgen!({
    path: "../wit",
    world: "capability",
    // A call may be left at a tick and go on in another thread: `lane.rs`.
    exports: { default: async },
    // The test kit reads and writes the contract's own types: `alone/`.
    additional_derives: [serde::Serialize, serde::Deserialize],
});
