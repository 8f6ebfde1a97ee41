//! The head of a request, as a stranger writes it: parsed as the listener's
//! parser does, then through everything that looks at it before a plugin or
//! an upstream may see any of it.

#![no_main]

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use jackfield::rules::headers;
use jackfield::rules::identify::{self, Shown};
use jackfield::rules::manifest::TokenPlace;
use jackfield::rules::paths;
use jackfield::rules::token::find_tokens;
use libfuzzer_sys::fuzz_target;
use percent_encoding::percent_decode;

fuzz_target!(|data: &[u8]| {
    let Some((uri, headers)) = head(data) else {
        return;
    };
    let path = uri.path();
    let written = uri.path_and_query().map_or("/", |all| all.as_str());

    if paths::is_plain(path.as_bytes()) {
        has_no_dot_segment(path.as_bytes());
        for prefix in ["", "/llm/anthropic", "/egress"] {
            if let Some(tail) = paths::tail(path, prefix) {
                assert!(path.ends_with(tail));
                for count in 0..3 {
                    let rest = paths::skip_segments(tail, count);
                    assert!(rest.is_none_or(|rest| tail.ends_with(rest)));
                }
            }
        }
    }

    let named = TokenPlace::Headers(vec![HeaderName::from_static("x-api-key")]);
    for place in [&named, &TokenPlace::Anywhere] {
        if let Shown::One(token) = identify::shown_token(&headers, written, place) {
            let text = token.as_str();
            let query = uri.query().unwrap_or("");
            let masked = identify::mask_query(query);
            assert!(
                !masked.contains(text),
                "a plugin sees the token in the query"
            );
            let names: Vec<HeaderName> = headers.keys().cloned().collect();
            for (name, value) in identify::without_tokens(&headers, &names) {
                assert!(
                    find_tokens(&value).is_empty(),
                    "a plugin sees a token in {name}"
                );
            }
        }
    }
    let credential_headers = [HeaderName::from_static("x-api-key")];
    let _ = identify::stray_tokens(&headers, written, &credential_headers);
    let named = headers::connection_names(&headers);
    let kept = headers::kept(&headers, |name, _| !named.contains(name));
    assert!(named.iter().all(|name| !kept.contains_key(name)));
});

/// What hyper would make of it: a target that is a URI, and at most 100 lines.
fn head(data: &[u8]) -> Option<(Uri, HeaderMap)> {
    let mut lines = [httparse::EMPTY_HEADER; 100];
    let mut request = httparse::Request::new(&mut lines);
    // A fuzzer need not find the end of a head to try what stands in it.
    let whole = [data, b"\r\n\r\n"].concat();
    request.parse(&whole).ok()?;
    let uri = Uri::try_from(request.path?).ok()?;
    let mut headers = HeaderMap::new();
    for line in request.headers.iter() {
        let name = HeaderName::from_bytes(line.name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_bytes(line.value).ok()?);
    }
    Some((uri, headers))
}

/// Undone as often as anybody could undo it, a path that passed goes nowhere
/// but down.
fn has_no_dot_segment(path: &[u8]) {
    let mut path = path.to_vec();
    loop {
        for segment in path.split(|byte| *byte == b'/' || *byte == b'\\') {
            assert!(segment != b".." && segment != b".", "{path:?}");
        }
        assert!(!path.contains(&0), "{path:?}");
        let decoded: Vec<u8> = percent_decode(&path).collect();
        if decoded == path {
            return;
        }
        path = decoded;
    }
}
