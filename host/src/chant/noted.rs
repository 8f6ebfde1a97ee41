//! What the decision log will hold of a request, noted on its way. Where no log
//! is kept, it is nothing and costs nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::chant::Chant;
use crate::chant::routes::PluginRoute;
use crate::decision_log::{Decision, DecisionLog, NewInputs, NoRecord, Slot, Verdict};
use crate::plugins::{LivePlugin, Recording};
use crate::rules::names::ScopeWord;
use crate::rules::plan::{Answers, SaidStep, ShownCaller, ShownRequest};
use crate::rules::refusal::Refusal;
use crate::telemetry::{Outcome, RequestEnd};

/// Notes on a request that a plugin's route serves.
#[derive(Default)]
pub(super) struct Noted(Option<Box<Notes>>);

struct Notes {
    log: Arc<DecisionLog>,
    slot: Option<Slot>,
    began: Instant,
    plugin: Arc<LivePlugin>,
    route: String,
    words: Option<Vec<ScopeWord>>,
    /// What the decision is made from, where that is recorded.
    records: bool,
    recording: Option<Recording>,
    decided: Option<Duration>,
    answered: Option<Duration>,
}

impl Chant {
    /// Begins the notes on a request of this route.
    ///
    /// # Errors
    /// A 503 where there must be a record of it, and none can be kept.
    pub(super) fn note(&self, matched: &PluginRoute) -> Result<Noted, Refusal> {
        let Some(log) = &self.0.parts.decision_log else {
            return Ok(Noted::default());
        };
        let slot = log.admit().map_err(unrecorded)?;
        Ok(Noted(Some(Box::new(Notes {
            log: Arc::clone(log),
            slot,
            began: Instant::now(),
            plugin: Arc::clone(&matched.plugin),
            route: matched.route().prefix.clone(),
            words: None,
            records: self
                .0
                .settings
                .recorded
                .contains(&matched.plugin.manifest().name),
            recording: None,
            decided: None,
            answered: None,
        }))))
    }
}

fn unrecorded(reason: NoRecord) -> Refusal {
    let reason = match reason {
        NoRecord::Disk => "it cannot be written; the operator's log says why",
        NoRecord::Queue => "as many requests as may wait for their record (queue_records)",
    };
    Refusal::unavailable(format!(
        "This broker must keep a record of each decision ([decision_log] mode = \"must\"), and cannot now: {reason}. \
         Nothing was done. Try again later."
    ))
}

impl Noted {
    /// The plugin has said which words the request needs.
    pub(super) fn words(&mut self, words: &[ScopeWord]) {
        if let Some(notes) = &mut self.0 {
            notes.words = Some(words.to_vec());
        }
    }

    /// The plugin is shown this request.
    pub(super) fn shown(&mut self, request: &ShownRequest) {
        if let Some(notes) = &mut self.0
            && notes.records
        {
            notes.recording = Some(Recording::of(request));
        }
    }

    fn recording(&mut self) -> Option<&mut Recording> {
        self.0.as_mut()?.recording.as_mut()
    }

    /// It said that the request needs these words, or that it does not serve
    /// it.
    pub(super) fn scopes(&mut self, said: Option<&[String]>) {
        if let Some(recording) = self.recording() {
            recording.scopes(said);
        }
    }

    /// It is shown this caller.
    pub(super) fn caller(&mut self, caller: &ShownCaller) {
        if let Some(recording) = self.recording() {
            recording.caller(caller);
        }
    }

    /// It said this.
    pub(super) fn step(&mut self, said: &SaidStep) {
        if let Some(recording) = self.recording() {
            recording.step(said);
        }
    }

    /// It is shown these answers to its need.
    pub(super) fn answers(&mut self, answers: &Answers) {
        if let Some(recording) = self.recording() {
            recording.answers(answers);
        }
    }

    /// It is decided.
    pub(super) fn decided(&mut self) {
        if let Some(notes) = &mut self.0 {
            notes.decided = Some(notes.began.elapsed());
        }
    }

    /// The head of an upstream's answer is there.
    pub(super) fn answered(&mut self) {
        if let Some(notes) = &mut self.0 {
            notes.answered = Some(notes.began.elapsed());
        }
    }

    /// The request has ended.
    pub(super) fn told(&mut self, end: &RequestEnd<'_>) {
        let Some(notes) = self.0.take() else {
            return;
        };
        let manifest = notes.plugin.manifest();
        let decision = Decision {
            box_name: end.box_name.cloned(),
            route: notes.route,
            capability: manifest.capability.clone(),
            words: notes.words,
            verdict: verdict(end),
            outcome: end.outcome.as_str(),
            refusal: end.refusal.map(|kind| kind.label().to_owned()),
            plugin: manifest.name.clone(),
            hash: notes.plugin.hash().0,
            target: end.target.cloned(),
            status: end.status.map(|status| status.as_u16()),
            bytes_in: end.bytes_in,
            bytes_out: end.bytes_out,
            decided_us: notes.decided.map(microseconds),
            answered_us: notes.answered.map(microseconds),
            ended_us: microseconds(end.duration),
        };
        let inputs = notes.recording.map(|recording| {
            let (plugin, hash) = (decision.plugin.clone(), *notes.plugin.hash());
            let box_name = decision.box_name.clone();
            let size = recording.size();
            let make = move |time| recording.bytes(time, &plugin, hash, box_name.as_ref());
            NewInputs::new(size, Box::new(make))
        });
        notes.log.tell(decision, inputs, notes.slot);
    }
}

/// What was decided, whatever came of it.
fn verdict(end: &RequestEnd<'_>) -> Verdict {
    match end.outcome {
        _ if end.target.is_some() => Verdict::Forward,
        Outcome::Refuse => Verdict::Refuse,
        Outcome::Answer => Verdict::Answer,
        Outcome::Forward | Outcome::Break | Outcome::Leave | Outcome::Revoke => Verdict::Undecided,
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
