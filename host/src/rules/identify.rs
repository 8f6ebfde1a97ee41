//! Where a box's token stands in a request. It says which tokens were shown
//! and never whether one is known: the caller looks that up by hash.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName};

use crate::rules::headers::CHANT_GRANT;
use crate::rules::manifest::TokenPlace;
use crate::rules::scrub::{Instead, Matcher, Scrub};
use crate::rules::token::{
    BoxToken, GrantValue, TOKEN_LENGTH, find_tokens, holds_grant_shape, holds_token_shape, shapes,
};

/// What a request shows for itself.
#[derive(Debug, PartialEq, Eq)]
pub enum Shown {
    /// Nothing that could be a token.
    Nothing,
    /// One token, in one or several places.
    One(BoxToken),
    /// Credentials that cannot all be the same token.
    Several,
    /// A credential where a token should stand, not of a token's shape.
    Malformed,
}

/// Finds the token a request shows where `place` says that one may stand.
///
/// Where tokens have places of their own, whatever stands there is taken for
/// one, and two different texts are [`Shown::Several`]. Where a token may stand
/// anywhere, only texts of a token's shape count: the other credentials in
/// the request are the app's own.
#[must_use]
pub fn shown_token(headers: &HeaderMap, path_and_query: &str, place: &TokenPlace) -> Shown {
    match place {
        TokenPlace::Headers(names) => one_of(in_credential_headers(headers, names)),
        TokenPlace::Anywhere => {
            let query = path_and_query
                .split_once('?')
                .map_or("", |(_, query)| query);
            let found = headers
                .values()
                // No spelling is shorter than the token itself.
                .filter(|value| value.len() >= TOKEN_LENGTH)
                .flat_map(|value| in_value(value.as_bytes()))
                .chain(in_query(query));
            one_of(found.map(Some))
        }
    }
}

/// Where a token stands that it must not leave from: a header that is no
/// credential header, the query, the path. The names are for people.
#[must_use]
pub fn stray_tokens(
    headers: &HeaderMap,
    path_and_query: &str,
    credential_headers: &[HeaderName],
) -> Vec<(String, BoxToken)> {
    let (path, query) = path_and_query
        .split_once('?')
        .unwrap_or((path_and_query, ""));
    let in_headers = headers
        .iter()
        // No spelling is shorter than the token itself.
        .filter(|(_, value)| value.len() >= TOKEN_LENGTH)
        .filter(|(name, _)| *name != AUTHORIZATION && !credential_headers.contains(name))
        .flat_map(|(name, value)| {
            in_value(value.as_bytes()).map(move |token| (format!("the header {name}"), token))
        });
    let in_query = in_query(query).map(|token| ("the query".to_owned(), token));
    in_headers
        .chain(in_query)
        .chain(tokens_in_path(path))
        .collect()
}

/// Tokens in the path, where none may ever stand.
pub fn tokens_in_path(path: &str) -> impl Iterator<Item = (String, BoxToken)> {
    in_encoded(path).map(|token| ("the path".to_owned(), token))
}

/// The grant that a request shows: the one well-formed value of its one
/// `chant-grant` line.
#[must_use]
pub fn shown_grant(headers: &HeaderMap) -> Option<GrantValue> {
    let mut lines = headers.get_all(CHANT_GRANT).into_iter();
    let only = lines.next().filter(|_| lines.next().is_none())?;
    GrantValue::parse(only.as_bytes())
}

/// Where something of a grant's shape stands that is not its own header, in
/// words for people. Credential headers do not count: they are not sent on.
#[must_use]
pub fn stray_grant(
    headers: &HeaderMap,
    path_and_query: &str,
    credential_headers: &[HeaderName],
) -> Option<String> {
    let (path, query) = path_and_query
        .split_once('?')
        .unwrap_or((path_and_query, ""));
    let is_own = |name: &HeaderName| {
        *name == AUTHORIZATION || *name == CHANT_GRANT || credential_headers.contains(name)
    };
    let stands = |value: &[u8]| {
        holds_grant_shape(value)
            || decoded_basic(value).is_some_and(|decoded| holds_grant_shape(&decoded))
    };
    let header = headers
        .iter()
        .find(|(name, value)| !is_own(name) && stands(value.as_bytes()));
    if let Some((name, _)) = header {
        return Some(format!("the header {name}"));
    }
    let parts = [("the query", query), ("the path", path)];
    let found = parts
        .into_iter()
        .find(|(_, part)| holds_grant_shape(part.as_bytes()));
    found.map(|(place, _)| place.to_owned())
}

/// Whether a grant stands in the path, where none may ever stand.
#[must_use]
pub fn grant_in_path(path_and_query: &str) -> Option<String> {
    let path = path_and_query.split('?').next().unwrap_or_default();
    holds_grant_shape(path.as_bytes()).then(|| "the path".to_owned())
}

/// The query with every token and grant overwritten by `*`, for a plugin to
/// see.
#[must_use]
pub fn mask_query(query: &str) -> String {
    let mut masked = String::with_capacity(query.len());
    for (index, pair) in query.split('&').enumerate() {
        if index > 0 {
            masked.push('&');
        }
        if holds_token_shape(pair.as_bytes()) {
            masked.extend(pair.chars().map(|c| if c == '=' { '=' } else { '*' }));
        } else {
            masked.push_str(pair);
        }
    }
    masked
}

/// A body for a plugin to see: whatever has the shape of a token or a grant is
/// overwritten by `*`, and so is this box's token in any form. Its length
/// stays.
#[must_use]
pub fn mask_body(body: Bytes, token: Option<&BoxToken>) -> Bytes {
    let matcher = token.and_then(|token| Matcher::new(token.as_str().as_bytes()));
    let body = match matcher {
        Some(matcher) => {
            let mut scrub = Scrub::new(Arc::new(matcher), Instead::Stars);
            let sure = scrub.push(body);
            match scrub.finish() {
                rest if rest.is_empty() => sure,
                rest => [sure, rest].concat().into(),
            }
        }
        None => body,
    };
    let found: Vec<usize> = shapes(&body).collect();
    if found.is_empty() {
        return body;
    }
    let mut masked = body.to_vec();
    for start in found {
        if let Some(token) = masked.get_mut(start..start + TOKEN_LENGTH) {
            token.fill(b'*');
        }
    }
    masked.into()
}

/// The headers of these names, less every line that holds a token or a grant.
#[must_use]
pub fn without_tokens(headers: &HeaderMap, names: &[HeaderName]) -> Vec<(String, Vec<u8>)> {
    headers
        .iter()
        .filter(|(name, value)| names.contains(name) && !holds_either(value.as_bytes()))
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect()
}

fn holds_either(value: &[u8]) -> bool {
    holds_token_shape(value)
        || decoded_basic(value).is_some_and(|decoded| holds_token_shape(&decoded))
}

fn one_of(found: impl Iterator<Item = Option<BoxToken>>) -> Shown {
    let mut shown = Shown::Nothing;
    for candidate in found {
        shown = match (shown, candidate) {
            (Shown::Nothing, Some(token)) => Shown::One(token),
            (Shown::Nothing, None) => Shown::Malformed,
            (Shown::One(first), Some(token)) if first.hash() == token.hash() => Shown::One(first),
            (Shown::One(_) | Shown::Several | Shown::Malformed, _) => Shown::Several,
        };
    }
    shown
}

fn in_credential_headers<'a>(
    headers: &'a HeaderMap,
    names: &'a [HeaderName],
) -> impl Iterator<Item = Option<BoxToken>> + 'a {
    let bearer = headers
        .get_all(AUTHORIZATION)
        .into_iter()
        .filter_map(|value| bearer(value.as_bytes()));
    let named = names
        .iter()
        .flat_map(|name| headers.get_all(name))
        .map(|value| value.as_bytes());
    bearer
        .chain(named)
        .map(|text| BoxToken::parse(std::str::from_utf8(text).ok()?))
}

/// What follows `Bearer` (RFC 6750; the scheme in any case, RFC 9110 §11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(6)?;
    let token = rest.trim_ascii_start();
    (scheme.eq_ignore_ascii_case(b"bearer") && token.len() < rest.len())
        .then(|| token.trim_ascii_end())
}

fn in_value(value: &[u8]) -> impl Iterator<Item = BoxToken> + use<> {
    let plain = tokens(value);
    let basic = decoded_basic(value).map_or_else(Vec::new, |decoded| tokens(&decoded));
    let encoded = if plain.is_empty() && std::str::from_utf8(value).is_ok() {
        under_encoding(value)
    } else {
        Vec::new()
    };
    plain.into_iter().chain(basic).chain(encoded)
}

fn tokens(text: &[u8]) -> Vec<BoxToken> {
    let found = find_tokens(text).into_iter();
    found.map(|(_, token)| token).collect()
}

/// The `user:password` of a Basic credential (RFC 7617).
#[must_use]
pub fn decoded_basic(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, rest) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let text = rest.trim_ascii();
    STANDARD
        .decode(text)
        .or_else(|_| STANDARD_NO_PAD.decode(text))
        .ok()
}

fn in_query(query: &str) -> impl Iterator<Item = BoxToken> + use<> {
    in_encoded(query)
}

/// Tokens as they stand, or else under one or two layers of percent-encoding.
fn in_encoded(text: &str) -> impl Iterator<Item = BoxToken> + use<> {
    if text.len() < TOKEN_LENGTH {
        return Vec::new().into_iter();
    }
    let mut found = tokens(text.as_bytes());
    if found.is_empty() {
        found = under_encoding(text.as_bytes());
    }
    found.into_iter()
}

/// Tokens under one layer of percent-encoding, or else under two.
fn under_encoding(text: &[u8]) -> Vec<BoxToken> {
    let mut layer = Cow::Borrowed(text);
    for _ in 0..2 {
        // No spelling is shorter than the token itself.
        if layer.len() < TOKEN_LENGTH || !layer.contains(&b'%') {
            break;
        }
        layer = Cow::Owned(percent_encoding::percent_decode(&layer).collect());
        let found = tokens(&layer);
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn token(byte: u8) -> BoxToken {
        BoxToken::from_random(&[byte; 32])
    }

    fn headers(lines: &[(&'static str, String)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_str(value).unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn a_token_is_found_in_its_places() {
        let (one, two) = (token(1), token(2));
        let (a, b) = (one.as_str(), two.as_str());
        let place = TokenPlace::Headers(vec![HeaderName::from_static("x-key")]);
        let check = |lines: &[(&'static str, String)], expected: Shown| {
            assert_eq!(
                shown_token(&headers(lines), "/", &place),
                expected,
                "{lines:?}"
            );
        };
        check(&[], Shown::Nothing);
        check(
            &[("authorization", format!("Bearer {a}"))],
            Shown::One(one.clone()),
        );
        check(
            &[("authorization", format!("bEARER   {a}"))],
            Shown::One(one.clone()),
        );
        check(&[("x-key", a.to_owned())], Shown::One(one.clone()));
        check(
            &[
                ("authorization", format!("Bearer {a}")),
                ("x-key", a.to_owned()),
            ],
            Shown::One(one.clone()),
        );
        check(
            &[
                ("authorization", format!("Bearer {a}")),
                ("x-key", b.to_owned()),
            ],
            Shown::Several,
        );
        check(
            &[
                ("authorization", format!("Bearer {a}")),
                ("x-key", "junk".to_owned()),
            ],
            Shown::Several,
        );
        check(
            &[("x-key", a.to_owned()), ("x-key", b.to_owned())],
            Shown::Several,
        );
        check(
            &[("authorization", "Bearer junk".to_owned())],
            Shown::Malformed,
        );
        check(&[("authorization", format!("Bearer{a}"))], Shown::Nothing);
        check(&[("authorization", format!("Basic {a}"))], Shown::Nothing);
        check(&[("x-other", a.to_owned())], Shown::Nothing);
    }

    #[test]
    fn where_it_may_a_token_is_found_anywhere() {
        let (one, two) = (token(1), token(2));
        let (a, b) = (one.as_str(), two.as_str());
        let check = |lines: &[(&'static str, String)], target: &str, expected: Shown| {
            assert_eq!(
                shown_token(&headers(lines), target, &TokenPlace::Anywhere),
                expected,
                "{lines:?} {target}"
            );
        };
        let basic = |text: String| format!("Basic {}", STANDARD.encode(text));
        check(&[("x-auth", a.to_owned())], "/", Shown::One(one.clone()));
        check(
            &[("authorization", format!("Token token=\"{a}\""))],
            "/",
            Shown::One(one.clone()),
        );
        check(
            &[("authorization", basic(format!("user:{a}")))],
            "/",
            Shown::One(one.clone()),
        );
        check(
            &[("authorization", basic(format!("{a}:")))],
            "/",
            Shown::One(one.clone()),
        );
        check(&[], &format!("/p?key={a}&x=1"), Shown::One(one.clone()));
        check(
            &[],
            &format!("/p?key={}", a.replace('_', "%5F")),
            Shown::One(one.clone()),
        );
        check(
            &[
                ("authorization", "Bearer other".to_owned()),
                ("x-auth", a.to_owned()),
            ],
            "/",
            Shown::One(one.clone()),
        );
        check(
            &[
                ("authorization", format!("Bearer {b}")),
                ("x-auth", a.to_owned()),
            ],
            "/",
            Shown::Several,
        );
        check(
            &[("authorization", format!("Bearer {a}"))],
            &format!("/?k={b}"),
            Shown::Several,
        );
        check(
            &[("authorization", "Bearer other".to_owned())],
            "/",
            Shown::Nothing,
        );
    }

    #[test]
    fn a_token_outside_its_place_is_reported() {
        let one = token(3);
        let a = one.as_str();
        let api_key = [HeaderName::from_static("x-key")];
        let check = |lines: &[(&'static str, String)], target: &str, expected: &[&str]| {
            let found: Vec<String> = stray_tokens(&headers(lines), target, &api_key)
                .into_iter()
                .map(|(place, _)| place)
                .collect();
            assert_eq!(found, expected, "{lines:?} {target}");
        };
        check(
            &[
                ("authorization", format!("Bearer {a}")),
                ("x-key", a.to_owned()),
            ],
            "/v1",
            &[],
        );
        check(
            &[("x-debug", format!("k={a}"))],
            "/v1",
            &["the header x-debug"],
        );
        check(&[], &format!("/v1?x={a}"), &["the query"]);
        check(
            &[],
            &format!("/v1?x={}", a.replace('j', "%6a")),
            &["the query"],
        );
        check(&[], &format!("/v1/{a}"), &["the path"]);
    }

    #[test]
    fn a_grant_is_shown_by_one_well_formed_line_alone() {
        let grant = GrantValue::from_random(&[5; 32]);
        let text = grant.as_str().to_owned();
        let check = |lines: &[&str], expected: bool| {
            let lines: Vec<_> = lines
                .iter()
                .map(|line| ("chant-grant", (*line).to_owned()))
                .collect();
            let shown = shown_grant(&headers(&lines));
            assert_eq!(shown, expected.then(|| grant.clone()), "{lines:?}");
        };
        check(&[&text], true);
        check(&[], false);
        check(&[&text, &text], false);
        check(&[&text, ""], false);
        check(&[&format!("Bearer {text}")], false);
        check(&[&format!("{text},")], false);
        check(&["anything"], false);
        check(&[token(5).as_str()], false);
    }

    #[test]
    fn a_grant_elsewhere_is_seen_in_any_spelling() {
        let grant = GrantValue::from_random(&[5; 32]);
        let text = grant.as_str();
        let own = [HeaderName::from_static("x-key")];
        let check = |name: &'static str, value: String, target: &str, expected: Option<&str>| {
            let found = stray_grant(&headers(&[(name, value)]), target, &own);
            assert_eq!(found.as_deref(), expected, "{name} {target}");
        };
        let none = || "x".to_owned();
        check("chant-grant", text.to_owned(), "/v1", None);
        check("authorization", format!("Bearer {text}"), "/v1", None);
        check("x-key", text.to_owned(), "/v1", None);
        check("x-a", token(1).as_str().to_owned(), "/v1", None);
        let basic = format!("Basic {}", STANDARD.encode(format!("a:{text}")));
        for value in [text.to_owned(), text.replace('_', "%5f"), basic] {
            check("x-a", value, "/v1", Some("the header x-a"));
        }
        let once = text.replace('j', "%6A");
        let twice = text.replace('j', "%256A");
        for spelled in [text, &once, &twice] {
            let query = format!("/v1?a={spelled}");
            check("x-a", none(), &query, Some("the query"));
            let path = format!("/v1/{spelled}/x?a=1");
            check("x-a", none(), &path, Some("the path"));
        }
        check("x-a", none(), "/v1?a=jfg_short", None);
    }

    #[test]
    fn a_plugin_sees_no_grant() {
        let grant = GrantValue::from_random(&[5; 32]);
        let text = grant.as_str();
        let stars = "*".repeat(TOKEN_LENGTH);
        let body = Bytes::from(format!("{{\"a\": \"{text}\"}}"));
        assert_eq!(mask_body(body, None), format!("{{\"a\": \"{stars}\"}}"));
        assert!(!mask_query(&format!("a={text}&b=1")).contains("jfg_"));
        let shown = headers(&[("x-a", format!("x={text}")), ("x-b", "b".to_owned())]);
        let names = ["x-a", "x-b"].map(HeaderName::from_static);
        let expected = [("x-b".to_owned(), b"b".to_vec())];
        assert_eq!(without_tokens(&shown, &names), expected);
    }

    #[test]
    fn a_plugin_sees_no_token_in_the_query() {
        let one = token(4);
        let masked = mask_query(&format!("a=1&key={}&b=%20", one.as_str()));
        assert!(!masked.contains("jft_"), "{masked}");
        assert!(
            masked.starts_with("a=1&***=") && masked.ends_with("&b=%20"),
            "{masked}"
        );
    }

    #[test]
    fn a_body_that_a_plugin_sees_holds_no_token_and_no_grant() {
        let token = BoxToken::from_random(&[7; 32]);
        let other = BoxToken::from_random(&[9; 32]);
        let grant = other.as_str().replace("jft_", "jfg_");
        let check = |text: String, shown: Option<&BoxToken>, stars: usize| {
            let length = text.len();
            let masked = mask_body(Bytes::from(text), shown);
            assert_eq!(masked.len(), length);
            let found = masked.iter().filter(|byte| **byte == b'*').count();
            assert_eq!(found, stars, "{masked:?}");
        };
        check(
            format!("a {} b", token.as_str()),
            Some(&token),
            TOKEN_LENGTH,
        );
        check(format!("a{}b", token.as_str()), Some(&token), TOKEN_LENGTH);
        check(
            format!("{} {grant}", other.as_str()),
            Some(&token),
            2 * TOKEN_LENGTH,
        );
        check(
            format!("{} {grant}", other.as_str()),
            None,
            2 * TOKEN_LENGTH,
        );
        // Of its last character in base64, two bits belong to what follows.
        check(
            STANDARD.encode(token.as_str()),
            Some(&token),
            TOKEN_LENGTH * 8 / 6,
        );
        check("jft_short and nothing".to_owned(), Some(&token), 0);
    }
}
