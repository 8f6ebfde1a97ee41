//! Asking a plugin until it has decided: its words are held to the rule, its
//! needs are met, its plan is checked, its effects are made last.

use std::time::Duration;

use futures_util::future::try_join_all;
use http::HeaderName;
use http::request::Parts as Head;

use crate::chant::answers::Failure;
use crate::chant::caller::Caller;
use crate::chant::effects::Effects;
use crate::chant::keep::Keep;
use crate::chant::limits::{Held, Over};
use crate::chant::noted::Noted;
use crate::chant::offers::Offered;
use crate::chant::routes::PluginRoute;
use crate::chant::{Chant, offers};
use crate::lease::Lease;
use crate::relay::{self, CallLimits, CallRoom, RelayFailure};
use crate::rules::declaration::Declaration;
use crate::rules::manifest::Uses;
use crate::rules::names::PluginName;
use crate::rules::permit::Permit;
use crate::rules::plan::{
    Answers, Call, CallAnswer, CallFailure, SaidStep, ShownCaller, ShownRequest,
};
use crate::rules::plan_check::{
    Bounds, Checked, CheckedAction, CheckedNeed, CheckedPlan, check_need, check_plan, check_words,
};
use crate::rules::refusal::Refusal;

/// A request as a plugin is asked about it.
pub(super) struct Asked<'a> {
    matched: &'a PluginRoute,
    head: &'a Head,
    shown: ShownRequest,
    credential_headers: &'a [HeaderName],
    of: Option<(&'a Caller, Option<&'a Declaration>)>,
}

impl<'a> Asked<'a> {
    /// A request on a public route.
    pub(super) fn public(
        matched: &'a PluginRoute,
        head: &'a Head,
        shown: ShownRequest,
        credential_headers: &'a [HeaderName],
    ) -> Self {
        Self {
            matched,
            head,
            shown,
            credential_headers,
            of: None,
        }
    }

    /// A request of a box.
    pub(super) fn of_box(
        matched: &'a PluginRoute,
        head: &'a Head,
        shown: ShownRequest,
        credential_headers: &'a [HeaderName],
        caller: &'a Caller,
        declared: Option<&'a Declaration>,
    ) -> Self {
        Self {
            matched,
            head,
            shown,
            credential_headers,
            of: Some((caller, declared)),
        }
    }
}

impl Chant {
    /// Asks a plugin what to do with a request: a checked plan whose effects
    /// are on disk, with what it stands on should it be a forward; or none when
    /// the plugin does not serve it.
    pub(super) async fn decide(
        &self,
        asked: Asked<'_>,
        noted: &mut Noted,
    ) -> Result<Option<(CheckedPlan, Lease)>, Failure> {
        let plugin = &asked.matched.plugin;
        let manifest = plugin.manifest();
        let name = &manifest.name;
        let planned = |fault| Failure::Plan(name.clone(), fault);

        let asking = asked.of.map(|(caller, _)| caller.box_name());
        let mut held = self.0.limits.room(asking, Some(name));
        let instance = self.0.limits.instance(name, asking).await?;
        noted.shown(&asked.shown);
        let mut witness = plugin.witness(asking, &asked.shown);
        let decided = plugin.decide(asked.shown).await;
        let decision = decided.map_err(|fault| Failure::Call(witness.failed(fault)))?;
        noted.scopes(decision.words());
        let Some(said) = witness.named(decision.words()) else {
            return Ok(None);
        };
        let words = check_words(manifest, said).map_err(|fault| planned(witness.refused(fault)))?;
        noted.words(&words);
        let permit = match asked.of {
            Some((caller, declared)) => Some(Permit::grant(
                caller.box_name(),
                declared,
                self.broker(),
                &manifest.capability,
                words,
            )?),
            None if words.is_empty() => None,
            None => return Err(needs_a_box(name).into()),
        };
        let box_name = permit.as_ref().map(Permit::box_name);
        let words = permit.as_ref().map_or(&[][..], Permit::words);
        let granted = plugin.granted();
        let reachable = offers::reachable(words, granted);
        let mut offered = match box_name {
            Some(box_name) => offers::offers(
                &reachable,
                box_name,
                asked.of.and_then(|(caller, _)| caller.turn()),
                &self.0.settings.upstreams,
                &self.0.parts.vault,
            )?,
            None => Offered::default(),
        };
        let leading = box_name.map_or_else(Vec::new, |box_name| {
            offers::leading(
                &reachable,
                box_name,
                &self.0.settings.upstreams,
                &self.0.parts.vault,
            )
        });
        // What lasts belongs to a box.
        let uses = box_name.map_or_else(Uses::default, |_| granted.uses());
        offered.stands_on = asked
            .of
            .map_or_else(Lease::default, |(caller, _)| caller.lease())
            .and(plugin.lease());
        let credential_headers = asked.credential_headers;
        let bounds = Bounds {
            manifest,
            words,
            reachable: &reachable,
            offers: &offered.offers,
            credential_headers,
            uses: &uses,
            method: &asked.head.method,
            tail: &asked.matched.tail,
            query: asked.head.uri.query(),
            max_calls: wanted(manifest.limits.calls, self.0.settings.max_calls) as usize,
        };
        let caller = ShownCaller {
            box_name: box_name.cloned(),
            words: words.iter().map(|word| word.as_str().to_owned()).collect(),
            offers: offered.offers.clone(),
            targets: leading,
            uses: uses.clone(),
        };
        let most = wanted(manifest.limits.rounds, self.0.settings.max_rounds);
        noted.caller(&caller);
        let said = decision.route(witness.routed(caller, &bounds)).await;
        let mut step = said.map_err(|fault| Failure::Call(witness.failed(fault)))?;
        drop(instance);
        let mut rounds = 0;
        loop {
            noted.step(&step);
            witness.said(&step);
            let need = match step {
                SaidStep::Plan(plan) => {
                    let plan = check_plan(*plan, &bounds);
                    let mut plan = plan.map_err(|fault| planned(witness.refused(fault)))?;
                    if let CheckedAction::Answer(answer) = &mut plan.action {
                        held.resize(answer.body.len())?;
                        let body = std::mem::take(&mut answer.body);
                        answer.body = held.hold(body);
                    }
                    let lease = match &plan.action {
                        CheckedAction::Forward(forward) => {
                            offered.lease(&forward.get().outbound)?
                        }
                        CheckedAction::Answer(_) | CheckedAction::Refuse(_) => Lease::default(),
                    };
                    let caller = asked.of.map(|(caller, _)| caller);
                    self.settle(&mut plan, name, caller).await?;
                    noted.decided();
                    return Ok(Some((plan, lease)));
                }
                SaidStep::Need(need) => need,
            };
            if rounds == most {
                witness.asked_too_often();
                return Err(Failure::Rounds(name.clone(), most));
            }
            rounds += 1;
            let Some((caller, _)) = asked.of else {
                return Err(needs_a_box(name).into());
            };
            let need = check_need(need, &bounds);
            let need = need.map_err(|fault| planned(witness.refused(fault)))?;
            let met = self.meet(need, name, caller, credential_headers, &offered, &mut held);
            let (state, answers) = Box::pin(met).await?;
            let _instance = self.0.limits.instance(name, asking).await?;
            noted.answers(&answers);
            let resumed = plugin.resume(state, witness.answered(answers));
            let said = Box::pin(resumed).await;
            step = said.map_err(|fault| Failure::Call(witness.failed(fault)))?;
        }
    }

    /// Makes a plan's effects last.
    async fn settle(
        &self,
        plan: &mut CheckedPlan,
        plugin: &PluginName,
        caller: Option<&Caller>,
    ) -> Result<(), Failure> {
        let box_name = caller.map(Caller::box_name);
        self.0.limits.log.say(plugin, box_name, &plan.log)?;
        let effects = Effects {
            writes: std::mem::take(&mut plan.writes),
            journal: std::mem::take(&mut plan.journal),
            owns: std::mem::take(&mut plan.owns),
        };
        // Without a box there is nothing that could last, and the check of the
        // plan has said so.
        if let Some(caller) = caller.filter(|_| !effects.is_empty()) {
            Box::pin(self.make(effects, plugin, caller)).await?;
        }
        Ok(())
    }

    /// Meets a need: the calls side by side, the reads, and what is owned.
    async fn meet(
        &self,
        need: CheckedNeed,
        plugin: &PluginName,
        caller: &Caller,
        credential_headers: &[HeaderName],
        offered: &Offered,
        held: &mut Held,
    ) -> Result<(Vec<u8>, Answers), Failure> {
        let sent = need.calls.iter().map(|call| call.get().body.len());
        held.resize(need.state.len() + sent.sum::<usize>())?;
        let keep = Keep {
            store: &self.0.parts.store,
            box_name: caller.box_name(),
            plugin,
        };
        let reads = keep.read(&need.reads).await?;
        let lists = keep.list(&need.lists).await?;
        let read = reads.iter().flatten().map(Vec::len);
        let listed = lists.iter().flatten().map(String::len);
        held.take(read.chain(listed).sum())?;
        let limits = CallLimits {
            deadline: Duration::from_millis(u64::from(wanted(
                need.deadline_ms,
                self.0.settings.max_call_ms,
            ))),
            max_bytes: self.0.settings.max_call_bytes,
        };
        let calls = need.calls.into_iter().map(|call| {
            let brought = self.0.limits.room(Some(caller.box_name()), Some(plugin));
            self.call(call, caller, credential_headers, offered, limits, brought)
        });
        let called = try_join_all(calls).await?;
        let mut calls = Vec::with_capacity(called.len());
        for (answer, brought) in called {
            held.absorb(brought);
            calls.push(answer);
        }
        // Asked last: what a call brought may be another request's new thing.
        let own = |thing| self.0.parts.owned.has(caller.box_name(), thing);
        let answers = Answers {
            calls,
            reads,
            lists,
            owned: need.owned.iter().map(own).collect(),
        };
        Ok((need.state, answers))
    }

    async fn call(
        &self,
        call: Checked<Call>,
        caller: &Caller,
        credential_headers: &[HeaderName],
        offered: &Offered,
        limits: CallLimits,
        held: Held,
    ) -> Result<(Result<CallAnswer, CallFailure>, Held), Failure> {
        let outbound = &call.get().outbound;
        let lease = offered.lease(outbound);
        let located = self.locate(&outbound.target, caller.box_name());
        let (Ok(lease), Ok(destination)) = (lease, located) else {
            return Ok((Err(CallFailure::Unreachable), held));
        };
        let sealed = relay::seal_call(
            &call,
            &destination,
            &caller.shown(),
            credential_headers,
            &self.0.parts.vault,
        )
        .map_err(|error| error.refusal(&destination.name))?;
        let body = call.into_inner().body;
        let relay = &self.0.parts.relay;
        let mut brought = Brought { held, over: None };
        let answer = relay
            .call(sealed, body, limits, lease.clone(), &mut brought)
            .await;
        // What a revocation cut is no failure for the plugin to judge.
        if lease.is_cancelled() {
            return Err(Failure::Relay(
                RelayFailure::Revoked,
                destination.name.clone(),
            ));
        }
        match brought.over {
            Some(over) => Err(over.into()),
            None => Ok((answer, brought.held)),
        }
    }
}

/// What a call brings back, held as it comes.
struct Brought {
    held: Held,
    over: Option<Over>,
}

impl CallRoom for Brought {
    fn take(&mut self, bytes: usize) -> bool {
        match self.held.take(bytes) {
            Ok(()) => true,
            Err(over) => {
                self.over = Some(over);
                false
            }
        }
    }
}

/// What a plugin asked for, under the host's cap; 0 leaves it to the host.
fn wanted(asked: u32, cap: u32) -> u32 {
    if asked == 0 { cap } else { asked.min(cap) }
}

fn needs_a_box(plugin: &PluginName) -> Refusal {
    Refusal::plugin(format!(
        "The plugin {plugin} asked, on a public route, for what only a box may have."
    ))
}
