//! Asking a version what another one was asked, and holding what it says to
//! the same bounds. Nothing of it is done: what it needs is brought from what
//! the other one was brought, or not at all.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::plugins::beside::record::{Record, Routed};
use crate::plugins::error::CallFault;
use crate::plugins::live::LivePlugin;
use crate::rules::compare::{Decided, End, Failing, is_same_need};
use crate::rules::manifest::{Manifest, Uses};
use crate::rules::names::ScopeWord;
use crate::rules::permission::Grants;
use crate::rules::plan::{SaidStep, ShownCaller, ShownRequest, Target};
use crate::rules::plan_check::{Bounds, check_need, check_plan, check_words};

/// What a version decides on what another one was asked; none where it could
/// not be asked, which is not its fault.
pub(crate) async fn ask_again(plugin: &Arc<LivePlugin>, record: &Record) -> Option<Decided> {
    let manifest = plugin.manifest();
    let Some((shown, tail)) = as_shown(manifest, &record.request) else {
        return Some(Decided {
            words: None,
            end: End::NotServed,
        });
    };
    let decision = match plugin.decide(shown).await {
        Ok(decision) => decision,
        Err(fault) => return failed(None, &fault),
    };
    let Some(words) = decision.words().map(<[String]>::to_vec) else {
        return Some(Decided {
            words: None,
            end: End::NotServed,
        });
    };
    let is_same = as_set(&words) == as_set(record.words.as_deref().unwrap_or_default());
    let checked = check_words(manifest, &words);
    let ended = |end| {
        Some(Decided {
            words: Some(words.clone()),
            end,
        })
    };
    if let Err(fault) = checked {
        return ended(End::Failed(Failing::plan(&fault)));
    }
    let Some(routed) = record.routed.as_ref().filter(|_| is_same) else {
        return ended(End::Named);
    };
    let bounds = Held::new(plugin, routed);
    let bounds = bounds.bounds(manifest, record, routed, &tail);
    let caller = ShownCaller {
        uses: bounds.uses.clone(),
        ..routed.caller.clone()
    };
    let mut asked = decision.route(caller).await;
    let mut rounds = record.rounds.iter();
    loop {
        let need = match asked {
            Ok(SaidStep::Need(need)) => need,
            Ok(SaidStep::Plan(plan)) => {
                return ended(match check_plan((*plan).clone(), &bounds) {
                    Ok(_) => End::Plan(plan),
                    Err(fault) => End::Failed(Failing::plan(&fault)),
                });
            }
            Err(fault) => return failed(Some(words.clone()), &fault),
        };
        if let Err(fault) = check_need(need.clone(), &bounds) {
            return ended(End::Failed(Failing::plan(&fault)));
        }
        match rounds.next() {
            Some((of, answers)) if is_same_need(of, &need) => {
                asked = plugin.resume(need.state, answers.clone()).await;
            }
            Some(_) | None => return ended(End::Need(need)),
        }
    }
}

/// What a plan is held against, made of what this version may do and what the
/// other one was offered.
struct Held {
    reachable: Vec<Target>,
    uses: Uses,
}

impl Held {
    fn new(plugin: &LivePlugin, routed: &Routed) -> Self {
        let granted = plugin.granted();
        let of_a_box = routed.caller.box_name.as_ref();
        Self {
            reachable: reachable(&routed.words, granted),
            uses: of_a_box.map_or_else(Uses::default, |_| granted.uses()),
        }
    }

    fn bounds<'a>(
        &'a self,
        manifest: &'a Manifest,
        record: &'a Record,
        routed: &'a Routed,
        tail: &'a str,
    ) -> Bounds<'a> {
        Bounds {
            manifest,
            words: &routed.words,
            reachable: &self.reachable,
            offers: &routed.caller.offers,
            credential_headers: &routed.credential_headers,
            uses: &self.uses,
            method: &record.request.method,
            tail,
            query: routed.query.as_deref(),
            max_calls: routed.max_calls,
        }
    }
}

fn reachable(words: &[ScopeWord], granted: &Grants) -> Vec<Target> {
    let mut targets = Vec::new();
    for target in words.iter().flat_map(|word| granted.reached(word)) {
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    targets
}

/// A request as this version would be shown it, as far as the other one was,
/// and its path after the route's prefix; none where it has no such route.
fn as_shown(manifest: &Manifest, request: &ShownRequest) -> Option<(ShownRequest, String)> {
    let path = format!("{}{}", request.prefix.trim_end_matches('/'), request.path);
    let (index, tail) = manifest.serving(&request.method, &path)?;
    let route = manifest.routes.get(index)?;
    let inputs = &route.inputs;
    let is_asked = |name: &String| inputs.headers.iter().any(|asked| asked.as_str() == name);
    let headers = request.headers.iter();
    let shown = ShownRequest {
        method: request.method.clone(),
        prefix: route.prefix.clone(),
        path: tail.to_owned(),
        query: request.query.clone().filter(|_| inputs.query),
        headers: headers
            .filter(|(name, _)| is_asked(name))
            .cloned()
            .collect(),
        body: request.body.clone().filter(|_| inputs.body > 0),
        time: request.time.filter(|_| inputs.time),
        settings: request.settings.clone().filter(|_| inputs.settings),
    };
    let tail = tail.to_owned();
    Some((shown, tail))
}

fn as_set(words: &[String]) -> BTreeSet<&String> {
    words.iter().collect()
}

fn failed(words: Option<Vec<String>>, fault: &CallFault) -> Option<Decided> {
    fault.fault.is_the_plugins().then(|| Decided {
        words,
        end: End::Failed(Failing(fault.fault.label())),
    })
}
