//! What a plugin answers, as raw memory: lifted by the engine, taken over by
//! the host, and held against what the plugin may do. Whatever stands there,
//! the request fails alone, and nothing passes that reaches further.

#![no_main]

use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::Method;
use jackfield::plugins::{Approve, LivePlugin, PluginSettings, Plugins};
use jackfield::rules::names::{PluginName, ScopeWord, UpstreamName};
use jackfield::rules::plan::{Answers, SaidStep, ShownCaller, ShownRequest, Target};
use jackfield::rules::plan_check::{Bounds, CheckedAction, check_need, check_plan, check_words};
use jackfield::store::memory::{Awkward, open_memory};
use jackfield_fuzz::forger;
use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;

struct Stage {
    runtime: Runtime,
    plugin: Arc<LivePlugin>,
    _plugins: Plugins,
}

fuzz_target!(|data: &[u8]| {
    let Some((which, said)) = data.split_first() else {
        return;
    };
    let stage = stage();
    let said = with_pointers(said);
    stage.runtime.block_on(async {
        match which % 3 {
            0 => scopes(&stage.plugin, said).await,
            1 => route(&stage.plugin, said).await,
            _ => resume(&stage.plugin, said).await,
        }
    });
});

async fn scopes(plugin: &Arc<LivePlugin>, said: Vec<u8>) {
    let Ok(decision) = plugin.decide(request(said)).await else {
        return;
    };
    let Some(words) = decision.words() else {
        return;
    };
    if let Ok(words) = check_words(plugin.manifest(), words) {
        assert!(words.iter().all(|word| word.as_str() == "word"));
    }
}

async fn route(plugin: &Arc<LivePlugin>, said: Vec<u8>) {
    // `scopes` reads the same bytes as `route`, and rarely takes them for
    // words; whether it does is no matter here.
    let Ok(decision) = plugin.decide(request(said)).await else {
        return;
    };
    if let Ok(step) = decision.route(caller()).await {
        hold(plugin, step);
    }
}

async fn resume(plugin: &Arc<LivePlugin>, said: Vec<u8>) {
    let nothing = Answers {
        calls: Vec::new(),
        reads: Vec::new(),
        lists: Vec::new(),
        owned: Vec::new(),
    };
    if let Ok(step) = plugin.resume(said, nothing).await {
        hold(plugin, step);
    }
}

/// A step that passed its check is within what the plugin may do.
fn hold(plugin: &LivePlugin, step: SaidStep) {
    let words = [ScopeWord::parse("word").expect("a word")];
    let reachable = [Target::Upstream(
        UpstreamName::parse("anthropic").expect("a name"),
    )];
    let bounds = Bounds {
        manifest: plugin.manifest(),
        words: &words,
        reachable: &reachable,
        offers: &[],
        credential_headers: &[],
        uses: &plugin.manifest().uses,
        method: &Method::POST,
        tail: "/some/path",
        query: Some("a=b"),
        max_calls: 8,
    };
    match step {
        SaidStep::Plan(plan) => {
            let Ok(plan) = check_plan(*plan, &bounds) else {
                return;
            };
            assert!(plan.writes.len() <= 64 && plan.journal.len() <= 64 && plan.owns.len() <= 64);
            assert!(
                plan.owns
                    .iter()
                    .all(|thing| thing.kind.as_str() == "things")
            );
            match plan.action {
                CheckedAction::Forward(forward) => {
                    let outbound = &forward.get().outbound;
                    assert!(reachable.contains(&outbound.target));
                    assert!(outbound.credential.is_none(), "none was on offer");
                }
                CheckedAction::Answer(answer) => assert!(answer.body.len() <= 4 << 20),
                CheckedAction::Refuse(refusal) => {
                    assert!(!refusal.message.chars().any(char::is_control));
                }
            }
        }
        SaidStep::Need(need) => {
            let Ok(need) = check_need(need, &bounds) else {
                return;
            };
            assert!(need.calls.len() <= 8 && need.owned.len() <= 1024);
            for call in &need.calls {
                assert!(reachable.contains(&call.get().outbound.target));
            }
        }
    }
}

fn request(body: Vec<u8>) -> ShownRequest {
    ShownRequest {
        method: Method::POST,
        prefix: forger::PREFIX.to_owned(),
        path: "/some/path".to_owned(),
        query: None,
        headers: Vec::new(),
        body: Some(Bytes::from(body)),
        time: None,
        settings: None,
    }
}

fn caller() -> ShownCaller {
    ShownCaller {
        box_name: None,
        words: vec!["word".to_owned()],
        offers: Vec::new(),
        targets: Vec::new(),
        uses: Default::default(),
    }
}

/// Pointers are hard to guess: a number whose upper half is all ones becomes
/// one into the answer itself.
fn with_pointers(said: &[u8]) -> Vec<u8> {
    let mut said = said.to_vec();
    for number in said.chunks_exact_mut(4) {
        if let [_, _, upper @ ..] = number
            && upper == [0xff, 0xff]
        {
            upper.copy_from_slice(&(forger::SAID_AT >> 16).to_le_bytes()[..2]);
        }
    }
    said
}

fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("jackfield-fuzz-{}", std::process::id()));
        let plugins_dir = folder.join("plugins");
        std::fs::create_dir_all(&plugins_dir).expect("a folder");
        let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
        let component = forger::component(&wit).expect("a component");
        std::fs::write(plugins_dir.join("forger.wasm"), component).expect("a file");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let (plugins, plugin) = runtime.block_on(async {
            let settings = PluginSettings {
                cache_dir: folder.join("cache"),
                ..PluginSettings::default()
            };
            let store = open_memory(Awkward::default());
            let plugins = Plugins::open(settings, store, [0; 32])
                .await
                .expect("plugins");
            let reports = plugins.load_folder(&plugins_dir, Approve::All).await;
            let name = PluginName::parse(forger::NAME).expect("a name");
            let plugin = plugins.live().find(&name).cloned();
            (
                plugins,
                plugin.unwrap_or_else(|| panic!("the forger does not load: {reports:?}")),
            )
        });
        // It is in memory now.
        std::fs::remove_dir_all(&folder).ok();
        Stage {
            runtime,
            plugin,
            _plugins: plugins,
        }
    })
}
