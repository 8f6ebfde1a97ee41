//! What a request's body and trailers may not carry to an upstream: the box's
//! token, a grant. In a plain body they are overwritten. An encoded one goes on
//! byte for byte while a copy is decoded and searched, and is broken off where
//! one is found, before the bytes that would complete it have left.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName};

use crate::relay::decode::{Decoder, Undecodable};
use crate::rules::codings::Coding;
use crate::rules::headers;
use crate::rules::identify::decoded_basic;
use crate::rules::scrub::{Instead, Matcher, Scrub};
use crate::rules::token::holds_token_shape;

/// What no upstream may receive of a request.
pub(super) struct UploadRules {
    pub(super) credential_headers: Vec<HeaderName>,
    /// The box's token, and the grants that the request showed.
    pub(super) hidden: Arc<Matcher>,
    /// How the body is encoded.
    pub(super) codings: Vec<Coding>,
}

/// Why a request's body is not sent to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum UploadFault {
    /// The box broke off.
    #[error("the request's body broke off")]
    BrokenOff,
    /// A token or grant stands in the encoded body.
    #[error("the request's encoded body carries a token")]
    Token,
    /// The encoded body cannot be searched.
    #[error("the request's encoded body does not decode")]
    Undecodable,
}

/// Guards one body.
pub(super) struct Guard {
    rules: Arc<UploadRules>,
    /// Overwrites in a plain body, or watches what is decoded of one that is
    /// encoded.
    scrub: Scrub,
    decoder: Option<Box<Decoder>>,
}

impl Guard {
    pub(super) fn new(rules: Arc<UploadRules>) -> Self {
        let encoded = !rules.codings.is_empty();
        Self {
            scrub: Scrub::new(rules.hidden.clone(), Instead::Stars),
            decoder: encoded.then(|| Box::new(Decoder::new(&rules.codings))),
            rules,
        }
    }

    /// Takes a piece in and gives out what may leave.
    pub(super) fn push(&mut self, piece: Bytes) -> Result<Bytes, UploadFault> {
        let Some(decoder) = &mut self.decoder else {
            return Ok(self.scrub.push(piece));
        };
        decoder.push(piece.clone());
        self.search_decoded()?;
        Ok(piece)
    }

    /// Gives out what is left.
    pub(super) fn finish(&mut self) -> Result<Bytes, UploadFault> {
        let Some(decoder) = &mut self.decoder else {
            return Ok(self.scrub.finish());
        };
        decoder.end();
        self.search_decoded()?;
        Ok(Bytes::new())
    }

    /// How many bytes are held back.
    pub(super) fn held(&self) -> usize {
        match self.decoder {
            Some(_) => 0,
            None => self.scrub.held(),
        }
    }

    fn search_decoded(&mut self) -> Result<(), UploadFault> {
        let Some(decoder) = &mut self.decoder else {
            return Ok(());
        };
        let undecodable = |_: Undecodable| UploadFault::Undecodable;
        while let Some(decoded) = decoder.next().map_err(undecodable)? {
            self.scrub.push(decoded);
            if self.scrub.has_found() {
                return Err(UploadFault::Token);
            }
        }
        Ok(())
    }

    /// The trailers that may follow.
    pub(super) fn clean_trailers(&self, trailers: &HeaderMap) -> HeaderMap {
        headers::kept(trailers, |name, value| {
            headers::may_be_trailer(name)
                && !self.rules.credential_headers.contains(name)
                && !holds_token_shape(name.as_str().as_bytes())
                && !self.holds_token(value.as_bytes())
        })
    }

    /// Whether a value holds this box's token, or anything of that shape.
    fn holds_token(&self, value: &[u8]) -> bool {
        let stands = |text: &[u8]| self.rules.hidden.finds(text) || holds_token_shape(text);
        stands(value) || decoded_basic(value).is_some_and(|inside| stands(&inside))
    }
}
