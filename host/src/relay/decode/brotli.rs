//! brotli. A window is at most 16 MiB and grows with what fills it; the format
//! with larger ones is not taken.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

use crate::relay::decode::{STEP, Step, Undecodable};

pub(super) struct Brotli {
    state: Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>,
    ended: bool,
}

impl Brotli {
    pub(super) fn new() -> Self {
        Self {
            state: Box::new(BrotliState::new_strict(
                StandardAlloc::default(),
                StandardAlloc::default(),
                StandardAlloc::default(),
            )),
            ended: false,
        }
    }

    pub(super) fn step(&mut self, input: &[u8]) -> Result<Step, Undecodable> {
        if self.ended {
            return Err(Undecodable::Corrupt);
        }
        let mut out = vec![0; STEP];
        let (mut left, mut used) = (input.len(), 0);
        let (mut room, mut written) = (out.len(), 0);
        let mut total = 0;
        let result = BrotliDecompressStream(
            &mut left,
            &mut used,
            input,
            &mut room,
            &mut written,
            &mut out,
            &mut total,
            &mut self.state,
        );
        match result {
            BrotliResult::ResultSuccess => self.ended = true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultFailure => return Err(Undecodable::Corrupt),
        }
        out.truncate(written);
        Ok(Step {
            used,
            out,
            full: matches!(result, BrotliResult::NeedsMoreOutput),
        })
    }

    pub(super) fn is_whole(&self) -> bool {
        self.ended
    }
}
