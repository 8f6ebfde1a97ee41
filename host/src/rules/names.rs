//! Parsed names: once one of these exists, its text fits the pattern. Every
//! request hands names on to all its parts, so a copy shares the text.

use std::fmt;
use std::sync::Arc;

/// Why a text is not a name of its sort.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {sort}: it must {rule}")]
pub struct NameError {
    sort: &'static str,
    rule: &'static str,
    text: String,
}

// Types that differ in their pattern alone; a function cannot make types.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident: $sort:literal, $rule:literal, $accepts:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Reads a name.
            ///
            /// # Errors
            /// When the text does not fit the pattern; the error says which.
            pub fn parse(text: &str) -> Result<Self, NameError> {
                let accepts: fn(&str) -> bool = $accepts;
                if accepts(text) {
                    return Ok(Self(text.into()));
                }
                Err(NameError { sort: $sort, rule: $rule, text: text.chars().take(80).collect() })
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    )*};
}

names! {
    /// A box's name, as the operator adds it.
    BoxName: "box name", "match ^[a-z0-9][a-z0-9._-]{0,62}$",
        |text| text.len() <= 63
            && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c));

    /// A capability's name (chant broker protocol, `capabilityName`).
    CapabilityName: "capability name", "match ^[a-z][a-z0-9-]{0,62}$", is_kebab;

    /// A scope word (chant broker protocol, `scopeWord`): 1 to 64 code points,
    /// none of them below U+0020.
    ScopeWord: "scope word", "be 1 to 64 characters with no control character",
        |text| (1..=64).contains(&text.chars().count()) && text.chars().all(|c| c >= ' ');

    /// A secret's name (chant broker protocol).
    SecretName: "secret name", "match ^[A-Z][A-Z0-9_]{0,39}$",
        |text| text.len() <= 40
            && text.starts_with(|c: char| c.is_ascii_uppercase())
            && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');

    /// An upstream's name, as the configuration and plugins write it.
    UpstreamName: "upstream name", "match ^[a-z][a-z0-9-]{0,62}$", is_kebab;

    /// A plugin's name.
    PluginName: "plugin name", "match ^[a-z][a-z0-9-]{0,62}$", is_kebab;

    /// An operator credential's name.
    CredentialName: "credential name", "match ^[a-z0-9][a-z0-9._-]{0,62}$",
        |text| BoxName::parse(text).is_ok();

    /// What sort of thing a box owns, as plugins and the operator write it.
    ThingKind: "kind of thing", "match ^[a-z][a-z0-9-]{0,31}$",
        |text| text.len() <= 32 && is_kebab(text);

    /// The id of a thing, as its upstream writes it.
    ThingId: "thing's id", "have 1 to 256 bytes and no control character",
        |text| (1..=256).contains(&text.len()) && !text.chars().any(char::is_control);
}

fn is_kebab(text: &str) -> bool {
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_name_fits_the_page_s_pattern() {
        let check = |text: &str, expected: bool| {
            assert_eq!(SecretName::parse(text).is_ok(), expected, "{text:?}")
        };
        check("OPENAI", true);
        check("A", true);
        check(&"A".repeat(40), true);
        check(&"A".repeat(41), false);
        check("openai", false);
        check("1A", false);
        check("", false);
        check("A-B", false);
        check("A\n", false);
    }

    #[test]
    fn a_scope_word_is_counted_in_code_points() {
        let check = |text: &str, expected: bool| {
            assert_eq!(ScopeWord::parse(text).is_ok(), expected, "{text:?}")
        };
        check("agent", true);
        check(&"é".repeat(64), true);
        check(&"é".repeat(65), false);
        check("", false);
        check("a\u{1f}b", false);
        check("a\u{7f}b", true);
    }

    #[test]
    fn a_capability_name_starts_with_a_letter() {
        let check = |text: &str, expected: bool| {
            assert_eq!(CapabilityName::parse(text).is_ok(), expected, "{text:?}")
        };
        check("inference", true);
        check("x-1", true);
        check("1x", false);
        check("X", false);
        check(&"a".repeat(63), true);
        check(&"a".repeat(64), false);
    }
}
