//! The two bodies of a connection: the one that comes in, and the one that
//! goes out. While one of them lives, a request is in flight.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

use crate::listen::BoxError;
use crate::listen::traffic::Flight;

/// A request's body. It remembers whether it was read to its end, since an
/// answer given before that must close the connection.
pub struct InboundBody {
    /// None once it was read to its end.
    incoming: Option<Incoming>,
    flight: Option<Arc<Flight>>,
}

impl InboundBody {
    pub(super) fn new(incoming: Incoming, flight: Arc<Flight>) -> Self {
        if incoming.is_end_stream() {
            return Self {
                incoming: None,
                flight: None,
            };
        }
        Self {
            incoming: Some(incoming),
            flight: Some(flight),
        }
    }
}

impl Drop for InboundBody {
    fn drop(&mut self) {
        let unread = self
            .incoming
            .as_ref()
            .is_some_and(|body| !body.is_end_stream());
        if let (true, Some(flight)) = (unread, &self.flight) {
            flight.left_unread();
        }
    }
}

impl Body for InboundBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(incoming) = &mut self.incoming else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(incoming).poll_frame(context));
        if frame.is_none() {
            self.incoming = None;
            self.flight = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.incoming {
            Some(incoming) => incoming.size_hint(),
            None => SizeHint::with_exact(0),
        }
    }
}

/// The body of an answer.
pub struct ResponseBody(Kind);

enum Kind {
    Full(Full<Bytes>),
    Stream(UnsyncBoxBody<Bytes, BoxError>),
}

impl ResponseBody {
    /// No body.
    #[must_use]
    pub fn empty() -> Self {
        Self::full(Bytes::new())
    }

    /// A body that is all here.
    #[must_use]
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Full(Full::new(bytes.into())))
    }

    /// A body that is still coming. An error of it is shown to the peer as a
    /// broken answer.
    pub fn stream<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Kind::Stream(UnsyncBoxBody::new(body.map_err(Into::into))))
    }
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        Self::full(bytes)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Kind::Full(body) => Pin::new(body)
                .poll_frame(context)
                .map_err(|never| match never {}),
            Kind::Stream(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Full(body) => body.is_end_stream(),
            Kind::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Full(body) => body.size_hint(),
            Kind::Stream(body) => body.size_hint(),
        }
    }
}

/// An answer's body on its connection.
pub(super) struct Outbound {
    pub(super) body: ResponseBody,
    pub(super) _flight: Arc<Flight>,
}

impl Body for Outbound {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
