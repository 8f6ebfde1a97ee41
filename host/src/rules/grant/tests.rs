//! What a grant is worth, and for how long.

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn principal(text: &str) -> Principal {
    Principal::parse(text).unwrap()
}

fn origin(text: &str) -> Origin {
    Origin::parse(text).unwrap()
}

fn grant() -> Grant {
    Grant {
        box_name: BoxName::parse("a").unwrap(),
        upstream: UpstreamName::parse("models").unwrap(),
        credential: CredentialName::parse("ada").unwrap(),
        principal: principal("github:ada"),
        issued: at(100),
        expires: at(200),
        revoked: false,
    }
}

/// A request of box a at 150, where all is well but for what a test changes.
struct Case {
    grant: Grant,
    box_name: &'static str,
    upstream: &'static str,
    now: Timestamp,
    held: bool,
    visitor: Option<Principal>,
    only: Option<BoxName>,
    bound_to: Origin,
}

fn check(change: impl FnOnce(&mut Case), expected: Result<(), Unspent>) {
    let mut case = Case {
        grant: grant(),
        box_name: "a",
        upstream: "models",
        now: at(150),
        held: true,
        visitor: Some(principal("github:ada")),
        only: None,
        bound_to: origin("https://api.test"),
    };
    change(&mut case);
    let pointed = Pointed {
        visitor: case.visitor.as_ref(),
        box_name: case.only.as_ref(),
        bound_to: &case.bound_to,
    };
    let turn = Turn {
        box_name: &BoxName::parse(case.box_name).unwrap(),
        upstream: &UpstreamName::parse(case.upstream).unwrap(),
        origin: &origin("https://api.test"),
        now: case.now,
    };
    assert_eq!(
        case.grant.spends(&turn, case.held.then_some(pointed)),
        expected
    );
}

#[test]
fn a_grant_spends_one_person_s_credential_for_one_box_and_a_while() {
    check(|_| {}, Ok(()));
    check(|case| case.now = at(199), Ok(()));
    check(|case| case.only = Some(case.grant.box_name.clone()), Ok(()));

    check(|case| case.now = at(200), Err(Unspent::Expired));
    check(|case| case.now = at(1_000_000), Err(Unspent::Expired));
    check(|case| case.grant.revoked = true, Err(Unspent::Revoked));
    check(|case| case.box_name = "b", Err(Unspent::AnotherBox));
    check(
        |case| case.only = Some(BoxName::parse("b").unwrap()),
        Err(Unspent::AnotherBox),
    );
    check(
        |case| case.upstream = "others",
        Err(Unspent::AnotherUpstream),
    );
    check(|case| case.held = false, Err(Unspent::NoCredential));
    check(
        |case| case.visitor = Some(principal("github:bob")),
        Err(Unspent::NoCredential),
    );
    check(|case| case.visitor = None, Err(Unspent::NoCredential));
    check(
        |case| case.bound_to = origin("https://api.test:444"),
        Err(Unspent::Moved),
    );
}

#[test]
fn a_record_is_kept_for_a_day_after_its_grant() {
    let day = 24 * 60 * 60;
    for (now, expected) in [
        (0, false),
        (200, false),
        (199 + day, false),
        (200 + day, true),
    ] {
        assert_eq!(grant().is_stale(at(now)), expected, "{now}");
    }
}

#[test]
fn a_life_is_between_a_second_and_a_day() {
    let check = |text: &str, expected: Option<u64>| {
        assert_eq!(Ttl::parse(text).ok().map(Ttl::seconds), expected, "{text}");
    };
    check("1s", Some(1));
    check("90s", Some(90));
    check("15m", Some(900));
    check("1h", Some(3_600));
    check("24h", Some(86_400));
    check("86400s", Some(86_400));
    check("0s", None);
    check("0h", None);
    check("25h", None);
    check("86401s", None);
    check("1441m", None);
    check("1d", None);
    check("1", None);
    check("s", None);
    check("", None);
    check("-1s", None);
    check("+1s", None);
    check("1 s", None);
    check("1h30m", None);
    check("99999999999999999999h", None);
    check("18446744073709551615h", None);
    check("1é", None);
    assert!(Ttl::from_seconds(0).is_err());
    assert!(Ttl::from_seconds(u64::MAX).is_err());
    let ttl = Ttl::from_seconds(60).unwrap();
    assert_eq!(ttl.after(at(40)), Ok(at(100)));
}
