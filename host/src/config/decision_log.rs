//! `[decision_log]`: whether one is kept, and what bounds it.

use std::time::Duration;

use crate::config::check::choice;
use crate::config::error::Fault;
use crate::config::limits::within;
use crate::config::raw::RawDecisionLog;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// How the decision log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionLogConfig {
    /// Whether, and what becomes of requests while it cannot be written.
    pub mode: DecisionLogMode,
    /// A segment that is as large is followed by another.
    pub segment_bytes: u64,
    /// How many segments are kept.
    pub segments: u64,
    /// How many records may wait to be written.
    pub queue_records: u64,
    /// How often the head is signed.
    pub sign: Duration,
    /// What the recorded inputs of all plugins take.
    pub inputs_bytes: u64,
}

/// Whether decisions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DecisionLogMode {
    /// They are not.
    #[default]
    Off,
    /// While they cannot be, requests are served.
    BestEffort,
    /// While they cannot be, requests are refused.
    Must,
}

pub(super) fn check(raw: &RawDecisionLog) -> Result<DecisionLogConfig, Fault> {
    let modes = [
        ("off", DecisionLogMode::Off),
        ("best-effort", DecisionLogMode::BestEffort),
        ("must", DecisionLogMode::Must),
    ];
    Ok(DecisionLogConfig {
        mode: choice("mode", &raw.mode, &modes)?.unwrap_or_default(),
        segment_bytes: within(
            "segment_bytes",
            &raw.segment_bytes,
            64 * MIB,
            4 * KIB,
            1024 * MIB,
        )?,
        segments: within("segments", &raw.segments, 16, 2, 100_000)?,
        queue_records: within("queue_records", &raw.queue_records, 65_536, 16, 4 * MIB)?,
        sign: within("sign_seconds", &raw.sign_seconds, 10, 1, 86_400).map(Duration::from_secs)?,
        inputs_bytes: within(
            "inputs_bytes",
            &raw.inputs_bytes,
            256 * MIB,
            MIB,
            1024 * 1024 * MIB,
        )?,
    })
}
