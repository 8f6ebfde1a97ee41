//! What the operator says about plugins while the host runs: yes, no, no
//! longer, back to an earlier one, and never again.

use crate::plugins::authority::Authority;
use crate::plugins::error::{LoadError, PluginError};
use crate::plugins::hash::ComponentHash;
use crate::plugins::history::{Account, Happening, PastEvent};
use crate::plugins::intake::{Came, Offer, Origin};
use crate::plugins::load::Loaded;
use crate::plugins::stage::Found;
use crate::plugins::status::{PluginState, PluginStatus};
use crate::plugins::versions::{Kept, Line};
use crate::plugins::{Plugins, folder};
use crate::rules::admission::Admission;
use crate::rules::signature::KeyId;

/// An approval that was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoked {
    /// The name that the component was approved under.
    pub name: String,
    /// The component.
    pub hash: ComponentHash,
    /// The signers that were approved under that name, and no longer are.
    pub signers: Vec<KeyId>,
    /// Other components that are still approved under that name.
    pub others: Vec<ComponentHash>,
}

/// A hash that runs nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The component.
    pub hash: ComponentHash,
    /// Since when.
    pub since: String,
    /// The plugin that it is, where that is known.
    pub name: Option<String>,
}

impl Plugins {
    /// Approves the version that waits under a name, or has a hash, and lets it
    /// go live; with `signer` also every later one that the same key signs and
    /// that asks for no more.
    ///
    /// # Errors
    /// When none waits, its prefixes are taken, or nobody signed it.
    pub async fn approve(&self, which: &str, signer: bool) -> Result<PluginStatus, PluginError> {
        let _turn = self.0.turn.lock().await;
        let (file, loaded) = self.the_waiting(which)?;
        let name = loaded.manifest.name.as_str();
        let not_accepted = |reason| PluginError::NotAccepted {
            name: name.to_owned(),
            reason: Box::new(reason),
        };
        self.live()
            .has_room_for(&loaded.manifest, &self.0.settings.reserved)
            .map_err(not_accepted)?;
        let key = match (signer, &loaded.signer) {
            (false, _) => None,
            (true, Some(key)) => Some(key),
            (true, None) => return Err(PluginError::NoSigner(name.to_owned())),
        };
        let mut offer = self.bytes_of(&file, &loaded).await.map_err(not_accepted)?;
        let at = jiff::Timestamp::now().to_string();
        let approval = Authority::approval(&loaded, key, &at)?;
        let mut account = Account::of(loaded.hash);
        account.is_version(&loaded.manifest.version);
        let told = match key {
            Some(key) => format!("by the operator, with what {key} signs and asks for no more"),
            None => "by the operator".to_owned(),
        };
        account.note(Happening::Approved, told);
        let line = self.0.versions.line(name).await?;
        let waits = line
            .waits
            .as_ref()
            .filter(|waits| waits.hash == loaded.hash);
        if let Some(trial) = waits.and_then(|waits| waits.trial.clone()) {
            offer.trial = Some(trial.clone());
            let came = Came {
                file: &file,
                offer: &offer,
                loaded: &loaded,
                line,
            };
            let begun = self.begin_trial(came, &trial, account, approval);
            begun.await.map_err(not_accepted)?;
            return Ok(self.status(&file, &loaded, PluginState::from(&trial)));
        }
        account.note(Happening::Live, "its hash is approved");
        let live = self.go_live(&file, &offer, &loaded, account, approval);
        live.await.map_err(not_accepted)?;
        let live = self.0.stage.live_one(&loaded.manifest.name);
        if live.is_some_and(|(_, live)| live.hash == loaded.hash) {
            return Ok(self.status(&file, &loaded, PluginState::Live));
        }
        Err(PluginError::NotApproved(name.to_owned()))
    }

    /// Turns down the version that waits under a name, or has a hash; where
    /// none waits, the one that is tried.
    ///
    /// # Errors
    /// When there is none.
    pub async fn reject(&self, which: &str) -> Result<PluginStatus, PluginError> {
        let _turn = self.0.turn.lock().await;
        if self.0.stage.waiting(which).is_empty()
            && let Some(tried) = self.0.stage.tried_as(which)
        {
            return self.drop_tried(tried).await;
        }
        let (file, loaded) = self.the_waiting(which)?;
        let name = loaded.manifest.name.as_str();
        let mut account = Account::of(loaded.hash);
        account.is_version(&loaded.manifest.version);
        account.note(Happening::Rejected, "by the operator");
        let at = jiff::Timestamp::now().to_string();
        let mut changes = vec![Authority::rejection(&loaded.hash, &at)?];
        changes.extend(self.0.history.append(name, account).await?);
        self.commit(changes).await?;
        self.0.stage.note(&file, Found::Rejected(loaded.clone()));
        Ok(self.status(&file, &loaded, PluginState::Rejected))
    }

    /// Takes an approval back, by the component's hash or the plugin's name,
    /// and with it those of the name's signers. The component goes out of use
    /// at once, what it had relayed is cut, and it waits until somebody
    /// approves it again.
    ///
    /// # Errors
    /// When nothing is approved under that, or several are and none is live.
    pub async fn revoke(&self, which: &str) -> Result<Revoked, PluginError> {
        let _turn = self.0.turn.lock().await;
        let hash = self.approved_as(which)?;
        let authority = &self.0.authority;
        let not_approved = || PluginError::NotApproved(which.to_owned());
        let by_hash = authority.name_of(&hash);
        let found = self.0.stage.name_of(&hash).map(|name| name.to_string());
        let name = by_hash.clone().or(found).ok_or_else(not_approved)?;
        let signers = authority.signers_of(&name);
        if by_hash.is_none() && signers.is_empty() {
            return Err(not_approved());
        }
        let mut account = Account::of(hash);
        account.note(
            Happening::Revoked,
            "by the operator; what it had open is cut",
        );
        let mut changes = Authority::withdrawal(&hash, &name, &signers);
        changes.extend(self.0.history.append(&name, account).await?);
        self.commit(changes).await?;
        let others = authority.named(&name);
        Ok(Revoked {
            name,
            hash,
            signers,
            others,
        })
    }

    /// Lets a version that was live before take the live one's place: the one
    /// before it, or the one of this hash, or of a hash that begins so.
    ///
    /// # Errors
    /// When there is none, or it may not go live any more.
    pub async fn rollback(
        &self,
        name: &str,
        to: Option<&str>,
    ) -> Result<PluginStatus, PluginError> {
        let line = self.0.versions.line(name).await?;
        let target = self.target(name, &line, to)?;
        let hash = target.hash.to_string();
        let not_back = |reason| PluginError::NotBack {
            name: name.to_owned(),
            hash: hash.clone(),
            reason: Box::new(reason),
        };
        let looked = match self.read_kept(&target).await {
            Ok(offer) => match self.look_into(&offer, target.hash).await {
                Ok(loaded) => Ok((offer, loaded)),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        let _turn = self.0.turn.lock().await;
        let mut account = Account::of(target.hash);
        account.is_version(&target.version);
        let from = line
            .live
            .map_or_else(String::new, |live| format!(" from {live}"));
        let gone = match looked {
            Ok((offer, loaded)) => match self.may_go_live(&loaded) {
                Ok(()) => {
                    let told = format!("by the operator{from}");
                    account.note(Happening::RolledBack, told);
                    let file = self.0.versions.path(&target.hash);
                    let live = self.go_back(&file, &offer, &loaded, account);
                    live.await.map_err(not_back)?;
                    return Ok(self.status(&file, &loaded, PluginState::Live));
                }
                Err(error) => error,
            },
            Err(error) => error,
        };
        account.note(Happening::Refused, format!("to go back to it: {gone}"));
        let changes = self.0.history.append(name, account).await?;
        self.commit(changes).await?;
        Err(not_back(gone))
    }

    /// Blocks a hash: it is refused wherever it comes from, and stopped where
    /// it is live. True when it was live.
    ///
    /// # Errors
    /// When that cannot be kept.
    pub async fn block(&self, hash: &ComponentHash) -> Result<bool, PluginError> {
        let _turn = self.0.turn.lock().await;
        let is_live = |plugins: &Self| {
            let live = plugins.live();
            live.plugins().iter().any(|plugin| plugin.hash() == hash)
        };
        let was_live = is_live(self);
        let at = jiff::Timestamp::now().to_string();
        let mut changes = vec![Authority::block(hash, &at)?];
        let told = match was_live {
            true => "by the operator; it was live, and what it had open is cut",
            false => "by the operator",
        };
        changes.extend(self.told_of(hash, Happening::Blocked, told).await?);
        self.commit(changes).await?;
        Ok(was_live)
    }

    /// Takes a block back. What of it lies in the folder is looked at again.
    ///
    /// # Errors
    /// When the hash is not blocked.
    pub async fn unblock(&self, hash: &ComponentHash) -> Result<(), PluginError> {
        let _turn = self.0.turn.lock().await;
        if !self.0.authority.is_blocked(hash) {
            return Err(PluginError::NotBlocked(hash.to_string()));
        }
        let mut changes = vec![Authority::unblock(hash)];
        let told = "by the operator";
        changes.extend(self.told_of(hash, Happening::Unblocked, told).await?);
        self.commit(changes).await?;
        for file in self.0.stage.refused() {
            self.watch().give_back(&file);
        }
        Ok(())
    }

    /// The hashes that are blocked.
    pub async fn blocked(&self) -> Result<Vec<Blocked>, PluginError> {
        let mut all = Vec::new();
        for (hash, since) in self.0.authority.blocked() {
            let name = self.name_of(&hash).await?;
            all.push(Blocked { hash, since, name });
        }
        Ok(all)
    }

    /// What happened to the versions of a plugin, oldest first.
    ///
    /// # Errors
    /// When nothing of that name was ever found.
    pub async fn history(&self, name: &str) -> Result<Vec<PastEvent>, PluginError> {
        let events = self.0.history.read(name).await?;
        if events.is_empty() {
            return Err(PluginError::Unknown(name.chars().take(80).collect()));
        }
        Ok(events)
    }

    /// Whether a version may go live by what stands now.
    pub(crate) fn may_go_live(&self, loaded: &Loaded) -> Result<(), LoadError> {
        self.live()
            .has_room_for(&loaded.manifest, &self.0.settings.reserved)?;
        match self.0.authority.admit(loaded) {
            Admission::ByHash | Admission::BySigner => Ok(()),
            Admission::Wait => Err(LoadError::Unapproved),
            Admission::Reject => Err(LoadError::Rejected),
            Admission::Block => Err(LoadError::Blocked),
        }
    }

    fn target(&self, name: &str, line: &Line, to: Option<&str>) -> Result<Kept, PluginError> {
        let shown: String = name.chars().take(80).collect();
        if line.kept.is_empty() && !self.0.stage.knows(name) {
            return Err(PluginError::Unknown(shown));
        }
        let Some(to) = to else {
            let before = line.before().cloned();
            return before.ok_or(PluginError::NoVersion { name: shown });
        };
        let mut meant = line.kept.iter().filter(|kept| {
            let hash = kept.hash.to_string();
            hash.starts_with(&to.to_ascii_lowercase())
        });
        match (meant.next(), meant.next()) {
            (Some(kept), None) => Ok(kept.clone()),
            (_, _) => Err(PluginError::NotKept {
                name: shown,
                hash: to.chars().take(80).collect(),
                kept: line
                    .kept
                    .iter()
                    .map(|kept| format!("{} ({})", kept.hash, kept.version))
                    .collect::<Vec<_>>()
                    .join(", "),
            }),
        }
    }

    fn the_waiting(&self, which: &str) -> Result<(std::path::PathBuf, Loaded), PluginError> {
        let shown: String = which.chars().take(80).collect();
        let mut waiting = self.0.stage.waiting(which);
        let hashes: std::collections::BTreeSet<_> =
            waiting.iter().map(|(_, loaded)| loaded.hash).collect();
        match (waiting.pop(), hashes.len()) {
            (Some(one), 1) => Ok(one),
            (Some(_), _) => Err(PluginError::SeveralWait {
                name: shown,
                hashes: join(hashes.iter()),
            }),
            (None, _) if self.0.stage.knows(which) => Err(PluginError::NotWaiting(shown)),
            (None, _) => Err(PluginError::Unknown(shown)),
        }
    }

    /// The bytes of a version that was found, which are what they were.
    async fn bytes_of(&self, file: &std::path::Path, loaded: &Loaded) -> Result<Offer, LoadError> {
        let path = self.0.versions.path(&loaded.hash);
        let is_kept = file == path;
        let kept = Kept {
            hash: loaded.hash,
            version: loaded.manifest.version.clone(),
            file: (!is_kept).then(|| file.to_owned()),
            trial: None,
        };
        if let Ok(offer) = self.read_kept(&kept).await {
            return Ok(offer);
        }
        let (file, hash) = (file.to_owned(), loaded.hash);
        let read = tokio::task::spawn_blocking(move || {
            let bytes = folder::read(&file)?;
            if ComponentHash::of(&bytes) != hash {
                return Err(LoadError::Changed);
            }
            let signature = folder::read_signature(&file)?;
            Ok(Offer {
                bytes: std::sync::Arc::new(bytes),
                signature,
                origin: Origin::File(file),
                trial: None,
            })
        });
        let read = read
            .await
            .map_err(|cause| LoadError::Host(cause.to_string()));
        read.and_then(|read| read)
    }

    /// The component that a hash or a name means: under a name the one that is
    /// live, else the only one that is approved.
    fn approved_as(&self, which: &str) -> Result<ComponentHash, PluginError> {
        if let Some(hash) = ComponentHash::parse(which) {
            return Ok(hash);
        }
        let live = self.live();
        let live = live
            .plugins()
            .iter()
            .find(|plugin| plugin.manifest().name.as_str() == which);
        if let Some(plugin) = live {
            return Ok(*plugin.hash());
        }
        let shown: String = which.chars().take(80).collect();
        match self.0.authority.named(which).as_slice() {
            [only] => Ok(*only),
            [] if self.0.stage.knows(which) => Err(PluginError::NotApproved(shown)),
            [] => Err(PluginError::Unknown(shown)),
            several => Err(PluginError::Several {
                name: shown,
                hashes: join(several.iter()),
            }),
        }
    }

    /// The changes that tell a component's plugin what happened to it, where it
    /// is known whose it is.
    async fn told_of(
        &self,
        hash: &ComponentHash,
        happened: Happening,
        text: &str,
    ) -> Result<Vec<crate::store::Change>, PluginError> {
        let Some(name) = self.name_of(hash).await? else {
            return Ok(Vec::new());
        };
        let mut account = Account::of(*hash);
        account.note(happened, text);
        Ok(self.0.history.append(&name, account).await?)
    }

    async fn name_of(&self, hash: &ComponentHash) -> Result<Option<String>, PluginError> {
        if let Some(name) = self.0.stage.name_of(hash) {
            return Ok(Some(name.as_str().to_owned()));
        }
        if let Some(name) = self.0.authority.name_of(hash) {
            return Ok(Some(name));
        }
        let lines = self.0.versions.lines().await?;
        let of = |line: &Line| line.kept.iter().any(|kept| kept.hash == *hash);
        let found = lines.into_iter().find(|(_, line)| of(line));
        Ok(found.map(|(name, _)| name))
    }
}

fn join<'a>(hashes: impl Iterator<Item = &'a ComponentHash>) -> String {
    let hashes: Vec<String> = hashes.map(ToString::to_string).collect();
    hashes.join(" or ")
}
