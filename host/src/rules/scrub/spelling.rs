//! The ways in which a byte is spelled: as it is, percent-encoded once or
//! twice, `+` for a space, escaped as JSON is, once or inside a string of
//! JSON. A character beyond ASCII may also be escaped as a whole.

use crate::rules::scrub::needle::Alphabet;

/// How many backslashes an escape may have: one in JSON, two or three where
/// that JSON is a string of JSON again.
const BACKSLASHES: usize = 3;

/// What follows an escape's mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digits {
    /// Not what should stand there.
    Wrong,
    /// The text ends after these digits.
    BrokenOff { digits: u32, count: usize },
    /// The whole number.
    Number(u32),
}

/// Tells each byte that the escape at a text's beginning may stand for, or
/// that the character begins with. Whether the text ends within it.
pub(super) fn meanings(text: &[u8], mut tell: impl FnMut(u8)) -> bool {
    match text.first() {
        Some(b'+') => tell(b' '),
        Some(b'%') => match (digits::<2>(text, 1), digits::<2>(text, 3)) {
            (Digits::Wrong, _) => {}
            (Digits::BrokenOff { .. }, _) => return true,
            (Digits::Number(0x25), Digits::BrokenOff { .. }) => return true,
            (Digits::Number(0x25), Digits::Number(byte)) => {
                tell(b'%');
                tell(low(byte));
            }
            (Digits::Number(byte), _) => tell(low(byte)),
        },
        Some(b'\\') => {
            let run = backslashes(text);
            let Some(mark) = text.get(run) else {
                return true;
            };
            if run > 1 {
                tell(b'\\');
            }
            if run > BACKSLASHES {
                return false;
            }
            if *mark != b'u' {
                unescaped(*mark).map(tell);
                return false;
            }
            match digits::<4>(text, run + 1) {
                Digits::Wrong => {}
                Digits::BrokenOff { .. } => return true,
                Digits::Number(code) => beginnings(code, tell),
            }
        }
        Some(_) | None => {}
    }
    false
}

/// The bytes that are spelled together: a character where it is one, else a
/// byte.
pub(super) fn unit(text: &[u8]) -> &[u8] {
    let length = (1..=4).find(|length| {
        let bytes = text.get(..*length);
        bytes.is_some_and(|bytes| std::str::from_utf8(bytes).is_ok())
    });
    text.get(..length.unwrap_or(1)).unwrap_or(text)
}

/// Follows a unit from a place: adds where it may end, and says whether the
/// text breaks off before one of its spellings is whole.
pub(super) fn follow(
    unit: &[u8],
    alphabet: Alphabet,
    text: &[u8],
    start: usize,
    ends: &mut Vec<usize>,
) -> bool {
    if let [byte] = unit {
        return follow_byte(*byte, alphabet, text, start, ends);
    }
    let mut open = false;
    let mut places = vec![start];
    for byte in unit {
        let mut next = Vec::new();
        for place in places {
            open |= follow_byte(*byte, alphabet, text, place, &mut next);
        }
        places = next;
    }
    ends.extend(places);
    open | follow_character(unit, text, start, ends)
}

fn follow_byte(
    byte: u8,
    alphabet: Alphabet,
    text: &[u8],
    at: usize,
    ends: &mut Vec<usize>,
) -> bool {
    let is = |other: u8| alphabet.normal(other) == byte;
    let rest = text.get(at..).unwrap_or_default();
    let Some(first) = rest.first() else {
        return true;
    };
    if is(*first) || (*first == b'+' && byte == b' ') {
        ends.push(at + 1);
    }
    match first {
        b'%' => follow_percent(is, rest, at, ends),
        b'\\' => follow_backslash(is, rest, at, ends),
        _ => false,
    }
}

fn follow_percent(is: impl Fn(u8) -> bool, rest: &[u8], at: usize, ends: &mut Vec<usize>) -> bool {
    let may_become = |digits: u32, count: usize| match count {
        0 => true,
        _ => (0..16).any(|last| is(low(digits << 4 | last))),
    };
    match digits::<2>(rest, 1) {
        Digits::Wrong => false,
        // `%2` may become `%25`, which a second pair follows.
        Digits::BrokenOff { digits, count } => digits == 2 || may_become(digits, count),
        Digits::Number(byte) => {
            if is(low(byte)) {
                ends.push(at + 3);
            }
            if byte != 0x25 {
                return false;
            }
            match digits::<2>(rest, 3) {
                Digits::Wrong => false,
                Digits::BrokenOff { digits, count } => may_become(digits, count),
                Digits::Number(byte) => {
                    if is(low(byte)) {
                        ends.push(at + 5);
                    }
                    false
                }
            }
        }
    }
}

fn follow_backslash(
    is: impl Fn(u8) -> bool,
    rest: &[u8],
    at: usize,
    ends: &mut Vec<usize>,
) -> bool {
    let run = backslashes(rest);
    let mut open = false;
    if is(b'\\') {
        // One backslash is two in JSON, and four in a string of JSON.
        for length in [2, 4] {
            if run >= length {
                ends.push(at + length);
            } else if run == rest.len() {
                open = true;
            }
        }
    }
    if run > BACKSLASHES {
        return open;
    }
    let Some(mark) = rest.get(run) else {
        return true;
    };
    if *mark != b'u' {
        if unescaped(*mark).is_some_and(is) {
            ends.push(at + run + 1);
        }
        return open;
    }
    match digits::<4>(rest, run + 1) {
        Digits::Wrong => open,
        Digits::BrokenOff { digits, count } => {
            let shift = 4 * (4 - count);
            open | (0..=255).any(|byte: u8| is(byte) && u32::from(byte) >> shift == digits)
        }
        Digits::Number(code) => {
            if u8::try_from(code).is_ok_and(is) {
                ends.push(at + run + 5);
            }
            open
        }
    }
}

/// A character beyond ASCII that is escaped as a whole, in one or two units
/// of UTF-16.
fn follow_character(unit: &[u8], text: &[u8], start: usize, ends: &mut Vec<usize>) -> bool {
    let Ok(character) = std::str::from_utf8(unit) else {
        return false;
    };
    let mut at = start;
    for code in character.encode_utf16() {
        let rest = text.get(at..).unwrap_or_default();
        let run = backslashes(rest);
        if run == rest.len() && run <= BACKSLASHES {
            return true;
        }
        if run == 0 || run > BACKSLASHES || rest.get(run) != Some(&b'u') {
            return false;
        }
        match digits::<4>(rest, run + 1) {
            Digits::Wrong => return false,
            Digits::BrokenOff { digits, count } => {
                return u32::from(code) >> (4 * (4 - count)) == digits;
            }
            Digits::Number(number) if number == u32::from(code) => at += run + 5,
            Digits::Number(_) => return false,
        }
    }
    ends.push(at);
    false
}

/// How many backslashes a text begins with, as far as it matters.
fn backslashes(text: &[u8]) -> usize {
    let most = text.iter().take(BACKSLASHES + 2);
    most.take_while(|byte| **byte == b'\\').count()
}

/// Whether a byte behind a backslash makes the escape whole.
pub(super) fn ends_escape(mark: u8) -> bool {
    mark != b'\\' && mark != b'u'
}

/// What stands behind one backslash for something else.
pub(super) fn unescaped(mark: u8) -> Option<u8> {
    match mark {
        b'b' => Some(8),
        b'f' => Some(12),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        mark => mark.is_ascii_punctuation().then_some(mark),
    }
}

/// The bytes that begin what a unit of UTF-16 stands for: itself where it is
/// one byte, and the first of its UTF-8.
fn beginnings(code: u32, mut tell: impl FnMut(u8)) {
    if let Ok(byte) = u8::try_from(code) {
        tell(byte);
    }
    match char::from_u32(code) {
        Some(character) => {
            let mut buffer = [0; 4];
            let encoded = character.encode_utf8(&mut buffer);
            encoded.bytes().take(1).for_each(tell);
        }
        // Half of a character beyond 0xFFFF.
        None => (0xF0..=0xF4).for_each(tell),
    }
}

/// Reads so many hexadecimal digits at a place.
fn digits<const COUNT: usize>(text: &[u8], at: usize) -> Digits {
    let mut number = 0;
    for count in 0..COUNT {
        let Some(byte) = text.get(at + count) else {
            return Digits::BrokenOff {
                digits: number,
                count,
            };
        };
        let Some(digit) = char::from(*byte).to_digit(16) else {
            return Digits::Wrong;
        };
        number = number << 4 | digit;
    }
    Digits::Number(number)
}

/// A number of two digits as a byte.
fn low(number: u32) -> u8 {
    u8::try_from(number & 0xFF).unwrap_or_default()
}
