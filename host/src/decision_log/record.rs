//! A record: what is kept of a request, and how it is written. Names, words and
//! numbers alone: no header's value, path, query, body or secret has a field.

use jiff::Timestamp;
use serde::Serialize;

use crate::decision_log::chain::{Began, Lost, Short, hex};
use crate::rules::names::{BoxName, CapabilityName, PluginName, ScopeWord};
use crate::rules::plan::Target;

/// What became of one request that a plugin's route served.
#[derive(Debug, Clone)]
pub struct Decision {
    /// Who asked, once that was known.
    pub box_name: Option<BoxName>,
    /// The route's prefix.
    pub route: String,
    /// The plugin's capability.
    pub capability: CapabilityName,
    /// The words that the plugin said the request needs; none before it said.
    pub words: Option<Vec<ScopeWord>>,
    /// What was decided.
    pub verdict: Verdict,
    /// How it ended.
    pub outcome: &'static str,
    /// The sort of refusal, from a closed set.
    pub refusal: Option<String>,
    /// The plugin.
    pub plugin: PluginName,
    /// Which component of that name: the SHA-256 of its bytes.
    pub hash: [u8; 32],
    /// Where it was sent.
    pub target: Option<Target>,
    /// The status that the box saw.
    pub status: Option<u16>,
    /// Bytes of the request's body.
    pub bytes_in: u64,
    /// Bytes of the answer's body.
    pub bytes_out: u64,
    /// From the request's head until it was decided.
    pub decided_us: Option<u64>,
    /// From the request's head until the answer's head.
    pub answered_us: Option<u64>,
    /// From the request's head to its end.
    pub ended_us: u64,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// To send it on.
    Forward,
    /// To answer it.
    Answer,
    /// To refuse it.
    Refuse,
    /// Nothing: the box left before.
    Undecided,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Answer => "answer",
            Self::Refuse => "refuse",
            Self::Undecided => "undecided",
        }
    }
}

/// What a record is about.
#[derive(Debug)]
pub(super) enum About {
    Decision(Box<Decision>),
    Began(Began),
    Lost(Lost),
    Short(Short),
    Ended,
}

/// A record that has no number yet.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) time: Timestamp,
    pub(super) about: About,
}

impl Entry {
    pub(super) fn new(time: Timestamp, about: About) -> Self {
        Self { time, about }
    }

    /// Writes it as a line.
    pub(super) fn write(&self, number: u64, into: &mut Vec<u8>) {
        let mut written = Written {
            record: number,
            time: self.time,
            decision: None,
            began: None,
            lost: None,
            short: None,
            ended: None,
        };
        match &self.about {
            About::Decision(decision) => written.decision = Some(WrittenDecision::of(decision)),
            About::Began(began) => written.began = Some(*began),
            About::Lost(lost) => written.lost = Some(*lost),
            About::Short(short) => written.short = Some(*short),
            About::Ended => written.ended = Some(true),
        }
        serde_json::to_writer(&mut *into, &written).expect("texts and numbers are JSON");
        into.push(b'\n');
    }
}

#[derive(Serialize)]
struct Written<'a> {
    record: u64,
    time: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<WrittenDecision<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    began: Option<Began>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<Lost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    short: Option<Short>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<bool>,
}

#[derive(Serialize)]
struct WrittenDecision<'a> {
    r#box: Option<&'a str>,
    route: &'a str,
    capability: &'a str,
    words: Option<Vec<&'a str>>,
    verdict: &'static str,
    outcome: &'static str,
    refusal: Option<&'a str>,
    plugin: &'a str,
    hash: String,
    target: Option<String>,
    status: Option<u16>,
    bytes_in: u64,
    bytes_out: u64,
    decided_us: Option<u64>,
    answered_us: Option<u64>,
    ended_us: u64,
}

impl<'a> WrittenDecision<'a> {
    fn of(decision: &'a Decision) -> Self {
        let words = decision.words.as_deref();
        Self {
            r#box: decision.box_name.as_ref().map(BoxName::as_str),
            route: &decision.route,
            capability: decision.capability.as_str(),
            words: words.map(|words| words.iter().map(ScopeWord::as_str).collect()),
            verdict: decision.verdict.word(),
            outcome: decision.outcome,
            refusal: decision.refusal.as_deref(),
            plugin: decision.plugin.as_str(),
            hash: hex(&decision.hash),
            target: decision.target.as_ref().map(target),
            status: decision.status,
            bytes_in: decision.bytes_in,
            bytes_out: decision.bytes_out,
            decided_us: decision.decided_us,
            answered_us: decision.answered_us,
            ended_us: decision.ended_us,
        }
    }
}

/// As permissions are written.
fn target(target: &Target) -> String {
    match target {
        Target::Upstream(name) => format!("upstream:{name}"),
        Target::Secret(name) => format!("secret:{name}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::rules::names::UpstreamName;

    pub(in crate::decision_log) fn decision(box_name: &str) -> Decision {
        Decision {
            box_name: Some(BoxName::parse(box_name).unwrap()),
            route: "/weather".to_owned(),
            capability: CapabilityName::parse("inference").unwrap(),
            words: Some(vec![ScopeWord::parse("agent \"x\"").unwrap()]),
            verdict: Verdict::Forward,
            outcome: "forward",
            refusal: None,
            plugin: PluginName::parse("inference").unwrap(),
            hash: [0xab; 32],
            target: Some(Target::Upstream(UpstreamName::parse("weather").unwrap())),
            status: Some(200),
            bytes_in: 3,
            bytes_out: 5,
            decided_us: Some(40),
            answered_us: Some(90),
            ended_us: 100,
        }
    }

    #[test]
    fn a_record_is_one_line_and_reads_back() {
        let about = About::Decision(Box::new(decision("alice")));
        let mut line = Vec::new();
        Entry::new(Timestamp::UNIX_EPOCH, about).write(7, &mut line);
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(value["record"], 7);
        assert_eq!(value["decision"]["box"], "alice");
        assert_eq!(value["decision"]["words"][0], "agent \"x\"");
        assert_eq!(value["decision"]["target"], "upstream:weather");
        assert_eq!(value["decision"]["refusal"], serde_json::Value::Null);
        assert!(line.starts_with(b"{\"record\":7,\"time\":\"1970-01-01T00:00:00Z\","));
    }
}
