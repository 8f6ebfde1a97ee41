//! The proof that the rule has passed.

use crate::rules::declaration::{Declaration, hold_to_rule};
use crate::rules::names::{BoxName, CapabilityName, ScopeWord};
use crate::rules::refusal::Refusal;

/// The rule has passed for these words of this box. There is no way to make
/// one but [`Permit::grant`], and nothing is forwarded without one.
#[derive(Debug)]
pub struct Permit {
    box_name: BoxName,
    words: Vec<ScopeWord>,
}

impl Permit {
    /// Holds a request to the rule.
    ///
    /// # Errors
    /// The 403 of the rule.
    pub fn grant(
        box_name: &BoxName,
        declared: Option<&Declaration>,
        broker: &str,
        capability: &CapabilityName,
        words: Vec<ScopeWord>,
    ) -> Result<Self, Refusal> {
        hold_to_rule(declared, broker, capability, &words)?;
        Ok(Self {
            box_name: box_name.clone(),
            words,
        })
    }

    /// Whose request it is.
    #[must_use]
    pub fn box_name(&self) -> &BoxName {
        &self.box_name
    }

    /// The permitted words.
    #[must_use]
    pub fn words(&self) -> &[ScopeWord] {
        &self.words
    }
}
