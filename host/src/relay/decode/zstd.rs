//! zstd, with windows up to 8 MiB, as RFC 9659 asks for on the web.

use zstd::stream::raw::{DParameter, Decoder, Operation};

use crate::relay::decode::{STEP, Step, Undecodable};

/// 8 MiB.
const WINDOW_LOG: u32 = 23;

pub(super) struct Zstd {
    /// None where the library could give none: nothing is decoded then.
    decoder: Option<Decoder<'static>>,
    /// Whether the last frame has come to its end.
    between_frames: bool,
}

impl Zstd {
    pub(super) fn new() -> Self {
        let decoder = Decoder::new().and_then(|mut decoder| {
            decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG))?;
            Ok(decoder)
        });
        Self {
            decoder: decoder.ok(),
            between_frames: false,
        }
    }

    pub(super) fn step(&mut self, input: &[u8]) -> Result<Step, Undecodable> {
        let decoder = self.decoder.as_mut().ok_or(Undecodable::Corrupt)?;
        let mut out = vec![0; STEP];
        let status = decoder
            .run_on_buffers(input, &mut out)
            .map_err(|_| Undecodable::Corrupt)?;
        if status.bytes_read > 0 || status.bytes_written > 0 {
            self.between_frames = status.remaining == 0;
        }
        out.truncate(status.bytes_written);
        Ok(Step {
            used: status.bytes_read,
            full: status.bytes_written == STEP,
            out,
        })
    }

    pub(super) fn is_whole(&self) -> bool {
        self.between_frames
    }
}
