//! Whether a version that has just gone live is taken back by itself. It
//! counts boxes, not requests: what one box alone can bring about takes no
//! version from the others.

/// What is known when a version has failed on one more input, on which the
/// version before it did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failures {
    /// How many boxes have met it.
    pub boxes: usize,
    /// At how many it is taken back.
    pub threshold: usize,
    /// Whether its watch window is still open.
    pub is_watched: bool,
    /// Whether it has been taken back already.
    pub is_done: bool,
    /// Whether it is still the live one.
    pub is_live: bool,
    /// How the version before it stands.
    pub before: Before,
}

/// How the version stands that was live before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// It may go live again.
    Stands,
    /// Another version has gone live since, or it is no longer kept.
    Superseded,
    /// Its hash is blocked.
    Blocked,
    /// It is no longer approved.
    Unapproved,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet.
    Wait,
    /// The version before it takes its place again.
    RollBack,
    /// Nothing any more, for this reason.
    Stay(&'static str),
}

/// Weighs it.
#[must_use]
pub fn judge(failures: Failures) -> Verdict {
    if failures.is_done {
        return Verdict::Stay("it has been done once");
    }
    if !failures.is_live {
        return Verdict::Stay("another version is live");
    }
    if !failures.is_watched {
        return Verdict::Stay("its watch window is over");
    }
    // A threshold of none would take back what nobody has met.
    if failures.boxes < failures.threshold.max(1) {
        return Verdict::Wait;
    }
    match failures.before {
        Before::Stands => Verdict::RollBack,
        Before::Superseded => Verdict::Stay("the version before it has been superseded"),
        Before::Blocked => Verdict::Stay("the version before it is blocked"),
        Before::Unapproved => Verdict::Stay("the version before it is no longer approved"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_taken_back_once_enough_boxes_have_met_its_failure() {
        let met = Failures {
            boxes: 3,
            threshold: 3,
            is_watched: true,
            is_done: false,
            is_live: true,
            before: Before::Stands,
        };
        let check = |failures: Failures, expected: Option<&str>| match (judge(failures), expected) {
            (Verdict::RollBack, None) => {}
            (Verdict::Wait, Some("wait")) => {}
            (Verdict::Stay(reason), Some(said)) => assert!(reason.contains(said), "{reason}"),
            (verdict, _) => panic!("{failures:?}: {verdict:?}"),
        };
        check(met, None);
        check(Failures { boxes: 9, ..met }, None);
        check(Failures { boxes: 2, ..met }, Some("wait"));
        let none = Failures {
            boxes: 0,
            threshold: 0,
            ..met
        };
        check(none, Some("wait"));
        let over = Failures {
            is_watched: false,
            ..met
        };
        check(over, Some("window is over"));
        let done = Failures {
            is_done: true,
            ..met
        };
        check(done, Some("once"));
        let gone = Failures {
            is_live: false,
            ..met
        };
        check(gone, Some("another version"));
        for (before, said) in [
            (Before::Superseded, "superseded"),
            (Before::Blocked, "blocked"),
            (Before::Unapproved, "no longer approved"),
        ] {
            check(Failures { before, ..met }, Some(said));
        }
    }
}
