//! The parts of a request's path, each alone. Nothing here is asserted; run it
//! with `cargo bench --workspace --bench parts`.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use jackfield::plugins::{Approve, LivePlugin, PluginSettings, Plugins};
use jackfield::rules::declaration::parse_report;
use jackfield::rules::identify::{shown_token, stray_tokens};
use jackfield::rules::manifest::TokenPlace;
use jackfield::rules::names::{BoxName, CapabilityName, PluginName, ScopeWord};
use jackfield::rules::paths;
use jackfield::rules::permit::Permit;
use jackfield::rules::plan::{ShownCaller, ShownRequest};
use jackfield::rules::scrub::{Instead, Matcher, Scrub};
use jackfield::rules::token::BoxToken;
use jackfield::store::memory::{Awkward, open_memory};
use jackfield_tests::plugins::{Plugin, component};
use tokio::runtime::Runtime;

const VALUE: &[u8] = b"sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz";

/// Both questions to a plugin in a fresh instance, and the instance given back.
fn plugin(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let (_plugins, plugin) = runtime.block_on(live());
    let mut group = criterion.benchmark_group("plugin");
    for headers in [0, 3, 12] {
        let request = request(headers);
        group.bench_function(format!("scopes and route, {headers} headers"), |bencher| {
            bencher.iter(|| {
                runtime.block_on(async {
                    let asked = plugin.decide(request.clone()).await.expect("an answer");
                    asked.route(caller()).await.expect("a step")
                })
            });
        });
    }
    group.finish();
}

/// What stands before and after the plugin on every request.
fn rules(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rules");
    let report =
        br#"{"capabilities":[{"name":"inference","broker":"lobby","scope":["agent","decide"]},
        {"name":"egress","broker":"lobby","scope":["OPENAI","GITHUB"]}]}"#;
    group.bench_function("read a report", |bencher| {
        bencher.iter(|| parse_report(black_box(report), "lobby"));
    });

    let declared = parse_report(report, "lobby").expect("a report");
    let box_name = BoxName::parse("box-a").expect("a name");
    let capability = CapabilityName::parse("inference").expect("a name");
    group.bench_function("the rule", |bencher| {
        bencher.iter(|| {
            let words = vec![ScopeWord::parse("agent").expect("a word")];
            Permit::grant(&box_name, Some(&declared), "lobby", &capability, words)
        });
    });

    let token = BoxToken::from_random(&[7; 32]);
    let headers = headers(&token);
    let place = TokenPlace::Headers(vec![HeaderName::from_static("x-api-key")]);
    let target = "/llm/anthropic/v1/messages?beta=true";
    group.bench_function("find the token", |bencher| {
        bencher.iter(|| shown_token(black_box(&headers), target, &place));
    });
    group.bench_function("find stray tokens", |bencher| {
        bencher.iter(|| stray_tokens(black_box(&headers), target, &[]));
    });
    group.bench_function("judge a path", |bencher| {
        bencher.iter(|| paths::is_plain(black_box(target.as_bytes())));
    });
    group.finish();
}

/// The search of what streams by.
fn scrub(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scrub");
    group.bench_function("compile a value's forms", |bencher| {
        bencher.iter(|| Matcher::new(black_box(VALUE)));
    });

    let matcher = Arc::new(Matcher::new(VALUE).expect("a matcher"));
    let event = br#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"some \"words\"\n"}}"#;
    let events = event.repeat(16 * 1024 / event.len());
    let prose = b"The quick brown fox jumps over the lazy dog. ".repeat(16 * 1024 / 45);
    for (name, text) in [("16 KiB of prose", prose), ("16 KiB of events", events)] {
        let text = Bytes::from(text);
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |bencher| {
            let mut scrub = Scrub::new(Arc::clone(&matcher), Instead::Stars);
            bencher.iter(|| scrub.push(text.clone()));
        });
        group.bench_function(format!("{name}, copied instead"), |bencher| {
            let mut to = vec![0; text.len()];
            bencher.iter(|| black_box(&mut to).copy_from_slice(black_box(&text)));
        });
    }
    group.finish();
}

async fn live() -> (Plugins, Arc<LivePlugin>) {
    let binary = env!("CARGO_BIN_EXE_jackfield-under-test");
    let built = component(binary.as_ref(), Plugin::Inference);
    let folder = tempfile::tempdir().expect("a folder");
    let plugins_dir = folder.path().join("plugins");
    std::fs::create_dir(&plugins_dir).expect("a folder");
    let file = built.file_name().expect("a name");
    std::fs::copy(&built, plugins_dir.join(file)).expect("a component");
    let settings = PluginSettings {
        cache_dir: folder.path().join("cache"),
        versions_dir: folder.path().join("versions"),
        ..PluginSettings::default()
    };
    let store = open_memory(Awkward::default());
    let plugins = Plugins::open(settings, store, [0; 32])
        .await
        .expect("plugins");
    plugins.load_folder(&plugins_dir, Approve::All).await;
    let name = PluginName::parse("inference").expect("a name");
    let plugin = plugins.live().find(&name).cloned().expect("it is live");
    (plugins, plugin)
}

fn request(headers: usize) -> ShownRequest {
    let header = |number| {
        (
            format!("x-shown-{number}"),
            b"a value of some length".to_vec(),
        )
    };
    ShownRequest {
        method: Method::POST,
        prefix: "/llm/anthropic".to_owned(),
        path: "/v1/messages".to_owned(),
        query: None,
        headers: (0..headers).map(header).collect(),
        body: None,
        time: None,
        settings: None,
    }
}

fn caller() -> ShownCaller {
    ShownCaller {
        box_name: Some(BoxName::parse("box-a").expect("a name")),
        words: vec!["agent".to_owned()],
        offers: Vec::new(),
        targets: Vec::new(),
        uses: Default::default(),
    }
}

fn headers(token: &BoxToken) -> HeaderMap {
    let lines: HashMap<&str, &str> = HashMap::from([
        ("host", "broker.example.com"),
        ("x-api-key", token.as_str()),
        ("anthropic-version", "2023-06-01"),
        ("content-type", "application/json"),
        ("accept", "application/json"),
        ("user-agent", "an-sdk/1.2.3"),
        ("content-length", "120"),
    ]);
    lines
        .into_iter()
        .filter_map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value).ok()?))
        })
        .collect()
}

criterion_group!(parts, plugin, rules, scrub);
criterion_main!(parts);
