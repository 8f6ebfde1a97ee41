//! What holds for every value, every text and every way to cut it.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::rules::scrub::{Found, Instead, Matcher, Scrub, Starts};

/// Values of the sort that is sealed, and of the sort that makes trouble.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[A-Za-z0-9_-]{12,40}",
        "[ -~]{12,24}",
        "[a%\\\\+/ \"é😀\n]{12,16}",
        "(ab){6,10}a?",
    ]
}

/// How one byte or character is spelled.
fn spelled(character: char, how: u8) -> String {
    let mut buffer = [0; 4];
    let bytes = character.encode_utf8(&mut buffer).as_bytes();
    let percent = |mark: &str| -> String {
        bytes
            .iter()
            .map(|byte| format!("{mark}{byte:02x}"))
            .collect()
    };
    let units = |mark: &str| -> String {
        let mut units = [0; 2];
        let units = character.encode_utf16(&mut units);
        units
            .iter()
            .map(|unit| format!("{mark}u{unit:04X}"))
            .collect()
    };
    match how {
        0 => percent("%"),
        1 => percent("%").to_uppercase(),
        2 => percent("%25"),
        3 => units("\\"),
        4 => units("\\\\"),
        5 => serde_json::Value::from(character.to_string())
            .to_string()
            .trim_matches('"')
            .to_owned(),
        6 if character == ' ' => "+".to_owned(),
        7 if character == '/' => "\\/".to_owned(),
        _ => character.to_string(),
    }
}

/// A value with each of its characters spelled in a way of its own.
fn spelling(value: &str, ways: &[u8]) -> String {
    let ways = ways.iter().copied().cycle();
    // A quote cut off by the trimming above is spelled as it is.
    value
        .chars()
        .zip(ways)
        .map(|(character, how)| match spelled(character, how) {
            text if text.is_empty() || text == "\\" => character.to_string(),
            text => text,
        })
        .collect()
}

fn cut(text: &[u8], cuts: &[Index]) -> Vec<Bytes> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    places.extend([0, text.len()]);
    places.sort_unstable();
    let pairs = places.windows(2);
    pairs
        .map(|pair| Bytes::copy_from_slice(&text[pair[0]..pair[1]]))
        .collect()
}

fn through(matcher: &Arc<Matcher>, instead: &Instead, pieces: Vec<Bytes>) -> Vec<u8> {
    let mut scrub = Scrub::new(matcher.clone(), instead.clone());
    let mut out: Vec<u8> = Vec::new();
    for piece in pieces {
        out.extend_from_slice(&scrub.push(piece));
    }
    out.extend_from_slice(&scrub.finish());
    out
}

/// Texts made of what forms are made of, so that much of it nearly matches.
fn near(value: &str) -> impl Strategy<Value = Vec<u8>> + use<> {
    let forms = [
        value.to_owned(),
        spelling(value, &[0, 9]),
        spelling(value, &[3, 9, 2]),
        spelling(value, &[4, 5]),
        STANDARD.encode(value),
        URL_SAFE.encode(format!("u{value}")),
        STANDARD.encode(format!("us{value}")),
    ];
    let part =
        (0..forms.len(), any::<Index>(), any::<Index>()).prop_map(move |(form, from, to)| {
            let form = forms[form].as_bytes();
            let (from, to) = (from.index(form.len() + 1), to.index(form.len() + 1));
            form[from.min(to)..from.max(to)].to_vec()
        });
    let noise = prop::sample::select(vec![
        "%", "%25", "%2", "\\", "\\\\", "\\u", "\\u00", "\n\n", "+", "\"", " ", "é",
    ]);
    let whole = value.as_bytes().to_vec();
    let piece = prop_oneof![
        4 => part,
        2 => noise.prop_map(|noise| noise.as_bytes().to_vec()),
        1 => Just(whole),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn value_and_text() -> impl Strategy<Value = (String, Vec<u8>)> {
    value().prop_flat_map(|value| {
        let text = near(&value);
        (Just(value), text)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_goes_out_depends_on_no_cut(
        (value, text) in value_and_text(),
        cuts in prop::collection::vec(any::<Index>(), 0..12),
        stars: bool,
    ) {
        let matcher = Arc::new(Matcher::new(value.as_bytes()).unwrap());
        let instead = if stars { Instead::Stars } else { Instead::text(b"<TOKEN>") };
        let whole = through(&matcher, &instead, vec![Bytes::copy_from_slice(&text)]);
        prop_assert_eq!(&through(&matcher, &instead, cut(&text, &cuts)), &whole);
        let single = text.chunks(1).map(Bytes::copy_from_slice).collect();
        prop_assert_eq!(&through(&matcher, &instead, single), &whole);
        if stars {
            prop_assert_eq!(whole.len(), text.len());
        } else {
            let replaced = matcher.replace(&text, b"<TOKEN>").unwrap_or(text);
            prop_assert_eq!(replaced, whole);
        }
    }

    #[test]
    fn short_texts_and_long_ones_are_searched_alike((value, text) in value_and_text()) {
        let matcher = Matcher::new(value.as_bytes()).unwrap();
        let compiled = Starts::of(&matcher.needles);
        prop_assert!(!matches!(compiled, Starts::Walk));
        let found = [&compiled, &Starts::Walk].map(|starts| {
            let mut found = Found::default();
            matcher.plain(starts, &text, &mut found);
            (found.ranges, found.open)
        });
        prop_assert_eq!(&found[0], &found[1]);
    }

    #[test]
    fn nothing_leaks_at_any_cut(
        value in value(),
        ways in prop::collection::vec(0..10_u8, 1..8),
        before in "[ -~é\n]{0,12}",
        after in "[ -~é\n]{0,12}",
        cuts in prop::collection::vec(any::<Index>(), 0..6),
    ) {
        let matcher = Arc::new(Matcher::new(value.as_bytes()).unwrap());
        let within = format!("{before}{value}{after}");
        for text in [
            format!("{before}{}{after}", spelling(&value, &ways)),
            STANDARD.encode(&within),
            URL_SAFE.encode(&within),
            spelling(&STANDARD.encode(&within), &ways),
        ] {
            let out = through(&matcher, &Instead::text(b"\x01"), cut(text.as_bytes(), &cuts));
            prop_assert!(out.contains(&1), "{} was not found", text);
            prop_assert!(!matcher.finds(&out), "{:?} in {}", String::from_utf8_lossy(&out), text);
            prop_assert!(memchr::memmem::find(&out, value.as_bytes()).is_none());
        }
    }

    #[test]
    fn nothing_else_changes(
        value in value(),
        ways in prop::collection::vec(0..10_u8, 1..8),
        between in prop::collection::vec("[ -~é\n]{0,20}", 1..5),
        cuts in prop::collection::vec(any::<Index>(), 0..6),
    ) {
        let matcher = Arc::new(Matcher::new(value.as_bytes()).unwrap());
        prop_assume!(between.iter().all(|text| !matcher.finds(text.as_bytes())));
        // A byte that is part of no form keeps a form from reaching further.
        let spelled = format!("\x01{}\x01", spelling(&value, &ways));
        let text = between.join(&spelled);
        let expected = between.join("\x01<TOKEN>\x01");
        let out = through(&matcher, &Instead::text(b"<TOKEN>"), cut(text.as_bytes(), &cuts));
        prop_assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
