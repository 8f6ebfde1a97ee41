//! Generated from `wit/` and nothing else: the contract's own types.

#![expect(
    missing_docs,
    reason = "made by a generator; the contract's documentation stands in wit/"
)]

#[cfg(not(feature = "serde"))]
wit_bindgen::generate!({
    path: "../wit",
    world: "capability",
    pub_export_macro: true,
    export_macro_name: "export_capability",
    default_bindings_module: "jackfield_sdk::bindings",
    additional_derives: [PartialEq, Clone],
});

#[cfg(feature = "serde")]
wit_bindgen::generate!({
    path: "../wit",
    world: "capability",
    pub_export_macro: true,
    export_macro_name: "export_capability",
    default_bindings_module: "jackfield_sdk::bindings",
    additional_derives: [PartialEq, Clone, serde::Serialize, serde::Deserialize],
});
