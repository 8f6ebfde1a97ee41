//! The checks, in the order of the protocol's page, then those of each
//! `--extra`, and at last the one over the whole run.

mod decide;
mod declaration;
mod egress;
mod extra;
mod feedback;
mod fountain;
mod inference;
mod isolation;
mod payer;

use futures_util::future::LocalBoxFuture;

use crate::conformance::run::Run;
use crate::conformance::{Capability, Settings};

use extra::ExtraProbe;

/// A check of the page's table.
struct Check {
    id: &'static str,
    title: &'static str,
    ask: for<'run> fn(&'run mut Run) -> LocalBoxFuture<'run, ()>,
}

/// A check that is to be run, or to be told as skipped.
pub(super) struct Planned {
    pub(super) id: String,
    pub(super) about: String,
    pub(super) title: String,
    pub(super) skip: Option<String>,
    pub(super) probe: Probe,
}

/// How a check asks.
pub(super) enum Probe {
    /// A check of the table.
    Standard(for<'run> fn(&'run mut Run) -> LocalBoxFuture<'run, ()>),
    /// One of an `--extra`.
    Extra(Box<ExtraProbe>),
}

impl Probe {
    pub(super) async fn ask(&self, run: &mut Run) {
        match self {
            Self::Standard(ask) => ask(run).await,
            Self::Extra(probe) => probe.ask(run).await,
        }
    }
}

/// Everything that a run does.
pub(super) fn plan(settings: &Settings) -> Vec<Planned> {
    let skipped = |capability: Capability| {
        let served = settings.capabilities.contains(&capability);
        (!served).then(|| format!("the broker does not serve {}", capability.name()))
    };
    let of = |capability: Capability, checks: &[Check]| -> Vec<Planned> {
        let checks = checks.iter();
        checks
            .map(|check| standard(check, capability.name(), skipped(capability)))
            .collect()
    };
    let always = |about: &str, checks: &[Check]| -> Vec<Planned> {
        let checks = checks.iter();
        checks.map(|check| standard(check, about, None)).collect()
    };
    let mut planned = always("declaration", &declaration::CHECKS);
    planned.extend(of(Capability::Inference, &inference::CHECKS));
    planned.extend(of(Capability::Inference, &decide::CHECKS));
    planned.extend(of(Capability::Egress, &egress::CHECKS));
    planned.extend(of(Capability::Feedback, &feedback::CHECKS));
    planned.extend(of(Capability::Fountain, &fountain::CHECKS));
    planned.extend(of(Capability::Inference, &payer::CHECKS));
    planned.extend(settings.extras.iter().flat_map(extra::plan));
    planned.extend(always("all", &isolation::CHECKS));
    planned
}

fn standard(check: &Check, about: &str, skip: Option<String>) -> Planned {
    Planned {
        id: check.id.to_owned(),
        about: about.to_owned(),
        title: check.title.to_owned(),
        skip,
        probe: Probe::Standard(check.ask),
    }
}
