//! What a log is held to beside itself: the head that was signed last, and an
//! anchor.

use crate::decision_log::chain::{SignedHead, hex};
use crate::decision_log::verify::Report;
use crate::decision_log::verify::walk::{Walk, range};

impl Walk<'_> {
    /// Ends the walk: `head` is what `head.json` holds.
    pub(in crate::decision_log::verify) fn end(mut self, head: Option<&str>) -> Report {
        if let Some((oldest, _)) = self.oldest
            && oldest > self.kept_from
        {
            let missing = range("segment", self.kept_from, oldest - 1);
            self.finding(
                format!("{oldest:010}.log"),
                format!("{missing} before it should be here, and are gone"),
            );
        }
        self.head_file(head);
        self.anchor();
        if self.expected.key.is_none() {
            let key = self.key.map_or_else(String::new, |key| key.to_string());
            self.report.notes.push(format!(
                "the key was taken from the log itself ({key}): whoever wrote it anew could have signed it, too. \
                 Keep what `jackfield log key` prints, and pass it as --key"
            ));
        }
        self.report.unsigned_records = self
            .states
            .first()
            .map_or(0, |state| state.records)
            .saturating_sub(self.last_signed_records);
        self.report.holds = self.report.findings.is_empty();
        self.report
    }

    fn head_file(&mut self, head: Option<&str>) {
        let place = || "head.json".to_owned();
        let Some(text) = head else {
            // The very first start may have been killed between the two.
            if self.report.signed_heads > 1 {
                self.finding(
                    place(),
                    "it is gone: the log may end before what was signed",
                );
            }
            return;
        };
        let head: Option<SignedHead> = serde_json::from_str(text).ok();
        let head = head.filter(|head| head.line() == *text);
        let Some(head) = head else {
            return self.finding(place(), "it is no head that the host wrote");
        };
        if !self.key.is_some_and(|key| key.signed(&head)) {
            return self.finding(place(), "its signature does not hold");
        }
        let before = self.oldest.map_or(0, |(_, state)| state.links);
        if !self.signed.contains(&head.signed) && head.signed > before {
            let signed = head.signed;
            let found = self.states.first().map_or(0, |state| state.links);
            self.finding(
                place(),
                format!(
                    "link {signed} was signed, and its signature stands nowhere in the log, which ends at link \
                     {found}: what was behind is cut off or changed"
                ),
            );
        }
    }

    fn anchor(&mut self) {
        let Some(anchor) = &self.expected.anchor else {
            return;
        };
        let place = || "the anchor".to_owned();
        let signed = anchor.signed;
        if !self.key.is_some_and(|key| key.signed(anchor)) {
            return self.finding(place(), "it is not signed by the key of this log");
        }
        if self.anchored {
            return;
        }
        match self.oldest {
            Some((_, oldest)) if signed == oldest.links => {
                if anchor.head != hex(&oldest.head) {
                    self.finding(place(), "what is kept does not follow it");
                }
            }
            Some((_, oldest)) if signed < oldest.links => {
                self.report.notes.push(format!(
                    "the anchor is of link {signed}, which is no longer kept: the oldest is link {}",
                    oldest.links + 1
                ));
            }
            Some(_) | None => self.finding(
                place(),
                format!("it is of link {signed}, and the log ends before: it was cut off or written anew"),
            ),
        }
    }
}
