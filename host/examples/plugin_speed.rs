//! How long a plugin's decision takes: a fresh instance, `scopes`, `route`, and
//! the instance given back. Run with `--release`; nothing here is asserted.

#![expect(clippy::print_stdout, reason = "a measurement is for people to read")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jackfield::plugins::component::build;
use jackfield::plugins::{Approve, LivePlugin, PluginSettings, Plugins};
use jackfield::rules::names::PluginName;
use jackfield::rules::plan::{ShownCaller, ShownRequest};
use jackfield::store::memory::{Awkward, open_memory};

const CALLS: usize = 20_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = root.join("target/plugins");
    let components = target.join("components");
    let crates = ["plugins/inference", "plugins/egress"].map(|path| root.join(path));
    build(&crates, &target, &components, &mut |line| {
        println!("{line}")
    })?;

    let folder = target.join("speed-cache");
    let settings = PluginSettings {
        versions_dir: folder.join("versions"),
        cache_dir: folder,
        ..PluginSettings::default()
    };
    let plugins = Plugins::open(settings, open_memory(Awkward::default()), [0; 32]).await?;
    plugins.load_folder(&components, Approve::All).await;
    let name = PluginName::parse("inference")?;
    let table = plugins.live();
    let Some(plugin) = table.find(&name) else {
        anyhow::bail!("inference is not live");
    };

    for headers in [0, 3, 12] {
        let took = measure(plugin, headers).await?;
        report(&format!("one after another, {headers} headers shown"), took);
    }
    for tasks in [2, 8, 32] {
        let started = Instant::now();
        let running: Vec<_> = (0..tasks)
            .map(|_| {
                let plugin = Arc::clone(plugin);
                tokio::spawn(async move { measure(&plugin, 3).await })
            })
            .collect();
        let mut all = Vec::new();
        for task in running {
            all.extend(task.await??);
        }
        let seconds = started.elapsed().as_secs_f64();
        let rate = all.len() as f64 / seconds;
        report(&format!("{tasks} tasks, {rate:.0} decisions/s"), all);
    }
    Ok(())
}

async fn measure(plugin: &Arc<LivePlugin>, headers: usize) -> anyhow::Result<Vec<Duration>> {
    let request = ShownRequest {
        method: http::Method::POST,
        prefix: "/llm/anthropic".to_owned(),
        path: "/v1/messages".to_owned(),
        query: None,
        headers: (0..headers)
            .map(|each| {
                (
                    format!("x-shown-{each}"),
                    b"a value of some length".to_vec(),
                )
            })
            .collect(),
        body: None,
        time: None,
        settings: None,
    };
    let mut took = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let shown = request.clone();
        let caller = ShownCaller {
            box_name: None,
            words: vec!["agent".to_owned()],
            offers: Vec::new(),
            targets: Vec::new(),
            uses: jackfield::rules::manifest::Uses::default(),
        };
        let started = Instant::now();
        plugin.decide(shown).await?.route(caller).await?;
        took.push(started.elapsed());
    }
    Ok(took)
}

fn report(what: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let at = |percent: usize| {
        let index = took.len().saturating_sub(1) * percent / 100;
        took.get(index).map_or(0.0, |each| each.as_secs_f64() * 1e6)
    };
    println!("{what}: p50 {:.1} µs, p99 {:.1} µs", at(50), at(99));
}
