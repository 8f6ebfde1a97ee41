//! Between the contract's generated types and the types of `rules`, both ways.
//!
//! What comes from a plugin is taken over as it is, but for its size: whoever
//! checks it later need not fear how long a list is.

use crate::plugins::bindings::exports::jackfield::plugin::{decisions as wit, types};
use crate::plugins::error::Fault;
use crate::rules::manifest::WantedLimits;
use crate::rules::manifest_check::{SaidManifest, SaidRoute, SaidWord};
use crate::rules::payer::{Payer, PayerKind};
use crate::rules::plan::{
    Answers, CallFailure, LogLevel, LogLine, Offer, SaidAction, SaidCall, SaidEdit, SaidForward,
    SaidNeed, SaidPath, SaidPlacement, SaidPlan, SaidQuery, SaidRefusal, SaidStep, SaidTarget,
    ShownCaller, ShownRequest, Target,
};

const MOST_WORDS: usize = 50;
const MOST_HEADERS: usize = 128;
const MOST_HEADER_BYTES: usize = 16 * 1024;
const MOST_NAME: usize = 2048;
const MOST_MESSAGE: usize = 8 * 1024;
const MOST_LOG: usize = 64;
const MOST_WRITES: usize = 64;
const MOST_JOURNAL: usize = 64;
const MOST_VALUE: usize = 64 * 1024;
const MOST_BODY: usize = 1024 * 1024;
const MOST_CALLS: usize = 32;
const MOST_READS: usize = 64;
const MOST_STATE: usize = 256 * 1024;

// === What a plugin is shown ===

/// A request, for the plugin.
pub(crate) fn request(shown: ShownRequest) -> wit::Request {
    wit::Request {
        method: shown.method.as_str().to_owned(),
        prefix: shown.prefix,
        path: shown.path,
        query: shown.query,
        headers: shown.headers.into_iter().map(header).collect(),
        body: shown.body.map(Vec::from),
        time: shown.time,
        settings: shown.settings,
    }
}

/// Who asks, for the plugin.
pub(crate) fn caller(shown: ShownCaller) -> wit::Caller {
    wit::Caller {
        box_name: shown.box_name.map(|name| name.as_str().to_owned()),
        words: shown.words,
        credentials: shown.offers.into_iter().map(offer).collect(),
    }
}

/// What the host brings back, for the plugin.
pub(crate) fn answers(answers: Answers) -> types::Answers {
    let call = |call: Result<crate::rules::plan::CallAnswer, CallFailure>| match call {
        Ok(answer) => Ok(types::CallAnswer {
            status: answer.status,
            headers: answer.headers.into_iter().map(header).collect(),
            body: answer.body.into(),
        }),
        Err(failure) => Err(match failure {
            CallFailure::Unreachable => types::CallFailure::Unreachable,
            CallFailure::Timeout => types::CallFailure::Timeout,
            CallFailure::Broken => types::CallFailure::Broken,
            CallFailure::TooLarge => types::CallFailure::TooLarge,
        }),
    };
    types::Answers {
        calls: answers.calls.into_iter().map(call).collect(),
        reads: answers.reads,
    }
}

fn header((name, value): (String, Vec<u8>)) -> types::Header {
    types::Header { name, value }
}

fn offer(offer: Offer) -> types::Offer {
    types::Offer {
        name: offer.name,
        target: match offer.target {
            Target::Upstream(name) => types::Target::Upstream(name.as_str().to_owned()),
            Target::Secret(name) => types::Target::Secret(name.as_str().to_owned()),
        },
        kind: offer.kind.as_str().to_owned(),
        payer: offer.payer.map(payer),
    }
}

fn payer(payer: Payer) -> types::Payer {
    types::Payer {
        kind: match payer.kind {
            PayerKind::Shared => types::PayerKind::Shared,
            PayerKind::Owner => types::PayerKind::Owner,
            PayerKind::Visitor => types::PayerKind::Visitor,
        },
        principal: payer
            .principal
            .map(|principal| principal.as_str().to_owned()),
    }
}

// === What a plugin says ===

/// The words of `scopes`.
pub(crate) fn words(said: Option<Vec<String>>) -> Result<Option<Vec<String>>, Fault> {
    if let Some(words) = &said {
        at_most("words", words.len(), MOST_WORDS)?;
        for word in words {
            name("a word", word)?;
        }
    }
    Ok(said)
}

/// A step.
pub(crate) fn step(said: wit::Step) -> Result<SaidStep, Fault> {
    match said {
        wit::Step::Plan(said) => Ok(SaidStep::Plan(Box::new(plan(said)?))),
        wit::Step::Need(said) => Ok(SaidStep::Need(need(said)?)),
    }
}

/// What a plugin says it is. Its sizes are looked at where it is checked.
pub(crate) fn manifest(said: wit::Manifest) -> SaidManifest {
    SaidManifest {
        name: said.name,
        version: said.version,
        capability: said.capability,
        summary: said.summary,
        routes: said.routes.into_iter().map(route).collect(),
        words: said.words.into_iter().map(word).collect(),
        paths: said.paths,
        keep: said.uses.keep,
        journal: said.uses.journal,
        limits: WantedLimits {
            time_ms: said.limits.time_ms,
            memory_bytes: said.limits.memory_bytes,
            rounds: said.limits.rounds,
            calls: said.limits.calls,
        },
    }
}

fn route(said: wit::RouteEntry) -> SaidRoute {
    SaidRoute {
        methods: said.methods,
        prefix: said.prefix,
        public: said.public,
        token_headers: match said.token {
            wit::TokenPlace::Headers(names) => Some(names),
            wit::TokenPlace::Anywhere => None,
        },
        query: said.inputs.query,
        headers: said.inputs.headers,
        body: said.inputs.body,
        time: said.inputs.time,
        settings: said.inputs.settings,
        payer_of: said.payer_of,
    }
}

fn word(said: wit::Word) -> SaidWord {
    SaidWord {
        name: said.name,
        description: said.description,
        reaches: said.reaches.into_iter().map(raw_target).collect(),
    }
}

fn raw_target(said: types::Target) -> SaidTarget {
    match said {
        types::Target::Upstream(name) => SaidTarget::Upstream(name),
        types::Target::Secret(name) => SaidTarget::Secret(name),
    }
}

fn plan(said: wit::Plan) -> Result<SaidPlan, Fault> {
    at_most("writes", said.writes.len(), MOST_WRITES)?;
    at_most("journal records", said.journal.len(), MOST_JOURNAL)?;
    at_most("log lines", said.log.len(), MOST_LOG)?;
    for record in &said.journal {
        at_most("a journal record", record.len(), MOST_VALUE)?;
    }
    Ok(SaidPlan {
        action: action(said.action)?,
        writes: said
            .writes
            .into_iter()
            .map(write)
            .collect::<Result<_, _>>()?,
        journal: said.journal,
        log: said
            .log
            .into_iter()
            .map(log_line)
            .collect::<Result<_, _>>()?,
    })
}

fn write(said: types::Write) -> Result<(String, Option<Vec<u8>>), Fault> {
    name("a key", &said.key)?;
    let size = said.value.as_ref().map_or(0, Vec::len);
    at_most("a kept value", size, MOST_VALUE)?;
    Ok((said.key, said.value))
}

fn log_line(said: types::LogLine) -> Result<LogLine, Fault> {
    at_most("a log line", said.message.len(), MOST_MESSAGE)?;
    Ok(LogLine {
        level: match said.level {
            types::LogLevel::Debug => LogLevel::Debug,
            types::LogLevel::Info => LogLevel::Info,
            types::LogLevel::Warn => LogLevel::Warn,
        },
        message: said.message,
    })
}

fn action(said: wit::Action) -> Result<SaidAction, Fault> {
    Ok(match said {
        wit::Action::Forward(said) => SaidAction::Forward(Box::new(forward(said)?)),
        wit::Action::Answer(said) => {
            at_most("an answer's body", said.body.len(), MOST_BODY)?;
            SaidAction::Answer {
                status: said.status,
                headers: headers(said.headers)?,
                body: said.body,
            }
        }
        wit::Action::Refuse(said) => SaidAction::Refuse(refusal(said)?),
    })
}

fn forward(said: wit::Forward) -> Result<SaidForward, Fault> {
    at_most("substitutions", said.substitutions.len(), MOST_HEADERS)?;
    let substitution = |said: wit::Substitution| Ok((said.status, refusal(said.refusal)?));
    Ok(SaidForward {
        to: target(said.to)?,
        path: path(said.path)?,
        query: query(said.query),
        credential: credential(said.credential)?,
        placement: placement(said.placement)?,
        request_headers: edits(said.request_headers)?,
        response_headers: edits(said.response_headers)?,
        substitutions: said
            .substitutions
            .into_iter()
            .map(substitution)
            .collect::<Result<_, Fault>>()?,
    })
}

fn need(said: types::Need) -> Result<SaidNeed, Fault> {
    at_most("calls", said.calls.len(), MOST_CALLS)?;
    at_most("reads", said.reads.len(), MOST_READS)?;
    at_most("a state", said.state.len(), MOST_STATE)?;
    for key in &said.reads {
        name("a key", key)?;
    }
    Ok(SaidNeed {
        calls: said.calls.into_iter().map(call).collect::<Result<_, _>>()?,
        reads: said.reads,
        deadline_ms: said.deadline_ms,
        state: said.state,
    })
}

fn call(said: types::Call) -> Result<SaidCall, Fault> {
    name("a method", &said.method)?;
    at_most("a call's body", said.body.len(), MOST_BODY)?;
    Ok(SaidCall {
        to: target(said.to)?,
        method: said.method,
        path: path(said.path)?,
        query: query(said.query),
        headers: headers(said.headers)?,
        body: said.body,
        credential: credential(said.credential)?,
        placement: placement(said.placement)?,
    })
}

fn target(said: types::Target) -> Result<SaidTarget, Fault> {
    let target = raw_target(said);
    match &target {
        SaidTarget::Upstream(text) | SaidTarget::Secret(text) => name("a target", text)?,
    }
    Ok(target)
}

fn path(said: types::PathChoice) -> Result<SaidPath, Fault> {
    Ok(match said {
        types::PathChoice::Received(skipped) => SaidPath::Received(skipped),
        types::PathChoice::Literal(literal) => {
            name("a path", &literal)?;
            SaidPath::Literal(literal)
        }
    })
}

fn query(said: types::QueryChoice) -> SaidQuery {
    match said {
        types::QueryChoice::Received => SaidQuery::Received,
        types::QueryChoice::None => SaidQuery::None,
    }
}

fn credential(said: Option<String>) -> Result<Option<String>, Fault> {
    if let Some(text) = &said {
        name("a credential's name", text)?;
    }
    Ok(said)
}

fn placement(said: types::Placement) -> Result<SaidPlacement, Fault> {
    Ok(match said {
        types::Placement::Bearer => SaidPlacement::Bearer,
        types::Placement::Header(said) => {
            name("a header's name", &said.name)?;
            name("a template", &said.template)?;
            SaidPlacement::Header {
                name: said.name,
                template: said.template,
            }
        }
        types::Placement::Query(text) => {
            name("a query parameter", &text)?;
            SaidPlacement::Query(text)
        }
        types::Placement::StandIn => SaidPlacement::StandIn,
    })
}

fn edits(said: Vec<wit::HeaderEdit>) -> Result<Vec<SaidEdit>, Fault> {
    at_most("header edits", said.len(), MOST_HEADERS)?;
    let edit = |said: wit::HeaderEdit| {
        Ok(match said {
            wit::HeaderEdit::Set(said) => {
                let (name, value) = one_header(said)?;
                SaidEdit::Set(name, value)
            }
            wit::HeaderEdit::Remove(text) => {
                name("a header's name", &text)?;
                SaidEdit::Remove(text)
            }
            wit::HeaderEdit::AddToList(said) => {
                let (name, value) = one_header(said)?;
                SaidEdit::AddToList(name, value)
            }
        })
    };
    said.into_iter().map(edit).collect()
}

fn headers(said: Vec<types::Header>) -> Result<Vec<(String, Vec<u8>)>, Fault> {
    at_most("headers", said.len(), MOST_HEADERS)?;
    said.into_iter().map(one_header).collect()
}

fn one_header(said: types::Header) -> Result<(String, Vec<u8>), Fault> {
    name("a header's name", &said.name)?;
    at_most("a header's value", said.value.len(), MOST_HEADER_BYTES)?;
    Ok((said.name, said.value))
}

fn refusal(said: types::Refusal) -> Result<SaidRefusal, Fault> {
    name("a refusal's type", &said.type_)?;
    at_most("a refusal's message", said.message.len(), MOST_MESSAGE)?;
    Ok(SaidRefusal {
        status: said.status,
        kind: said.type_,
        message: said.message,
    })
}

fn name(what: &'static str, text: &str) -> Result<(), Fault> {
    at_most(what, text.len(), MOST_NAME)
}

fn at_most(what: &'static str, size: usize, most: usize) -> Result<(), Fault> {
    if size <= most {
        return Ok(());
    }
    Err(Fault::TooLarge(what))
}
