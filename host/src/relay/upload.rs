//! The request's body on its way to the upstream, frame by frame: who may stop
//! it, and what its trailers may carry. Nothing is polled before the upstream's
//! connection is ready, so a box that waits for `100 Continue` gets it then.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};

use crate::relay::BoxError;
use crate::relay::stand_in::basic;
use crate::rules::headers;
use crate::rules::scrub::Matcher;
use crate::rules::token::holds_token_shape;

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
    failed: AtomicBool,
    finished: CancellationToken,
}

impl Activity {
    fn new() -> Self {
        Self {
            started: Instant::now(),
            last: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            finished: CancellationToken::new(),
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

    /// Whether the box's body broke off.
    pub(super) fn upload_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Whether nothing is left to send.
    pub(super) fn upload_finished(&self) -> bool {
        self.finished.is_cancelled()
    }

    /// Waits until nothing is left to send.
    pub(super) async fn until_uploaded(&self) {
        self.finished.cancelled().await;
    }
}

/// What a request's trailers may not carry.
pub(super) struct TrailerRules {
    pub(super) credential_headers: Vec<HeaderName>,
    pub(super) token: Arc<Matcher>,
}

impl TrailerRules {
    fn clean(&self, trailers: &HeaderMap) -> HeaderMap {
        headers::kept(trailers, |name, value| {
            headers::may_be_trailer(name)
                && !self.credential_headers.contains(name)
                && !holds_token_shape(name.as_str().as_bytes())
                && !self.holds_token(value.as_bytes())
        })
    }

    /// Whether a value holds this box's token, or anything of that shape.
    fn holds_token(&self, value: &[u8]) -> bool {
        let stands = |text: &[u8]| self.token.finds(text) || holds_token_shape(text);
        stands(value) || basic(value).is_some_and(|inside| stands(&inside))
    }
}

/// The body that hyper sends.
pub(super) struct Upload {
    body: RequestBody,
    activity: Arc<Activity>,
    stop: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    trailers: Option<Arc<TrailerRules>>,
    _finished: DropGuard,
}

impl Upload {
    /// Wraps a body. Dropping the guard stops an upload that still goes on.
    pub(super) fn new(
        body: RequestBody,
        trailers: Option<Arc<TrailerRules>>,
    ) -> (Self, Arc<Activity>, DropGuard) {
        let activity = Arc::new(Activity::new());
        let stop = CancellationToken::new();
        let watched = matches!(body.0, Kind::Stream(_));
        let upload = Self {
            body,
            stop: watched.then(|| Box::pin(stop.clone().cancelled_owned())),
            trailers,
            _finished: activity.finished.clone().drop_guard(),
            activity: activity.clone(),
        };
        (upload, activity, stop.drop_guard())
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
        let stopped = match &mut this.stop {
            Some(stop) => stop.as_mut().poll(context).is_ready(),
            None => false,
        };
        if stopped {
            return Poll::Ready(Some(Err("the request was cancelled".into())));
        }
        let frame = match &mut this.body.0 {
            Kind::Empty => None,
            Kind::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                this.body.0 = Kind::Empty;
                Some(Ok(Frame::data(bytes)))
            }
            Kind::Stream(body) => ready!(body.as_mut().poll_frame(context)),
        };
        this.activity.touch();
        Poll::Ready(match frame {
            Some(Ok(frame)) => Some(Ok(match frame.into_trailers() {
                Ok(trailers) => Frame::trailers(match &this.trailers {
                    Some(rules) => rules.clean(&trailers),
                    None => HeaderMap::new(),
                }),
                Err(frame) => frame,
            })),
            Some(Err(error)) => {
                this.activity.failed.store(true, Ordering::Relaxed);
                Some(Err(error))
            }
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        match &self.body.0 {
            Kind::Empty => true,
            Kind::Full(_) => false,
            Kind::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body.0 {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Full(bytes) => {
                SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or(u64::MAX))
            }
            Kind::Stream(body) => body.size_hint(),
        }
    }
}
