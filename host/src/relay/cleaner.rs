//! An answer's body made fit for the box: decoded where it was encoded, and
//! searched. What it takes in comes out before more is taken, less only what
//! may be the beginning of a value.

#[cfg(test)]
mod tests;

use bytes::Bytes;

use crate::relay::decode::{Decoder, Undecodable};
use crate::relay::scrubber::Scrubber;
use crate::rules::codings::Coding;
use crate::rules::scrub::Scrub;

/// Cleans one body.
pub(super) struct Cleaner {
    /// None where the body is plain.
    decoder: Option<Box<Decoder>>,
    plain: Bytes,
    scrub: Scrub,
    ended: bool,
}

impl Cleaner {
    /// Cleans a body that these codings were applied to.
    pub(super) fn new(scrubber: &Scrubber, codings: &[Coding]) -> Self {
        Self {
            decoder: (!codings.is_empty()).then(|| Box::new(Decoder::new(codings))),
            plain: Bytes::new(),
            scrub: scrubber.stream(),
            ended: false,
        }
    }

    /// Takes a piece in, once [`Cleaner::next`] has nothing left.
    pub(super) fn push(&mut self, piece: Bytes) {
        match &mut self.decoder {
            Some(decoder) => decoder.push(piece),
            None => self.plain = piece,
        }
    }

    /// Nothing more is coming.
    pub(super) fn end(&mut self) {
        self.ended = true;
        if let Some(decoder) = &mut self.decoder {
            decoder.end();
        }
    }

    /// What is clean next; none when more must be taken in for that, or at the
    /// end.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, Undecodable> {
        loop {
            let piece = match &mut self.decoder {
                Some(decoder) => decoder.next()?,
                None => Some(std::mem::take(&mut self.plain)).filter(|plain| !plain.is_empty()),
            };
            let clean = match piece {
                Some(piece) => self.scrub.push(piece),
                None if self.ended && self.scrub.held() > 0 => self.scrub.finish(),
                None => return Ok(None),
            };
            if !clean.is_empty() {
                return Ok(Some(clean));
            }
        }
    }

    /// Whether it is known that nothing more will come.
    pub(super) fn is_done(&self) -> bool {
        self.ended && self.decoder.is_none() && self.plain.is_empty() && self.scrub.held() == 0
    }

    /// Whether what it gives out was decoded.
    pub(super) fn decodes(&self) -> bool {
        self.decoder.is_some()
    }
}
