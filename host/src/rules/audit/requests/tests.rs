//! The requests are the same each time, reach every route, and are such as a
//! host would show.

use super::*;
use crate::rules::manifest_check::{SaidManifest, SaidRoute};

fn manifest() -> Manifest {
    let route = |prefix: &str, methods: &[&str], body| SaidRoute {
        methods: methods.iter().map(|each| (*each).to_owned()).collect(),
        prefix: prefix.to_owned(),
        token_headers: Some(Vec::new()),
        headers: vec!["x-a".to_owned()],
        body,
        ..SaidRoute::default()
    };
    Manifest::check(SaidManifest {
        name: "p".to_owned(),
        version: "1.0.0".to_owned(),
        capability: "p".to_owned(),
        routes: vec![route("/p", &["POST"], 20), route("/q/r", &[], 0)],
        paths: vec!["/v1/items".to_owned()],
        ..SaidManifest::default()
    })
    .unwrap()
}

#[test]
fn a_seed_draws_the_same_requests_each_time() {
    let manifest = manifest();
    let of = |seed| cases(&manifest, &Hints::default(), seed, 50);
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn every_route_and_method_is_asked_for_and_nothing_else() {
    let manifest = manifest();
    let cases = cases(&manifest, &Hints::default(), 7, 200);
    for case in &cases {
        let (index, _) = manifest.serving(&case.method, &case.path).unwrap();
        let most = manifest.routes[index].inputs.body;
        assert!(case.body.len() <= most, "{case:?}");
        assert!(paths::is_plain(case.path.as_bytes()), "{case:?}");
    }
    for (method, path) in [
        (Method::POST, "/p/v1/items"),
        (Method::GET, "/q/r"),
        (Method::DELETE, "/q/r/v1/items"),
    ] {
        let asked = |case: &Case| case.method == method && case.path == path;
        assert!(cases.iter().any(asked), "{method} {path}");
    }
    let long = |case: &Case| case.path.len() > 5_000;
    assert!(cases.iter().any(long));
    assert!(cases.iter().any(|case| case.body.len() == 20));
    assert!(cases.iter().any(|case| case.luck == Luck::Bad));
}

#[test]
fn unclaimed_requests_are_beside_every_route() {
    let manifest = manifest();
    let unclaimed = unclaimed(&manifest);
    assert!(unclaimed.len() > 5);
    for case in unclaimed {
        assert!(manifest.serving(&case.method, &case.path).is_none());
    }
}

#[test]
fn hints_are_what_an_api_could_hold() {
    let mut hints = Hints::default();
    for text in ["count_tokens", "a", "with space", "12", "é", "v1"] {
        hints.add(text);
    }
    assert_eq!(Vec::from_iter(hints.0), ["count_tokens", "v1"]);
}
