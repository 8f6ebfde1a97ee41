//! Signs as minisign does, with a key that is the same in every run. What makes
//! it minisign's format is that the host reads it with the format's own crate,
//! which is held to minisign's published example.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use blake2::{Blake2b512, Digest};
use ring::signature::{Ed25519KeyPair, KeyPair};

/// Somebody with a key.
pub struct Signer {
    pair: Ed25519KeyPair,
    id: [u8; 8],
}

impl Signer {
    /// The one of this number.
    ///
    /// # Panics
    /// Never: every seed is a key.
    #[must_use]
    pub fn new(number: u8) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[number; 32]).expect("a seed");
        Self {
            pair,
            id: [number; 8],
        }
    }

    /// The public key, as the second line of a .pub file.
    #[must_use]
    pub fn key(&self) -> String {
        let public = self.pair.public_key().as_ref();
        STANDARD.encode([b"Ed", &self.id[..], public].concat())
    }

    /// A signature over these bytes, as the text of a .minisig file.
    #[must_use]
    pub fn sign(&self, bytes: &[u8], comment: &str) -> String {
        let hash = Blake2b512::digest(bytes);
        let signature = self.pair.sign(&hash);
        let signed = [b"ED", &self.id[..], signature.as_ref()].concat();
        let whole = [signature.as_ref(), comment.as_bytes()].concat();
        let global = self.pair.sign(&whole);
        format!(
            "untrusted comment: signature\n{}\ntrusted comment: {comment}\n{}\n",
            STANDARD.encode(signed),
            STANDARD.encode(global)
        )
    }
}
