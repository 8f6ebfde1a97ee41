//! One request at a component alone, walked as `chant` walks one: the
//! rule, what its words reach, its needs, its plan, each held to the host's
//! own checks. What the host would do with the plan is not done.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use crate::plugins::alone::metered::{Called, Metered};
use crate::plugins::alone::set::{Set, hidden};
use crate::plugins::alone::wire::{Ask, Cost, Outcome, Told};
use crate::plugins::bindings::exports::jackfield::plugin::decisions::Step;
use crate::plugins::bindings::exports::jackfield::plugin::types::{Answers, Need};
use crate::plugins::convert;
use crate::plugins::error::LoadError;
use crate::rules::manifest::{Manifest, Route, Uses};
use crate::rules::names::ScopeWord;
use crate::rules::paths;
use crate::rules::permission::{Grants, Permission};
use crate::rules::permit::Permit;
use crate::rules::plan::{SaidStep, ShownCaller, Target};
use crate::rules::plan_check::{Bounds, MOST_CALLS, check_need, check_plan, check_words};
use crate::rules::refusal::Refusal;

/// How often a decision may need something where its manifest says nothing:
/// the host's own default.
const ROUNDS: u32 = 4;

/// The broker's name in the refusals of the rule; the host's own default.
const BROKER: &str = "lobby";

/// A component alone.
pub(super) struct Alone {
    metered: Metered,
    manifest: Arc<Manifest>,
    cost: Cost,
}

/// Why a request came to nothing.
#[derive(Debug)]
pub(super) enum Ended {
    /// What was asked or answered makes no sense.
    Mistake(String),
    /// Nobody waits for it any more.
    LeftAlone,
    /// The other side cannot be heard.
    Line(io::Error),
}

impl From<io::Error> for Ended {
    fn from(cause: io::Error) -> Self {
        Self::Line(cause)
    }
}

/// What a walk has come to, before its costs are added to it.
type Walked = Result<(Option<Vec<String>>, Outcome), Ended>;

/// Answers a need; none when nobody does.
pub(super) type Script<'a> = dyn FnMut(&Need) -> io::Result<Option<Answers>> + 'a;

impl Alone {
    /// Loads a component as a host would, and asks it what it is.
    pub(super) async fn load(bytes: &[u8]) -> Result<Self, LoadError> {
        let mut metered = Metered::new(bytes)?;
        let Called { said, cost } = metered.describe().await;
        let said = said.map_err(LoadError::Host)?;
        let manifest = Arc::new(Manifest::check(convert::manifest(said))?);
        metered.limit(manifest.limits);
        Ok(Self {
            metered,
            manifest,
            cost,
        })
    }

    pub(super) fn metered(&self) -> &Metered {
        &self.metered
    }

    pub(super) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// What `describe` took.
    pub(super) fn cost(&self) -> &Cost {
        &self.cost
    }

    /// What an operator would be asked to approve.
    pub(super) fn permissions(&self) -> Vec<String> {
        let all = Permission::of(&self.manifest);
        all.iter().map(ToString::to_string).collect()
    }

    /// Asks what becomes of a request.
    pub(super) async fn ask(&self, ask: &Ask, script: &mut Script<'_>) -> Result<Told, Ended> {
        let set = Set::read(ask, &self.manifest).map_err(Ended::Mistake)?;
        let grants = self.grants(&ask.withheld).map_err(Ended::Mistake)?;
        let mut costs = Vec::new();
        let (words, outcome) = self.walk(&set, &grants, script, &mut costs).await?;
        Ok(Told {
            words,
            outcome,
            costs,
        })
    }

    async fn walk(
        &self,
        set: &Set,
        grants: &Grants,
        script: &mut Script<'_>,
        costs: &mut Vec<Cost>,
    ) -> Walked {
        let manifest = &*self.manifest;
        let plain = paths::is_plain(set.path.as_bytes());
        let Some((route, tail)) = set.route(manifest).filter(|_| plain) else {
            return Ok((
                None,
                host(404, "None of its routes takes this method and path."),
            ));
        };
        let Some(shown) = set.shown(route, tail) else {
            let most = route.inputs.body;
            let reason = format!("The body is larger than the {most} bytes that the route takes.");
            return Ok((None, host(413, &reason)));
        };
        let request = convert::request(shown);
        let Called { said, cost } = self.metered.scopes(&request).await;
        costs.push(cost);
        let (instance, said) = match said {
            Ok(said) => said,
            Err(reason) => return Ok((None, Outcome::Failed(reason))),
        };
        let Some(said) = said else {
            return Ok((
                None,
                host(404, "The plugin does not serve it: `scopes` answered none."),
            ));
        };
        let permitted = match self.permit(set, route, &said) {
            Ok(permitted) => permitted,
            Err(outcome) => return Ok((Some(said), outcome)),
        };
        let reachable = reachable(&permitted, grants);
        let offers = set.offers(&reachable);
        let uses = if route.public {
            Uses::default()
        } else {
            grants.uses()
        };
        let bounds = Bounds {
            manifest,
            words: &permitted,
            reachable: &reachable,
            offers: &offers,
            credential_headers: &hidden(route),
            uses: &uses,
            method: &set.method,
            tail,
            query: set.query.as_deref(),
            max_calls: wanted(manifest.limits.calls, MOST_CALLS) as usize,
        };
        let caller = convert::caller(ShownCaller {
            box_name: (!route.public).then(|| set.box_name.clone()),
            words: permitted
                .iter()
                .map(|word| word.as_str().to_owned())
                .collect(),
            offers: offers.clone(),
            targets: set.leading(&reachable),
            uses: uses.clone(),
        });
        let Called { said: step, cost } = self.metered.route(instance, &request, &caller).await;
        costs.push(cost);
        let outcome = self.settle(step, route, &bounds, script, costs).await?;
        Ok((Some(said), outcome))
    }

    /// Holds a request to the rule; on a public route nothing may be needed.
    fn permit(&self, set: &Set, route: &Route, said: &[String]) -> Result<Vec<ScopeWord>, Outcome> {
        let words = check_words(&self.manifest, said)
            .map_err(|fault| Outcome::Rejected(fault.to_string()))?;
        if route.public {
            return if words.is_empty() {
                Ok(words)
            } else {
                Err(Outcome::Rejected(needs_a_box()))
            };
        }
        let capability = &self.manifest.capability;
        let declared = Some(&set.declaration);
        Permit::grant(&set.box_name, declared, BROKER, capability, words)
            .map(|permit| permit.words().to_vec())
            .map_err(|refusal: Refusal| host(refusal.status.as_u16(), &refusal.message))
    }

    /// Follows a step to its end: each need is checked, answered and resumed,
    /// the plan is checked.
    async fn settle(
        &self,
        mut step: Result<Step, String>,
        route: &Route,
        bounds: &Bounds<'_>,
        script: &mut Script<'_>,
        costs: &mut Vec<Cost>,
    ) -> Result<Outcome, Ended> {
        let most = wanted(self.manifest.limits.rounds, ROUNDS);
        let mut rounds = 0;
        loop {
            let said = match step {
                Ok(said) => said,
                Err(reason) => return Ok(Outcome::Failed(reason)),
            };
            let need = match (&said, convert::step(said.clone())) {
                (Step::Plan(plan), SaidStep::Plan(checked)) => {
                    return Ok(match check_plan(*checked, bounds) {
                        Ok(_) => Outcome::Plan(Box::new(plan.clone())),
                        Err(fault) => Outcome::Rejected(fault.to_string()),
                    });
                }
                (Step::Need(need), SaidStep::Need(checked)) => {
                    if route.public {
                        return Ok(Outcome::Rejected(needs_a_box()));
                    }
                    if rounds == most {
                        return Ok(Outcome::Rejected(format!(
                            "it needs more than the {most} rounds that it may have"
                        )));
                    }
                    if let Err(fault) = check_need(checked, bounds) {
                        return Ok(Outcome::Rejected(fault.to_string()));
                    }
                    need
                }
                (Step::Plan(_), SaidStep::Need(_)) | (Step::Need(_), SaidStep::Plan(_)) => {
                    return Ok(Outcome::Failed("said two things at once".to_owned()));
                }
            };
            rounds += 1;
            let answers = script(need)?.ok_or(Ended::LeftAlone)?;
            fits(need, &answers).map_err(Ended::Mistake)?;
            let Called { said, cost } = self.metered.resume(&need.state, &answers).await;
            costs.push(cost);
            step = said;
        }
    }

    /// What the plugin may do, less what the operator keeps back.
    fn grants(&self, withheld: &[String]) -> Result<Grants, String> {
        let all = Permission::of(&self.manifest);
        let mut granted: BTreeSet<Permission> = all.clone();
        for text in withheld {
            let permission = Permission::parse(text).map_err(|error| error.to_string())?;
            if !granted.remove(&permission) {
                return Err(format!(
                    "{text} cannot be kept back from a plugin that does not ask for it"
                ));
            }
        }
        Ok(Grants::new(Arc::clone(&self.manifest), Some(granted)))
    }
}

/// The targets that permitted words reach, less what is kept back.
fn reachable(words: &[ScopeWord], grants: &Grants) -> Vec<Target> {
    let mut targets = Vec::new();
    for target in words.iter().flat_map(|word| grants.reached(word)) {
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    targets
}

/// Whether a test answered as much as was asked: the host always does.
fn fits(need: &Need, answers: &Answers) -> Result<(), String> {
    let pairs = [
        ("calls", need.calls.len(), answers.calls.len()),
        ("reads", need.reads.len(), answers.reads.len()),
        ("lists", need.lists.len(), answers.lists.len()),
        ("owned", need.owned.len(), answers.owned.len()),
    ];
    match pairs.iter().find(|(_, asked, given)| asked != given) {
        None => Ok(()),
        Some((what, asked, given)) => Err(format!(
            "the plugin needs {asked} {what}, and the test answers {given}: the host answers each"
        )),
    }
}

fn host(status: u16, message: &str) -> Outcome {
    Outcome::Host {
        status,
        message: message.to_owned(),
    }
}

fn needs_a_box() -> String {
    "it asks, on a public route, for what only a box may have".to_owned()
}

/// What a plugin asks for, under the host's cap; 0 leaves it to the host.
fn wanted(asked: u32, cap: u32) -> u32 {
    if asked == 0 { cap } else { asked.min(cap) }
}
