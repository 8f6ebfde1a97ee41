//! The answer's body on its way to the box: frames untouched, an idle limit,
//! a lease that can be cut, and an end that is clean only when the upstream's
//! was.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::relay::failure::BodyBroken;
use crate::relay::lease::{Cancelled, Lease};
use crate::relay::pool::Checkout;
use crate::relay::scrubber::Scrubber;
use crate::relay::upload::Activity;
use crate::rules::headers;

/// What changes a body's bytes on their way. It is given every chunk, and may
/// hold back what it cannot judge yet.
pub trait BodyFilter: Send {
    /// Takes a chunk in and gives out what is ready.
    fn push(&mut self, chunk: Bytes) -> Bytes;
    /// Gives out what is left.
    fn finish(&mut self) -> Bytes;
}

/// An answer's body, streamed from the upstream.
pub struct RelayBody(Option<Box<Streaming>>);

struct Streaming {
    live: Arc<Mutex<Option<Live>>>,
    lease: Lease,
    revoked: Cancelled,
    idle: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    activity: Arc<Activity>,
    scrubber: Option<Arc<Scrubber>>,
    filter: Option<Box<dyn BodyFilter>>,
    ended: bool,
    _watch: DropGuard,
}

/// What holds the upstream: letting go of it cancels both directions.
struct Live {
    incoming: Incoming,
    checkout: Checkout,
    stop_upload: DropGuard,
}

/// What a streaming body needs beside the answer itself.
pub(super) struct Ties {
    pub(super) checkout: Checkout,
    pub(super) lease: Lease,
    pub(super) idle: Duration,
    pub(super) activity: Arc<Activity>,
    pub(super) stop_upload: DropGuard,
    pub(super) scrubber: Option<Arc<Scrubber>>,
    pub(super) filter: Option<Box<dyn BodyFilter>>,
}

impl RelayBody {
    pub(super) fn new(incoming: Incoming, ties: Ties) -> Self {
        let done = CancellationToken::new();
        let mut streaming = Box::new(Streaming {
            live: Arc::new(Mutex::new(Some(Live {
                incoming,
                checkout: ties.checkout,
                stop_upload: ties.stop_upload,
            }))),
            revoked: ties.lease.cancelled(),
            lease: ties.lease.clone(),
            idle: ties.idle,
            timer: None,
            activity: ties.activity,
            scrubber: ties.scrubber,
            filter: ties.filter,
            ended: false,
            _watch: done.clone().drop_guard(),
        });
        let empty = streaming
            .live()
            .as_ref()
            .is_none_or(|live| live.incoming.is_end_stream());
        if empty {
            streaming.finish();
            return Self(None);
        }
        watch(streaming.live.clone(), ties.lease, done);
        Self(Some(streaming))
    }
}

/// Lets go of the upstream when the lease is cut, even while nobody reads.
fn watch(live: Arc<Mutex<Option<Live>>>, lease: Lease, done: CancellationToken) {
    tokio::spawn(async move {
        tokio::select! {
            () = lease.cancelled() => {
                let cut = live.lock().unwrap_or_else(PoisonError::into_inner).take();
                drop(cut);
            }
            () = done.cancelled() => {}
        }
    });
}

impl Streaming {
    fn live(&self) -> MutexGuard<'_, Option<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer was read to its end: the connection may be used again, once
    /// the request has gone out to its end too.
    fn finish(&mut self) {
        self.ended = true;
        let live = self.live().take();
        let Some(Live {
            checkout,
            stop_upload,
            ..
        }) = live
        else {
            return;
        };
        if self.activity.upload_finished() {
            checkout.give_back();
            return;
        }
        let (activity, idle) = (self.activity.clone(), self.idle);
        let cut = self.lease.cancelled();
        tokio::spawn(async move {
            let uploaded = tokio::select! {
                () = cut => false,
                uploaded = until_uploaded(&activity, idle) => uploaded,
            };
            if uploaded {
                checkout.give_back();
            }
            drop(stop_upload);
        });
    }

    fn fail(&mut self, why: BodyBroken) -> Poll<Option<Result<Frame<Bytes>, BodyBroken>>> {
        self.ended = true;
        let cut = self.live().take();
        drop(cut);
        Poll::Ready(Some(Err(why)))
    }

    fn clean(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        let frame = match frame.into_trailers() {
            Ok(trailers) => {
                let kept = headers::kept(&trailers, |name, _| headers::may_be_trailer(name));
                return Frame::trailers(match &self.scrubber {
                    Some(scrubber) => scrubber.headers(kept),
                    None => kept,
                });
            }
            Err(frame) => frame,
        };
        match (&mut self.filter, frame.into_data()) {
            (Some(filter), Ok(chunk)) => Frame::data(filter.push(chunk)),
            (None, Ok(chunk)) => Frame::data(chunk),
            (_, Err(frame)) => frame,
        }
    }

    /// Whether the upstream has been silent for too long.
    fn is_silent(&mut self, context: &mut Context<'_>) -> bool {
        let (activity, idle) = (&self.activity, self.idle);
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(activity.deadline(idle))));
        while timer.as_mut().poll(context).is_ready() {
            let deadline = activity.deadline(idle);
            if deadline <= tokio::time::Instant::now() {
                return true;
            }
            timer.as_mut().reset(deadline);
        }
        false
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyBroken>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let polled = match self.live().as_mut() {
            Some(live) => Pin::new(&mut live.incoming)
                .poll_frame(context)
                .map(|frame| (frame, live.incoming.is_end_stream())),
            None => Poll::Ready((None, false)),
        };
        match polled {
            Poll::Ready((Some(Ok(frame)), last)) => {
                self.activity.touch();
                let frame = self.clean(frame);
                if last && self.filter.is_none() {
                    self.finish();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready((Some(Err(_)), _)) => self.fail(BodyBroken::Upstream),
            Poll::Ready((None, _)) if self.live().is_none() => self.fail(BodyBroken::Revoked),
            Poll::Ready((None, _)) => {
                self.finish();
                let rest = self.filter.take().map(|mut filter| filter.finish());
                Poll::Ready(
                    rest.filter(|rest| !rest.is_empty())
                        .map(|rest| Ok(Frame::data(rest))),
                )
            }
            Poll::Pending if Pin::new(&mut self.revoked).poll(context).is_ready() => {
                self.fail(BodyBroken::Revoked)
            }
            Poll::Pending if self.is_silent(context) => self.fail(BodyBroken::Silent),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Waits for the end of the upload; false when it stands still for too long.
async fn until_uploaded(activity: &Activity, idle: Duration) -> bool {
    loop {
        let deadline = activity.deadline(idle);
        tokio::select! {
            () = activity.until_uploaded() => return true,
            () = tokio::time::sleep_until(deadline) => {
                if activity.deadline(idle) <= deadline {
                    return false;
                }
            }
        }
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        let ended = self
            .live()
            .as_ref()
            .is_some_and(|live| live.incoming.is_end_stream());
        if ended && !self.ended {
            self.finish();
        }
        // Otherwise whoever read this went away: letting go of the connection
        // cancels the upstream.
        let cut = self.live().take();
        drop(cut);
    }
}

impl Body for RelayBody {
    type Data = Bytes;
    type Error = BodyBroken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyBroken>>> {
        match &mut self.0 {
            Some(streaming) => streaming.poll(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(|streaming| streaming.ended)
    }

    fn size_hint(&self) -> SizeHint {
        let Some(streaming) = &self.0 else {
            return SizeHint::with_exact(0);
        };
        if streaming.filter.is_some() || streaming.ended {
            return SizeHint::default();
        }
        match streaming.live().as_ref() {
            Some(live) => live.incoming.size_hint(),
            None => SizeHint::default(),
        }
    }
}
