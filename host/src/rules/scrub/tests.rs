//! The forms and their spellings; streams cut at every place; properties.

mod properties;
mod streams;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

use super::*;

fn check(value: &str, text: &str, expected: Option<&str>) {
    let matcher = Matcher::new(value.as_bytes()).unwrap();
    let replaced = matcher
        .replace(text.as_bytes(), b"TOKEN")
        .map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(replaced.as_deref(), expected, "{value} in {text}");
    assert_eq!(matcher.finds(text.as_bytes()), expected.is_some());
}

#[test]
fn each_form_is_found() {
    let value = "sk-a/b+c=\"d\" 9é";
    check(value, "nothing here", None);
    check(value, &format!("key {value}."), Some("key TOKEN."));
    check(value, &format!("{value}{value}"), Some("TOKENTOKEN"));
    check(
        value,
        "x=sk-a%2Fb%2Bc%3D%22d%22%209%C3%A9&y",
        Some("x=TOKEN&y"),
    );
    check(
        value,
        "x=sk-a%2fb%2bc%3d%22d%22%209%c3%a9&y",
        Some("x=TOKEN&y"),
    );
    check(
        value,
        "x=sk-a%2Fb%2Bc%3D%22d%22+9%C3%A9&y",
        Some("x=TOKEN&y"),
    );
    check(
        value,
        "x=%73k-a/b%2Bc=%22d%22%209%c3%A9&y",
        Some("x=TOKEN&y"),
    );
    check(
        value,
        "x=%2573k-a%252Fb%252Bc%253D%2522d%2522%25209%25C3%25A9",
        Some("x=TOKEN"),
    );
    check(
        value,
        r#"{"k":"sk-a/b+c=\"d\" 9é"}"#,
        Some(r#"{"k":"TOKEN"}"#),
    );
    check(
        value,
        r#"{"k":"sk-a\/b\u002bc=\u0022d\" 9\u00e9"}"#,
        Some(r#"{"k":"TOKEN"}"#),
    );
}

#[test]
fn base64_is_found_at_every_alignment_and_in_both_alphabets() {
    let value = "sk-live-0123456789>>>???";
    let matcher = Matcher::new(value.as_bytes()).unwrap();
    for before in ["", "u", "us", "user:", "a-longer-name:"] {
        for after in ["", "x", "xy", ":and more"] {
            let plain = format!("{before}{value}{after}");
            for encoded in [
                STANDARD.encode(&plain),
                URL_SAFE.encode(&plain),
                STANDARD_NO_PAD.encode(&plain),
                URL_SAFE_NO_PAD.encode(&plain),
            ] {
                let text = format!("Basic {encoded}");
                let replaced = matcher.replace(text.as_bytes(), b"*").unwrap();
                assert!(replaced.starts_with(b"Basic "));
                assert!(!matcher.finds(&replaced));
                assert!(replaced.len() < text.len() - value.len());
                let escaped = percent_encoded(text.as_bytes(), b"", true);
                assert!(matcher.finds(&escaped));
            }
        }
    }
}

#[test]
fn a_short_value_is_found_raw() {
    check("abc", "xabcx", Some("xTOKENx"));
    check("abc", "xabx", None);
    assert!(Matcher::new(b"").is_none());
}

#[test]
fn a_broken_escape_is_itself() {
    check("abcdefghijkl", "%", None);
    check("abcdefghijkl", "%4", None);
    check("abcdefghijkl", "%zz%61bcdefghijkl%", Some("%zzTOKEN%"));
    check("abcdefghijkl", r"\u12", None);
    check("abcdefghijkl", r"\", None);
}

#[test]
fn a_needle_is_found_with_any_of_its_bytes_encoded() {
    let check = |text: &str, expected: &str| {
        let found = find_maybe_encoded(text.as_bytes(), b"jft_x");
        let found: Vec<_> = found.into_iter().map(|range| &text[range]).collect();
        assert_eq!(found.join("|"), expected, "{text}");
    };
    check("a=jft_x&b=jft_x", "jft_x|jft_x");
    check("a=jft%5Fx&b=%31", "jft%5Fx");
    check("a=%6Aft_x", "%6Aft_x");
    check("a=jft_y", "");
}

#[test]
fn json_inside_json_is_read() {
    let value = "sk-a/b\"c\\d\n9é😀";
    let once = serde_json::Value::from(value).to_string();
    let twice = serde_json::Value::from(once.as_str()).to_string();
    check(value, &once, Some("\"TOKEN\""));
    check(value, &twice, Some("\"\\\"TOKEN\\\"\""));
    check(
        value,
        &once.replace('é', "\\u00E9").replace('😀', "\\ud83d\\uDE00"),
        Some("\"TOKEN\""),
    );
    check(
        value,
        &twice.replace('é', "\\\\u00e9").replace('/', "\\\\\\/"),
        Some("\"\\\"TOKEN\\\"\""),
    );
    let other = once.replace('😀', "\\ud83d\\ude01");
    check(value, &other, None);
}

#[test]
fn bytes_that_are_no_text_are_found() {
    let value = b"sk-\xFF\xC3(\x00key";
    let matcher = Matcher::new(value).unwrap();
    let check = |text: &[u8]| assert_eq!(matcher.replace(text, b"T").unwrap(), b"<T>");
    check(b"<sk-\xFF\xC3(\x00key>");
    check(b"<sk-%ff%C3(%00key>");
    check(b"<sk-\\u00ff\\u00C3(\\u0000key>");
}

#[test]
fn values_that_overlap_become_one() {
    check("aXaXa", "-aXaXa-", Some("-TOKEN-"));
    check("aXbaX", "aXbaXbaX", Some("TOKEN"));
    check("aXbaX", "aXbaXaXbaX", Some("TOKENTOKEN"));
}

#[test]
fn several_values_are_searched_for_at_once() {
    let matcher = Matcher::of(&[b"first-value-1", b"second-value"]).unwrap();
    let text = b"first-value-1 and second%2Dvalue";
    assert_eq!(matcher.replace(text, b"*").unwrap(), b"* and *");
}

#[test]
fn percent_signs_in_a_value_are_no_escapes_of_ours() {
    let value = "100%25%2f%-done";
    check(value, "<100%25%2f%-done>", Some("<TOKEN>"));
    check(value, "<100%2525%252f%25-done>", Some("<TOKEN>"));
    check(value, "<100%252525%25252f%2525-done>", Some("<TOKEN>"));
}
