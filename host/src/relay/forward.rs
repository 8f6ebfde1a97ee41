//! One request to an upstream, and its answer back: which connection, what is
//! retried (nothing of which a byte was sent), and what of the answer's head is
//! handed on.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING};
use http::response::Parts;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version,
};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;

use crate::lease::Lease;
use crate::relay::Relay;
use crate::relay::body::{Live, RelayBody, Ties};
use crate::relay::cleaner::Cleaner;
use crate::relay::connect::Place;
use crate::relay::failure::RelayFailure;
use crate::relay::pool::Checkout;
use crate::relay::seal::SealedRequest;
use crate::relay::silence::Silence;
use crate::relay::tether::Tether;
use crate::relay::upload::{Activity, RequestBody, StopUpload, Upload};
use crate::relay::upload_guard::UploadFault;
use crate::rules::origin::Scheme;
use crate::rules::{codings, headers};

/// What HTTP/2 has no place for: it says it otherwise (RFC 9113, 8.2.2).
const OF_HTTP1: [HeaderName; 3] = [HOST, CONNECTION, TRANSFER_ENCODING];

/// An answer whose head has been read.
pub(super) struct Answered {
    pub(super) response: Response<Incoming>,
    pub(super) checkout: Checkout,
    pub(super) activity: Arc<Activity>,
    pub(super) silence: Silence,
    pub(super) stop_upload: StopUpload,
}

impl Relay {
    /// Sends a request and streams the answer back. Dropping the future or the
    /// answer's body cancels the upstream; so does the lease, which the box
    /// sees as a broken answer.
    ///
    /// # Errors
    /// When there is no answer to hand on.
    pub async fn forward(
        &self,
        mut sealed: SealedRequest,
        body: RequestBody,
        lease: Lease,
    ) -> Result<Response<RelayBody>, RelayFailure> {
        let tether = Tether::to(lease);
        let line = tether.line();
        let answered = tokio::select! {
            biased;
            () = line.until_cut() => return Err(RelayFailure::Revoked),
            answered = self.send(&mut sealed, body) => answered?,
        };
        hand_on(sealed, answered, tether)
    }

    /// Sends a request and reads the answer's head.
    pub(super) async fn send(
        &self,
        sealed: &mut SealedRequest,
        body: RequestBody,
    ) -> Result<Answered, RelayFailure> {
        let (upload, activity, stop_upload) = Upload::new(body, sealed.upload_rules.clone());
        let mut silence = Silence::new(activity.clone(), self.idle());
        let mut checkout = self.connection(sealed, true).await?;
        let first = request(sealed, upload, &checkout);
        let mut sending = sent_on(&mut checkout, first);
        let response = loop {
            let reused = checkout.reused();
            // What was received or read meanwhile does not count for the wait.
            activity.touch();
            let outcome = match &mut checkout {
                Checkout::Http1(one) => silence.or(one.drive.until(&mut sending)).await,
                Checkout::Http2(_) => silence.or(&mut sending).await,
            };
            let unsent = match outcome {
                None => return Err(RelayFailure::Silent),
                Some(Ok(response)) => break response,
                Some(Err(mut error)) => error.take_message().map(Box::new),
            };
            // Handed back whole: not a byte of it was sent, and the kept
            // connection had ended. A new one is tried, once.
            if let (true, Some(unsent)) = (reused, unsent) {
                checkout = self.connection(sealed, false).await?;
                let again = framed(*unsent, sealed, &checkout);
                sending = sent_on(&mut checkout, again);
            } else {
                return Err(match activity.upload_fault() {
                    Some(UploadFault::BrokenOff) => RelayFailure::RequestBroken,
                    Some(UploadFault::Token) => RelayFailure::TokenInBody,
                    Some(UploadFault::Undecodable) => RelayFailure::RequestUndecodable,
                    None => RelayFailure::Broken,
                });
            }
        };
        refuse_unreadable(&response)?;
        // The upload must not wait for somebody to read the answer.
        if !activity.upload_finished() {
            checkout.leave();
        }
        Ok(Answered {
            response,
            checkout,
            activity,
            silence,
            stop_upload,
        })
    }

    async fn connection(
        &self,
        sealed: &SealedRequest,
        may_reuse: bool,
    ) -> Result<Checkout, RelayFailure> {
        let pool = self.pool();
        let kept = || may_reuse.then(|| pool.checkout(&sealed.key)).flatten();
        if let Some(checkout) = kept() {
            return Ok(checkout);
        }
        // On the heap: it would make every request larger that carries it.
        Box::pin(self.new_connection(sealed, kept)).await
    }

    async fn new_connection(
        &self,
        sealed: &SealedRequest,
        kept: impl Fn() -> Option<Checkout>,
    ) -> Result<Checkout, RelayFailure> {
        let pool = self.pool();
        // Many requests at once make one shared connection, not many.
        let _turn = match sealed.key.origin.scheme {
            Scheme::Http => None,
            Scheme::Https => pool.turn(&sealed.key, self.connector().timeout).await,
        };
        if let Some(checkout) = kept() {
            return Ok(checkout);
        }
        let dialed = self
            .connector()
            .dial(Place {
                origin: &sealed.key.origin,
                allow_private: sealed.key.allow_private,
                extra_ca: sealed.extra_ca.as_deref(),
            })
            .await?;
        pool.adopt(&sealed.key, dialed).await
    }
}

/// The answer as the box gets it: its head now, its body as it comes.
fn hand_on(
    sealed: SealedRequest,
    answered: Answered,
    tether: Tether<Live>,
) -> Result<Response<RelayBody>, RelayFailure> {
    let (head, incoming) = answered.response.into_parts();
    let instead = sealed
        .substitutions
        .iter()
        .find(|(status, _)| *status == head.status);
    if let Some((_, refusal)) = instead {
        return Err(RelayFailure::Substituted(Box::new(refusal.clone())));
    }
    let cleaner = cleaner(&sealed, &head, &incoming)?;
    let headers = passed_headers(&sealed, &head.headers, cleaner.as_ref());
    let mut response = Response::new(RelayBody::new(
        incoming,
        Ties {
            checkout: answered.checkout,
            tether,
            activity: answered.activity,
            silence: answered.silence,
            stop_upload: answered.stop_upload,
            scrubber: sealed.scrubber.clone(),
            cleaner,
        },
    ));
    *response.status_mut() = head.status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// A request on its way. On the heap: each hand that it goes through would make
/// room for it twice.
type Sending = Pin<Box<dyn Future<Output = Sent> + Send>>;

/// The head of its answer; or why there is none, with the request where not a
/// byte of it was sent.
type Sent = Result<Response<Incoming>, TrySendError<Request<Upload>>>;

fn sent_on(checkout: &mut Checkout, request: Request<Upload>) -> Sending {
    match checkout {
        Checkout::Http1(one) => Box::pin(one.sender.try_send_request(request)),
        Checkout::Http2(two) => Box::pin(two.sender.try_send_request(request)),
    }
}

fn request(sealed: &mut SealedRequest, upload: Upload, checkout: &Checkout) -> Request<Upload> {
    let mut request = Request::new(upload);
    *request.method_mut() = sealed.method.clone();
    *request.headers_mut() = std::mem::take(&mut sealed.headers);
    framed(request, sealed, checkout)
}

/// Addresses and frames a request for the version that the connection speaks.
fn framed(
    mut request: Request<Upload>,
    sealed: &SealedRequest,
    checkout: &Checkout,
) -> Request<Upload> {
    let origin = &sealed.key.origin;
    let (streams, known, empty) = {
        let body = request.body();
        let known = body.size_hint().exact().is_some();
        (!body.is_end_stream(), known, body.is_end_stream())
    };
    let method = request.method().clone();
    let http2 = matches!(checkout, Checkout::Http2(_));
    let mut uri = http::uri::Parts::default();
    uri.path_and_query = Some(sealed.target.clone());
    if http2 {
        uri.scheme = origin.scheme.as_str().parse().ok();
        uri.authority = origin.authority().parse().ok();
    }
    // Scheme and authority come from a parsed origin; a path alone is a URI.
    *request.uri_mut() = Uri::from_parts(uri).unwrap_or_else(|_| sealed.target.clone().into());
    *request.version_mut() = if http2 {
        Version::HTTP_2
    } else {
        Version::HTTP_11
    };
    let headers = request.headers_mut();
    // A request that was handed back brings the framing of its first try, which
    // may have been for the other version.
    if http2 {
        *headers = headers::kept(headers, |name, _| !OF_HTTP1.contains(name));
    } else {
        if !headers.contains_key(HOST)
            && let Ok(host) = HeaderValue::from_str(&origin.authority())
        {
            headers.insert(HOST, host);
        }
        if streams && !known {
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        if sealed.takes_trailers {
            headers.insert(CONNECTION, HeaderValue::from_static("te"));
        }
    }
    if empty && [Method::POST, Method::PUT, Method::PATCH].contains(&method) {
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    if sealed.takes_trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    if let (Some(trailer), true) = (&sealed.trailer, streams && !known) {
        headers.insert(TRAILER, trailer.clone());
    }
    request
}

fn refuse_unreadable(response: &Response<Incoming>) -> Result<(), RelayFailure> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(RelayFailure::Unreadable("it switched protocols"));
    }
    if !headers::is_plainly_framed(response.headers()) {
        return Err(RelayFailure::Unreadable(
            "it uses a transfer coding other than chunked",
        ));
    }
    Ok(())
}

/// What cleans an answer's body: nothing where no value was sealed in.
pub(super) fn cleaner(
    sealed: &SealedRequest,
    head: &Parts,
    body: &Incoming,
) -> Result<Option<Cleaner>, RelayFailure> {
    let Some(scrubber) = &sealed.scrubber else {
        return Ok(None);
    };
    if codings::is_part(head.status, &head.headers) {
        return Err(RelayFailure::Unreadable(
            "it is a part, for which nobody asked",
        ));
    }
    match codings::content_codings(&head.headers) {
        Ok(codings) => Ok(Some(Cleaner::new(scrubber, &codings))),
        // An answer to HEAD, a 204, a 304: nothing is there to be decoded.
        Err(_) if body.is_end_stream() => Ok(Some(Cleaner::new(scrubber, &[]))),
        Err(_) => Err(RelayFailure::Unreadable(
            "its content coding is none of gzip, deflate, br and zstd, so it cannot be searched",
        )),
    }
}

/// The answer's headers that are handed on, scrubbed.
pub(super) fn passed_headers(
    sealed: &SealedRequest,
    received: &HeaderMap,
    cleaner: Option<&Cleaner>,
) -> HeaderMap {
    let decoded = cleaner.is_some_and(Cleaner::decodes);
    let hop = headers::connection_names(received);
    let mut passed = headers::kept(received, |name, _| {
        !headers::is_hop_by_hop(name)
            && !headers::is_ours(name)
            && !hop.contains(name)
            && (sealed.cookies || *name != SET_COOKIE)
    });
    if cleaner.is_some() {
        codings::say_searched(&mut passed);
    }
    if decoded {
        codings::say_decoded(&mut passed);
    }
    headers::edit(&mut passed, &sealed.response_edits);
    if let Some(scrubber) = &sealed.scrubber {
        passed = scrubber.headers(passed);
    }
    let repeats = |names: &HeaderValue| {
        let scrubber = sealed.scrubber.as_ref();
        scrubber.is_some_and(|scrubber| scrubber.is_named_in(names.as_bytes()))
    };
    if let Some(trailer) = headers::trailer_announcement(received).filter(|names| !repeats(names)) {
        passed.insert(TRAILER, trailer);
    }
    // Of what would be decoded, nobody knows the length.
    if sealed.method == Method::HEAD
        && !decoded
        && let Some(length) = headers::spoken_length(received)
    {
        passed.insert(CONTENT_LENGTH, length);
    }
    passed
}
