//! A request's body: JSON that every reader reads alike, or nothing.

use jackfield_sdk::json;
use jackfield_sdk::prelude::*;
use serde_json::Value;

/// Reads a body; none where there is none.
pub(crate) fn read(request: &Request) -> Result<Option<Value>, Refusal> {
    let Some(body) = request.body.as_deref().filter(|body| !body.is_empty()) else {
        return Ok(None);
    };
    let mut types = request
        .headers
        .iter()
        .filter(|header| header.name.eq_ignore_ascii_case("content-type"));
    let (Some(one), None) = (types.next(), types.next()) else {
        return Err(no_json());
    };
    if !is_json(&one.value) {
        return Err(no_json());
    }
    json::parse(body).map(Some).map_err(|error| {
        refuse::invalid(format!(
            "fountain: the body is not JSON that it takes: {error}"
        ))
    })
}

/// Whether a content type is JSON in UTF-8: in another charset the same bytes
/// could say something else.
fn is_json(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else {
        return false;
    };
    let mut parts = text.split(';').map(|part| part.trim().to_ascii_lowercase());
    let essence = parts.next().unwrap_or_default();
    let is_json = essence == "application/json"
        || essence
            .strip_prefix("application/")
            .is_some_and(|rest| rest.ends_with("+json"));
    is_json
        && parts.all(|part| match part.split_once('=') {
            Some(("charset", charset)) => charset.trim_matches('"') == "utf-8",
            Some(_) | None => true,
        })
}

fn no_json() -> Refusal {
    refuse::with(
        415,
        "invalid_request_error",
        "fountain: a body must be JSON, with one content-type that says so, such as \
         application/json: what it names is held to being this box's own.",
    )
}
