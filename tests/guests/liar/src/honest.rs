//! What an honest plugin does, so that a test can tell a refused lie from a
//! host that refuses everything.

use std::sync::atomic::{AtomicU32, Ordering};

use jackfield_sdk::contract::{CallFailure, LogLevel};
use jackfield_sdk::prelude::*;

use crate::{UPSTREAM, honest_call, honest_forward};

/// Lives as long as the instance does: a host that reuses one is found out.
static ASKED: AtomicU32 = AtomicU32::new(0);

pub(crate) fn count() {
    ASKED.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn step(lie: &str, request: &Request, caller: &Caller) -> Option<Step> {
    let segments = request.segments();
    let second = segments.get(1).copied().unwrap_or_default();
    let third = segments.get(2).copied().unwrap_or_default();
    let step = match lie {
        "ok" | "no-word-forward" | "undeclared-word" | "undeclared-beside" | "empty-word"
        | "crlf-word" | "secret-word" | "open-word" | "long-word" | "many-words" => {
            honest_forward(caller).into()
        }
        "ok-literal" => honest_forward(caller).literal_path("/v1/literal").into(),
        "ok-bare" => Forward::to(upstream(UPSTREAM)).skip_segments(1).into(),
        "hello" => Answer::status(200).body("hello").into(),
        "inputs" => text(inputs(request, caller)).into(),
        "counts" => text(ASKED.load(Ordering::Relaxed).to_string()).into(),
        "refusal" => refuse::with(403, "liar_error", "liar refuses, as it was asked to.").into(),
        "log" => Plan::from(text("logged".to_owned()))
            .log(LogLevel::Debug, "a debug line")
            .log(LogLevel::Info, "an info line")
            .log(LogLevel::Warn, "a \u{1b}[31mwarning\r\nand more")
            .into(),
        "keep-write" => Plan::from(text("written".to_owned()))
            .write(second, third)
            .into(),
        "keep-delete" => Plan::from(text("deleted".to_owned())).delete(second).into(),
        "keep-read" => Need::with_state("keep-read").read(second).into(),
        "call" | "no-word-call" => Need::with_state("call").call(honest_call(caller)).into(),
        "call-twice" => Need::with_state("call-twice")
            .call(honest_call(caller))
            .call(honest_call(caller))
            .into(),
        "call-then-forward" => Need::with_state(format!("forward {}", credential(caller)))
            .call(honest_call(caller))
            .into(),
        "state" => Need::with_state("state").into(),
        "payer" => text(offers(caller)).into(),
        _ => return None,
    };
    Some(step)
}

pub(crate) fn resume(state: &[u8], answers: &Answers) -> Option<Step> {
    let state = String::from_utf8_lossy(state).into_owned();
    let calls = || {
        answers.calls.iter().map(|call| match call {
            Ok(answer) => answer.status.to_string(),
            Err(CallFailure::Unreachable) => "unreachable".to_owned(),
            Err(CallFailure::Timeout) => "timeout".to_owned(),
            Err(CallFailure::Broken) => "broken".to_owned(),
            Err(CallFailure::TooLarge) => "too-large".to_owned(),
        })
    };
    let step = match (state.as_str(), state.strip_prefix("forward ")) {
        ("keep-read", _) => match answers.reads.first() {
            Some(Some(value)) => Answer::status(200).body(value.clone()).into(),
            Some(None) | None => refuse::not_found("liar keeps nothing there.").into(),
        },
        ("call", _) => match answers.calls.first() {
            Some(Ok(call)) => Answer::status(call.status).body(call.body.clone()).into(),
            Some(Err(_)) | None => refuse::upstream(calls().collect::<Vec<_>>().join(" ")).into(),
        },
        ("call-twice", _) => text(calls().collect::<Vec<_>>().join(" ")).into(),
        ("state", _) => text(state).into(),
        (_, Some(credential)) => {
            let mut forward = Forward::to(upstream(UPSTREAM)).skip_segments(1);
            forward.credential = (!credential.is_empty()).then(|| credential.to_owned());
            forward.into()
        }
        (_, None) => return None,
    };
    Some(step)
}

fn text(body: String) -> Answer {
    Answer::status(200)
        .header("content-type", "text/plain")
        .body(body)
}

fn credential(caller: &Caller) -> &str {
    caller
        .credentials
        .first()
        .map_or("", |offer| offer.name.as_str())
}

fn offers(caller: &Caller) -> String {
    let line = |offer: &Offer| {
        let payer = offer.payer.as_ref().map(|payer| {
            let principal = payer.principal.as_deref().unwrap_or("-");
            format!("{:?} {principal}", payer.kind)
        });
        format!("{} {}\n", offer.kind, payer.unwrap_or_default())
    };
    caller.credentials.iter().map(line).collect()
}

fn inputs(request: &Request, caller: &Caller) -> String {
    let headers = request.headers.iter().map(|header| {
        let value = String::from_utf8_lossy(&header.value).into_owned();
        format!("header {}: {value}\n", header.name)
    });
    format!(
        "method {}\nprefix {}\npath {}\nquery {}\n{}body {}\ntime {}\nsettings {}\nbox {}\nwords {}\ncredentials {}\n",
        request.method,
        request.prefix,
        request.path,
        request.query.as_deref().unwrap_or("-"),
        headers.collect::<String>(),
        request.body.is_some(),
        request.time.is_some(),
        request.settings.as_deref().unwrap_or("-"),
        caller.box_name.as_deref().unwrap_or("-"),
        caller.words.join(","),
        caller.credentials.len(),
    )
}
