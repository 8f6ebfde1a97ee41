//! A version that has just gone live, beside the one before it: what fails in
//! the one and not in the other, and how many boxes have met it.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, timeout_at};

use crate::plugins::beside::again::ask_again;
use crate::plugins::beside::record::Record;
use crate::plugins::hash::ComponentHash;
use crate::plugins::live::LivePlugin;
use crate::plugins::load::Loaded;
use crate::plugins::{Inner, Plugins};
use crate::rules::compare::{End, Failing};
use crate::rules::names::{BoxName, PluginName};

/// How many failures wait to be looked at; what comes meanwhile is like them.
const MOST_WAITING: usize = 64;

/// How long a version is watched, and at how many boxes it is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchSettings {
    /// From its going live on; nothing is watched where this is zero.
    pub window: Duration,
    /// Boxes that have met a failure which the version before does not have.
    pub boxes: usize,
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(600),
            boxes: 3,
        }
    }
}

/// Where the failures of a watched version go.
pub(crate) struct Watched(Sender<Record>);

/// A watch that has not begun yet.
pub(crate) struct Watch {
    pub(crate) failures: Receiver<Record>,
    /// The version that is watched.
    pub(crate) name: PluginName,
    pub(crate) hash: ComponentHash,
    /// The one before it.
    pub(crate) before: Arc<LivePlugin>,
    pub(crate) loaded: Loaded,
}

/// What has come of a watch so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Met {
    pub(crate) boxes: BTreeSet<BoxName>,
    pub(crate) how: Failing,
}

impl Watched {
    pub(crate) fn new() -> (Self, Receiver<Record>) {
        let (queue, failures) = channel(MOST_WAITING);
        (Self(queue), failures)
    }

    /// Takes a decision that failed.
    pub(crate) fn take(&self, record: Record) {
        // Full, it holds failures enough.
        let _taken = self.0.try_send(record);
    }
}

impl Watch {
    /// Watches until the window is over, the version is gone or taken back. In
    /// a box, for the way back is a version's going live, which begins watches.
    pub(crate) fn run(
        self,
        plugins: Weak<Inner>,
        settings: WatchSettings,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.watch(plugins, settings))
    }

    async fn watch(mut self, plugins: Weak<Inner>, settings: WatchSettings) {
        let until = Instant::now() + settings.window;
        let mut boxes = BTreeSet::new();
        loop {
            let record = match timeout_at(until, self.failures.recv()).await {
                Ok(Some(record)) => record,
                // Nothing can be asked of it any more.
                Ok(None) => return,
                Err(_) => break,
            };
            let (Some(how), Some(box_name)) = (record.failed, record.box_name.clone()) else {
                continue;
            };
            if boxes.contains(&box_name) || self.fails_before(&record).await {
                continue;
            }
            boxes.insert(box_name);
            let Some(plugins) = plugins.upgrade().map(Plugins) else {
                return;
            };
            let met = Met {
                boxes: boxes.clone(),
                how,
            };
            if plugins.weigh(&self, &met, settings).await {
                return;
            }
        }
        if let Some(plugins) = plugins.upgrade() {
            plugins.stage.unwatch(&self.name, &self.hash);
        }
    }

    /// Whether the version before fails on the very same input, or cannot be
    /// asked.
    async fn fails_before(&self, record: &Record) -> bool {
        match ask_again(&self.before, record).await {
            Some(decided) => match decided.end {
                End::Failed(_) => true,
                End::NotServed | End::Named | End::Plan(_) | End::Need(_) => false,
            },
            None => true,
        }
    }
}
