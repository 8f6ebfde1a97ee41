//! What is taken back between the choice of a credential and its use.

use http::Method;

use super::*;
use crate::rules::names::{CredentialName, SecretName};
use crate::rules::origin::Origin;
use crate::rules::payer::{PayerKind, Principal};
use crate::rules::plan::Placement;
use crate::rules::secret::Secret;
use crate::store::memory::{Awkward, open_memory};
use crate::vault::{NewCredential, NewSecret, VaultKey};

const ORIGIN: &str = "https://api.test";

fn origin() -> Origin {
    Origin::parse(ORIGIN).unwrap()
}

fn box_name() -> BoxName {
    BoxName::parse("a").unwrap()
}

fn upstream() -> UpstreamName {
    UpstreamName::parse("models").unwrap()
}

fn secret() -> SecretName {
    SecretName::parse("ONE").unwrap()
}

fn value() -> Secret {
    Secret::new(b"sk-test-0123456789abcdef".to_vec())
}

fn upstreams() -> Upstreams {
    let destination = Destination {
        origin: origin(),
        base_path: String::new(),
        allow_private: false,
        extra_ca: None,
        allow: Vec::new(),
        name: "upstream models".to_owned(),
    };
    Upstreams::new(HashMap::from([(upstream(), Arc::new(destination))]))
}

fn credential(payer: Option<Payer>) -> NewCredential {
    NewCredential {
        upstream: upstream(),
        name: CredentialName::parse("one").ok(),
        kind: CredentialKind::ApiKey,
        payer,
        box_name: None,
        bound_to: origin(),
    }
}

fn visitor(principal: &str) -> Option<Payer> {
    Some(Payer {
        kind: PayerKind::Visitor,
        principal: Principal::parse(principal),
    })
}

async fn vault() -> Vault {
    let store = open_memory(Awkward::default());
    let vault = Vault::open(store, VaultKey::from_bytes([3; 32]))
        .await
        .unwrap();
    let new = NewSecret {
        box_name: box_name(),
        name: secret(),
        origin: origin(),
        allow: Vec::new(),
        allow_private: false,
        extra_ca: None,
    };
    vault.set_secret(new, value(), false).await.unwrap();
    vault
}

fn targets() -> [Target; 2] {
    [Target::Upstream(upstream()), Target::Secret(secret())]
}

fn outbound(target: Target, offered: Option<&Offered>) -> Outbound {
    let offer = offered.and_then(|offered| {
        let mut offers = offered.offers.iter();
        offers.find(|offer| offer.target == target)
    });
    Outbound {
        credential: offer.map(|offer| (offer.key.clone(), Placement::Bearer)),
        target,
        method: Method::GET,
        path: "/".to_owned(),
        query: None,
    }
}

#[tokio::test]
async fn a_credential_that_becomes_another_s_in_between_is_not_spent() {
    let (ada, bob) = (visitor("github:ada"), visitor("github:bob"));
    for (was, becomes) in [(None, ada.clone()), (ada.clone(), bob), (ada, None)] {
        let vault = vault().await;
        let set = async |payer: &Option<Payer>| {
            let new = credential(payer.clone());
            vault.set_credential(new, value(), false).await.unwrap()
        };
        let name = set(&was).await;
        let record = vault.credential(&upstream(), &name).unwrap();
        let turn = was.as_ref().map(|_| Turn {
            lease: Lease::from(record.lease.clone()),
            record,
        });
        let (targets, box_name) = (targets(), box_name());
        let offered = offers(&targets, &box_name, turn.as_ref(), &upstreams(), &vault);
        let offered = offered.unwrap();
        let [models, _] = targets;
        let outbound = outbound(models, Some(&offered));
        assert!(outbound.credential.is_some());
        assert!(!offered.lease(&outbound).unwrap().is_cancelled());

        // The same name, and another's value under it: what would be opened now
        // is not what was chosen.
        vault.remove_credential(&upstream(), &name).await.unwrap();
        assert_eq!(set(&becomes).await, name);
        assert!(offered.lease(&outbound).unwrap().is_cancelled());
    }
}

#[tokio::test]
async fn a_relay_stands_on_what_it_uses_and_on_nothing_else() {
    let vault = vault().await;
    let name = vault
        .set_credential(credential(None), value(), false)
        .await
        .unwrap();
    let (targets, box_name) = (targets(), box_name());
    let offered = offers(&targets, &box_name, None, &upstreams(), &vault).unwrap();
    let [models, secrets] = targets;
    let lease = |target: &Target, with: Option<&Offered>| {
        offered.lease(&outbound(target.clone(), with)).unwrap()
    };
    let spends = lease(&models, Some(&offered));
    let spends_none = lease(&models, None);
    let swaps = lease(&secrets, Some(&offered));
    // Without its value it still goes to the host that the record names.
    let goes_there = lease(&secrets, None);
    let all = [&spends, &spends_none, &swaps, &goes_there];
    let cut = || all.map(Lease::is_cancelled);
    assert_eq!(cut(), [false; 4]);
    vault.remove_credential(&upstream(), &name).await.unwrap();
    assert_eq!(cut(), [true, false, false, false]);
    vault.remove_secret(&box_name, &secret()).await.unwrap();
    assert_eq!(cut(), [true, false, true, true]);

    // To the host of a secret that is not held nothing goes.
    let offered = offers(
        std::slice::from_ref(&secrets),
        &box_name,
        None,
        &upstreams(),
        &vault,
    )
    .unwrap();
    assert!(offered.lease(&outbound(secrets, None)).is_err());
}
