//! The answer's body on its way to the box: cleaned where a value was sealed
//! in, else untouched; with an idle limit, a lease that can be cut, and an end
//! that is clean only when the upstream's was.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::relay::cleaner::Cleaner;
use crate::relay::failure::BodyBroken;
use crate::relay::pool::Checkout;
use crate::relay::scrubber::Scrubber;
use crate::relay::silence::Silence;
use crate::relay::tether::Tether;
use crate::relay::upload::{Activity, StopUpload};
use crate::rules::{codings, headers};

/// An answer's body, streamed from the upstream.
pub struct RelayBody(Option<Box<Streaming>>);

struct Streaming {
    tether: Tether<Live>,
    activity: Arc<Activity>,
    silence: Silence,
    scrubber: Option<Arc<Scrubber>>,
    cleaner: Option<Cleaner>,
    /// Trailers that leave after the rest of the body.
    trailers: Option<HeaderMap>,
    stage: Stage,
}

/// How far the answer has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The upstream is sending.
    Receive,
    /// All of it has come, and not all of it has left.
    Drain,
    /// It has ended, one way or the other.
    End,
}

/// What holds the upstream: letting go of it cancels both directions.
pub(super) struct Live {
    incoming: Incoming,
    checkout: Checkout,
    stop_upload: StopUpload,
}

impl Live {
    fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut incoming = Pin::new(&mut self.incoming);
        let frame = incoming.as_mut().poll_frame(context);
        if frame.is_ready() {
            return frame;
        }
        // It is the connection that brings it, once it knows that it is wanted.
        self.checkout.poll(context);
        incoming.poll_frame(context)
    }
}

/// What a streaming body needs beside the answer itself.
pub(super) struct Ties {
    pub(super) checkout: Checkout,
    pub(super) tether: Tether<Live>,
    pub(super) activity: Arc<Activity>,
    pub(super) silence: Silence,
    pub(super) stop_upload: StopUpload,
    pub(super) scrubber: Option<Arc<Scrubber>>,
    pub(super) cleaner: Option<Cleaner>,
}

impl RelayBody {
    pub(super) fn new(incoming: Incoming, ties: Ties) -> Self {
        let empty = incoming.is_end_stream();
        ties.tether.open(Live {
            incoming,
            checkout: ties.checkout,
            stop_upload: ties.stop_upload,
        });
        let mut streaming = Box::new(Streaming {
            tether: ties.tether,
            activity: ties.activity,
            silence: ties.silence,
            scrubber: ties.scrubber,
            cleaner: ties.cleaner,
            trailers: None,
            stage: Stage::Receive,
        });
        if empty {
            streaming.received();
            return Self(None);
        }
        Self(Some(streaming))
    }
}

impl Streaming {
    /// The answer was received to its end: the connection may be used again,
    /// once the request has gone out to its end too.
    fn received(&mut self) {
        self.stage = Stage::Drain;
        if let Some(cleaner) = &mut self.cleaner {
            cleaner.end();
        }
        let live = self.tether.slot().take();
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
        let (activity, mut silence) = (self.activity.clone(), self.silence.again());
        // The body may be gone long before the upload is.
        let cut = self.tether.lease().cancelled();
        tokio::spawn(async move {
            let uploaded = tokio::select! {
                () = cut => false,
                uploaded = silence.or(activity.until_uploaded()) => uploaded.is_some(),
            };
            if uploaded {
                checkout.give_back();
            }
            drop(stop_upload);
        });
    }

    fn fail(&mut self, why: BodyBroken) -> Poll<Option<Result<Frame<Bytes>, BodyBroken>>> {
        self.stage = Stage::End;
        let cut = self.tether.slot().take();
        drop(cut);
        Poll::Ready(Some(Err(why)))
    }

    fn clean_trailers(&self, trailers: &HeaderMap) -> HeaderMap {
        let decoded = self.cleaner.as_ref().is_some_and(Cleaner::decodes);
        let kept = headers::kept(trailers, |name, _| {
            headers::may_be_trailer(name) && !(decoded && codings::is_digest(name))
        });
        match &self.scrubber {
            Some(scrubber) => scrubber.headers(kept),
            None => kept,
        }
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyBroken>>> {
        loop {
            match self.stage {
                Stage::Receive | Stage::Drain if self.tether.is_cut() => {
                    return self.fail(BodyBroken::Revoked);
                }
                Stage::Receive | Stage::Drain => {}
                Stage::End => return Poll::Ready(None),
            }
            match self.cleaner.as_mut().map_or(Ok(None), Cleaner::next) {
                Ok(Some(piece)) => return Poll::Ready(Some(Ok(self.leave(piece)))),
                Ok(None) => {}
                Err(why) => return self.fail(why.into()),
            }
            if self.stage == Stage::Drain {
                self.stage = Stage::End;
                let trailers = self.trailers.take();
                return Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))));
            }
            let received = ready!(self.poll_upstream(context));
            match received {
                Ok(Some(frame)) => {
                    if let Some(frame) = self.take(frame) {
                        return Poll::Ready(Some(Ok(frame)));
                    }
                }
                Ok(None) => self.received(),
                Err(why) => return self.fail(why),
            }
        }
    }

    /// A piece that leaves. Whether it is the last is told with it, where that
    /// is known.
    fn leave(&mut self, piece: Bytes) -> Frame<Bytes> {
        let done = self.cleaner.as_ref().is_none_or(Cleaner::is_done);
        if self.stage == Stage::Drain && done && self.trailers.is_none() {
            self.stage = Stage::End;
        }
        Frame::data(piece)
    }

    /// Takes a frame of the upstream's in; gives what can leave at once.
    fn take(&mut self, (frame, last): (Frame<Bytes>, bool)) -> Option<Frame<Bytes>> {
        self.activity.touch();
        let piece = match frame.into_data() {
            Ok(piece) => Some(piece),
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    self.trailers = Some(self.clean_trailers(&trailers));
                }
                None
            }
        };
        match (&mut self.cleaner, piece) {
            (Some(cleaner), Some(piece)) => {
                cleaner.push(piece);
                if last {
                    self.received();
                }
                None
            }
            (None, Some(piece)) => {
                if last {
                    self.received();
                }
                Some(self.leave(piece))
            }
            (_, None) => {
                if last {
                    self.received();
                }
                None
            }
        }
    }

    fn poll_upstream(&mut self, context: &mut Context<'_>) -> Poll<Received> {
        let polled = match self.tether.slot().as_mut() {
            Some(live) => live
                .poll_frame(context)
                .map(|frame| (frame, live.incoming.is_end_stream())),
            None => return Poll::Ready(Err(BodyBroken::Revoked)),
        };
        match polled {
            Poll::Ready((Some(Ok(frame)), last)) => Poll::Ready(Ok(Some((frame, last)))),
            Poll::Ready((Some(Err(_)), _)) => Poll::Ready(Err(BodyBroken::Upstream)),
            Poll::Ready((None, _)) => Poll::Ready(Ok(None)),
            Poll::Pending if self.tether.poll_cut(context).is_ready() => {
                Poll::Ready(Err(BodyBroken::Revoked))
            }
            Poll::Pending => self.silence.poll(context).map(|()| Err(BodyBroken::Silent)),
        }
    }
}

/// A frame of the upstream's and whether it is the last; none at the end.
type Received = Result<Option<(Frame<Bytes>, bool)>, BodyBroken>;

impl Drop for Streaming {
    fn drop(&mut self) {
        let ended = self
            .tether
            .slot()
            .as_ref()
            .is_some_and(|live| live.incoming.is_end_stream());
        if ended && self.stage == Stage::Receive {
            self.received();
        }
        // Otherwise whoever read this went away: letting go of the connection
        // cancels the upstream.
        let cut = self.tether.slot().take();
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
        self.0
            .as_ref()
            .is_none_or(|streaming| streaming.stage == Stage::End)
    }

    fn size_hint(&self) -> SizeHint {
        let Some(streaming) = &self.0 else {
            return SizeHint::with_exact(0);
        };
        // A replacement is not as long as what it replaces.
        if streaming.cleaner.is_some() {
            return SizeHint::default();
        }
        match streaming.tether.slot().as_ref() {
            Some(live) => live.incoming.size_hint(),
            None => SizeHint::default(),
        }
    }
}
