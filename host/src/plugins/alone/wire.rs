//! What the test kit and the command say to each other, a line of JSON each.
//! `sdk/testkit/src/wire.rs` is the other end.

use serde::{Deserialize, Serialize};

use crate::plugins::bindings::exports::jackfield::plugin::decisions::Plan;
use crate::plugins::bindings::exports::jackfield::plugin::types::{Answers, Need};

/// What the kit says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Hear {
    /// A request is to be decided.
    Ask(Box<Ask>),
    /// What a need brought.
    Answers(Answers),
}

/// A request, and the world that it is made in.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) time: u64,
    pub(super) settings: String,
    pub(super) box_name: String,
    pub(super) declared: Vec<String>,
    pub(super) upstreams: Vec<Upstream>,
    pub(super) secrets: Vec<String>,
    pub(super) withheld: Vec<String>,
}

/// An upstream that is configured, and what sort of credential there is for it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Upstream {
    pub(super) name: String,
    pub(super) kind: Option<String>,
}

/// What the command says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Say<'a> {
    /// The component is loaded.
    Ready {
        /// Its name.
        name: &'a str,
        /// What an operator would be asked to approve.
        permissions: Vec<String>,
        /// What `describe` took.
        cost: &'a Cost,
    },
    /// It is no plugin; why.
    NoPlugin(String),
    /// It must know something first.
    Need(&'a Need),
    /// It has decided.
    Decided(&'a Told),
    /// What was asked or answered makes no sense.
    Mistake(String),
}

/// What came of a request.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    /// The words that it needs; none when the plugin does not serve it.
    pub(super) words: Option<Vec<String>>,
    /// What becomes of it.
    pub(super) outcome: Outcome,
    /// What each call took.
    pub(super) costs: Vec<Cost>,
}

/// What becomes of a request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// The plugin decided, and the host would do it.
    Plan(Box<Plan>),
    /// The host refuses it by itself.
    Host {
        /// The status.
        status: u16,
        /// What the box reads.
        message: String,
    },
    /// The host would not do what the plugin says.
    Rejected(String),
    /// The plugin failed.
    Failed(String),
}

/// What one call took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Cost {
    /// The contract's function.
    pub(super) function: &'static str,
    /// Fuel: about one for each instruction.
    pub(super) fuel: u64,
    /// Memory that the instance held when it had ended.
    pub(super) memory: usize,
}
