//! The bodies of the protocol, as its schema has them.

use serde_json::{Value, json};

const PROTOCOL: &str = include_str!("../data/broker-protocol.json");

/// Holds a body to one definition of the protocol's schema.
///
/// # Panics
/// When it does not fit; the message says where.
pub fn holds(definition: &str, body: &Value) {
    let mut schema: Value = serde_json::from_str(PROTOCOL).expect("the schema is JSON");
    assert!(
        schema["$defs"].get(definition).is_some(),
        "the schema has no {definition}"
    );
    schema["$ref"] = json!(format!("#/$defs/{definition}"));
    let validator = jsonschema::validator_for(&schema).expect("the schema compiles");
    let faults: Vec<String> = validator
        .iter_errors(body)
        .map(|fault| format!("{}: {fault}", fault.instance_path()))
        .collect();
    assert!(faults.is_empty(), "{body} is no {definition}: {faults:#?}");
}
