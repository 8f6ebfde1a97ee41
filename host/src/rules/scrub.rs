//! Finding a value that must not be seen, in any of the forms that it takes on
//! its way: raw, percent-encoded, base64 at its three alignments, JSON-escaped.
//! What a match becomes, the caller says. It knows no header and no stream.

use std::borrow::Cow;
use std::ops::Range;

use aho_corasick::packed::{Config, MatchKind, Searcher};
use aho_corasick::{AhoCorasick, AhoCorasickBuilder};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

/// Forms that are shorter than this would match by chance.
const SHORTEST_FORM: usize = 4;

/// Finds one value in all its forms. No `Debug`: it holds the value.
pub struct Matcher {
    search: Search,
}

enum Search {
    Packed(Box<Searcher>),
    Automaton(AhoCorasick),
}

impl Matcher {
    /// Compiles the forms of a value; none when there is nothing to look for.
    #[must_use]
    pub fn new(value: &[u8]) -> Option<Self> {
        let forms = forms(value);
        if forms.is_empty() {
            return None;
        }
        let packed = Config::new()
            .match_kind(MatchKind::LeftmostLongest)
            .builder()
            .extend(&forms)
            .build();
        let search = match packed {
            Some(searcher) => Search::Packed(Box::new(searcher)),
            None => Search::Automaton(
                AhoCorasickBuilder::new()
                    .match_kind(aho_corasick::MatchKind::LeftmostLongest)
                    .build(&forms)
                    .ok()?,
            ),
        };
        Some(Self { search })
    }

    /// Whether the value stands in a text in any form.
    #[must_use]
    pub fn finds(&self, text: &[u8]) -> bool {
        !self.ranges(text).is_empty()
    }

    /// The text with each match replaced; none when there is no match.
    #[must_use]
    pub fn replace(&self, text: &[u8], with: &[u8]) -> Option<Vec<u8>> {
        let ranges = self.ranges(text);
        (!ranges.is_empty()).then(|| splice(text, &ranges, with))
    }

    /// Where the value stands, in order and without overlap. A text is also
    /// read with its escapes undone, since which bytes somebody chose to
    /// escape cannot be known.
    fn ranges(&self, text: &[u8]) -> Vec<Range<usize>> {
        let mut found = self.direct(text);
        let mut level = Unescaped::plain(text);
        for _ in 0..2 {
            let Some(next) = level.percent_decoded() else {
                break;
            };
            found.extend(
                self.direct(&next.text)
                    .into_iter()
                    .map(|at| next.source(at)),
            );
            level = next;
        }
        if let Some(plain) = Unescaped::plain(text).json_decoded() {
            found.extend(
                self.direct(&plain.text)
                    .into_iter()
                    .map(|at| plain.source(at)),
            );
        }
        merge(found)
    }

    fn direct(&self, text: &[u8]) -> Vec<Range<usize>> {
        match &self.search {
            Search::Packed(searcher) => searcher
                .find_iter(text)
                .map(|found| found.start()..found.end())
                .collect(),
            Search::Automaton(automaton) => automaton
                .find_iter(text)
                .map(|found| found.start()..found.end())
                .collect(),
        }
    }
}

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

fn merge(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            Some(_) | None => merged.push(range),
        }
    }
    merged
}

/// Every form of a value that is searched for.
fn forms(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms: Vec<Vec<u8>> = Vec::new();
    let mut add = |form: Vec<u8>| {
        if !form.is_empty() && !forms.contains(&form) {
            forms.push(form);
        }
    };
    add(value.to_vec());
    // What encodeURIComponent, RFC 3986, HTML forms and encodeURI leave alone.
    for kept in [
        &b"-_.!~*'()"[..],
        b"-_.~",
        b"-_.*",
        b"-_.~/",
        b"-_.!~*'();,/?:@&=+$#",
    ] {
        for upper in [true, false] {
            add(percent_encoded(value, kept, upper));
            if value.contains(&b' ') {
                let plus = percent_encoded(value, &[kept, b" "].concat(), upper);
                add(plus
                    .iter()
                    .map(|b| if *b == b' ' { b'+' } else { *b })
                    .collect());
            }
        }
    }
    for engine in [STANDARD, URL_SAFE] {
        for alignment in 0..3 {
            let form = base64_core(value, alignment, &engine);
            if form.len() >= SHORTEST_FORM {
                add(form);
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(value) {
        let quoted = serde_json::Value::from(text).to_string();
        let inner = quoted.get(1..quoted.len() - 1).unwrap_or_default();
        add(inner.as_bytes().to_vec());
        add(inner.replace('/', "\\/").into_bytes());
    }
    forms
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

/// The characters that a value is sure to become inside a longer base64 text,
/// when it starts `alignment` bytes after a group of three.
fn base64_core(value: &[u8], alignment: usize, engine: &impl Engine) -> Vec<u8> {
    let padded = [vec![0; alignment], value.to_vec()].concat();
    let encoded = engine.encode(&padded).into_bytes();
    let first = (alignment * 8).div_ceil(6);
    let last = padded.len() * 8 / 6;
    encoded.get(first..last).unwrap_or_default().to_vec()
}

/// A text with its escapes undone, and where each byte of it came from.
struct Unescaped<'a> {
    text: Cow<'a, [u8]>,
    /// Where each byte begins in the original, and where the text ends there;
    /// empty when nothing was undone.
    starts: Vec<usize>,
}

impl<'a> Unescaped<'a> {
    fn plain(text: &'a [u8]) -> Self {
        Self {
            text: Cow::Borrowed(text),
            starts: Vec::new(),
        }
    }

    fn start(&self, index: usize) -> usize {
        if self.starts.is_empty() {
            return index;
        }
        let end = self.starts.last().copied().unwrap_or_default();
        self.starts.get(index).copied().unwrap_or(end)
    }

    fn source(&self, range: Range<usize>) -> Range<usize> {
        self.start(range.start)..self.start(range.end)
    }

    fn percent_decoded(&self) -> Option<Unescaped<'static>> {
        self.undone(b'%', |rest| {
            let [high, low] = rest.get(1..3)?.try_into().ok()?;
            Some((vec![hex(high)? << 4 | hex(low)?], 3))
        })
    }

    fn json_decoded(&self) -> Option<Unescaped<'static>> {
        self.undone(b'\\', |rest| {
            let plain = match rest.get(1)? {
                b'b' => 8,
                b'f' => 12,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'u' => {
                    let digits = std::str::from_utf8(rest.get(2..6)?).ok()?;
                    let code = u32::from_str_radix(digits, 16).ok()?;
                    let mut buffer = [0; 4];
                    let text = char::from_u32(code)?.encode_utf8(&mut buffer);
                    return Some((text.as_bytes().to_vec(), 6));
                }
                other => *other,
            };
            Some((vec![plain], 2))
        })
    }

    /// Undoes the escapes that begin with `mark`; none when there are none.
    fn undone(
        &self,
        mark: u8,
        undo: impl Fn(&[u8]) -> Option<(Vec<u8>, usize)>,
    ) -> Option<Unescaped<'static>> {
        memchr::memchr(mark, &self.text)?;
        let mut text = Vec::with_capacity(self.text.len());
        let mut starts = Vec::with_capacity(self.text.len() + 1);
        let mut at = 0;
        while let Some(rest) = self.text.get(at..).filter(|rest| !rest.is_empty()) {
            let byte = rest.first().copied().unwrap_or_default();
            let (bytes, length) = Some(rest)
                .filter(|_| byte == mark)
                .and_then(&undo)
                .unwrap_or_else(|| (vec![byte], 1));
            for plain in bytes {
                text.push(plain);
                starts.push(self.start(at));
            }
            at += length;
        }
        starts.push(self.start(at));
        Some(Unescaped {
            text: Cow::Owned(text),
            starts,
        })
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
}

/// Where `needle` stands in a text, raw or with some of its bytes
/// percent-encoded, in order.
#[must_use]
pub fn find_maybe_encoded(text: &[u8], needle: &[u8]) -> Vec<Range<usize>> {
    let plain = Unescaped::plain(text);
    let decoded = plain.percent_decoded();
    let searched = decoded.as_ref().unwrap_or(&plain);
    memchr::memmem::find_iter(&searched.text, needle)
        .map(|start| searched.source(start..start + needle.len()))
        .collect()
}

/// A text with its percent-encoding undone once.
#[must_use]
pub fn percent_decoded(text: &[u8]) -> Cow<'_, [u8]> {
    match Unescaped::plain(text).percent_decoded() {
        Some(decoded) => decoded.text,
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

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
}
