//! A box's token and a grant: their shape, their hash, and how they are found
//! in a request.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use memchr::memmem::Finder;
use percent_encoding::percent_decode;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// What every box's token begins with.
pub const TOKEN_PREFIX: &str = "jft_";

/// How long every box's token is: the prefix and 32 bytes in base64url.
pub const TOKEN_LENGTH: usize = 47;

/// What every grant begins with; as much follows as in a token.
pub const GRANT_PREFIX: &str = "jfg_";

/// Finds what tokens and grants begin with. Every header of every request is
/// searched for it, so it is compiled once.
static SHAPES: LazyLock<[Finder<'static>; 2]> =
    LazyLock::new(|| [Finder::new(TOKEN_PREFIX), Finder::new(GRANT_PREFIX)]);

/// How many characters follow.
const SHAPE_LENGTH: usize = 43;

/// A box's token: what a box shows, and what no upstream and no plugin may
/// see. Redacted in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct BoxToken(Zeroizing<String>);

impl BoxToken {
    /// Makes a token of 32 random bytes that the caller drew.
    #[must_use]
    pub fn from_random(bytes: &[u8; 32]) -> Self {
        Self(Zeroizing::new(format!(
            "{TOKEN_PREFIX}{}",
            URL_SAFE_NO_PAD.encode(bytes)
        )))
    }

    /// Takes a text that has a token's shape, all of it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        has_shape(text.as_bytes(), TOKEN_PREFIX).then(|| Self(Zeroizing::new(text.to_owned())))
    }

    /// The token itself, for the box it belongs to and for the places where it
    /// is swapped. Never for a log.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its hash, as it is stored.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.0.as_bytes()).into())
    }
}

impl fmt::Debug for BoxToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("BoxToken(redacted)")
    }
}

/// A grant: what a person's browser carries to say whose turn it is, and what
/// no upstream and no plugin may see. Redacted in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct GrantValue(Zeroizing<String>);

impl GrantValue {
    /// Makes a grant of 32 random bytes that the caller drew.
    #[must_use]
    pub fn from_random(bytes: &[u8; 32]) -> Self {
        Self(Zeroizing::new(format!(
            "{GRANT_PREFIX}{}",
            URL_SAFE_NO_PAD.encode(bytes)
        )))
    }

    /// Takes a text that has a grant's shape, all of it.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let fits = has_shape(text, GRANT_PREFIX);
        let text = std::str::from_utf8(text).ok().filter(|_| fits)?;
        Some(Self(Zeroizing::new(text.to_owned())))
    }

    /// The grant itself, for the person it was issued to and for what keeps it
    /// out of requests. Never for a log.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its hash, as it is stored.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash(Sha256::digest(self.0.as_bytes()).into())
    }
}

impl fmt::Debug for GrantValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("GrantValue(redacted)")
    }
}

/// The SHA-256 of a token or a grant. Either holds 256 random bits, so a plain hash
/// cannot be searched for, and a map keyed by it tells an attacker nothing
/// about how near a guess came.
#[derive(Debug, Clone, Copy, Eq, PartialOrd, Ord)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// The hash in lower-case hex.
    #[must_use]
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads what [`TokenHash::to_hex`] wrote.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(hash))
    }
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl std::hash::Hash for TokenHash {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// Every stretch of `text` that has a token's shape and no token character on
/// either side, in order.
#[must_use]
pub fn find_tokens(text: &[u8]) -> Vec<(usize, BoxToken)> {
    let [prefix, _] = &*SHAPES;
    prefix
        .find_iter(text)
        .filter_map(|start| {
            let candidate = text.get(start..start.checked_add(TOKEN_LENGTH)?)?;
            let after = text
                .get(start + TOKEN_LENGTH)
                .is_some_and(|byte| is_token_byte(*byte));
            if after || !has_shape(candidate, TOKEN_PREFIX) {
                return None;
            }
            let token = BoxToken::parse(std::str::from_utf8(candidate).ok()?)?;
            Some((start, token))
        })
        .collect()
}

/// Where something has the shape of a box's token or a grant, whatever stands
/// around it.
pub fn shapes(text: &[u8]) -> impl Iterator<Item = usize> {
    SHAPES.iter().flat_map(|prefix| {
        prefix.find_iter(text).filter(|start| {
            let from = start + prefix.needle().len();
            text.get(from..from + SHAPE_LENGTH)
                .is_some_and(|rest| rest.iter().all(|byte| is_token_byte(*byte)))
        })
    })
}

/// Whether a text holds anything with the shape of a box's token or a grant,
/// as it is or under one or two layers of percent-encoding.
#[must_use]
pub fn holds_token_shape(text: &[u8]) -> bool {
    any_layer(text, |text| shapes(text).next().is_some())
}

/// Whether a text holds anything with the shape of a grant, as it is or under
/// one or two layers of percent-encoding.
#[must_use]
pub fn holds_grant_shape(text: &[u8]) -> bool {
    any_layer(text, |text| {
        shapes(text).any(|start| is_grant_at(text, start))
    })
}

/// Whether something is so of a text as it is, or once or twice decoded.
fn any_layer(text: &[u8], is_so: impl Fn(&[u8]) -> bool) -> bool {
    // No spelling is shorter than the token itself.
    if text.len() < TOKEN_LENGTH {
        return false;
    }
    let mut layer = Cow::Borrowed(text);
    for _ in 0..2 {
        if is_so(&layer) {
            return true;
        }
        if memchr::memchr(b'%', &layer).is_none() {
            return false;
        }
        layer = Cow::Owned(percent_decode(&layer).collect());
    }
    is_so(&layer)
}

fn is_grant_at(text: &[u8], start: usize) -> bool {
    text.get(start..)
        .is_some_and(|rest| rest.starts_with(GRANT_PREFIX.as_bytes()))
}

fn has_shape(text: &[u8], prefix: &str) -> bool {
    text.len() == TOKEN_LENGTH
        && text
            .strip_prefix(prefix.as_bytes())
            .is_some_and(|rest| rest.iter().all(|byte| is_token_byte(*byte)))
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_a_fixed_shape_and_hides_itself() {
        let token = BoxToken::from_random(&[7; 32]);
        assert_eq!(token.as_str().len(), TOKEN_LENGTH);
        assert!(BoxToken::parse(token.as_str()).is_some());
        assert_eq!(format!("{token:?}"), "BoxToken(redacted)");
        assert_eq!(
            TokenHash::from_hex(&token.hash().to_hex()),
            Some(token.hash())
        );
        assert!(BoxToken::parse("jft_short").is_none());
        assert!(BoxToken::parse(&format!("{} ", token.as_str())).is_none());
    }

    #[test]
    fn tokens_are_found_wherever_they_stand() {
        let token = BoxToken::from_random(&[9; 32]);
        let check = |text: String, expected: usize| {
            assert_eq!(find_tokens(text.as_bytes()).len(), expected, "{text}")
        };
        let text = token.as_str();
        check(text.to_owned(), 1);
        check(format!("Bearer {text}"), 1);
        check(format!("key=\"{text}\", other={text}"), 2);
        check(format!("{text}x"), 0);
        check("jft_".to_owned(), 0);
    }

    #[test]
    fn a_grant_has_a_shape_of_its_own_and_hides_itself() {
        let grant = GrantValue::from_random(&[7; 32]);
        let text = grant.as_str();
        assert_eq!(text.len(), TOKEN_LENGTH);
        assert_eq!(format!("{grant:?}"), "GrantValue(redacted)");
        let check = |text: &str, expected: bool| {
            assert_eq!(
                GrantValue::parse(text.as_bytes()).is_some(),
                expected,
                "{text}"
            );
        };
        check(text, true);
        check(&text[..46], false);
        check(&format!("{text}x"), false);
        check(&format!(" {text}"), false);
        check(&text.replace("jfg_", "jft_"), false);
        check("jfg_", false);
        check("", false);
        let twice = format!("x{text}, {text}y jfg_short");
        assert_eq!(shapes(twice.as_bytes()).collect::<Vec<_>>(), [1, 50]);
        assert!(holds_grant_shape(twice.as_bytes()));
        let token = text.replace("jfg_", "jft_");
        assert!(!holds_grant_shape(token.as_bytes()));
        assert_eq!(shapes(token.as_bytes()).count(), 1);
    }

    #[test]
    fn a_token_s_shape_is_seen_through_encodings() {
        let check = |text: &str, expected: bool| {
            assert_eq!(holds_token_shape(text.as_bytes()), expected, "{text}");
        };
        let body = "a".repeat(43);
        check(&format!("jft_{body}"), true);
        check(&format!("x jfg_{body} y"), true);
        check(&format!("jft%5F{body}"), true);
        check(&format!("jft%255f{body}"), true);
        check("jft_short", false);
        check("", false);
    }
}
