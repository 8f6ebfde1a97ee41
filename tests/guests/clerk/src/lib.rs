//! A plugin that lets its keep, its journal and what boxes own be tried.
//!
//! Capability `clerk`, prefix `/clerk`, word `file`, which reaches the upstreams
//! `anthropic` and `nowhere` and the secret `OPENAI`. It keeps, it journals, and
//! it owns `rooms` and `parcels`. By the first segment:
//! - `set/<key>/<value>`, `delete/<key>`, `read/<key>` — its keep
//! - `fill/<key>` — keeps the body
//! - `set-if/<key>/<expected>/<value>` — keeps if the key holds what is
//!   expected; `-` expects nothing; beside it, it notes and owns `set-if`
//! - `list/<prefix>`, `list/<prefix>/<after>` — key after key, a line each
//! - `note` — notes the body; `note-twice` — notes it twice in one plan
//! - `own/<kind>/<id>` — records; `owns/<kind>/<id>` — answers `yes` or `no`
//! - `claim/<key>` — reads, and calls `POST /v1/call` at `anthropic` meanwhile;
//!   then keeps one byte more than was there, if that still is so
//! - `calls/<n>` — that many calls side by side; answers their statuses
//! - `say/<bytes>/<key>` — says so many bytes to the log, and keeps them
//! - `big/<bytes>` — answers so many bytes
//! - `shown` — answers where its words lead and what it was granted

use jackfield_sdk::contract::{Expected, LogLevel, Uses};
use jackfield_sdk::prelude::*;

const UPSTREAM: &str = "anthropic";

/// The plugin.
pub struct Clerk;

impl Capability for Clerk {
    fn describe() -> Manifest {
        Manifest::new("clerk", "1.0.0", "clerk")
            .summary("Keeps, notes and owns what it is told to")
            .route(RouteEntry::under("/clerk").sees_body(1024 * 1024))
            .word(
                Word::new("file", "Have something filed")
                    .reaches(upstream(UPSTREAM))
                    .reaches(upstream("nowhere"))
                    .reaches(secret("OPENAI")),
            )
            .path("/v1/call")
            .keep()
            .journal()
            .owned_kinds(["rooms", "parcels"])
    }

    fn scopes(_request: &Request) -> Option<Vec<String>> {
        needs(["file"])
    }

    fn route(request: Request, caller: Caller) -> Step {
        let body = request.body.clone().unwrap_or_default();
        let done = |text: &str| Plan::from(Answer::status(200).body(text));
        let need = || Need::with_state("answer");
        match request.segments().as_slice() {
            ["set", key, value] => done("set").write(key, *value).into(),
            ["fill", key] => done("filled").write(key, body).into(),
            ["set-if", key, expected, value] => {
                let expected = match *expected {
                    "-" => Expected::Nothing,
                    text => Expected::Value(text.into()),
                };
                done("set")
                    .write_if(key, expected, *value)
                    .journal("set-if")
                    .own(thing("rooms", "set-if"))
                    .into()
            }
            ["delete", key] => done("deleted").delete(key).into(),
            ["read", key] => need().read(key).into(),
            ["list", prefix] => need().list(prefix).into(),
            ["list", prefix, after] => need().list_after(prefix, after).into(),
            ["note"] => done("noted").journal(body).into(),
            ["note-twice"] => done("noted").journal(body.clone()).journal(body).into(),
            ["own", kind, id] => done("owned").own(thing(kind, id)).into(),
            ["owns", kind, id] => need().owned(thing(kind, id)).into(),
            ["claim", key] => Need::with_state(*key).read(key).call(call()).into(),
            ["calls", count] => {
                let count: usize = count.parse().unwrap_or_default();
                (0..count).fold(need(), |need, _| need.call(call())).into()
            }
            ["say", bytes, key] => {
                let said = "s".repeat(bytes.parse().unwrap_or_default());
                let plan = done("said").log(LogLevel::Warn, said.clone());
                plan.write(key, said).into()
            }
            ["big", bytes] => done(&"b".repeat(bytes.parse().unwrap_or_default())).into(),
            ["shown"] => done(&shown(&caller)).into(),
            _ => refuse::not_found("clerk does not do that.").into(),
        }
    }

    fn resume(state: Vec<u8>, answers: Answers) -> Step {
        if state != b"answer" {
            let key = String::from_utf8_lossy(&state).into_owned();
            let held = answers.reads.into_iter().next().flatten();
            let more = held.as_ref().map_or(1, |held| held.len() + 1);
            let expected = held.map_or(Expected::Nothing, Expected::Value);
            let plan = Plan::from(Answer::status(200).body("claimed"));
            return plan.write_if(&key, expected, vec![b'i'; more]).into();
        }
        if let [Some(value)] = answers.reads.as_slice() {
            return Answer::status(200).body(value.clone()).into();
        }
        if let [None] = answers.reads.as_slice() {
            return refuse::not_found("clerk keeps nothing there.").into();
        }
        let owned = answers.owned.iter();
        let lines = owned.map(|owned| if *owned { "yes" } else { "no" }.to_owned());
        let listed = answers.lists.into_iter().flatten();
        let called = answers.calls.iter().map(|call| match call {
            Ok(answer) => answer.status.to_string(),
            Err(_) => "failed".to_owned(),
        });
        let text: Vec<String> = lines.chain(listed).chain(called).collect();
        Answer::status(200).body(text.join("\n")).into()
    }
}

jackfield_sdk::plugin!(Clerk);

fn call() -> Call {
    Call::new("POST", upstream(UPSTREAM), "/v1/call")
}

fn shown(caller: &Caller) -> String {
    let Uses {
        keep,
        journal,
        owned_kinds,
    } = &caller.uses;
    let targets = caller.targets.iter().map(|target| match target {
        Target::Upstream(name) => format!("upstream {name}\n"),
        Target::Secret(name) => format!("secret {name}\n"),
    });
    format!(
        "{}keep {keep}\njournal {journal}\nkinds {}\n",
        targets.collect::<String>(),
        owned_kinds.join(",")
    )
}
