//! The bodies of the protocol, held to its schema as data.

use jsonschema::Validator;
use serde_json::{Value, json};

const SCHEMA: &str = include_str!("bodies.json");

/// How many faults of one body are told.
const MOST: usize = 5;

/// Validators of the bodies that a broker answers.
pub(super) struct Bodies {
    declaration_kept: Validator,
    decide_response: Validator,
    payer: Validator,
    refusal: Validator,
}

/// A body's definition.
#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    /// What a report is answered with.
    DeclarationKept,
    /// What a decide request is answered with.
    DecideResponse,
    /// Who pays.
    Payer,
    /// A refusal.
    Refusal,
}

impl Body {
    fn name(self) -> &'static str {
        match self {
            Self::DeclarationKept => "declarationKept",
            Self::DecideResponse => "decideResponse",
            Self::Payer => "payer",
            Self::Refusal => "refusal",
        }
    }
}

impl Bodies {
    pub(super) fn new() -> Self {
        Self {
            declaration_kept: validator(Body::DeclarationKept),
            decide_response: validator(Body::DecideResponse),
            payer: validator(Body::Payer),
            refusal: validator(Body::Refusal),
        }
    }

    /// What is wrong with a body, in words; empty when nothing is.
    pub(super) fn faults(&self, body: Body, value: &Value) -> Vec<String> {
        let validator = match body {
            Body::DeclarationKept => &self.declaration_kept,
            Body::DecideResponse => &self.decide_response,
            Body::Payer => &self.payer,
            Body::Refusal => &self.refusal,
        };
        let name = body.name();
        validator
            .iter_errors(value)
            .take(MOST)
            .map(|fault| {
                let at = fault.instance_path().to_string();
                let at = if at.is_empty() { "/" } else { &at };
                format!("the body is no {name}: {fault} (at {at})")
            })
            .collect()
    }
}

fn validator(body: Body) -> Validator {
    let mut schema: Value = serde_json::from_str(SCHEMA)
        .expect("the schema is part of this program, and a test reads it");
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("$ref".to_owned(), json!(format!("#/$defs/{}", body.name())));
    }
    jsonschema::validator_for(&schema)
        .expect("the schema is part of this program, and a test compiles it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_is_told_from_wrong() {
        let bodies = Bodies::new();
        let check = |body: Body, value: Value, right: bool| {
            let faults = bodies.faults(body, &value);
            assert_eq!(faults.is_empty(), right, "{value}: {faults:?}");
        };
        let kept = |scope: Value| json!({"capabilities": [{"name": "a", "broker": "b", "scope": scope}], "at": "now"});
        check(Body::DeclarationKept, kept(json!(["w"])), true);
        check(Body::DeclarationKept, kept(json!(["w", "w"])), false);
        check(Body::DeclarationKept, kept(json!("w")), false);
        check(Body::DeclarationKept, json!({"capabilities": []}), false);
        check(
            Body::Payer,
            json!({"kind": "owner", "principal": "github:a"}),
            true,
        );
        check(
            Body::Payer,
            json!({"kind": "visitor", "principal": null}),
            true,
        );
        check(Body::Payer, json!({"kind": "somebody"}), false);
        check(
            Body::Payer,
            json!({"kind": "owner", "principal": "two words"}),
            false,
        );
        check(Body::Refusal, json!({"error": "no"}), true);
        check(Body::Refusal, json!({"error": {"message": "no"}}), true);
        check(Body::Refusal, json!({"error": {"message": ""}}), false);
        check(Body::Refusal, json!({"message": "no"}), false);
        let answers = |answer: Value| json!({"model": "m", "answers": {"q": answer}});
        check(
            Body::DecideResponse,
            answers(json!({"type": "noul", "noul": 0.5})),
            true,
        );
        check(
            Body::DecideResponse,
            answers(json!({"type": "unsupported"})),
            true,
        );
        check(
            Body::DecideResponse,
            answers(json!({"type": "noul", "noul": 1.5})),
            false,
        );
        check(
            Body::DecideResponse,
            answers(json!({"type": "choice"})),
            false,
        );
        check(
            Body::DecideResponse,
            answers(json!({"type": "score", "score": "1"})),
            false,
        );
        check(
            Body::DecideResponse,
            json!({"model": "", "answers": {}}),
            false,
        );
    }
}
