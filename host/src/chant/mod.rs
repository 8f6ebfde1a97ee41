//! The chant broker protocol: declarations, the rule, callers, the route
//! table, and the journey of a request from its head to a sealed forward.
//!
//! It decides with `rules`, asks `plugins` what a request needs and where it
//! should go, and hands what may be sent to `relay`. It names neither wasmtime
//! nor sled nor an HTTP client, and it knows no capability.

mod answers;
mod body;
pub mod boxes;
mod caller;
mod decide;
pub mod declarations;
mod declare;
mod effects;
mod ending;
mod faults;
pub mod grants;
pub mod journal;
mod keep;
mod limits;
mod locate;
mod log;
mod noted;
mod offers;
pub mod owned;
mod room;
pub mod routes;
mod serve;
mod shares;
mod turns;
mod visitor;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use http::HeaderName;

use crate::chant::answers::Failure;
use crate::chant::boxes::{Boxes, Known};
use crate::chant::caller::Caller;
use crate::chant::declarations::Declarations;
use crate::chant::grants::Grants;
use crate::chant::journal::Journal;
use crate::chant::limits::Limits;
use crate::chant::owned::Owned;
use crate::chant::turns::Turns;
use crate::decision_log::DecisionLog;
use crate::plugins::Plugins;
use crate::relay::Relay;
use crate::rules::manifest::TokenPlace;
use crate::rules::names::{BoxName, PluginName};
use crate::rules::payer::Payer;
use crate::store::Store;
use crate::telemetry::Metrics;
use crate::vault::Vault;

pub use crate::chant::body::Patience;
pub use crate::chant::keep::KeepLimits;
pub use crate::chant::limits::LimitSettings;
pub use crate::chant::log::LogLimits;
pub use crate::chant::offers::Upstreams;
pub use crate::chant::room::RoomLimits;
pub(crate) use crate::chant::visitor::pointed;

/// What the operator settles for this protocol.
pub struct Settings {
    /// The broker word this host answers for.
    pub broker: String,
    /// Headers that may carry a token on the host's own routes, beside
    /// `Authorization: Bearer`.
    pub token_headers: Vec<HeaderName>,
    /// The upstreams that plugins name.
    pub upstreams: Upstreams,
    /// The operator's settings for each plugin: a JSON object.
    pub plugin_settings: HashMap<PluginName, String>,
    /// How long a body that is read for a plugin, or by the host, may take.
    pub patience: Patience,
    /// The largest body that is read for a plugin to see, in bytes.
    pub max_body: usize,
    /// How often one decision may answer `need`, at most.
    pub max_rounds: u32,
    /// How many calls one `need` may hold, at most.
    pub max_calls: u32,
    /// How long the calls of one `need` may take at most, in milliseconds.
    pub max_call_ms: u32,
    /// The largest answer to a call, in bytes.
    pub max_call_bytes: usize,
    /// How much one plugin may keep for one box.
    pub keep: KeepLimits,
    /// The plugins whose decisions' inputs are recorded.
    pub recorded: HashSet<PluginName>,
    /// What a box, a plugin and all together may have at a time.
    pub limits: LimitSettings,
}

/// What the protocol works with.
pub struct Parts {
    /// Where records are kept.
    pub store: Arc<dyn Store>,
    /// The boxes.
    pub boxes: Arc<Boxes>,
    /// Their reports.
    pub declarations: Arc<Declarations>,
    /// The grants.
    pub grants: Arc<Grants>,
    /// What boxes own.
    pub owned: Arc<Owned>,
    /// What plugins note.
    pub journal: Arc<Journal>,
    /// The secrets and credentials.
    pub vault: Vault,
    /// The plugins.
    pub plugins: Plugins,
    /// The way out.
    pub relay: Relay,
    /// Where each request's end is counted.
    pub metrics: Arc<Metrics>,
    /// Where what was decided is kept, if it is.
    pub decision_log: Option<Arc<DecisionLog>>,
}

/// The protocol, ready to serve.
#[derive(Clone)]
pub struct Chant(Arc<Inner>);

struct Inner {
    settings: Settings,
    own_routes: TokenPlace,
    parts: Parts,
    turns: Turns,
    limits: Limits,
}

impl Chant {
    /// Puts the protocol together.
    #[must_use]
    pub fn new(settings: Settings, parts: Parts) -> Self {
        let own_routes = TokenPlace::Headers(settings.token_headers.clone());
        Self(Arc::new(Inner {
            limits: Limits::new(settings.limits),
            settings,
            own_routes,
            parts,
            turns: Turns::default(),
        }))
    }

    fn broker(&self) -> &str {
        &self.0.settings.broker
    }

    fn boxes(&self) -> &Boxes {
        &self.0.parts.boxes
    }

    fn declarations(&self) -> &Declarations {
        &self.0.parts.declarations
    }

    /// How long a body may take.
    fn patience(&self) -> Patience {
        self.0.settings.patience
    }

    /// The caller's box as it is now, for a commit that found it changed: only
    /// while the token still names it.
    async fn still(&self, caller: &Caller) -> Result<Arc<Known>, Failure> {
        let found = self
            .boxes()
            .refreshed(caller.box_name(), caller.token())
            .await?;
        Ok(found.ok_or_else(Caller::unknown)?)
    }

    /// Who pays for this box's model calls without a grant, where it can be
    /// said.
    fn payer(&self, box_name: &BoxName) -> Option<Payer> {
        let live = self.0.parts.plugins.live();
        let routes = live
            .plugins()
            .iter()
            .flat_map(|plugin| &plugin.manifest().routes);
        offers::payer(
            routes.filter_map(|route| route.payer_of.as_ref()),
            box_name,
            &self.0.settings.upstreams,
            &self.0.parts.vault,
        )
    }
}
