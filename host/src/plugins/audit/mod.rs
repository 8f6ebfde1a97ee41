//! The audit of a component that nobody trusts yet: read, taken apart without
//! compiling it, then run under fuel on generated requests.
//!
//! It is given no secret, no network, no file and no clock, and needs no host.
//! What it looks for and how it judges stands in `rules/audit`.

mod decode;
mod features;
mod meter;
mod origin;
mod read;
mod run;

use std::path::Path;
use std::sync::Arc;

use crate::plugins::audit::meter::Meter;
use crate::plugins::audit::run::Runs;
use crate::plugins::engine::CallLimits;
use crate::plugins::error::{LoadError, PluginError};
use crate::plugins::hash::ComponentHash;
use crate::plugins::inspect::inspect;
use crate::plugins::wasi;
use crate::rules::audit::difference::{self, Apart, Difference};
use crate::rules::audit::finding::{Check, Findings};
use crate::rules::audit::imports;
use crate::rules::audit::requests::{self, Case};
use crate::rules::manifest::Manifest;

pub use decode::{Memory, Static};
pub use meter::{Function, Measured};
pub use origin::{Dependency, Producer};
pub use run::Behaviour;

/// How to audit.
#[derive(Debug, Clone)]
pub struct AuditSettings {
    /// What the generated requests are drawn from.
    pub seed: u64,
    /// How many are drawn for each route.
    pub count: u32,
    /// What the plugin is shown as the operator's settings, as JSON.
    pub settings: String,
    /// Requests beside the generated ones.
    pub requests: Vec<Case>,
}

/// Why a file cannot be audited at all.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// It cannot be read, or is no WebAssembly.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It is made of more than is decoded.
    #[error(
        "it has {count} {what}, and a component is decoded with at most {most}; no plugin needs so many"
    )]
    TooMany {
        /// What of.
        what: &'static str,
        /// How many there are, or how many had been seen.
        count: u64,
        /// The most.
        most: u64,
    },
    /// The engine for audits did not start.
    #[error(transparent)]
    Engine(#[from] PluginError),
    /// Our own fault.
    #[error("the audit failed inside jackfield: {0}")]
    Host(String),
}

/// What an audit brought.
#[derive(Debug)]
pub struct Report {
    /// The component.
    pub hash: ComponentHash,
    /// Its size in bytes.
    pub size: usize,
    /// What its bytes say.
    pub facts: Static,
    /// Why it fits no world of ours, where it does not.
    pub misfit: Option<String>,
    /// What it says it is, where that was accepted.
    pub manifest: Option<Arc<Manifest>>,
    /// What it did, where it could be run.
    pub behaviour: Option<Behaviour>,
    /// What was found.
    pub findings: Findings,
}

/// How two versions differ.
#[derive(Debug)]
pub struct Comparison {
    /// The component that the audited one is held against.
    pub old: ComponentHash,
    /// What they may do; none where one of them has no manifest.
    pub permissions: Option<Vec<Difference>>,
    /// On how many requests both were asked.
    pub asked: usize,
    /// On how many they decided differently.
    pub apart: usize,
    /// The first of those.
    pub examples: Vec<Apart>,
}

/// How many requests that are decided differently are shown.
const MOST_EXAMPLES: usize = 20;

/// A component that has been audited, ready to be asked again.
struct Audited {
    report: Report,
    runs: Option<Runs>,
    cases: Vec<Case>,
}

/// Audits a file.
///
/// # Errors
/// When it cannot be read, or is not made so that it could be taken apart.
pub async fn audit(file: &Path, settings: &AuditSettings) -> Result<Report, AuditError> {
    Ok(one(file, settings).await?.report)
}

/// Audits a file, and holds it against another version.
///
/// # Errors
/// As [`audit`], for either.
pub async fn audit_against(
    file: &Path,
    old: &Path,
    settings: &AuditSettings,
) -> Result<(Report, Comparison), AuditError> {
    let new = one(file, settings).await?;
    let old = one(old, settings).await?;
    let permissions = match (&old.report.manifest, &new.report.manifest) {
        (Some(before), Some(after)) => Some(difference::permissions(
            (before, &old.report.facts.imports),
            (after, &new.report.facts.imports),
        )),
        (_, _) => None,
    };
    let mut comparison = Comparison {
        old: old.report.hash,
        permissions,
        asked: 0,
        apart: 0,
        examples: Vec::new(),
    };
    if let (Some(before), Some(after)) = (&old.runs, &new.runs) {
        let mut cases = new.cases.clone();
        cases.extend(
            old.cases
                .iter()
                .filter(|case| !new.cases.contains(case))
                .cloned(),
        );
        let both = (before.clone(), after.clone());
        let outcomes = on_a_thread(async move { run::apart(both, cases).await }).await?;
        comparison.asked = outcomes.0;
        comparison.apart = outcomes.1.len();
        comparison.examples = outcomes.1;
        comparison.examples.truncate(MOST_EXAMPLES);
    }
    Ok((new.report, comparison))
}

async fn one(file: &Path, settings: &AuditSettings) -> Result<Audited, AuditError> {
    let bytes = read::read(file)?;
    let settings = settings.clone();
    on_a_thread(async move { examine(bytes, settings).await }).await?
}

/// What computes for long holds up no thread that others wait for.
async fn on_a_thread<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, AuditError> {
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || runtime.block_on(work))
        .await
        .map_err(|cause| AuditError::Host(cause.to_string()))
}

async fn examine(bytes: Vec<u8>, settings: AuditSettings) -> Result<Audited, AuditError> {
    let mut findings = Findings::default();
    let facts = decode::decode(&bytes, &mut findings)?;
    let misfit = fits(&bytes, &facts, &mut findings)?;
    let report = Report {
        hash: ComponentHash::of(&bytes),
        size: bytes.len(),
        facts,
        misfit,
        manifest: None,
        behaviour: None,
        findings,
    };
    let mut audited = Audited {
        report,
        runs: None,
        cases: Vec::new(),
    };
    if audited.report.misfit.is_none() {
        behave(&bytes, &settings, &mut audited).await?;
    }
    Ok(audited)
}

/// Whether it is a component of our world, in the loader's own judgement.
fn fits(
    bytes: &[u8],
    facts: &Static,
    findings: &mut Findings,
) -> Result<Option<String>, AuditError> {
    for import in &facts.imports {
        let means = imports::means(import);
        if wasi::is_inert(import) {
            let what = format!("{import}: it could {means}; the stub does nothing");
            findings.add(Check::InertImport, what, None);
        } else {
            let what = format!("{import}: it wants to {means}");
            findings.add(Check::ForeignImport, what, None);
        }
    }
    match inspect(bytes) {
        Ok(_) => Ok(None),
        Err(error @ LoadError::Import(_)) => Ok(Some(error.to_string())),
        Err(error @ (LoadError::CoreModule | LoadError::WitPackage | LoadError::World(_))) => {
            findings.add(Check::OtherWorld, error.to_string(), None);
            Ok(Some(error.to_string()))
        }
        Err(error) => Err(error.into()),
    }
}

async fn behave(
    bytes: &[u8],
    settings: &AuditSettings,
    audited: &mut Audited,
) -> Result<(), AuditError> {
    let report = &mut audited.report;
    let findings = &mut report.findings;
    let limits = CallLimits::default();
    let meter = match Meter::new(bytes, &report.facts.imports, limits)? {
        Ok(meter) => Arc::new(meter),
        Err(reason) => {
            findings.add(Check::DoesNotCompile, reason, None);
            return Ok(());
        }
    };
    let Some(manifest) = run::describe(&meter, findings).await else {
        return Ok(());
    };
    for what in imports::not_claimed(&report.facts.imports, &manifest) {
        findings.add(Check::ImportNotClaimed, what, None);
    }
    let manifest = Arc::new(manifest);
    let meter = Arc::new(meter.for_manifest(&manifest.limits));
    let largest = report
        .facts
        .memories
        .iter()
        .map(|memory| memory.initial)
        .sum::<u64>();
    if largest > meter.memory() as u64 {
        let what = format!(
            "its memories begin with {largest} bytes, and an instance may have {}",
            meter.memory()
        );
        findings.add(Check::MemoryBeyondLimit, what, None);
    }
    audited.cases = settings.requests.clone();
    audited.cases.extend(requests::cases(
        &manifest,
        &report.facts.hints,
        settings.seed,
        settings.count,
    ));
    let runs = Runs::new(meter, Arc::clone(&manifest), settings.settings.clone());
    report.behaviour = Some(runs.all(&audited.cases, findings).await);
    report.manifest = Some(manifest);
    audited.runs = Some(runs);
    Ok(())
}

#[cfg(test)]
mod tests;
