//! Who pays (chant broker protocol, "Who pays").

use std::fmt;

/// The sort of payer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayerKind {
    /// A credential that neither the box's owner nor its visitor owns.
    Shared,
    /// The box owner's own credential.
    Owner,
    /// The credential a person brought for this box.
    Visitor,
}

impl PayerKind {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Owner => "owner",
            Self::Visitor => "visitor",
        }
    }

    /// Reads the word on the wire.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Shared, Self::Owner, Self::Visitor]
            .into_iter()
            .find(|kind| kind.as_str() == text)
    }
}

/// A person, as `github:<login>`: 1 to 200 printable ASCII characters and no
/// space, so that it can stand in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal(String);

impl Principal {
    /// Reads a principal; none when the text does not fit.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=200).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        fits.then(|| Self(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whose credential pays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payer {
    /// The sort.
    pub kind: PayerKind,
    /// Who, where it is known.
    pub principal: Option<Principal>,
}

impl fmt::Display for Payer {
    /// The `chant-payer` header: `<kind>` or `<kind> <principal>`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.kind.as_str())?;
        match &self.principal {
            Some(principal) => write!(formatter, " {}", principal.as_str()),
            None => Ok(()),
        }
    }
}
