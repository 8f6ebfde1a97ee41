//! What is loaded, what waits, and what is refused.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::plugins::testing::{Host, body, caller, component, find, request};
use crate::plugins::{Approve, ComponentHash, LoadReport, Outcome, PluginState, Plugins};
use crate::rules::permission::Permission;

async fn load(plugins: &Plugins, host: &Host, approve: Approve) -> Vec<LoadReport> {
    plugins.load_folder(&host.plugins_dir(), approve).await
}

fn reason(reports: &[LoadReport], file: &str) -> String {
    let report = reports.iter().find(|report| report.file.ends_with(file));
    match &report.unwrap().outcome {
        Outcome::Refused(error) => error.to_string(),
        Outcome::Live(status)
        | Outcome::Waiting(status)
        | Outcome::Tried(status)
        | Outcome::Replaced(status) => {
            panic!("{status:?}")
        }
    }
}

#[tokio::test]
async fn what_nobody_approved_waits_and_an_approval_survives_a_restart() {
    let host = Host::with(&["hermit", "liar"]);
    let plugins = host.open().await;
    let reports = load(&plugins, &host, Approve::OnDisk).await;
    assert!(
        reports
            .iter()
            .all(|report| matches!(report.outcome, Outcome::Waiting(_)))
    );
    assert!(plugins.live().plugins().is_empty());

    let status = plugins.approve("liar", false).await.unwrap();
    assert_eq!(status.state, PluginState::Live);
    assert!(find(&plugins, "liar").is_some() && find(&plugins, "hermit").is_none());
    assert!(plugins.approve("nobody", false).await.is_err());

    let again = host.open().await;
    load(&again, &host, Approve::OnDisk).await;
    assert!(find(&again, "liar").is_some() && find(&again, "hermit").is_none());
}

#[tokio::test]
async fn an_approval_that_is_taken_back_takes_the_plugin_out_for_good() {
    let host = Host::with(&["hermit", "liar"]);
    let plugins = host.open().await;
    load(&plugins, &host, Approve::All).await;
    let liar = find(&plugins, "liar").unwrap();
    let hermit = find(&plugins, "hermit").unwrap();

    let revoked = plugins.revoke("liar").await.unwrap();
    assert_eq!(
        (revoked.name.as_str(), revoked.hash),
        ("liar", *liar.hash())
    );
    assert_eq!(revoked.others, []);
    assert!(liar.lease().is_cancelled() && !hermit.lease().is_cancelled());
    let state = |plugins: &Plugins, name: &str| {
        let listed = plugins.list();
        let found = listed.iter().find(|status| status.name() == name).unwrap();
        found.state.clone()
    };
    assert!(find(&plugins, "liar").is_none() && find(&plugins, "hermit").is_some());
    assert_eq!(state(&plugins, "liar"), PluginState::Waiting);

    // It stays out over a restart, and comes back with another yes.
    let again = host.open().await;
    load(&again, &host, Approve::OnDisk).await;
    assert!(find(&again, "liar").is_none() && find(&again, "hermit").is_some());
    again.approve("liar", false).await.unwrap();
    let back = find(&again, "liar").unwrap();
    assert!(!back.lease().is_cancelled());

    // By its hash, too, and then there is nothing left to take back.
    let hash = back.hash().to_string();
    again.revoke(&hash).await.unwrap();
    assert!(back.lease().is_cancelled() && find(&again, "liar").is_none());
    for which in [&hash, "liar", "nobody", &"0".repeat(64)] {
        let error = again.revoke(which).await.unwrap_err().to_string();
        assert!(error.contains("jackfield plugin list"), "{which}: {error}");
    }
}

#[tokio::test]
async fn another_writer_s_revocation_takes_a_plugin_out() {
    let host = Host::with(&["liar"]);
    let (one, two) = (host.open().await, host.open().await);
    load(&one, &host, Approve::All).await;
    let liar = find(&one, "liar").unwrap();
    // The other one has read the approval once it can let the plugin live.
    while find(&two, "liar").is_none() {
        load(&two, &host, Approve::OnDisk).await;
    }
    two.revoke("liar").await.unwrap();
    ends(liar.lease()).await;
    // The plugin goes out in the same step; the task that does it may lag.
    let gone = async {
        while find(&one, "liar").is_some() {
            tokio::task::yield_now().await;
        }
    };
    let limit = std::time::Duration::from_secs(20);
    tokio::time::timeout(limit, gone).await.expect("it goes");
}

#[tokio::test]
async fn one_component_s_approval_leaves_another_s_of_that_name_alone() {
    let host = Host::with(&["liar"]);
    let old = load_one(&host, Approve::All).await;
    let mut bytes = component("liar");
    bytes.extend([0, 2, 1, b'x']);
    host.put("liar.wasm", &bytes);
    let plugins = host.open().await;
    load(&plugins, &host, Approve::All).await;
    let new = *find(&plugins, "liar").unwrap().hash();
    let revoked = plugins.revoke("liar").await.unwrap();
    assert_eq!((revoked.hash, revoked.others), (new, vec![old]));
    // None is live now, and one approval is left to be meant.
    assert_eq!(plugins.revoke("liar").await.unwrap().hash, old);
}

/// A lease that ends, under a limit that measures nothing.
async fn ends(lease: &crate::lease::Tenure) {
    let limit = std::time::Duration::from_secs(20);
    let ended = tokio::time::timeout(limit, lease.cancelled()).await;
    ended.expect("the lease ends");
}

async fn load_one(host: &Host, approve: Approve) -> ComponentHash {
    let plugins = host.open().await;
    load(&plugins, host, approve).await;
    *find(&plugins, "liar").unwrap().hash()
}

#[tokio::test]
async fn an_approval_belongs_to_the_exact_bytes() {
    let host = Host::with(&["liar"]);
    load(&host.open().await, &host, Approve::All).await;
    // A custom section changes nothing but the hash.
    let mut bytes = component("liar");
    bytes.extend([0, 2, 1, b'x']);
    host.put("liar.wasm", &bytes);
    let plugins = host.open().await;
    let reports = load(&plugins, &host, Approve::OnDisk).await;
    assert!(matches!(reports[0].outcome, Outcome::Waiting(_)));
    // The approved ones are kept, and go on.
    let live = find(&plugins, "liar").unwrap();
    assert_eq!(*live.hash(), ComponentHash::of(&component("liar")));
}

#[tokio::test]
async fn one_bad_file_does_not_stop_the_rest_and_says_why() {
    let host = Host::with(&["liar", "hermit"]);
    let engine = wasmtime::Engine::default();
    let compiled = engine.precompile_component(&component("hermit")).unwrap();
    host.put("a-precompiled.wasm", &compiled);
    host.put("a-text.wasm", b"(component)");
    host.put("a-empty.wasm", b"");
    host.put("a-core.wasm", &wat::parse_str("(module)").unwrap());
    host.put("a-component.wasm", &wat::parse_str("(component)").unwrap());
    host.put("a-cut.wasm", &component("liar")[..5000]);
    host.put("z-copy-of-liar.wasm", &component("liar"));
    host.put("notes.txt", b"not looked at");
    let plugins = host.open().await;
    let reports = load(&plugins, &host, Approve::All).await;
    let check = |file: &str, expected: &str| {
        let reason = reason(&reports, file);
        assert!(reason.contains(expected), "{file}: {reason}");
    };
    check("a-precompiled.wasm", "compiled code");
    check("a-text.wasm", "not binary WebAssembly");
    check("a-empty.wasm", "not binary WebAssembly");
    check("a-core.wasm", "core module");
    check("a-component.wasm", "jackfield:plugin/decisions@0.1.0");
    check("a-cut.wasm", "malformed");
    check("z-copy-of-liar.wasm", "named liar too");
    assert_eq!(reports.len(), 9);
    assert_eq!(plugins.live().plugins().len(), 2);
    let refused = |state: &PluginState| matches!(state, PluginState::Refused(_));
    let list = plugins.list();
    assert_eq!(
        list.iter().filter(|status| refused(&status.state)).count(),
        7
    );
}

#[tokio::test]
async fn whoever_wants_something_of_the_host_is_refused_by_name() {
    let host = Host::new();
    let import = |name: &str| {
        let text = format!("(component (import \"{name}\" (instance (export \"f\" (func)))))");
        wat::parse_str(text).unwrap()
    };
    let names = [
        "wasi:http/outgoing-handler@0.2.3",
        "wasi:keyvalue/store@0.2.0",
        "wasi:cli/environment@0.3.0",
        "jackfield:plugin/host@0.1.0",
        "evil:corp/shell@1.0.0",
    ];
    for (index, name) in names.iter().enumerate() {
        host.put(&format!("{index}.wasm"), &import(name));
    }
    let plugins = host.open().await;
    let reports = load(&plugins, &host, Approve::All).await;
    for (index, name) in names.iter().enumerate() {
        let reason = reason(&reports, &format!("{index}.wasm"));
        assert!(reason.contains(&format!("it imports {name}")), "{reason}");
    }
    assert!(plugins.live().plugins().is_empty());
}

#[tokio::test]
async fn wasi_is_there_and_says_the_same_to_everybody() {
    let host = Host::with(&["tourist"]);
    let (plugins, tourist) = host.live("tourist").await;
    let about = plugins.list().remove(0).about.unwrap();
    let clock = "wasi:clocks/monotonic-clock@0.2.3".to_owned();
    assert!(about.inert_imports.contains(&clock), "{about:?}");
    let mut seen = Vec::new();
    for _ in 0..2 {
        let decision = tourist.decide(request("/tourist", "")).await.unwrap();
        seen.push(body(decision.route(caller()).await.unwrap()));
    }
    assert_eq!(seen[0], seen[1]);
    for line in [
        "environment []",
        "arguments []",
        "wall 946684800",
        "monotonic 0",
        "ready [0]",
        "folders 0",
        "socket false",
    ] {
        assert!(seen[0].contains(&format!("{line}\n")), "{}", seen[0]);
    }
}

#[tokio::test]
async fn code_that_somebody_changed_is_compiled_anew() {
    let host = Host::with(&["liar"]);
    host.live("liar").await;
    let mut files = fs::read_dir(&host.settings.cache_dir).unwrap();
    let file = files.next().unwrap().unwrap().path();
    let code = fs::read(&file).unwrap();
    let mut changed = code.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    fs::write(&file, changed).unwrap();
    let (_plugins, liar) = host.live("liar").await;
    let decision = liar.decide(request("/liar", "/counts")).await.unwrap();
    assert_eq!(body(decision.route(caller()).await.unwrap()), "2");
    assert_eq!(fs::read(&file).unwrap().len(), code.len());
}

#[tokio::test]
async fn a_reserved_prefix_is_not_given_away() {
    let mut host = Host::with(&["hermit", "liar"]);
    host.settings.reserved = vec!["/liar/under".to_owned()];
    let plugins = host.open().await;
    let reports = load(&plugins, &host, Approve::All).await;
    let reason = reason(&reports, "liar.wasm");
    assert!(
        reason.contains("/liar/under of the host itself"),
        "{reason}"
    );
    assert!(find(&plugins, "liar").is_none() && find(&plugins, "hermit").is_some());
}

#[tokio::test]
async fn two_plugins_cannot_have_one_prefix() {
    // The same code under another name: one byte of the name differs.
    let renamed = |bytes: Vec<u8>| {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(text.contains("hermithermit") || text.contains("hermit"));
        let mut bytes = bytes;
        let at = memchr::memmem::find(&bytes, b"hermit1.0.0")
            .or_else(|| memchr::memmem::find(&bytes, b"1.0.0hermit").map(|at| at + 5));
        bytes[at.expect("the name stands beside the version")] = b'k';
        bytes
    };
    let host = Host::with(&["hermit"]);
    host.put("kermit.wasm", &renamed(component("hermit")));
    let plugins = host.open().await;
    let reports = load(&plugins, &host, Approve::All).await;
    let reason = reason(&reports, "kermit.wasm");
    assert!(reason.contains("of the plugin hermit"), "{reason}");
}

#[tokio::test]
async fn a_folder_or_file_that_others_can_write_is_refused() {
    let host = Host::with(&["hermit"]);
    let plugins = host.open().await;
    let set = |path: PathBuf, mode: u32| {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    for mode in [0o777, 0o775, 0o757] {
        set(host.plugins_dir(), mode);
        let reports = load(&plugins, &host, Approve::All).await;
        let reason = reason(&reports, "plugins");
        assert!(reason.contains("chmod go-w"), "{reason}");
    }
    set(host.plugins_dir(), 0o755);
    set(host.plugins_dir().join("hermit.wasm"), 0o666);
    let reports = load(&plugins, &host, Approve::All).await;
    assert!(reason(&reports, "hermit.wasm").contains("chmod go-w"));
    assert!(plugins.live().plugins().is_empty());
}

#[tokio::test]
async fn a_grant_narrows_what_was_approved() {
    let mut host = Host::with(&["liar"]);
    let name = crate::rules::names::PluginName::parse("liar").unwrap();
    let grant = [Permission::parse("keep").unwrap()].into();
    host.settings.grants.insert(name, grant);
    let (_plugins, liar) = host.live("liar").await;
    assert!(liar.granted().uses().keep);
    let word = crate::rules::names::ScopeWord::parse("tell").unwrap();
    for reach in &liar.manifest().words[0].reaches {
        let crate::rules::manifest::Reach::Upstream(name) = reach else {
            panic!("{reach:?}");
        };
        let target = crate::rules::plan::Target::Upstream(name.clone());
        assert!(!liar.granted().reached(&word).contains(&target));
    }
}

#[tokio::test]
async fn a_grant_that_names_what_no_plugin_asks_for_is_told() {
    let mut host = Host::with(&["liar"]);
    let vain = Permission::parse("upstream:misspelled").unwrap();
    let name = crate::rules::names::PluginName::parse("liar").unwrap();
    let grant = [Permission::parse("keep").unwrap(), vain.clone()].into();
    host.settings.grants.insert(name, grant);
    let plugins = host.open().await;
    for approve in [Approve::OnDisk, Approve::All] {
        load(&plugins, &host, approve).await;
        let about = plugins.list().remove(0).about.unwrap();
        assert_eq!(
            about.unused_grants,
            std::slice::from_ref(&vain),
            "{approve:?}"
        );
    }
}

#[tokio::test]
async fn a_folder_that_nobody_made_yet_is_an_empty_one() {
    let host = Host::new();
    fs::remove_dir(host.plugins_dir()).unwrap();
    let plugins = host.open().await;
    let reports = load(&plugins, &host, Approve::All).await;
    assert!(reports.is_empty(), "{reports:?}");
    // Any other reason not to read it is told.
    fs::write(host.plugins_dir(), "").unwrap();
    fs::set_permissions(host.plugins_dir(), Permissions::from_mode(0o644)).unwrap();
    let reports = load(&plugins, &host, Approve::All).await;
    assert!(reason(&reports, "plugins").contains("cannot be read"));
}

#[tokio::test]
async fn who_holds_the_old_version_finishes_with_it() {
    let host = Host::with(&["liar"]);
    let (plugins, old) = host.live("liar").await;
    let decision = old.decide(request("/liar", "/counts")).await.unwrap();
    let mut bytes = component("liar");
    bytes.extend([0, 2, 1, b'x']);
    host.put("liar.wasm", &bytes);
    load(&plugins, &host, Approve::All).await;
    let new = find(&plugins, "liar").unwrap();
    assert_ne!(old.hash(), new.hash());
    assert_eq!(plugins.live().plugins().len(), 1);
    assert_eq!(body(decision.route(caller()).await.unwrap()), "2");
}
