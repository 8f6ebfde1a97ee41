//! One form of a value, and whether it stands at a place. It searches nothing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::rules::scrub::spelling;

/// Base64 that is shorter than this would match by chance.
const SHORTEST_BASE64: usize = 4;

/// How much of a form its beginning is.
const BEGINNING: usize = 8;

/// A form of a value.
pub(super) struct Needle {
    text: Zeroizing<Vec<u8>>,
    alphabet: Alphabet,
    /// Which bytes stand in it.
    bytes: ByteSet,
}

/// A set of bytes, a bit for each.
#[derive(Default, Clone, Copy)]
pub(super) struct ByteSet([u64; 4]);

/// Which bytes are the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// Each byte is itself.
    Plain,
    /// `-` is `+` and `_` is `/`.
    Base64,
}

/// How far a text follows a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach {
    /// Where it ends, if all of it is there.
    pub(super) end: Option<usize>,
    /// Whether the text breaks off before it knows.
    pub(super) open: bool,
}

impl ByteSet {
    /// Every byte.
    const ALL: Self = Self([u64::MAX; 4]);

    fn add(&mut self, byte: u8) {
        if let Some(word) = self.0.get_mut(usize::from(byte >> 6)) {
            *word |= 1 << (byte & 63);
        }
    }

    /// Whether a byte is in it.
    pub(super) fn holds(self, byte: u8) -> bool {
        let word = self.0.get(usize::from(byte >> 6));
        word.is_some_and(|word| word >> (byte & 63) & 1 == 1)
    }
}

impl Alphabet {
    /// A byte of a text as the alphabet spells it.
    pub(super) fn normal(self, byte: u8) -> u8 {
        match (self, byte) {
            (Self::Base64, b'-') => b'+',
            (Self::Base64, b'_') => b'/',
            (Self::Base64 | Self::Plain, byte) => byte,
        }
    }
}

impl Needle {
    /// A value's forms: itself, and base64 at its three alignments.
    pub(super) fn forms(value: &[u8]) -> Vec<Self> {
        let mut forms = Vec::with_capacity(4);
        if !value.is_empty() {
            forms.push(Self::new(value.to_vec(), Alphabet::Plain));
        }
        for alignment in 0..3 {
            let core = base64_core(value, alignment);
            if core.len() >= SHORTEST_BASE64 {
                forms.push(Self::new(core, Alphabet::Base64));
            }
        }
        forms
    }

    fn new(text: Vec<u8>, alphabet: Alphabet) -> Self {
        let mut bytes = ByteSet::default();
        text.iter().for_each(|byte| bytes.add(*byte));
        Self {
            text: Zeroizing::new(text),
            alphabet,
            bytes,
        }
    }

    /// How many bytes it has, spelled as it is.
    pub(super) fn length(&self) -> usize {
        self.text.len()
    }

    /// What it begins with, in each alphabet.
    pub(super) fn beginnings(&self) -> impl Iterator<Item = Vec<u8>> + use<> {
        let length = self.text.len().min(BEGINNING);
        let plain = self.text.get(..length).unwrap_or_default().to_vec();
        let other = (self.alphabet == Alphabet::Base64).then(|| {
            let url_safe = |byte: &u8| match byte {
                b'+' => b'-',
                b'/' => b'_',
                other => *other,
            };
            plain.iter().map(url_safe).collect()
        });
        std::iter::once(plain).chain(other)
    }

    /// Whether this byte stands in it.
    pub(super) fn holds(&self, byte: u8) -> bool {
        self.bytes.holds(self.alphabet.normal(byte))
    }

    /// Adds the bytes that it begins with to two sets: its first, and what
    /// follows it.
    pub(super) fn add_beginning_to(&self, first: &mut ByteSet, second: &mut ByteSet) {
        let spelled = |set: &mut ByteSet, byte: u8| {
            set.add(byte);
            match (self.alphabet, byte) {
                (Alphabet::Base64, b'+') => set.add(b'-'),
                (Alphabet::Base64, b'/') => set.add(b'_'),
                (Alphabet::Base64 | Alphabet::Plain, _) => {}
            }
        };
        if let Some(byte) = self.text.first() {
            spelled(first, *byte);
        }
        match self.text.get(1) {
            Some(byte) => spelled(second, *byte),
            None => *second = ByteSet::ALL,
        }
    }

    /// Adds the bytes that it may be spelled with to a set.
    pub(super) fn add_to(&self, set: &mut ByteSet) {
        for (word, own) in set.0.iter_mut().zip(self.bytes.0) {
            *word |= own;
        }
        if self.alphabet == Alphabet::Base64 {
            set.add(b'-');
            set.add(b'_');
        }
    }

    /// Where in it this byte stands.
    pub(super) fn offsets_of(&self, byte: u8) -> impl DoubleEndedIterator<Item = usize> + '_ {
        memchr::memchr_iter(self.alphabet.normal(byte), &self.text)
    }

    /// Whether a text begins it at a place, as far as its beginning goes.
    pub(super) fn begins(&self, text: &[u8], start: usize) -> bool {
        let length = self.text.len().min(BEGINNING);
        self.stands_before(text, start + length, length)
    }

    /// Whether its first bytes stand, as they are, before a place.
    pub(super) fn stands_before(&self, text: &[u8], end: usize, length: usize) -> bool {
        let (Some(start), Some(own)) = (end.checked_sub(length), self.text.get(..length)) else {
            return false;
        };
        text.get(start..end).is_some_and(|text| {
            let mut pairs = own.iter().zip(text).rev();
            pairs.all(|(own, byte)| *own == self.alphabet.normal(*byte))
        })
    }

    /// How many of its first bytes stand before a place: each number that
    /// fits, none of them included, but not all.
    pub(super) fn offsets_before(&self, text: &[u8], end: usize) -> impl Iterator<Item = usize> {
        (0..self.text.len()).filter(move |length| self.stands_before(text, end, *length))
    }

    /// How many of its first bytes stand before a place, at most and not all;
    /// none when not even one does.
    pub(super) fn longest_before(&self, text: &[u8], end: usize) -> Option<usize> {
        let last = text.get(..end)?.last()?;
        if !self.holds(*last) {
            return None;
        }
        let lengths = self.offsets_of(*last).map(|offset| offset + 1).rev();
        lengths
            .filter(|length| *length < self.text.len())
            .find(|length| self.stands_before(text, end, *length))
    }

    /// Follows it from a place, whichever way each of its bytes is spelled.
    pub(super) fn follow(&self, text: &[u8], start: usize) -> Reach {
        // Mostly one place; more where `%` or `\` may be one or an escape.
        let mut places = vec![start];
        let mut next = Vec::new();
        let mut open = false;
        let mut rest: &[u8] = &self.text;
        while !rest.is_empty() && !places.is_empty() {
            let unit = spelling::unit(rest);
            for place in &places {
                open |= spelling::follow(unit, self.alphabet, text, *place, &mut next);
            }
            next.sort_unstable();
            next.dedup();
            std::mem::swap(&mut places, &mut next);
            next.clear();
            rest = rest.get(unit.len()..).unwrap_or_default();
        }
        Reach {
            end: places.last().copied(),
            open,
        }
    }
}

/// The characters that a value is sure to become inside a longer base64 text,
/// when it starts `alignment` bytes after a group of three.
fn base64_core(value: &[u8], alignment: usize) -> Vec<u8> {
    let mut padded = Zeroizing::new(Vec::with_capacity(alignment + value.len()));
    padded.resize(alignment, 0);
    padded.extend_from_slice(value);
    // Cut down where it stands, so that whoever wipes it wipes all of it.
    let mut encoded = STANDARD.encode(&*padded).into_bytes();
    encoded.truncate(padded.len() * 8 / 6);
    encoded.drain(..(alignment * 8).div_ceil(6).min(encoded.len()));
    encoded
}
