//! The wiring: the only place that knows every part. It opens what must be
//! open, in an order in which a failure leaves nothing half done, and closes
//! it in the reverse.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use crate::admin::{self, AdminSocket};
use crate::chant::boxes::Boxes;
use crate::chant::declarations::Declarations;
use crate::chant::grants::Grants;
use crate::chant::journal::{Journal, JournalLimits};
use crate::chant::owned::Owned;
use crate::chant::{
    self, Chant, KeepLimits, LimitSettings, LogLimits, Patience, RoomLimits, Upstreams, routes,
};
use crate::config::{self, Config, DecisionLogMode};
use crate::decision_log::{self, DecisionLog, InputSettings, LogKeys, LogSettings, Mode};
use crate::listen::{ListenSettings, Listener, TlsSettings, Workers};
use crate::plugins::{Approve, CallLimits, PluginSettings, PluginStatus, Plugins, WatchSettings};
use crate::relay::{Destination, ExtraCa, OwnListeners, Relay, RelaySettings};
use crate::store::{self, SledSettings, Store};
use crate::telemetry::Metrics;
use crate::vault::{Vault, VaultKey, load_key};

/// How often the plugins' folder is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What the command line says beside the configuration.
pub struct ServeOptions {
    /// Approve what lies in the plugins' folder now.
    pub approve_plugins: bool,
    /// The vault's key, when it does not stand in its file.
    pub vault_key: Option<Zeroizing<String>>,
}

/// A host that listens.
#[derive(Debug, Clone)]
pub struct Running {
    /// The address it listens on.
    pub listen: SocketAddr,
    /// The plugins that were found.
    pub plugins: Vec<PluginStatus>,
    /// Why the plugins' folder itself was refused, where it was.
    pub plugins_problem: Option<String>,
}

/// Serves until `shutdown`, then finishes what is in flight within the drain
/// time and closes the store. `ready` is told once the host listens.
///
/// # Errors
/// When a part does not start; the error says which and what to do.
pub async fn serve(
    config: Config,
    options: ServeOptions,
    shutdown: CancellationToken,
    ready: impl FnOnce(&Running),
) -> Result<()> {
    let config = Arc::new(config);
    config::prepare_state_dir(&config.state_dir)?;
    // The address comes first: a host that cannot listen touches no record.
    let listener = Listener::bind(config.listen, tls(&config), listen_settings(&config)).await?;
    let workers = Workers::start().context("the threads that serve requests did not start")?;
    let store = store::open_sled(&config.state_dir.join("store"), SledSettings::default())?;
    let served = with_store(
        config,
        options,
        shutdown,
        ready,
        (listener, &workers),
        store.clone(),
    );
    let served = served.await;
    store.close().await;
    served
}

async fn with_store(
    config: Arc<Config>,
    options: ServeOptions,
    shutdown: CancellationToken,
    ready: impl FnOnce(&Running),
    (listener, workers): (Listener, &Workers),
    store: Arc<dyn Store>,
) -> Result<()> {
    let key = match &options.vault_key {
        Some(text) => VaultKey::parse(text, "JACKFIELD_VAULT_KEY")?,
        None => load_key(&config.state_dir.join("vault.key"), store.as_ref()).await?,
    };
    let cache_key = key.derive("compiled plugins");
    let log_keys = LogKeys::of(&key);
    let vault = Vault::open(store.clone(), key).await?;
    let boxes = Arc::new(Boxes::open(store.clone(), config.limits.requests_per_box).await?);
    let declarations = Arc::new(Declarations::open(store.clone()).await?);
    let grants = Arc::new(Grants::open(store.clone(), jiff::Timestamp::now()).await?);
    let owned = Arc::new(Owned::open(store.clone()).await?);
    let journal = JournalLimits {
        bytes: config.limits.journal_bytes,
        bytes_per_box: config.limits.journal_bytes_per_box,
    };
    let journal = Arc::new(Journal::open(store.clone(), journal).await?);
    let metrics = Arc::new(Metrics::with_connections(listener.open_connections()));

    let plugins = Plugins::open(plugin_settings(&config), store.clone(), cache_key).await?;
    let approve = if options.approve_plugins {
        Approve::All
    } else {
        Approve::OnDisk
    };
    let reports = plugins.load_folder(&config.plugins_dir, approve).await;
    let plugins_problem = reports
        .into_iter()
        .find(|report| report.file == config.plugins_dir);

    if plugins_problem.is_none() {
        warn_of_vain_settings(&config, &plugins.list());
    }

    let own_listeners = OwnListeners::default();
    own_listeners.add(listener.local_addr());
    let relay = Relay::new(RelaySettings {
        idle: config.limits.idle,
        connect: config.limits.connect,
        own_listeners,
        ..RelaySettings::default()
    })?;
    // Not before the vault has taken the key: another one must sign nothing.
    let decision_log = open_decision_log(&config, log_keys, &metrics)?;
    let chant = Chant::new(
        chant_settings(&config)?,
        chant::Parts {
            store,
            boxes: boxes.clone(),
            declarations: declarations.clone(),
            grants: grants.clone(),
            owned: owned.clone(),
            journal: journal.clone(),
            vault: vault.clone(),
            plugins: plugins.clone(),
            relay,
            metrics: metrics.clone(),
            decision_log: decision_log.clone(),
        },
    );

    let watched = plugins.clone();
    let (folder, until) = (config.plugins_dir.clone(), shutdown.clone());
    let watching = tokio::spawn(async move {
        watched.watch_folder(&folder, LOOK_EVERY, until).await;
    });
    let running = Running {
        listen: listener.local_addr(),
        plugins: plugins.list(),
        plugins_problem: plugins_problem.and_then(|report| report.outcome.reason()),
    };
    let admin = AdminSocket::bind(&config.admin_socket()).await?;
    let mut admin = tokio::spawn(admin.serve(
        admin::Parts {
            listen: running.listen,
            boxes,
            declarations,
            grants,
            owned,
            journal,
            vault,
            plugins,
            metrics,
            config: config.clone(),
        },
        shutdown.clone(),
    ));
    ready(&running);
    let service = move |request| {
        let chant = chant.clone();
        async move { chant.serve(request).await }
    };
    let drain = config.limits.drain;
    let (admin_ended, ()) = tokio::join!(
        within_drain(&mut admin, shutdown.clone(), drain),
        listener.serve(service, workers, shutdown, drain),
    );
    // It ends with `shutdown`, but not in the middle of a compilation.
    watching.abort();
    if let Some(log) = decision_log {
        let closed = tokio::task::spawn_blocking(move || log.close());
        closed.await.context("the decision log ended in a panic")?;
    }
    admin_ended
}

/// The decision log, where one is to be kept.
fn open_decision_log(
    config: &Config,
    keys: LogKeys,
    metrics: &Arc<Metrics>,
) -> Result<Option<Arc<DecisionLog>>> {
    let settings = &config.decision_log;
    let mode = match settings.mode {
        DecisionLogMode::Off => return Ok(None),
        DecisionLogMode::BestEffort => Mode::BestEffort,
        DecisionLogMode::Must => Mode::Must,
    };
    let folder = decision_log::folder(&config.state_dir);
    config::prepare_state_dir(&folder).context("the folder of the decision log")?;
    let records = config.plugins.values().any(|plugin| plugin.record_inputs);
    let inputs = records.then(|| decision_log::inputs_folder(&config.state_dir));
    if let Some(folder) = &inputs {
        config::prepare_state_dir(folder).context("the folder of recorded inputs")?;
    }
    let settings = LogSettings {
        inputs: inputs.map(|folder| InputSettings {
            folder,
            bytes: settings.inputs_bytes,
        }),
        mode,
        folder,
        segment_bytes: settings.segment_bytes,
        segments: settings.segments,
        queue: usize::try_from(settings.queue_records).unwrap_or(usize::MAX),
        sign_every: settings.sign,
    };
    let log = DecisionLog::open(&settings, keys, metrics.clone())?;
    Ok(Some(Arc::new(log)))
}

/// Waits for the operator's API; a command that has not ended when the drain
/// is over is given up, like a box's request.
async fn within_drain(
    admin: &mut JoinHandle<()>,
    shutdown: CancellationToken,
    drain: Duration,
) -> Result<()> {
    let drained = async {
        shutdown.cancelled().await;
        tokio::time::sleep(drain).await;
    };
    tokio::select! {
        biased;
        ended = &mut *admin => ended.context("the operator's API ended in a panic"),
        () = drained => {
            tracing::warn!("a command on the admin socket did not end in time; it is given up");
            admin.abort();
            Ok(())
        }
    }
}

/// What the configuration says about plugins that nothing will ever use.
fn warn_of_vain_settings(config: &Config, found: &[PluginStatus]) {
    for status in found {
        let unused = status.about.iter().flat_map(|about| &about.unused_grants);
        for permission in unused {
            let plugin = status.name();
            tracing::warn!(%plugin, %permission, "its grant lists what it does not ask for");
        }
    }
    for name in config.plugins.keys() {
        if !found.iter().any(|status| status.name() == name.as_str()) {
            tracing::warn!(plugin = %name, "[plugins.NAME] names a plugin that was not found");
        }
    }
}

fn tls(config: &Config) -> Option<TlsSettings> {
    let files = config.tls.as_ref()?;
    Some(TlsSettings {
        cert: files.cert.clone(),
        key: files.key.clone(),
    })
}

fn listen_settings(config: &Config) -> ListenSettings {
    ListenSettings {
        connections: config.limits.max_connections,
        first_byte: config.limits.head,
        head: config.limits.head,
        stall: config.limits.idle,
        head_bytes: u32::try_from(config.limits.head_bytes).unwrap_or(u32::MAX),
        ..ListenSettings::default()
    }
}

fn plugin_settings(config: &Config) -> PluginSettings {
    let grants: BTreeMap<_, _> = config
        .plugins
        .iter()
        .filter_map(|(name, plugin)| Some((name.clone(), plugin.grant.clone()?)))
        .collect();
    let limits = &config.limits;
    let defaults = CallLimits::default();
    PluginSettings {
        cache_dir: config.state_dir.join("compiled"),
        versions_dir: config.state_dir.join("versions"),
        reserved: routes::RESERVED
            .iter()
            .map(|prefix| (*prefix).to_owned())
            .collect(),
        grants,
        signatures: config
            .plugins
            .iter()
            .map(|(name, plugin)| (name.clone(), plugin.signatures.clone()))
            .collect(),
        watch: WatchSettings {
            window: config.watch.window,
            boxes: config.watch.boxes,
        },
        limits: CallLimits {
            time: defaults.time.min(limits.plugin_time),
            most_time: limits.plugin_time,
            memory: defaults.memory.min(limits.plugin_memory_bytes),
            most_memory: limits.plugin_memory_bytes,
            instances: count(limits.plugin_instances),
            share: count(limits.instances_per_plugin),
            ..defaults
        },
    }
}

fn chant_settings(config: &Config) -> Result<chant::Settings> {
    let mut upstreams = HashMap::new();
    for (name, upstream) in &config.upstreams {
        let extra_ca = upstream.extra_ca.as_deref().map(ExtraCa::load).transpose();
        let extra_ca = extra_ca.with_context(|| format!("[upstreams.{name}] extra_ca"))?;
        let destination = Destination {
            origin: upstream.origin.clone(),
            base_path: upstream.base_path.clone(),
            allow_private: upstream.allow_private,
            extra_ca: extra_ca.map(Arc::new),
            allow: Vec::new(),
            name: format!("upstream {name}"),
        };
        upstreams.insert(name.clone(), Arc::new(destination));
    }
    let limits = &config.limits;
    Ok(chant::Settings {
        broker: config.broker.clone(),
        token_headers: config.token_headers.clone(),
        upstreams: Upstreams::new(upstreams),
        plugin_settings: config
            .plugins
            .iter()
            .filter_map(|(name, plugin)| Some((name.clone(), plugin.settings.clone()?)))
            .collect(),
        patience: Patience {
            idle: limits.idle,
            whole: limits.body,
        },
        max_body: limits.buffered_body_bytes,
        max_rounds: limits.rounds,
        max_calls: limits.calls,
        max_call_ms: milliseconds(limits.call),
        max_call_bytes: limits.call_bytes,
        recorded: config
            .plugins
            .iter()
            .filter(|(_, plugin)| plugin.record_inputs)
            .map(|(name, _)| name.clone())
            .collect(),
        keep: KeepLimits {
            bytes: limits.keep_bytes_per_box,
            keys: limits.keep_keys_per_box,
        },
        limits: LimitSettings {
            requests_per_box: limits.requests_per_box,
            requests_per_plugin: limits.requests_per_plugin,
            instances_per_box: count(limits.instances_per_box),
            instance_wait: CallLimits::default().wait,
            room: RoomLimits {
                per_box: limits.buffered_bytes_per_box,
                per_plugin: limits.buffered_bytes_per_plugin,
                all: limits.buffered_bytes,
            },
            failures_per_box: limits.failures_per_box,
            log: LogLimits {
                per_box: limits.log_bytes_per_box,
                per_plugin: limits.log_bytes_per_plugin,
            },
        },
    })
}

fn count(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
