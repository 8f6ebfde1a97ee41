//! The scrubber: any value, any text, cut anywhere. What comes out does not
//! depend on the cuts, holds the value nowhere, and is otherwise what went in.

#![no_main]

use std::sync::Arc;

use bytes::Bytes;
use jackfield::rules::scrub::{Instead, Matcher, Scrub};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Input {
    value: Vec<u8>,
    pieces: Vec<Piece>,
    cuts: Vec<u16>,
}

/// A fuzzer would wait for long to guess a value: it is told to put one in.
#[derive(Debug, Arbitrary)]
enum Piece {
    Bytes(Vec<u8>),
    Value,
    /// All but the last bytes of it.
    Beginning(u8),
    Percent,
    Base64(Vec<u8>),
}

fuzz_target!(|input: Input| {
    let value = &input.value;
    if value.len() < 12 || value.len() > 256 {
        return;
    }
    let Some(matcher) = Matcher::new(value).map(Arc::new) else {
        return;
    };
    let text = text(&input);
    let whole = scrubbed(&matcher, Instead::Stars, [text.as_slice()]);
    assert_eq!(whole.len(), text.len(), "lengths stay true");
    if !matcher.finds(&text) {
        assert_eq!(whole, text, "nothing else changes");
    }
    if !value.contains(&b'*') {
        assert!(!holds(&whole, value), "the value is still there");
    }
    let cut = scrubbed(&matcher, Instead::Stars, pieces(&text, &input.cuts));
    assert_eq!(cut, whole, "what comes out depends on the cuts");

    let told = Instead::text(b"jft_0000");
    let whole = scrubbed(&matcher, told.clone(), [text.as_slice()]);
    let cut = scrubbed(&matcher, told, pieces(&text, &input.cuts));
    assert_eq!(cut, whole, "what comes out depends on the cuts");
    let replaced = matcher.replace(&text, b"jft_0000");
    assert_eq!(
        replaced.unwrap_or(text),
        whole,
        "a stream is scrubbed as a header is"
    );
});

fn text(input: &Input) -> Vec<u8> {
    let value = &input.value;
    let mut text = Vec::new();
    for piece in input.pieces.iter().take(32) {
        match piece {
            Piece::Bytes(bytes) => text.extend(bytes.iter().take(512)),
            Piece::Value => text.extend(value),
            Piece::Beginning(less) => {
                let kept = value.len().saturating_sub(usize::from(*less).max(1));
                text.extend(&value[..kept]);
            }
            Piece::Percent => {
                text.extend(
                    value
                        .iter()
                        .flat_map(|byte| format!("%{byte:02x}").into_bytes()),
                );
            }
            Piece::Base64(before) => {
                let before = &before[..before.len().min(16)];
                text.extend(base64(&[before, value].concat()));
            }
        }
    }
    text
}

fn scrubbed<'a>(
    matcher: &Arc<Matcher>,
    instead: Instead,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut scrub = Scrub::new(Arc::clone(matcher), instead);
    let mut out = Vec::new();
    for piece in pieces {
        out.extend(scrub.push(Bytes::copy_from_slice(piece)));
    }
    out.extend(scrub.finish());
    out
}

fn pieces<'a>(text: &'a [u8], cuts: &[u16]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts
        .iter()
        .take(64)
        .map(|cut| usize::from(*cut) % (text.len() + 1))
        .collect();
    places.extend([0, text.len()]);
    places.sort_unstable();
    places
        .windows(2)
        .map(|pair| &text[pair[0]..pair[1]])
        .collect()
}

fn holds(text: &[u8], value: &[u8]) -> bool {
    text.windows(value.len()).any(|window| window == value)
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = Vec::new();
    for group in bytes.chunks(3) {
        let number = group
            .iter()
            .chain([0, 0].iter().take(3 - group.len()))
            .fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        for digit in 0..=group.len() {
            text.push(DIGITS[(number >> (18 - 6 * digit)) as usize & 63]);
        }
    }
    text
}
