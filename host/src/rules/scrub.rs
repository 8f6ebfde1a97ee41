//! Finding values that must not be seen, in any of the forms that they take on
//! their way: raw, percent-encoded, base64 at its three alignments,
//! JSON-escaped. What a match becomes, the caller says. It knows no header and
//! no connection.
//!
//! In reading order: `needle` is one form and how its bytes may be spelled,
//! `spelling` the spellings, [`Matcher`] finds where forms stand, and
//! [`Scrub`] takes them out of what comes in pieces. Where a form stands
//! depends on nothing before it, so it is found the same however a text is cut.

mod needle;
mod spelling;
mod stream;
#[cfg(test)]
mod tests;
mod text;

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use aho_corasick::packed::{Config, MatchKind, Searcher};
use aho_corasick::{AhoCorasick, Span};

use crate::rules::scrub::needle::{ByteSet, Needle};
use crate::rules::token::BoxToken;

pub use crate::rules::scrub::stream::{Instead, Scrub};
pub use crate::rules::scrub::text::{find_maybe_encoded, percent_decoded, percent_encoded, splice};

/// How much is searched before the beginnings of forms are compiled: what
/// searches less, such as a head's fields, has walked through it by then.
const COMPILE_FROM: usize = 2048;

/// How long a text is that is not faster walked through in any case.
const WALK_BELOW: usize = 64;

/// Finds values in all their forms. No `Debug`: it holds the values.
pub struct Matcher {
    needles: Vec<Needle>,
    first: ByteSet,
    second: ByteSet,
    compiled: OnceLock<Starts>,
    /// How much was walked through so far.
    walked: AtomicUsize,
    /// Which bytes stand in any form.
    bytes: ByteSet,
    /// How long the shortest form is; no spelling of one is shorter.
    shortest: usize,
    /// Whether `+` may stand for a byte of a form: for a space.
    spaced: bool,
}

/// Finds where a form may begin that is spelled as it is.
enum Starts {
    Packed(Searcher),
    Automaton(AhoCorasick),
    /// Neither could be made.
    Walk,
}

/// Where forms stand in a text.
#[derive(Default)]
struct Found {
    /// In order of their beginnings; they may overlap.
    ranges: Vec<Range<usize>>,
    /// Where the first form begins that the text breaks off.
    open: Option<usize>,
}

impl Matcher {
    /// Compiles the forms of a value; none when there is nothing to look for.
    #[must_use]
    pub fn new(value: &[u8]) -> Option<Self> {
        Self::of(&[value])
    }

    /// Compiles the forms of a box's token.
    #[must_use]
    pub fn of_token(token: &BoxToken) -> Self {
        Self::made_of(Needle::forms(token.as_str().as_bytes()))
    }

    /// Compiles the forms of several values; none when there is nothing to
    /// look for.
    #[must_use]
    pub fn of(values: &[&[u8]]) -> Option<Self> {
        let forms = values.iter().flat_map(|value| Needle::forms(value));
        let needles: Vec<Needle> = forms.collect();
        (!needles.is_empty()).then(|| Self::made_of(needles))
    }

    fn made_of(needles: Vec<Needle>) -> Self {
        let (mut first, mut second) = (ByteSet::default(), ByteSet::default());
        let mut bytes = ByteSet::default();
        for needle in &needles {
            needle.add_to(&mut bytes);
            needle.add_beginning_to(&mut first, &mut second);
        }
        Self {
            spaced: bytes.holds(b' '),
            shortest: needles.iter().map(Needle::length).min().unwrap_or(0),
            bytes,
            first,
            second,
            needles,
            compiled: OnceLock::new(),
            walked: AtomicUsize::new(0),
        }
    }

    /// Whether a value stands in a text in any form.
    #[must_use]
    pub fn finds(&self, text: &[u8]) -> bool {
        text.len() >= self.shortest && !self.scan(text).ranges.is_empty()
    }

    /// The text with each match replaced; none when there is no match.
    #[must_use]
    pub fn replace(&self, text: &[u8], with: &[u8]) -> Option<Vec<u8>> {
        if text.len() < self.shortest {
            return None;
        }
        let ranges = merge(self.scan(text).ranges);
        (!ranges.is_empty()).then(|| splice(text, &ranges, with))
    }

    fn scan(&self, text: &[u8]) -> Found {
        let mut found = Found::default();
        self.plain(self.starts(text.len()), text, &mut found);
        self.escaped(text, &mut found);
        self.broken_off(text, &mut found);
        found.ranges.sort_by_key(|range| (range.start, range.end));
        found
    }

    /// How to look for the beginnings of forms in a text of this length.
    fn starts(&self, length: usize) -> &Starts {
        if length < WALK_BELOW {
            return &Starts::Walk;
        }
        if let Some(compiled) = self.compiled.get() {
            return compiled;
        }
        let walked = self.walked.fetch_add(length, Ordering::Relaxed);
        if walked.saturating_add(length) < COMPILE_FROM {
            return &Starts::Walk;
        }
        self.compiled.get_or_init(|| Starts::of(&self.needles))
    }

    /// Forms that are spelled as they are from their beginning on.
    fn plain(&self, starts: &Starts, text: &[u8], found: &mut Found) {
        let mut from = 0;
        while let Some(start) = self.next_start(starts, text, from) {
            for needle in &self.needles {
                if needle.begins(text, start) {
                    found.take(needle, text, start);
                }
            }
            from = start + 1;
        }
    }

    /// The next place where a form may begin.
    fn next_start(&self, starts: &Starts, text: &[u8], from: usize) -> Option<usize> {
        if from >= text.len() {
            return None;
        }
        let span = Span {
            start: from,
            end: text.len(),
        };
        match starts {
            Starts::Packed(searcher) => searcher.find_in(text, span).map(|found| found.start()),
            Starts::Automaton(automaton) => automaton
                .find(aho_corasick::Input::new(text).span(span))
                .map(|found| found.start()),
            Starts::Walk => {
                let rest = text.get(from..)?;
                let begins = |pair: &[u8]| match pair {
                    [first, second] => self.first.holds(*first) && self.second.holds(*second),
                    _ => false,
                };
                let ends = || rest.last().filter(|last| self.first.holds(**last));
                let place = rest.windows(2).position(begins);
                let place = place.or_else(|| ends().map(|_| rest.len() - 1));
                place.map(|place| from + place)
            }
        }
    }

    /// Forms with an escape in them: each is found by its first one, before
    /// which it is spelled as it is.
    fn escaped(&self, text: &[u8], found: &mut Found) {
        if self.spaced {
            for at in memchr::memchr3_iter(b'%', b'\\', b'+', text) {
                self.escaped_at(text, at, found);
            }
        } else {
            for at in memchr::memchr2_iter(b'%', b'\\', text) {
                self.escaped_at(text, at, found);
            }
        }
    }

    fn escaped_at(&self, text: &[u8], at: usize, found: &mut Found) {
        let rest = text.get(at..).unwrap_or_default();
        // The common case, such as `\n` or `\"`, in a few instructions.
        if let [b'\\', mark, ..] = rest
            && spelling::ends_escape(*mark)
            && spelling::unescaped(*mark).is_none_or(|byte| !self.bytes.holds(byte))
        {
            return;
        }
        let broken_off = spelling::meanings(rest, |byte| {
            // Most escapes are of bytes that no form holds.
            if !self.bytes.holds(byte) {
                return;
            }
            for needle in self.needles.iter().filter(|needle| needle.holds(byte)) {
                for offset in needle.offsets_of(byte) {
                    if needle.stands_before(text, at, offset) {
                        found.take(needle, text, at - offset);
                    }
                }
            }
        });
        if broken_off {
            for needle in &self.needles {
                for offset in needle.offsets_before(text, at) {
                    found.take(needle, text, at - offset);
                }
            }
        }
    }

    /// Forms that are spelled as they are until the text breaks them off.
    fn broken_off(&self, text: &[u8], found: &mut Found) {
        for needle in &self.needles {
            if let Some(length) = needle.longest_before(text, text.len()) {
                found.breaks_off(text.len() - length);
            }
        }
    }
}

impl Starts {
    fn of(needles: &[Needle]) -> Self {
        let mut beginnings: Vec<Vec<u8>> = Vec::with_capacity(2 * needles.len());
        for beginning in needles.iter().flat_map(Needle::beginnings) {
            if !beginnings.contains(&beginning) {
                beginnings.push(beginning);
            }
        }
        let packed = Config::new()
            .match_kind(MatchKind::LeftmostFirst)
            .builder()
            .extend(&beginnings)
            .build();
        match packed {
            Some(searcher) => Self::Packed(searcher),
            None => AhoCorasick::new(&beginnings).map_or(Self::Walk, Self::Automaton),
        }
    }
}

impl Found {
    /// Follows a form from where it may begin.
    fn take(&mut self, needle: &Needle, text: &[u8], start: usize) {
        let reach = needle.follow(text, start);
        if let Some(end) = reach.end {
            self.ranges.push(start..end);
        }
        if reach.open {
            self.breaks_off(start);
        }
    }

    fn breaks_off(&mut self, start: usize) {
        self.open = Some(self.open.map_or(start, |open| open.min(start)));
    }
}

/// Makes one range of those that overlap; they are in order.
fn merge(ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            Some(_) | None => merged.push(range),
        }
    }
    merged
}
