//! Reading what the host shows, and answering `scopes`.

use crate::contract::{Answers, Caller, Offer, Request, Target, Uses};

/// The request needs these words, all of them.
#[must_use]
pub fn needs<const N: usize>(words: [&str; N]) -> Option<Vec<String>> {
    Some(words.map(str::to_owned).into())
}

/// The request needs no word: it can be answered, not forwarded.
#[must_use]
pub fn needs_nothing() -> Option<Vec<String>> {
    Some(Vec::new())
}

/// The plugin does not serve this: the box gets a 404, and no upstream is
/// touched.
#[must_use]
pub fn not_served() -> Option<Vec<String>> {
    None
}

/// Whether a text is a secret's name: `^[A-Z][A-Z0-9_]{0,39}$`.
#[must_use]
pub fn is_secret_name(text: &str) -> bool {
    text.len() <= 40
        && text.starts_with(|first: char| first.is_ascii_uppercase())
        && text
            .chars()
            .all(|each| each.is_ascii_uppercase() || each.is_ascii_digit() || each == '_')
}

impl Request {
    /// The path after the prefix, cut at its slashes, for a slice pattern.
    ///
    /// `/v1/messages` is `["v1", "messages"]`; an empty path is `[]`; a slash
    /// at the end leaves an empty last segment, so that it matches nothing by
    /// accident.
    #[must_use]
    pub fn segments(&self) -> Vec<&str> {
        match self.path.strip_prefix('/') {
            Some(rest) => rest.split('/').collect(),
            None => Vec::new(),
        }
    }

    /// The first value of a header that the manifest asked for.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case(name))
            .map(|header| header.value.as_slice())
    }
}

impl Caller {
    /// A box with no words, nothing on offer and nothing granted: what a
    /// plugin's own tests begin with.
    #[must_use]
    pub fn of(box_name: &str) -> Self {
        Self {
            box_name: Some(box_name.to_owned()),
            words: Vec::new(),
            credentials: Vec::new(),
            targets: Vec::new(),
            uses: Uses {
                keep: false,
                journal: false,
                owned_kinds: Vec::new(),
            },
        }
    }

    /// The first credential on offer for a target.
    #[must_use]
    pub fn offer_for(&self, target: &Target) -> Option<&Offer> {
        self.credentials
            .iter()
            .find(|offer| offer.target == *target)
    }

    /// Whether a permitted word leads to a target right now: whether the
    /// operator configured the upstream, or the box holds the secret.
    ///
    /// ```
    /// # use jackfield_sdk::prelude::*;
    /// fn receiver(caller: &Caller) -> Step {
    ///     if caller.reaches(&upstream("receiver")) {
    ///         return Forward::to(upstream("receiver")).into();
    ///     }
    ///     if !caller.uses.journal {
    ///         return refuse::not_implemented("This broker keeps no feedback.").into();
    ///     }
    ///     Plan::from(Answer::status(202)).journal("a record").into()
    /// }
    /// # let mut caller = Caller::of("box");
    /// # caller.uses.journal = true;
    /// # assert!(matches!(receiver(&caller), Step::Plan(plan) if plan.journal.len() == 1));
    /// ```
    #[must_use]
    pub fn reaches(&self, target: &Target) -> bool {
        self.targets.contains(target)
    }
}

impl Answers {
    /// Nothing was brought back: what a plugin's own tests begin with.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            calls: Vec::new(),
            reads: Vec::new(),
            lists: Vec::new(),
            owned: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_cut_at_its_slashes() {
        let check = |path: &str, expected: &[&str]| {
            let request = Request {
                method: "GET".to_owned(),
                prefix: "/p".to_owned(),
                path: path.to_owned(),
                query: None,
                headers: Vec::new(),
                body: None,
                time: None,
                settings: None,
            };
            assert_eq!(request.segments(), expected, "{path:?}");
        };
        check("", &[]);
        check("/", &[""]);
        check("/v1/messages", &["v1", "messages"]);
        check("/v1/messages/", &["v1", "messages", ""]);
        check("//v1", &["", "v1"]);
    }

    #[test]
    fn a_secret_name_fits_its_pattern() {
        let check = |text: &str, expected: bool| {
            assert_eq!(is_secret_name(text), expected, "{text:?}");
        };
        check("OPENAI", true);
        check("A_1", true);
        check(&"A".repeat(41), false);
        check("openai", false);
        check("_A", false);
        check("", false);
    }
}
