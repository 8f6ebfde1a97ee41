//! gzip and deflate. Their windows are 32 KiB by definition.

use std::io::Write;

use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

use crate::relay::decode::{Step, Undecodable};

/// gzip, of one member or several.
pub(super) struct Gzip(MultiGzDecoder<Vec<u8>>);

impl Gzip {
    pub(super) fn new() -> Self {
        Self(MultiGzDecoder::new(Vec::new()))
    }

    pub(super) fn step(&mut self, input: &[u8]) -> Result<Step, Undecodable> {
        step(&mut self.0, input, MultiGzDecoder::get_mut)
    }

    /// Whether the last member has come to its end, with its checksum.
    pub(super) fn is_whole(&mut self) -> bool {
        self.0.try_finish().is_ok()
    }
}

/// deflate: in zlib's frame, or bare.
pub(super) enum Deflate {
    /// Nothing has come yet that could tell.
    Unread,
    Zlib(ZlibDecoder<Vec<u8>>),
    Bare(DeflateDecoder<Vec<u8>>),
}

impl Deflate {
    pub(super) fn new() -> Self {
        Self::Unread
    }

    pub(super) fn step(&mut self, input: &[u8]) -> Result<Step, Undecodable> {
        if let (Self::Unread, Some(first)) = (&*self, input.first()) {
            // zlib's first byte says deflate and a window; as the first of a
            // bare stream it would begin a stored block with odd padding.
            *self = if first & 0x0F == 8 && first >> 4 <= 7 {
                Self::Zlib(ZlibDecoder::new(Vec::new()))
            } else {
                Self::Bare(DeflateDecoder::new(Vec::new()))
            };
        }
        match self {
            Self::Unread => Ok(Step {
                used: 0,
                out: Vec::new(),
                full: false,
            }),
            Self::Zlib(zlib) => step(zlib, input, ZlibDecoder::get_mut),
            Self::Bare(bare) => step(bare, input, DeflateDecoder::get_mut),
        }
    }

    pub(super) fn is_whole(&mut self) -> bool {
        match self {
            Self::Unread => false,
            Self::Zlib(zlib) => zlib.try_finish().is_ok(),
            Self::Bare(bare) => bare.try_finish().is_ok(),
        }
    }
}

/// Writes as much of the input as fills the decoder's own 32 KiB, and takes
/// all of that out.
fn step<D: Write>(
    decoder: &mut D,
    input: &[u8],
    out: impl Fn(&mut D) -> &mut Vec<u8>,
) -> Result<Step, Undecodable> {
    let used = decoder.write(input).map_err(|_| Undecodable::Corrupt)?;
    decoder.flush().map_err(|_| Undecodable::Corrupt)?;
    Ok(Step {
        used,
        out: std::mem::take(out(decoder)),
        full: false,
    })
}
