//! What is sealed and what is refused, seen on the head that would be sent.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::relay::tests::stage::{Script, VALUE, Values, head, key, shown, token};
use crate::relay::{HeaderPolicy, SealRefusal, SealedRequest, seal_call};
use crate::rules::allow::AllowRule;
use crate::rules::names::SecretName;
use crate::rules::origin::Origin;
use crate::rules::plan::{Call, Edit, Outbound, Placement, Target};
use crate::rules::plan_check::Checked;

fn script() -> Script {
    Script::to(&Origin::parse("https://api.x.test").unwrap())
}

fn stand_in() -> Script {
    Script {
        placement: Some(Placement::StandIn),
        ..script()
    }
}

fn lines(sealed: &SealedRequest) -> Vec<String> {
    sealed
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect()
}

/// What stands first in whatever is sent.
const HOST: &str = "host: api.x.test";

fn sealed(script: &Script, target: &str, fields: &[(&str, &str)]) -> (String, Vec<String>) {
    match script.seal(&head(&Method::POST, target, fields)) {
        Ok(sealed) => {
            let mut lines = lines(&sealed);
            assert_eq!(lines.remove(0), HOST);
            (sealed.target.as_str().to_owned(), lines)
        }
        Err(refusal) => panic!("{}", refusal.message),
    }
}

fn refused(script: &Script, target: &str, fields: &[(&str, &str)]) -> (StatusCode, String) {
    match script.seal(&head(&Method::POST, target, fields)) {
        Ok(sealed) => panic!("sealed: {:?}", lines(&sealed)),
        Err(refusal) => {
            assert!(
                !refusal.message.contains(token().as_str()),
                "{}",
                refusal.message
            );
            assert!(!refusal.message.contains(VALUE), "{}", refusal.message);
            (refusal.status, refusal.message)
        }
    }
}

#[test]
fn both_credentials_of_the_box_go_and_one_of_ours_comes() {
    let bearer = format!("bEARER {}", token().as_str());
    let fields = [
        ("authorization", bearer.as_str()),
        ("x-key", token().as_str()),
        ("connection", "authorization, x-key"),
        ("x-a", "1"),
    ]
    .map(|(name, value)| (name, value.to_owned()));
    let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let expected = |line: &str| {
        vec![
            "x-a: 1".to_owned(),
            line.to_owned(),
            "accept-encoding: identity".to_owned(),
        ]
    };

    let (_, sent) = sealed(&script(), "/v1", &fields);
    assert_eq!(sent, expected(&format!("authorization: Bearer {VALUE}")));

    let header = Script {
        placement: Some(Placement::Header {
            name: HeaderName::from_static("x-key"),
            before: "k=".to_owned(),
            after: ";".to_owned(),
        }),
        ..script()
    };
    let (_, sent) = sealed(&header, "/v1", &fields);
    assert_eq!(sent, expected(&format!("x-key: k={VALUE};")));
}

#[test]
fn a_query_placement_replaces_the_box_s_parameter_and_keeps_the_rest() {
    let query = Script {
        placement: Some(Placement::Query("key".to_owned())),
        ..script()
    };
    let check = |target: &str, expected: &str| {
        let (sent, lines) = sealed(&query, target, &[]);
        assert_eq!(sent, expected);
        assert_eq!(lines, ["accept-encoding: identity"]);
    };
    let value = "sk-live-0123456789%2F%2B%3Dabc";
    check("/v1?a=%2f+b&&c", &format!("/v1?a=%2f+b&&c&key={value}"));
    check("/v1?key=theirs&a=1", &format!("/v1?a=1&key={value}"));
    check("/v1", &format!("/v1?key={value}"));
}

#[test]
fn what_is_the_box_s_own_is_not_sent_on() {
    let (_, sent) = sealed(
        &script(),
        "/v1",
        &[
            ("chant-grant", "g"),
            ("chant-payer", "owner"),
            ("cookie", "a=1"),
            ("forwarded", "for=1.1.1.1"),
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-host", "h"),
            ("x-real-ip", "1.1.1.1"),
            ("via", "1.1 x"),
            ("cf-connecting-ip", "1.1.1.1"),
            ("true-client-ip", "1.1.1.1"),
            ("x-original-url", "/admin"),
            ("expect", "100-continue"),
            ("host", "elsewhere"),
            ("keep-alive", "x"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("proxy-authorization", "Basic eA=="),
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("content-length", "5"),
            ("transfer-encoding", "chunked"),
            ("accept-encoding", "gzip"),
            ("x-b", "2"),
            ("x-a", "1"),
            ("x-b", "3"),
            ("x-b", "2"),
        ],
    );
    let kept = ["x-b: 2", "x-b: 3", "x-b: 2", "x-a: 1"];
    let ours = [
        "accept-encoding: identity".to_owned(),
        format!("authorization: Bearer {VALUE}"),
    ];
    for line in kept.iter().map(|line| (*line).to_owned()).chain(ours) {
        assert!(sent.contains(&line), "{line} in {sent:?}");
    }
    assert_eq!(sent.len(), 6, "{sent:?}");
    let bs: Vec<_> = sent.iter().filter(|line| line.starts_with("x-b")).collect();
    assert_eq!(bs, ["x-b: 2", "x-b: 3", "x-b: 2"]);
}

#[test]
fn without_a_credential_nothing_is_placed() {
    let bare = Script {
        placement: None,
        ..script()
    };
    let (_, sent) = sealed(
        &bare,
        "/v1",
        &[("authorization", "Bearer x"), ("accept-encoding", "gzip")],
    );
    assert_eq!(sent, ["accept-encoding: gzip"]);
}

#[test]
fn the_value_goes_where_the_token_stands() {
    let token = token();
    let token = token.as_str();
    let basic = format!("Basic {}", STANDARD.encode(format!("me:{token}")));
    let bearer = format!("Bearer {token}");
    let escaped = token.replace('_', "%5f");
    let (target, sent) = sealed(
        &stand_in(),
        &format!("/v1?key={token}&again={escaped}&a=%20"),
        &[
            ("authorization", &basic),
            ("x-other", token),
            ("x-key", &bearer),
            ("x-app", "theirs"),
            ("proxy-authorization", "Basic eA=="),
        ],
    );
    let value = "sk-live-0123456789%2F%2B%3Dabc";
    assert_eq!(target, format!("/v1?key={value}&again={value}&a=%20"));
    let basic = STANDARD.encode(format!("me:{VALUE}"));
    assert_eq!(
        sent,
        [
            format!("authorization: Basic {basic}"),
            format!("x-other: {VALUE}"),
            format!("x-key: Bearer {VALUE}"),
            "x-app: theirs".to_owned(),
            "accept-encoding: identity".to_owned(),
        ]
    );
}

#[test]
fn another_credential_of_the_app_s_stays_beside_the_stand_in() {
    let (_, sent) = sealed(
        &stand_in(),
        "/v1",
        &[
            ("x-key", token().as_str()),
            ("authorization", "Bearer of-the-app"),
        ],
    );
    assert!(sent.contains(&"authorization: Bearer of-the-app".to_owned()));
}

#[test]
fn a_stand_in_that_stands_nowhere_is_refused() {
    let (status, message) = refused(&stand_in(), "/v1", &[("x-a", "1")]);
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(message.contains("secret KEY"), "{message}");
    let hop = token();
    let hop = [("proxy-authorization", hop.as_str())];
    assert_eq!(refused(&stand_in(), "/v1", &hop).0, StatusCode::BAD_REQUEST);
}

#[test]
fn a_token_that_would_go_out_is_refused() {
    let token = token();
    let token = token.as_str();
    let escaped = token.replace('_', "%5F");
    let twice = token.replace('_', "%255F");
    let encoded = STANDARD.encode(format!("xy{token}z"));
    let json = format!("{{\"t\":\"\\u006a{}\"}}", &token[1..]);
    let other = crate::rules::token::BoxToken::from_random(&[9; 32]);
    let other = other.as_str();
    let grant = other.replace("jft_", "jfg_");
    let check = |script: &Script, target: &str, fields: &[(&str, &str)]| {
        let (status, message) = refused(script, target, fields);
        assert_eq!(status, StatusCode::BAD_REQUEST, "{message}");
        assert!(message.contains("stands in"), "{message}");
    };
    for leaked in [token, &escaped, &twice, other, &grant] {
        check(&script(), &format!("/v1/{leaked}"), &[]);
        check(&script(), &format!("/v1?a={leaked}"), &[]);
        check(&script(), "/v1", &[("x-a", leaked)]);
        check(&stand_in(), &format!("/v1/{leaked}"), &[("x-key", token)]);
    }
    for leaked in [&encoded, &json] {
        check(&script(), "/v1", &[("x-a", leaked)]);
    }
    check(&script(), "/v1", &[(&token.to_lowercase(), "1")]);
    // The value takes the token's place in one header only.
    check(&stand_in(), "/v1", &[("x-key", token), ("x-a", &encoded)]);
    check(&stand_in(), "/v1", &[("x-key", token), ("x-a", other)]);
    check(&stand_in(), "/v1", &[("x-key", token), ("x-a", &escaped)]);
    let hidden = format!("Basic {}", STANDARD.encode(format!("a:{escaped}")));
    check(&stand_in(), "/v1", &[("x-key", token), ("x-a", &hidden)]);
}

#[test]
fn a_value_goes_to_its_own_origin_and_no_sibling() {
    let bound = Origin::parse("https://api.x.test").unwrap();
    for other in [
        "https://auth.x.test",
        "http://api.x.test",
        "https://api.x.test:8443",
        "https://x.test",
        "https://api.x.test.",
    ] {
        let mut moved = script();
        moved.destination.origin = Origin::parse(other).unwrap();
        let values = HashMap::from([(key("KEY"), (VALUE.into(), bound.clone()))]);
        moved.values = Arc::new(Values(values));
        let (status, message) = refused(&moved, "/v1", &[]);
        assert_eq!(status, StatusCode::FORBIDDEN, "{other}");
        assert!(
            message.contains("secret KEY") && message.contains("set it again"),
            "{message}"
        );
    }
}

#[test]
fn a_secret_is_used_only_as_allowed() {
    let mut narrow = script();
    narrow.destination.allow = vec![AllowRule {
        method: Method::POST,
        prefix: "/repos/".to_owned(),
    }];
    let (_, sent) = sealed(&narrow, "/repos/a", &[("x-http-method-override", "DELETE")]);
    assert!(
        !sent.iter().any(|line| line.contains("override")),
        "{sent:?}"
    );
    for target in [
        "/user",
        "/repos",
        "/Repos/a",
        "//repos/a",
        "/repos/../user",
        "/repos/..%2fuser",
        "/repos/%2e%2e/user",
        "/repos/%252e%252e%252fuser",
        "/repos/..%5cuser",
        "/repos/..;a/user",
    ] {
        let (status, message) = refused(&narrow, target, &[]);
        assert_eq!(status, StatusCode::FORBIDDEN, "{target}");
        assert!(message.contains("secret KEY"), "{message}");
    }
    narrow.destination.allow[0].method = Method::GET;
    assert_eq!(refused(&narrow, "/repos/a", &[]).0, StatusCode::FORBIDDEN);
}

#[test]
fn a_value_that_is_not_there_or_cannot_stand_there_is_refused() {
    let mut script = script();
    script.credential = key("OTHER");
    assert_eq!(refused(&script, "/v1", &[]).0, StatusCode::FORBIDDEN);
    let origin = script.destination.origin.clone();
    let values = HashMap::from([(key("OTHER"), (b"a\r\nx-evil: 1".to_vec(), origin))]);
    script.values = Arc::new(Values(values));
    let (status, message) = refused(&script, "/v1", &[]);
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(!message.contains("evil"), "{message}");
}

#[test]
fn edits_are_made_before_the_credential_is_placed() {
    let mut edited = script();
    let name = HeaderName::from_static;
    let value = HeaderValue::from_static;
    edited.request_edits = vec![
        Edit::AddToList(name("x-list"), value("added")),
        Edit::Set(name("x-set"), value("new")),
        Edit::Remove(name("x-gone")),
        Edit::Set(name("authorization"), value("Bearer of-the-plugin")),
        Edit::Set(name("x-key"), value("of-the-plugin")),
        Edit::Set(name("accept-encoding"), value("gzip")),
    ];
    let (_, sent) = sealed(
        &edited,
        "/v1",
        &[
            ("x-list", "a"),
            ("x-gone", "1"),
            ("x-list", "b,c"),
            ("x-set", "1"),
            ("x-set", "2"),
        ],
    );
    assert_eq!(
        sent,
        [
            "x-list: a, b, c, added".to_owned(),
            "x-set: new".to_owned(),
            "accept-encoding: identity".to_owned(),
            format!("authorization: Bearer {VALUE}"),
        ]
    );
}

#[test]
fn path_and_query_are_what_was_classified() {
    let mut script = script();
    script.destination.base_path = "/base/".to_owned();
    let (target, _) = sealed(&script, "/a%2F%41/{}//b;c?q='|{}&&%zz=?", &[]);
    assert_eq!(target, "/base/a%2F%41/{}//b;c?q='|{}&&%zz=?");
}

#[test]
fn cookies_pass_where_the_policy_says_so() {
    let mut script = stand_in();
    script.policy = HeaderPolicy { cookies: true };
    let cookie = format!("a=1; session={}", token().as_str());
    let (_, sent) = sealed(&script, "/v1", &[("cookie", &cookie)]);
    assert!(
        sent.contains(&format!("cookie: a=1; session={VALUE}")),
        "{sent:?}"
    );
}

#[test]
fn a_call_has_no_place_for_a_stand_in() {
    let script = stand_in();
    let outbound = Outbound {
        target: Target::Secret(SecretName::parse("KEY").unwrap()),
        method: Method::GET,
        path: "/v1".to_owned(),
        query: None,
        credential: Some((script.credential.clone(), Placement::StandIn)),
    };
    let call = Checked::unchecked(Call {
        outbound,
        headers: HeaderMap::new(),
        body: bytes::Bytes::new(),
    });
    let refused = seal_call(
        &call,
        &script.destination,
        &shown(&token()),
        &[],
        &*script.values,
    );
    assert_eq!(refused.err(), Some(SealRefusal::TokenNowhere));
}
