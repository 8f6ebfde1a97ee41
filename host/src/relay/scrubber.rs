//! Taking the sealed value out of what comes back. It is compiled from the
//! value by the file that seals, and gives out no value.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use zeroize::Zeroizing;

use crate::rules::headers;
use crate::rules::scrub::{Instead, Matcher, Scrub};

/// Finds the sealed value in what comes back. It gives out no value.
pub(super) struct Scrubber {
    matcher: Arc<Matcher>,
    /// For field names, which arrive in lower case.
    lowered: Zeroizing<Vec<u8>>,
    with: Zeroizing<Vec<u8>>,
    instead: Instead,
}

impl Scrubber {
    /// Puts together what finds a value and what stands in its place.
    pub(super) fn new(matcher: Arc<Matcher>, value: &[u8], with: &[u8]) -> Arc<Self> {
        Arc::new(Self {
            matcher,
            lowered: Zeroizing::new(value.to_ascii_lowercase()),
            with: Zeroizing::new(with.to_vec()),
            instead: Instead::text(with),
        })
    }

    /// Headers in which the value does not stand: in a field's value it is
    /// replaced, and a field that is named by it is left out.
    pub(super) fn headers(&self, mut headers: HeaderMap) -> HeaderMap {
        let named = |name: &HeaderName| self.is_named_in(name.as_str().as_bytes());
        if headers.keys().any(named) {
            headers = headers::kept(&headers, |name, _| !named(name));
        }
        for value in headers.values_mut() {
            if let Some(clean) = self.matcher.replace(value.as_bytes(), &self.with) {
                *value = HeaderValue::from_bytes(&clean)
                    .unwrap_or_else(|_| HeaderValue::from_static("*"));
            }
        }
        headers
    }

    /// Whether field names, which are in lower case, hold the value.
    pub(super) fn is_named_in(&self, names: &[u8]) -> bool {
        names.len() >= self.lowered.len() && memchr::memmem::find(names, &self.lowered).is_some()
    }

    /// Begins to search a body.
    pub(super) fn stream(&self) -> Scrub {
        Scrub::new(self.matcher.clone(), self.instead.clone())
    }
}
