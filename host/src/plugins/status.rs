//! What loading a folder came to, for people and for `plugin list`.

use std::path::{Path, PathBuf};

use crate::plugins::error::LoadError;
use crate::plugins::hash::ComponentHash;
use crate::plugins::load::Loaded;
use crate::rules::permission::{Grants, Permission};
use crate::rules::signature::KeyId;
use crate::rules::trial::Trial;

/// What became of one file, or of the folder.
#[derive(Debug)]
pub struct LoadReport {
    /// The file or folder.
    pub file: PathBuf,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a file.
#[derive(Debug)]
pub enum Outcome {
    /// It is live.
    Live(PluginStatus),
    /// It waits for `jackfield plugin approve NAME`.
    Waiting(PluginStatus),
    /// It is tried beside the live version.
    Tried(PluginStatus),
    /// It could go live, and a version that took its place before is.
    Replaced(PluginStatus),
    /// It is not loaded.
    Refused(LoadError),
}

impl Outcome {
    /// Why it was not loaded, where it was not.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Refused(error) => Some(error.to_string()),
            Self::Live(_) | Self::Waiting(_) | Self::Tried(_) | Self::Replaced(_) => None,
        }
    }
}

impl LoadReport {
    /// Tells the log, of what came while nobody was looking.
    pub(crate) fn log(&self) {
        let file = self.file.display();
        match &self.outcome {
            Outcome::Live(status) => tracing::info!(plugin = %status.name(), %file, "is live"),
            Outcome::Waiting(status) => {
                let plugin = status.name();
                tracing::warn!(%plugin, %file, "waits for `jackfield plugin approve {plugin}`");
            }
            Outcome::Tried(status) => {
                tracing::info!(plugin = %status.name(), %file, "is tried beside the live version");
            }
            Outcome::Replaced(status) => {
                tracing::info!(plugin = %status.name(), %file, "stays replaced by another version");
            }
            Outcome::Refused(error) => tracing::warn!(%file, %error, "a plugin is not loaded"),
        }
    }

    pub(crate) fn refused(file: &Path, error: LoadError) -> Self {
        Self {
            file: file.to_owned(),
            outcome: Outcome::Refused(error),
        }
    }
}

/// Where a plugin stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginState {
    /// It answers requests.
    Live,
    /// It is asked what the live version is asked, and nothing it says is done.
    Shadow,
    /// It serves these boxes, or this share of all.
    Canary(String),
    /// It waits for the operator.
    Waiting,
    /// The operator turned it down.
    Rejected,
    /// It was live, and another version is.
    Replaced,
    /// It is not loaded, for this reason.
    Refused(String),
}

/// A plugin that was found, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginStatus {
    /// Where it was found.
    pub file: PathBuf,
    /// Where it stands.
    pub state: PluginState,
    /// What it says it is; none when it was refused.
    pub about: Option<About>,
}

/// What a plugin says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its capability.
    pub capability: String,
    /// What it is for.
    pub summary: String,
    /// Which component it is.
    pub hash: ComponentHash,
    /// The trusted key that signed it.
    pub signer: Option<KeyId>,
    /// Against the version that is live, where another one is.
    pub change: Option<Change>,
    /// What it asks for.
    pub permissions: Vec<Permission>,
    /// What `[plugins.NAME] grant` lists that it does not ask for.
    pub unused_grants: Vec<Permission>,
    /// WASI interfaces that it imports, and gets inert; most import none.
    pub inert_imports: Vec<String>,
}

/// How a version differs from the one that is live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The live one's version.
    pub version: String,
    /// The live one.
    pub hash: ComponentHash,
    /// What it asks for that the live one does not.
    pub more: Vec<Permission>,
    /// What the live one asks for that it does not.
    pub less: Vec<Permission>,
}

impl From<&Trial> for PluginState {
    fn from(trial: &Trial) -> Self {
        match trial {
            Trial::Shadow => Self::Shadow,
            Trial::Canary(share) => Self::Canary(share.to_string()),
        }
    }
}

impl Change {
    pub(crate) fn between(live: &Loaded, next: &Loaded) -> Self {
        let (before, after) = (
            Permission::of(&live.manifest),
            Permission::of(&next.manifest),
        );
        Self {
            version: live.manifest.version.clone(),
            hash: live.hash,
            more: after.difference(&before).cloned().collect(),
            less: before.difference(&after).cloned().collect(),
        }
    }
}

impl PluginStatus {
    /// Its name; the file's when nobody could ask it.
    #[must_use]
    pub fn name(&self) -> String {
        let stem = || self.file.file_stem().unwrap_or(self.file.as_os_str());
        self.about.as_ref().map_or_else(
            || stem().to_string_lossy().into_owned(),
            |about| about.name.clone(),
        )
    }

    pub(crate) fn of(
        file: &Path,
        loaded: &Loaded,
        live: Option<&Loaded>,
        grants: &Grants,
        state: PluginState,
    ) -> Self {
        let live = live.filter(|live| live.hash != loaded.hash);
        let manifest = &loaded.manifest;
        Self {
            file: file.to_owned(),
            state,
            about: Some(About {
                name: manifest.name.as_str().to_owned(),
                version: manifest.version.clone(),
                capability: manifest.capability.as_str().to_owned(),
                summary: manifest.summary.clone(),
                hash: loaded.hash,
                signer: loaded.signer.clone(),
                change: live.map(|live| Change::between(live, loaded)),
                permissions: Permission::of(manifest).into_iter().collect(),
                unused_grants: grants.unused(),
                inert_imports: loaded.inert_imports.clone(),
            }),
        }
    }

    pub(crate) fn refused(file: &Path, reason: String) -> Self {
        Self {
            file: file.to_owned(),
            state: PluginState::Refused(reason),
            about: None,
        }
    }
}
