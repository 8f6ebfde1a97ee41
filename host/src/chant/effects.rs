//! What a plugin wants done beside its decision, made to last in one commit:
//! writes to its keep, records for the journal, things that become the box's
//! own.

use std::sync::Arc;

use crate::chant::answers::Failure;
use crate::chant::caller::Caller;
use crate::chant::journal::JournalError;
use crate::chant::keep::{Keep, KeepError};
use crate::chant::limits::Over;
use crate::chant::owned::ClaimError;
use crate::chant::{Chant, grants, keep, owned};
use crate::rules::names::{BoxName, PluginName};
use crate::rules::owned::Thing;
use crate::rules::plan::Write;
use crate::rules::plan_check::PlanFault;
use crate::rules::refusal::Refusal;
use crate::store::{Batch, Store, StoreError};
use crate::telemetry::Limit;

/// What a plan wants to last.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) writes: Vec<Write>,
    pub(super) journal: Vec<Vec<u8>>,
    pub(super) owns: Vec<Thing>,
}

impl Effects {
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.journal.is_empty() && self.owns.is_empty()
    }
}

impl Chant {
    /// Makes a plan's effects last, all of them or none.
    pub(super) async fn make(
        &self,
        effects: Effects,
        plugin: &PluginName,
        caller: &Caller,
    ) -> Result<(), Failure> {
        let box_name = caller.box_name();
        let parts = &self.0.parts;
        let staged = parts
            .journal
            .stage(plugin, box_name, &effects.journal)
            .await;
        let staged = staged.map_err(|error| not_journaled(error, plugin, box_name))?;
        let keep = Keep {
            store: &parts.store,
            box_name,
            plugin,
        };
        // Those of one count take turns, so that they need not try again and
        // again; what guards a count are its conditions.
        let _turns = self.0.turns.of(&effects, plugin, box_name).await;
        let mut known = caller.known().clone();
        loop {
            let mut batch = Batch {
                conditions: vec![known.unchanged()],
                changes: Vec::new(),
            };
            let kept = keep.changes(&effects.writes, self.0.settings.keep).await;
            let kept = kept.map_err(|error| self.not_kept(error, plugin, box_name))?;
            let noted = parts
                .journal
                .changes(plugin, box_name, &effects.journal, &staged)
                .await;
            let noted = noted.map_err(|error| not_journaled(error, plugin, box_name))?;
            let claimed = parts.owned.claims(box_name, &effects.owns).await;
            let claimed = claimed.map_err(|error| not_claimed(error, plugin))?;
            for (conditions, changes) in [kept, noted, claimed] {
                batch.conditions.extend(conditions);
                batch.changes.extend(changes);
            }
            match parts.store.commit(batch).await {
                Ok(revision) => {
                    staged.keep();
                    if !effects.owns.is_empty() {
                        parts.owned.reached(revision).await?;
                    }
                    return Ok(());
                }
                Err(StoreError::Conflict) => known = self.still(caller).await?,
                Err(failed) => return Err(failed.into()),
            }
        }
    }

    fn not_kept(&self, error: KeepError, plugin: &PluginName, box_name: &BoxName) -> Failure {
        let limits = self.0.settings.keep;
        let full = |limit, most: usize, what: &str| {
            let message = format!(
                "The plugin {plugin} keeps as much for the box {box_name} as it may ({most} {what}); nothing was \
                 kept of this request. Have it delete something first, or ask the operator for more room."
            );
            Failure::Over(Over::new(limit, message, None))
        };
        match error {
            KeepError::Unexpected => Failure::Refuse(Refusal::conflict(format!(
                "What the plugin {plugin} keeps for this box was changed by another request meanwhile; nothing was \
                 done for this one. Send it again."
            ))),
            KeepError::Bytes => full(Limit::KeepBytes, limits.bytes, "bytes"),
            KeepError::Keys => full(Limit::KeepKeys, limits.keys, "keys"),
            KeepError::Store(failed) => failed.into(),
        }
    }
}

fn not_journaled(error: JournalError, plugin: &PluginName, box_name: &BoxName) -> Failure {
    let full = |limit, what: String| {
        tracing::warn!(%plugin, %box_name, "its journal takes no more; `jackfield journal` prunes it");
        // No time to come back at is told: this does not pass by itself.
        let message = format!(
            "{what}; nothing was kept of this request. The operator can make room: jackfield journal {plugin} \
             --prune BEFORE"
        );
        Failure::Over(Over::new(limit, message, None))
    };
    match error {
        JournalError::ShareFull(most) => full(
            Limit::JournalBytesPerBox,
            format!(
                "The box {box_name} has as much in the journal of the plugin {plugin} as it may ({most} bytes, \
                 journal_bytes_per_box)"
            ),
        ),
        JournalError::Full(most) => full(
            Limit::JournalBytes,
            format!("The journal of the plugin {plugin} is full ({most} bytes, journal_bytes)"),
        ),
        JournalError::Store(failed) => failed.into(),
    }
}

fn not_claimed(error: ClaimError, plugin: &PluginName) -> Failure {
    match error {
        // Neither the box nor a log of many boxes is told whose it is.
        ClaimError::Taken => Failure::Plan(
            plugin.clone(),
            PlanFault::Beyond("it claims for this box what it cannot be given".to_owned()),
        ),
        ClaimError::Store(failed) => failed.into(),
    }
}

/// Deletes what a box that is no more leaves: its grants, what plugins keep for
/// it, and that it owned anything.
pub(super) async fn purge(store: &Arc<dyn Store>, box_name: &BoxName) -> Result<(), StoreError> {
    grants::purge(store, box_name).await?;
    keep::purge(store, box_name).await?;
    owned::purge(store, box_name).await
}
