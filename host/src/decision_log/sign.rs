//! The host's signature on a head: Ed25519, by a key that comes from the
//! vault's. Whoever holds the public key can judge it anywhere.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use zeroize::Zeroizing;

use crate::decision_log::chain::{SignedHead, State, hex};
use crate::vault::VaultKey;

/// What the signing key is derived for.
const LABEL: &str = "decision log signatures";

/// Signs heads.
pub struct Signer(Ed25519KeyPair);

impl Signer {
    /// The signer of the host that has this vault key.
    #[must_use]
    pub fn of(key: &VaultKey) -> Self {
        let seed = Zeroizing::new(key.derive(LABEL));
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_slice());
        Self(pair.expect("any 32 bytes are a seed"))
    }

    /// The key that its signatures are judged by.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(key)
    }

    pub(super) fn sign(&self, state: &State, time: Timestamp) -> SignedHead {
        let mut head = SignedHead {
            signed: state.links,
            records: state.records,
            head: hex(&state.head),
            time,
            key: self.public_key().to_string(),
            signature: String::new(),
        };
        head.signature = STANDARD.encode(self.0.sign(&head.message()));
        head
    }
}

/// The public key of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Reads a key in base64.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        STANDARD
            .decode(text.trim())
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or_else(|| {
                "it is no public key: 44 characters of base64, as `jackfield log key` prints them"
                    .to_owned()
            })
    }

    /// Whether this key signed the head.
    #[must_use]
    pub fn signed(&self, head: &SignedHead) -> bool {
        head.key == self.to_string()
            && STANDARD.decode(&head.signature).is_ok_and(|signature| {
                UnparsedPublicKey::new(&ED25519, self.0)
                    .verify(&head.message(), &signature)
                    .is_ok()
            })
    }
}

impl std::fmt::Display for PublicKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&STANDARD.encode(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_head_and_its_key_alone() {
        let signer = Signer::of(&VaultKey::from_bytes([7; 32]));
        let other = Signer::of(&VaultKey::from_bytes([8; 32])).public_key();
        let key = signer.public_key();
        let state = State::BEGINNING.after(b"a line\n", 1);
        let head = signer.sign(&state, Timestamp::UNIX_EPOCH);
        assert!(key.signed(&head));
        assert!(!other.signed(&head));
        let changes: [fn(&mut SignedHead); 5] = [
            |head| head.signed += 1,
            |head| head.records += 1,
            |head| head.head = hex(&[0; 32]),
            |head| head.time = Timestamp::MAX,
            |head| head.key = PublicKey([1; 32]).to_string(),
        ];
        for change in changes {
            let mut changed = head.clone();
            change(&mut changed);
            assert!(!key.signed(&changed), "{changed:?}");
        }
        assert_eq!(PublicKey::parse(&key.to_string()), Ok(key));
        assert!(PublicKey::parse("AAAA").is_err());
    }
}
