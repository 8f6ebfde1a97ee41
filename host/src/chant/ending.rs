//! The end of a request: whichever way it goes, one event says so. It is told
//! when the last byte has gone out, or when the request is let go.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use crate::chant::noted::Noted;
use crate::lease::Lease;
use crate::rules::names::{BoxName, PluginName};
use crate::rules::plan::Target;
use crate::rules::refusal::{Refusal, RefusalKind};
use crate::telemetry::{
    InFlight, MethodLabel, Metrics, Outcome, Protocol, RequestEnd, end_request,
};

/// What is known of a request so far. Dropping it tells the end.
pub(super) struct Ending {
    metrics: Arc<Metrics>,
    _in_flight: InFlight,
    began: Instant,
    method: MethodLabel,
    /// Who asked.
    pub(super) box_name: Option<BoxName>,
    /// Which plugin serves the route.
    pub(super) plugin: Option<PluginName>,
    /// Where it was sent.
    pub(super) target: Option<Target>,
    /// What its stream lives under.
    pub(super) lease: Option<Lease>,
    /// What the decision log will hold of it.
    pub(super) noted: Noted,
    outcome: Outcome,
    status: Option<StatusCode>,
    refusal: Option<RefusalKind>,
    taken_in: Arc<TakenIn>,
    bytes_out: u64,
}

/// What has come of a request's body, and the room that the request takes. Both
/// its body and its answer hold this: an upload may outlive its answer.
#[derive(Default)]
struct TakenIn {
    bytes: AtomicU64,
    /// More was asked for, and has not come.
    awaited: AtomicBool,
    /// The box's room for a request, and the plugin's.
    slots: OnceLock<(OwnedSemaphorePermit, Option<OwnedSemaphorePermit>)>,
}

impl Ending {
    /// A request has begun. Until something else is known, its box has left.
    pub(super) fn begin(metrics: &Arc<Metrics>, method: &Method) -> Self {
        Self {
            metrics: metrics.clone(),
            _in_flight: metrics.begin(),
            began: Instant::now(),
            method: MethodLabel::of(method),
            box_name: None,
            plugin: None,
            target: None,
            lease: None,
            noted: Noted::default(),
            outcome: Outcome::Leave,
            status: None,
            refusal: None,
            taken_in: Arc::default(),
            bytes_out: 0,
        }
    }

    /// The host or a plugin answered.
    pub(super) fn answered(&mut self, status: StatusCode, bytes: usize) {
        self.outcome = Outcome::Answer;
        self.status = Some(status);
        self.bytes_out = u64::try_from(bytes).unwrap_or(u64::MAX);
    }

    /// It was refused.
    pub(super) fn refused(&mut self, refusal: Refusal, bytes: usize) {
        self.answered(refusal.status, bytes);
        self.outcome = Outcome::Refuse;
        self.refusal = Some(refusal.kind);
    }

    /// An upstream's answer has begun.
    pub(super) fn forwarding(&mut self, status: StatusCode) {
        self.noted.answered();
        self.status = Some(status);
    }

    /// The box's room for this request, and the plugin's: given back once its
    /// answer and its body have both ended.
    pub(super) fn hold(&self, own: OwnedSemaphorePermit, plugins: Option<OwnedSemaphorePermit>) {
        // A request takes its room once; a second one would go back at once.
        let _taken = self.taken_in.slots.set((own, plugins));
    }

    /// A body that counts what comes in through it.
    pub(super) fn counting<B>(&self, body: B) -> Counted<B> {
        Counted {
            body,
            taken_in: self.taken_in.clone(),
        }
    }

    /// Whether the box is what everything waits for: the rest of its body.
    pub(super) fn awaits_box(&self) -> bool {
        self.taken_in.awaited.load(Ordering::Relaxed)
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let revoked = self.lease.as_ref().is_some_and(Lease::is_cancelled);
        let cut = matches!(self.outcome, Outcome::Leave | Outcome::Break);
        let end = RequestEnd {
            protocol: Protocol::Chant,
            method: self.method,
            box_name: self.box_name.as_ref(),
            plugin: self.plugin.as_ref(),
            target: self.target.as_ref(),
            outcome: if revoked && cut {
                Outcome::Revoke
            } else {
                self.outcome
            },
            status: self.status,
            refusal: self.refusal.as_ref(),
            duration: self.began.elapsed(),
            bytes_in: self.taken_in.bytes.load(Ordering::Relaxed),
            bytes_out: self.bytes_out,
            cause: None,
        };
        end_request(&self.metrics, &end);
        self.noted.told(&end);
    }
}

/// A body on its way in, counted.
pub(super) struct Counted<B> {
    body: B,
    taken_in: Arc<TakenIn>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Counted<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.taken_in.awaited.store(true, Ordering::Relaxed);
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.taken_in.awaited.store(false, Ordering::Relaxed);
        if let Some(Ok(frame)) = &frame {
            let length = data_length(frame);
            self.taken_in.bytes.fetch_add(length, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An upstream's answer on its way out, with the end that it will tell.
pub(super) struct Told<B> {
    body: B,
    ending: Ending,
}

impl<B: Body> Told<B> {
    /// Puts an answer's body and its end together.
    pub(super) fn new(body: B, mut ending: Ending) -> Self {
        if body.is_end_stream() {
            ending.outcome = Outcome::Forward;
        }
        Self { body, ending }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Told<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                self.ending.bytes_out = self.ending.bytes_out.saturating_add(data_length(frame));
                if self.body.is_end_stream() {
                    self.ending.outcome = Outcome::Forward;
                }
            }
            Some(Err(_)) => self.ending.outcome = Outcome::Break,
            None => self.ending.outcome = Outcome::Forward,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn data_length(frame: &Frame<Bytes>) -> u64 {
    frame
        .data_ref()
        .map_or(0, |data| u64::try_from(data.len()).unwrap_or(u64::MAX))
}
