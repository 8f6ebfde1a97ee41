//! What the kit and the `jackfield` command say to each other: a line of JSON
//! each. The contract's own types stand in them as they are.

use jackfield_sdk::contract::{Answers, Need, Plan};
use serde::{Deserialize, Serialize};

use crate::ask::Ask;
use crate::outcome::Cost;

/// From the kit.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Says<'a> {
    Ask(&'a Ask),
    Answers(&'a Answers),
}

/// From the command.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Hears {
    /// The component is loaded.
    Ready(Ready),
    /// It is no plugin; why.
    NoPlugin(String),
    /// It must know something first.
    Need(Need),
    /// It has decided.
    Decided(Box<Told>),
    /// What was asked or answered makes no sense.
    Mistake(String),
}

#[derive(Debug, Deserialize)]
pub(crate) struct Ready {
    pub(crate) name: String,
    pub(crate) permissions: Vec<String>,
    pub(crate) cost: Cost,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Told {
    pub(crate) words: Option<Vec<String>>,
    pub(crate) outcome: Outcome,
    pub(crate) costs: Vec<Cost>,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// The plugin decided, and the host would do it.
    Plan(Box<Plan>),
    /// The host refuses it by itself: no route, not served, the rule.
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
