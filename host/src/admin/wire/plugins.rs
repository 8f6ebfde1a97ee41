//! Plugins on the wire.

use serde::{Deserialize, Serialize};

use crate::plugins::{PluginState, PluginStatus};
use crate::rules::permission::Permission;

/// A component of the plugins folder.
#[derive(Debug, Serialize, Deserialize)]
pub struct PluginView {
    /// Its name; the file's when nobody could ask it.
    pub name: String,
    /// Where it was found.
    pub file: String,
    /// `live`, `waiting` or `refused`.
    pub state: String,
    /// Why it is refused.
    pub reason: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// The capability it serves.
    pub capability: Option<String>,
    /// What it is for.
    pub summary: Option<String>,
    /// The hash that an approval belongs to.
    pub hash: Option<String>,
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
            PluginState::Waiting => ("waiting", None),
            PluginState::Refused(reason) => ("refused", Some(reason.clone())),
        };
        let mut view = Self {
            name: status.name(),
            file: status.file.display().to_string(),
            state: state.to_owned(),
            reason,
            version: None,
            capability: None,
            summary: None,
            hash: None,
            permissions: Vec::new(),
            unused_grants: Vec::new(),
            inert_imports: Vec::new(),
        };
        if let Some(about) = status.about {
            view.version = Some(about.version);
            view.capability = Some(about.capability);
            view.summary = Some(about.summary);
            view.hash = Some(about.hash.to_string());
            view.permissions = about.permissions.iter().map(Into::into).collect();
            let unused = about.unused_grants.iter();
            view.unused_grants = unused.map(ToString::to_string).collect();
            view.inert_imports = about.inert_imports;
        }
        view
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
