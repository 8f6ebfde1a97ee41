//! Plugins on the wire.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plugins::{
    Blocked, Change, Comparison, ComponentHash, PastEvent, PluginState, PluginStatus,
};
use crate::rules::compare::{Difference, Example};
use crate::rules::permission::Permission;

/// A component that is handed over, beside its bytes.
#[derive(Debug, Serialize, Deserialize)]
pub struct LoadQuery {
    /// The name of its file.
    pub file: String,
    /// Its signature, as text.
    pub signature: Option<String>,
    /// Whether it is asked what the live version is asked, and not heeded.
    #[serde(default)]
    pub shadow: bool,
    /// The boxes that it serves first.
    pub canary: Option<String>,
}

/// How to approve.
#[derive(Debug, Serialize, Deserialize)]
pub struct ApproveQuery {
    /// Whether its signer is approved, too.
    #[serde(default)]
    pub signer: bool,
}

/// Where to go back to.
#[derive(Debug, Serialize, Deserialize)]
pub struct RollbackQuery {
    /// The hash, or how it begins.
    pub to: Option<String>,
}

/// A hash that is blocked.
#[derive(Debug, Serialize, Deserialize)]
pub struct BlockedView {
    /// The hash.
    pub hash: String,
    /// Since when.
    pub since: String,
    /// The plugin that it is, where that is known.
    pub plugin: Option<String>,
}

/// An event of a plugin's history.
#[derive(Debug, Serialize, Deserialize)]
pub struct EventView {
    /// When.
    pub at: String,
    /// What, in a word.
    pub happened: String,
    /// To which component.
    pub hash: Option<String>,
    /// Which version it says it is.
    pub version: Option<String>,
    /// The rest, in words.
    pub text: String,
    /// What it asks for that the live version did not.
    pub more: Vec<String>,
    /// What the live version asked for that it does not.
    pub less: Vec<String>,
}

/// How a version differs from the one that is live.
#[derive(Debug, Serialize, Deserialize)]
pub struct ChangeView {
    /// The live one's version.
    pub version: String,
    /// The live one.
    pub hash: String,
    /// What it asks for that the live one does not.
    pub more: Vec<PermissionView>,
    /// What the live one asks for that it does not.
    pub less: Vec<PermissionView>,
}

/// A version of a plugin.
#[derive(Debug, Serialize, Deserialize)]
pub struct PluginView {
    /// Its name; the file's when nobody could ask it.
    pub name: String,
    /// Where it was found.
    pub file: String,
    /// `live`, `shadow`, `canary`, `waiting`, `rejected`, `replaced` or
    /// `refused`.
    pub state: String,
    /// Why it is refused.
    pub reason: Option<String>,
    /// The boxes that it serves, where it serves some alone: a percentage, or
    /// their names.
    #[serde(default)]
    pub boxes: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The capability it serves.
    pub capability: Option<String>,
    /// What it is for.
    pub summary: Option<String>,
    /// The hash that an approval belongs to.
    pub hash: Option<String>,
    /// The trusted key that signed it.
    #[serde(default)]
    pub signer: Option<String>,
    /// Against the version that is live, where another one is.
    #[serde(default)]
    pub change: Option<ChangeView>,
    /// What it asks for.
    pub permissions: Vec<PermissionView>,
    /// What its `grant` lists that it does not ask for.
    pub unused_grants: Vec<String>,
    /// WASI interfaces that it imports, and gets inert.
    pub inert_imports: Vec<String>,
}

/// One thing that a plugin may do.
#[derive(Debug, Serialize, Deserialize)]
pub struct PermissionView {
    /// As a grant writes it.
    pub permission: String,
    /// What it means.
    pub means: String,
}

impl From<PluginStatus> for PluginView {
    fn from(status: PluginStatus) -> Self {
        let (state, reason) = match &status.state {
            PluginState::Live => ("live", None),
            PluginState::Shadow => ("shadow", None),
            PluginState::Canary(_) => ("canary", None),
            PluginState::Waiting => ("waiting", None),
            PluginState::Rejected => ("rejected", None),
            PluginState::Replaced => ("replaced", None),
            PluginState::Refused(reason) => ("refused", Some(reason.clone())),
        };
        let boxes = match &status.state {
            PluginState::Canary(share) => Some(share.clone()),
            PluginState::Live
            | PluginState::Shadow
            | PluginState::Waiting
            | PluginState::Rejected
            | PluginState::Replaced
            | PluginState::Refused(_) => None,
        };
        let mut view = Self {
            boxes,
            name: status.name(),
            file: status.file.display().to_string(),
            state: state.to_owned(),
            reason,
            version: None,
            capability: None,
            summary: None,
            hash: None,
            signer: None,
            change: None,
            permissions: Vec::new(),
            unused_grants: Vec::new(),
            inert_imports: Vec::new(),
        };
        if let Some(about) = status.about {
            view.version = Some(about.version);
            view.capability = Some(about.capability);
            view.summary = Some(about.summary);
            view.hash = Some(about.hash.to_string());
            view.signer = about.signer.as_ref().map(ToString::to_string);
            view.change = about.change.as_ref().map(Into::into);
            view.permissions = about.permissions.iter().map(Into::into).collect();
            let unused = about.unused_grants.iter();
            view.unused_grants = unused.map(ToString::to_string).collect();
            view.inert_imports = about.inert_imports;
        }
        view
    }
}

impl From<&Change> for ChangeView {
    fn from(change: &Change) -> Self {
        Self {
            version: change.version.clone(),
            hash: change.hash.to_string(),
            more: change.more.iter().map(Into::into).collect(),
            less: change.less.iter().map(Into::into).collect(),
        }
    }
}

impl From<PastEvent> for EventView {
    fn from(event: PastEvent) -> Self {
        Self {
            at: event.at,
            happened: event.happened,
            hash: event.hash,
            version: event.version,
            text: event.text,
            more: event.more,
            less: event.less,
        }
    }
}

impl From<Blocked> for BlockedView {
    fn from(blocked: Blocked) -> Self {
        Self {
            hash: blocked.hash.to_string(),
            since: blocked.since,
            plugin: blocked.name,
        }
    }
}

/// How a shadow went together with the live version.
#[derive(Debug, Serialize, Deserialize)]
pub struct ComparisonView {
    /// The plugin.
    pub plugin: String,
    /// The live version.
    pub live: VersionView,
    /// The shadow.
    pub shadow: VersionView,
    /// Requests that both decided.
    pub compared: u64,
    /// Of these, those on which they differed.
    pub differing: u64,
    /// Requests on which the shadow was not asked: it was behind.
    pub skipped: u64,
    /// On how many they differed in what.
    pub kinds: BTreeMap<String, u64>,
    /// What the shadow asks to be shown and the live version is not.
    pub unseen: Vec<PermissionView>,
    /// Some of the requests on which they differed.
    pub examples: Vec<ExampleView>,
}

/// Which version.
#[derive(Debug, Serialize, Deserialize)]
pub struct VersionView {
    /// What it calls itself.
    pub version: String,
    /// Its hash.
    pub hash: String,
}

/// A request on which two versions differed.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExampleView {
    /// The box; none on a public route.
    #[serde(rename = "box")]
    pub box_name: Option<String>,
    /// The method.
    pub method: String,
    /// The path, without its query.
    pub path: String,
    /// In what they differed.
    pub differences: Vec<DifferenceView>,
}

/// A difference.
#[derive(Debug, Serialize, Deserialize)]
pub struct DifferenceView {
    /// In what.
    pub kind: String,
    /// What the live version says.
    pub live: String,
    /// What the shadow says.
    pub shadow: String,
}

impl From<Comparison> for ComparisonView {
    fn from(comparison: Comparison) -> Self {
        let version = |(version, hash): (String, ComponentHash)| VersionView {
            version,
            hash: hash.to_string(),
        };
        let tally = comparison.tally;
        let kinds = tally.kinds.into_iter();
        let difference = |found: Difference| DifferenceView {
            kind: found.kind.word().to_owned(),
            live: found.live,
            shadow: found.other,
        };
        let example = |example: Example| ExampleView {
            box_name: example.box_name,
            method: example.method,
            path: example.path,
            differences: example.differences.into_iter().map(difference).collect(),
        };
        Self {
            plugin: comparison.name,
            live: version(comparison.live),
            shadow: version(comparison.shadow),
            compared: tally.compared,
            differing: tally.differing,
            skipped: tally.skipped,
            kinds: kinds
                .map(|(kind, count)| (kind.word().to_owned(), count))
                .collect(),
            unseen: comparison.unseen.iter().map(Into::into).collect(),
            examples: tally.examples.into_iter().map(example).collect(),
        }
    }
}

impl From<&Permission> for PermissionView {
    fn from(permission: &Permission) -> Self {
        Self {
            permission: permission.to_string(),
            means: permission.describe(),
        }
    }
}
