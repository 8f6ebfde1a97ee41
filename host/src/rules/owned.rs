//! What a box owns at an upstream, and who may say so: the first box that a
//! plugin records a thing for holds it; only the operator lets others share it.

use crate::rules::names::{BoxName, ThingId, ThingKind};

/// Something that an upstream gave an id to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thing {
    /// What sort of thing it is.
    pub kind: ThingKind,
    /// Its id.
    pub id: ThingId,
}

/// What a plugin's claim of a thing for a box comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Nobody holds it: it becomes the box's own.
    Take,
    /// It is the box's own already.
    Hold,
    /// It is another box's.
    Refuse,
}

/// Judges a plugin's claim of a thing that these boxes hold.
#[must_use]
pub fn judge(holders: &[BoxName], claimant: &BoxName) -> Claim {
    if holders.contains(claimant) {
        Claim::Hold
    } else if holders.is_empty() {
        Claim::Take
    } else {
        Claim::Refuse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_box_holds_a_thing() {
        let name = |text: &str| BoxName::parse(text).unwrap();
        let check = |holders: &[&str], expected: Claim| {
            let holders: Vec<BoxName> = holders.iter().map(|text| name(text)).collect();
            assert_eq!(judge(&holders, &name("a")), expected, "{holders:?}");
        };
        check(&[], Claim::Take);
        check(&["a"], Claim::Hold);
        check(&["b", "a"], Claim::Hold);
        check(&["b"], Claim::Refuse);
        check(&["aa"], Claim::Refuse);
    }
}
