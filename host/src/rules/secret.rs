//! The type that holds a value nobody may read but the file that seals a
//! request.

use std::fmt;

use secrecy::{ExposeSecret, SecretSlice};

/// A credential's value: wiped when dropped, redacted in `Debug`, neither
/// cloned nor serialized.
pub struct Secret(SecretSlice<u8>);

impl Secret {
    /// Takes a value in.
    #[must_use]
    pub fn new(value: Vec<u8>) -> Self {
        Self(value.into())
    }

    /// Shows the value. Two files call this: the one that seals a value at
    /// rest and the one that seals a request. A test holds that.
    #[must_use]
    pub fn reveal(&self) -> &[u8] {
        self.0.expose_secret()
    }

    /// How many bytes the value has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.expose_secret().len()
    }

    /// Whether the value is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing_of_the_value() {
        let secret = Secret::new(b"sk-ant-very-secret".to_vec());
        assert_eq!(format!("{secret:?}"), "Secret(redacted)");
    }
}
