//! What goes over the admin socket, and what `--json` prints: types of their
//! own, with explicit conversions. Beside a new token or grant nothing here that
//! leaves the host is a secret; what comes in as a value has no `Debug`.

mod boxes;
mod credentials;
mod grants;
mod journal;
mod owned;
mod plugins;
mod secrets;
mod value;

use serde::{Deserialize, Serialize};

pub use boxes::{BoxView, CapabilityView, DeclarationView, EnvView, NewBox, Token, Variable};
pub use credentials::{CredentialView, NewCredential};
pub use grants::{GrantView, Issued, NewGrant};
pub use journal::{JournalQuery, PruneQuery, RecordView};
pub use owned::ThingView;
pub use plugins::{
    ApproveQuery, BlockedView, ChangeView, ComparisonView, DifferenceView, EventView, ExampleView,
    LoadQuery, PermissionView, PluginView, RollbackQuery, VersionView,
};
pub use secrets::{NewSecret, SecretView};
pub use value::Value;

/// The body of every answer that is not a 2xx.
#[derive(Debug, Serialize, Deserialize)]
pub struct Refused {
    /// What went wrong.
    pub error: Fault,
}

/// What went wrong.
#[derive(Debug, Serialize, Deserialize)]
pub struct Fault {
    /// The sort.
    #[serde(rename = "type")]
    pub kind: String,
    /// In words.
    pub message: String,
}

/// The running host.
#[derive(Debug, Serialize, Deserialize)]
pub struct Status {
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// The broker word it answers for.
    pub broker: String,
    /// The address it listens on.
    pub listen: String,
    /// The same as a URL.
    pub url: String,
}

/// That something was done.
#[derive(Debug, Serialize, Deserialize)]
pub struct Done {
    /// What was done, in words.
    pub done: String,
}
