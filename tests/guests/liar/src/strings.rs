//! Bytes that end a line, or hide it, in every string a plugin can say.

use jackfield_sdk::contract::{HeaderEdit, LogLevel};
use jackfield_sdk::prelude::*;

use crate::{UPSTREAM, honest_call, honest_forward};

/// What is put in.
pub const WHATS: [&str; 5] = ["cr", "lf", "crlf", "nul", "high"];

/// Where it is put, for `<what>-in-<where>`.
pub const PLACES: [&str; 28] = [
    "request-header-name",
    "request-header-value",
    "request-list-name",
    "request-list-value",
    "removed-name",
    "response-header-name",
    "response-header-value",
    "answer-header-name",
    "answer-header-value",
    "template",
    "template-name",
    "query-name",
    "literal",
    "upstream",
    "secret",
    "credential",
    "refusal-type",
    "refusal-message",
    "substitution-type",
    "substitution-message",
    "log",
    "key",
    "read-key",
    "call-method",
    "call-header-name",
    "call-header-value",
    "call-literal",
    "call-upstream",
];

pub(crate) fn step(lie: &str, caller: &Caller) -> Option<Step> {
    let (what, place) = lie.split_once("-in-")?;
    let (text, bytes): (&str, &[u8]) = match what {
        "cr" => ("a\rb", b"a\rb"),
        "lf" => ("a\nb", b"a\nb"),
        "crlf" => ("a\r\nx-smuggled: b", b"a\r\nx-smuggled: b"),
        "nul" => ("a\0b", b"a\0b"),
        "high" => ("a\u{202e}b", b"a\xffb"),
        _ => return None,
    };
    let forward = || honest_forward(caller);
    let edit = |edit: HeaderEdit| {
        let mut forward = honest_forward(caller);
        forward.request_headers.push(edit);
        forward
    };
    let placed = |placement: Placement| {
        let mut forward = honest_forward(caller);
        forward
            .credential
            .get_or_insert_with(|| "nobody-offered-this".to_owned());
        forward.placement = placement;
        forward
    };
    let need = |call: Call| Need::with_state("call").call(call);
    let call = || honest_call(caller);
    let answer = || Answer::status(200);
    Some(match place {
        "request-header-name" => edit(HeaderEdit::Set(header(text, "v"))).into(),
        "request-header-value" => edit(HeaderEdit::Set(header("x-lie", bytes))).into(),
        "request-list-name" => edit(HeaderEdit::AddToList(header(text, "v"))).into(),
        "request-list-value" => edit(HeaderEdit::AddToList(header("x-lie", bytes))).into(),
        "removed-name" => edit(HeaderEdit::Remove(text.to_owned())).into(),
        "response-header-name" => forward()
            .edit_response(HeaderEdit::Set(header(text, "v")))
            .into(),
        "response-header-value" => forward()
            .edit_response(HeaderEdit::Set(header("x-lie", bytes)))
            .into(),
        "answer-header-name" => answer().header(text, "v").into(),
        "answer-header-value" => answer().header("x-lie", bytes).into(),
        "template" => placed(Placement::in_header_as("x-key", &format!("{text}{{}}"))).into(),
        "template-name" => placed(Placement::in_header(text)).into(),
        "query-name" => placed(Placement::in_query(text)).into(),
        "literal" => forward().literal_path(&format!("/v1/{text}")).into(),
        "upstream" => Forward::to(upstream(&format!("{UPSTREAM}{text}"))).into(),
        "secret" => Forward::to(secret(&format!("OPENAI{text}"))).into(),
        "credential" => {
            let mut forward = forward();
            forward.credential = Some(text.to_owned());
            forward.into()
        }
        "refusal-type" => refuse::with(403, text, "a message").into(),
        "refusal-message" => refuse::forbidden(text).into(),
        "substitution-type" => forward()
            .substitute(200, refuse::with(403, text, "a message"))
            .into(),
        "substitution-message" => forward().substitute(200, refuse::forbidden(text)).into(),
        "log" => Plan::from(answer()).log(LogLevel::Warn, text).into(),
        "key" => Plan::from(answer()).write(text, "v").into(),
        "read-key" => Need::with_state("keep-read").read(text).into(),
        "call-method" => {
            let mut call = call();
            call.method = format!("GET{text}");
            need(call).into()
        }
        "call-header-name" => need(call().header(text, "v")).into(),
        "call-header-value" => need(call().header("x-lie", bytes)).into(),
        "call-literal" => {
            let mut lie = Call::new("POST", upstream(UPSTREAM), &format!("/v1/{text}"));
            lie.credential = call().credential;
            need(lie).into()
        }
        "call-upstream" => {
            let mut call = call();
            call.to = upstream(&format!("{UPSTREAM}{text}"));
            need(call).into()
        }
        _ => return None,
    })
}
