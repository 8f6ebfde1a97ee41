//! Signatures over a component's bytes, in minisign's format, and which of
//! them count for a plugin.

use std::fmt;

use minisign_verify::{Error, PublicKey, Signature};

/// The longest text of a signature that is looked at. minisign's own have some
/// 300 bytes.
pub const MOST_SIGNATURE: usize = 4096;

/// A key that an operator trusts for a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedKey {
    id: KeyId,
    key: PublicKey,
}

/// Which key it is, as minisign prints it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(String);

/// What the operator wants of a plugin's signature.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SignaturePolicy {
    /// The keys whose signatures count.
    pub trusted: Vec<TrustedKey>,
    /// Whether a component without one is refused.
    pub required: bool,
}

/// Why a text is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a public key of minisign: it is the line of its .pub file that begins with RW"
)]
pub struct KeyError(String);

/// Why a component is refused for its signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureRefusal {
    /// There is none, and there must be.
    #[error(
        "it is not signed, and require_signature is set: put the signature beside it, named like it and ending in .minisig"
    )]
    Missing,
    /// It cannot be read.
    #[error("its signature cannot be read: it is not in minisign's format")]
    Malformed,
    /// An older way of signing.
    #[error(
        "its signature is of minisign's older kind, which is not taken; sign it again without -l"
    )]
    Legacy,
    /// A trusted key's, over other bytes.
    #[error("its signature by the trusted key {0} does not fit its bytes: it was changed since")]
    Wrong(KeyId),
    /// Somebody else's.
    #[error("it is signed by the key {0}, which trusted_keys does not list")]
    Untrusted(KeyId),
}

impl TrustedKey {
    /// Reads a key, as the second line of a .pub file shows it.
    ///
    /// # Errors
    /// When the text is none.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let error = || KeyError(text.chars().take(80).collect());
        let key = PublicKey::from_base64(text).map_err(|_| error())?;
        let id = KeyId::of(text).ok_or_else(error)?;
        Ok(Self { id, key })
    }

    /// Which key it is.
    #[must_use]
    pub fn id(&self) -> &KeyId {
        &self.id
    }
}

impl KeyId {
    /// What stands between the algorithm and the key, or the signature: eight
    /// bytes, of which minisign prints the last first.
    fn of(base64: &str) -> Option<Self> {
        use base64::Engine;
        let engine = base64::engine::general_purpose::STANDARD;
        let bytes = engine.decode(base64).ok()?;
        let id = bytes.get(2..10)?;
        let digits = id.iter().rev().map(|byte| format!("{byte:02X}"));
        Some(Self(digits.collect()))
    }

    /// Reads what is shown.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fits = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        fits.then(|| Self(text.to_ascii_uppercase()))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl SignaturePolicy {
    /// Who signed these bytes, of those that are trusted. None where nobody
    /// did and nobody has to: such a component is approved by its hash alone.
    /// A signature that claims a trusted key and does not fit is refused
    /// whatever the policy.
    ///
    /// # Errors
    /// When there is none and must be, or it does not hold.
    pub fn signer(
        &self,
        bytes: &[u8],
        signature: Option<&str>,
    ) -> Result<Option<KeyId>, SignatureRefusal> {
        let signed = match signature {
            Some(text) => self.verify(bytes, text),
            None => Err(SignatureRefusal::Missing),
        };
        match signed {
            Ok(id) => Ok(Some(id)),
            Err(refusal @ SignatureRefusal::Wrong(_)) => Err(refusal),
            Err(refusal) if self.required => Err(refusal),
            Err(_) => Ok(None),
        }
    }

    fn verify(&self, bytes: &[u8], text: &str) -> Result<KeyId, SignatureRefusal> {
        if text.len() > MOST_SIGNATURE {
            return Err(SignatureRefusal::Malformed);
        }
        let signature = Signature::decode(text).map_err(|_| SignatureRefusal::Malformed)?;
        let line = text.lines().nth(1).unwrap_or_default();
        let id = KeyId::of(line).ok_or(SignatureRefusal::Malformed)?;
        let Some(trusted) = self.trusted.iter().find(|trusted| trusted.id == id) else {
            return Err(SignatureRefusal::Untrusted(id));
        };
        match trusted.key.verify(bytes, &signature, false) {
            Ok(()) => Ok(id),
            Err(Error::UnexpectedAlgorithm) => Err(SignatureRefusal::Legacy),
            Err(_) => Err(SignatureRefusal::Wrong(id)),
        }
    }
}

/// Who signs in tests, shared with those that run the binary.
#[cfg(test)]
#[path = "../../../tests/src/minisign.rs"]
#[expect(unreachable_pub, reason = "it is public where it lives")]
pub(crate) mod minisign;
#[cfg(test)]
mod tests;
