//! Sealing what is written and read back later, and is nobody's secret by name:
//! frames of a file, each bound to its place.

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use crate::vault::{VaultError, VaultKey};

const NONCE: usize = 24;

/// Seals and opens frames under a key that is derived for one use.
pub struct FrameSealer(XChaCha20Poly1305);

impl FrameSealer {
    /// The sealer of this use.
    #[must_use]
    pub fn new(key: &VaultKey, label: &str) -> Self {
        let key = Zeroizing::new(key.derive(label));
        Self(XChaCha20Poly1305::new((&*key).into()))
    }

    /// Seals a frame for its place: a random nonce, and then the ciphertext.
    ///
    /// # Errors
    /// When the system gives no randomness, or the frame is far too long.
    pub fn seal(&self, frame: &[u8], place: &[u8]) -> Result<Vec<u8>, VaultError> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(|error| VaultError::NoRandomness(error.to_string()))?;
        let payload = Payload {
            msg: frame,
            aad: place,
        };
        let sealed = self.0.encrypt(&XNonce::from(nonce), payload).map_err(|_| {
            VaultError::NoRandomness("the frame is too long to be sealed".to_owned())
        })?;
        Ok([&nonce[..], &sealed].concat())
    }

    /// Opens what was sealed for this place; none where it was not.
    #[must_use]
    pub fn open(&self, sealed: &[u8], place: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE>()?;
        let payload = Payload {
            msg: sealed,
            aad: place,
        };
        let opened = self.0.decrypt(&XNonce::from(*nonce), payload).ok()?;
        Some(Zeroizing::new(opened))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_opens_in_its_place_and_under_its_key_alone() {
        let key = VaultKey::from_bytes([1; 32]);
        let sealer = FrameSealer::new(&key, "one use");
        let sealed = sealer.seal(b"what was shown", b"place 1").unwrap();
        assert!(!sealed.windows(4).any(|window| window == b"what"));
        let opened = sealer.open(&sealed, b"place 1").unwrap();
        assert_eq!(opened.as_slice(), b"what was shown");
        assert!(sealer.open(&sealed, b"place 2").is_none());
        assert!(
            FrameSealer::new(&key, "another use")
                .open(&sealed, b"place 1")
                .is_none()
        );
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert!(sealer.open(&changed, b"place 1").is_none(), "byte {at}");
        }
        assert!(sealer.open(&sealed[..20], b"place 1").is_none());
    }
}
