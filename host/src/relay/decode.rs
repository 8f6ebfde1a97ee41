//! Undoing content codings as they come: what is decoded leaves before more is
//! read, in pieces of bounded size. What the decoders may take is capped: their
//! windows, and how much they make of little.

mod brotli;
mod deflate;
#[cfg(test)]
pub(in crate::relay) mod tests;
mod zstd;

use bytes::{Buf, Bytes};

use crate::relay::decode::brotli::Brotli;
use crate::relay::decode::deflate::{Deflate, Gzip};
use crate::relay::decode::zstd::Zstd;
use crate::rules::codings::Coding;

/// How much is decoded in one step.
const STEP: usize = 32 * 1024;

/// What a body may become, however small it came.
const FLOOR: u64 = 16 * 1024 * 1024;

/// How many times its size a body may become beyond that.
const RATIO: u64 = 256;

/// Why a body cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undecodable {
    /// It is not what its coding says.
    Corrupt,
    /// It ends too early.
    CutShort,
    /// It becomes too much.
    Bomb,
}

/// Undoes the codings of one body.
pub(super) struct Decoder {
    /// In the order in which they are undone.
    stages: Vec<Stage>,
    /// How much has come, before anything was undone.
    came: u64,
}

struct Stage {
    unpack: Unpack,
    input: Bytes,
    /// Whether there may be more without more input.
    full: bool,
    ended: bool,
    taken: u64,
    given: u64,
}

enum Unpack {
    Gzip(Gzip),
    Deflate(Deflate),
    Brotli(Brotli),
    Zstd(Zstd),
}

/// What one step did.
struct Step {
    /// How much of the input it used.
    used: usize,
    out: Vec<u8>,
    /// Whether it may give more without more input.
    full: bool,
}

impl Decoder {
    /// Undoes these codings, which are in the order in which they were
    /// applied.
    pub(super) fn new(codings: &[Coding]) -> Self {
        let stages = codings.iter().rev().map(|coding| Stage {
            unpack: match coding {
                Coding::Gzip => Unpack::Gzip(Gzip::new()),
                Coding::Deflate => Unpack::Deflate(Deflate::new()),
                Coding::Brotli => Unpack::Brotli(Brotli::new()),
                Coding::Zstd => Unpack::Zstd(Zstd::new()),
            },
            input: Bytes::new(),
            full: false,
            ended: false,
            taken: 0,
            given: 0,
        });
        Self {
            stages: stages.collect(),
            came: 0,
        }
    }

    /// Takes in what is encoded, once [`Decoder::next`] has nothing left.
    pub(super) fn push(&mut self, piece: Bytes) {
        self.came += length(piece.len());
        if let Some(first) = self.stages.first_mut() {
            first.input = piece;
        }
    }

    /// Nothing more is coming.
    pub(super) fn end(&mut self) {
        if let Some(first) = self.stages.first_mut() {
            first.ended = true;
        }
    }

    /// What is decoded next; none when more must be taken in for that, or at
    /// the end.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, Undecodable> {
        next_of(&mut self.stages, self.came)
    }
}

/// What the last of these stages gives next. However many there are, each is
/// held against what came.
fn next_of(stages: &mut [Stage], came: u64) -> Result<Option<Bytes>, Undecodable> {
    let Some((last, before)) = stages.split_last_mut() else {
        return Ok(None);
    };
    loop {
        if let Some(piece) = last.step(came)? {
            return Ok(Some(piece));
        }
        match next_of(before, came)? {
            Some(piece) => last.input = piece,
            None => {
                last.ended |= before.last().is_some_and(|stage| stage.ended);
                if last.ended {
                    last.finish()?;
                }
                return Ok(None);
            }
        }
    }
}

impl Stage {
    /// Decodes until something is there; none when more input is needed.
    fn step(&mut self, came: u64) -> Result<Option<Bytes>, Undecodable> {
        while !self.input.is_empty() || self.full {
            let step = match &mut self.unpack {
                Unpack::Gzip(gzip) => gzip.step(&self.input)?,
                Unpack::Deflate(deflate) => deflate.step(&self.input)?,
                Unpack::Brotli(brotli) => brotli.step(&self.input)?,
                Unpack::Zstd(zstd) => zstd.step(&self.input)?,
            };
            if step.used == 0 && step.out.is_empty() && !self.input.is_empty() {
                return Err(Undecodable::Corrupt);
            }
            self.input.advance(step.used.min(self.input.len()));
            self.full = step.full;
            self.taken += length(step.used);
            self.given += length(step.out.len());
            if self.given > FLOOR && self.given / RATIO > came {
                return Err(Undecodable::Bomb);
            }
            if !step.out.is_empty() {
                return Ok(Some(step.out.into()));
            }
        }
        Ok(None)
    }

    /// Holds the end to being one; a body of no bytes at all is whole.
    fn finish(&mut self) -> Result<(), Undecodable> {
        let whole = match &mut self.unpack {
            Unpack::Gzip(gzip) => gzip.is_whole(),
            Unpack::Deflate(deflate) => deflate.is_whole(),
            Unpack::Brotli(brotli) => brotli.is_whole(),
            Unpack::Zstd(zstd) => zstd.is_whole(),
        };
        if whole || self.taken == 0 {
            Ok(())
        } else {
            Err(Undecodable::CutShort)
        }
    }
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
