//! Whether a component may go live, by what the operator has said about it.
//! Said of a hash or of a signer, it is looked up elsewhere; here it is weighed.

use std::collections::BTreeSet;

use crate::rules::permission::{Permission, more_than};

/// What the operator has said that bears on one component.
#[derive(Debug, Clone, Copy, Default)]
pub struct Said<'a> {
    /// Its hash must run nowhere.
    pub blocked: bool,
    /// It was looked at and turned down.
    pub rejected: bool,
    /// What its hash was approved for.
    pub hash: Option<&'a BTreeSet<String>>,
    /// What its name was approved for, as long as its signer signs.
    pub signer: Option<&'a BTreeSet<String>>,
}

/// What becomes of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It goes live: its hash is approved for all that it asks for.
    ByHash,
    /// It goes live: its signer is approved for all that it asks for.
    BySigner,
    /// It waits for the operator.
    Wait,
    /// The operator turned it down.
    Reject,
    /// The operator blocked it.
    Block,
}

impl Admission {
    /// Whether it goes live.
    #[must_use]
    pub fn is_live(self) -> bool {
        match self {
            Self::ByHash | Self::BySigner => true,
            Self::Wait | Self::Reject | Self::Block => false,
        }
    }
}

/// Weighs what was said of a component against what it asks for. A block
/// stands above everything, and an approval above an earlier rejection of the
/// same component, which the signer's approval alone does not undo.
#[must_use]
pub fn admit(said: Said<'_>, wanted: &BTreeSet<Permission>) -> Admission {
    let covers = |approved: Option<&BTreeSet<String>>| {
        approved.is_some_and(|approved| more_than(approved, wanted).is_empty())
    };
    if said.blocked {
        Admission::Block
    } else if covers(said.hash) {
        Admission::ByHash
    } else if said.rejected {
        Admission::Reject
    } else if covers(said.signer) {
        Admission::BySigner
    } else {
        Admission::Wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_weighed_in_order() {
        let wanted: BTreeSet<Permission> = [Permission::Keep, Permission::Journal].into();
        let all: BTreeSet<String> = ["keep", "journal", "upstream:x"].map(str::to_owned).into();
        let less: BTreeSet<String> = ["keep".to_owned()].into();
        let check = |said: Said<'_>, expected: Admission| {
            assert_eq!(admit(said, &wanted), expected, "{said:?}");
        };
        let nothing = Said::default();
        let hash = Said {
            hash: Some(&all),
            ..nothing
        };
        let signer = Said {
            signer: Some(&all),
            ..nothing
        };
        check(nothing, Admission::Wait);
        check(hash, Admission::ByHash);
        check(signer, Admission::BySigner);
        for less in [
            Said {
                hash: Some(&less),
                ..nothing
            },
            Said {
                signer: Some(&less),
                ..nothing
            },
        ] {
            check(less, Admission::Wait);
        }
        let rejected = |said| Said {
            rejected: true,
            ..said
        };
        check(rejected(nothing), Admission::Reject);
        check(rejected(signer), Admission::Reject);
        check(rejected(hash), Admission::ByHash);
        for said in [nothing, hash, signer, rejected(hash)] {
            check(
                Said {
                    blocked: true,
                    ..said
                },
                Admission::Block,
            );
        }
    }
}
