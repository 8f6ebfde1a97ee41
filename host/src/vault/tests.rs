//! The vault over a real store: what is kept, what opens, and what a wrong or
//! missing key does.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::rules::allow::AllowRule;
use crate::rules::payer::{Payer, PayerKind, Principal};
use crate::store::memory::{Awkward, open_memory};
use crate::store::{SledSettings, open_sled};

const VALUE: &str = "sk-test-0123456789abcdef";

fn box_name(text: &str) -> BoxName {
    BoxName::parse(text).unwrap()
}

fn secret_name(text: &str) -> SecretName {
    SecretName::parse(text).unwrap()
}

fn upstream() -> UpstreamName {
    UpstreamName::parse("models").unwrap()
}

fn value() -> Secret {
    Secret::new(VALUE.into())
}

fn key() -> VaultKey {
    VaultKey::from_bytes([3; 32])
}

fn new_secret(owner: &str, name: &str) -> NewSecret {
    NewSecret {
        box_name: box_name(owner),
        name: secret_name(name),
        origin: Origin::parse("api.test:8443").unwrap(),
        allow: vec![AllowRule::parse("GET /repos/").unwrap()],
        allow_private: true,
        extra_ca: Some("/etc/ca.pem".into()),
    }
}

fn new_credential(owner: Option<&str>) -> NewCredential {
    NewCredential {
        upstream: upstream(),
        name: None,
        kind: CredentialKind::SetupToken,
        payer: Some(Payer {
            kind: PayerKind::Owner,
            principal: Principal::parse("github:ada"),
        }),
        box_name: owner.map(box_name),
        bound_to: Origin::parse("https://api.test").unwrap(),
    }
}

fn secret_key(owner: &str, name: &str) -> CredentialKey {
    CredentialKey::Secret {
        box_name: box_name(owner),
        name: secret_name(name),
    }
}

/// Opening shows it back; the tests compare by sealing's own file alone.
fn opens(vault: &Vault, key: &CredentialKey) -> bool {
    vault
        .open_value(key)
        .is_ok_and(|opened| opened.value.len() == VALUE.len())
}

fn awkward(seed: u64) -> Arc<dyn Store> {
    open_memory(Awkward {
        seed,
        conflicts: 64,
        ..Awkward::default()
    })
}

fn embedded(folder: &Path) -> Arc<dyn Store> {
    open_sled(&folder.join("store"), SledSettings::default()).unwrap()
}

async fn everything(store: &dyn Store) -> Vec<Record> {
    store.scan(b"").await.unwrap().0
}

#[tokio::test]
async fn what_is_set_is_seen_at_once_and_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = embedded(folder.path());
    let vault = Vault::open(Arc::clone(&store), key()).await.unwrap();
    let secret = new_secret("a", "OPENAI");
    vault
        .set_secret(secret.clone(), value(), false)
        .await
        .unwrap();
    let name = vault
        .set_credential(new_credential(Some("a")), value(), false)
        .await
        .unwrap();

    let check = |vault: &Vault| {
        let record = vault.secret(&secret.box_name, &secret.name).unwrap();
        let shown = (
            &record.origin,
            &record.allow,
            record.allow_private,
            &record.extra_ca,
        );
        assert_eq!(
            shown,
            (&secret.origin, &secret.allow, true, &secret.extra_ca)
        );
        let opened = vault.open_value(&secret_key("a", "OPENAI")).unwrap();
        assert_eq!(
            (opened.kind, opened.value.len()),
            (CredentialKind::Secret, VALUE.len())
        );
        assert_eq!(opened.bound_to, secret.origin);

        let payer = vault
            .credentials_for(&upstream(), &box_name("a"))
            .unwrap()
            .unwrap();
        assert_eq!(
            (&payer.name, payer.kind),
            (&name, CredentialKind::SetupToken)
        );
        assert_eq!(
            payer.payer.as_ref().unwrap().to_string(),
            "owner github:ada"
        );
        let credential = CredentialKey::Credential {
            upstream: upstream(),
            name: name.clone(),
        };
        assert!(opens(vault, &credential));
        assert!(
            vault
                .credentials_for(&upstream(), &box_name("b"))
                .unwrap()
                .is_none()
        );
        assert_eq!((vault.secrets().len(), vault.credentials().len()), (1, 1));
    };
    check(&vault);
    store.close().await;
    check(&Vault::open(embedded(folder.path()), key()).await.unwrap());
}

#[tokio::test]
async fn what_is_removed_is_gone_at_once() {
    for seed in 0..8 {
        let vault = Vault::open(awkward(seed), key()).await.unwrap();
        for (owner, name) in [("a", "ONE"), ("a", "TWO"), ("ab", "ONE")] {
            vault
                .set_secret(new_secret(owner, name), value(), false)
                .await
                .unwrap();
        }
        let general = vault
            .set_credential(new_credential(None), value(), false)
            .await
            .unwrap();
        vault
            .set_credential(new_credential(Some("a")), value(), false)
            .await
            .unwrap();

        assert!(
            vault
                .remove_secret(&box_name("a"), &secret_name("ONE"))
                .await
                .unwrap()
        );
        assert!(
            !vault
                .remove_secret(&box_name("a"), &secret_name("ONE"))
                .await
                .unwrap()
        );
        assert!(vault.secret(&box_name("a"), &secret_name("ONE")).is_none());
        let error = vault.open_value(&secret_key("a", "ONE")).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("secret ONE of box a is not held"),
            "{error}"
        );

        vault.remove_box(&box_name("a")).await.unwrap();
        let left: Vec<String> = vault
            .secrets()
            .iter()
            .map(|s| s.box_name.to_string())
            .collect();
        assert_eq!(left, ["ab"]);
        let paying = vault
            .credentials_for(&upstream(), &box_name("a"))
            .unwrap()
            .unwrap();
        assert_eq!(paying.name, general);

        assert!(
            vault
                .remove_credential(&upstream(), &general)
                .await
                .unwrap()
        );
        assert!(
            !vault
                .remove_credential(&upstream(), &general)
                .await
                .unwrap()
        );
        assert!(vault.credentials().is_empty());
    }
}

#[tokio::test]
async fn setting_again_replaces_the_value_and_the_address() {
    let vault = Vault::open(awkward(1), key()).await.unwrap();
    vault
        .set_secret(new_secret("a", "ONE"), value(), false)
        .await
        .unwrap();
    let moved = NewSecret {
        origin: Origin::parse("other.test").unwrap(),
        ..new_secret("a", "ONE")
    };
    let short = Secret::new(b"short".to_vec());
    vault.set_secret(moved.clone(), short, true).await.unwrap();
    let opened = vault.open_value(&secret_key("a", "ONE")).unwrap();
    assert_eq!((opened.value.len(), &opened.bound_to), (5, &moved.origin));
}

#[tokio::test]
async fn what_does_not_fit_is_refused_and_nothing_is_kept() {
    let store = awkward(1);
    let vault = Vault::open(Arc::clone(&store), key()).await.unwrap();
    let before = everything(&*store).await;
    let check = async |value: &[u8], expected: &str| {
        let set = vault.set_secret(new_secret("a", "ONE"), Secret::new(value.to_vec()), false);
        let error = set.await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        let set = vault.set_credential(new_credential(None), Secret::new(value.to_vec()), false);
        let error = set.await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(b"", "empty").await;
    check(b"short", "--short").await;
    check(b"long-enough\r\nx-evil: 1", "control character").await;
    check(&[b'a'; MAX_SECRET + 1], "over 16384 bytes").await;
    let mut visitor = new_credential(None);
    visitor.payer = Some(Payer {
        kind: PayerKind::Visitor,
        principal: None,
    });
    let error = vault
        .set_credential(visitor, value(), false)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("--principal"), "{error}");
    assert_eq!(everything(&*store).await, before);
}

#[tokio::test]
async fn a_record_moved_to_another_key_or_address_does_not_open() {
    let store = awkward(2);
    let vault = Vault::open(Arc::clone(&store), key()).await.unwrap();
    vault
        .set_secret(new_secret("a", "ONE"), value(), false)
        .await
        .unwrap();
    let sealed = store
        .get(b"vault/secret/a/ONE")
        .await
        .unwrap()
        .unwrap()
        .value;
    let text = String::from_utf8(sealed).unwrap();
    let plant = async |owner: &str, name: &str, value: String| {
        let stored_key = secrets::key(&box_name(owner), &secret_name(name));
        let batch = Batch {
            conditions: vec![],
            changes: vec![Change::Put(stored_key, value.into_bytes())],
        };
        let revision = store.commit(batch).await.unwrap();
        assert!(vault.0.mirror.reached(revision).await);
        opens(&vault, &secret_key(owner, name))
    };
    assert!(plant("a", "ONE", text.clone()).await);
    assert!(!plant("b", "ONE", text.clone()).await, "another box");
    assert!(!plant("a", "TWO", text.clone()).await, "another name");
    let origin = "https://api.test:8443";
    assert!(text.contains(origin));
    for other in [
        "https://evil.test:8443",
        "http://api.test:8443",
        "https://api.test:8444",
    ] {
        assert!(
            !plant("a", "ONE", text.replace(origin, other)).await,
            "{other}"
        );
    }
    // A rule that cannot be read does not become "everything".
    let unreadable = text.replace("GET /repos/", "GET repos");
    assert!(!plant("a", "ONE", unreadable).await);
    assert!(vault.secret(&box_name("a"), &secret_name("ONE")).is_none());
}

#[tokio::test]
async fn a_wrong_key_is_told_and_changes_nothing() {
    let store = awkward(3);
    let vault = Vault::open(Arc::clone(&store), key()).await.unwrap();
    vault
        .set_secret(new_secret("a", "ONE"), value(), false)
        .await
        .unwrap();
    let before = everything(&*store).await;
    let wrong = VaultKey::from_bytes([4; 32]);
    let error = Vault::open(Arc::clone(&store), wrong).await.unwrap_err();
    assert!(matches!(error, VaultError::WrongKey), "{error:?}");
    assert!(error.to_string().contains("JACKFIELD_VAULT_KEY"), "{error}");
    assert_eq!(everything(&*store).await, before);
    assert!(opens(
        &Vault::open(store, key()).await.unwrap(),
        &secret_key("a", "ONE")
    ));
}

#[tokio::test]
async fn sealed_values_without_their_check_record_are_not_taken_over() {
    let store = awkward(4);
    let vault = Vault::open(Arc::clone(&store), key()).await.unwrap();
    vault
        .set_secret(new_secret("a", "ONE"), value(), false)
        .await
        .unwrap();
    let batch = Batch {
        conditions: vec![],
        changes: vec![Change::Delete(check::KEY.to_vec())],
    };
    store.commit(batch).await.unwrap();
    let before = everything(&*store).await;
    let error = Vault::open(Arc::clone(&store), VaultKey::from_bytes([4; 32]))
        .await
        .unwrap_err();
    assert!(matches!(error, VaultError::NoCheck), "{error:?}");
    assert_eq!(everything(&*store).await, before);
}

#[tokio::test]
async fn the_key_file_is_made_once_for_nobody_else_to_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vault.key");
    let store = awkward(5);
    let made = load_key(&path, &*store).await.unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let read = load_key(&path, &*store).await.unwrap();
    assert_eq!(made.derive("x"), read.derive("x"));
    let elsewhere = load_key(&folder.path().join("other.key"), &*store)
        .await
        .unwrap();
    assert_ne!(made.derive("x"), elsewhere.derive("x"));
}

#[tokio::test]
async fn a_missing_key_file_is_told_and_no_new_one_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vault.key");
    let store = embedded(folder.path());
    let first = load_key(&path, &*store).await.unwrap();
    Vault::open(Arc::clone(&store), first).await.unwrap();
    let before = everything(&*store).await;
    std::fs::remove_file(&path).unwrap();
    let error = load_key(&path, &*store).await.unwrap_err();
    assert!(matches!(error, VaultError::MissingKey { .. }), "{error:?}");
    assert!(
        error.to_string().contains("no new key has been made"),
        "{error}"
    );
    assert!(!path.exists());
    assert_eq!(everything(&*store).await, before);
}

#[tokio::test]
async fn a_key_file_that_is_exposed_or_malformed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vault.key");
    let check = async |mode: u32, text: &str, expected: Option<&str>| {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let loaded = load_key(&path, &*awkward(6)).await;
        match expected {
            None => assert!(loaded.is_ok(), "{loaded:?}"),
            Some(expected) => {
                let error = loaded.unwrap_err().to_string();
                assert!(error.contains(expected), "{error}");
                assert!(!error.contains("BBBB"), "{error}");
            }
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    };
    let good = "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=\n";
    check(0o600, good, None).await;
    check(0o400, good, None).await;
    check(0o640, good, Some("run chmod 600")).await;
    check(0o604, good, Some("run chmod 600")).await;
    check(0o600, "", Some("not 32 bytes")).await;
    check(0o600, "BBBBBBBB", Some("not 32 bytes")).await;
}

#[test]
fn a_key_is_read_from_base64_or_hex() {
    let check = |text: &str, expected: bool| {
        assert_eq!(
            VaultKey::parse(text, "a test").is_ok(),
            expected,
            "{text:?}"
        );
    };
    check(&"ab".repeat(32), true);
    check(&"AB".repeat(32), true);
    check("QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=", true);
    check(" QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI\n", true);
    check(&format!("{}-_8", "A".repeat(40)), true);
    check(&"ab".repeat(31), false);
    check(&"zz".repeat(32), false);
    check("", false);
    let bytes = VaultKey::parse(&"42".repeat(32), "a test").unwrap();
    assert_eq!(
        bytes.derive("x"),
        VaultKey::from_bytes([0x42; 32]).derive("x")
    );
    assert_ne!(bytes.derive("x"), bytes.derive("y"));
}

#[tokio::test]
async fn no_file_holds_a_value_or_the_key() {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    let folder = tempfile::tempdir().unwrap();
    let store = embedded(folder.path());
    let vault = Vault::open(Arc::clone(&store), key()).await.unwrap();
    vault
        .set_secret(new_secret("a", "ONE"), value(), false)
        .await
        .unwrap();
    vault
        .set_credential(new_credential(None), value(), false)
        .await
        .unwrap();
    store.close().await;

    let mut read = 0;
    let mut folders = vec![folder.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            read += bytes.len();
            for needle in [
                VALUE.as_bytes(),
                STANDARD.encode(VALUE).as_bytes(),
                &[3; 32],
            ] {
                let found = memchr::memmem::find(&bytes, needle);
                assert_eq!(found, None, "{}", path.display());
            }
            // The search would have found it: names are there in the clear.
            if path.ends_with("db") {
                assert!(memchr::memmem::find(&bytes, b"api.test").is_some());
            }
        }
    }
    assert!(read > 0);
}

#[tokio::test]
async fn debug_and_errors_show_no_value_and_no_key() {
    let vault = Vault::open(awkward(7), key()).await.unwrap();
    vault
        .set_secret(new_secret("a", "ONE"), value(), false)
        .await
        .unwrap();
    let opened = vault.open_value(&secret_key("a", "ONE")).unwrap();
    assert_eq!(
        format!("{vault:?} {opened:?} {:?}", key()),
        "Vault(redacted) OpenedValue(redacted) VaultKey(redacted)"
    );
    assert!(!format!("{:?}", vault.secrets()).contains(VALUE));
    let long = Secret::new([VALUE.as_bytes(), b"\n"].concat());
    let error = vault
        .set_secret(new_secret("a", "ONE"), long, false)
        .await
        .unwrap_err();
    assert!(!format!("{error} {error:?}").contains(VALUE));
}

/// A lease that ends, under a limit that measures nothing.
async fn ends(lease: &crate::lease::Tenure) {
    let limit = std::time::Duration::from_secs(20);
    let ended = tokio::time::timeout(limit, lease.cancelled()).await;
    ended.expect("the lease ends");
}

/// A secret's lease and a credential's, as a relay would take them.
fn leases(vault: &Vault) -> [crate::lease::Tenure; 2] {
    let secret = vault.secret(&box_name("a"), &secret_name("ONE")).unwrap();
    let credentials = vault.credentials();
    [secret.lease.clone(), credentials[0].lease.clone()]
}

#[tokio::test]
async fn a_lease_ends_with_its_record_and_not_with_its_value() {
    let vault = Vault::open(awkward(8), key()).await.unwrap();
    let another = || Secret::new(b"sk-test-another-0123456789".to_vec());
    let set = async |new: NewSecret, value: Secret| {
        vault.set_secret(new, value, false).await.unwrap();
    };
    let secret = || new_secret("a", "ONE");
    set(secret(), value()).await;
    vault
        .set_credential(new_credential(None), value(), false)
        .await
        .unwrap();
    let [of_secret, of_credential] = leases(&vault);

    // Another value goes on under the same lease, again and again.
    for _ in 0..3 {
        set(secret(), another()).await;
        vault
            .set_credential(new_credential(None), another(), false)
            .await
            .unwrap();
    }
    set(new_secret("a", "OTHER"), value()).await;
    set(new_secret("b", "ONE"), value()).await;
    assert!(!of_secret.is_cancelled() && !of_credential.is_cancelled());
    assert!(leases(&vault).iter().all(|lease| !lease.is_cancelled()));

    // What it is bound to does not.
    let narrower = AllowRule::parse("GET /repos/mine/").unwrap();
    for change in [
        |new: &mut NewSecret, _: &AllowRule| new.origin = Origin::parse("api.test:9443").unwrap(),
        |new: &mut NewSecret, rule: &AllowRule| new.allow = vec![rule.clone()],
        |new: &mut NewSecret, _: &AllowRule| new.allow_private = false,
        |new: &mut NewSecret, _: &AllowRule| new.extra_ca = None,
    ] {
        set(secret(), value()).await;
        let [before, _] = leases(&vault);
        let mut new = secret();
        change(&mut new, &narrower);
        set(new, value()).await;
        assert!(before.is_cancelled());
        let [after, _] = leases(&vault);
        assert!(!after.is_cancelled());
    }
    let mut moved = new_credential(None);
    moved.bound_to = Origin::parse("https://api.test:444").unwrap();
    vault.set_credential(moved, value(), false).await.unwrap();
    assert!(of_credential.is_cancelled());

    // Nor does what is removed.
    let [of_secret, of_credential] = leases(&vault);
    let (owner, name) = (box_name("a"), secret_name("ONE"));
    vault.remove_secret(&owner, &name).await.unwrap();
    assert!(of_secret.is_cancelled() && !of_credential.is_cancelled());
    let name = vault.credentials()[0].name.clone();
    vault.remove_credential(&upstream(), &name).await.unwrap();
    assert!(of_credential.is_cancelled());

    // What is set anew is no continuation of what was removed.
    set(secret(), value()).await;
    vault
        .set_credential(new_credential(Some("a")), value(), false)
        .await
        .unwrap();
    let now = leases(&vault);
    assert!(now.iter().all(|lease| !lease.is_cancelled()));
    vault.remove_box(&box_name("a")).await.unwrap();
    assert!(now.iter().all(|lease| lease.is_cancelled()));
}

#[tokio::test]
async fn another_writer_s_removal_ends_leases_too() {
    let store = awkward(9);
    let one = Vault::open(Arc::clone(&store), key()).await.unwrap();
    one.set_secret(new_secret("a", "ONE"), value(), false)
        .await
        .unwrap();
    one.set_credential(new_credential(None), value(), false)
        .await
        .unwrap();
    let two = Vault::open(store, key()).await.unwrap();
    let [of_secret, of_credential] = leases(&one);
    let name = two.credentials()[0].name.clone();
    two.remove_secret(&box_name("a"), &secret_name("ONE"))
        .await
        .unwrap();
    ends(&of_secret).await;
    two.remove_credential(&upstream(), &name).await.unwrap();
    ends(&of_credential).await;
}

#[tokio::test]
async fn what_was_missed_is_taken_for_the_worst() {
    use crate::store::mirror::Mirrored;

    let store = awkward(10);
    let vault = Vault::open(Arc::clone(&store), key()).await.unwrap();
    for name in ["ONE", "TWO"] {
        vault
            .set_secret(new_secret("a", name), value(), false)
            .await
            .unwrap();
    }
    let lease = |name: &str| {
        let record = vault.secret(&box_name("a"), &secret_name(name)).unwrap();
        record.lease.clone()
    };
    let (one, two) = (lease("ONE"), lease("TWO"));
    // A rescan that finds all as it was changes nothing; one that finds a
    // record set again cannot tell whether it was removed in between.
    let mut records = everything(&*store).await;
    vault.0.held.reset(&records);
    assert!(!one.is_cancelled() && !two.is_cancelled());
    for record in &mut records {
        if record.key.ends_with(b"/ONE") {
            record.revision.0 += 10;
        }
    }
    vault.0.held.reset(&records);
    assert!(one.is_cancelled() && !two.is_cancelled());
    vault.0.held.reset(&[]);
    assert!(two.is_cancelled());
}
