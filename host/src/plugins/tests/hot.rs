//! What happens to a plugin while the host runs: other files, other versions,
//! and what the operator says about them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::plugins::testing::{Host, component, find};
use crate::plugins::{Approve, ComponentHash, LoadReport, Outcome, PluginState, Plugins};
use crate::rules::names::PluginName;
use crate::rules::signature::minisign::Signer;
use crate::rules::signature::{SignaturePolicy, TrustedKey};

/// A version of the moody one.
fn moody(changes: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = component("moody");
    for (from, to) in changes {
        assert_eq!(from.len(), to.len());
        let at: Vec<usize> = memchr::memmem::find_iter(&bytes, from).collect();
        assert_eq!(at.len(), 1, "{from}");
        bytes[at[0]..at[0] + to.len()].copy_from_slice(to.as_bytes());
    }
    bytes
}

fn tinted(tint: &str) -> Vec<u8> {
    moody(&[("tint:green", &format!("tint:{tint:<5}"))])
}

fn in_mood(mood: &str) -> Vec<u8> {
    moody(&[("mood:honest", &format!("mood:{mood}"))])
}

/// Looks until the folder has been seen to lie still.
async fn look(plugins: &Plugins, host: &Host) -> Vec<LoadReport> {
    let mut reports = plugins.look_again(&host.plugins_dir()).await;
    reports.extend(plugins.look_again(&host.plugins_dir()).await);
    reports
}

async fn start(host: &Host, approve: Approve) -> Plugins {
    let plugins = host.open().await;
    plugins.load_folder(&host.plugins_dir(), approve).await;
    plugins
}

fn live(plugins: &Plugins) -> Option<ComponentHash> {
    find(plugins, "moody").map(|plugin| *plugin.hash())
}

async fn happened(plugins: &Plugins, name: &str) -> Vec<String> {
    let events = plugins.history(name).await.unwrap();
    events.into_iter().map(|event| event.happened).collect()
}

/// The last thing that happened, and to which component.
async fn last(plugins: &Plugins) -> (String, Option<String>, String) {
    let events = plugins.history("moody").await.unwrap();
    let last = events.into_iter().next_back().unwrap();
    (last.happened, last.hash, last.text)
}

fn state(plugins: &Plugins, hash: &ComponentHash) -> PluginState {
    let listed = plugins.list();
    let of = |about: &crate::plugins::About| about.hash == *hash;
    let found = listed.iter().find(|one| one.about.as_ref().is_some_and(of));
    found.unwrap().state.clone()
}

#[tokio::test]
async fn a_new_file_goes_the_whole_way() {
    let host = Host::new();
    let plugins = start(&host, Approve::OnDisk).await;
    assert!(look(&plugins, &host).await.is_empty());
    host.put("moody.wasm", &moody(&[]));
    let reports = look(&plugins, &host).await;
    assert!(matches!(reports[0].outcome, Outcome::Waiting(_)));
    assert_eq!(reports.len(), 1);
    assert_eq!(live(&plugins), None);
    plugins.approve("moody", false).await.unwrap();
    let first = ComponentHash::of(&moody(&[]));
    assert_eq!(live(&plugins), Some(first));
    assert_eq!(
        happened(&plugins, "moody").await,
        ["found", "signature", "asks", "waits", "approved", "live"]
    );
    // Another one waits, and the live one goes on.
    host.put("moody.wasm", &tinted("red"));
    look(&plugins, &host).await;
    let second = ComponentHash::of(&tinted("red"));
    assert_eq!(live(&plugins), Some(first));
    assert_eq!(state(&plugins, &second), PluginState::Waiting);
    assert_eq!(state(&plugins, &first), PluginState::Live);
    plugins.approve(&second.to_string(), false).await.unwrap();
    assert_eq!(live(&plugins), Some(second));
    // What was approved once comes back by itself, and what is gone goes on.
    host.put("moody.wasm", &moody(&[]));
    look(&plugins, &host).await;
    assert_eq!(live(&plugins), Some(first));
    fs::remove_file(host.plugins_dir().join("moody.wasm")).unwrap();
    look(&plugins, &host).await;
    assert_eq!(live(&plugins), Some(first));
    // A file that is touched is not put there anew.
    let before = happened(&plugins, "moody").await.len();
    host.put("moody.wasm", &moody(&[]));
    look(&plugins, &host).await;
    let events = happened(&plugins, "moody").await;
    assert!(events.len() > before);
    host.put("moody.wasm", &moody(&[]));
    look(&plugins, &host).await;
    assert_eq!(happened(&plugins, "moody").await, events);
}

#[tokio::test]
async fn whatever_comes_instead_is_refused_by_name_and_the_live_one_goes_on() {
    let host = Host::with(&["moody", "liar"]);
    let plugins = start(&host, Approve::All).await;
    let first = live(&plugins).unwrap();
    let engine = wasmtime::Engine::default();
    let compiled = engine.precompile_component(&component("hermit")).unwrap();
    let imports = "(component (import \"evil:corp/shell@1.0.0\" (instance (export \"f\" (func)))))";
    let wat = |text: &str| wat::parse_str(text).unwrap();
    let check = async |bytes: &[u8], cause: &str| {
        host.put("moody.wasm", bytes);
        let reports = look(&plugins, &host).await;
        let [report] = reports.as_slice() else {
            panic!("{cause}: {reports:?}");
        };
        let reason = report.outcome.reason().expect(cause);
        assert!(reason.contains(cause), "{cause}: {reason}");
        assert_eq!(live(&plugins), Some(first), "{cause}");
        let (happened, hash, text) = last(&plugins).await;
        assert_eq!((happened.as_str(), text.contains(cause)), ("refused", true));
        assert_eq!(hash, Some(ComponentHash::of(bytes).to_string()));
        // And handed over it is no better.
        let handed = plugins.load_bytes("moody.wasm".to_owned(), bytes.to_vec(), None);
        let reason = handed.await.outcome.reason().expect(cause);
        assert!(reason.contains(cause), "{cause}: {reason}");
        assert_eq!(live(&plugins), Some(first), "{cause}");
    };
    check(b"(component)", "not binary WebAssembly").await;
    check(b"", "not binary WebAssembly").await;
    check(&wat("(module)"), "core module").await;
    check(&wat("(component)"), "jackfield:plugin/decisions@0.1.0").await;
    check(&wat(imports), "it imports evil:corp/shell@1.0.0").await;
    check(&compiled, "compiled code").await;
    check(&moody(&[])[..9000], "malformed").await;
    check(&in_mood("traps!"), "could not say what it is").await;
    check(&in_mood("loops!"), "computed for longer than").await;
    check(&in_mood("unsure"), "name").await;
    check(&in_mood("claims"), "meets /liar of the plugin liar").await;
    // What was there before can be put back.
    host.put("moody.wasm", &moody(&[]));
    let reports = look(&plugins, &host).await;
    assert!(matches!(reports[0].outcome, Outcome::Live(_)));
}

#[tokio::test]
async fn two_hundred_megabytes_are_not_read() {
    let host = Host::with(&["moody"]);
    let plugins = start(&host, Approve::All).await;
    // A component with one custom section, valid and mostly a hole.
    let size: u32 = 200 * 1024 * 1024;
    let head = b"\0asm\x0d\0\x01\0\0\x80\x80\x80\x64";
    let path = host.plugins_dir().join("moody.wasm");
    host.put("moody.wasm", head);
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len(head.len() as u64 + u64::from(size)).unwrap();
    let reports = look(&plugins, &host).await;
    let reason = reports[0].outcome.reason().unwrap();
    assert!(reason.contains("bytes, and a plugin at most"), "{reason}");
    assert!(live(&plugins).is_some());
    assert_eq!(last(&plugins).await.0, "refused");
}

#[tokio::test]
async fn a_file_that_others_can_write_is_taken_up_once_it_is_closed() {
    let host = Host::new();
    let plugins = start(&host, Approve::OnDisk).await;
    host.put("moody.wasm", &moody(&[]));
    let path = host.plugins_dir().join("moody.wasm");
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    let reports = look(&plugins, &host).await;
    assert!(reports[0].outcome.reason().unwrap().contains("chmod go-w"));
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let reports = look(&plugins, &host).await;
    assert!(matches!(reports[0].outcome, Outcome::Waiting(_)));
    // The folder, too, and it is said once.
    let folder = host.plugins_dir();
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    assert_eq!(look(&plugins, &host).await.len(), 1);
    assert!(look(&plugins, &host).await.is_empty());
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    assert!(look(&plugins, &host).await.is_empty());
}

#[tokio::test]
async fn another_file_of_a_plugin_s_name_is_refused() {
    let host = Host::with(&["moody"]);
    let plugins = start(&host, Approve::All).await;
    host.put("again.wasm", &tinted("red"));
    let reports = look(&plugins, &host).await;
    let reason = reports[0].outcome.reason().unwrap();
    assert!(reason.contains("a plugin named moody too"), "{reason}");
    // A file that takes another's place does not: the old one is gone.
    let from = host.plugins_dir().join("moody.wasm");
    fs::rename(from, host.plugins_dir().join("again.wasm")).unwrap();
    let reports = look(&plugins, &host).await;
    assert!(
        matches!(reports[0].outcome, Outcome::Live(_)),
        "{reports:?}"
    );
}

#[tokio::test]
async fn what_is_handed_over_is_kept_and_loaded_again() {
    let host = Host::new();
    let plugins = start(&host, Approve::OnDisk).await;
    let load = |plugins: &Plugins, bytes: Vec<u8>| {
        let plugins = plugins.clone();
        async move { plugins.load_bytes("x.wasm".to_owned(), bytes, None).await }
    };
    let report = load(&plugins, moody(&[])).await;
    assert!(matches!(report.outcome, Outcome::Waiting(_)));
    let first = ComponentHash::of(&moody(&[]));

    // It waits over a restart.
    let plugins = start(&host, Approve::OnDisk).await;
    assert_eq!(state(&plugins, &first), PluginState::Waiting);
    plugins.approve("moody", false).await.unwrap();
    let second = ComponentHash::of(&tinted("red"));
    let report = load(&plugins, tinted("red")).await;
    assert!(matches!(report.outcome, Outcome::Waiting(_)));

    // Both do.
    let plugins = start(&host, Approve::OnDisk).await;
    assert_eq!(live(&plugins), Some(first));
    assert_eq!(state(&plugins, &second), PluginState::Waiting);
    plugins.approve("moody", false).await.unwrap();
    assert_eq!(live(&plugins), Some(second));
    let plugins = start(&host, Approve::OnDisk).await;
    assert_eq!(live(&plugins), Some(second));
    // Bytes that somebody changed are not.
    let path = host.settings.versions_dir.join(format!("{second}.wasm"));
    fs::write(&path, tinted("blue")).unwrap();
    let plugins = start(&host, Approve::OnDisk).await;
    assert_eq!(live(&plugins), None);
}

#[tokio::test]
async fn more_permission_waits_and_can_be_turned_down() {
    let host = Host::with(&["moody"]);
    let plugins = start(&host, Approve::All).await;
    let first = live(&plugins).unwrap();
    host.put("moody.wasm", &in_mood("greedy"));
    look(&plugins, &host).await;
    let greedy = ComponentHash::of(&in_mood("greedy"));
    assert_eq!(live(&plugins), Some(first));
    let listed = plugins.list();
    let waiting = listed.iter().find(|one| one.state == PluginState::Waiting);
    let about = waiting.unwrap().about.clone().unwrap();
    let change = about.change.unwrap();
    assert_eq!(change.hash, first);
    let more: Vec<String> = change.more.iter().map(ToString::to_string).collect();
    assert_eq!((more, change.less), (vec!["keep".to_owned()], vec![]));
    let events = plugins.history("moody").await.unwrap();
    assert!(events.iter().any(|event| event.more == ["keep"]));

    plugins.reject("moody").await.unwrap();
    assert_eq!(state(&plugins, &greedy), PluginState::Rejected);
    let none = plugins.approve("moody", false).await.unwrap_err();
    assert!(
        none.to_string().contains("no version of moody waits"),
        "{none}"
    );
    assert!(plugins.reject("moody").await.is_err());
    // It stays so, over a restart too, where the live one goes on.
    let plugins = start(&host, Approve::OnDisk).await;
    assert_eq!(state(&plugins, &greedy), PluginState::Rejected);
    assert_eq!(live(&plugins), Some(first));
    // Until somebody means it after all, and says which.
    plugins.approve(&greedy.to_string(), false).await.unwrap();
    assert_eq!(live(&plugins), Some(greedy));
}

#[tokio::test]
async fn a_rollback_is_one_swap_and_outlasts_a_restart() {
    let host = Host::with(&["moody"]);
    let plugins = start(&host, Approve::All).await;
    let first = live(&plugins).unwrap();
    assert!(plugins.rollback("moody", None).await.is_err());
    assert!(plugins.rollback("nobody", None).await.is_err());
    host.put("moody.wasm", &tinted("red"));
    look(&plugins, &host).await;
    plugins.approve("moody", false).await.unwrap();
    let second = live(&plugins).unwrap();

    let back = plugins.rollback("moody", None).await.unwrap();
    assert_eq!(back.state, PluginState::Live);
    assert_eq!(live(&plugins), Some(first));
    assert_eq!(plugins.live().plugins().len(), 1);
    assert_eq!(last(&plugins).await.0, "rolled-back");
    assert_eq!(state(&plugins, &second), PluginState::Replaced);

    let plugins = start(&host, Approve::OnDisk).await;
    assert_eq!(live(&plugins), Some(first));
    assert_eq!(state(&plugins, &second), PluginState::Replaced);
    let begins = &second.to_string()[..8];
    plugins.rollback("moody", Some(begins)).await.unwrap();
    assert_eq!(live(&plugins), Some(second));
    let unknown = plugins.rollback("moody", Some("00000000")).await;
    let unknown = unknown.unwrap_err().to_string();
    assert!(unknown.contains(&first.to_string()), "{unknown}");

    // Nobody goes back to what is no longer approved, or blocked.
    let to = first.to_string();
    let refused = async |cause: &str| {
        let error = plugins.rollback("moody", Some(&to)).await.unwrap_err();
        let error = crate::rules::causes::with_causes(&error);
        assert!(error.contains(cause), "{error}");
        assert_eq!(live(&plugins), Some(second));
        assert_eq!(last(&plugins).await.0, "refused");
    };
    plugins.revoke(&to).await.unwrap();
    refused("approval was taken back").await;
    plugins.block(&first).await.unwrap();
    refused("blocked").await;
}

#[tokio::test]
async fn a_block_stops_a_version_wherever_it_is() {
    let host = Host::with(&["moody"]);
    let plugins = start(&host, Approve::All).await;
    let first = live(&plugins).unwrap();
    let plugin = find(&plugins, "moody").unwrap();
    assert!(plugins.unblock(&first).await.is_err());
    assert!(plugins.block(&first).await.unwrap());
    assert!(plugin.lease().is_cancelled());
    assert_eq!(live(&plugins), None);
    assert_eq!(last(&plugins).await.0, "blocked");
    let blocked = plugins.blocked().await.unwrap();
    assert_eq!(blocked[0].name.as_deref(), Some("moody"));
    assert_eq!(blocked[0].hash, first);
    // By hand, at start with everybody's yes, and by a yes of its own.
    let handed = plugins.load_bytes("x.wasm".to_owned(), moody(&[]), None);
    assert!(handed.await.outcome.reason().unwrap().contains("blocked"));
    assert!(plugins.approve("moody", false).await.is_err());
    assert!(plugins.approve(&first.to_string(), false).await.is_err());
    let plugins = start(&host, Approve::All).await;
    assert_eq!(live(&plugins), None);
    // It comes back with the next look, as it was approved.
    plugins.unblock(&first).await.unwrap();
    assert!(plugins.blocked().await.unwrap().is_empty());
    look(&plugins, &host).await;
    assert_eq!(live(&plugins), Some(first));
    let back = find(&plugins, "moody").unwrap();
    assert!(!back.lease().is_cancelled());
}

#[tokio::test]
async fn what_an_old_version_has_open_ends_with_its_approval() {
    let host = Host::with(&["moody"]);
    let plugins = start(&host, Approve::All).await;
    let old = find(&plugins, "moody").unwrap();
    host.put("moody.wasm", &tinted("red"));
    look(&plugins, &host).await;
    plugins.approve("moody", false).await.unwrap();
    let new = find(&plugins, "moody").unwrap();
    assert!(!old.lease().is_cancelled());
    plugins.revoke(&old.hash().to_string()).await.unwrap();
    assert!(old.lease().is_cancelled() && !new.lease().is_cancelled());
    assert_eq!(live(&plugins), Some(*new.hash()));
}

/// A key, a host that trusts it for the moody one, and how to sign.
fn signed_host(required: bool) -> (Host, Signer) {
    let signer = Signer::new(1);
    let mut host = Host::new();
    let policy = SignaturePolicy {
        trusted: vec![TrustedKey::parse(&signer.key()).unwrap()],
        required,
    };
    let name = PluginName::parse("moody").unwrap();
    host.settings.signatures.insert(name, policy);
    (host, signer)
}

fn put_signed(host: &Host, signer: &Signer, bytes: &[u8]) -> PathBuf {
    host.put("moody.wasm", bytes);
    host.put("moody.wasm.minisig", signer.sign(bytes, "t").as_bytes());
    host.plugins_dir().join("moody.wasm.minisig")
}

#[tokio::test]
async fn an_approved_signer_s_next_version_goes_live_unless_it_wants_more() {
    let (host, signer) = signed_host(false);
    put_signed(&host, &signer, &moody(&[]));
    let plugins = start(&host, Approve::OnDisk).await;
    plugins.approve("moody", true).await.unwrap();
    put_signed(&host, &signer, &tinted("red"));
    look(&plugins, &host).await;
    let red = ComponentHash::of(&tinted("red"));
    assert_eq!(live(&plugins), Some(red));
    // Over a restart, too.
    let plugins = start(&host, Approve::OnDisk).await;
    assert_eq!(live(&plugins), Some(red));
    // More than was approved, or not signed, waits.
    let signature = put_signed(&host, &signer, &in_mood("greedy"));
    look(&plugins, &host).await;
    assert_eq!(live(&plugins), Some(red));
    fs::remove_file(&signature).unwrap();
    host.put("moody.wasm", &tinted("blue"));
    let reports = look(&plugins, &host).await;
    assert!(matches!(reports[0].outcome, Outcome::Waiting(_)));
    assert_eq!(live(&plugins), Some(red));
    let unsigned = plugins.approve("moody", true).await.unwrap_err();
    assert!(unsigned.to_string().contains("leave --signer out"));
    // The signature may come later.
    put_signed(&host, &signer, &tinted("blue"));
    look(&plugins, &host).await;
    assert_eq!(live(&plugins), Some(ComponentHash::of(&tinted("blue"))));
    // Without the signer's approval all that it let live is out.
    let plugin = find(&plugins, "moody").unwrap();
    let revoked = plugins.revoke("moody").await.unwrap();
    assert_eq!(revoked.signers.len(), 1);
    assert!(plugin.lease().is_cancelled());
    assert_eq!(live(&plugins), None);
}

#[tokio::test]
async fn where_a_signature_is_required_nothing_else_is_loaded() {
    let (host, signer) = signed_host(true);
    let stranger = Signer::new(2);
    put_signed(&host, &signer, &moody(&[]));
    let plugins = start(&host, Approve::All).await;
    let first = live(&plugins).unwrap();
    let (other, bytes) = (tinted("red"), tinted("blue"));
    let foreign = stranger.sign(&bytes, "t");
    let wrong = signer.sign(&other, "t");
    for (signature, cause) in [
        (None, "it is not signed"),
        (Some("nonsense"), "minisign's format"),
        (Some(foreign.as_str()), "which trusted_keys does not list"),
        (Some(wrong.as_str()), "does not fit its bytes"),
    ] {
        // At the next look, by hand, and at a start.
        let beside = host.plugins_dir().join("moody.wasm.minisig");
        let _there = fs::remove_file(&beside);
        if let Some(text) = signature {
            host.put("moody.wasm.minisig", text.as_bytes());
        }
        host.put("moody.wasm", &bytes);
        let reports = look(&plugins, &host).await;
        let reason = reports[0].outcome.reason().expect(cause);
        assert!(reason.contains(cause), "{reason}");
        let signature = signature.map(str::to_owned);
        let handed = plugins.load_bytes("x.wasm".to_owned(), bytes.clone(), signature);
        let reason = handed.await.outcome.reason().expect(cause);
        assert!(reason.contains(cause), "{reason}");
        assert_eq!(live(&plugins), Some(first));
        let again = host.open().await;
        let reports = again.load_folder(&host.plugins_dir(), Approve::All).await;
        let reason = reports[0].outcome.reason().expect(cause);
        assert!(reason.contains(cause), "{reason}");
        assert_eq!(live(&again), Some(first), "the kept one is signed");
    }
}

#[tokio::test]
async fn nobody_goes_back_to_what_is_not_signed() {
    let (mut host, signer) = signed_host(false);
    host.put("moody.wasm", &moody(&[]));
    let plugins = start(&host, Approve::All).await;
    put_signed(&host, &signer, &tinted("red"));
    look(&plugins, &host).await;
    plugins.approve("moody", false).await.unwrap();
    let red = live(&plugins).unwrap();
    let name = PluginName::parse("moody").unwrap();
    host.settings.signatures.get_mut(&name).unwrap().required = true;
    let plugins = start(&host, Approve::OnDisk).await;
    assert_eq!(live(&plugins), Some(red));
    let error = plugins.rollback("moody", None).await.unwrap_err();
    assert!(error.to_string().contains("it is not signed"), "{error}");
    assert_eq!(live(&plugins), Some(red));
}

#[tokio::test]
async fn the_last_versions_are_kept_and_no_more() {
    let host = Host::with(&["moody"]);
    let plugins = start(&host, Approve::All).await;
    for tint in ["a", "b", "c", "d", "e", "f"] {
        host.put("moody.wasm", &tinted(tint));
        look(&plugins, &host).await;
        plugins.approve("moody", false).await.unwrap();
    }
    let count = |folder: &PathBuf| fs::read_dir(folder).unwrap().count();
    assert_eq!(count(&host.settings.versions_dir), 5);
    assert_eq!(count(&host.settings.cache_dir), 5);
    // And one that was live before any of them is no version to go back to.
    let gone = ComponentHash::of(&moody(&[])).to_string();
    assert!(plugins.rollback("moody", Some(&gone)).await.is_err());
}
