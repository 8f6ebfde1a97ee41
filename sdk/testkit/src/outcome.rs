//! What came of a request, for a test to look at.

use std::fmt;

use jackfield_sdk::contract::{Action, Answer, Forward, Plan, Refusal};
use serde::{Deserialize, Serialize};

use crate::script::fail;
use crate::wire::{Outcome, Told};

/// What one call of the component took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// `describe`, `scopes`, `route` or `resume`.
    pub function: String,
    /// Fuel: about one for each instruction, the same on every machine.
    pub fuel: u64,
    /// Memory that the instance held when the call had ended, in bytes.
    pub memory: u64,
}

/// What came of a request. Where a test asks for something else than what
/// came, it ends and says what came instead.
#[derive(Debug, Clone)]
pub struct Decided {
    words: Option<Vec<String>>,
    outcome: Outcome,
    costs: Vec<Cost>,
}

impl Decided {
    pub(crate) fn new(told: Told) -> Self {
        Self {
            words: told.words,
            outcome: told.outcome,
            costs: told.costs,
        }
    }

    /// The words that the request needs; none where it is not served.
    #[must_use]
    pub fn words(&self) -> &[String] {
        self.words.as_deref().unwrap_or_default()
    }

    /// Whether the plugin serves the request at all. What it does not serve is
    /// a 404.
    #[must_use]
    pub fn is_served(&self) -> bool {
        self.words.is_some()
    }

    /// What each call took, in the order in which they were made.
    #[must_use]
    pub fn costs(&self) -> &[Cost] {
        &self.costs
    }

    /// The plan: what happens, and what is kept, journaled, owned and logged.
    #[track_caller]
    #[must_use]
    pub fn plan(&self) -> &Plan {
        match &self.outcome {
            Outcome::Plan(plan) => plan,
            Outcome::Host { .. } | Outcome::Rejected(_) | Outcome::Failed(_) => {
                fail(&format!("expected a plan, but {self}"))
            }
        }
    }

    /// The forward.
    #[track_caller]
    #[must_use]
    pub fn forward(&self) -> &Forward {
        match &self.plan().action {
            Action::Forward(forward) => forward,
            Action::Answer(_) | Action::Refuse(_) => {
                fail(&format!("expected a forward, but {self}"))
            }
        }
    }

    /// The plugin's own answer.
    #[track_caller]
    #[must_use]
    pub fn answer(&self) -> &Answer {
        match &self.plan().action {
            Action::Answer(answer) => answer,
            Action::Forward(_) | Action::Refuse(_) => {
                fail(&format!("expected an answer, but {self}"))
            }
        }
    }

    /// The plugin's refusal.
    #[track_caller]
    #[must_use]
    pub fn refusal(&self) -> &Refusal {
        match &self.plan().action {
            Action::Refuse(refusal) => refusal,
            Action::Forward(_) | Action::Answer(_) => {
                fail(&format!("expected a refusal, but {self}"))
            }
        }
    }

    /// The status that the box reads, whoever decides on it: the plugin's own
    /// answer or refusal, the host's 403 under the rule, 404 for what is not
    /// served, 502 for what the host does not do. None for a forward: its
    /// upstream has not spoken.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match &self.outcome {
            Outcome::Plan(plan) => match &plan.action {
                Action::Answer(answer) => Some(answer.status),
                Action::Refuse(refusal) => Some(refusal.status),
                Action::Forward(_) => None,
            },
            Outcome::Host { status, .. } => Some(*status),
            Outcome::Rejected(_) | Outcome::Failed(_) => Some(502),
        }
    }

    /// Why the host would not do what the plugin says, where it would not.
    #[must_use]
    pub fn rejection(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Rejected(reason) => Some(reason),
            Outcome::Plan(_) | Outcome::Host { .. } | Outcome::Failed(_) => None,
        }
    }

    /// How the plugin failed, where it did: trapped, computed for too long,
    /// wanted too much memory.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Failed(reason) => Some(reason),
            Outcome::Plan(_) | Outcome::Host { .. } | Outcome::Rejected(_) => None,
        }
    }
}

impl fmt::Display for Decided {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Plan(plan) => match &plan.action {
                Action::Forward(forward) => write!(formatter, "it is forwarded: {forward:?}"),
                Action::Answer(answer) => write!(
                    formatter,
                    "it is answered with {}: {}",
                    answer.status,
                    String::from_utf8_lossy(&answer.body)
                ),
                Action::Refuse(refusal) => write!(
                    formatter,
                    "the plugin refuses it with {}: {}",
                    refusal.status, refusal.message
                ),
            },
            Outcome::Host { status, message } => {
                write!(formatter, "the host refuses it with {status}: {message}")
            }
            Outcome::Rejected(reason) => {
                write!(
                    formatter,
                    "the host does not do what the plugin says: {reason}"
                )
            }
            Outcome::Failed(reason) => write!(formatter, "the plugin {reason}"),
        }
    }
}
