//! What one decision was asked and said, written down as it goes, for whoever
//! asks another version the same afterwards. Where nobody does, nothing is
//! written and nothing is copied.

use std::sync::Arc;

use http::HeaderName;

use crate::plugins::error::CallFault;
use crate::plugins::live::LivePlugin;
use crate::rules::compare::{Decided, End, Failing};
use crate::rules::names::{BoxName, ScopeWord};
use crate::rules::plan::{
    Answers, SaidAction, SaidNeed, SaidPlan, SaidStep, ShownCaller, ShownRequest,
};
use crate::rules::plan_check::{Bounds, PlanFault};

/// Writes a decision down, or does nothing. Dropped, it hands over what it has.
pub struct Witness(Option<Box<Watching>>);

struct Watching {
    plugin: Arc<LivePlugin>,
    record: Record,
    /// Whether the plan itself is compared, and not only how it went.
    keeps_plan: bool,
}

/// A decision.
#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) box_name: Option<BoxName>,
    pub(crate) request: ShownRequest,
    /// The words that were named; none where it is not served, or failed.
    pub(crate) words: Option<Vec<String>>,
    /// What it was asked further, once the rule had passed.
    pub(crate) routed: Option<Routed>,
    /// What it asked for, and was brought.
    pub(crate) rounds: Vec<(SaidNeed, Answers)>,
    pub(crate) failed: Option<Failing>,
    last: Last,
}

/// What a plan was asked with and held against.
#[derive(Clone)]
pub(crate) struct Routed {
    pub(crate) caller: ShownCaller,
    pub(crate) words: Vec<ScopeWord>,
    pub(crate) credential_headers: Vec<HeaderName>,
    pub(crate) query: Option<String>,
    pub(crate) max_calls: usize,
}

/// What it said last.
#[derive(Clone)]
enum Last {
    Nothing,
    Named,
    Need(SaidNeed),
    /// A plan, where it is kept.
    Plan(Option<Box<SaidPlan>>),
}

impl Witness {
    /// Of a decision that nobody looks at.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    pub(crate) fn of(
        plugin: &Arc<LivePlugin>,
        box_name: Option<&BoxName>,
        request: &ShownRequest,
    ) -> Self {
        Self(Some(Box::new(Watching {
            plugin: Arc::clone(plugin),
            keeps_plan: plugin.beside().shadow.is_some(),
            record: Record {
                box_name: box_name.cloned(),
                request: request.clone(),
                words: None,
                routed: None,
                rounds: Vec::new(),
                failed: None,
                last: Last::Nothing,
            },
        })))
    }

    /// It named these words, or none.
    pub fn named<'a>(&mut self, words: Option<&'a [String]>) -> Option<&'a [String]> {
        if let Some(watching) = &mut self.0 {
            watching.record.words = words.map(<[String]>::to_vec);
            watching.record.last = Last::Named;
        }
        words
    }

    /// It is asked further, for this caller and within these bounds.
    pub fn routed(&mut self, caller: ShownCaller, bounds: &Bounds<'_>) -> ShownCaller {
        if let Some(watching) = &mut self.0 {
            watching.record.routed = Some(Routed {
                caller: caller.clone(),
                words: bounds.words.to_vec(),
                credential_headers: bounds.credential_headers.to_vec(),
                query: bounds.query.map(ToOwned::to_owned),
                max_calls: bounds.max_calls,
            });
            watching.record.last = Last::Nothing;
        }
        caller
    }

    /// It said this.
    pub fn said(&mut self, step: &SaidStep) {
        if let Some(watching) = &mut self.0 {
            watching.record.last = match step {
                SaidStep::Need(need) => Last::Need(need.clone()),
                SaidStep::Plan(plan) => Last::Plan(watching.keeps_plan.then(|| plan.clone())),
            };
        }
    }

    /// It is brought this.
    pub fn answered(&mut self, answers: Answers) -> Answers {
        if let Some(watching) = &mut self.0
            && let Last::Need(need) = std::mem::replace(&mut watching.record.last, Last::Nothing)
        {
            watching.record.rounds.push((need, answers.clone()));
        }
        answers
    }

    /// A call of it failed.
    pub fn failed(&mut self, fault: CallFault) -> CallFault {
        if fault.fault.is_the_plugins() {
            self.fails(Failing(fault.fault.label()));
        }
        fault
    }

    /// The host does not do what it said.
    pub fn refused(&mut self, fault: PlanFault) -> PlanFault {
        self.fails(Failing::plan(&fault));
        fault
    }

    /// It asked more often than it may.
    pub fn asked_too_often(&mut self) {
        self.fails(Failing("it asks more often than it may"));
    }

    fn fails(&mut self, how: Failing) {
        if let Some(watching) = &mut self.0 {
            watching.record.failed = Some(how);
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if let Some(watching) = self.0.take() {
            let Watching { plugin, record, .. } = *watching;
            plugin.beside().take(record);
        }
    }
}

impl Record {
    /// What the live version decided; none where the request ended before it
    /// had.
    pub(crate) fn decided(&mut self) -> Option<Decided> {
        let end = match (self.failed, &mut self.last) {
            (Some(how), _) => End::Failed(how),
            (None, Last::Named) if self.words.is_none() => End::NotServed,
            (None, Last::Named) => End::Named,
            (None, Last::Plan(plan)) => End::Plan(plan.take()?),
            (None, Last::Nothing | Last::Need(_)) => return None,
        };
        Some(Decided {
            words: self.words.clone(),
            end,
        })
    }

    /// About how many bytes it holds.
    pub(crate) fn weight(&self) -> usize {
        let pairs = |pairs: &[(String, Vec<u8>)]| -> usize {
            pairs
                .iter()
                .map(|(name, value)| name.len() + value.len())
                .sum()
        };
        let need = |need: &SaidNeed| -> usize {
            let calls = need.calls.iter();
            let calls = calls
                .map(|call| call.body.len() + pairs(&call.headers))
                .sum::<usize>();
            calls + need.state.len() + need.reads.iter().map(String::len).sum::<usize>()
        };
        let brought = |answers: &Answers| -> usize {
            let calls = answers.calls.iter().flatten();
            let calls = calls.map(|answer| answer.body.len() + pairs(&answer.headers));
            let reads = answers.reads.iter().flatten().map(Vec::len);
            let lists = answers.lists.iter().flatten().map(String::len);
            calls.chain(reads).chain(lists).sum()
        };
        let request = &self.request;
        let shown = request.body.as_ref().map_or(0, bytes::Bytes::len)
            + pairs(&request.headers)
            + request.path.len()
            + request.settings.as_ref().map_or(0, String::len);
        let rounds = self.rounds.iter();
        let rounds: usize = rounds
            .map(|(asked, answers)| need(asked) + brought(answers))
            .sum();
        let last = match &self.last {
            Last::Nothing | Last::Named | Last::Plan(None) => 0,
            Last::Need(asked) => need(asked),
            Last::Plan(Some(plan)) => {
                let body = match &plan.action {
                    SaidAction::Answer { body, headers, .. } => body.len() + pairs(headers),
                    SaidAction::Forward(_) | SaidAction::Refuse(_) => 0,
                };
                let kept = plan.writes.iter().filter_map(|write| write.value.as_ref());
                let journal = plan.journal.iter().map(Vec::len);
                body + kept.map(Vec::len).chain(journal).sum::<usize>()
            }
        };
        // And what every one holds, in pointers and names.
        1024 + shown + rounds + last
    }
}
