//! A call that the host makes on a plugin's behalf: buffered, capped, under a
//! deadline, and scrubbed before a plugin sees it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::TRAILER;
use http_body_util::BodyExt;

use crate::lease::Lease;
use crate::relay::Relay;
use crate::relay::body::{Live, RelayBody, Ties};
use crate::relay::failure::{BodyBroken, RelayFailure};
use crate::relay::forward::{cleaner, passed_headers};
use crate::relay::seal::SealedRequest;
use crate::relay::tether::Tether;
use crate::relay::upload::RequestBody;
use crate::rules::plan::{CallAnswer, CallFailure};

/// What a call may take.
#[derive(Debug, Clone, Copy)]
pub struct CallLimits {
    /// How long, from the first connection to the last byte.
    pub deadline: Duration,
    /// How large the answer's body may be.
    pub max_bytes: usize,
}

/// Room for what a call brings back, asked for before it is held.
pub trait CallRoom: Send {
    /// Takes this many bytes more; false ends the call.
    fn take(&mut self, bytes: usize) -> bool;
}

impl Relay {
    /// Makes a call and reads the whole answer. The lease ends it; whoever asked
    /// looks whether it did.
    ///
    /// # Errors
    /// When there is no whole answer within the limits.
    pub async fn call(
        &self,
        sealed: SealedRequest,
        body: Bytes,
        limits: CallLimits,
        lease: Lease,
        room: &mut dyn CallRoom,
    ) -> Result<CallAnswer, CallFailure> {
        let tether = Tether::to(lease);
        let line = tether.line();
        let call = self.call_now(sealed, body, limits.max_bytes, tether, room);
        tokio::select! {
            biased;
            () = line.until_cut() => Err(CallFailure::Broken),
            answer = tokio::time::timeout(limits.deadline, call) => {
                answer.unwrap_or(Err(CallFailure::Timeout))
            }
        }
    }

    async fn call_now(
        &self,
        mut sealed: SealedRequest,
        body: Bytes,
        max_bytes: usize,
        tether: Tether<Live>,
        room: &mut dyn CallRoom,
    ) -> Result<CallAnswer, CallFailure> {
        let answered = self
            .send(&mut sealed, RequestBody::full(body))
            .await
            .map_err(|failure| failure_of_call(&failure))?;
        let (head, incoming) = answered.response.into_parts();
        let cleaner = cleaner(&sealed, &head, &incoming).map_err(|_| CallFailure::Broken)?;
        let mut headers = passed_headers(&sealed, &head.headers, cleaner.as_ref());
        headers.remove(TRAILER);
        let mut stream = RelayBody::new(
            incoming,
            Ties {
                checkout: answered.checkout,
                tether,
                activity: answered.activity,
                silence: answered.silence,
                stop_upload: answered.stop_upload,
                scrubber: None,
                cleaner,
            },
        );
        let mut whole = BytesMut::new();
        while let Some(frame) = stream.frame().await {
            let frame = frame.map_err(failure_of_body)?;
            let Ok(chunk) = frame.into_data() else {
                continue;
            };
            let fits = whole.len().saturating_add(chunk.len()) <= max_bytes;
            if !fits || !room.take(chunk.len()) {
                return Err(CallFailure::TooLarge);
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(CallAnswer {
            status: head.status.as_u16(),
            headers: headers
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
                .collect(),
            body: whole.freeze(),
        })
    }
}

fn failure_of_call(failure: &RelayFailure) -> CallFailure {
    match failure {
        RelayFailure::AddressRefused
        | RelayFailure::Unresolved
        | RelayFailure::Unreachable
        | RelayFailure::Untrusted => CallFailure::Unreachable,
        RelayFailure::ConnectTimedOut | RelayFailure::Silent => CallFailure::Timeout,
        RelayFailure::Broken
        | RelayFailure::Unreadable(_)
        | RelayFailure::RequestBroken
        | RelayFailure::TokenInBody
        | RelayFailure::RequestUndecodable
        | RelayFailure::Revoked
        | RelayFailure::Substituted(_) => CallFailure::Broken,
    }
}

fn failure_of_body(broken: BodyBroken) -> CallFailure {
    match broken {
        BodyBroken::Bomb => CallFailure::TooLarge,
        BodyBroken::Upstream
        | BodyBroken::Silent
        | BodyBroken::Revoked
        | BodyBroken::Undecodable => CallFailure::Broken,
    }
}
