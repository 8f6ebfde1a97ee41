//! A plugin that asked for nothing: no keep, no journal, no upstream.
//!
//! Capability `hermit`, prefix `/hermit`, word `sit`, which reaches nothing.
//! The first segment says what it does all the same:
//! - `ok` — answers 200 `alone`
//! - `write`, `delete`, `read`, `list` — touches a keep that it did not ask for
//! - `journal` — writes a record without permission; `own`, `owned` — records
//!   and asks what a box owns
//! - `forward`, `call` — sends to the upstream `anthropic`
//! - `public` (`GET /hermit/open`) — a public route: answered `open` without a
//!   token; `/hermit/open/word` asks for the word there, which no public
//!   request can have

use jackfield_sdk::prelude::*;

/// The plugin.
pub struct Hermit;

impl Capability for Hermit {
    fn describe() -> Manifest {
        Manifest::new("hermit", "1.0.0", "hermit")
            .summary("Asks for nothing")
            .route(RouteEntry::under("/hermit"))
            .route(RouteEntry::under("/hermit/open").methods(["GET"]).public())
            .word(Word::new("sit", "Sit alone"))
            .path("/v1/call")
    }

    fn scopes(request: &Request) -> Option<Vec<String>> {
        match (request.prefix.as_str(), request.segments().as_slice()) {
            ("/hermit/open", []) => needs_nothing(),
            (_, []) => not_served(),
            (_, _) => needs(["sit"]),
        }
    }

    fn route(request: Request, _caller: Caller) -> Step {
        let answer = || Plan::from(Answer::status(200).body("alone"));
        let need = || Need::with_state("need");
        match request.segments().first().copied() {
            Some("ok") => answer().into(),
            Some("write") => answer().write("key", "value").into(),
            Some("delete") => answer().delete("key").into(),
            Some("read") => need().read("key").into(),
            Some("list") => need().list("").into(),
            Some("own") => answer().own(thing("rooms", "1")).into(),
            Some("owned") => need().owned(thing("rooms", "1")).into(),
            Some("journal") => answer().journal("a record").into(),
            Some("forward") => Forward::to(upstream("anthropic")).skip_segments(1).into(),
            Some("call") => need()
                .call(Call::new("POST", upstream("anthropic"), "/v1/call"))
                .into(),
            None => Answer::status(200).body("open").into(),
            Some(_) => refuse::not_found("hermit does not do that.").into(),
        }
    }

    fn resume(_state: Vec<u8>, _answers: Answers) -> Step {
        Answer::status(200).body("resumed").into()
    }
}

jackfield_sdk::plugin!(Hermit);
