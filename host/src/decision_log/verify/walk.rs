//! One way through the lines of a log, from the first to the last.

mod beside;

use std::collections::BTreeSet;

use crate::decision_log::chain::{FORMAT, Header, Line, Numbered, SignedHead, State, hex};
use crate::decision_log::sign::PublicKey;
use crate::decision_log::verify::{Expected, Finding, Report};

/// Where the walk is.
pub(super) struct Walk<'a> {
    expected: &'a Expected,
    key: Option<PublicKey>,
    report: Report,
    /// What the next link may build upon: what was worked out and, where that
    /// did not hold, what the link said, so that one break is told once.
    states: Vec<State>,
    /// Links at the beginning of the oldest segment.
    oldest: Option<(u64, State)>,
    kept_from: u64,
    number: Option<u64>,
    batch: Batch,
    /// The links under signed heads that hold.
    signed: BTreeSet<u64>,
    anchored: bool,
    last_signed_records: u64,
}

/// The lines since the last link.
#[derive(Default)]
struct Batch {
    from: usize,
    until: usize,
    records: u64,
    first: Option<u64>,
    last: Option<u64>,
    /// What its lines say of themselves that cannot be.
    wrong: Option<String>,
    /// Facts that count once it is linked.
    decisions: u64,
    lost: u64,
    said: Vec<String>,
    short: Option<String>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(expected: &'a Expected) -> Self {
        Self {
            expected,
            key: expected.key,
            report: Report::default(),
            states: Vec::new(),
            oldest: None,
            kept_from: 1,
            number: None,
            batch: Batch::default(),
            signed: BTreeSet::new(),
            anchored: false,
            last_signed_records: 0,
        }
    }

    fn finding(&mut self, place: String, what: impl Into<String>) {
        let what = what.into();
        self.report.findings.push(Finding { place, what });
    }

    pub(super) fn segment(&mut self, number: u64, bytes: &[u8], last: bool) {
        let file = format!("{number:010}.log");
        self.report.segments += 1;
        if let Some(before) = self.number
            && before + 1 != number
        {
            let missing = range("segment", before + 1, number - 1);
            self.finding(file.clone(), format!("{missing} before it are gone"));
        }
        self.number = Some(number);
        self.batch = Batch::default();
        let (mut at, mut start, mut tail) = (0, 0, 0);
        let mut headed = false;
        for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let count = index + 1;
            let from = at;
            at += line.len();
            if self.batch.from == 0 {
                self.batch.from = count;
            }
            self.batch.until = count;
            let parsed = line.strip_suffix(b"\n").and_then(Line::parse);
            match parsed {
                Some(Line::Header(header)) if index == 0 => {
                    headed = true;
                    self.header(&file, number, &header);
                }
                Some(Line::Record(record)) => self.record(&record),
                Some(Line::Link(link)) => {
                    let lines = bytes.get(start..from).unwrap_or_default();
                    let canonical = link.state().map(|state| (state, state.line()));
                    let said = canonical
                        .filter(|(_, canonical)| canonical.as_bytes() == line)
                        .map(|(state, _)| state);
                    self.link(&file, lines, said);
                    (start, tail) = (at, at);
                }
                Some(Line::Signed(head)) => {
                    let whole = head.line().as_bytes() == line;
                    let place = format!("{file}, line {count}");
                    self.signed_head(&place, &head, whole && from == tail);
                    tail = at;
                }
                Some(Line::Header(_)) => {
                    self.batch.wrong = Some("a segment begins in its middle".to_owned());
                }
                // Only the last write can have been torn.
                None if !line.ends_with(b"\n") && last => {}
                None => {
                    let what = format!("line {count} is none that the host writes");
                    self.batch.wrong = Some(what);
                }
            }
        }
        self.torn(&file, bytes.len() - tail.min(bytes.len()), last);
        // The last one may have been torn in its first write.
        let torn = last && tail == 0;
        if !(headed || torn) {
            self.finding(file, "its first line is gone or changed");
        }
    }

    fn header(&mut self, file: &str, number: u64, header: &Header) {
        if header.segment != number || header.format != FORMAT {
            let said = header.segment;
            self.finding(
                format!("{file}, line 1"),
                format!("it says that it is segment {said} of {:?}", header.format),
            );
        }
        let said = crate::decision_log::chain::from_hex(&header.previous).map(|head| State {
            links: header.links,
            records: header.records,
            head,
        });
        match said {
            Some(said) if self.states.is_empty() => {
                self.oldest = Some((number, said));
                self.states = vec![said];
            }
            Some(said) if self.states.contains(&said) => self.states = vec![said],
            Some(said) => {
                self.finding(
                    format!("{file}, line 1"),
                    "it does not follow what stands before it: something between was cut off, added or changed",
                );
                self.states.push(said);
            }
            None => self.finding(format!("{file}, line 1"), "its previous head is no hash"),
        }
        self.kept_from = header.kept_from;
    }

    fn record(&mut self, record: &Numbered) {
        let known = self.states.first().map_or(0, |state| state.records);
        let due = known + self.batch.records + 1;
        if record.record != due && self.batch.wrong.is_none() {
            self.batch.wrong = Some(format!(
                "record {} stands where record {due} belongs",
                record.record
            ));
        }
        self.batch.records += 1;
        self.batch.first.get_or_insert(record.record);
        self.batch.last = Some(record.record);
        self.batch.decisions += u64::from(record.decision.is_some());
        let time = record.time;
        if let Some(lost) = record.lost {
            self.batch.lost += lost.count;
            let count = lost.count;
            self.batch.said.push(format!(
                "record {}: {count} decisions before {time} could not be written",
                record.record
            ));
        }
        if let Some(began) = record.began
            && !began.clean
        {
            let cut = began.cut_bytes;
            self.batch.said.push(format!(
                "record {}: the host that wrote before was not ended in order; at the start of {time}, {cut} bytes \
                 without a link were cut off, and what it had in its queue is not here",
                record.record
            ));
        }
        if let Some(short) = record.short {
            self.batch.short = Some(format!(
                "at the start of {time} the log ended at link {}, and the host had signed link {}: what was between \
                 was cut off",
                short.found, short.signed
            ));
        }
    }

    fn link(&mut self, file: &str, lines: &[u8], said: Option<State>) {
        let batch = std::mem::take(&mut self.batch);
        let place = batch.place(file);
        let worked_out: Vec<State> = self
            .states
            .iter()
            .map(|state| state.after(lines, batch.records))
            .collect();
        let holds = said.filter(|said| worked_out.contains(said));
        match holds {
            Some(state) => self.states = vec![state],
            None => {
                let what = batch
                    .wrong
                    .clone()
                    .unwrap_or_else(|| "they are not what the host wrote".to_owned());
                let records = match (batch.first, batch.last) {
                    (Some(first), Some(last)) => range("record", first, last),
                    _ => "the link".to_owned(),
                };
                self.finding(
                    place.clone(),
                    format!("{records}: changed, dropped, added or moved ({what})"),
                );
                self.states = said.into_iter().chain(worked_out).collect();
            }
        }
        if holds.is_some()
            && let Some(what) = batch.wrong
        {
            self.finding(place.clone(), what);
        }
        self.report.links += 1;
        self.report.records += batch.records;
        self.report.decisions += batch.decisions;
        self.report.lost += batch.lost;
        self.report.notes.extend(batch.said);
        if let Some(what) = batch.short {
            self.finding(place.clone(), what);
        }
        self.meets_anchor(&place);
    }

    fn meets_anchor(&mut self, place: &str) {
        let (Some(anchor), Some(state)) = (&self.expected.anchor, self.states.first()) else {
            return;
        };
        if anchor.signed != state.links {
            return;
        }
        self.anchored = true;
        if anchor.head != hex(&state.head) || anchor.records != state.records {
            self.finding(
                place.to_owned(),
                "it is not what the anchor was signed for: this log was written anew",
            );
        }
    }

    fn signed_head(&mut self, place: &str, head: &SignedHead, whole: bool) {
        let key = match self.key {
            Some(key) => key,
            // Nobody said which, so the first is believed, and held to.
            None => match PublicKey::parse(&head.key) {
                Ok(key) => *self.key.insert(key),
                Err(_) => return self.finding(place.to_owned(), "its signature is by no key"),
            },
        };
        let covers = self.states.iter().any(|state| {
            head.signed == state.links
                && head.records == state.records
                && head.head == hex(&state.head)
        });
        if !key.signed(head) || !whole {
            self.finding(
                place.to_owned(),
                "its signature does not hold: it was changed, or made with another key",
            );
        } else if !covers {
            self.finding(
                place.to_owned(),
                "the signed head is not that of the lines before it",
            );
        } else {
            self.report.signed_heads += 1;
            self.signed.insert(head.signed);
            self.last_signed_records = head.records;
        }
    }

    /// What stands behind the last link of a segment.
    fn torn(&mut self, file: &str, bytes: usize, last: bool) {
        let batch = std::mem::take(&mut self.batch);
        if bytes == 0 {
            return;
        }
        if last && batch.wrong.is_none() {
            let records = batch.records;
            self.report.notes.push(format!(
                "{file} ends in {bytes} bytes without a link ({records} whole records): a host writes it, or was \
                 killed, and its next start cuts them off"
            ));
        } else {
            let what = batch.wrong.clone();
            let what = what.unwrap_or_else(|| "no link follows it".to_owned());
            self.finding(
                batch.place(file),
                format!("its end is not what the host wrote ({what})"),
            );
        }
    }
}

impl Batch {
    fn place(&self, file: &str) -> String {
        match (self.from, self.until) {
            (from, until) if from == until => format!("{file}, line {from}"),
            (from, until) => format!("{file}, lines {from} to {until}"),
        }
    }
}

fn range(what: &str, first: u64, last: u64) -> String {
    if first == last {
        format!("{what} {first}")
    } else {
        format!("{what}s {first} to {last}")
    }
}
