//! Counters: atomics over closed sets of labels, in the Prometheus text
//! format. No label comes from a request.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::telemetry::request::{Outcome, RequestEnd};

/// The upper bounds of the duration buckets, in milliseconds.
const BUCKETS: [u64; 10] = [1, 5, 20, 100, 500, 2_000, 10_000, 60_000, 300_000, 900_000];

/// The words of refusals, as `RefusalKind::label` says them.
const REFUSALS: [&str; 13] = [
    "invalid_request_error",
    "permission_error",
    "not_found_error",
    "method_not_allowed",
    "conflict_error",
    "request_too_large",
    "rate_limit_error",
    "upstream_error",
    "plugin_error",
    "unavailable_error",
    "timeout_error",
    "api_error",
    "plugin_refusal",
];

/// How a plugin failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PluginFault {
    /// It trapped.
    Trap,
    /// It computed for too long.
    Time,
    /// It wanted too much memory.
    Memory,
    /// What it was given or gave was too large.
    Size,
    /// No instance was free.
    Busy,
    /// What it said did not hold.
    Nonsense,
}

impl PluginFault {
    const ALL: [Self; 6] = [
        Self::Trap,
        Self::Time,
        Self::Memory,
        Self::Size,
        Self::Busy,
        Self::Nonsense,
    ];

    /// The word in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::Time => "time",
            Self::Memory => "memory",
            Self::Size => "size",
            Self::Busy => "busy",
            Self::Nonsense => "nonsense",
        }
    }
}

/// Whose limit it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// A box's, at all plugins or at one.
    Box,
    /// A plugin's, over all boxes.
    Plugin,
    /// The host's, over everything.
    Host,
}

impl Scope {
    /// The word in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Box => "box",
            Self::Plugin => "plugin",
            Self::Host => "host",
        }
    }
}

/// A limit that a request would have passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Requests of one box in flight.
    RequestsPerBox,
    /// Requests of one plugin in flight.
    RequestsPerPlugin,
    /// Bytes held in memory for one box.
    BufferedBytesPerBox,
    /// Bytes held in memory for one plugin.
    BufferedBytesPerPlugin,
    /// Bytes held in memory.
    BufferedBytes,
    /// Instances of one plugin that are asked for one box.
    InstancesPerBox,
    /// Instances of one plugin, or of all.
    InstancesPerPlugin,
    /// Requests of one box on which one plugin failed, in a minute.
    FailuresPerBox,
    /// Bytes of one plugin's lines in the log for one box.
    LogBytesPerBox,
    /// Bytes of one plugin's lines in the log.
    LogBytesPerPlugin,
    /// Bytes of one plugin's keep for one box.
    KeepBytes,
    /// Keys of one plugin's keep for one box.
    KeepKeys,
    /// Bytes of one plugin's journal that were noted for one box.
    JournalBytesPerBox,
    /// Bytes of one plugin's journal.
    JournalBytes,
}

impl Limit {
    const ALL: [Self; 14] = [
        Self::RequestsPerBox,
        Self::RequestsPerPlugin,
        Self::BufferedBytesPerBox,
        Self::BufferedBytesPerPlugin,
        Self::BufferedBytes,
        Self::InstancesPerBox,
        Self::InstancesPerPlugin,
        Self::FailuresPerBox,
        Self::LogBytesPerBox,
        Self::LogBytesPerPlugin,
        Self::KeepBytes,
        Self::KeepKeys,
        Self::JournalBytesPerBox,
        Self::JournalBytes,
    ];

    /// The word in metrics: the limit's name in the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RequestsPerBox => "requests_per_box",
            Self::RequestsPerPlugin => "requests_per_plugin",
            Self::BufferedBytesPerBox => "buffered_bytes_per_box",
            Self::BufferedBytesPerPlugin => "buffered_bytes_per_plugin",
            Self::BufferedBytes => "buffered_bytes",
            Self::InstancesPerBox => "instances_per_box",
            Self::InstancesPerPlugin => "instances_per_plugin",
            Self::FailuresPerBox => "failures_per_box",
            Self::LogBytesPerBox => "log_bytes_per_box",
            Self::LogBytesPerPlugin => "log_bytes_per_plugin",
            Self::KeepBytes => "keep_bytes_per_box",
            Self::KeepKeys => "keep_keys_per_box",
            Self::JournalBytesPerBox => "journal_bytes_per_box",
            Self::JournalBytes => "journal_bytes",
        }
    }

    /// Whose it is.
    #[must_use]
    pub fn scope(self) -> Scope {
        match self {
            Self::RequestsPerBox
            | Self::BufferedBytesPerBox
            | Self::InstancesPerBox
            | Self::FailuresPerBox
            | Self::LogBytesPerBox
            | Self::KeepBytes
            | Self::KeepKeys
            | Self::JournalBytesPerBox => Scope::Box,
            Self::RequestsPerPlugin
            | Self::BufferedBytesPerPlugin
            | Self::InstancesPerPlugin
            | Self::LogBytesPerPlugin
            | Self::JournalBytes => Scope::Plugin,
            Self::BufferedBytes => Scope::Host,
        }
    }
}

/// The host's counters.
#[derive(Debug, Default)]
pub struct Metrics {
    outcomes: [AtomicU64; 6],
    refusals: [AtomicU64; 13],
    faults: [AtomicU64; 6],
    limits: [AtomicU64; 14],
    buckets: [AtomicU64; 10],
    duration_sum: AtomicU64,
    in_flight: AtomicU64,
    connections: Arc<AtomicU64>,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    decisions: AtomicU64,
    decisions_lost: AtomicU64,
    decision_bytes: AtomicU64,
    inputs_lost: AtomicU64,
}

/// A request in flight, counted for as long as this lives.
#[derive(Debug)]
pub struct InFlight(Arc<Metrics>);

impl Metrics {
    /// Counters, with the listener's own count of its connections.
    #[must_use]
    pub fn with_connections(connections: Arc<AtomicU64>) -> Self {
        Self {
            connections,
            ..Self::default()
        }
    }

    /// Counts a request in.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    /// Counts a plugin's failure.
    pub fn plugin_failed(&self, fault: PluginFault) {
        add(PluginFault::ALL.iter().zip(&self.faults), |known| {
            *known == fault
        });
    }

    /// Counts a request that a limit refused.
    pub fn limit_refused(&self, limit: Limit) {
        add(Limit::ALL.iter().zip(&self.limits), |known| *known == limit);
    }

    /// Counts records that the decision log has taken, and their bytes.
    pub fn decisions_kept(&self, records: u64, bytes: u64) {
        self.decisions.fetch_add(records, Ordering::Relaxed);
        self.decision_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts records that the decision log has not taken.
    pub fn decisions_lost(&self, records: u64) {
        self.decisions_lost.fetch_add(records, Ordering::Relaxed);
    }

    /// Counts a decision whose inputs should have been recorded, and were not.
    pub fn inputs_lost(&self) {
        self.inputs_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that has ended.
    pub(super) fn count(&self, end: &RequestEnd<'_>) {
        add(Outcome::ALL.iter().zip(&self.outcomes), |known| {
            *known == end.outcome
        });
        if let Some(kind) = end.refusal {
            add(REFUSALS.iter().zip(&self.refusals), |known| {
                *known == kind.label()
            });
        }
        let milliseconds = u64::try_from(end.duration.as_millis()).unwrap_or(u64::MAX);
        add(BUCKETS.iter().zip(&self.buckets), |bound| {
            milliseconds <= *bound
        });
        self.duration_sum.fetch_add(milliseconds, Ordering::Relaxed);
        self.bytes_in.fetch_add(end.bytes_in, Ordering::Relaxed);
        self.bytes_out.fetch_add(end.bytes_out, Ordering::Relaxed);
    }

    /// The Prometheus text format.
    #[must_use]
    pub fn render(&self) -> String {
        let mut page = Page(String::new());
        page.head(
            "jackfield_requests_total",
            "counter",
            "Requests that ended, by outcome.",
        );
        for (outcome, counter) in Outcome::ALL.iter().zip(&self.outcomes) {
            page.line(
                "jackfield_requests_total",
                Some(("outcome", outcome.as_str())),
                read(counter),
            );
        }
        page.head("jackfield_refusals_total", "counter", "Refusals, by type.");
        for (kind, counter) in REFUSALS.iter().zip(&self.refusals) {
            page.line(
                "jackfield_refusals_total",
                Some(("type", kind)),
                read(counter),
            );
        }
        page.head(
            "jackfield_plugin_faults_total",
            "counter",
            "Failures of plugins, by cause.",
        );
        for (fault, counter) in PluginFault::ALL.iter().zip(&self.faults) {
            page.line(
                "jackfield_plugin_faults_total",
                Some(("cause", fault.as_str())),
                read(counter),
            );
        }
        page.head(
            "jackfield_limit_refusals_total",
            "counter",
            "Requests that a limit refused, by limit and by whose it is.",
        );
        for (limit, counter) in Limit::ALL.iter().zip(&self.limits) {
            page.labelled(
                "jackfield_limit_refusals_total",
                &[("limit", limit.as_str()), ("scope", limit.scope().as_str())],
                read(counter),
            );
        }
        self.render_durations(&mut page);
        let rest = [
            (
                "jackfield_requests_in_flight",
                "gauge",
                "Requests in flight.",
                &self.in_flight,
            ),
            (
                "jackfield_connections_open",
                "gauge",
                "Connections of boxes, used or not.",
                &self.connections,
            ),
            (
                "jackfield_request_bytes_total",
                "counter",
                "Bytes of requests' bodies.",
                &self.bytes_in,
            ),
            (
                "jackfield_response_bytes_total",
                "counter",
                "Bytes of answers' bodies.",
                &self.bytes_out,
            ),
            (
                "jackfield_decision_log_records_total",
                "counter",
                "Records in the decision log.",
                &self.decisions,
            ),
            (
                "jackfield_decision_log_lost_total",
                "counter",
                "Decisions that the decision log could not take.",
                &self.decisions_lost,
            ),
            (
                "jackfield_decision_log_bytes_total",
                "counter",
                "Bytes written to the decision log.",
                &self.decision_bytes,
            ),
            (
                "jackfield_decision_inputs_lost_total",
                "counter",
                "Decisions whose inputs could not be recorded.",
                &self.inputs_lost,
            ),
        ];
        for (name, sort, help, counter) in rest {
            page.head(name, sort, help);
            page.line(name, None, read(counter));
        }
        page.0
    }

    fn render_durations(&self, page: &mut Page) {
        let name = "jackfield_request_milliseconds";
        page.head(
            name,
            "histogram",
            "From a request's head to the end of its answer.",
        );
        let mut below = 0;
        for (bound, counter) in BUCKETS.iter().zip(&self.buckets) {
            below += read(counter);
            page.line(
                &format!("{name}_bucket"),
                Some(("le", &bound.to_string())),
                below,
            );
        }
        let all = self.outcomes.iter().map(read).sum();
        page.line(&format!("{name}_bucket"), Some(("le", "+Inf")), all);
        page.line(&format!("{name}_sum"), None, read(&self.duration_sum));
        page.line(&format!("{name}_count"), None, all);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, sort: &str, help: &str) {
        // Writing to a string cannot fail.
        let _infallible = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {sort}\n");
    }

    fn line(&mut self, name: &str, label: Option<(&str, &str)>, value: u64) {
        self.labelled(name, label.as_slice(), value);
    }

    fn labelled(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(key, word)| format!("{key}=\"{word}\""))
            .collect();
        let labels = match labels.as_slice() {
            [] => String::new(),
            labels => format!("{{{}}}", labels.join(",")),
        };
        let _infallible = writeln!(self.0, "{name}{labels} {value}");
    }
}

/// Adds one to the first counter whose label fits.
fn add<'a, T>(mut counters: impl Iterator<Item = (T, &'a AtomicU64)>, fits: impl Fn(T) -> bool)
where
    T: Copy,
{
    if let Some((_, counter)) = counters.find(|(label, _)| fits(*label)) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{Method, StatusCode};

    use crate::rules::refusal::RefusalKind;
    use crate::telemetry::{MethodLabel, Protocol, end_request};

    use super::*;

    #[test]
    fn a_request_is_counted_once_under_each_label() {
        let metrics = Arc::new(Metrics::default());
        let guard = metrics.begin();
        assert!(
            metrics
                .render()
                .contains("jackfield_requests_in_flight 1\n")
        );
        drop(guard);
        let refusal = RefusalKind::Said("anything a plugin writes".to_owned());
        let end = RequestEnd {
            protocol: Protocol::Chant,
            method: MethodLabel::of(&Method::GET),
            box_name: None,
            plugin: None,
            target: None,
            outcome: Outcome::Refuse,
            status: Some(StatusCode::FORBIDDEN),
            refusal: Some(&refusal),
            duration: Duration::from_millis(7),
            bytes_in: 3,
            bytes_out: 5,
            cause: None,
        };
        end_request(&metrics, &end);
        metrics.plugin_failed(PluginFault::Busy);
        metrics.limit_refused(Limit::KeepKeys);
        metrics.limit_refused(Limit::JournalBytesPerBox);
        metrics.limit_refused(Limit::JournalBytes);
        metrics.decisions_kept(2, 300);
        metrics.decisions_lost(4);
        let text = metrics.render();
        for line in [
            "jackfield_requests_total{outcome=\"refuse\"} 1",
            "jackfield_requests_total{outcome=\"forward\"} 0",
            "jackfield_refusals_total{type=\"plugin_refusal\"} 1",
            "jackfield_plugin_faults_total{cause=\"busy\"} 1",
            "jackfield_limit_refusals_total{limit=\"keep_keys_per_box\",scope=\"box\"} 1",
            "jackfield_limit_refusals_total{limit=\"journal_bytes_per_box\",scope=\"box\"} 1",
            "jackfield_limit_refusals_total{limit=\"journal_bytes\",scope=\"plugin\"} 1",
            "jackfield_request_milliseconds_bucket{le=\"5\"} 0",
            "jackfield_request_milliseconds_bucket{le=\"20\"} 1",
            "jackfield_request_milliseconds_bucket{le=\"+Inf\"} 1",
            "jackfield_request_milliseconds_sum 7",
            "jackfield_requests_in_flight 0",
            "jackfield_request_bytes_total 3",
            "jackfield_response_bytes_total 5",
            "jackfield_decision_log_records_total 2",
            "jackfield_decision_log_bytes_total 300",
            "jackfield_decision_log_lost_total 4",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line}\n{text}");
        }
        assert!(!text.contains("anything"), "{text}");
    }

    #[test]
    fn every_sort_of_refusal_has_a_counter() {
        let kinds = [
            RefusalKind::InvalidRequest,
            RefusalKind::Permission,
            RefusalKind::NotFound,
            RefusalKind::MethodNotAllowed,
            RefusalKind::Conflict,
            RefusalKind::TooLarge,
            RefusalKind::RateLimit,
            RefusalKind::Upstream,
            RefusalKind::Plugin,
            RefusalKind::Unavailable,
            RefusalKind::Timeout,
            RefusalKind::Internal,
            RefusalKind::Said(String::new()),
        ];
        for kind in &kinds {
            assert!(REFUSALS.contains(&kind.label()), "{kind:?}");
        }
    }
}
