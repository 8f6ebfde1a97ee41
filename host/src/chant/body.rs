//! Reading a body whole, up to a limit that is held while reading, and giving
//! up on one that stands still or never comes to its end.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::timeout;

use crate::chant::answers::Failure;
use crate::chant::limits::Held;
use crate::rules::codings::content_codings;
use crate::rules::refusal::{Refusal, RefusalKind};

/// Refuses an encoded body where a plugin would be shown it: a token inside
/// could not be overwritten.
pub(super) fn refuse_encoded(headers: &HeaderMap) -> Result<(), Refusal> {
    match content_codings(headers) {
        Ok(codings) if codings.is_empty() => Ok(()),
        Ok(_) | Err(_) => Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            RefusalKind::InvalidRequest,
            "The body of this request is read here, and may not be encoded. Send it without a content coding.",
        )),
    }
}

/// How long a body may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// How long it may stand still.
    pub idle: Duration,
    /// How long all of it may take.
    pub whole: Duration,
}

/// Reads a body of at most `most` bytes, and takes the room that it is held in
/// before it comes. One that is declared longer is refused before a byte of it
/// is read; one that takes too long is given up.
pub(super) async fn read(
    body: impl Body<Data = Bytes> + Unpin,
    most: usize,
    patience: Patience,
    held: &mut Held,
) -> Result<Bytes, Failure> {
    let reading = read_all(body, most, patience.idle, held);
    let read = timeout(patience.whole, reading).await;
    read.unwrap_or(Err(Failure::Slow))
}

async fn read_all(
    mut body: impl Body<Data = Bytes> + Unpin,
    most: usize,
    idle: Duration,
    held: &mut Held,
) -> Result<Bytes, Failure> {
    let too_large = || {
        Failure::Refuse(Refusal::too_large(format!(
            "The body may have up to {most} bytes."
        )))
    };
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > most {
        return Err(too_large());
    }
    held.resize(declared)?;
    let mut read = BytesMut::new();
    loop {
        let Ok(frame) = timeout(idle, body.frame()).await else {
            return Err(Failure::Slow);
        };
        let Some(frame) = frame else {
            return Ok(read.freeze());
        };
        let Ok(frame) = frame else {
            return Err(Failure::Body);
        };
        if let Ok(data) = frame.into_data() {
            if read.len() + data.len() > most {
                return Err(too_large());
            }
            if read.len() + data.len() > declared {
                held.resize(read.len() + data.len())?;
            }
            read.extend_from_slice(&data);
        }
    }
}

#[cfg(test)]
mod tests;
