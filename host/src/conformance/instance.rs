//! A value for a JSON Schema: what a model that keeps to the schema could have
//! said. Made for any schema, also one that nobody foresaw; where a schema
//! cannot be understood, the value is null.

use serde_json::{Map, Value, json};

/// How deep a schema is followed, its references included.
const DEPTH: usize = 24;

/// How many items an array is given when the schema asks for many.
const ITEMS: usize = 16;

/// How long a text is made when the schema asks for a long one.
const TEXT: usize = 4096;

/// What texts say, where the schema leaves it open.
const WORDS: &str = "The stand-in upstream's words.";

/// How many values are made in all, since a schema may name itself often.
const VALUES: usize = 4000;

/// A value that fits.
pub(super) fn instance(schema: &Value) -> Value {
    let left = VALUES;
    build(schema, &mut Whole { schema, left }, DEPTH)
}

/// What references start from, and how many values may still be made.
struct Whole<'a> {
    schema: &'a Value,
    left: usize,
}

fn build(schema: &Value, root: &mut Whole<'_>, depth: usize) -> Value {
    let (Some(depth), Some(left)) = (depth.checked_sub(1), root.left.checked_sub(1)) else {
        return Value::Null;
    };
    root.left = left;
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(first) = first_of(schema, "enum") {
        return first.clone();
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let pointer = target.strip_prefix('#').unwrap_or_default();
        return match root.schema.pointer(pointer) {
            Some(target) => build(target, root, depth),
            None => Value::Null,
        };
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(first) = first_of(schema, choice) {
            return build(&merged(schema, &[choice], [first]), root, depth);
        }
    }
    if let Some(all) = schema.get("allOf").and_then(Value::as_array) {
        return build(&merged(schema, &["allOf"], all), root, depth);
    }
    match kind(schema) {
        "object" => object(schema, root, depth),
        "array" => array(schema, root, depth),
        "string" => text(schema),
        "number" => number(schema, 0.5),
        "integer" => integer(schema),
        "boolean" => Value::Bool(true),
        _ => Value::Null,
    }
}

/// The type that the schema names, or that its other members give away.
fn kind(schema: &Value) -> &str {
    let named = match schema.get("type") {
        Some(Value::Array(types)) => types
            .iter()
            .filter_map(Value::as_str)
            .find(|kind| *kind != "null"),
        Some(Value::String(kind)) => Some(kind.as_str()),
        Some(_) | None => None,
    };
    let has = |name: &str| schema.get(name).is_some();
    match named {
        Some(kind) => kind,
        None if has("properties") || has("required") => "object",
        None if has("items") || has("prefixItems") => "array",
        None => "null",
    }
}

/// The schema less `without`, with the members of others laid over it.
fn merged<'a>(
    schema: &Value,
    without: &[&str],
    over: impl IntoIterator<Item = &'a Value>,
) -> Value {
    let mut members = schema.as_object().cloned().unwrap_or_default();
    members.retain(|name, _| !without.contains(&name.as_str()));
    for part in over.into_iter().filter_map(Value::as_object) {
        for (name, value) in part {
            lay(&mut members, name, value);
        }
    }
    Value::Object(members)
}

fn lay(members: &mut Map<String, Value>, name: &str, value: &Value) {
    match (name, members.get_mut(name), value) {
        ("properties", Some(Value::Object(known)), Value::Object(more)) => {
            known.extend(more.clone());
        }
        ("required", Some(Value::Array(known)), Value::Array(more)) => {
            known.extend(more.clone());
        }
        (_, _, value) => {
            members.insert(name.to_owned(), value.clone());
        }
    }
}

/// Every property is given. Numbers side by side share one whole, so that
/// probabilities sum to 1.
fn object(schema: &Value, root: &mut Whole<'_>, depth: usize) -> Value {
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.cloned().unwrap_or_default();
    let is_number = |schema: &Value| kind(schema) == "number";
    let numbers = properties.values().filter(|part| is_number(part)).count();
    let share = 1.0 / f64::from(u32::try_from(numbers.max(1)).unwrap_or(u32::MAX));
    let share = (share * 1e6).round() / 1e6;
    let mut made = Map::new();
    for (name, part) in &properties {
        let free = part.get("const").is_none() && part.get("enum").is_none();
        let value = match is_number(part) && free {
            true => number(part, share),
            false => build(part, root, depth),
        };
        made.insert(name.clone(), value);
    }
    let required = schema.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !made.contains_key(name) {
            let part = schema.get("additionalProperties").unwrap_or(&Value::Null);
            made.insert(name.to_owned(), build(part, root, depth));
        }
    }
    Value::Object(made)
}

fn array(schema: &Value, root: &mut Whole<'_>, depth: usize) -> Value {
    let prefix = schema.get("prefixItems").and_then(Value::as_array);
    let mut items: Vec<Value> = prefix
        .into_iter()
        .flatten()
        .take(ITEMS)
        .map(|item| build(item, root, depth))
        .collect();
    let fewest = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
    let fewest = usize::try_from(fewest).unwrap_or(usize::MAX).min(ITEMS);
    while items.len() < fewest {
        let item = schema.get("items").unwrap_or(&Value::Null);
        items.push(build(item, root, depth));
    }
    Value::Array(items)
}

fn text(schema: &Value) -> Value {
    let length = |name: &str| {
        let length = schema.get(name).and_then(Value::as_u64)?;
        usize::try_from(length).ok()
    };
    let longest = length("maxLength").unwrap_or(TEXT).min(TEXT);
    let shortest = length("minLength").unwrap_or(0).min(longest);
    let letters = WORDS.chars().chain(std::iter::repeat('.'));
    let wanted = WORDS.len().clamp(shortest, longest);
    Value::String(letters.take(wanted).collect())
}

fn number(schema: &Value, wanted: f64) -> Value {
    let (low, high) = bounds(schema);
    let value = if (low..=high).contains(&wanted) {
        wanted
    } else if low.is_finite() && high.is_finite() {
        f64::midpoint(low, high)
    } else if low.is_finite() {
        low + 1.0
    } else {
        high - 1.0
    };
    json!(value)
}

fn integer(schema: &Value) -> Value {
    let (low, high) = bounds(schema);
    let wanted = 1.0_f64.clamp(low.min(high), high.max(low));
    // Bounds of JSON numbers: beyond these a whole number says the same.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a float that is too large becomes the largest integer"
    )]
    let value = wanted.ceil() as i64;
    json!(value)
}

fn bounds(schema: &Value) -> (f64, f64) {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let step = f64::from(u8::from(kind(schema) == "integer")).max(1e-3);
    let low = [
        bound("minimum"),
        bound("exclusiveMinimum").map(|bound| bound + step),
    ];
    let high = [
        bound("maximum"),
        bound("exclusiveMaximum").map(|bound| bound - step),
    ];
    (
        low.into_iter().flatten().fold(f64::NEG_INFINITY, f64::max),
        high.into_iter().flatten().fold(f64::INFINITY, f64::min),
    )
}

fn first_of<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get(name)?.as_array()?.first()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_gets_a_value_that_fits() {
        let check = |schema: Value| {
            let value = instance(&schema);
            let validator = jsonschema::validator_for(&schema).unwrap();
            let fault = validator.validate(&value).err().map(|f| f.to_string());
            assert_eq!(fault, None, "{schema} got {value}");
        };
        check(json!({}));
        check(json!({"type": "object"}));
        check(json!({"type": "string", "enum": ["small", "large"]}));
        check(json!({"const": {"a": [1]}}));
        check(json!({"type": "boolean"}));
        check(json!({"type": "integer", "minimum": 3, "exclusiveMaximum": 5}));
        check(json!({"type": "integer", "maximum": -3}));
        check(json!({"type": "number", "exclusiveMinimum": 0, "maximum": 0.25}));
        check(json!({"type": "number", "minimum": 7}));
        check(json!({"type": ["null", "string"], "minLength": 40, "maxLength": 50}));
        check(json!({"type": "string", "maxLength": 3}));
        check(json!({"type": "array", "items": {"type": "integer"}, "minItems": 3}));
        check(json!({"type": "array", "prefixItems": [{"type": "string"}, {"const": 2}]}));
        check(json!({"anyOf": [{"type": "number"}, {"type": "string"}]}));
        check(
            json!({"type": "object", "required": ["b"], "oneOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, false]}),
        );
        check(
            json!({"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"properties": {"b": {"type": "boolean"}}, "required": ["b"]}]}),
        );
        check(
            json!({"$ref": "#/$defs/x", "$defs": {"x": {"type": "array", "minItems": 1,
            "items": {"$ref": "#/$defs/y"}}, "y": {"type": "object", "required": ["n"],
            "properties": {"n": {"type": "integer"}}}}}),
        );
        check(
            json!({"type": "object", "required": ["free"], "additionalProperties": {"type": "string"}}),
        );
    }

    #[test]
    fn numbers_side_by_side_share_one_whole() {
        let schema = json!({"type": "object", "properties": {
            "reason": {"type": "string"},
            "choice": {"type": "string", "enum": ["small", "large"]},
            "probabilities": {"type": "object", "properties": {
                "small": {"type": "number"}, "large": {"type": "number"}}}}});
        let value = instance(&schema);
        assert_eq!(value["choice"], "small");
        assert_eq!(value["probabilities"], json!({"small": 0.5, "large": 0.5}));
    }

    #[test]
    fn a_schema_without_an_end_ends() {
        let _some = instance(&json!({"$ref": "#"}));
        let _some = instance(
            &json!({"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}}),
        );
        let _some = instance(
            &json!({"type": "array", "minItems": 1_000_000_000, "items": {"type": "string", "minLength": 1_000_000}}),
        );
        let _some = instance(&json!({"type": 5, "enum": [], "anyOf": {}, "required": [1]}));
    }
}
