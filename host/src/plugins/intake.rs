//! The way of a component from its bytes to going live: a look without running
//! it, code, what it says it is, who signed it, whether its prefixes are free,
//! what it asks for, and whose yes it has. Every step is an event of the
//! plugin's history, and what fails one leaves the live version as it was.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::plugins::authority::Authority;
use crate::plugins::error::LoadError;
use crate::plugins::hash::ComponentHash;
use crate::plugins::history::{Account, Happening};
use crate::plugins::load::{self, Loaded};
use crate::plugins::stage::Found;
use crate::plugins::status::{Change, LoadReport, Outcome, PluginState};
use crate::plugins::versions::{Kept, Line};
use crate::plugins::{Approve, Plugins};
use crate::rules::admission::Admission;
use crate::rules::names::PluginName;
use crate::rules::trial::Trial;
use crate::store::{Batch, Change as Stored, StoreError};

/// A component that came.
pub(crate) struct Offer {
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) signature: Option<String>,
    pub(crate) origin: Origin,
    /// How it is to be tried beside the live version, where it is.
    pub(crate) trial: Option<Trial>,
}

/// Where a component came from.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// A file of the plugins folder.
    File(PathBuf),
    /// Somebody handed it over, under this file's name.
    Handed(String),
    /// The versions that are kept; before that, this file or by hand.
    Kept(Kept),
}

/// When a component came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// The host starts: what lies there may have lain there before.
    Start(Approve),
    /// The host runs: somebody puts it there now.
    Running,
}

impl Origin {
    /// The path that it is known under.
    fn path(&self, plugins: &Plugins, hash: &ComponentHash) -> PathBuf {
        match self {
            Self::File(file) => file.clone(),
            Self::Handed(_) | Self::Kept(_) => plugins.0.versions.path(hash),
        }
    }

    /// The file of the plugins folder that it came in.
    fn file(&self) -> Option<PathBuf> {
        match self {
            Self::File(file) => Some(file.clone()),
            Self::Handed(_) => None,
            Self::Kept(kept) => kept.file.clone(),
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::File(file) => format!("from {}", file.display()),
            Self::Handed(name) => format!("handed over with `jackfield plugin load`, as {name}"),
            Self::Kept(_) => "from the versions that are kept".to_owned(),
        }
    }

    /// What to call it, where it cannot say it itself.
    fn stem(&self) -> String {
        let name = match self {
            Self::File(file) => file.clone(),
            Self::Handed(name) => PathBuf::from(name),
            Self::Kept(kept) => kept.file.clone().unwrap_or_default(),
        };
        let stem = name.file_stem().unwrap_or_default().to_string_lossy();
        match PluginName::parse(&stem) {
            Ok(name) => name.as_str().to_owned(),
            Err(_) => "unnamed".to_owned(),
        }
    }
}

impl Plugins {
    /// Takes a component through every step, and tells what became of it.
    pub(crate) async fn take_in(&self, offer: Offer, occasion: Occasion) -> LoadReport {
        let bytes = Arc::clone(&offer.bytes);
        let hash = tokio::task::spawn_blocking(move || ComponentHash::of(&bytes)).await;
        let hash = hash.unwrap_or_else(|_| ComponentHash::of(&offer.bytes));
        let file = offer.origin.path(self, &hash);
        let mut account = Account::of(hash);
        let size = offer.bytes.len();
        let from = offer.origin.describe();
        account.note(Happening::Found, format!("{size} bytes {from}"));
        // Outside the turn: no revocation waits for a compiler.
        let loaded = self.look_into(&offer, hash).await;
        let _turn = self.0.turn.lock().await;
        let admitted = match loaded {
            Ok(loaded) => {
                let version = loaded.manifest.version.clone();
                account.is_version(&version);
                self.admit(&file, &offer, &loaded, occasion, account).await
            }
            Err(error) => Err((error, account)),
        };
        match admitted {
            Ok(outcome) => LoadReport { file, outcome },
            Err((error, account)) => self.refuse(&file, &offer.origin, account, error).await,
        }
    }

    /// From bytes to a component that has said what it is, and who signed it.
    pub(crate) async fn look_into(
        &self,
        offer: &Offer,
        hash: ComponentHash,
    ) -> Result<Loaded, LoadError> {
        let inner = &self.0;
        if inner.authority.is_blocked(&hash) {
            return Err(LoadError::Blocked);
        }
        let bytes = Arc::clone(&offer.bytes);
        let mut loaded = load::load(&inner.machine, &inner.cache, hash, Arc::clone(&bytes)).await?;
        let policy = inner.settings.signatures.get(&loaded.manifest.name);
        if let Some(policy) = policy.cloned() {
            let signature = offer.signature.clone();
            let verified =
                tokio::task::spawn_blocking(move || policy.signer(&bytes, signature.as_deref()));
            let verified = verified
                .await
                .map_err(|cause| LoadError::Host(cause.to_string()))?;
            loaded.is.signer = verified?;
        }
        Ok(loaded)
    }

    /// Weighs a component and lets it go live, or wait.
    async fn admit(
        &self,
        file: &Path,
        offer: &Offer,
        loaded: &Loaded,
        occasion: Occasion,
        mut account: Account,
    ) -> Result<Outcome, (LoadError, Account)> {
        let inner = &self.0;
        let name = &loaded.manifest.name;
        if occasion == Occasion::Running && self.is_as_found(file, loaded) {
            return Ok(self.as_it_stands(file, loaded));
        }
        let line = match inner.versions.line(name.as_str()).await {
            Ok(line) => line,
            Err(error) => return Err((error.into(), account)),
        };
        let starts_again = occasion != Occasion::Running && line.live == Some(loaded.hash);
        if starts_again {
            account = Account::of(loaded.hash);
            account.is_version(&loaded.manifest.version);
        } else {
            self.tell_of(loaded, offer.signature.is_some(), &mut account);
        }
        if let Err(error) = self.has_room_for(file, offer, loaded) {
            return Err((error, account));
        }
        let mut admission = inner.authority.admit(loaded);
        if let Some(trial) = &offer.trial {
            let came = Came {
                file,
                offer,
                loaded,
                line,
            };
            return self.admit_trial(came, trial, admission, account).await;
        }
        if let Occasion::Start(Approve::All) = occasion
            && admission != Admission::Block
        {
            let at = jiff::Timestamp::now().to_string();
            let approval = Authority::approval(loaded, None, &at);
            if !admission.is_live() {
                account.note(Happening::Approved, "by `serve --approve-plugins`");
            }
            let approved = match approval {
                Ok(changes) => self.commit(changes).await,
                Err(error) => Err(error),
            };
            if let Err(error) = approved {
                return Err((error.into(), account));
            }
            admission = inner.authority.admit(loaded);
        }
        match admission {
            Admission::Block => Err((LoadError::Blocked, account)),
            Admission::Reject => {
                inner.stage.note(file, Found::Rejected(loaded.clone()));
                Ok(Outcome::Refused(LoadError::Rejected))
            }
            Admission::Wait => {
                let waits = self.let_wait(file, offer, loaded, line, &mut account);
                let waits = waits.await;
                waits.map_err(|error| (error, account))
            }
            Admission::ByHash | Admission::BySigner => {
                // What took its place before stays there over a restart.
                if occasion != Occasion::Running && line.was_live(&loaded.hash) {
                    inner.stage.note(file, Found::Admitted(loaded.clone()));
                    let status = self.status(file, loaded, PluginState::Replaced);
                    return Ok(Outcome::Replaced(status));
                }
                let told = match (starts_again, admission) {
                    (true, _) => "again, at the host's start".to_owned(),
                    (false, Admission::BySigner) => {
                        "its signer is approved, and it asks for no more".to_owned()
                    }
                    (false, _) => "its hash is approved".to_owned(),
                };
                account.note(Happening::Live, told);
                let live = self.go_live(file, offer, loaded, account, Vec::new()).await;
                live.map_err(|error| (error, Account::of(loaded.hash)))?;
                Ok(self.as_it_stands(file, loaded))
            }
        }
    }

    /// Where something is that somebody just touched, or offered again.
    fn as_it_stands(&self, file: &Path, loaded: &Loaded) -> Outcome {
        let status = |state| self.status(file, loaded, state);
        let live = self.0.stage.live_one(&loaded.manifest.name);
        if live.is_some_and(|(_, live)| live.hash == loaded.hash) {
            return Outcome::Live(status(PluginState::Live));
        }
        match self.0.stage.at(file) {
            Some(Found::Rejected(_)) => Outcome::Refused(LoadError::Rejected),
            Some(Found::Admitted(_)) => Outcome::Replaced(status(PluginState::Replaced)),
            Some(Found::Refused(_)) => Outcome::Refused(LoadError::Blocked),
            Some(Found::Waiting(_)) | None => Outcome::Waiting(status(PluginState::Waiting)),
        }
    }

    /// Whether a file holds what it held when it was last looked at. A version
    /// that is handed over is always meant.
    fn is_as_found(&self, file: &Path, loaded: &Loaded) -> bool {
        if file.starts_with(&self.0.settings.versions_dir) {
            return false;
        }
        let found = self.0.stage.at(file);
        let before = found.as_ref().and_then(Found::loaded);
        before.is_some_and(|before| before.hash == loaded.hash && before.signer == loaded.signer)
    }

    fn tell_of(&self, loaded: &Loaded, has_signature: bool, account: &mut Account) {
        let signed = match (&loaded.signer, has_signature) {
            (Some(key), _) => format!("signed by the trusted key {key}"),
            (None, true) => "signed, but by no key that is trusted for it".to_owned(),
            (None, false) => "not signed".to_owned(),
        };
        account.note(Happening::Signature, signed);
        let live = self.0.stage.live_one(&loaded.manifest.name);
        let (text, more, less) = match live {
            Some((_, live)) => {
                let change = Change::between(&live, loaded);
                let text = |of: &[_]| of.iter().map(ToString::to_string).collect::<Vec<_>>();
                let (more, less) = (text(&change.more), text(&change.less));
                let told = match (more.is_empty(), less.is_empty()) {
                    (true, true) => "as much as",
                    (true, false) => "less than",
                    (false, _) => "more than",
                };
                let told = format!("{told} the live version {} may", change.version);
                (told, more, less)
            }
            None => {
                let all = crate::rules::permission::Permission::of(&loaded.manifest);
                let all = all.iter().map(ToString::to_string).collect();
                ("no version of it is live".to_owned(), all, Vec::new())
            }
        };
        account.note_change(Happening::Asks, text, more, less);
    }

    fn has_room_for(&self, file: &Path, offer: &Offer, loaded: &Loaded) -> Result<(), LoadError> {
        let name = &loaded.manifest.name;
        if let Origin::File(_) = offer.origin
            && let Some(other) = self.0.stage.also_at(name, file)
            && !other.starts_with(&self.0.settings.versions_dir)
        {
            return Err(LoadError::SameName(name.clone()));
        }
        self.live()
            .has_room_for(&loaded.manifest, &self.0.settings.reserved)
    }

    pub(crate) async fn let_wait(
        &self,
        file: &Path,
        offer: &Offer,
        loaded: &Loaded,
        line: Line,
        account: &mut Account,
    ) -> Result<Outcome, LoadError> {
        let name = loaded.manifest.name.as_str();
        let kept = kept(offer, loaded);
        if line.waits.as_ref() != Some(&kept) {
            account.note(
                Happening::Waits,
                format!("for `jackfield plugin approve {name}`"),
            );
            let mut now = line.clone();
            now.waits = Some(kept);
            let account = std::mem::take(account);
            self.keep(offer, loaded, &line, &now, account, Vec::new())
                .await?;
        }
        self.0.stage.note(file, Found::Waiting(loaded.clone()));
        let status = self.status(file, loaded, PluginState::Waiting);
        Ok(Outcome::Waiting(status))
    }

    /// Tells a refusal: to the plugin's history, to whoever lists, to the caller.
    pub(crate) async fn refuse(
        &self,
        file: &Path,
        origin: &Origin,
        mut account: Account,
        error: LoadError,
    ) -> LoadReport {
        let name = match self.0.stage.name_at(file) {
            Some(name) => name.as_str().to_owned(),
            None => self
                .name_in_lines(file)
                .await
                .unwrap_or_else(|| origin.stem()),
        };
        account.note(Happening::Refused, error.to_string());
        let told = match self.0.history.append(&name, account).await {
            Ok(changes) => self.commit(changes).await,
            Err(error) => Err(error),
        };
        if let Err(error) = told {
            tracing::error!(%error, plugin = %name, "its history cannot be written");
        }
        if let Origin::File(_) = origin {
            self.0.stage.note(file, Found::Refused(error.to_string()));
        }
        LoadReport::refused(file, error)
    }

    /// The plugin whose live version came in this file.
    async fn name_in_lines(&self, file: &Path) -> Option<String> {
        let lines = self.0.versions.lines().await.ok()?;
        lines.into_iter().find_map(|(name, line)| {
            let mut kept = line.kept.iter();
            let is_there = kept.any(|kept| kept.file.as_deref() == Some(file));
            is_there.then_some(name)
        })
    }

    pub(crate) async fn commit(&self, changes: Vec<Stored>) -> Result<(), StoreError> {
        let batch = Batch {
            conditions: Vec::new(),
            changes,
        };
        self.0.authority.commit(batch).await
    }
}

/// A component on its way in.
pub(crate) struct Came<'a> {
    pub(crate) file: &'a Path,
    pub(crate) offer: &'a Offer,
    pub(crate) loaded: &'a Loaded,
    /// What is kept of its plugin.
    pub(crate) line: Line,
}

pub(crate) fn kept(offer: &Offer, loaded: &Loaded) -> Kept {
    Kept {
        hash: loaded.hash,
        version: loaded.manifest.version.clone(),
        file: offer.origin.file(),
        trial: offer.trial.clone(),
    }
}
