//! Asking a component: each request twice in fresh instances and once in one
//! that has been asked before, and what its answers show.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::plugins::audit::meter::{self, Function, Live, Measured, Measures, Meter, Stop, Why};
use crate::rules::audit::decision;
use crate::rules::audit::difference::Apart;
use crate::rules::audit::finding::{Check, Findings};
use crate::rules::audit::requests::{self, Case};
use crate::rules::audit::strings;
use crate::rules::audit::trial::{Next, Stand, Trial, Wrong, shown_unclaimed};
use crate::rules::manifest::{Manifest, WordName};
use crate::rules::manifest_check::SaidManifest;
use crate::rules::names::SecretName;
use crate::rules::permission::Grants;
use crate::rules::plan::SaidStep;

/// How often a route may be stopped before it is asked no more.
const STRIKES: u32 = 2;

/// What a whole audit may compute.
const ALL_FUEL: u64 = 20 * meter::CALL_FUEL;

/// What a component did.
#[derive(Debug, Clone, Default)]
pub struct Behaviour {
    /// How many requests it was asked about.
    pub asked: usize,
    /// How many of them it serves.
    pub served: usize,
    /// The words that they needed.
    pub words: BTreeSet<String>,
    /// What its calls took.
    pub measured: BTreeMap<Function, Measured>,
}

/// A component with a manifest, ready to be asked.
#[derive(Clone)]
pub(super) struct Runs {
    meter: Arc<Meter>,
    manifest: Arc<Manifest>,
    grants: Grants,
    settings: String,
}

/// All that a component said to one request.
#[derive(Debug, Default, PartialEq)]
struct Said {
    words: Option<Vec<String>>,
    steps: Vec<SaidStep>,
    stopped: Option<Stop>,
    wrong: Vec<Wrong>,
}

/// Asks what it is: twice in one instance and once in another.
pub(super) async fn describe(meter: &Meter, findings: &mut Findings) -> Option<Manifest> {
    let mut measures = Measures::default();
    let mut told: Vec<SaidManifest> = Vec::new();
    let asked = async {
        let mut live = meter.fresh(&mut measures).await?;
        told.push(live.describe(&mut measures).await?);
        told.push(live.describe(&mut measures).await?);
        let mut other = meter.fresh(&mut measures).await?;
        told.push(other.describe(&mut measures).await?);
        Ok::<(), Stop>(())
    };
    if let Err(stop) = asked.await {
        let (_, what) = stop.found();
        let check = match told.is_empty() {
            true => Check::DescribeFails,
            false => Check::DescribeDiffers,
        };
        findings.add(check, what, None);
    }
    let said = told.first()?.clone();
    if told.iter().any(|other| *other != said) {
        findings.add(
            Check::DescribeDiffers,
            "describe says another thing each time",
            None,
        );
    }
    for place in strings::in_manifest(&said) {
        findings.add(Check::ControlCharacter, format!("in {place}"), None);
    }
    match Manifest::check(said) {
        Ok(manifest) => Some(manifest),
        Err(error) => {
            findings.add(Check::ManifestRefused, error.to_string(), None);
            None
        }
    }
}

/// How two components decide the same requests: how many both were asked, and
/// where they part.
pub(super) async fn apart((old, new): (Runs, Runs), cases: Vec<Case>) -> (usize, Vec<Apart>) {
    let mut asked = 0;
    let mut apart = Vec::new();
    let mut strikes = 0;
    for case in &cases {
        // What does not end is found by the audit of each.
        if strikes > 2 * STRIKES {
            break;
        }
        asked += 1;
        let before = old.outcome(case).await;
        let after = new.outcome(case).await;
        strikes += u32::from(before.2) + u32::from(after.2);
        if (&before.0, &before.1) == (&after.0, &after.1) {
            continue;
        }
        let details = if before.0 == after.0 {
            ", in details"
        } else {
            ""
        };
        apart.push(Apart {
            request: case.name(),
            old: before.0,
            new: format!("{}{details}", after.0),
        });
    }
    (asked, apart)
}

impl Runs {
    pub(super) fn new(meter: Arc<Meter>, manifest: Arc<Manifest>, settings: String) -> Self {
        Self {
            meter,
            grants: Grants::new(Arc::clone(&manifest), None),
            manifest,
            settings,
        }
    }

    /// Asks about everything.
    pub(super) async fn all(&self, cases: &[Case], findings: &mut Findings) -> Behaviour {
        let mut measures = Measures::default();
        let mut behaviour = Behaviour::default();
        let mut strikes: BTreeMap<&str, u32> = BTreeMap::new();
        let mut reached: BTreeSet<&str> = BTreeSet::new();
        for case in cases {
            let Some(trial) = Trial::of(&self.manifest, case) else {
                continue;
            };
            let of_route = strikes.entry(trial.prefix()).or_default();
            if *of_route >= STRIKES || measures.fuel > ALL_FUEL {
                let what = format!("{} was not asked about everything", trial.prefix());
                findings.add(Check::CutShort, what, None);
                continue;
            }
            let name = case.name();
            behaviour.asked += 1;
            let said = self.twice(&trial, &name, &mut measures, findings).await;
            if said.stopped.is_some_and(is_long) {
                *of_route += 1;
            }
            if let Some(words) = said.words {
                behaviour.served += 1;
                reached.insert(trial.prefix());
                // What it says that is not declared has been found already.
                behaviour
                    .words
                    .extend(words.into_iter().filter(|word| self.declares(word)));
            }
        }
        self.unclaimed(&mut measures, findings).await;
        self.unseen(&reached, &behaviour.words, findings);
        behaviour.measured = measures.by_function;
        behaviour
    }

    /// One request in fresh instances, twice, and in a used one.
    async fn twice(
        &self,
        trial: &Trial<'_>,
        name: &str,
        measures: &mut Measures,
        findings: &mut Findings,
    ) -> Said {
        let first = self.once(trial, measures).await;
        for (check, what) in &first.wrong {
            findings.add(*check, what.clone(), Some(name));
        }
        if first.stopped.is_some_and(is_long) {
            return first;
        }
        let second = self.once(trial, measures).await;
        if first != second {
            let what = "two fresh instances do not say the same";
            findings.add(Check::NonDeterministic, what, Some(name));
        }
        if first.stopped.is_none()
            && let Some(what) = self.used(trial, &first, measures).await
        {
            findings.add(Check::Remembers, what, Some(name));
        }
        first
    }

    /// One request, from its words to a decision, as a host would ask.
    async fn once(&self, trial: &Trial<'_>, measures: &mut Measures) -> Said {
        let mut said = Said::default();
        if let Err(stop) = self.ask(trial, &mut said, measures).await {
            said.wrong.push(stop.found());
            said.stopped = Some(stop);
        }
        said
    }

    async fn ask(
        &self,
        trial: &Trial<'_>,
        said: &mut Said,
        measures: &mut Measures,
    ) -> Result<(), Stop> {
        let request = meter::request(trial.shown(&self.settings));
        let mut live = self.meter.fresh(measures).await?;
        let Some(words) = live.scopes(&request, measures).await? else {
            return Ok(());
        };
        said.words = Some(words.clone());
        for place in strings::in_words(&words) {
            said.wrong
                .push((Check::ControlCharacter, format!("in {place}")));
        }
        let stand = match trial.stand(&self.grants, &words) {
            Ok(stand) => stand,
            Err(wrong) => {
                said.wrong.push(wrong);
                return Ok(());
            }
        };
        let mut step = live.route(&request, stand.caller(), measures).await?;
        drop(live);
        let mut rounds = 0;
        loop {
            let Some((state, answers)) = look(&stand, step, said) else {
                return Ok(());
            };
            if rounds == trial.most_rounds() {
                let what = format!("after {rounds} rounds it needs yet more");
                said.wrong.push((Check::EndlessNeeds, what));
                return Ok(());
            }
            rounds += 1;
            let mut live = self.meter.fresh(measures).await?;
            step = live.resume(&state, answers, measures).await?;
        }
    }

    /// Asks an instance again and again: in words how it says something else
    /// than a fresh one did.
    async fn used(
        &self,
        trial: &Trial<'_>,
        first: &Said,
        measures: &mut Measures,
    ) -> Option<String> {
        let mut live = self.meter.fresh(measures).await.ok()?;
        let told = self.again(&mut live, trial, first, measures).await;
        match told {
            Ok(differs) => differs.map(|function| {
                format!("{function} says another thing in an instance that was asked before")
            }),
            // More memory than one request may have is no memory of it.
            Err(stop) if matches!(stop.why, Why::Memory(_) | Why::Fuel | Why::Time) => None,
            Err(stop) => Some(format!(
                "{} fails in an instance that was asked before",
                stop.during.word()
            )),
        }
    }

    async fn again(
        &self,
        live: &mut Live<'_>,
        trial: &Trial<'_>,
        first: &Said,
        measures: &mut Measures,
    ) -> Result<Option<&'static str>, Stop> {
        let request = meter::request(trial.shown(&self.settings));
        live.describe(measures).await?;
        for _ in 0..2 {
            if live.scopes(&request, measures).await? != first.words {
                return Ok(Some("scopes"));
            }
        }
        let words = first.words.as_deref().unwrap_or_default();
        let (Some(step), Ok(stand)) = (first.steps.first(), trial.stand(&self.grants, words))
        else {
            return Ok(None);
        };
        for _ in 0..2 {
            if live.route(&request, stand.caller(), measures).await? != *step {
                return Ok(Some("route"));
            }
        }
        Ok(None)
    }

    /// What it would serve where it claims nothing.
    async fn unclaimed(&self, measures: &mut Measures, findings: &mut Findings) {
        let mut strikes = 0;
        for case in requests::unclaimed(&self.manifest) {
            if measures.fuel > ALL_FUEL || strikes == STRIKES {
                return;
            }
            let request = meter::request(shown_unclaimed(&self.manifest, &case));
            let Ok(mut live) = self.meter.fresh(measures).await else {
                continue;
            };
            match live.scopes(&request, measures).await {
                Ok(Some(words)) => {
                    let what = format!("{} {} would need {words:?}", case.method, case.path);
                    findings.add(Check::AnswersUnclaimed, what, Some(&case.name()));
                }
                Ok(None) => {}
                // No host asks it this, so that it fails here harms nobody.
                Err(stop) => strikes += u32::from(is_long(stop)),
            }
        }
    }

    fn unseen(&self, reached: &BTreeSet<&str>, words: &BTreeSet<String>, findings: &mut Findings) {
        let prefixes: BTreeSet<&str> = self
            .manifest
            .routes
            .iter()
            .map(|route| route.prefix.as_str())
            .collect();
        for prefix in prefixes.difference(reached) {
            findings.add(Check::NotReached, format!("under {prefix}"), None);
        }
        for word in &self.manifest.words {
            let seen = match &word.name {
                WordName::Literal(word) => words.contains(word.as_str()),
                WordName::AnySecret => words.iter().any(|word| SecretName::parse(word).is_ok()),
            };
            if !seen {
                findings.add(
                    Check::WordNotSeen,
                    format!("the word {}", word.name.as_str()),
                    None,
                );
            }
        }
    }

    fn declares(&self, word: &str) -> bool {
        let said = [word.to_owned()];
        crate::rules::plan_check::check_words(&self.manifest, &said).is_ok()
    }

    /// What comes of a request, in words and in full, and whether it had to be
    /// stopped.
    async fn outcome(&self, case: &Case) -> (String, Option<Said>, bool) {
        let Some(trial) = Trial::of(&self.manifest, case) else {
            return ("claims no such route".to_owned(), None, false);
        };
        let said = self.once(&trial, &mut Measures::default()).await;
        let long = said.stopped.is_some_and(is_long);
        let words = match (said.wrong.first(), said.steps.last(), &said.words) {
            (Some((check, what)), _, _) => format!("is at fault ({}: {what})", check.id()),
            (None, Some(step), _) => decision::in_words(step),
            (None, None, _) => "does not serve it".to_owned(),
        };
        let words = match &said.words {
            Some(needed) if !needed.is_empty() => format!("needs {}: {words}", needed.join(", ")),
            Some(_) | None => words,
        };
        (words, Some(said), long)
    }
}

/// Looks at a step and notes what is wrong with it; what to go on with.
fn look(
    stand: &Stand<'_>,
    step: SaidStep,
    said: &mut Said,
) -> Option<(Vec<u8>, crate::rules::plan::Answers)> {
    for place in strings::in_step(&step) {
        said.wrong
            .push((Check::ControlCharacter, format!("in {place}")));
    }
    said.steps.push(step.clone());
    match stand.judge(step) {
        Ok(Next::Again { state, answers }) => Some((state, answers)),
        Ok(Next::Decided) => None,
        Err(wrong) => {
            said.wrong.push(wrong);
            None
        }
    }
}

/// Whether a stop cost so much that it should not be had often.
fn is_long(stop: Stop) -> bool {
    match stop.why {
        Why::Fuel | Why::Time | Why::Memory(_) => true,
        Why::Other(_) => false,
    }
}
