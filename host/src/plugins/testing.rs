//! Real plugins for tests: built once, by the host's own builder.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use http::Method;
use tempfile::TempDir;

use crate::plugins::component::build;
use crate::plugins::{Approve, CallLimits, LivePlugin, Outcome, PluginSettings, Plugins};
use crate::rules::manifest::Uses;
use crate::rules::names::PluginName;
use crate::rules::plan::{SaidAction, SaidStep, ShownCaller, ShownRequest};
use crate::store::Store;
use crate::store::memory::{Awkward, open_memory};

/// The folder that holds the plugins that ship and the lying ones, as
/// components. Builds that run side by side wait for each other.
pub(crate) fn components() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let crates: Vec<PathBuf> = ["plugins", "tests/guests"]
            .iter()
            .flat_map(|folder| fs::read_dir(root.join(folder)).unwrap())
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.join("Cargo.toml").is_file())
            .collect();
        let target = root.join("target/plugins");
        let built = target.join("components");
        build(&crates, &target, &built, &mut |line| eprintln!("{line}")).unwrap();
        built
    })
}

/// A built component's bytes.
pub(crate) fn component(name: &str) -> Vec<u8> {
    fs::read(components().join(format!("{name}.wasm"))).unwrap()
}

/// A host's plugins, in folders of their own.
pub(crate) struct Host {
    pub(crate) folder: TempDir,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) settings: PluginSettings,
}

impl Host {
    /// With nothing in its folder.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plugins = folder.path().join("plugins");
        fs::create_dir(&plugins).unwrap();
        fs::set_permissions(&plugins, Permissions::from_mode(0o755)).unwrap();
        let settings = PluginSettings {
            cache_dir: folder.path().join("cache"),
            versions_dir: folder.path().join("versions"),
            ..PluginSettings::default()
        };
        Self {
            folder,
            store: open_memory(Awkward::default()),
            settings,
        }
    }

    /// With these components in its folder.
    pub(crate) fn with(names: &[&str]) -> Self {
        let host = Self::new();
        for name in names {
            host.put(&format!("{name}.wasm"), &component(name));
        }
        host
    }

    pub(crate) fn limits(mut self, change: impl FnOnce(&mut CallLimits)) -> Self {
        change(&mut self.settings.limits);
        self
    }

    pub(crate) fn plugins_dir(&self) -> PathBuf {
        self.folder.path().join("plugins")
    }

    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.plugins_dir().join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    }

    pub(crate) async fn open(&self) -> Plugins {
        let store = Arc::clone(&self.store);
        Plugins::open(self.settings.clone(), store, [7; 32])
            .await
            .unwrap()
    }

    /// Starts, approves everything, and hands out one of the live plugins.
    pub(crate) async fn live(&self, name: &str) -> (Plugins, Arc<LivePlugin>) {
        let plugins = self.open().await;
        for report in plugins.load_folder(&self.plugins_dir(), Approve::All).await {
            assert!(
                matches!(report.outcome, Outcome::Live(_)),
                "{:?}",
                report.outcome
            );
        }
        let plugin = find(&plugins, name).unwrap();
        (plugins, plugin)
    }
}

pub(crate) fn find(plugins: &Plugins, name: &str) -> Option<Arc<LivePlugin>> {
    let name = PluginName::parse(name).unwrap();
    plugins.live().find(&name).cloned()
}

pub(crate) fn request(prefix: &str, path: &str) -> ShownRequest {
    ShownRequest {
        method: Method::POST,
        prefix: prefix.to_owned(),
        path: path.to_owned(),
        query: None,
        headers: Vec::new(),
        body: None,
        time: None,
        settings: None,
    }
}

pub(crate) fn caller() -> ShownCaller {
    ShownCaller {
        box_name: None,
        words: Vec::new(),
        offers: Vec::new(),
        targets: Vec::new(),
        uses: Uses::default(),
    }
}

/// The body of an answer.
pub(crate) fn body(step: SaidStep) -> String {
    match step {
        SaidStep::Plan(plan) => match plan.action {
            SaidAction::Answer { body, .. } => String::from_utf8(body).unwrap(),
            SaidAction::Forward(_) | SaidAction::Refuse(_) => panic!("{:?}", plan.action),
        },
        SaidStep::Need(need) => panic!("{need:?}"),
    }
}
