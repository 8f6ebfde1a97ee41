//! A decision as it is recorded: what the plugin was shown, and what it said.
//! The host writes one for each request of a plugin whose inputs are recorded;
//! `alone/replay.rs` asks another version the same.

mod view;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plugins::bindings::exports::jackfield::plugin::{decisions as wit, types};
use crate::plugins::convert;
use crate::plugins::hash::ComponentHash;
use crate::rules::names::{BoxName, PluginName};
use crate::rules::plan::{Answers, SaidStep, ShownCaller, ShownRequest};

pub(crate) use view::{BYTES, SHA256, view};

/// A decision while it is made.
#[derive(Debug)]
pub struct Recording {
    request: ShownRequest,
    scopes: Option<Option<Vec<String>>>,
    caller: Option<ShownCaller>,
    steps: Vec<SaidStep>,
    answers: Vec<Answers>,
}

impl Recording {
    /// The plugin is shown this request.
    #[must_use]
    pub fn of(request: &ShownRequest) -> Self {
        Self {
            request: request.clone(),
            scopes: None,
            caller: None,
            steps: Vec::new(),
            answers: Vec::new(),
        }
    }

    /// It said that the request needs these words, or that it does not serve
    /// it.
    pub fn scopes(&mut self, said: Option<&[String]>) {
        self.scopes = Some(said.map(<[String]>::to_vec));
    }

    /// It is shown this caller.
    pub fn caller(&mut self, caller: &ShownCaller) {
        self.caller = Some(caller.clone());
    }

    /// It said this.
    pub fn step(&mut self, said: &SaidStep) {
        self.steps.push(said.clone());
    }

    /// It is shown these answers to its need.
    pub fn answers(&mut self, answers: &Answers) {
        self.answers.push(answers.clone());
    }

    /// About how much memory it holds.
    #[must_use]
    pub fn size(&self) -> usize {
        let body = self.request.body.as_ref().map_or(0, bytes::Bytes::len);
        let brought = self.answers.iter().map(|answers| {
            let calls = answers.calls.iter().flatten();
            let reads = answers.reads.iter().flatten();
            calls.map(|call| call.body.len()).sum::<usize>() + reads.map(Vec::len).sum::<usize>()
        });
        4096 + body + brought.sum::<usize>()
    }

    /// As it is kept. It copies bodies: not on the way of a request.
    #[must_use]
    pub fn bytes(
        self,
        time: Timestamp,
        plugin: &PluginName,
        hash: ComponentHash,
        box_name: Option<&BoxName>,
    ) -> Vec<u8> {
        let recorded = Recorded {
            time,
            plugin: plugin.as_str().to_owned(),
            hash: hash.to_string(),
            box_name: box_name.map(|name| name.as_str().to_owned()),
            request: convert::request(self.request),
            scopes: self.scopes.map(|words| Scopes { words }),
            caller: self.caller.map(convert::caller),
            steps: self.steps.iter().map(view).collect(),
            answers: self.answers.into_iter().map(convert::answers).collect(),
        };
        serde_json::to_vec(&recorded).expect("the contract's types are JSON")
    }
}

/// A decision as it was recorded.
#[derive(Debug, Serialize, Deserialize)]
pub struct Recorded {
    /// When the request ended.
    pub time: Timestamp,
    /// The plugin.
    pub plugin: String,
    /// Which component of that name.
    pub hash: String,
    /// Who asked.
    pub box_name: Option<String>,
    pub(crate) request: wit::Request,
    /// None where the plugin did not say.
    pub(crate) scopes: Option<Scopes>,
    /// None where it was not asked further.
    pub(crate) caller: Option<wit::Caller>,
    /// Each step that it said, as [`view`] shows it.
    pub(crate) steps: Vec<Value>,
    pub(crate) answers: Vec<types::Answers>,
}

/// What `scopes` said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Scopes {
    pub(crate) words: Option<Vec<String>>,
}

impl Recorded {
    /// Reads what [`Recording::bytes`] made.
    ///
    /// # Errors
    /// When it is of another version of the host.
    pub fn read(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// The request, as far as it may be shown: no query, header or body.
    #[must_use]
    pub fn request_line(&self) -> String {
        let request = &self.request;
        format!("{} {}{}", request.method, request.prefix, request.path)
    }
}
