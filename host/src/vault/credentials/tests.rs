//! Which name a credential gets, and which one pays.

use super::*;

fn credential(name: &str, owner: Option<&str>, payer: Option<&str>) -> CredentialRecord {
    CredentialRecord {
        upstream: UpstreamName::parse("models").unwrap(),
        name: CredentialName::parse(name).unwrap(),
        kind: CredentialKind::ApiKey,
        payer: payer.map(|text| {
            let (kind, principal) = text.split_once(' ').unwrap_or((text, ""));
            Payer {
                kind: PayerKind::parse(kind).unwrap(),
                principal: Principal::parse(principal),
            }
        }),
        box_name: owner.map(|owner| BoxName::parse(owner).unwrap()),
        bound_to: Origin::parse("https://api.test").unwrap(),
        revision: Revision(1),
        lease: Tenure::new(),
    }
}

fn new(name: Option<&str>, owner: Option<&str>, payer: Option<&str>) -> NewCredential {
    let CredentialRecord {
        upstream,
        kind,
        payer,
        box_name,
        bound_to,
        ..
    } = credential("x", owner, payer);
    NewCredential {
        upstream,
        name: name.map(|name| CredentialName::parse(name).unwrap()),
        kind,
        payer,
        box_name,
        bound_to,
    }
}

#[test]
fn a_second_of_the_same_rank_needs_a_name() {
    let existing = [
        credential("default", None, Some("shared")),
        credential("work", Some("a"), None),
        credential("visitor", None, Some("visitor github:ada")),
    ];
    let check = |new: NewCredential, expected: Result<&str, &str>| {
        let placed = place(&new, &existing);
        match (placed, expected) {
            (Ok((name, _)), Ok(expected)) => assert_eq!(name.as_str(), expected),
            (Err(error), Err(expected)) => {
                let text = error.to_string();
                assert!(text.contains(expected), "{text}");
            }
            (placed, expected) => panic!("{placed:?}, expected {expected:?}"),
        }
    };
    // The same name and rank is replaced, with or without saying the name.
    check(new(None, None, None), Ok("default"));
    check(new(Some("default"), None, Some("owner")), Ok("default"));
    check(new(Some("work"), Some("a"), None), Ok("work"));
    // A second one is given a name, or refused.
    check(new(Some("spare"), None, None), Ok("spare"));
    check(
        new(None, Some("a"), None),
        Err("already has the credential work for box a: name this one with --name"),
    );
    // The first of another rank needs none.
    check(new(None, Some("b"), None), Ok("b"));
    check(new(None, None, Some("visitor github:ada")), Ok("visitor"));
    // A name says one thing only.
    check(
        new(Some("default"), Some("b"), None),
        Err("give this one another --name"),
    );
    check(
        new(None, None, Some("visitor github:bob")),
        Err("give this one another --name"),
    );
    check(
        new(Some("bob"), None, Some("visitor github:bob")),
        Ok("bob"),
    );
}

#[test]
fn a_visitor_has_a_name_and_a_secret_is_no_credential() {
    let visitor = check(&new(None, None, Some("visitor"))).unwrap_err();
    assert!(visitor.to_string().contains("--principal"), "{visitor}");
    assert!(check(&new(None, None, Some("visitor github:ada"))).is_ok());
    assert!(check(&new(None, None, Some("owner"))).is_ok());
    let mut secret = new(None, None, None);
    secret.kind = CredentialKind::Secret;
    assert!(check(&secret).is_err());
}

#[test]
fn a_box_s_own_pays_before_the_general_one_and_a_visitor_s_never() {
    let check = |existing: &[CredentialRecord], expected: Result<Option<&str>, &str>| {
        let (upstream, box_name) = (
            UpstreamName::parse("models").unwrap(),
            BoxName::parse("a").unwrap(),
        );
        let mut payers = Payers::default();
        let existing: Vec<_> = existing.iter().cloned().map(Arc::new).collect();
        existing.iter().for_each(|record| payers.add(record));
        let chosen = choose(&payers, &upstream, &box_name);
        // Whatever went in goes out again.
        existing.iter().for_each(|record| payers.remove(record));
        let none = choose(&payers, &upstream, &box_name).unwrap();
        assert!(none.is_none() && payers.own.is_empty());
        let chosen = chosen.map(|record| record.map(|record| record.name.to_string()));
        match expected {
            Ok(expected) => assert_eq!(chosen.unwrap().as_deref(), expected),
            Err(expected) => assert!(chosen.unwrap_err().to_string().contains(expected)),
        }
    };
    let general = credential("default", None, None);
    let spare = credential("spare", None, None);
    let third = credential("third", None, None);
    let own = credential("a", Some("a"), None);
    let own_other = credential("a2", Some("a"), None);
    let other_box = credential("b", Some("b"), None);
    let visitor = credential("visitor", Some("a"), Some("visitor github:ada"));
    check(&[], Ok(None));
    check(&[visitor.clone(), other_box.clone()], Ok(None));
    check(&[general.clone(), visitor], Ok(Some("default")));
    check(&[general.clone(), own.clone()], Ok(Some("a")));
    check(&[general.clone(), own, own_other.clone()], Ok(Some("a")));
    check(&[general.clone(), own_other], Ok(Some("a2")));
    check(&[general, spare.clone()], Ok(Some("default")));
    check(&[spare.clone(), other_box], Ok(Some("spare")));
    check(&[spare, third], Err("(spare, third)"));
}
