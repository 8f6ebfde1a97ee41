//! Streams: what goes out, and when.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use crate::rules::scrub::{Instead, Matcher, Scrub};

const VALUE: &str = "sk-live+0123/4567=89~\"é\\n";

fn scrub(value: &str, instead: Instead) -> Scrub {
    Scrub::new(Arc::new(Matcher::new(value.as_bytes()).unwrap()), instead)
}

/// What goes out of these pieces, one by one, and at the end.
fn given(mut scrub: Scrub, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut given: Vec<Vec<u8>> = pieces
        .iter()
        .map(|piece| scrub.push(Bytes::copy_from_slice(piece)).to_vec())
        .collect();
    given.push(scrub.finish().to_vec());
    assert_eq!(scrub.held(), 0);
    given
}

/// Texts in which the value stands in each form, at the beginning, in the
/// middle and at the end, beside itself and in pieces of itself.
fn texts() -> Vec<Vec<u8>> {
    let json = serde_json::Value::from(VALUE).to_string();
    let nested = serde_json::Value::from(json.as_str()).to_string();
    let percent = super::percent_encoded(VALUE.as_bytes(), b"-_.~", true);
    let percent = String::from_utf8(percent).unwrap();
    let twice = percent.replace('%', "%25");
    let basic = STANDARD.encode(format!("user:{VALUE}"));
    let half = &VALUE[..9];
    vec![
        VALUE.into(),
        format!("{VALUE}{VALUE}").into(),
        format!("北{VALUE}é").into(),
        format!("event: x\ndata: {json}\n\n: ping\n\ndata: {half}\n\n").into(),
        format!("{{\"arguments\":{nested}}}").into(),
        format!("a={percent}&b={twice}&c=%7{half}%").into(),
        format!("Authorization: Basic {basic}\r\n").into(),
        format!("{half}{VALUE}{half}{half}").into(),
        [&[0xFF, 0x00, 0xC3][..], VALUE.as_bytes(), &[0xC3]].concat(),
        [b"\\\\\\", VALUE.as_bytes(), b"\\\\", VALUE.as_bytes()].concat(),
        b"nothing to see: \\u00e9 %41 \\n s sk sk- c2st".to_vec(),
    ]
}

#[test]
fn every_cut_gives_the_same() {
    let instead = [Instead::text(b"TOKEN"), Instead::Stars];
    for (instead, text) in instead
        .iter()
        .flat_map(|i| texts().into_iter().map(move |t| (i, t)))
    {
        let whole = given(scrub(VALUE, instead.clone()), &[&text]).concat();
        assert!(!Matcher::new(VALUE.as_bytes()).unwrap().finds(&whole));
        if matches!(instead, Instead::Stars) {
            assert_eq!(whole.len(), text.len());
        }
        for first in 0..=text.len() {
            let (head, tail) = text.split_at(first);
            let two = given(scrub(VALUE, instead.clone()), &[head, tail]).concat();
            assert_eq!(two, whole, "cut at {first} of {text:?}");
            for second in (first..=text.len()).step_by(3) {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                let three = given(scrub(VALUE, instead.clone()), &pieces).concat();
                assert_eq!(three, whole, "cut at {first} and {second} of {text:?}");
            }
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        let single = given(scrub(VALUE, instead.clone()), &bytes).concat();
        assert_eq!(single, whole);
    }
}

#[test]
fn a_replaced_value_leaves_the_rest_as_it_was() {
    let text = format!("{VALUE} <{VALUE}> {VALUE}");
    let whole = given(scrub(VALUE, Instead::text(b"TOKEN")), &[text.as_bytes()]).concat();
    assert_eq!(whole, b"TOKEN <TOKEN> TOKEN");
}

#[test]
fn only_what_may_be_the_beginning_of_a_form_is_held_back() {
    let check = |piece: &str, expected: &str| {
        let given = given(scrub("sk-live-0123", Instead::Stars), &[piece.as_bytes()]);
        assert_eq!(String::from_utf8_lossy(&given[0]), expected, "{piece}");
        assert_eq!(given.concat(), piece.as_bytes());
    };
    check("data: 1\n\n", "data: 1\n\n");
    check("data: sk-live-012", "data: ");
    check("data: s", "data: ");
    check("data: sk-live-013", "data: sk-live-013");
    check("sk-live-sk-li", "sk-live-");
    // Escapes count when they may still become one of the value's.
    check("data: %", "data: ");
    check("data: %7", "data: ");
    check("data: %73", "data: ");
    check("data: %74", "data: %74");
    check("data: %8", "data: %8");
    check("data: %2", "data: ");
    check("data: %25", "data: ");
    check("data: %257", "data: ");
    check("data: %258", "data: %258");
    check("data: \\", "data: ");
    check("data: \\u00", "data: ");
    check("data: \\u007", "data: ");
    check("data: \\u0073k", "data: ");
    check("data: \\u01", "data: \\u01");
    check("data: \\n", "data: \\n");
    check("data: s\\", "data: ");
    check("data: s\\n", "data: s\\n");
    // So does base64, at each alignment and in both alphabets.
    check("data: c2stbGl2", "data: ");
    check("data: c2stbGlX", "data: c2stbGlX");
}

#[test]
fn a_piece_without_a_match_is_not_copied() {
    let mut scrub = scrub(VALUE, Instead::Stars);
    for piece in [&b"data: 1\n\n"[..], b"data: sk-liv"] {
        let piece = Bytes::copy_from_slice(piece);
        let given = scrub.push(piece.clone());
        assert_eq!(given.as_ptr(), piece.as_ptr());
    }
    assert_eq!(scrub.finish(), "sk-liv");
    assert!(!scrub.has_found());
}

#[test]
fn what_follows_a_match_that_may_go_on_is_not_lost() {
    // After the first match its last bytes may begin a second one.
    let value = "aXbaX";
    for (text, expected) in [
        ("aXbaXb", "TOKENb"),
        ("aXbaXbaX", "TOKEN"),
        ("aXbaXbaY", "TOKENbaY"),
        ("aXbaXaXbaX", "TOKENTOKEN"),
    ] {
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        let given = given(scrub(value, Instead::text(b"TOKEN")), &bytes);
        assert_eq!(given[4], b"TOKEN", "as soon as it is whole");
        assert_eq!(String::from_utf8(given.concat()).unwrap(), expected);
    }
}
