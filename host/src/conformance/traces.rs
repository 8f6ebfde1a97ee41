//! Where a value shows: as it is, percent-encoded, or inside base64. What
//! must not be found is searched with it, and what is printed is masked.

use aho_corasick::AhoCorasick;
use base64::Engine;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};

/// How often a text may have been percent-encoded over and over.
const LAYERS: usize = 3;

/// The shortest part of a base64 text that tells one value from another.
const TELLING: usize = 8;

/// A value and what to call it.
pub(super) struct Trace {
    /// What it is, in words.
    pub(super) name: String,
    value: String,
    /// The parts of its base64 texts that do not depend on what stands around.
    base64: Vec<String>,
    /// The value, and then those parts; none where there is no value.
    search: Option<AhoCorasick>,
}

/// How a value was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As it is.
    Raw,
    /// Percent-encoded.
    Percent,
    /// Inside base64.
    Base64,
}

impl Form {
    /// In words, after what was found.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Raw => "",
            Self::Percent => ", percent-encoded",
            Self::Base64 => ", inside base64",
        }
    }
}

impl Trace {
    pub(super) fn new(name: String, value: String) -> Self {
        let base64: Vec<String> = [STANDARD, URL_SAFE]
            .iter()
            .flat_map(|alphabet| (0..3).map(|before| inside_base64(alphabet, before, &value)))
            .filter(|text| text.len() >= TELLING)
            .collect();
        let forms = std::iter::once(&value).chain(&base64);
        let search = (!value.is_empty()).then(|| {
            AhoCorasick::new(forms).expect("seven patterns of a few thousand bytes are few")
        });
        Self {
            name,
            value,
            base64,
            search,
        }
    }

    /// Whether these bytes carry the value, and how.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<Form> {
        if let Some(form) = self.find_plain(bytes) {
            return Some(form);
        }
        let mut decoded = bytes.to_vec();
        for _ in 0..LAYERS {
            if !decoded.contains(&b'%') {
                return None;
            }
            decoded = percent_encoding::percent_decode(&decoded).collect();
            match self.find_plain(&decoded) {
                Some(Form::Raw) => return Some(Form::Percent),
                Some(form) => return Some(form),
                None => {}
            }
        }
        None
    }

    fn find_plain(&self, bytes: &[u8]) -> Option<Form> {
        let found = self.search.as_ref()?.find(bytes)?;
        Some(match found.pattern().as_usize() {
            0 => Form::Raw,
            _ => Form::Base64,
        })
    }
}

/// The text with each value written as its name. Text that carries one in a
/// form that cannot be cut out is not shown at all.
pub(super) fn mask(text: &str, traces: &[Trace]) -> String {
    let mut masked = text.to_owned();
    for trace in traces.iter().filter(|trace| !trace.value.is_empty()) {
        let name = format!("<{}>", trace.name);
        masked = masked.replace(&trace.value, &name);
        for form in &trace.base64 {
            masked = masked.replace(form, &name);
        }
    }
    let left = traces
        .iter()
        .find(|trace| trace.find(masked.as_bytes()).is_some());
    match left {
        Some(trace) => format!("(not shown: it carries {})", trace.name),
        None => masked,
    }
}

/// What every base64 text holds in which the value stands after `before`
/// bytes (modulo 3): less the letters at both ends that its neighbors share.
fn inside_base64(alphabet: &Alphabet, before: usize, value: &str) -> String {
    let bytes = [vec![0; before], value.as_bytes().to_vec()].concat();
    let text = GeneralPurpose::new(alphabet, NO_PAD).encode(&bytes);
    let shared_before = match before {
        0 => 0,
        1 => 2,
        _ => 3,
    };
    let shared_after = usize::from(!bytes.len().is_multiple_of(3));
    let end = text.len().saturating_sub(shared_after);
    text.get(shared_before..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};

    use super::*;

    const VALUE: &str = "jft_a-b_c?d>e~f0123456789";

    fn trace() -> Trace {
        Trace::new("a token".to_owned(), VALUE.to_owned())
    }

    #[test]
    fn a_value_is_found_in_every_form() {
        let check = |text: String, expected: Option<Form>| {
            assert_eq!(trace().find(text.as_bytes()), expected, "{text}");
            let masked = mask(&text, &[trace()]);
            assert_eq!(masked != text, expected.is_some(), "{masked}");
            assert_eq!(trace().find(masked.as_bytes()), None, "{masked}");
        };
        check(format!("Bearer {VALUE}"), Some(Form::Raw));
        check("nothing here, 100% nothing".to_owned(), None);
        let every: String = VALUE.bytes().map(|byte| format!("%{byte:02X}")).collect();
        check(format!("key={every}&a"), Some(Form::Percent));
        let twice = every.replace('%', "%25");
        check(format!("key={twice}"), Some(Form::Percent));
        let some = VALUE.replace('?', "%3f").replace('>', "%3E");
        check(some, Some(Form::Percent));
        for before in ["", "u", "us", "user:"] {
            for after in ["", "x", "xy", ":pass"] {
                let text = format!("{before}{VALUE}{after}");
                let encoded = BASE64_STANDARD.encode(&text);
                check(format!("Basic {encoded}"), Some(Form::Base64));
                let escaped = encoded.replace('+', "%2B").replace('/', "%2F");
                check(escaped.replace('=', "%3D"), Some(Form::Base64));
                check(BASE64_URL_SAFE_NO_PAD.encode(&text), Some(Form::Base64));
            }
        }
        check(VALUE.replace('a', "A"), None);
    }

    #[test]
    fn what_is_masked_says_what_stood_there() {
        assert_eq!(
            mask(&format!("Bearer {VALUE}, 1"), &[trace()]),
            "Bearer <a token>, 1"
        );
        let encoded: String = VALUE.bytes().map(|byte| format!("%{byte:02x}")).collect();
        assert_eq!(
            mask(&encoded, &[trace()]),
            "(not shown: it carries a token)"
        );
    }
}
