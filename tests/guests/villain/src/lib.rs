//! A malicious plugin, for the audit to see through: one route for each thing
//! that it does to its host, so that whoever asks about every route that it
//! claims meets all of them.
//!
//! Capability `villain`, word `rob`, which reaches the upstream `bank`. Below
//! `/villain`:
//!
//! - `spin`, `allocate`, `recurse`, `trap` — does so in `route`; `spin-scopes`
//!   and `trap-resume` where their names say
//! - `second` — `scopes` answers otherwise when its instance is asked again
//! - `remember` — `route` answers how often its instance was asked
//! - `word` — needs `shout`, which its manifest does not declare
//! - `reach` — forwards to the upstream `vault`, which its words do not reach;
//!   `path` — to a path that its manifest does not name; `credential` — with a
//!   credential that nobody offered; `wordless` — without a word
//! - `keep` — writes to a keep that it did not ask for
//! - `endless` — needs for ever; `endless-calls` — with calls on a credential
//! - `inject-header`, `inject-refusal`, `inject-log`, `inject-call`,
//!   `inject-word` — puts a line's end into that string
//! - `echo` — puts what its path decodes to into a header
//! - `status` — answers 99; `huge` — answers more than an answer may hold
//! - `open` (public) — asks for a need
//! - `honest` — forwards to `bank`
//!
//! It serves what it does not claim, and its `describe` says another version
//! when its instance is asked again.

#![expect(clippy::panic, reason = "a trap is what this is for")]

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

use jackfield_sdk::contract::LogLevel;
use jackfield_sdk::prelude::*;

/// Below `/villain`, all that it claims.
pub const ROUTES: [&str; 26] = [
    "spin",
    "spin-scopes",
    "allocate",
    "recurse",
    "trap",
    "trap-resume",
    "second",
    "remember",
    "word",
    "reach",
    "path",
    "credential",
    "wordless",
    "keep",
    "endless",
    "endless-calls",
    "inject-header",
    "inject-refusal",
    "inject-log",
    "inject-call",
    "inject-word",
    "echo",
    "status",
    "huge",
    "open",
    "honest",
];

const SMUGGLED: &str = "a\r\nx-smuggled: b";

/// How often this instance was asked.
static ASKED: AtomicU32 = AtomicU32::new(0);

/// How often it was asked what it is.
static DESCRIBED: AtomicU32 = AtomicU32::new(0);

/// The plugin.
pub struct Villain;

impl Capability for Villain {
    fn describe() -> Manifest {
        let version = match DESCRIBED.fetch_add(1, Ordering::Relaxed) {
            0 => "1.0.0",
            _ => "1.0.1",
        };
        let manifest = Manifest::new("villain", version, "villain")
            .summary("Harms whoever loads it")
            .word(Word::new("rob", "Use the bank").reaches(upstream("bank")));
        ROUTES.iter().fold(manifest, |manifest, name| {
            let route = RouteEntry::under(&format!("/villain/{name}")).methods(["POST"]);
            manifest.route(match *name {
                "open" => route.public(),
                _ => route,
            })
        })
    }

    fn scopes(request: &Request) -> Option<Vec<String>> {
        let asked = ASKED.fetch_add(1, Ordering::Relaxed);
        match deed(request) {
            "spin-scopes" => spin(),
            "word" => needs(["shout"]),
            "inject-word" => needs([SMUGGLED]),
            "wordless" | "open" => needs_nothing(),
            "second" if asked > 0 => needs_nothing(),
            _ => needs(["rob"]),
        }
    }

    fn route(request: Request, caller: Caller) -> Step {
        let asked = ASKED.fetch_add(1, Ordering::Relaxed);
        let answer = || Answer::status(200);
        let forward = || Forward::to(upstream("bank"));
        match deed(&request) {
            "spin" => spin(),
            "allocate" => allocate(),
            "recurse" => answer().body(recurse(black_box(1)).to_string()).into(),
            "trap" => panic!("villain traps"),
            "trap-resume" => Need::with_state("trap").into(),
            "remember" => answer().body(asked.to_string()).into(),
            "reach" => Forward::to(upstream("vault")).into(),
            "path" => forward().literal_path("/admin").into(),
            "credential" => {
                let mut forward = forward();
                forward.credential = Some("upstream/bank/root".to_owned());
                forward.into()
            }
            "wordless" | "honest" => honest(&caller),
            "keep" => Plan::from(answer()).write("key", "x").into(),
            "endless" | "open" => Need::with_state("endless").into(),
            "endless-calls" => Need::with_state("endless-calls").call(call()).into(),
            "inject-header" => answer().header("x-a", SMUGGLED).into(),
            "inject-refusal" => refuse::forbidden(SMUGGLED).into(),
            "inject-log" => Plan::from(answer()).log(LogLevel::Warn, SMUGGLED).into(),
            "inject-call" => Need::with_state("x")
                .call(call().header("x-a", SMUGGLED))
                .into(),
            "echo" => answer().header("x-echo", decoded(&request.path)).into(),
            "status" => Answer::status(99).into(),
            "huge" => answer().body(vec![b'x'; 5 << 20]).into(),
            _ => refuse::not_found("villain knows no such deed.").into(),
        }
    }

    fn resume(state: Vec<u8>, _answers: Answers) -> Step {
        match state.as_slice() {
            b"trap" => panic!("villain traps"),
            b"endless-calls" => Need::with_state(state).call(call()).into(),
            _ => Need::with_state(state).into(),
        }
    }
}

jackfield_sdk::plugin!(Villain);

/// What it is to do: the last segment of its prefix.
fn deed(request: &Request) -> &str {
    request.prefix.strip_prefix("/villain/").unwrap_or_default()
}

fn honest(caller: &Caller) -> Step {
    match caller.offer_for(&upstream("bank")) {
        Some(offer) => Forward::to(upstream("bank"))
            .credential(offer, Placement::Bearer)
            .into(),
        None => Forward::to(upstream("bank")).into(),
    }
}

fn call() -> Call {
    Call::as_received("POST", upstream("bank"))
}

fn spin() -> ! {
    loop {
        black_box(0);
    }
}

fn allocate() -> ! {
    let mut had: Vec<Vec<u8>> = Vec::new();
    loop {
        had.push(black_box(vec![1; 1 << 20]));
    }
}

/// Fills the stack that the host runs it on.
fn recurse(depth: u64) -> u64 {
    if depth == 0 {
        return 0;
    }
    recurse(depth.wrapping_add(1)).rotate_left(1) ^ depth
}

/// As a careless server would: percent-decoded, and nothing looked at.
fn decoded(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let pair = more
            .get(..2)
            .and_then(|pair| std::str::from_utf8(pair).ok());
        let byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match (first, byte) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = more.get(2..).unwrap_or_default();
            }
            (_, _) => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_does_something() {
        for name in ROUTES {
            let source = include_str!("lib.rs");
            let used = source.matches(&format!("\"{name}\"")).count();
            assert!(used > 1, "{name} is claimed and does nothing");
        }
        assert_eq!(decoded("/%0d%0a%zz"), b"/\r\n%zz");
    }
}
