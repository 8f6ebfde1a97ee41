//! Texts with some of their bytes percent-encoded: undoing and making that,
//! and replacing stretches of them.

use std::borrow::Cow;
use std::ops::Range;

/// Replaces ranges that are in order and do not overlap.
#[must_use]
pub fn splice(text: &[u8], ranges: &[Range<usize>], with: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for range in ranges {
        out.extend_from_slice(text.get(at..range.start).unwrap_or_default());
        out.extend_from_slice(with);
        at = range.end;
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    out
}

/// Percent-encodes all but letters, digits and `kept`.
#[must_use]
pub fn percent_encoded(value: &[u8], kept: &[u8], upper: bool) -> Vec<u8> {
    let digits: &[u8; 16] = if upper {
        b"0123456789ABCDEF"
    } else {
        b"0123456789abcdef"
    };
    let digit = |nibble: u8| digits.get(usize::from(nibble)).copied().unwrap_or(b'0');
    let mut out = Vec::with_capacity(value.len());
    for byte in value {
        if byte.is_ascii_alphanumeric() || kept.contains(byte) {
            out.push(*byte);
        } else {
            out.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    out
}

/// Where `needle` stands in a text, raw or with some of its bytes
/// percent-encoded, in order.
#[must_use]
pub fn find_maybe_encoded(text: &[u8], needle: &[u8]) -> Vec<Range<usize>> {
    let (decoded, starts) = decoded(text);
    let source = |at: usize| starts.get(at).copied().unwrap_or(text.len());
    memchr::memmem::find_iter(&decoded, needle)
        .map(|start| source(start)..source(start + needle.len()))
        .collect()
}

/// A text with its percent-encoding undone once.
#[must_use]
pub fn percent_decoded(text: &[u8]) -> Cow<'_, [u8]> {
    match memchr::memchr(b'%', text) {
        Some(_) => Cow::Owned(decoded(text).0),
        None => Cow::Borrowed(text),
    }
}

/// A text with its percent-encoding undone, and where each byte of it began.
fn decoded(text: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let mut plain = Vec::with_capacity(text.len());
    let mut starts = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let pair =
            (*byte == b'%').then(|| Some((hex(text.get(at + 1)?)?, hex(text.get(at + 2)?)?)));
        starts.push(at);
        if let Some(Some((high, low))) = pair {
            plain.push(high << 4 | low);
            at += 3;
        } else {
            plain.push(*byte);
            at += 1;
        }
    }
    (plain, starts)
}

fn hex(digit: &u8) -> Option<u8> {
    let value = char::from(*digit).to_digit(16)?;
    u8::try_from(value).ok()
}
