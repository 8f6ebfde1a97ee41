//! Finding the box's token in a head, and putting something else in its place:
//! pure functions over bytes that hold no secret of their own.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::rules::identify::decoded_basic;
use crate::rules::scrub::{find_maybe_encoded, percent_decoded, splice};

/// A header's value with each token in it replaced, also inside `Basic`; none
/// when the token does not stand there.
pub(super) fn swap_in_header(value: &[u8], token: &[u8], with: &[u8]) -> Option<Vec<u8>> {
    let raw = swap_raw(value, token, with);
    if raw.is_some() {
        return raw;
    }
    let decoded = decoded_basic(value)?;
    let swapped = swap_raw(&decoded, token, with)?;
    // In the box's own spelling.
    let scheme = value.get(.."Basic ".len())?;
    Some([scheme, STANDARD.encode(swapped).as_bytes()].concat())
}

/// A query with each token in it replaced, raw or percent-encoded.
pub(super) fn swap_in_query(query: &[u8], token: &[u8], with: &[u8]) -> Option<Vec<u8>> {
    let ranges = find_maybe_encoded(query, token);
    (!ranges.is_empty()).then(|| splice(query, &ranges, with))
}

/// A query without the parameters of this (decoded) name, and with one more.
pub(super) fn set_in_query(query: Option<&str>, name: &str, value: &[u8]) -> Vec<u8> {
    let wanted = form_decoded(name.as_bytes());
    let mut pairs: Vec<&[u8]> = query
        .unwrap_or_default()
        .as_bytes()
        .split(|byte| *byte == b'&')
        .filter(|pair| {
            let key = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
            form_decoded(key) != wanted
        })
        .collect();
    if query.is_none_or(str::is_empty) {
        pairs.clear();
    }
    let ours = [name.as_bytes(), b"=", value].concat();
    pairs.push(&ours);
    pairs.join(&b'&')
}

fn swap_raw(text: &[u8], token: &[u8], with: &[u8]) -> Option<Vec<u8>> {
    let ranges: Vec<_> = memchr::memmem::find_iter(text, token)
        .map(|start| start..start + token.len())
        .collect();
    (!ranges.is_empty()).then(|| splice(text, &ranges, with))
}

fn form_decoded(text: &[u8]) -> Vec<u8> {
    let spaced: Vec<u8> = text
        .iter()
        .map(|byte| if *byte == b'+' { b' ' } else { *byte })
        .collect();
    percent_decoded(&spaced).into_owned()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD_NO_PAD;

    use super::*;

    #[test]
    fn a_token_is_swapped_in_a_header() {
        let check = |value: &str, expected: Option<&str>| {
            let swapped = swap_in_header(value.as_bytes(), b"TOK", b"secret");
            let swapped = swapped.map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(swapped.as_deref(), expected, "{value}");
        };
        check("TOK", Some("secret"));
        check("Bearer TOK", Some("Bearer secret"));
        check("key=\"TOK\", also=TOK", Some("key=\"secret\", also=secret"));
        check("nothing", None);
        let basic = format!("Basic {}", STANDARD.encode("user:TOK"));
        let swapped = format!("Basic {}", STANDARD.encode("user:secret"));
        check(&basic, Some(&swapped));
        check(
            &basic.replace("Basic", "bAsIc"),
            Some(&swapped.replace("Basic", "bAsIc")),
        );
        let unpadded = format!("Basic {}", STANDARD_NO_PAD.encode("TOK:"));
        check(
            &unpadded,
            Some(&format!("Basic {}", STANDARD.encode("secret:"))),
        );
        check("Basic ???", None);
        check("Basic", None);
    }

    #[test]
    fn a_parameter_is_replaced_by_its_decoded_name() {
        let check = |query: Option<&str>, name: &str, expected: &str| {
            let set = String::from_utf8(set_in_query(query, name, b"v")).unwrap();
            assert_eq!(set, expected, "{query:?}");
        };
        check(None, "key", "key=v");
        check(Some(""), "key", "key=v");
        check(Some("a=1&key=x&b=%20&&key=y"), "key", "a=1&b=%20&&key=v");
        check(Some("k%65y=x&keys=2&key"), "key", "keys=2&key=v");
        check(Some("a+b=1"), "a%20b", "a%20b=v");
    }
}
