//! New versions that are tried beside the live one, as its shadow or on some
//! of the boxes: how a trial begins, what has come of it, and how it ends.

use crate::plugins::Plugins;
use crate::plugins::authority::Authority;
use crate::plugins::beside::watched::{Met, Watch, WatchSettings};
use crate::plugins::error::{LoadError, PluginError};
use crate::plugins::hash::ComponentHash;
use crate::plugins::history::{Account, Happening};
use crate::plugins::intake::{Came, kept};
use crate::plugins::stage::{Found, Tried, asks_no_more};
use crate::plugins::status::{Change, Outcome, PluginState, PluginStatus};
use crate::plugins::versions::Versions;
use crate::rules::admission::Admission;
use crate::rules::compare::{Failing, Tally};
use crate::rules::names::{BoxName, PluginName};
use crate::rules::permission::Permission;
use crate::rules::rollback::{Before, Failures, Verdict, judge};
use crate::rules::trial::Trial;
use crate::store::Change as Stored;

/// How a shadow went together with the live version.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The plugin.
    pub name: String,
    /// The live version and its hash.
    pub live: (String, ComponentHash),
    /// The shadow's.
    pub shadow: (String, ComponentHash),
    /// What it asks to be shown and the live one is not: it is asked without.
    pub unseen: Vec<Permission>,
    /// What was compared.
    pub tally: Tally,
}

impl Plugins {
    /// Weighs a component that is to be tried: it needs what a version needs
    /// that goes live, but that a shadow which asks for no more than the live
    /// one needs nobody's yes.
    pub(crate) async fn admit_trial(
        &self,
        came: Came<'_>,
        trial: &Trial,
        admission: Admission,
        mut account: Account,
    ) -> Result<Outcome, (LoadError, Account)> {
        let (file, loaded) = (came.file, came.loaded);
        let name = loaded.manifest.name.clone();
        let Some((_, live)) = self.0.stage.live_one(&name) else {
            return Err((LoadError::NothingBeside(name), account));
        };
        if live.hash == loaded.hash {
            return Err((LoadError::IsLive(name), account));
        }
        let may = match (admission, trial) {
            (Admission::Block, _) => return Err((LoadError::Blocked, account)),
            (Admission::Reject, _) => return Err((LoadError::Rejected, account)),
            (Admission::ByHash | Admission::BySigner, _) => true,
            (Admission::Wait, Trial::Shadow) => asks_no_more(loaded, &live),
            (Admission::Wait, Trial::Canary(_)) => false,
        };
        if !may {
            let waits = self.let_wait(file, came.offer, loaded, came.line, &mut account);
            let waits = waits.await;
            return waits.map_err(|error| (error, account));
        }
        let begun = self.begin_trial(came, trial, account, Vec::new()).await;
        begun.map_err(|error| (error, Account::of(loaded.hash)))?;
        let status = self.status(file, loaded, PluginState::from(trial));
        Ok(Outcome::Tried(status))
    }

    /// Begins a trial: first on disk, with what is told of it and `changes`.
    pub(crate) async fn begin_trial(
        &self,
        came: Came<'_>,
        trial: &Trial,
        mut account: Account,
        changes: Vec<Stored>,
    ) -> Result<(), LoadError> {
        let Came {
            file,
            offer,
            loaded,
            line,
        } = came;
        let version = kept(offer, loaded);
        if line.tried.as_ref() == Some(&version) {
            // The host starts again, and it goes on.
            account = Account::default();
        } else {
            let told = match trial {
                Trial::Shadow => (
                    Happening::Shadow,
                    "it is asked what the live version is asked, and nothing it says is done"
                        .to_owned(),
                ),
                Trial::Canary(share) => (Happening::Canary, format!("it serves {share}")),
            };
            account.note(told.0, told.1);
        }
        let mut now = line.clone();
        now.begins(version);
        self.keep(offer, loaded, &line, &now, account, changes)
            .await?;
        self.0.stage.begin(file, loaded, self.grants(loaded), trial);
        self.0.authority.hold();
        Ok(())
    }

    /// Lets the version that is tried under a name go live, in one swap.
    ///
    /// # Errors
    /// When none is tried, or it may not go live.
    pub async fn promote(&self, which: &str) -> Result<PluginStatus, PluginError> {
        let _turn = self.0.turn.lock().await;
        let tried = self.tried(which)?;
        let (file, loaded) = (tried.file, tried.loaded);
        let name = loaded.manifest.name.as_str();
        let not_promoted = |reason| PluginError::NotPromoted {
            name: name.to_owned(),
            hash: loaded.hash.to_string(),
            reason: Box::new(reason),
        };
        let line = self.0.versions.line(name).await?;
        let kept = line.tried.filter(|kept| kept.hash == loaded.hash);
        let kept = kept.ok_or_else(|| not_tried(which))?;
        let offer = self.read_kept(&kept).await.map_err(not_promoted)?;
        let mut account = Account::of(loaded.hash);
        account.is_version(&loaded.manifest.version);
        let mut changes = Vec::new();
        match self.may_go_live(&loaded) {
            Ok(()) => {}
            // A shadow has needed nobody's yes so far; this is it.
            Err(LoadError::Unapproved) => {
                let at = jiff::Timestamp::now().to_string();
                changes = Authority::approval(&loaded, None, &at)?;
                account.note(Happening::Approved, "by the operator, who promotes it");
            }
            Err(error) => return Err(not_promoted(error)),
        }
        let was = match tried.trial {
            Trial::Shadow => "a shadow".to_owned(),
            Trial::Canary(share) => format!("a canary on {share}"),
        };
        account.note(
            Happening::Live,
            format!("promoted by the operator; it was {was}"),
        );
        let live = self.go_live(&file, &offer, &loaded, account, changes);
        live.await.map_err(not_promoted)?;
        Ok(self.status(&file, &loaded, PluginState::Live))
    }

    /// Ends a trial, and turns its version down. Whoever calls this has the
    /// turn.
    pub(crate) async fn drop_tried(&self, tried: Tried) -> Result<PluginStatus, PluginError> {
        let loaded = &tried.loaded;
        let name = &loaded.manifest.name;
        let line = self.0.versions.line(name.as_str()).await?;
        let mut account = Account::of(loaded.hash);
        account.is_version(&loaded.manifest.version);
        let was = match &tried.trial {
            Trial::Shadow => "a shadow".to_owned(),
            Trial::Canary(share) => format!("a canary on {share}; what it relays goes on"),
        };
        let told = format!("by the operator; it was {was}");
        let mut changes = Vec::new();
        // What was approved stays so: to take that back as well would cut what
        // it relays.
        let is_approved = self.0.authority.admit(loaded).is_live();
        if is_approved {
            account.note(Happening::Dropped, told);
        } else {
            account.note(Happening::Rejected, told);
            let at = jiff::Timestamp::now().to_string();
            changes.push(Authority::rejection(&loaded.hash, &at)?);
        }
        let mut now = line.clone();
        now.tried = None;
        changes.push(Versions::keep(name.as_str(), &now)?);
        changes.extend(self.0.history.append(name.as_str(), account).await?);
        self.commit(changes).await?;
        self.0.stage.end(name);
        for gone in self.0.versions.let_go(&line, &now) {
            self.0.cache.forget(&self.0.machine.engine, &gone);
        }
        if is_approved {
            return Ok(self.status(&tried.file, loaded, PluginState::Replaced));
        }
        let rejected = Found::Rejected(loaded.clone());
        self.0.stage.note(&tried.file, rejected);
        Ok(self.status(&tried.file, loaded, PluginState::Rejected))
    }

    /// How the shadow of a plugin has gone together with the live version.
    ///
    /// # Errors
    /// When there is none.
    pub fn compare(&self, which: &str) -> Result<Comparison, PluginError> {
        let tried = self.tried(which)?;
        let name = &tried.loaded.manifest.name;
        let shadow = tried
            .shadow
            .ok_or_else(|| PluginError::NotShadow(name.as_str().to_owned()))?;
        let live = self.0.stage.live_one(name);
        let (_, live) = live.ok_or_else(|| not_tried(which))?;
        let version = |manifest: &crate::rules::manifest::Manifest| manifest.version.clone();
        let more = Change::between(&live, &tried.loaded).more.into_iter();
        Ok(Comparison {
            name: name.as_str().to_owned(),
            live: (version(&live.manifest), live.hash),
            shadow: (version(shadow.plugin().manifest()), tried.loaded.hash),
            unseen: more
                .filter(|more| matches!(more, Permission::Sees(_, _)))
                .collect(),
            tally: shadow.tally(),
        })
    }

    fn tried(&self, which: &str) -> Result<Tried, PluginError> {
        let tried = self.0.stage.tried_as(which);
        tried.ok_or_else(|| not_tried(which))
    }

    /// Weighs what a watch has met, and takes the version back where it is
    /// time. True when the watch is over.
    pub(crate) async fn weigh(&self, watch: &Watch, met: &Met, settings: WatchSettings) -> bool {
        let _turn = self.0.turn.lock().await;
        let before = match self.before(watch).await {
            Ok(before) => before,
            Err(error) => {
                tracing::error!(%error, plugin = %watch.name, "its versions cannot be read");
                return false;
            }
        };
        let live = self.0.stage.live_one(&watch.name);
        let verdict = judge(Failures {
            boxes: met.boxes.len(),
            threshold: settings.boxes,
            // The window ends the watch, and the one rollback does.
            is_watched: true,
            is_done: false,
            is_live: live.is_some_and(|(_, live)| live.hash == watch.hash),
            before,
        });
        let plugin = &watch.name;
        let Met { boxes, how } = met;
        match verdict {
            Verdict::Wait => {
                let (hash, boxes) = (&watch.hash, boxes.len());
                tracing::warn!(%plugin, %hash, boxes, failure = how.0, "a version that has just gone live fails where the one before it does not");
                false
            }
            Verdict::Stay(reason) => {
                tracing::warn!(%plugin, reason, "a version that fails is not taken back");
                self.0.stage.unwatch(plugin, &watch.hash);
                true
            }
            Verdict::RollBack => {
                self.take_back(watch, boxes.iter(), *how).await;
                true
            }
        }
    }

    async fn before(&self, watch: &Watch) -> Result<Before, PluginError> {
        let line = self.0.versions.line(watch.name.as_str()).await?;
        if line.before().map(|before| before.hash) != Some(watch.loaded.hash) {
            return Ok(Before::Superseded);
        }
        Ok(match self.0.authority.admit(&watch.loaded) {
            Admission::ByHash | Admission::BySigner => Before::Stands,
            Admission::Block => Before::Blocked,
            Admission::Wait | Admission::Reject => Before::Unapproved,
        })
    }

    /// Puts the version before a failing one back, and says so.
    async fn take_back<'a>(
        &self,
        watch: &Watch,
        boxes: impl Iterator<Item = &'a BoxName>,
        how: Failing,
    ) {
        let plugin: &PluginName = &watch.name;
        let loaded = &watch.loaded;
        let (from, to) = (&watch.hash, &loaded.hash);
        let boxes: Vec<&str> = boxes.map(BoxName::as_str).collect();
        let told = format!(
            "by itself from {from}, which failed ({}) for {} boxes on requests where this one does not: {}",
            how.0,
            boxes.len(),
            boxes.join(", ")
        );
        let mut account = Account::of(loaded.hash);
        account.is_version(&loaded.manifest.version);
        account.note(Happening::RolledBack, told.as_str());
        let back = async {
            self.may_go_live(loaded)?;
            let line = self.0.versions.line(plugin.as_str()).await?;
            let kept = line.before().ok_or(LoadError::Unapproved)?;
            let offer = self.read_kept(kept).await?;
            let file = self.0.versions.path(&loaded.hash);
            self.go_back(&file, &offer, loaded, account).await
        };
        match back.await {
            Ok(()) => tracing::error!(%plugin, %from, %to, "{told}"),
            Err(error) => {
                tracing::error!(%plugin, %from, %to, %error, "a version that fails could not be taken back");
                self.0.stage.unwatch(plugin, from);
            }
        }
    }
}

fn not_tried(which: &str) -> PluginError {
    PluginError::NotTried(which.chars().take(80).collect())
}
