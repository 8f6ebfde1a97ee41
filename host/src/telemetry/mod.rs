//! What an operator can see: the log, one event that ends each request, and
//! counters. Fields come from closed enums and parsed names, never from
//! bodies, header values, paths or queries.

mod metrics;
mod request;

use std::io::IsTerminal;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::config::{LogConfig, LogFormat, LogLevel};

pub use metrics::{InFlight, Limit, Metrics, PluginFault, Scope};
pub use request::{MethodLabel, Outcome, Protocol, RequestEnd, end_request};

/// Starts the log: to standard error, at the level and in the shape that the
/// configuration says. The environment is not read.
///
/// # Errors
/// When a log was started before.
pub fn start(config: LogConfig) -> Result<(), TryInitError> {
    let (own, others) = levels(config.level);
    // Libraries speak of single frames and headers at their lower levels; what
    // they say there is neither ours to vouch for nor free of values.
    let filter = Targets::new()
        .with_target("jackfield", own)
        .with_default(others);
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let registry = tracing_subscriber::registry().with(filter);
    match config.format {
        LogFormat::Text => registry.with(lines.with_target(false)).try_init(),
        LogFormat::Json => registry.with(lines.json().flatten_event(true)).try_init(),
    }
}

fn levels(level: LogLevel) -> (LevelFilter, LevelFilter) {
    match level {
        LogLevel::Error => (LevelFilter::ERROR, LevelFilter::ERROR),
        LogLevel::Warn => (LevelFilter::WARN, LevelFilter::WARN),
        LogLevel::Info => (LevelFilter::INFO, LevelFilter::WARN),
        LogLevel::Debug => (LevelFilter::DEBUG, LevelFilter::WARN),
        LogLevel::Trace => (LevelFilter::TRACE, LevelFilter::WARN),
    }
}
