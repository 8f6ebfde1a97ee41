//! Sealing at rest: the AEAD and what it binds a value to. One of the two files
//! that see a value, so what a value must be is checked here too.
//!
//! XChaCha20-Poly1305 with a random nonce for every sealing; 192 bits of it,
//! so that none comes twice. What is kept is the nonce and then the
//! ciphertext.

use chacha20poly1305::aead::{Aead, AeadInOut, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use crate::rules::names::BoxName;
use crate::rules::origin::Origin;
use crate::rules::plan::{CredentialKey, CredentialKind};
use crate::rules::secret::Secret;
use crate::rules::token::holds_token_shape;
use crate::vault::{VaultError, VaultKey};

/// The shortest value that is taken without saying that it is meant: a shorter
/// one is found by chance in answers, and scrubbed there.
pub const MIN_SECRET: usize = 12;
/// The longest value.
pub const MAX_SECRET: usize = 16 * 1024;

const NONCE: usize = 24;

/// Why a value cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnfitValue {
    /// Nothing.
    #[error("the value is empty")]
    Empty,
    /// Too short to be told from chance.
    #[error(
        "the value has under {MIN_SECRET} bytes, and would be scrubbed wherever an answer happens to hold it: add --short if it is meant"
    )]
    Short,
    /// Too long for a header.
    #[error("the value is over {MAX_SECRET} bytes")]
    Long,
    /// It would break out of a header.
    #[error(
        "the value holds a control character (a line break, perhaps), which no header can carry"
    )]
    Control,
    /// A box's own token, pasted in the wrong place.
    #[error("the value is a box's token or a grant, not a credential: no upstream may receive one")]
    Token,
}

/// What a value is for. A record that says anything else does not open it.
pub(super) struct Binding<'record> {
    pub(super) key: &'record CredentialKey,
    pub(super) kind: CredentialKind,
    pub(super) box_name: Option<&'record BoxName>,
    pub(super) origin: &'record Origin,
}

impl Binding<'_> {
    /// One text for one binding: JSON, in which no field runs into the next and
    /// a missing one differs from every other.
    fn associated_data(&self) -> Vec<u8> {
        let (upstream, name) = match self.key {
            CredentialKey::Secret { name, .. } => (None, name.as_str()),
            CredentialKey::Credential { upstream, name } => {
                (Some(upstream.as_str()), name.as_str())
            }
        };
        let fields = (
            "jackfield sealed value 1",
            self.kind.as_str(),
            upstream,
            self.box_name.map(BoxName::as_str),
            name,
            self.origin.scheme.as_str(),
            self.origin.host.as_str(),
            self.origin.port,
        );
        serde_json::to_vec(&fields).expect("texts and a number are JSON")
    }
}

/// Seals and opens values under one key.
pub(super) struct Sealer(XChaCha20Poly1305);

impl Sealer {
    pub(super) fn new(key: &VaultKey) -> Self {
        let key = Zeroizing::new(key.derive("sealed values"));
        Self(XChaCha20Poly1305::new((&*key).into()))
    }

    /// Seals a value that fits.
    pub(super) fn seal(
        &self,
        value: &Secret,
        short: bool,
        binding: &Binding<'_>,
    ) -> Result<Vec<u8>, VaultError> {
        fits(value, short)?;
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(|error| VaultError::NoRandomness(error.to_string()))?;
        let associated_data = binding.associated_data();
        let payload = Payload {
            msg: value.reveal(),
            aad: &associated_data,
        };
        let ciphertext = self
            .0
            .encrypt(&XNonce::from(nonce), payload)
            .expect("a value is far shorter than the cipher's limit");
        Ok([&nonce[..], &ciphertext].concat())
    }

    /// Opens what [`Sealer::seal`] made for the same binding.
    pub(super) fn open(&self, sealed: &[u8], binding: &Binding<'_>) -> Result<Secret, VaultError> {
        let closed = || VaultError::DoesNotOpen {
            key: binding.key.clone(),
        };
        let (nonce, ciphertext) = sealed.split_first_chunk::<NONCE>().ok_or_else(closed)?;
        // In place, and wiped: no copy of the value stays behind in memory.
        let mut buffer = Zeroizing::new(ciphertext.to_vec());
        self.0
            .decrypt_in_place(
                &XNonce::from(*nonce),
                &binding.associated_data(),
                &mut *buffer,
            )
            .map_err(|_| closed())?;
        Ok(Secret::new(buffer.to_vec()))
    }
}

fn fits(value: &Secret, short: bool) -> Result<(), UnfitValue> {
    if value.is_empty() {
        return Err(UnfitValue::Empty);
    }
    if value.len() > MAX_SECRET {
        return Err(UnfitValue::Long);
    }
    if value.reveal().iter().any(u8::is_ascii_control) {
        return Err(UnfitValue::Control);
    }
    if holds_token_shape(value.reveal()) {
        return Err(UnfitValue::Token);
    }
    if value.len() < MIN_SECRET && !short {
        return Err(UnfitValue::Short);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::names::{CredentialName, SecretName, UpstreamName};

    const VALUE: &[u8] = b"sk-test-0123456789abcdef";

    struct Said {
        key: CredentialKey,
        kind: CredentialKind,
        box_name: Option<BoxName>,
        origin: Origin,
    }

    impl Said {
        fn binding(&self) -> Binding<'_> {
            Binding {
                key: &self.key,
                kind: self.kind,
                box_name: self.box_name.as_ref(),
                origin: &self.origin,
            }
        }
    }

    fn secret(box_name: &str, name: &str, origin: &str) -> Said {
        let box_name = BoxName::parse(box_name).unwrap();
        Said {
            key: CredentialKey::Secret {
                box_name: box_name.clone(),
                name: SecretName::parse(name).unwrap(),
            },
            kind: CredentialKind::Secret,
            box_name: Some(box_name),
            origin: Origin::parse(origin).unwrap(),
        }
    }

    fn credential(upstream: &str, name: &str, kind: CredentialKind, owner: Option<&str>) -> Said {
        Said {
            key: CredentialKey::Credential {
                upstream: UpstreamName::parse(upstream).unwrap(),
                name: CredentialName::parse(name).unwrap(),
            },
            kind,
            box_name: owner.map(|owner| BoxName::parse(owner).unwrap()),
            origin: Origin::parse("https://api.test").unwrap(),
        }
    }

    fn value() -> Secret {
        Secret::new(VALUE.to_vec())
    }

    fn sealer() -> Sealer {
        Sealer::new(&VaultKey::from_bytes([3; 32]))
    }

    #[test]
    fn a_value_opens_for_what_it_was_sealed_for_and_nothing_else() {
        let api_key = CredentialKind::ApiKey;
        let all = [
            secret("a", "OPENAI", "https://api.test"),
            secret("b", "OPENAI", "https://api.test"),
            secret("a", "OPENAI2", "https://api.test"),
            secret("a", "OPENAI", "https://api.test2"),
            secret("a", "OPENAI", "http://api.test:443"),
            secret("a", "OPENAI", "https://api.test:444"),
            credential("up", "default", api_key, None),
            credential("up2", "default", api_key, None),
            credential("up", "default2", api_key, None),
            credential("up", "default", CredentialKind::Bearer, None),
            credential("up", "default", CredentialKind::SetupToken, None),
            credential("up", "default", api_key, Some("a")),
            credential("up", "default", api_key, Some("b")),
        ];
        let sealer = sealer();
        for (index, said) in all.iter().enumerate() {
            let sealed = sealer.seal(&value(), false, &said.binding()).unwrap();
            for (other_index, other) in all.iter().enumerate() {
                let opened = sealer.open(&sealed, &other.binding());
                assert_eq!(
                    opened.is_ok(),
                    index == other_index,
                    "{index} as {other_index}"
                );
            }
            let opened = sealer.open(&sealed, &said.binding()).unwrap();
            assert_eq!(opened.reveal(), VALUE);
        }
    }

    #[test]
    fn fields_that_run_together_are_told_apart() {
        let one = secret("ab", "C", "https://d").binding().associated_data();
        let other = secret("a", "BC", "https://d").binding().associated_data();
        assert_ne!(one, other);
    }

    #[test]
    fn a_changed_byte_or_another_key_does_not_open() {
        let said = secret("a", "OPENAI", "https://api.test");
        let sealed = sealer().seal(&value(), false, &said.binding()).unwrap();
        for index in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[index] ^= 1;
            assert!(
                sealer().open(&changed, &said.binding()).is_err(),
                "byte {index}"
            );
            assert!(
                sealer().open(&sealed[..index], &said.binding()).is_err(),
                "cut at {index}"
            );
        }
        let other = Sealer::new(&VaultKey::from_bytes([4; 32]));
        let error = other
            .open(&sealed, &said.binding())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("secret OPENAI of box a does not open"),
            "{error}"
        );
    }

    #[test]
    fn the_same_value_is_never_sealed_the_same_way() {
        let said = secret("a", "OPENAI", "https://api.test");
        let seal = || sealer().seal(&value(), false, &said.binding()).unwrap();
        assert_ne!(seal(), seal());
    }

    #[test]
    fn a_value_must_fit_a_header_and_be_told_from_chance() {
        let check = |value: &[u8], short: bool, expected: Result<(), UnfitValue>| {
            let fitting = fits(&Secret::new(value.to_vec()), short);
            assert_eq!(fitting, expected, "{:?}", String::from_utf8_lossy(value));
        };
        check(b"", false, Err(UnfitValue::Empty));
        check(b"", true, Err(UnfitValue::Empty));
        check(b"elevenbytes", false, Err(UnfitValue::Short));
        check(b"elevenbytes", true, Ok(()));
        check(b"twelve bytes", false, Ok(()));
        check(&[b'a'; MAX_SECRET], false, Ok(()));
        check(&[b'a'; MAX_SECRET + 1], false, Err(UnfitValue::Long));
        for control in (0..=0x1f_u8).chain([0x7f]) {
            let value = [b"value-", &[control][..], b"-long-enough"].concat();
            check(&value, false, Err(UnfitValue::Control));
            check(&value, true, Err(UnfitValue::Control));
        }
        check("schlüssel-wort".as_bytes(), false, Ok(()));
    }
}
