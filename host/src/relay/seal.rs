//! Sealing a request: what the upstream will receive, with the credential in
//! it. The one file that reveals a secret into a request. It sends nothing,
//! and what it makes can be neither printed nor copied.

use std::sync::Arc;

use http::header::{AUTHORIZATION, COOKIE, EXPECT, HOST, PROXY_AUTHORIZATION};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use zeroize::Zeroizing;

use crate::relay::failure::SealRefusal;
use crate::relay::pool::PoolKey;
use crate::relay::scrubber::Scrubber;
use crate::relay::stand_in::{set_in_query, swap_in_header, swap_in_query};
use crate::relay::tls::ExtraCa;
use crate::relay::upload_guard::UploadRules;
use crate::relay::{Destination, OpenValue, OpenedValue};
use crate::rules::allow::allows;
use crate::rules::codings::{self, Coding};
use crate::rules::headers;
use crate::rules::identify::decoded_basic;
use crate::rules::plan::{Call, CredentialKey, Edit, Forward, Outbound, Placement};
use crate::rules::plan_check::Checked;
use crate::rules::refusal::Refusal;
use crate::rules::scrub::{Matcher, percent_encoded};
use crate::rules::token::{BoxToken, TOKEN_LENGTH, holds_token_shape};

/// What RFC 3986 lets stand unencoded anywhere.
const UNRESERVED: &[u8] = b"-_.~";

/// How many headers may be added to address and frame a request.
const FRAMING: usize = 6;

/// What stands for a token when a head is searched for what is left of it.
const BLANK: &[u8] = b"*";

/// What a plugin reads where an answer repeated a value: never a token.
const HIDDEN: &[u8] = b"********";

/// What may pass besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeaderPolicy {
    /// Cookies pass, both ways.
    pub cookies: bool,
}

/// The token that a request shows, and what finds it in any form.
pub struct ShownToken<'caller> {
    /// The token.
    pub token: &'caller BoxToken,
    /// What finds it.
    pub finder: Arc<Matcher>,
}

/// A request with its credential in it. No `Debug` and no `Clone`: it is sent
/// once, or dropped.
pub struct SealedRequest {
    pub(super) method: Method,
    pub(super) target: PathAndQuery,
    /// With `Host` first and nothing else that frames the message.
    pub(super) headers: HeaderMap,
    /// The `Trailer` header to make anew, should the body have trailers.
    pub(super) trailer: Option<HeaderValue>,
    pub(super) takes_trailers: bool,
    pub(super) key: PoolKey,
    pub(super) extra_ca: Option<Arc<ExtraCa>>,
    pub(super) upload_rules: Arc<UploadRules>,
    pub(super) scrubber: Option<Arc<Scrubber>>,
    pub(super) response_edits: Vec<Edit>,
    pub(super) substitutions: Vec<(StatusCode, Refusal)>,
    pub(super) cookies: bool,
}

/// Seals a request that came from a box.
///
/// # Errors
/// When it may not be sent; the error says why, and nothing was sent.
pub fn seal_forward(
    forward: Checked<Forward>,
    destination: &Destination,
    head: &Parts,
    caller: &ShownToken<'_>,
    credential_headers: &[HeaderName],
    policy: HeaderPolicy,
    values: &(impl OpenValue + ?Sized),
) -> Result<SealedRequest, SealRefusal> {
    let forward = forward.into_inner();
    let draft = Draft::new(forward.outbound, destination, caller, &head.headers)?;
    let stand_in = draft.places_stand_in();
    let hop = headers::connection_names(&head.headers);
    let token = caller.token.as_str().as_bytes();
    let mut received = addressed(destination, head.headers.keys_len());
    headers::add_kept(&mut received, &head.headers, |name, value| {
        // `Connection` cannot take away the place where the value goes.
        let is_place = || stand_in && swap_in_header(value.as_bytes(), token, BLANK).is_some();
        is_passed(name, destination, policy.cookies)
            && (!hop.contains(name) || is_place())
            && (stand_in || !is_credential(name, credential_headers))
    });
    if head.version == http::Version::HTTP_2 {
        headers::join_cookies(&mut received);
    }
    let mut sealed = draft.seal(
        received,
        &forward.request_edits,
        credential_headers,
        values,
        token,
    )?;
    sealed.trailer = headers::trailer_announcement(&head.headers)
        .filter(|names| !holds_token_shape(names.as_bytes()));
    sealed.takes_trailers = headers::takes_trailers(&head.headers);
    sealed.response_edits = forward.response_edits;
    sealed.substitutions = forward.substitutions;
    sealed.cookies = policy.cookies;
    Ok(sealed)
}

/// Seals a call that the host makes on a plugin's behalf; its body is sent
/// beside it. Its answer goes to the plugin, so what repeats the value is
/// hidden, not turned into a token.
///
/// # Errors
/// When it may not be sent; the error says why, and nothing was sent.
pub fn seal_call(
    call: &Checked<Call>,
    destination: &Destination,
    caller: &ShownToken<'_>,
    credential_headers: &[HeaderName],
    values: &(impl OpenValue + ?Sized),
) -> Result<SealedRequest, SealRefusal> {
    let call = call.get();
    // A plugin was shown neither grants nor an encoded body.
    let received = HeaderMap::new();
    let draft = Draft::new(call.outbound.clone(), destination, caller, &received)?;
    let mut said = addressed(destination, call.headers.keys_len());
    headers::add_kept(&mut said, &call.headers, |name, _| {
        is_passed(name, destination, false) && !is_credential(name, credential_headers)
    });
    draft.seal(said, &[], credential_headers, values, HIDDEN)
}

/// A head that says whom it is for, first of all (RFC 9110, 7.2), with room for
/// so many headers, and for those that frame it.
fn addressed(destination: &Destination, room: usize) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(room + FRAMING);
    if let Ok(host) = HeaderValue::from_str(&destination.origin.authority()) {
        headers.insert(HOST, host);
    }
    headers
}

/// The grants that a request shows.
fn grants(received: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let shown = received.get_all(headers::CHANT_GRANT).into_iter();
    let values = shown.map(HeaderValue::as_bytes);
    values.filter(|value| value.len() == TOKEN_LENGTH && holds_token_shape(value))
}

/// Whether a header that was received is passed on at all.
fn is_passed(name: &HeaderName, destination: &Destination, cookies: bool) -> bool {
    !headers::is_hop_by_hop(name)
        && !headers::is_forwarding(name)
        && !headers::is_ours(name)
        && *name != HOST
        && *name != EXPECT
        && (cookies || *name != COOKIE)
        // Where methods are narrowed, no header may ask for another one.
        && (destination.allow.is_empty() || !headers::is_method_override(name))
}

fn is_credential(name: &HeaderName, credential_headers: &[HeaderName]) -> bool {
    *name == AUTHORIZATION || *name == PROXY_AUTHORIZATION || credential_headers.contains(name)
}

/// A request whose address and path are settled.
struct Draft<'a> {
    method: Method,
    path: String,
    query: Option<String>,
    credential: Option<(CredentialKey, Placement)>,
    destination: &'a Destination,
    token: &'a [u8],
    /// The token, and the grants that the request showed.
    hidden: Arc<Matcher>,
    /// How the request's body is encoded.
    codings: Vec<Coding>,
}

impl<'a> Draft<'a> {
    fn new(
        outbound: Outbound,
        destination: &'a Destination,
        caller: &ShownToken<'a>,
        received: &HeaderMap,
    ) -> Result<Self, SealRefusal> {
        let path = match destination.base_path.trim_end_matches('/') {
            "" => outbound.path,
            base => [base, &outbound.path].concat(),
        };
        if !path.starts_with('/') {
            return Err(SealRefusal::IllegalPlan("a path"));
        }
        if !allows(&destination.allow, &outbound.method, path.as_bytes()) {
            return Err(SealRefusal::NotAllowed);
        }
        let token = caller.token.as_str().as_bytes();
        let mut hidden = vec![token];
        hidden.extend(grants(received));
        let hidden = match hidden.as_slice() {
            [_] => caller.finder.clone(),
            more => Arc::new(Matcher::of(more).ok_or(SealRefusal::IllegalPlan("a token"))?),
        };
        Ok(Self {
            method: outbound.method,
            path,
            query: outbound.query,
            credential: outbound.credential,
            destination,
            token,
            hidden,
            codings: codings::request_codings(received)?,
        })
    }

    fn places_stand_in(&self) -> bool {
        matches!(self.credential, Some((_, Placement::StandIn)))
    }

    fn seal(
        mut self,
        mut headers: HeaderMap,
        edits: &[Edit],
        credential_headers: &[HeaderName],
        values: &(impl OpenValue + ?Sized),
        replacement: &[u8],
    ) -> Result<SealedRequest, SealRefusal> {
        let credential = self.credential.take();
        let stand_in = matches!(credential, Some((_, Placement::StandIn)));
        self.refuse_leftovers(&headers, stand_in)?;
        let key = PoolKey {
            origin: self.destination.origin.clone(),
            credential: credential.as_ref().map(|(key, _)| key.clone()),
            roots: self
                .destination
                .extra_ca
                .as_ref()
                .map(|ca| ca.fingerprint()),
            allow_private: self.destination.allow_private,
        };
        let scrubber = match credential {
            Some((key, placement)) => {
                let opened = self.open(&key, values)?;
                let value = opened.value.reveal();
                // Edits come first, so that none of them meets the credential.
                if stand_in {
                    self.swap(&mut headers, value)?;
                    headers::edit(&mut headers, edits);
                } else {
                    headers::edit(&mut headers, edits);
                    self.place(&mut headers, &placement, value, credential_headers)?;
                }
                codings::ask_for_plain(&mut headers);
                let finder = opened
                    .finder
                    .get_or_init(|| Matcher::new(value).map(Arc::new));
                let finder = finder.clone();
                finder.map(|finder| Scrubber::new(finder, value, replacement))
            }
            None => {
                headers::edit(&mut headers, edits);
                None
            }
        };
        Ok(SealedRequest {
            method: self.method,
            target: path_and_query(&self.path, self.query.as_deref())?,
            headers,
            trailer: None,
            takes_trailers: false,
            key,
            extra_ca: self.destination.extra_ca.clone(),
            upload_rules: Arc::new(UploadRules {
                credential_headers: credential_headers.to_vec(),
                hidden: self.hidden,
                codings: self.codings,
            }),
            scrubber,
            response_edits: Vec::new(),
            substitutions: Vec::new(),
            cookies: false,
        })
    }

    fn open(
        &self,
        key: &CredentialKey,
        values: &(impl OpenValue + ?Sized),
    ) -> Result<Arc<OpenedValue>, SealRefusal> {
        let opened = values.open_value(key).map_err(|_| SealRefusal::Unopened)?;
        if opened.bound_to != self.destination.origin {
            return Err(SealRefusal::Moved);
        }
        Ok(opened)
    }

    /// Refuses a head in which a token would go out: in the path always, in
    /// headers and query where the value does not take its place.
    fn refuse_leftovers(&self, headers: &HeaderMap, stand_in: bool) -> Result<(), SealRefusal> {
        let stands = |text: &[u8]| self.hidden.finds(text) || holds_token_shape(text);
        if stands(self.path.as_bytes()) {
            return Err(SealRefusal::TokenLeft("the path"));
        }
        let query = self.query.as_deref().unwrap_or_default().as_bytes();
        let swapped = if stand_in {
            swap_in_query(query, self.token, BLANK)
        } else {
            None
        };
        if stands(swapped.as_deref().unwrap_or(query)) {
            return Err(SealRefusal::TokenLeft("the query"));
        }
        // Field names arrive in lower case, tokens do not.
        let lowered = self.token.to_ascii_lowercase();
        for (name, value) in headers {
            let swapped = if stand_in {
                swap_in_header(value.as_bytes(), self.token, BLANK)
            } else {
                None
            };
            let sent = swapped.as_deref().unwrap_or(value.as_bytes());
            let inside = decoded_basic(sent);
            let name = name.as_str().as_bytes();
            let named = name.len() >= lowered.len()
                && (memchr::memmem::find(name, &lowered).is_some() || holds_token_shape(name));
            if named || stands(sent) || inside.is_some_and(|inside| stands(&inside)) {
                return Err(SealRefusal::TokenLeft("a header"));
            }
        }
        Ok(())
    }

    /// Puts the value wherever the token stands.
    fn swap(&mut self, headers: &mut HeaderMap, value: &[u8]) -> Result<(), SealRefusal> {
        let mut found = false;
        for line in headers.values_mut() {
            let swapped = swap_in_header(line.as_bytes(), self.token, value).map(Zeroizing::new);
            if let Some(swapped) = swapped {
                *line = sensitive(&swapped)?;
                found = true;
            }
        }
        let encoded = percent_encoded(value, UNRESERVED, true);
        let query = self.query.as_deref().unwrap_or_default().as_bytes();
        if let Some(swapped) = swap_in_query(query, self.token, &encoded) {
            self.query = Some(text(swapped)?);
            found = true;
        }
        if found {
            Ok(())
        } else {
            Err(SealRefusal::TokenNowhere)
        }
    }

    /// Puts the value into its one place.
    fn place(
        &mut self,
        headers: &mut HeaderMap,
        placement: &Placement,
        value: &[u8],
        credential_headers: &[HeaderName],
    ) -> Result<(), SealRefusal> {
        if headers
            .keys()
            .any(|name| is_credential(name, credential_headers))
        {
            *headers = headers::kept(headers, |name, _| !is_credential(name, credential_headers));
        }
        match placement {
            Placement::Bearer => {
                let line = Zeroizing::new([b"Bearer ", value].concat());
                headers.insert(AUTHORIZATION, sensitive(&line)?);
            }
            Placement::Header {
                name,
                before,
                after,
            } => {
                if headers::is_hop_by_hop(name) || headers::is_ours(name) || *name == HOST {
                    return Err(SealRefusal::IllegalPlan("a placement"));
                }
                let line = Zeroizing::new([before.as_bytes(), value, after.as_bytes()].concat());
                headers.insert(name.clone(), sensitive(&line)?);
            }
            Placement::Query(name) => {
                let encoded = percent_encoded(value, UNRESERVED, true);
                let query = set_in_query(self.query.as_deref(), name, &encoded);
                self.query = Some(text(query)?);
            }
            // Swapped before; nothing is placed twice.
            Placement::StandIn => {}
        }
        Ok(())
    }
}

fn sensitive(bytes: &[u8]) -> Result<HeaderValue, SealRefusal> {
    let mut value = HeaderValue::from_bytes(bytes).map_err(|_| SealRefusal::IllegalValue)?;
    value.set_sensitive(true);
    Ok(value)
}

fn text(bytes: Vec<u8>) -> Result<String, SealRefusal> {
    String::from_utf8(bytes).map_err(|_| SealRefusal::IllegalPlan("a query"))
}

/// Path and query, byte for byte: what a parser would change is refused.
fn path_and_query(path: &str, query: Option<&str>) -> Result<PathAndQuery, SealRefusal> {
    let whole = match query {
        Some(query) => [path, "?", query].concat(),
        None => path.to_owned(),
    };
    PathAndQuery::try_from(whole.as_str())
        .ok()
        .filter(|parsed| parsed.as_str() == whole)
        .ok_or(SealRefusal::IllegalPlan("a path or query"))
}
