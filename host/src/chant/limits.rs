//! What a box, a plugin and all of them together may have at a time: the one
//! place that says so, to whom and in which words.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::chant::faults::FaultRoom;
use crate::chant::log::{LogLimits, LogRoom};
use crate::chant::room::{Full, Room, RoomLimits, Rooms};
use crate::chant::shares::Shares;
use crate::rules::names::{BoxName, PluginName};
use crate::rules::refusal::{Refusal, RefusalKind};
use crate::telemetry::{Limit, Scope};

/// How long whoever finds no room should wait before it asks again, where
/// nothing says better.
pub(super) const A_MOMENT: Duration = Duration::from_secs(1);

/// What the operator settles.
#[derive(Debug, Clone, Copy)]
pub struct LimitSettings {
    /// Requests of one box in flight; strangers on public routes have as many
    /// together.
    pub requests_per_box: usize,
    /// Requests of one plugin in flight.
    pub requests_per_plugin: usize,
    /// Instances of one plugin that are asked for one box at a time.
    pub instances_per_box: usize,
    /// How long a request waits for one.
    pub instance_wait: Duration,
    /// What is held in memory.
    pub room: RoomLimits,
    /// What plugins may say.
    pub log: LogLimits,
    /// How often one plugin may fail on one box's requests in a minute.
    pub failures_per_box: u64,
}

/// A limit that a request would have passed.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) limit: Limit,
    message: String,
    retry_after: Option<Duration>,
}

impl Over {
    pub(super) fn new(limit: Limit, message: String, retry_after: Option<Duration>) -> Self {
        Self {
            limit,
            message,
            retry_after,
        }
    }

    /// What the box reads: a 429 where it has too much itself, a 503 where
    /// others have.
    pub(super) fn refusal(self) -> Refusal {
        let refusal = match self.limit.scope() {
            Scope::Box => Refusal::new(
                http::StatusCode::TOO_MANY_REQUESTS,
                RefusalKind::RateLimit,
                self.message,
            ),
            Scope::Plugin | Scope::Host => Refusal::unavailable(self.message),
        };
        refusal.retry_after(self.retry_after)
    }
}

/// The limits, and who has how much.
pub(super) struct Limits {
    settings: LimitSettings,
    strangers: Arc<Semaphore>,
    requests: Shares<PluginName>,
    /// Of a plugin and a box, so that a plugin that loops takes nothing from
    /// what the box asks of others.
    instances: Shares<(PluginName, Option<BoxName>)>,
    rooms: Arc<Rooms>,
    pub(super) log: LogRoom,
    pub(super) faults: FaultRoom,
}

impl Limits {
    pub(super) fn new(settings: LimitSettings) -> Self {
        let strangers = settings.requests_per_box.min(Semaphore::MAX_PERMITS);
        Self {
            strangers: Arc::new(Semaphore::new(strangers)),
            requests: Shares::new(settings.requests_per_plugin),
            instances: Shares::new(settings.instances_per_box),
            rooms: Rooms::new(settings.room),
            log: LogRoom::new(settings.log),
            faults: FaultRoom::new(settings.failures_per_box),
            settings,
        }
    }

    /// One more request of a box, whose own `slots` these are; of strangers
    /// without.
    pub(super) fn request_of(
        &self,
        of: Option<(&BoxName, &Arc<Semaphore>)>,
    ) -> Result<OwnedSemaphorePermit, Over> {
        let slots = of.map_or(&self.strangers, |(_, slots)| slots);
        slots.clone().try_acquire_owned().map_err(|_| {
            let most = self.settings.requests_per_box;
            let who = who(of.map(|(name, _)| name));
            Over::new(
                Limit::RequestsPerBox,
                format!("{who} as many requests under way as it may ({most}, requests_per_box). Wait for one to end."),
                Some(A_MOMENT),
            )
        })
    }

    /// One more request at a plugin.
    pub(super) fn request_at(&self, plugin: &PluginName) -> Result<OwnedSemaphorePermit, Over> {
        self.requests.of(plugin).try_acquire_owned().map_err(|_| {
            let most = self.requests.most();
            Over::new(
                Limit::RequestsPerPlugin,
                format!(
                    "The plugin {plugin} has as many requests under way as it may ({most}, requests_per_plugin). Try \
                     again in a moment; others are served."
                ),
                Some(A_MOMENT),
            )
        })
    }

    /// Waits until one more instance of a plugin may be asked for a box.
    pub(super) async fn instance(
        &self,
        plugin: &PluginName,
        box_name: Option<&BoxName>,
    ) -> Result<OwnedSemaphorePermit, Over> {
        let share = self.instances.of(&(plugin.clone(), box_name.cloned()));
        if let Ok(instance) = share.clone().try_acquire_owned() {
            return Ok(instance);
        }
        let waited = tokio::time::timeout(self.settings.instance_wait, share.acquire_owned());
        match Box::pin(waited).await {
            Ok(Ok(instance)) => Ok(instance),
            Ok(Err(_)) | Err(_) => {
                let most = self.instances.most();
                let who = who(box_name);
                Err(Over::new(
                    Limit::InstancesPerBox,
                    format!(
                        "{who} as many requests that the plugin {plugin} is deciding as it may ({most}, \
                         instances_per_box), and none of them ended in time. Send fewer at once."
                    ),
                    Some(A_MOMENT),
                ))
            }
        }
    }

    /// Nothing held yet.
    pub(super) fn room(&self, box_name: Option<&BoxName>, plugin: Option<&PluginName>) -> Held {
        Held {
            limits: self.settings.room,
            box_name: box_name.cloned(),
            plugin: plugin.cloned(),
            room: self.rooms.room(box_name, plugin),
        }
    }
}

/// What a request holds in memory, and the words for when it may hold no more.
pub(super) struct Held {
    limits: RoomLimits,
    box_name: Option<BoxName>,
    plugin: Option<PluginName>,
    room: Room,
}

impl Held {
    /// Takes this much more.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Over> {
        self.room.take(bytes).map_err(|full| self.over(full))
    }

    /// Holds this much and no more.
    pub(super) fn resize(&mut self, bytes: usize) -> Result<(), Over> {
        self.room.resize(bytes).map_err(|full| self.over(full))
    }

    /// Takes over what another part of the same request holds.
    pub(super) fn absorb(&mut self, other: Self) {
        self.room.absorb(other.room);
    }

    /// The bytes that it was taken for: it is given back with the last of them.
    pub(super) fn hold(self, bytes: bytes::Bytes) -> bytes::Bytes {
        self.room.hold(bytes)
    }

    fn over(&self, full: Full) -> Over {
        let (limit, message) = match (full, &self.plugin) {
            (Full::Box, _) => (
                Limit::BufferedBytesPerBox,
                format!(
                    "{who} as much in memory as it may ({most} bytes, buffered_bytes_per_box): bodies that are read \
                     whole, and what calls bring back. Wait for a request to end, or send less at once.",
                    who = who(self.box_name.as_ref()),
                    most = self.limits.per_box,
                ),
            ),
            (Full::Plugin, Some(plugin)) => (
                Limit::BufferedBytesPerPlugin,
                format!(
                    "The requests of the plugin {plugin} hold as much in memory as they may ({most} bytes, \
                     buffered_bytes_per_plugin), and this box has its part of it. Try again in a moment; others are \
                     served.",
                    most = self.limits.per_plugin,
                ),
            ),
            (Full::Plugin, None) | (Full::Host, _) => (
                Limit::BufferedBytes,
                format!(
                    "The requests of this broker hold as much in memory as they may ({most} bytes, buffered_bytes), \
                     and this box has its part of it. Try again in a moment.",
                    most = self.limits.all,
                ),
            ),
        };
        Over::new(limit, message, Some(A_MOMENT))
    }
}

/// Whose it is, as the beginning of a sentence.
fn who(box_name: Option<&BoxName>) -> String {
    match box_name {
        Some(name) => format!("The box {name} has"),
        None => "Whoever shows no token has, together with all others,".to_owned(),
    }
}
