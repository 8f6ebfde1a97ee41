//! The requests that an audit asks a plugin about: every route it claims, with
//! every method, then mutations and hostile ones, drawn from a seed. The same
//! manifest, hints and seed give the same requests.
//!
//! They are requests that a host would show: what it refuses itself (dot
//! segments, methods in small letters, bodies past the limit) no plugin sees.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::Method;

use crate::rules::manifest::{Manifest, Route};
use crate::rules::paths;

mod draw;

use draw::Draw;

/// How many requests of its own a route gets where nobody says otherwise.
pub const USUAL_COUNT: u32 = 64;
/// The most that anybody can say.
pub const MOST_COUNT: u32 = 2_000;

/// Words of the API that the audit has learned of, at most so many.
const MOST_HINTS: usize = 400;

/// One request, and what stands beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The method.
    pub method: Method,
    /// The whole path.
    pub path: String,
    /// The query.
    pub query: Option<String>,
    /// Header values; a request shows those whose names its route asks for.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, as far as a route's limit lets it be seen.
    pub body: Bytes,
    /// Which credentials stand on offer, and what needs bring.
    pub luck: Luck,
}

/// What the world holds for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Luck {
    /// A credential for each target; calls bring JSON, keys hold something.
    Good(u8),
    /// No credentials, calls fail, keys hold nothing.
    Bad,
}

impl Case {
    /// The request on one line, cut: how a finding names it.
    #[must_use]
    pub fn name(&self) -> String {
        let cut = |text: &str| -> String { text.chars().take(120).collect() };
        let query = self.query.as_deref();
        let query = query.map(|query| format!("?{}", cut(query)));
        let body = match self.body.len() {
            0 => String::new(),
            length => format!(" with {length} bytes"),
        };
        let luck = match self.luck {
            Luck::Good(_) => "",
            Luck::Bad => ", nothing on offer",
        };
        format!(
            "{} {}{}{body}{luck}",
            self.method,
            cut(&self.path),
            query.unwrap_or_default()
        )
    }
}

/// What the component's own bytes say of the API: texts that may be segments
/// of paths, members or words.
#[derive(Debug, Clone, Default)]
pub struct Hints(BTreeSet<String>);

impl Hints {
    /// Takes a text, if it could be one of an API and there is room.
    pub fn add(&mut self, text: &str) {
        let fits = (2..=32).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            && text.bytes().any(|byte| byte.is_ascii_alphabetic());
        if fits && self.0.len() < MOST_HINTS {
            self.0.insert(text.to_owned());
        }
    }
}

/// The requests for a manifest.
#[must_use]
pub fn cases(manifest: &Manifest, hints: &Hints, seed: u64, count: u32) -> Vec<Case> {
    let mut draw = Draw::new(seed, vocabulary(manifest, hints));
    let mut cases = Vec::new();
    for route in &manifest.routes {
        cases.extend(plain(manifest, route));
        for _ in 0..count.min(MOST_COUNT) {
            cases.push(draw.case(route, &methods(route)));
        }
    }
    cases.retain(|case| paths::is_plain(case.path.as_bytes()));
    cases
}

/// Requests that no route claims: beside each prefix, and with other methods.
#[must_use]
pub fn unclaimed(manifest: &Manifest) -> Vec<Case> {
    let mut cases = Vec::new();
    for path in ["/", "/unclaimed", "/api/box/declaration"] {
        cases.push(bare(Method::GET, path));
    }
    for route in &manifest.routes {
        cases.push(bare(Method::POST, &format!("{}x", route.prefix)));
        for path in tails(manifest) {
            cases.push(bare(
                Method::from_bytes(b"AUDIT").unwrap_or_default(),
                &format!("{}{path}", route.prefix),
            ));
        }
    }
    cases.retain(|case| manifest.serving(&case.method, &case.path).is_none());
    cases
}

/// A request with nothing but method and path.
#[must_use]
pub fn bare(method: Method, path: &str) -> Case {
    Case {
        method,
        path: path.to_owned(),
        query: None,
        headers: Vec::new(),
        body: Bytes::new(),
        luck: Luck::Good(0),
    }
}

/// Each route with each of its methods, at its prefix, below it, and at the
/// paths that the manifest names.
fn plain(manifest: &Manifest, route: &Route) -> Vec<Case> {
    let mut cases = Vec::new();
    for method in methods(route) {
        for tail in tails(manifest) {
            let mut case = bare(method.clone(), &format!("{}{tail}", route.prefix));
            cases.push(case.clone());
            if route.inputs.body > 0 {
                case.body = Bytes::from_static(b"{}");
                cases.push(case.clone());
            }
            case.luck = Luck::Bad;
            cases.push(case);
        }
    }
    cases
}

fn tails(manifest: &Manifest) -> impl Iterator<Item = &str> {
    let own = manifest.paths.iter().map(String::as_str);
    let usual = ["", "/", "/a", "/OPENAI/v1", "/%0d%0ax-smuggled:%20b"];
    usual.into_iter().chain(own)
}

fn methods(route: &Route) -> Vec<Method> {
    if !route.methods.is_empty() {
        return route.methods.clone();
    }
    [
        "GET",
        "POST",
        "PUT",
        "DELETE",
        "PATCH",
        "HEAD",
        "OPTIONS",
        "PROPFIND",
        "X-VERSION-CONTROL-AND-MORE",
    ]
    .iter()
    .filter_map(|name| Method::from_bytes(name.as_bytes()).ok())
    .collect()
}

fn vocabulary(manifest: &Manifest, hints: &Hints) -> Vec<String> {
    let mut words: BTreeSet<String> = hints.0.clone();
    for path in &manifest.paths {
        words.extend(
            path.split('/')
                .filter(|part| !part.is_empty())
                .map(str::to_owned),
        );
    }
    let own = ["v1", "id", "0", "OPENAI", "null"];
    words.extend(own.map(str::to_owned));
    words.extend(
        manifest
            .words
            .iter()
            .map(|word| word.name.as_str().to_owned()),
    );
    words.into_iter().collect()
}

#[cfg(test)]
mod tests;
