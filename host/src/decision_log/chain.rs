//! The chain, as plain functions over bytes: what a line is, what a link says
//! of the lines before it, how a head is written. `docs/decision-log.md` says
//! the same for other programs.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What every segment says it is.
pub(super) const FORMAT: &str = "jackfield decision log 1";

/// The state of a chain after a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    /// How many links there are.
    pub(super) links: u64,
    /// How many records there are.
    pub(super) records: u64,
    /// The hash over everything so far.
    pub(super) head: [u8; 32],
}

impl State {
    /// Before the first line.
    pub(super) const BEGINNING: Self = Self {
        links: 0,
        records: 0,
        head: [0; 32],
    };

    /// After one more batch: `lines` are all its lines with their line ends,
    /// `records` of them records.
    pub(super) fn after(&self, lines: &[u8], records: u64) -> Self {
        let links = self.links.saturating_add(1);
        let mut hash = Sha256::new();
        hash.update(FORMAT.as_bytes());
        hash.update(b"\n");
        hash.update(self.head);
        hash.update(links.to_be_bytes());
        hash.update(lines);
        Self {
            links,
            records: self.records.saturating_add(records),
            head: hash.finalize().into(),
        }
    }

    /// The line that ends a batch.
    pub(super) fn line(&self) -> String {
        let Self {
            links,
            records,
            head,
        } = self;
        let head = hex(head);
        format!("{{\"link\":{links},\"records\":{records},\"head\":\"{head}\"}}\n")
    }
}

/// The first line of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    /// Its number.
    pub(super) segment: u64,
    /// Always [`FORMAT`].
    pub(super) format: String,
    /// When it began.
    pub(super) time: Timestamp,
    /// The oldest segment that is kept from now on.
    pub(super) kept_from: u64,
    /// Links before it.
    pub(super) links: u64,
    /// Records before it.
    pub(super) records: u64,
    /// The head before it.
    pub(super) previous: String,
}

/// A link as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    link: u64,
    records: u64,
    head: String,
}

impl Link {
    /// What it says of the chain; none where that is no hash.
    pub(super) fn state(&self) -> Option<State> {
        Some(State {
            links: self.link,
            records: self.records,
            head: from_hex(&self.head)?,
        })
    }
}

/// A head that the host has signed, as it stands in a segment, in `head.json`
/// and in an anchor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedHead {
    /// The number of links.
    pub signed: u64,
    /// The number of records.
    pub records: u64,
    /// The hash over everything so far.
    pub head: String,
    /// When it was signed.
    pub time: Timestamp,
    /// The public key, in base64.
    pub key: String,
    /// The signature, in base64.
    pub signature: String,
}

impl SignedHead {
    /// The bytes that are signed.
    pub(super) fn message(&self) -> Vec<u8> {
        let Self {
            signed,
            records,
            head,
            time,
            ..
        } = self;
        format!("{FORMAT} head\n{signed}\n{records}\n{head}\n{time}\n").into_bytes()
    }

    /// As it stands in a file.
    pub(super) fn line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("numbers and texts are JSON");
        line.push('\n');
        line
    }
}

/// What a verifier looks at in a record.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Numbered {
    pub(super) record: u64,
    pub(super) time: Timestamp,
    pub(super) decision: Option<serde::de::IgnoredAny>,
    pub(super) began: Option<Began>,
    pub(super) lost: Option<Lost>,
    pub(super) short: Option<Short>,
    pub(super) ended: Option<bool>,
}

/// The host has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Began {
    /// Whether the log had been ended in order, or is new.
    pub(super) clean: bool,
    /// What was cut off because no link followed it.
    pub(super) cut_bytes: u64,
}

/// Records that could not be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lost {
    /// How many.
    pub(super) count: u64,
}

/// At a start the log ended before what the host had signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Short {
    /// The links that were signed.
    pub(super) signed: u64,
    /// The links that were there.
    pub(super) found: u64,
}

/// A line of a segment.
#[derive(Debug)]
pub(super) enum Line {
    Header(Box<Header>),
    Record(Box<Numbered>),
    Link(Link),
    Signed(Box<SignedHead>),
}

impl Line {
    /// Reads a line without its line end; none where it is none of ours.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        fn read<'a, T: Deserialize<'a>>(line: &'a [u8]) -> Option<T> {
            serde_json::from_slice(line).ok()
        }
        if line.starts_with(b"{\"record\":") {
            read(line).map(|record| Self::Record(Box::new(record)))
        } else if line.starts_with(b"{\"link\":") {
            read(line).map(Self::Link)
        } else if line.starts_with(b"{\"signed\":") {
            read(line).map(|signed| Self::Signed(Box::new(signed)))
        } else if line.starts_with(b"{\"segment\":") {
            read(line).map(|header| Self::Header(Box::new(header)))
        } else {
            None
        }
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    let small = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    if digits.len() != 64 || !digits.iter().all(small) {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vector of docs/decision-log.md: `printf` and `sha256sum` give the same.
    #[test]
    fn a_head_covers_what_was_before_its_number_and_its_lines() {
        let first = State::BEGINNING.after(b"{\"record\":1}\n", 1);
        assert_eq!(
            first.line(),
            "{\"link\":1,\"records\":1,\"head\":\"091fca920eac977588640689e5aee874f8201ff109d7f2a659f07e6e7e86c940\"}\n"
        );
        let again = first.after(b"", 0);
        assert_ne!(first.head, again.head);
        assert_ne!(first.after(b"x\n", 0).head, again.head);
        let Some(Line::Link(link)) = Line::parse(first.line().trim_end().as_bytes()) else {
            panic!("no link");
        };
        assert_eq!(link.state(), Some(first));
    }

    #[test]
    fn a_hash_has_one_spelling() {
        let text = hex(&[0xab; 32]);
        assert_eq!(from_hex(&text), Some([0xab; 32]));
        assert_eq!(from_hex(&text.to_uppercase()), None);
        assert_eq!(from_hex("ab"), None);
    }
}
