//! What a run finds: a result for each check, and a summary. Texts in it hold
//! no credential, no secret and no token.

use crate::conformance::broker::End;

/// A check's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckResult {
    /// The check.
    pub id: String,
    /// The capability that it is about, `declaration`, or `all`.
    pub about: String,
    /// What it holds the broker to, in words.
    pub title: String,
    /// How it went.
    pub outcome: Outcome,
}

/// How a check went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The broker does what the check asks for.
    Passed,
    /// It does not.
    Failed {
        /// What was expected and what was got, each.
        problems: Vec<String>,
        /// The requests in which it showed.
        exchanges: Vec<Shown>,
    },
    /// The check was not run.
    Skipped {
        /// Why not.
        reason: String,
    },
}

/// An exchange to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// What the box said.
    pub sent: String,
    /// What the broker answered.
    pub got: String,
    /// What reached an upstream meanwhile.
    pub upstream: Vec<String>,
}

/// A whole run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// How many checks passed.
    pub passed: usize,
    /// The ids of those that failed.
    pub failed: Vec<String>,
    /// How many were not run.
    pub skipped: usize,
    /// What it took to end the broker's command.
    pub end: End,
}

impl Summary {
    pub(super) fn new(end: End) -> Self {
        Self {
            passed: 0,
            failed: Vec::new(),
            skipped: 0,
            end,
        }
    }

    pub(super) fn count(&mut self, result: &CheckResult) {
        match result.outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed { .. } => self.failed.push(result.id.clone()),
            Outcome::Skipped { .. } => self.skipped += 1,
        }
    }
}
