//! A plugin that answers: its approved manifest, what it was granted, and how
//! it is asked.

use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::Either;

use crate::lease::Tenure;
use crate::plugins::beside::Beside;
use crate::plugins::beside::record::Witness;
use crate::plugins::call::{Instance, Runner};
use crate::plugins::convert;
use crate::plugins::error::{CallFault, Fault};
use crate::plugins::hash::ComponentHash;
use crate::rules::manifest::Manifest;
use crate::rules::names::BoxName;
use crate::rules::permission::Grants;
use crate::rules::plan::{Answers, SaidStep, ShownCaller, ShownRequest};

/// A live plugin. Whoever holds one can finish asking it, also when another
/// version has taken its place.
pub struct LivePlugin {
    manifest: Arc<Manifest>,
    hash: ComponentHash,
    grants: Grants,
    runner: Arc<Runner>,
    lease: Tenure,
    beside: Beside,
}

/// A request on which a plugin has named its words. It holds the instance, so
/// it is not kept for longer than the rule takes.
pub struct Decision {
    plugin: Arc<LivePlugin>,
    instance: Instance,
}

impl LivePlugin {
    pub(crate) fn new(
        manifest: Arc<Manifest>,
        hash: ComponentHash,
        grants: Grants,
        runner: Arc<Runner>,
        lease: Tenure,
    ) -> Self {
        Self {
            manifest,
            hash,
            grants,
            runner,
            lease,
            beside: Beside::default(),
        }
    }

    /// The same version, with this beside it.
    pub(crate) fn with(&self, beside: Beside) -> Self {
        Self {
            manifest: Arc::clone(&self.manifest),
            hash: self.hash,
            grants: self.grants.clone(),
            runner: Arc::clone(&self.runner),
            lease: self.lease.clone(),
            beside,
        }
    }

    /// What stands beside it.
    pub(crate) fn beside(&self) -> &Beside {
        &self.beside
    }

    /// Who writes down what a decision comes to; nobody, where nobody looks.
    #[must_use]
    pub fn witness(
        self: &Arc<Self>,
        box_name: Option<&BoxName>,
        request: &ShownRequest,
    ) -> Witness {
        if self.beside.is_looked_at() {
            return Witness::of(self, box_name, request);
        }
        Witness::none()
    }

    /// Another version that serves some boxes in this one's place.
    #[must_use]
    pub fn canary(&self) -> Option<&Arc<Self>> {
        self.beside.canary.as_ref().map(|canary| &canary.plugin)
    }

    /// Whether it serves some boxes alone.
    #[must_use]
    pub fn is_canary(&self) -> bool {
        self.beside.only.is_some()
    }

    /// Whether it serves this box, where it serves some alone.
    #[must_use]
    pub fn serves(&self, box_name: &BoxName) -> bool {
        let only = self.beside.only.as_ref();
        only.is_none_or(|share| share.takes(box_name, &self.hash.0))
    }

    /// The other version, where it serves this box.
    #[must_use]
    pub fn canary_for(&self, box_name: &BoxName) -> Option<&Arc<Self>> {
        self.beside.canary_for(box_name)
    }

    /// What it says it is, as approved.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Which component it is.
    #[must_use]
    pub fn hash(&self) -> &ComponentHash {
        &self.hash
    }

    /// What it may do.
    #[must_use]
    pub fn granted(&self) -> &Grants {
        &self.grants
    }

    /// Cancelled when its approval is taken back: what it had relayed is cut.
    #[must_use]
    pub fn lease(&self) -> &Tenure {
        &self.lease
    }

    /// Asks a fresh instance which words a request needs.
    ///
    /// # Errors
    /// When the plugin fails, or no instance comes free in time.
    pub async fn decide(self: &Arc<Self>, request: ShownRequest) -> Result<Decision, CallFault> {
        let asked = self.runner.scopes(convert::request(request)).await;
        Ok(Decision {
            plugin: Arc::clone(self),
            instance: asked.map_err(|fault| self.fault(fault))?,
        })
    }

    /// Asks another fresh instance to decide further.
    ///
    /// # Errors
    /// When the plugin fails, or no instance comes free in time.
    pub async fn resume(&self, state: Vec<u8>, answers: Answers) -> Result<SaidStep, CallFault> {
        let asked = self.runner.resume(state, convert::answers(answers)).await;
        asked.map(convert::step).map_err(|fault| self.fault(fault))
    }

    fn fault(&self, fault: Fault) -> CallFault {
        CallFault {
            plugin: self.manifest.name.as_str().to_owned(),
            fault,
        }
    }
}

impl Decision {
    /// The words that the request needs; none when the plugin does not serve
    /// it.
    #[must_use]
    pub fn words(&self) -> Option<&[String]> {
        self.instance.words()
    }

    /// Asks the same instance where the request goes, now that the rule has
    /// passed.
    ///
    /// # Errors
    /// When the plugin fails.
    pub fn route(
        mut self,
        caller: ShownCaller,
    ) -> impl Future<Output = Result<SaidStep, CallFault>> + Send {
        let caller = convert::caller(caller);
        let runner = Arc::clone(&self.plugin.runner);
        // On the heap what is seldom taken: it would make every request larger
        // that carries it.
        let said = match runner.route_at_once(&mut self.instance, &caller) {
            Some(said) => Either::Left(ready(said)),
            None => {
                let instance = self.instance;
                let apart = async move { runner.route(instance, caller).await };
                Either::Right(Box::pin(apart))
            }
        };
        let plugin = self.plugin;
        said.map(move |said| said.map(convert::step).map_err(|fault| plugin.fault(fault)))
    }
}

impl fmt::Debug for LivePlugin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LivePlugin")
            .field("name", &self.manifest.name)
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Decision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Decision")
            .field("plugin", &self.plugin.manifest.name)
            .field("words", &self.words())
            .finish_non_exhaustive()
    }
}
