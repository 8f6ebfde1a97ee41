//! Between the contract's generated types and the types of `rules`, both ways.
//!
//! What comes from a plugin is taken over as it is. The engine has bounded how
//! many bytes that can be; `rules/plan_check` holds each part to its size.

use crate::plugins::bindings::exports::jackfield::plugin::{decisions as wit, types};
use crate::rules::manifest::{Uses, WantedLimits};
use crate::rules::manifest_check::{SaidManifest, SaidRoute, SaidWord};
use crate::rules::payer::{Payer, PayerKind};
use crate::rules::plan::{
    Answers, CallFailure, Expected, Listing, LogLevel, LogLine, Offer, SaidAction, SaidCall,
    SaidEdit, SaidForward, SaidNeed, SaidPath, SaidPlacement, SaidPlan, SaidQuery, SaidRefusal,
    SaidStep, SaidTarget, SaidThing, ShownCaller, ShownRequest, Target, Write,
};

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
        targets: shown.targets.into_iter().map(shown_target).collect(),
        uses: uses(shown.uses),
    }
}

fn uses(uses: Uses) -> wit::Uses {
    let kinds = uses.owned_kinds.iter();
    wit::Uses {
        keep: uses.keep,
        journal: uses.journal,
        owned_kinds: kinds.map(|kind| kind.as_str().to_owned()).collect(),
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
        lists: answers.lists,
        owned: answers.owned,
    }
}

fn header((name, value): (String, Vec<u8>)) -> types::Header {
    types::Header { name, value }
}

fn offer(offer: Offer) -> types::Offer {
    types::Offer {
        name: offer.name,
        target: shown_target(offer.target),
        kind: offer.kind.as_str().to_owned(),
        payer: offer.payer.map(payer),
    }
}

fn shown_target(target: Target) -> types::Target {
    match target {
        Target::Upstream(name) => types::Target::Upstream(name.as_str().to_owned()),
        Target::Secret(name) => types::Target::Secret(name.as_str().to_owned()),
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

/// A step.
pub(crate) fn step(said: wit::Step) -> SaidStep {
    match said {
        wit::Step::Plan(said) => SaidStep::Plan(Box::new(plan(said))),
        wit::Step::Need(said) => SaidStep::Need(need(said)),
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
        owned_kinds: said.uses.owned_kinds,
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
        reaches: said.reaches.into_iter().map(target).collect(),
    }
}

fn target(said: types::Target) -> SaidTarget {
    match said {
        types::Target::Upstream(name) => SaidTarget::Upstream(name),
        types::Target::Secret(name) => SaidTarget::Secret(name),
    }
}

fn plan(said: wit::Plan) -> SaidPlan {
    SaidPlan {
        action: action(said.action),
        writes: said.writes.into_iter().map(write).collect(),
        journal: said.journal,
        owns: said.owns.into_iter().map(thing).collect(),
        log: said.log.into_iter().map(log_line).collect(),
    }
}

fn write(said: types::Write) -> Write {
    Write {
        key: said.key,
        value: said.value,
        expects: match said.expects {
            types::Expected::Anything => Expected::Anything,
            types::Expected::Nothing => Expected::Nothing,
            types::Expected::Value(value) => Expected::Value(value),
        },
    }
}

fn thing(said: types::Thing) -> SaidThing {
    SaidThing {
        kind: said.kind,
        id: said.id,
    }
}

fn log_line(said: types::LogLine) -> LogLine {
    LogLine {
        level: match said.level {
            types::LogLevel::Debug => LogLevel::Debug,
            types::LogLevel::Info => LogLevel::Info,
            types::LogLevel::Warn => LogLevel::Warn,
        },
        message: said.message,
    }
}

fn action(said: wit::Action) -> SaidAction {
    match said {
        wit::Action::Forward(said) => SaidAction::Forward(Box::new(forward(said))),
        wit::Action::Answer(said) => SaidAction::Answer {
            status: said.status,
            headers: headers(said.headers),
            body: said.body,
        },
        wit::Action::Refuse(said) => SaidAction::Refuse(refusal(said)),
    }
}

fn forward(said: wit::Forward) -> SaidForward {
    let substitutions = said.substitutions.into_iter();
    SaidForward {
        to: target(said.to),
        path: path(said.path),
        query: query(said.query),
        credential: said.credential,
        placement: placement(said.placement),
        request_headers: edits(said.request_headers),
        response_headers: edits(said.response_headers),
        substitutions: substitutions
            .map(|said| (said.status, refusal(said.refusal)))
            .collect(),
    }
}

fn need(said: types::Need) -> SaidNeed {
    let listing = |said: types::Listing| Listing {
        prefix: said.prefix,
        after: said.after,
    };
    SaidNeed {
        calls: said.calls.into_iter().map(call).collect(),
        reads: said.reads,
        lists: said.lists.into_iter().map(listing).collect(),
        owned: said.owned.into_iter().map(thing).collect(),
        deadline_ms: said.deadline_ms,
        state: said.state,
    }
}

fn call(said: types::Call) -> SaidCall {
    SaidCall {
        to: target(said.to),
        method: said.method,
        path: path(said.path),
        query: query(said.query),
        headers: headers(said.headers),
        body: said.body,
        credential: said.credential,
        placement: placement(said.placement),
    }
}

fn path(said: types::PathChoice) -> SaidPath {
    match said {
        types::PathChoice::Received(skipped) => SaidPath::Received(skipped),
        types::PathChoice::Literal(literal) => SaidPath::Literal(literal),
    }
}

fn query(said: types::QueryChoice) -> SaidQuery {
    match said {
        types::QueryChoice::Received => SaidQuery::Received,
        types::QueryChoice::None => SaidQuery::None,
    }
}

fn placement(said: types::Placement) -> SaidPlacement {
    match said {
        types::Placement::Bearer => SaidPlacement::Bearer,
        types::Placement::Header(said) => SaidPlacement::Header {
            name: said.name,
            template: said.template,
        },
        types::Placement::Query(name) => SaidPlacement::Query(name),
        types::Placement::StandIn => SaidPlacement::StandIn,
    }
}

fn edits(said: Vec<wit::HeaderEdit>) -> Vec<SaidEdit> {
    let edit = |said: wit::HeaderEdit| match said {
        wit::HeaderEdit::Set(said) => SaidEdit::Set(said.name, said.value),
        wit::HeaderEdit::Remove(name) => SaidEdit::Remove(name),
        wit::HeaderEdit::AddToList(said) => SaidEdit::AddToList(said.name, said.value),
    };
    said.into_iter().map(edit).collect()
}

fn headers(said: Vec<types::Header>) -> Vec<(String, Vec<u8>)> {
    let header = |said: types::Header| (said.name, said.value);
    said.into_iter().map(header).collect()
}

fn refusal(said: types::Refusal) -> SaidRefusal {
    SaidRefusal {
        status: said.status,
        kind: said.type_,
        message: said.message,
    }
}
