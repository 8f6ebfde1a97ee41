//! The request's body on its way to the upstream, frame by frame, guarded by
//! `upload_guard.rs`, and who may stop it. Nothing is polled before the upstream's
//! connection is ready, so a box that waits for `100 Continue` gets it then.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::relay::BoxError;
use crate::relay::upload_guard::{Guard, UploadFault, UploadRules};

/// A request's body, as the journey hands it over.
pub struct RequestBody(Kind);

enum Kind {
    Empty,
    Full(Bytes),
    Stream(Pin<Box<dyn Body<Data = Bytes, Error = BoxError> + Send>>),
}

impl RequestBody {
    /// No body.
    #[must_use]
    pub fn empty() -> Self {
        Self(Kind::Empty)
    }

    /// A body that is all here.
    #[must_use]
    pub fn full(bytes: Bytes) -> Self {
        if bytes.is_empty() {
            return Self::empty();
        }
        Self(Kind::Full(bytes))
    }

    /// A body that is still coming.
    pub fn stream<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        if body.is_end_stream() {
            return Self::empty();
        }
        Self(Kind::Stream(Box::pin(http_body_util::BodyExt::map_err(
            body,
            Into::into,
        ))))
    }
}

/// When something last moved, and what became of the upload: shared between
/// both directions of one request.
pub(super) struct Activity {
    started: Instant,
    last: AtomicU64,
    fault: OnceLock<UploadFault>,
    has_finished: AtomicBool,
    finished: Notify,
    is_stopped: AtomicBool,
    uploading: AtomicWaker,
}

impl Activity {
    fn new() -> Self {
        Self {
            started: Instant::now(),
            last: AtomicU64::new(0),
            fault: OnceLock::new(),
            has_finished: AtomicBool::new(false),
            finished: Notify::new(),
            is_stopped: AtomicBool::new(false),
            uploading: AtomicWaker::new(),
        }
    }

    /// Something moved.
    pub(super) fn touch(&self) {
        let since = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(since, Ordering::Relaxed);
    }

    /// When the idle limit runs out, if nothing moves until then.
    pub(super) fn deadline(&self, idle: Duration) -> Instant {
        self.started + Duration::from_millis(self.last.load(Ordering::Relaxed)) + idle
    }

    /// Why the box's body was not sent to its end.
    pub(super) fn upload_fault(&self) -> Option<UploadFault> {
        self.fault.get().copied()
    }

    /// Whether nothing is left to send.
    pub(super) fn upload_finished(&self) -> bool {
        self.has_finished.load(Ordering::Acquire)
    }

    /// Waits until nothing is left to send.
    pub(super) async fn until_uploaded(&self) {
        // Enabled before the look: an end in between is not missed.
        let mut finished = std::pin::pin!(self.finished.notified());
        finished.as_mut().enable();
        if !self.upload_finished() {
            finished.await;
        }
    }

    /// Whether the upload is to end; if not, that wakes this task.
    fn poll_stopped(&self, context: &Context<'_>) -> Poll<()> {
        if !self.is_stopped.load(Ordering::Acquire) {
            self.uploading.register(context.waker());
        }
        if self.is_stopped.load(Ordering::Acquire) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

/// Stops an upload that still goes on when it is dropped.
pub(super) struct StopUpload(Arc<Activity>);

impl Drop for StopUpload {
    fn drop(&mut self) {
        self.0.is_stopped.store(true, Ordering::Release);
        self.0.uploading.wake();
    }
}

/// The body that hyper sends.
pub(super) struct Upload {
    body: RequestBody,
    activity: Arc<Activity>,
    guard: Guard,
    /// Trailers that leave after the rest of the body.
    trailers: Option<HeaderMap>,
}

impl Upload {
    /// Wraps a body. Dropping the third stops an upload that still goes on.
    pub(super) fn new(
        body: RequestBody,
        rules: Arc<UploadRules>,
    ) -> (Self, Arc<Activity>, StopUpload) {
        let activity = Arc::new(Activity::new());
        let upload = Self {
            body,
            guard: Guard::new(rules),
            trailers: None,
            activity: activity.clone(),
        };
        let stop = StopUpload(activity.clone());
        (upload, activity, stop)
    }

    fn poll_received(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.body.0 {
            Kind::Empty => Poll::Ready(None),
            Kind::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                self.body.0 = Kind::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Kind::Stream(body) => body.as_mut().poll_frame(context),
        }
    }

    /// Takes a frame in; gives what can leave now.
    fn take(&mut self, frame: Frame<Bytes>) -> Result<Option<Frame<Bytes>>, UploadFault> {
        let frame = match frame.into_data() {
            Ok(piece) => {
                let piece = self.guard.push(piece)?;
                return Ok((!piece.is_empty()).then(|| Frame::data(piece)));
            }
            Err(frame) => frame,
        };
        if let Ok(trailers) = frame.into_trailers() {
            self.trailers = Some(self.guard.clean_trailers(&trailers));
        }
        self.end()
    }

    /// The body has come to its end; gives what is left of it.
    fn end(&mut self) -> Result<Option<Frame<Bytes>>, UploadFault> {
        self.body.0 = Kind::Empty;
        let rest = self.guard.finish()?;
        if !rest.is_empty() {
            return Ok(Some(Frame::data(rest)));
        }
        Ok(self.trailers.take().map(Frame::trailers))
    }

    fn fail(&self, fault: UploadFault) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        // The first fault is the cause of what follows.
        let _ = self.activity.fault.set(fault);
        Poll::Ready(Some(Err(fault.into())))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.activity.has_finished.store(true, Ordering::Release);
        self.activity.finished.notify_waiters();
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let watched = matches!(this.body.0, Kind::Stream(_));
        if watched && this.activity.poll_stopped(context).is_ready() {
            return Poll::Ready(Some(Err("the request was cancelled".into())));
        }
        loop {
            let received = ready!(this.poll_received(context));
            this.activity.touch();
            let ended = received.is_none();
            let given = match received {
                Some(Ok(frame)) => this.take(frame),
                Some(Err(error)) => {
                    let _ = this.activity.fault.set(UploadFault::BrokenOff);
                    return Poll::Ready(Some(Err(error)));
                }
                None => this.end(),
            };
            match given {
                Ok(None) if !ended => {}
                Ok(frame) => return Poll::Ready(frame.map(Ok)),
                Err(fault) => return this.fail(fault),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        if self.guard.held() > 0 || self.trailers.is_some() {
            return false;
        }
        match &self.body.0 {
            Kind::Empty => true,
            Kind::Full(_) => false,
            Kind::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.guard.held();
        let exact = |bytes: usize| SizeHint::with_exact(u64::try_from(bytes).unwrap_or(u64::MAX));
        match &self.body.0 {
            Kind::Empty => exact(held),
            Kind::Full(bytes) => exact(bytes.len() + held),
            // What is overwritten keeps its length.
            Kind::Stream(body) => body.size_hint(),
        }
    }
}
