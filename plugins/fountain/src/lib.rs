//! Capability `fountain`: Fountain's API, with the operator's key in the place
//! of the box's token, and of everything there the box's own alone.
//!
//! | request under `/fountain` | word |
//! |---|---|
//! | `POST /api/conversations` | `agent` |
//! | any other method there, and everything below | `conversations` |
//! | `/api/sandboxes` and everything below | `sandboxes` |
//! | `/api/vaults` and everything below | `vault` |
//!
//! Anything else is not served. Every id in path, query and body must be the
//! box's own: what this plugin saw created for it, and what the operator lists.
//! A collection's listing is asked by the host and filtered; what is created is
//! recorded before the box hears of it; everything else is sent on and streams.

mod body;
mod ids;
mod kinds;
mod listing;
mod path;
mod refusals;
mod state;

use jackfield_sdk::contract::{CallAnswer, CallFailure, Limits, LogLevel};
use jackfield_sdk::prelude::*;

use crate::ids::Named;
use crate::path::Place;
use crate::state::{Stage, State};

const UPSTREAM: &str = "fountain";

/// How many things one request may name, and one listing show.
const MOST_THINGS: usize = 1000;

/// What the host shows of a body: more is a 413.
const MOST_BODY: u32 = 1024 * 1024;

/// Headers of an answer that are handed on with it.
const HANDED_ON: [&str; 3] = ["content-type", "location", "retry-after"];

/// The plugin.
pub struct Fountain;

impl Capability for Fountain {
    fn describe() -> Manifest {
        let word = |name, description| Word::new(name, description).reaches(upstream(UPSTREAM));
        Manifest::new("fountain", env!("CARGO_PKG_VERSION"), "fountain")
            .summary("Lets a box reach what is its own at Fountain, on the operator's key")
            .route(
                RouteEntry::under("/fountain")
                    .sees_query()
                    .sees_headers(["content-type", "idempotency-key"])
                    .sees_body(MOST_BODY),
            )
            .word(word("agent", "Start conversations with its own agents"))
            .word(word(
                "conversations",
                "Read and continue its own conversations",
            ))
            .word(word("sandboxes", "Reach its own sandboxes"))
            .word(word("vault", "Reach its own vaults"))
            .owned_kinds(kinds::ALL)
            .limits(Limits {
                time_ms: 1000,
                memory_bytes: 64 * 1024 * 1024,
                rounds: 0,
                calls: 1,
            })
    }

    fn scopes(request: &Request) -> Option<Vec<String>> {
        needs([Place::of(request)?.word(&request.method)])
    }

    fn route(request: Request, caller: Caller) -> Step {
        match begin(&request, &caller) {
            Ok(step) => step,
            Err(refusal) => refusal.into(),
        }
    }

    fn resume(state: Vec<u8>, answers: Answers) -> Step {
        let Some(state) = State::from_bytes(&state) else {
            return refusals::lost().into();
        };
        let resumed = match state.stage {
            Stage::Check => checked(state, &answers.owned),
            Stage::List => called(answers).and_then(|answer| listed(state, answer)),
            Stage::Filter => filtered(&state, &answers.owned),
            Stage::Create => called(answers).and_then(|answer| created(&state, answer)),
        };
        resumed.unwrap_or_else(Step::from)
    }
}

jackfield_sdk::plugin!(Fountain);

/// Reads what a request names, and asks which of it is the box's own.
fn begin(request: &Request, caller: &Caller) -> Result<Step, Refusal> {
    let place = Place::of(request).ok_or_else(|| refuse::not_found("fountain: no such path."))?;
    let method = request.method.as_str();
    if place.is_collection && !matches!(method, "GET" | "POST") {
        return Err(refusals::only_get_and_post());
    }
    let creates = place.is_collection && method == "POST";
    if creates && !kinds::is_created(place.kind) {
        return Err(refusals::not_created(place.kind));
    }
    let starts = place.starts_conversation(method);
    let own = place.own();
    let mut ids = place.ids;
    ids.add_query(request.query.as_deref().unwrap_or_default(), own);
    if let Some(body) = body::read(request)? {
        ids.add_body(&body, own);
    }
    if starts && !ids.names(kinds::AGENTS) && !ids.impossible {
        return Err(refusals::no_agent());
    }
    let granted = &caller.uses.owned_kinds;
    if kinds::ALL
        .iter()
        .any(|kind| !granted.iter().any(|each| each == kind))
    {
        return Err(refusals::not_granted());
    }
    if ids.impossible {
        return Err(refusals::foreign());
    }
    if ids.all.len() > MOST_THINGS {
        return Err(refusals::too_many());
    }
    let offer = caller
        .offer_for(&upstream(UPSTREAM))
        .filter(|offer| matches!(offer.kind.as_str(), "bearer" | "api-key"))
        .ok_or_else(refusals::no_credential)?;
    let state = State {
        stage: Stage::Check,
        credential: offer.name.clone(),
        collection: place.is_collection.then(|| (place.kind, method.to_owned())),
        headers: if creates { shown(request) } else { Vec::new() },
        status: 0,
        body: if creates {
            request.body.clone().unwrap_or_default()
        } else {
            Vec::new()
        },
    };
    if ids.all.is_empty() {
        return Ok(act(state));
    }
    Ok(asking(&state, &ids.all))
}

/// What of a request goes with the call that is made for it.
fn shown(request: &Request) -> Vec<(String, String)> {
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).ok();
    let headers = request.headers.iter();
    headers
        .filter_map(|header| Some((header.name.clone(), text(&header.value)?)))
        .collect()
}

fn asking<'a>(state: &State, things: impl IntoIterator<Item = &'a Named>) -> Step {
    let need = Need::with_state(state.to_bytes());
    let asked = |need: Need, (kind, id): &Named| need.owned(thing(kind, id));
    things.into_iter().fold(need, asked).into()
}

/// Everything that was named must be the box's own.
fn checked(state: State, owned: &[bool]) -> Result<Step, Refusal> {
    if owned.is_empty() || owned.contains(&false) {
        return Err(refusals::foreign());
    }
    Ok(act(state))
}

/// Sends a request on, or has the host make it where its answer must be read.
fn act(state: State) -> Step {
    let Some((_, method)) = &state.collection else {
        let mut forward = Forward::to(upstream(UPSTREAM)).substitute(401, refusals::refused_key());
        forward.credential = Some(state.credential);
        return forward.into();
    };
    let mut call =
        Call::as_received(method, upstream(UPSTREAM)).header("accept", "application/json");
    call.credential = Some(state.credential.clone());
    let stage = if method == "POST" {
        call = call.body(state.body.clone());
        Stage::Create
    } else {
        Stage::List
    };
    for (name, value) in &state.headers {
        call = call.header(name, value);
    }
    let next = State {
        stage,
        headers: Vec::new(),
        body: Vec::new(),
        ..state
    };
    Need::with_state(next.to_bytes()).call(call).into()
}

/// A call's answer, where it is not a failure of the operator's side.
fn called(answers: Answers) -> Result<CallAnswer, Refusal> {
    match answers.calls.into_iter().next() {
        Some(Ok(answer)) if answer.status == 401 => Err(refusals::refused_key()),
        Some(Ok(answer)) => Ok(answer),
        Some(Err(failure)) => Err(refusals::no_answer(failure)),
        None => Err(refusals::lost()),
    }
}

/// A collection's answer: its things must be the box's own to be shown.
fn listed(state: State, answer: CallAnswer) -> Result<Step, Refusal> {
    if !is_success(&answer) {
        return Ok(handed_on(answer).into());
    }
    let kind = collection(&state)?;
    let things = listing::things(&answer.body, kind).map_err(|_| refusals::unclear_listing())?;
    if things.len() > MOST_THINGS {
        return Err(refusals::no_answer(CallFailure::TooLarge));
    }
    let next = State {
        stage: Stage::Filter,
        status: answer.status,
        body: answer.body,
        ..state
    };
    if things.is_empty() {
        return filtered(&next, &[]);
    }
    Ok(asking(&next, &things))
}

/// A collection's answer with the box's own things alone.
fn filtered(state: &State, owned: &[bool]) -> Result<Step, Refusal> {
    let kind = collection(state)?;
    let unclear = |_| refusals::unclear_listing();
    let things = listing::things(&state.body, kind).map_err(unclear)?;
    if things.len() != owned.len() {
        return Err(refusals::lost());
    }
    let own = things.into_iter().zip(owned);
    let own = own
        .filter_map(|(thing, own)| own.then_some(thing))
        .collect();
    let shown = listing::filtered(&state.body, kind, &own).map_err(unclear)?;
    Ok(Answer::status(state.status)
        .header("content-type", "application/json")
        .body(shown)
        .into())
}

/// What was created is the box's own before the box hears of it.
fn created(state: &State, answer: CallAnswer) -> Result<Step, Refusal> {
    if !is_success(&answer) {
        return Ok(handed_on(answer).into());
    }
    let kind = collection(state)?;
    match listing::new_id(&answer.body) {
        Some(id) => Ok(Plan::from(handed_on(answer)).own(thing(kind, &id)).into()),
        None => {
            let said = format!("a box created one of {kind} whose id could not be read");
            Ok(Plan::from(refusals::no_id())
                .log(LogLevel::Warn, said)
                .into())
        }
    }
}

fn collection(state: &State) -> Result<&'static str, Refusal> {
    let kind = state.collection.as_ref().map(|(kind, _)| *kind);
    kind.ok_or_else(refusals::lost)
}

fn is_success(answer: &CallAnswer) -> bool {
    (200..300).contains(&answer.status)
}

/// An upstream's answer as it is.
fn handed_on(answer: CallAnswer) -> Answer {
    let headers = answer.headers.into_iter();
    Answer {
        status: answer.status,
        headers: headers
            .filter(|header| HANDED_ON.contains(&header.name.to_ascii_lowercase().as_str()))
            .collect(),
        body: answer.body,
    }
}

#[cfg(test)]
mod tests;
