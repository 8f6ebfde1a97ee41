//! The shape of `jackfield.toml` as it is written: every key optional, every
//! value with its place in the text, and nothing believed yet.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use crate::config::error::Fault;

/// A value and where it stands.
pub(super) type Placed<T> = Option<Spanned<T>>;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawConfig {
    pub(super) broker: Placed<String>,
    pub(super) listen: Placed<String>,
    pub(super) public_url: Placed<String>,
    pub(super) state_dir: Placed<String>,
    pub(super) plugins_dir: Placed<String>,
    pub(super) token_headers: Option<Vec<Spanned<String>>>,
    pub(super) tls: Placed<RawTls>,
    pub(super) upstreams: BTreeMap<Spanned<String>, RawUpstream>,
    pub(super) plugins: BTreeMap<Spanned<String>, RawPlugin>,
    pub(super) limits: RawLimits,
    pub(super) watch: RawWatch,
    pub(super) log: RawLog,
    pub(super) decision_log: RawDecisionLog,
    pub(super) env: BTreeMap<Spanned<String>, Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTls {
    pub(super) cert: Placed<String>,
    pub(super) key: Placed<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawUpstream {
    pub(super) url: Placed<String>,
    pub(super) allow_private: bool,
    pub(super) extra_ca: Placed<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawPlugin {
    pub(super) grant: Option<Vec<Spanned<String>>>,
    pub(super) settings: Placed<toml::Table>,
    pub(super) trusted_keys: Option<Vec<Spanned<String>>>,
    pub(super) require_signature: Placed<bool>,
    pub(super) record: Placed<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawLimits {
    pub(super) idle_seconds: Placed<u64>,
    pub(super) body_seconds: Placed<u64>,
    pub(super) connect_seconds: Placed<u64>,
    pub(super) head_seconds: Placed<u64>,
    pub(super) drain_seconds: Placed<u64>,
    pub(super) max_connections: Placed<u64>,
    pub(super) head_bytes: Placed<u64>,
    pub(super) buffered_body_bytes: Placed<u64>,
    pub(super) requests_per_box: Placed<u64>,
    pub(super) requests_per_plugin: Placed<u64>,
    pub(super) buffered_bytes_per_box: Placed<u64>,
    pub(super) buffered_bytes_per_plugin: Placed<u64>,
    pub(super) buffered_bytes: Placed<u64>,
    pub(super) failures_per_box: Placed<u64>,
    pub(super) log_bytes_per_box: Placed<u64>,
    pub(super) log_bytes_per_plugin: Placed<u64>,
    pub(super) call_seconds: Placed<u64>,
    pub(super) call_bytes: Placed<u64>,
    pub(super) calls: Placed<u64>,
    pub(super) rounds: Placed<u64>,
    pub(super) keep_bytes_per_box: Placed<u64>,
    pub(super) keep_keys_per_box: Placed<u64>,
    pub(super) journal_bytes: Placed<u64>,
    pub(super) journal_bytes_per_box: Placed<u64>,
    pub(super) plugin_milliseconds: Placed<u64>,
    pub(super) plugin_memory_bytes: Placed<u64>,
    pub(super) plugin_instances: Placed<u64>,
    pub(super) instances_per_plugin: Placed<u64>,
    pub(super) instances_per_box: Placed<u64>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawWatch {
    pub(super) seconds: Placed<u64>,
    pub(super) boxes: Placed<u64>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawLog {
    pub(super) level: Placed<String>,
    pub(super) format: Placed<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawDecisionLog {
    pub(super) mode: Placed<String>,
    pub(super) segment_bytes: Placed<u64>,
    pub(super) segments: Placed<u64>,
    pub(super) queue_records: Placed<u64>,
    pub(super) sign_seconds: Placed<u64>,
    pub(super) inputs_bytes: Placed<u64>,
}

impl RawConfig {
    pub(super) fn read(text: &str) -> Result<Self, Fault> {
        toml::from_str(text).map_err(|error| Fault {
            span: error.span(),
            message: explain(error.message()),
        })
    }
}

/// Turns serde's words about an unknown key into ours, with a guess at what
/// was meant; every other message stays as it is.
fn explain(message: &str) -> String {
    let Some(rest) = message.strip_prefix("unknown field `") else {
        return message.to_owned();
    };
    // The known keys stand in back quotes too, after the unknown one.
    let mut quoted = rest.split('`').step_by(2);
    let key = quoted.next().unwrap_or_default();
    let known: Vec<&str> = quoted.filter(|known| !known.is_empty()).collect();
    match nearest(key, &known) {
        Some(near) => format!("unknown key `{key}`; did you mean `{near}`?"),
        None => format!("unknown key `{key}`; known here: {}", known.join(", ")),
    }
}

/// The candidate that a slip of the finger turns into `text`.
pub(super) fn nearest<'a>(text: &str, candidates: &[&'a str]) -> Option<&'a str> {
    candidates
        .iter()
        .map(|candidate| (distance(text, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 4)
        .min()
        .map(|(_, candidate)| candidate)
}

/// How many letters must be added, dropped or changed.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, from) in left.chars().enumerate() {
        let mut next = vec![index + 1];
        for ((to, diagonal), above) in right.iter().zip(&row).zip(row.iter().skip(1)) {
            let change = diagonal + usize::from(from != *to);
            let before = next.last().copied().unwrap_or(usize::MAX - 1);
            next.push(change.min(above + 1).min(before + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}
