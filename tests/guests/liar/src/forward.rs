//! Lies about where a request goes, what it carries and what it becomes.

use jackfield_sdk::contract::{HeaderEdit, Offer};
use jackfield_sdk::prelude::*;

use crate::{UPSTREAM, honest_call, honest_forward};

pub(crate) fn step(lie: &str, caller: &Caller) -> Option<Step> {
    // The longer prefixes first: `answer-edit-set-x` is no `answer-header-x`.
    if let Some(name) = lie.strip_prefix("call-header-") {
        let call = honest_call(caller).header(name, "lie");
        return Some(Need::with_state("call").call(call).into());
    }
    if let Some(lie) = lie.strip_prefix("call-") {
        let (target, credential) = target_and_credential(lie, caller)?;
        let mut call = honest_call(caller);
        call.to = target;
        call.credential = credential;
        return Some(Need::with_state("call").call(call).into());
    }
    if let Some((target, credential)) = target_and_credential(lie, caller) {
        let mut forward = honest_forward(caller);
        forward.to = target;
        forward.credential = credential;
        return Some(forward.into());
    }
    path(lie, caller)
        .or_else(|| edit(lie, caller))
        .or_else(|| placement(lie, caller))
        .or_else(|| status(lie, caller))
}

fn target_and_credential(lie: &str, caller: &Caller) -> Option<(Target, Option<String>)> {
    let offered = caller.credentials.first().map(|offer| offer.name.clone());
    let said = |name: &str| (upstream(UPSTREAM), Some(name.to_owned()));
    let to = |target: Target| (target, None);
    Some(match lie {
        "other-upstream" => to(upstream("fountain")),
        "unknown-upstream" => to(upstream("nowhere")),
        "bad-upstream-name" => to(upstream("../anthropic")),
        "url-upstream" => to(upstream("https://evil.test")),
        "own-secret" => to(secret("OPENAI")),
        "other-box-secret" => to(secret("OTHERS")),
        "bad-secret-name" => to(secret("other/OPENAI")),
        "unoffered-credential" => said("nobody-offered-this"),
        "guessed-credential" => said("anthropic/default"),
        "empty-credential" => said(""),
        "credential-for-another" => (upstream("fountain"), offered),
        _ => return None,
    })
}

fn path(lie: &str, caller: &Caller) -> Option<Step> {
    let literal = |path: &str| honest_forward(caller).literal_path(path);
    let forward = match lie {
        "foreign-literal" => literal("/v1/admin"),
        "dots-literal" => literal("/v1/../admin"),
        "dots-encoded" => literal("/v1/%2e%2e/literal"),
        "absolute-literal" => literal("http://evil.test/v1/literal"),
        "empty-literal" => literal(""),
        "query-literal" => literal("/v1/literal?key=1"),
        "backslash-literal" => literal("/v1\\literal"),
        "skip-too-many" => honest_forward(caller).skip_segments(u32::MAX),
        _ => return None,
    };
    Some(forward.into())
}

fn edit(lie: &str, caller: &Caller) -> Option<Step> {
    if let Some(lie) = lie.strip_prefix("answer-edit-") {
        return Some(honest_forward(caller).edit_response(one_edit(lie)?).into());
    }
    if let Some(name) = lie.strip_prefix("answer-header-") {
        return Some(Answer::status(200).header(name, "lie").into());
    }
    let mut forward = honest_forward(caller);
    forward
        .request_headers
        .push(one_edit(lie.strip_prefix("edit-")?)?);
    Some(forward.into())
}

fn one_edit(text: &str) -> Option<HeaderEdit> {
    match text.split_once('-')? {
        ("set", name) => Some(HeaderEdit::Set(header(name, "lie"))),
        ("remove", name) => Some(HeaderEdit::Remove(name.to_owned())),
        ("add", name) => Some(HeaderEdit::AddToList(header(name, "lie"))),
        (_, _) => None,
    }
}

fn placement(lie: &str, caller: &Caller) -> Option<Step> {
    let placement = match (lie, lie.strip_prefix("place-in-")) {
        (_, Some(name)) => Placement::in_header(name),
        ("template-twice", _) => Placement::in_header_as("x-key", "{} {}"),
        ("template-none", _) => Placement::in_header_as("x-key", "nothing"),
        ("query-name-empty", _) => Placement::in_query(""),
        (_, None) => return None,
    };
    // Without an offer the placement would be ignored, and the lie with it.
    let nobody = Offer {
        name: "nobody-offered-this".to_owned(),
        target: upstream(UPSTREAM),
        kind: "bearer".to_owned(),
        payer: None,
    };
    let offer = caller.offer_for(&upstream(UPSTREAM)).unwrap_or(&nobody);
    Some(honest_forward(caller).credential(offer, placement).into())
}

fn status(lie: &str, caller: &Caller) -> Option<Step> {
    let refusal = |status: u16| refuse::with(status, "liar_error", "a status that lies");
    Some(match lie {
        "status-99" => Answer::status(99).into(),
        "status-1000" => Answer::status(1000).into(),
        "status-101" => Answer::status(101).into(),
        "status-204-body" => Answer::status(204).body("a body").into(),
        "refuse-200" => refusal(200).into(),
        "refuse-99" => refusal(99).into(),
        "refuse-1000" => refusal(1000).into(),
        "substitute-200-with-200" => honest_forward(caller).substitute(200, refusal(200)).into(),
        "substitute-99" => honest_forward(caller).substitute(99, refusal(403)).into(),
        _ => return None,
    })
}
