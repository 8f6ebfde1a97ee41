//! What stands beside a live version: a new one that is tried, and the one
//! before it, while it is watched.
//!
//! In reading order: a [`Witness`](record::Witness) writes down what a decision
//! was asked and said, and only where somebody looks at it; `again` asks
//! another version the same; `shadow` holds a new version against the live
//! one; `watched` counts the live one's failures. All of it happens off the
//! path of the request, and nothing that is said here is done.

pub(crate) mod again;
pub(crate) mod record;
pub(crate) mod shadow;
pub(crate) mod watched;

use std::sync::Arc;

use crate::plugins::beside::record::Record;
use crate::plugins::beside::shadow::Shadow;
use crate::plugins::beside::watched::Watched;
use crate::plugins::live::LivePlugin;
use crate::rules::names::BoxName;
use crate::rules::trial::Share;

/// What stands beside a live version.
#[derive(Default, Clone)]
pub(crate) struct Beside {
    /// A new version that is asked the same.
    pub(crate) shadow: Option<Arc<Shadow>>,
    /// A new version that serves some of the boxes.
    pub(crate) canary: Option<Arc<Canary>>,
    /// The version before it, while this one is watched.
    pub(crate) watch: Option<Arc<Watched>>,
    /// The boxes that it serves, where it is the new version of some.
    pub(crate) only: Option<Share>,
}

/// A new version that serves some of the boxes.
pub(crate) struct Canary {
    pub(crate) share: Share,
    pub(crate) plugin: Arc<LivePlugin>,
}

impl Beside {
    /// Whether anybody wants to know of one more decision. Whoever is behind
    /// does not, and counts that.
    pub(crate) fn is_looked_at(&self) -> bool {
        self.watch.is_some() || self.shadow.as_ref().is_some_and(|shadow| shadow.has_room())
    }

    /// Takes a decision that has ended.
    pub(crate) fn take(&self, record: Record) {
        match (&self.watch, &self.shadow) {
            (Some(watch), Some(shadow)) if record.failed.is_some() => {
                watch.take(record.clone());
                shadow.take(record);
            }
            (Some(watch), None) if record.failed.is_some() => watch.take(record),
            (_, Some(shadow)) => shadow.take(record),
            (_, None) => {}
        }
    }

    /// The version that serves a box in the live one's place.
    pub(crate) fn canary_for(&self, box_name: &BoxName) -> Option<&Arc<LivePlugin>> {
        let canary = self.canary.as_deref()?;
        let serves = canary.share.takes(box_name, &canary.plugin.hash().0);
        serves.then_some(&canary.plugin)
    }
}
