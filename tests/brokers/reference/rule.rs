//! Which words a request needs, and whether its box declared them.

use serde_json::Value;

use crate::broker::{Asked, Broker, Caller, Reply, refuse};
use crate::faults::Fault;

/// Where a request goes, with the words that it needs.
pub enum Route {
    Hello,
    Messages,
    Decide,
    Egress(String),
    Feedback(Vec<&'static str>),
    Fountain(&'static str),
    Notes(&'static str),
}

/// None for what is not served.
pub fn route(broker: &Broker, asked: &Asked) -> Option<Route> {
    let (method, path) = (asked.method.as_str(), asked.path.as_str());
    if let Some(rest) = path.strip_prefix("/llm/anthropic") {
        let served = match (method, rest) {
            ("HEAD" | "GET", "/api/hello") => return Some(Route::Hello),
            ("POST", "/v1/messages" | "/v1/messages/count_tokens") | ("GET", "/v1/models") => true,
            (method, rest) => method == "GET" && rest.starts_with("/v1/models/"),
        };
        return (served || broker.breaks(Fault::ForwardEveryPath)).then_some(Route::Messages);
    }
    if let Some(rest) = path.strip_prefix("/egress/") {
        let name = rest.split('/').next().unwrap_or_default();
        let fits = broker.breaks(Fault::TakeAnyName) || is_secret(name);
        return fits.then(|| Route::Egress(name.to_owned()));
    }
    if let Some(rest) = path.strip_prefix("/fountain/api/") {
        let mut parts = rest.splitn(2, '/');
        return match (method, parts.next(), parts.next()) {
            ("POST", Some("conversations"), None) => Some(Route::Fountain("agent")),
            (_, Some("conversations"), _) => Some(Route::Fountain("conversations")),
            (_, Some("sandboxes"), _) => Some(Route::Fountain("sandboxes")),
            (_, Some("vaults"), _) => Some(Route::Fountain("vault")),
            _ => None,
        };
    }
    match (method, path) {
        ("POST", "/decide/v1/systemone") => Some(Route::Decide),
        ("POST", "/api/feedback") => Some(Route::Feedback(batch(asked))),
        ("GET", path) if path.starts_with("/notes/") => Some(Route::Notes("read")),
        ("POST", path) if path.starts_with("/notes/") => Some(Route::Notes("write")),
        _ => None,
    }
}

fn batch(asked: &Asked) -> Vec<&'static str> {
    let body: Value = serde_json::from_slice(&asked.body).unwrap_or(Value::Null);
    let mut words = Vec::new();
    if body["entries"]
        .as_array()
        .is_some_and(|list| !list.is_empty())
    {
        words.push("agent");
    }
    if body["counts"]
        .as_object()
        .is_some_and(|map| !map.is_empty())
    {
        words.push("passive");
    }
    words
}

fn is_secret(name: &str) -> bool {
    name.len() <= 40
        && name.starts_with(|first: char| first.is_ascii_uppercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// The refusal of a request whose words the box did not declare.
pub fn refused(broker: &Broker, caller: &Caller, route: &Route) -> Option<Reply> {
    let (capability, words) = match route {
        Route::Hello => return None,
        Route::Messages => ("inference", vec!["agent"]),
        Route::Decide => ("inference", vec!["decide"]),
        Route::Egress(name) => ("egress", vec![name.as_str()]),
        Route::Feedback(words) => ("feedback", words.clone()),
        Route::Fountain(word) => ("fountain", vec![*word]),
        Route::Notes(word) => ("notes", vec![*word]),
    };
    let reports = broker.reports.lock().expect("no panic holds it");
    let Some(report) = reports.get(&caller.name) else {
        if broker.breaks(Fault::ServeUnreported) {
            return None;
        }
        return Some(refuse(403, "This box has never reported."));
    };
    if broker.breaks(Fault::GrantEverything) {
        return None;
    }
    let declared = report.get(capability);
    let opens = |word: &str| {
        declared.is_some_and(|scope| {
            let any = broker.breaks(Fault::OneWordOpensAll) && capability == "notes";
            scope.iter().any(|known| known == word) || any && !scope.is_empty()
        })
    };
    let missing = words.iter().find(|word| !opens(word))?;
    if broker.breaks(Fault::RefuseWithoutWords) {
        return Some(refuse(403, "No."));
    }
    Some(refuse(
        403,
        &format!("This box's {capability} does not list {missing} in its scope."),
    ))
}
