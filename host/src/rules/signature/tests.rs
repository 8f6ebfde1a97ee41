//! The format against its own published example, and the policy against
//! signatures that are made here.

use crate::rules::signature::minisign::Signer;

use super::*;

/// minisign's published example: its key, and a signature over `test`.
const PUBLISHED_KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
const PUBLISHED: &str = "untrusted comment: signature from minisign secret key
RUQf6LRCGA9i559r3g7V1qNyJDApGip8MfqcadIgT9CuhV3EMhHoN1mGTkUidF/z7SrlQgXdy8ofjb7bNJJylDOocrCo8KLzZwo=
trusted comment: timestamp:1633700835\tfile:test\tprehashed
wLMDjy9FLAuxZ3q4NlEvkgtyhrr0gtTu6KC4KBJdITbbOeAi1zBIYo0v4iTgt8jJpIidRJnp94ABQkJAgAooBQ==
";
/// The same key's example in the older kind.
const PUBLISHED_LEGACY: &str = "untrusted comment: signature from minisign secret key
RWQf6LRCGA9i59SLOFxz6NxvASXDJeRtuZykwQepbDEGt87ig1BNpWaVWuNrm73YiIiJbq71Wi+dP9eKL8OC351vwIasSSbXxwA=
trusted comment: timestamp:1555779966\tfile:test
QtKMXWyYcwdpZAlPF7tE2ENJkRd1ujvKjlj1m9RtHTBnZPa5WKU5uWRs5GoP5M/VqE81QFuMKI5k/SfNQUaOAA==
";

fn policy(keys: &[&str], required: bool) -> SignaturePolicy {
    SignaturePolicy {
        trusted: keys
            .iter()
            .map(|key| TrustedKey::parse(key).unwrap())
            .collect(),
        required,
    }
}

#[test]
fn the_published_example_holds() {
    let policy = policy(&[PUBLISHED_KEY], true);
    let id = KeyId::parse("E7620F1842B4E81F").unwrap();
    assert_eq!(policy.trusted[0].id(), &id);
    assert_eq!(
        policy.signer(b"test", Some(PUBLISHED)),
        Ok(Some(id.clone()))
    );
    assert_eq!(
        policy.signer(b"tesu", Some(PUBLISHED)),
        Err(SignatureRefusal::Wrong(id))
    );
    assert_eq!(
        policy.signer(b"test", Some(PUBLISHED_LEGACY)),
        Err(SignatureRefusal::Legacy)
    );
}

#[test]
fn who_signs_is_trusted_or_not() {
    let (ours, theirs) = (Signer::new(1), Signer::new(2));
    let key = ours.key();
    let id = TrustedKey::parse(&key).unwrap().id().clone();
    let their_id = TrustedKey::parse(&theirs.key()).unwrap().id().clone();
    let good = ours.sign(b"bytes", "for a test");
    let foreign = theirs.sign(b"bytes", "for a test");
    let other = ours.sign(b"other bytes", "for a test");
    // The comment is signed, too.
    let comment = good.replace("for a test", "for a jest");
    // Somebody's signature under our key's name.
    let forged = {
        let line = |text: &str, at: usize| text.lines().nth(at).unwrap().to_owned();
        let engine = base64::engine::general_purpose::STANDARD;
        use base64::Engine;
        let mut bytes = engine.decode(line(&foreign, 1)).unwrap();
        bytes[2..10].copy_from_slice(&engine.decode(line(&good, 1)).unwrap()[2..10]);
        let lines = [
            line(&foreign, 0),
            engine.encode(bytes),
            line(&foreign, 2),
            line(&foreign, 3),
        ];
        lines.join("\n")
    };
    let wrong = || SignatureRefusal::Wrong(id.clone());
    let check = |signature: Option<&str>, refusal: SignatureRefusal, always: bool| {
        let required = policy(&[&key], true).signer(b"bytes", signature);
        assert_eq!(required, Err(refusal.clone()));
        let asked = policy(&[&key], false).signer(b"bytes", signature);
        assert_eq!(asked, if always { Err(refusal) } else { Ok(None) });
    };
    for required in [true, false] {
        let keys = [theirs.key(), key.clone()];
        let policy = policy(&[&keys[0], &keys[1]], required);
        assert_eq!(policy.signer(b"bytes", Some(&good)), Ok(Some(id.clone())));
    }
    check(None, SignatureRefusal::Missing, false);
    check(Some("nonsense"), SignatureRefusal::Malformed, false);
    check(
        Some(&"x\n".repeat(MOST_SIGNATURE)),
        SignatureRefusal::Malformed,
        false,
    );
    check(Some(&foreign), SignatureRefusal::Untrusted(their_id), false);
    check(Some(&other), wrong(), true);
    check(Some(&comment), wrong(), true);
    check(Some(&forged), wrong(), true);
}

#[test]
fn what_is_no_key_is_refused() {
    for text in [
        "",
        "RW",
        "untrusted comment: minisign public key",
        PUBLISHED,
    ] {
        assert!(TrustedKey::parse(text).is_err(), "{text}");
    }
}
