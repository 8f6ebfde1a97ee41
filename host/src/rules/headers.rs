//! What may stand in a head that is sent on: pure rules over header maps. It
//! knows no credential's value and no socket.

use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
    VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::rules::plan::Edit;

/// What a box sends to say whose turn it is.
pub const CHANT_GRANT: HeaderName = HeaderName::from_static("chant-grant");

/// What the broker sends to say who pays.
pub const CHANT_PAYER: HeaderName = HeaderName::from_static("chant-payer");

/// Whether a header belongs to one connection and not to the message (RFC
/// 9110, 7.6.1), or frames the message.
#[must_use]
pub fn is_hop_by_hop(name: &HeaderName) -> bool {
    [
        CONNECTION,
        CONTENT_LENGTH,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
    ]
    .contains(name)
        || [
            "http2-settings",
            "keep-alive",
            "proxy-authentication-info",
            "proxy-connection",
        ]
        .contains(&name.as_str())
}

/// Whether a header tells where a request came from, or asks for another path
/// or host than the request line does.
#[must_use]
pub fn is_forwarding(name: &HeaderName) -> bool {
    let text = name.as_str();
    *name == FORWARDED
        || *name == VIA
        || text.starts_with("x-forwarded")
        || text.starts_with("x-original-")
        || text.starts_with("cf-connecting-ip")
        || [
            "client-ip",
            "fastly-client-ip",
            "true-client-ip",
            "x-client-ip",
            "x-cluster-client-ip",
            "x-real-ip",
            "x-rewrite-url",
        ]
        .contains(&text)
}

/// Whether a header asks for another method than the request line does.
#[must_use]
pub fn is_method_override(name: &HeaderName) -> bool {
    [
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
    ]
    .contains(&name.as_str())
}

/// Whether the host itself speaks this header.
#[must_use]
pub fn is_ours(name: &HeaderName) -> bool {
    *name == CHANT_GRANT || *name == CHANT_PAYER
}

/// The headers that `Connection` names.
#[must_use]
pub fn connection_names(headers: &HeaderMap) -> Vec<HeaderName> {
    list(headers, &CONNECTION)
        .filter_map(|name| HeaderName::from_bytes(name).ok())
        .collect()
}

/// The headers that are kept, in count, order and bytes.
#[must_use]
pub fn kept(headers: &HeaderMap, keep: impl Fn(&HeaderName, &HeaderValue) -> bool) -> HeaderMap {
    let mut out = HeaderMap::with_capacity(headers.keys_len());
    add_kept(&mut out, headers, keep);
    out
}

/// Adds the headers that are kept, in count, order and bytes.
pub fn add_kept(
    out: &mut HeaderMap,
    headers: &HeaderMap,
    keep: impl Fn(&HeaderName, &HeaderValue) -> bool,
) {
    for (name, value) in headers {
        if keep(name, value) {
            out.append(name.clone(), value.clone());
        }
    }
}

/// Whether the sender reads trailers.
#[must_use]
pub fn takes_trailers(headers: &HeaderMap) -> bool {
    list(headers, &TE).any(|item| {
        let name = item.split(|byte| *byte == b';').next().unwrap_or_default();
        name.trim_ascii().eq_ignore_ascii_case(b"trailers")
    })
}

/// The `Trailer` header made anew: the announced fields that may be trailers.
#[must_use]
pub fn trailer_announcement(headers: &HeaderMap) -> Option<HeaderValue> {
    let names: Vec<String> = list(headers, &TRAILER)
        .filter_map(|name| HeaderName::from_bytes(name).ok())
        .filter(may_be_trailer)
        .map(|name| name.as_str().to_owned())
        .collect();
    if names.is_empty() {
        return None;
    }
    HeaderValue::from_str(&names.join(", ")).ok()
}

/// Whether a field may stand in a trailer: not what frames, routes or
/// authenticates a message.
#[must_use]
pub fn may_be_trailer(name: &HeaderName) -> bool {
    !is_hop_by_hop(name)
        && !is_forwarding(name)
        && !is_ours(name)
        && ![AUTHORIZATION, COOKIE, EXPECT, HOST, SET_COOKIE].contains(name)
}

/// Whether the transfer codings are none, or `chunked` alone.
#[must_use]
pub fn is_plainly_framed(headers: &HeaderMap) -> bool {
    let mut codings = list(headers, &TRANSFER_ENCODING);
    match (codings.next(), codings.next()) {
        (None, _) => !headers.contains_key(TRANSFER_ENCODING),
        (Some(only), None) => only.eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}

/// The length that an answer to `HEAD` speaks of.
#[must_use]
pub fn spoken_length(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).into_iter();
    let only = lengths.next().filter(|_| lengths.next().is_none())?;
    only.to_str()
        .ok()?
        .parse::<u64>()
        .ok()
        .map(HeaderValue::from)
}

/// Makes a plan's edits.
pub fn edit(headers: &mut HeaderMap, edits: &[Edit]) {
    for change in edits {
        match change {
            Edit::Set(name, value) => {
                headers.insert(name.clone(), value.clone());
            }
            Edit::Remove(name) => remove(headers, name),
            Edit::AddToList(name, value) => {
                let merged = merged_list(headers, name, value);
                headers.insert(name.clone(), merged);
            }
        }
    }
}

/// Removes every line of a name and leaves the order of the others alone.
pub fn remove(headers: &mut HeaderMap, name: &HeaderName) {
    if headers.contains_key(name) {
        *headers = kept(headers, |other, _| other != name);
    }
}

/// Makes one line of several cookie lines, which HTTP/2 may split and HTTP/1.1
/// may not (RFC 9113, section 8.2.3).
pub fn join_cookies(headers: &mut HeaderMap) {
    let lines: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if lines.len() < 2 {
        return;
    }
    if let Ok(joined) = HeaderValue::from_bytes(&lines.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}

/// Whether a plugin may edit this header of a request or an answer: not what
/// addresses, frames or authenticates a message, and not what the host speaks.
#[must_use]
pub fn plugin_may_edit(name: &HeaderName, credential_headers: &[HeaderName]) -> bool {
    !is_hop_by_hop(name)
        && !is_forwarding(name)
        && !is_ours(name)
        && ![
            AUTHORIZATION,
            COOKIE,
            EXPECT,
            HOST,
            SET_COOKIE,
            ACCEPT_ENCODING,
        ]
        .contains(name)
        && !credential_headers.contains(name)
}

/// Whether a plugin may be shown this header: nothing that proves who somebody
/// is.
#[must_use]
pub fn plugin_may_see(name: &HeaderName, credential_headers: &[HeaderName]) -> bool {
    ![
        AUTHORIZATION,
        COOKIE,
        PROXY_AUTHORIZATION,
        SET_COOKIE,
        CHANT_GRANT,
    ]
    .contains(name)
        && !credential_headers.contains(name)
}

/// All lines of a list and one more value: in order, each item once, case
/// kept, on one line.
fn merged_list(headers: &HeaderMap, name: &HeaderName, value: &HeaderValue) -> HeaderValue {
    let mut items: Vec<&[u8]> = Vec::new();
    for item in list(headers, name).chain(split_list(value.as_bytes())) {
        if !items.contains(&item) {
            items.push(item);
        }
    }
    // Items are cut from valid values at commas and spaces, so they join to one.
    HeaderValue::from_bytes(&items.join(&b", "[..])).unwrap_or_else(|_| value.clone())
}

pub(super) fn list<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'a [u8]> {
    headers
        .get_all(name)
        .into_iter()
        .flat_map(|value| split_list(value.as_bytes()))
}

/// The items of a comma-separated list (RFC 9110, 5.6.1): a comma inside a
/// quoted string does not part them, and empty items do not count.
fn split_list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    let mut escaped = false;
    value
        .split(move |byte| {
            if escaped {
                escaped = false;
            } else if quoted && *byte == b'\\' {
                escaped = true;
            } else if *byte == b'"' {
                quoted = !quoted;
            }
            *byte == b',' && !quoted
        })
        .map(<[u8]>::trim_ascii)
        .filter(|item| !item.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_cookies_become_one_line() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_static("a=1"));
        headers.append(COOKIE, HeaderValue::from_static("b=2"));
        join_cookies(&mut headers);
        let lines: Vec<_> = headers.get_all(COOKIE).iter().collect();
        assert_eq!(lines, ["a=1; b=2"]);
    }

    fn map(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        headers
    }

    fn lines(headers: &HeaderMap) -> Vec<(String, String)> {
        headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect()
    }

    #[test]
    fn a_beta_list_is_merged_in_order() {
        let check = |received: &[&str], added: &str, expected: &str| {
            let received: Vec<_> = received.iter().map(|value| ("x-list", *value)).collect();
            let mut headers = map(&received);
            let name = HeaderName::from_static("x-list");
            let value = HeaderValue::from_str(added).unwrap();
            edit(&mut headers, &[Edit::AddToList(name, value)]);
            assert_eq!(
                lines(&headers),
                [("x-list".to_owned(), expected.to_owned())]
            );
        };
        check(&["a", "b,c"], "added", "a, b, c, added");
        check(&["a,A, a"], "x", "a, A, x");
        check(&["added", "b"], "added", "added, b");
        check(&[], "x", "x");
        check(&[",, a ,", ""], "x,y", "a, x, y");
        check(&["\"q,r\", b"], "b", "\"q,r\", b");
    }

    #[test]
    fn removing_keeps_the_order_of_the_rest() {
        let mut headers = map(&[("a", "1"), ("b", "2"), ("c", "3"), ("a", "4"), ("d", "5")]);
        remove(&mut headers, &HeaderName::from_static("b"));
        let names: Vec<_> = lines(&headers).into_iter().map(|(n, v)| n + &v).collect();
        assert_eq!(names, ["a1", "a4", "c3", "d5"]);
    }

    #[test]
    fn connection_names_headers() {
        let names = connection_names(&map(&[("connection", "x-hop, Close"), ("connection", "y")]));
        let names: Vec<_> = names.iter().map(HeaderName::as_str).collect();
        assert_eq!(names, ["x-hop", "close", "y"]);
    }

    #[test]
    fn only_chunked_is_a_plain_framing() {
        let check = |values: &[&str], expected: bool| {
            let values: Vec<_> = values
                .iter()
                .map(|value| ("transfer-encoding", *value))
                .collect();
            assert_eq!(is_plainly_framed(&map(&values)), expected, "{values:?}");
        };
        check(&[], true);
        check(&["chunked"], true);
        check(&["Chunked"], true);
        check(&["gzip, chunked"], false);
        check(&["gzip"], false);
        check(&["gzip", "chunked"], false);
        check(&["identity"], false);
        check(&[""], false);
    }

    #[test]
    fn a_plugin_edits_and_sees_what_it_may() {
        let credentials = [HeaderName::from_static("x-key")];
        let check = |name: &'static str, may_edit: bool, may_see: bool| {
            let name = HeaderName::from_static(name);
            assert_eq!(
                plugin_may_edit(&name, &credentials),
                may_edit,
                "edit {name}"
            );
            assert_eq!(plugin_may_see(&name, &credentials), may_see, "see {name}");
        };
        check("x-list", true, true);
        check("content-type", true, true);
        check("host", false, true);
        check("content-length", false, true);
        check("transfer-encoding", false, true);
        check("connection", false, true);
        check("te", false, true);
        check("x-forwarded-for", false, true);
        check("authorization", false, false);
        check("x-key", false, false);
        check("proxy-authorization", false, false);
        check("cookie", false, false);
        check("set-cookie", false, false);
        check("chant-grant", false, false);
        check("chant-payer", false, true);
    }

    #[test]
    fn trailers_are_announced_anew() {
        let check = |value: &str, expected: Option<&str>| {
            let announced = trailer_announcement(&map(&[("trailer", value)]));
            let announced = announced.as_ref().map(|value| value.to_str().unwrap());
            assert_eq!(announced, expected, "{value}");
        };
        check("X-Sum, grpc-status", Some("x-sum, grpc-status"));
        check("content-length, x-sum", Some("x-sum"));
        check("authorization", None);
        assert!(takes_trailers(&map(&[("te", "gzip, trailers;q=0.5")])));
        assert!(!takes_trailers(&map(&[("te", "gzip")])));
    }
}
