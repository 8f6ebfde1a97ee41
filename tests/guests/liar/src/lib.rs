//! A plugin that lies: what a hostile component could say, one lie a path.
//!
//! Capability `liar`, prefix `/liar`, word `tell`, which reaches the upstream
//! `anthropic`. The first segment of the path names the lie. Unless a lie says
//! otherwise, `scopes` answers `["tell"]`, and a forward goes to the upstream
//! `anthropic` with the first offered credential as a bearer, less the first
//! segment of its path.
//!
//! **Honest** (`honest.rs`)
//! - `ok` — forwards; `ok-literal` — forwards to the literal `/v1/literal`;
//!   `ok-bare` — forwards without a credential
//! - `hello` — needs no word, answers 200 `hello`
//! - `inputs` — answers what it was shown, one line each
//! - `counts` — answers how often this instance was asked: always `2`, once
//!   for `scopes` and once for `route`
//! - `refusal` — refuses with 403 `liar_error`
//! - `log` — answers, with a line for the log at each level
//! - `keep-write/<key>/<value>`, `keep-delete/<key>`, `keep-read/<key>` —
//!   writes, deletes and reads its keep; a read answers the value, or 404
//! - `call` — calls `POST /v1/call` and answers with what that brought
//! - `call-twice` — two calls side by side; answers both statuses
//! - `call-then-forward` — a call, then the forward of `ok`
//! - `state` — needs nothing but its own state back, and answers with it
//! - `payer` — answers the kind and payer of each offer
//!
//! **Words** (`scopes`)
//! - `no-word-forward` — `[]`, then forwards; `no-word-call` — `[]`, then calls
//! - `undeclared-word` — answers `shout`, which its manifest does not list
//! - `undeclared-beside` — answers `tell` and `shout`
//! - `empty-word`, `crlf-word`, `secret-word` (`OPENAI`), `open-word`
//!   (`<NAME>`), `long-word`, `many-words` (10,000 times `tell`)
//! - `not-served` — none
//!
//! **Targets and credentials** (`forward.rs`)
//! - `other-upstream` (`fountain`), `unknown-upstream`, `bad-upstream-name`,
//!   `url-upstream` (`https://evil.test`), `own-secret` (secret `OPENAI`, which
//!   no word of its own reaches), `other-box-secret` (secret `OTHERS`, of
//!   another box), `bad-secret-name`
//! - `unoffered-credential`, `guessed-credential` (a vault-like name),
//!   `empty-credential`, `credential-for-another` (an offer's name, sent to
//!   another target)
//! - each of the above also as a call: prefix the name with `call-`
//!
//! **Paths and edits** (`forward.rs`)
//! - `foreign-literal` (not in the manifest), `dots-literal`, `dots-encoded`,
//!   `absolute-literal`, `empty-literal`, `query-literal`, `backslash-literal`,
//!   `skip-too-many`
//! - `edit-<op>-<header>` and `answer-edit-<op>-<header>` with op `set`,
//!   `remove` or `add` and any header name, such as `edit-set-host`;
//!   `call-header-<header>`, `answer-header-<header>`, `place-in-<header>`
//! - `template-twice`, `template-none`, `query-name-empty`
//! - `status-99`, `status-1000`, `status-101`, `status-204-body` (answers),
//!   `refuse-200`, `refuse-99`, `refuse-1000`, `substitute-200-with-200`,
//!   `substitute-99`
//!
//! **Strings** (`strings.rs`): `<what>-in-<where>`, with what `cr`, `lf`,
//! `crlf`, `nul`, `high` (a byte 0xff where bytes are said, else U+202E) and
//! where one of the names in `PLACES`
//!
//! **Harm** (`harm.rs`)
//! - `trap`, `loop`, `memory`, `stack` (the guest's own), `frames` (the
//!   host's), in `route`; with `-in-scopes` or `-in-resume` after it, there
//! - `grow` (asks for memory until it is refused, then answers how much)
//! - `huge-answer`, `huge-header`, `many-headers`, `huge-state`, `huge-log`,
//!   `many-logs`, `huge-write`, `many-writes`, `huge-message`, `huge-call-body`,
//!   `huge-words`
//! - `endless` — needs for ever; `endless-calls` — the same with a call each
//!   round; `many-calls` — 1,000 calls; `many-reads` — 10,000 reads
//! - `journal` — writes a record without permission; `own`, `own-nothing`,
//!   `ask-owned` — the same for a thing that a box would own; `bad-key-empty`,
//!   `bad-key-long`, `bad-key-slash` (`../other/secret`); `many-lists` — 1,000
//!   listings; `bad-list` — one with a control character

mod forward;
mod harm;
mod honest;
mod strings;

use jackfield_sdk::prelude::*;

pub use strings::{PLACES, WHATS};

/// The upstream that the word `tell` reaches.
pub const UPSTREAM: &str = "anthropic";

/// The plugin.
pub struct Liar;

impl Capability for Liar {
    fn describe() -> Manifest {
        Manifest::new("liar", "1.0.0", "liar")
            .summary("Says what a hostile plugin could say")
            .route(
                RouteEntry::under("/liar")
                    .token_in_headers(["x-api-key"])
                    .sees_query()
                    .sees_headers(["x-shown", "x-absent"])
                    .payer_of(UPSTREAM),
            )
            .word(Word::new("tell", "Tell a lie").reaches(upstream(UPSTREAM)))
            .path("/v1/literal")
            .path("/v1/call")
            .keep()
    }

    fn scopes(request: &Request) -> Option<Vec<String>> {
        honest::count();
        let lie = lie(request);
        harm::in_scopes(lie);
        match lie {
            "hello" | "no-word-forward" | "no-word-call" => needs_nothing(),
            "undeclared-word" => needs(["shout"]),
            "undeclared-beside" => needs(["tell", "shout"]),
            "empty-word" => needs([""]),
            "crlf-word" => needs(["tell\r\nx: y"]),
            "secret-word" => needs(["OPENAI"]),
            "open-word" => needs(["<NAME>"]),
            "long-word" => Some(vec!["w".repeat(100_000)]),
            "many-words" => Some(vec!["tell".to_owned(); 10_000]),
            "huge-words" => Some(vec!["w".repeat(16 * 1024 * 1024)]),
            "not-served" | "" => not_served(),
            _ => needs(["tell"]),
        }
    }

    fn route(request: Request, caller: Caller) -> Step {
        honest::count();
        let lie = lie(&request).to_owned();
        honest::step(&lie, &request, &caller)
            .or_else(|| harm::step(&lie))
            .or_else(|| strings::step(&lie, &caller))
            .or_else(|| forward::step(&lie, &caller))
            .unwrap_or_else(|| refuse::not_found(format!("liar knows no lie {lie:?}.")).into())
    }

    fn resume(state: Vec<u8>, answers: Answers) -> Step {
        harm::in_resume(&state)
            .or_else(|| honest::resume(&state, &answers))
            .unwrap_or_else(|| refuse::internal("liar has lost its thread.").into())
    }
}

jackfield_sdk::plugin!(Liar);

/// The first segment: which lie.
fn lie(request: &Request) -> &str {
    request.segments().first().copied().unwrap_or_default()
}

/// The honest forward that most lies change one thing of.
fn honest_forward(caller: &Caller) -> Forward {
    let forward = Forward::to(upstream(UPSTREAM)).skip_segments(1);
    match caller.offer_for(&upstream(UPSTREAM)) {
        Some(offer) => forward.credential(offer, Placement::Bearer),
        None => forward,
    }
}

/// The honest call that most lies change one thing of.
fn honest_call(caller: &Caller) -> Call {
    let call = Call::new("POST", upstream(UPSTREAM), "/v1/call").body("ping");
    match caller.offer_for(&upstream(UPSTREAM)) {
        Some(offer) => call.credential(offer, Placement::Bearer),
        None => call,
    }
}

#[cfg(test)]
mod tests;
