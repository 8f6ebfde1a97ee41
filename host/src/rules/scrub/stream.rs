//! Taking values out of what comes in pieces: what goes out is the same
//! however the pieces were cut. Only a tail that may be the beginning of a
//! form is held back.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use zeroize::Zeroizing;

use crate::rules::scrub::{Found, Matcher};

/// What a match becomes.
#[derive(Clone)]
pub enum Instead {
    /// This text.
    Text(Arc<Zeroizing<Vec<u8>>>),
    /// As many `*`, so that lengths stay true.
    Stars,
}

impl Instead {
    /// Lets a match become this text.
    #[must_use]
    pub fn text(text: &[u8]) -> Self {
        Self::Text(Arc::new(Zeroizing::new(text.to_vec())))
    }

    /// A match begins, of so many bytes.
    fn begin(&self, length: usize, out: &mut BytesMut) {
        match self {
            Self::Text(text) => out.extend_from_slice(text),
            Self::Stars => out.resize(out.len() + length, b'*'),
        }
    }

    /// A match goes on, by so many bytes.
    fn go_on(&self, length: usize, out: &mut BytesMut) {
        match self {
            Self::Text(_) => {}
            Self::Stars => out.resize(out.len() + length, b'*'),
        }
    }
}

/// Takes values out of a stream. No `Debug`: it holds values.
pub struct Scrub {
    matcher: Arc<Matcher>,
    instead: Instead,
    /// What may be the beginning of a form.
    held: BytesMut,
    /// How much of what is held belongs to a match that has gone out already.
    covered: usize,
    found: bool,
}

impl Scrub {
    /// Begins a stream.
    #[must_use]
    pub fn new(matcher: Arc<Matcher>, instead: Instead) -> Self {
        Self {
            matcher,
            instead,
            held: BytesMut::new(),
            covered: 0,
            found: false,
        }
    }

    /// Takes a piece in and gives out what is sure. A piece in which nothing
    /// is found goes out as it is, without a copy.
    pub fn push(&mut self, piece: Bytes) -> Bytes {
        let text = if self.held.is_empty() {
            piece
        } else {
            self.held.extend_from_slice(&piece);
            self.held.split().freeze()
        };
        let found = self.matcher.scan(&text);
        let sure = found.open.unwrap_or(text.len());
        self.give(&text, &found, sure)
    }

    /// Gives out what is left: it is the beginning of nothing.
    pub fn finish(&mut self) -> Bytes {
        let text = self.held.split().freeze();
        let found = self.matcher.scan(&text);
        self.give(&text, &found, text.len())
    }

    /// How many bytes are held back that may still leave as they are.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len() - self.covered
    }

    /// Whether anything was found so far.
    #[must_use]
    pub fn has_found(&self) -> bool {
        self.found
    }

    /// Gives out a text up to a place and holds the rest.
    fn give(&mut self, text: &Bytes, found: &Found, sure: usize) -> Bytes {
        self.found |= !found.ranges.is_empty();
        let mut at = self.covered;
        let given = if found.ranges.is_empty() && at == 0 {
            at = sure;
            text.slice(..sure)
        } else {
            let mut out = BytesMut::with_capacity(text.len());
            for range in found.ranges.iter().filter(|range| range.start < sure) {
                if range.start >= at {
                    out.extend_from_slice(text.get(at..range.start).unwrap_or_default());
                    self.instead.begin(range.len(), &mut out);
                    at = range.end;
                } else if range.end > at {
                    self.instead.go_on(range.end - at, &mut out);
                    at = range.end;
                }
            }
            if at < sure {
                out.extend_from_slice(text.get(at..sure).unwrap_or_default());
                at = sure;
            }
            out.freeze()
        };
        self.held
            .extend_from_slice(text.get(sure..).unwrap_or_default());
        self.covered = at - sure;
        given
    }
}
