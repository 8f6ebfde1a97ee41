//! How a new version is tried beside the live one: as its shadow, or on some
//! of the boxes first. Which boxes those are is the same on every host and
//! after every restart.

use std::collections::BTreeSet;
use std::fmt;

use sha2::{Digest, Sha256};

use crate::rules::names::BoxName;

/// A share is counted in hundredths of a percent.
const WHOLE: u16 = 10_000;

/// How many boxes a list may name.
const MOST_BOXES: usize = 256;

/// How a version is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// It is asked what the live one is asked, and nothing it says is done.
    Shadow,
    /// It serves these boxes; the live one serves all others.
    Canary(Share),
}

/// The boxes that a canary serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Share {
    /// So many hundredths of a percent of all boxes.
    Part(u16),
    /// These.
    Boxes(BTreeSet<BoxName>),
}

/// Why a text names no share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no share of the boxes: write 0.01% to 100%, or the names of up to {MOST_BOXES} boxes with commas between"
)]
pub struct ShareError(String);

impl Share {
    /// Reads what an operator writes: `10%`, or `box-a,box-b`.
    ///
    /// # Errors
    /// When it is neither.
    pub fn parse(text: &str) -> Result<Self, ShareError> {
        let error = || ShareError(text.chars().take(80).collect());
        if let Some(number) = text.strip_suffix('%') {
            return part(number).map(Self::Part).ok_or_else(error);
        }
        let boxes: Result<BTreeSet<_>, _> = text.split(',').map(BoxName::parse).collect();
        match boxes {
            Ok(boxes) if boxes.len() <= MOST_BOXES => Ok(Self::Boxes(boxes)),
            Ok(_) | Err(_) => Err(error()),
        }
    }

    /// Whether a box is served by the version with this hash. Another version
    /// meets other boxes first.
    #[must_use]
    pub fn takes(&self, box_name: &BoxName, component: &[u8; 32]) -> bool {
        match self {
            Self::Boxes(boxes) => boxes.contains(box_name),
            Self::Part(part) => {
                let mut hasher = Sha256::new();
                hasher.update(component);
                hasher.update(box_name.as_str());
                let drawn = hasher.finalize().iter().take(8).fold(0_u64, |drawn, byte| {
                    drawn.wrapping_shl(8) | u64::from(*byte)
                });
                drawn % u64::from(WHOLE) < u64::from(*part)
            }
        }
    }
}

/// A percentage with up to two digits behind its point.
fn part(number: &str) -> Option<u16> {
    let (whole, rest) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 3 || rest.len() > 2 || !digits(whole) || !digits(rest) {
        return None;
    }
    let part = format!("{whole}{rest:0<2}").parse().ok()?;
    (1..=WHOLE).contains(&part).then_some(part)
}

impl fmt::Display for Share {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(part) => {
                let text = format!("{}.{:02}", part / 100, part % 100);
                let text = text.trim_end_matches('0').trim_end_matches('.');
                write!(formatter, "{text}%")
            }
            Self::Boxes(boxes) => {
                let names: Vec<&str> = boxes.iter().map(BoxName::as_str).collect();
                formatter.write_str(&names.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage_or_names() {
        let check = |text: &str, expected: Option<&str>| {
            let shown = Share::parse(text).ok().map(|share| share.to_string());
            assert_eq!(shown.as_deref(), expected, "{text}");
        };
        check("10%", Some("10%"));
        check("0.5%", Some("0.5%"));
        check("0.01%", Some("0.01%"));
        check("100%", Some("100%"));
        check("box-b,box-a", Some("box-a,box-b"));
        for text in [
            "0%", "100.01%", "101%", "%", ".5%", "1.234%", "-1%", "1e1%", "", ",", "box-a,", "a b",
        ] {
            check(text, None);
        }
        let many: Vec<String> = (0..=MOST_BOXES)
            .map(|number| format!("b{number}"))
            .collect();
        check(&many.join(","), None);
    }

    #[test]
    fn a_share_takes_the_same_boxes_every_time_and_about_as_many() {
        let boxes: Vec<BoxName> = (0..10_000)
            .map(|number| BoxName::parse(&format!("box-{number}")).unwrap())
            .collect();
        let taken = |share: &Share, hash: [u8; 32]| -> BTreeSet<&BoxName> {
            boxes
                .iter()
                .filter(|name| share.takes(name, &hash))
                .collect()
        };
        let tenth = Share::parse("10%").unwrap();
        let first = taken(&tenth, [1; 32]);
        assert!((800..1200).contains(&first.len()), "{}", first.len());
        assert_eq!(taken(&tenth, [1; 32]), first);
        assert_ne!(taken(&tenth, [2; 32]), first);
        // A larger share holds the smaller one: nobody goes back and forth.
        assert!(taken(&Share::parse("20%").unwrap(), [1; 32]).is_superset(&first));
        assert_eq!(taken(&Share::parse("100%").unwrap(), [1; 32]).len(), 10_000);
        let named = Share::parse("box-7,box-9").unwrap();
        assert_eq!(taken(&named, [1; 32]).len(), 2);
    }
}
