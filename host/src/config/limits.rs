//! `[limits]`: each with its default and the range it must fit.

use std::time::Duration;

use crate::config::WatchConfig;
use crate::config::error::Fault;
use crate::config::raw::{Placed, RawLimits, RawWatch};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// What no box, plugin or upstream may exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long a body may stand still, in either direction.
    pub idle: Duration,
    /// How long a body that is read whole may take to arrive.
    pub body: Duration,
    /// How long connecting to an upstream may take, TLS included.
    pub connect: Duration,
    /// How long a request's head may take to arrive.
    pub head: Duration,
    /// How long requests in flight may take to end after a SIGTERM.
    pub drain: Duration,
    /// Open connections of boxes.
    pub max_connections: usize,
    /// A request's head.
    pub head_bytes: usize,
    /// A body that is buffered for a plugin, whatever its manifest asks for.
    pub buffered_body_bytes: usize,
    /// Requests of one box in flight.
    pub requests_per_box: usize,
    /// Requests of one plugin in flight.
    pub requests_per_plugin: usize,
    /// What is held in memory for one box.
    pub buffered_bytes_per_box: usize,
    /// What is held in memory for the requests of one plugin.
    pub buffered_bytes_per_plugin: usize,
    /// What is held in memory in all.
    pub buffered_bytes: usize,
    /// How long the calls of one `need` may take.
    pub call: Duration,
    /// The answer of one call.
    pub call_bytes: usize,
    /// Calls in one `need`.
    pub calls: u32,
    /// How often a decision may answer `need`.
    pub rounds: u32,
    /// What one plugin keeps for one box, in bytes of keys and values.
    pub keep_bytes_per_box: usize,
    /// What one plugin keeps for one box, in keys.
    pub keep_keys_per_box: usize,
    /// What one plugin's journal holds, in bytes.
    pub journal_bytes: u64,
    /// What one plugin's journal holds of one box, in bytes.
    pub journal_bytes_per_box: u64,
    /// How often one plugin may fail on one box's requests in a minute.
    pub failures_per_box: u64,
    /// What one plugin says to the log for one box in a minute.
    pub log_bytes_per_box: u64,
    /// What one plugin says to the log in a minute.
    pub log_bytes_per_plugin: u64,
    /// The most computing time for one call that a plugin may ask for.
    pub plugin_time: Duration,
    /// The most memory for one instance that a plugin may ask for.
    pub plugin_memory_bytes: usize,
    /// Instances of plugins at one time.
    pub plugin_instances: u32,
    /// Instances of one plugin at one time.
    pub instances_per_plugin: u32,
    /// Instances of one plugin that are asked for one box at one time.
    pub instances_per_box: u32,
}

pub(super) fn check(raw: &RawLimits) -> Result<Limits, Fault> {
    let seconds =
        |key, value, default, most| within(key, value, default, 1, most).map(Duration::from_secs);
    let buffered_body_bytes = size(
        "buffered_body_bytes",
        &raw.buffered_body_bytes,
        MIB,
        KIB,
        64 * MIB,
    )?;
    let call_bytes = size("call_bytes", &raw.call_bytes, 4 * MIB, KIB, 64 * MIB)?;
    let buffered = buffered(raw, buffered_body_bytes.max(call_bytes) as u64)?;
    let instances = instances(raw)?;
    let log = log(raw)?;
    let journal = journal(raw)?;
    Ok(Limits {
        idle: seconds("idle_seconds", &raw.idle_seconds, 900, 86_400)?,
        body: seconds("body_seconds", &raw.body_seconds, 60, 86_400)?,
        connect: seconds("connect_seconds", &raw.connect_seconds, 10, 600)?,
        head: seconds("head_seconds", &raw.head_seconds, 10, 600)?,
        drain: seconds("drain_seconds", &raw.drain_seconds, 30, 86_400)?,
        max_connections: size(
            "max_connections",
            &raw.max_connections,
            12_288,
            1,
            1_000_000,
        )?,
        head_bytes: size("head_bytes", &raw.head_bytes, 64 * KIB, 8 * KIB, MIB)?,
        buffered_body_bytes,
        requests_per_box: size("requests_per_box", &raw.requests_per_box, 512, 1, 1_000_000)?,
        requests_per_plugin: size(
            "requests_per_plugin",
            &raw.requests_per_plugin,
            8192,
            1,
            1_000_000,
        )?,
        buffered_bytes_per_box: buffered.per_box,
        buffered_bytes_per_plugin: buffered.per_plugin,
        buffered_bytes: buffered.all,
        call: seconds("call_seconds", &raw.call_seconds, 600, 86_400)?,
        call_bytes,
        calls: small("calls", &raw.calls, 64, 0, 64)?,
        rounds: small("rounds", &raw.rounds, 4, 0, 64)?,
        keep_bytes_per_box: size(
            "keep_bytes_per_box",
            &raw.keep_bytes_per_box,
            4 * MIB,
            0,
            1024 * MIB,
        )?,
        keep_keys_per_box: size(
            "keep_keys_per_box",
            &raw.keep_keys_per_box,
            4096,
            0,
            1_000_000,
        )?,
        failures_per_box: within("failures_per_box", &raw.failures_per_box, 120, 1, 1_000_000)?,
        journal_bytes: journal.0,
        journal_bytes_per_box: journal.1,
        log_bytes_per_box: log.0,
        log_bytes_per_plugin: log.1,
        plugin_time: within(
            "plugin_milliseconds",
            &raw.plugin_milliseconds,
            2_000,
            1,
            60_000,
        )
        .map(Duration::from_millis)?,
        plugin_memory_bytes: size(
            "plugin_memory_bytes",
            &raw.plugin_memory_bytes,
            64 * MIB,
            128 * KIB,
            1024 * MIB,
        )?,
        plugin_instances: instances.all,
        instances_per_plugin: instances.per_plugin,
        instances_per_box: instances.per_box,
    })
}

/// How a version is watched that has just gone live.
pub(super) fn watch(raw: &RawWatch) -> Result<WatchConfig, Fault> {
    let seconds = within("seconds of [watch]", &raw.seconds, 600, 0, 86_400)?;
    Ok(WatchConfig {
        window: Duration::from_secs(seconds),
        boxes: size("boxes of [watch]", &raw.boxes, 3, 1, 1_000_000)?,
    })
}

/// Three limits, each of which lies within the next.
struct Nested<T> {
    per_box: T,
    per_plugin: T,
    all: T,
}

/// What is held in memory. A box holds no more of what is shared than it leaves
/// free, so what is shared is at least twice as much; and the largest thing that
/// is ever held fits.
fn buffered(raw: &RawLimits, largest: u64) -> Result<Nested<usize>, Fault> {
    const MOST: u64 = 1024 * 1024 * MIB;
    let per_box = within(
        "buffered_bytes_per_box",
        &raw.buffered_bytes_per_box,
        (16 * MIB).max(largest),
        largest,
        MOST,
    )?;
    let twice = per_box.saturating_mul(2);
    let per_plugin = within(
        "buffered_bytes_per_plugin",
        &raw.buffered_bytes_per_plugin,
        (128 * MIB).max(twice),
        twice,
        MOST.saturating_mul(2),
    )?;
    let all = within(
        "buffered_bytes",
        &raw.buffered_bytes,
        (512 * MIB).max(per_plugin),
        per_plugin,
        MOST.saturating_mul(4),
    )?;
    let size = |number| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(Nested {
        per_box: size(per_box),
        per_plugin: size(per_plugin),
        all: size(all),
    })
}

/// No plugin takes more than half of the instances from the others, and no box
/// more than a quarter of a plugin's, unless the operator says so.
fn instances(raw: &RawLimits) -> Result<Nested<u32>, Fault> {
    let all = small("plugin_instances", &raw.plugin_instances, 64, 1, 10_000)?;
    let per_plugin = small(
        "instances_per_plugin",
        &raw.instances_per_plugin,
        all.div_ceil(2).into(),
        1,
        all.into(),
    )?;
    let per_box = small(
        "instances_per_box",
        &raw.instances_per_box,
        per_plugin.div_ceil(4).into(),
        1,
        per_plugin.into(),
    )?;
    Ok(Nested {
        per_box,
        per_plugin,
        all,
    })
}

/// What a plugin's journal holds in all, and of one box: a quarter, unless the
/// operator says so, so that no box keeps the others' records out.
fn journal(raw: &RawLimits) -> Result<(u64, u64), Fault> {
    const MOST: u64 = 1024 * 1024 * MIB;
    let all = within("journal_bytes", &raw.journal_bytes, 256 * MIB, 0, MOST)?;
    let per_box = within(
        "journal_bytes_per_box",
        &raw.journal_bytes_per_box,
        all.div_ceil(4),
        0,
        all,
    )?;
    Ok((all, per_box))
}

/// What plugins say to the log, for one box and in all.
fn log(raw: &RawLimits) -> Result<(u64, u64), Fault> {
    const MOST: u64 = 1024 * MIB;
    let per_box = within("log_bytes_per_box", &raw.log_bytes_per_box, MIB, KIB, MOST)?;
    let per_plugin = within(
        "log_bytes_per_plugin",
        &raw.log_bytes_per_plugin,
        (16 * MIB).max(per_box),
        per_box,
        MOST,
    )?;
    Ok((per_box, per_plugin))
}

fn size(
    key: &str,
    value: &Placed<u64>,
    default: u64,
    least: u64,
    most: u64,
) -> Result<usize, Fault> {
    within(key, value, default, least, most)
        .map(|number| usize::try_from(number).unwrap_or(usize::MAX))
}

fn small(
    key: &str,
    value: &Placed<u64>,
    default: u64,
    least: u64,
    most: u64,
) -> Result<u32, Fault> {
    within(key, value, default, least, most).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

pub(super) fn within(
    key: &str,
    value: &Placed<u64>,
    default: u64,
    least: u64,
    most: u64,
) -> Result<u64, Fault> {
    let Some(placed) = value else {
        return Ok(default);
    };
    let number = *placed.get_ref();
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    Err(Fault::new(
        placed.span(),
        format!("{key} must be {least} to {most}, not {number}"),
    ))
}
