//! Tables for the check of a manifest.

use super::*;

fn sample() -> SaidManifest {
    SaidManifest {
        name: "sample".to_owned(),
        version: "1.2.3".to_owned(),
        capability: "sample".to_owned(),
        summary: "A sample".to_owned(),
        routes: vec![SaidRoute {
            prefix: "/sample/api".to_owned(),
            token_headers: Some(vec!["x-key".to_owned()]),
            ..SaidRoute::default()
        }],
        words: vec![SaidWord {
            name: "ask".to_owned(),
            description: "Ask".to_owned(),
            reaches: vec![SaidTarget::Upstream("vendor".to_owned())],
        }],
        ..SaidManifest::default()
    }
}

/// Checks the sample after a change; `expected` stands in the error, or is
/// empty when the manifest is accepted.
fn check(expected: &str, change: impl FnOnce(&mut SaidManifest)) {
    let mut said = sample();
    change(&mut said);
    match Manifest::check(said.clone()) {
        Ok(_) => assert!(expected.is_empty(), "accepted: {said:?}"),
        Err(error) => {
            let text = error.to_string();
            assert!(!expected.is_empty() && text.contains(expected), "{text}");
        }
    }
}

#[test]
fn names_and_version_fit_their_patterns() {
    check("", |_| {});
    check("name", |said| said.name = "Sample".to_owned());
    check("name", |said| said.name = String::new());
    check("capability", |said| said.capability = "1x".to_owned());
    for version in ["1", "1.2", "v1.2.3", "1.2.3.4", "01.2.3", ""] {
        check("version", |said| said.version = version.to_owned());
    }
    check("", |said| said.version = "1.2.3-rc.1+build".to_owned());
    check("version", |said| {
        said.version = format!("1.2.3-{}", "a".repeat(200));
    });
}

#[test]
fn text_for_people_is_one_plain_line() {
    for text in [
        "a\nb",
        "a\u{1b}[31m",
        "a\u{202e}b",
        "a\u{200b}b",
        "a\u{85}b",
    ] {
        check("summary", |said| said.summary = text.to_owned());
        check("description", |said| {
            said.words[0].description = text.to_owned();
        });
    }
    check("summary", |said| said.summary = "é".repeat(301));
    check("", |said| said.summary = "é".repeat(300));
}

#[test]
fn a_prefix_is_whole_literal_segments() {
    for prefix in [
        "", "/", "sample", "/a/", "//a", "/a//b", "/a/../b", "/a/.", "/%61", "/a%2fb", "/a\\b",
        "/a b", "/a?b", "/a#b", "/a\0", "/é", "/a*",
    ] {
        check("prefix", |said| said.routes[0].prefix = prefix.to_owned());
    }
    check("prefix", |said| {
        said.routes[0].prefix = format!("/{}", "a".repeat(200));
    });
    check("", |said| {
        said.routes[0].prefix = "/a-b/c.d/~e_f".to_owned()
    });
    check("routes", |said| said.routes.clear());
    check("routes", |said| {
        said.routes = vec![said.routes[0].clone(); 33]
    });
}

#[test]
fn a_prefix_stands_once_for_a_method() {
    let twice = |first: &[&str], second: &[&str], said: &mut SaidManifest| {
        let mut other = said.routes[0].clone();
        said.routes[0].methods = first.iter().map(|each| (*each).to_owned()).collect();
        other.methods = second.iter().map(|each| (*each).to_owned()).collect();
        said.routes.push(other);
    };
    check("listed twice", |said| twice(&[], &[], said));
    check("listed twice", |said| twice(&["GET"], &[], said));
    check("listed twice", |said| {
        twice(&["GET"], &["POST", "GET"], said)
    });
    check("", |said| twice(&["GET"], &["POST"], said));
    check("", |said| {
        let mut nested = said.routes[0].clone();
        nested.prefix.push_str("/hello");
        said.routes.push(nested);
    });
}

#[test]
fn methods_are_tokens_in_upper_case() {
    for method in ["get", "GE T", "", "CONNECT", "TRACE", "GET\r\n", "Get"] {
        check("method", |said| {
            said.routes[0].methods = vec![method.to_owned()]
        });
    }
    check("", |said| {
        said.routes[0].methods = vec!["GET".to_owned(), "M-SEARCH".to_owned()]
    });
}

#[test]
fn credential_headers_cannot_be_asked_for() {
    for header in [
        "authorization",
        "Authorization",
        "proxy-authorization",
        "cookie",
        "set-cookie",
        "chant-grant",
        "chant-payer",
        "CHANT-anything",
        "x-key",
        "not a name",
        "",
        "a\r\n",
    ] {
        check("header", |said| {
            said.routes[0].headers = vec![header.to_owned()]
        });
    }
    check("", |said| {
        said.routes[0].headers = vec!["accept".to_owned()]
    });
    for header in [
        "cookie",
        "host",
        "connection",
        "chant-grant",
        "content-length",
    ] {
        check("token header", |said| {
            said.routes[0].token_headers = Some(vec![header.to_owned()]);
        });
    }
    check("", |said| said.routes[0].token_headers = None);
}

#[test]
fn a_body_has_a_cap_and_a_public_route_no_payer() {
    check("", |said| said.routes[0].body = MAX_BODY);
    check("body", |said| said.routes[0].body = MAX_BODY + 1);
    check("", |said| {
        said.routes[0].payer_of = Some("vendor".to_owned())
    });
    check("payer-of", |said| {
        said.routes[0].payer_of = Some("other".to_owned())
    });
    check("payer-of", |said| {
        said.routes[0].payer_of = Some("V".to_owned())
    });
    check("payer-of", |said| {
        said.routes[0].public = true;
        said.routes[0].payer_of = Some("vendor".to_owned());
    });
}

#[test]
fn words_are_unique_and_reach_what_they_may() {
    check("listed twice", |said| {
        said.words.push(said.words[0].clone())
    });
    for name in ["", "a\nb", "<OTHER>", "a\u{7f}b"] {
        check("word", |said| said.words[0].name = name.to_owned());
    }
    check("word", |said| said.words[0].name = "é".repeat(65));
    let reaches = |targets: &[SaidTarget], name: &str, said: &mut SaidManifest| {
        said.words[0].name = name.to_owned();
        said.words[0].reaches = targets.to_vec();
    };
    let secret = |name: &str| SaidTarget::Secret(name.to_owned());
    let upstream = |name: &str| SaidTarget::Upstream(name.to_owned());
    check("", |said| reaches(&[secret(OPEN_WORD)], OPEN_WORD, said));
    check("only the word", |said| {
        reaches(&[secret(OPEN_WORD)], "ask", said)
    });
    check("", |said| reaches(&[secret("OPENAI")], "ask", said));
    check("secret name", |said| {
        reaches(&[secret("openai")], "ask", said)
    });
    check("upstream name", |said| {
        reaches(&[upstream(OPEN_WORD)], OPEN_WORD, said)
    });
    check("upstream name", |said| {
        reaches(&[upstream("https://x")], "ask", said)
    });
    check("words", |said| said.words = vec![said.words[0].clone(); 51]);
    check("reaches", |said| {
        said.words[0].reaches = vec![said.words[0].reaches[0].clone(); 33];
    });
}

#[test]
fn literal_paths_are_plain() {
    for path in [
        "", "v1", "/a/../b", "/..", "/./a", "/a//b", "/%2e", "/a?b", "/a#b", "/a\\b", "/a b",
        "/a\r\n", "/a\0", "/é", "//host/x",
    ] {
        check("path", |said| said.paths = vec![path.to_owned()]);
    }
    check("", |said| {
        said.paths = vec!["/".to_owned(), "/v1/a:b@c".to_owned(), "/v1/".to_owned()];
    });
    check("paths", |said| said.paths = vec!["/a".to_owned(); 65]);
}

#[test]
fn limits_are_within_reason() {
    let limit = |change: fn(&mut WantedLimits)| {
        check("limit", move |said| change(&mut said.limits));
    };
    limit(|limits| limits.time_ms = 10_001);
    limit(|limits| limits.memory_bytes = u32::MAX);
    limit(|limits| limits.rounds = 17);
    limit(|limits| limits.calls = 65);
    check("", |said| said.limits.time_ms = 10_000);
}

#[test]
fn an_error_shows_a_hostile_name_escaped_and_cut() {
    let mut said = sample();
    said.routes[0].prefix = format!("/\u{1b}[2J{}", "x".repeat(5000));
    let text = Manifest::check(said).unwrap_err().to_string();
    assert!(!text.contains('\u{1b}') && text.len() < 500, "{text}");
}
