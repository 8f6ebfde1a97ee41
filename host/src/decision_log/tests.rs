//! A log as a host keeps it: begun, written, ended, taken up after a crash.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::record::tests::decision;
use super::segments::{list, path};
use super::*;
use crate::vault::VaultKey;

fn key() -> VaultKey {
    VaultKey::from_bytes([5; 32])
}

pub(super) fn signer() -> Signer {
    Signer::of(&key())
}

pub(super) fn settings(folder: &Path, mode: Mode) -> LogSettings {
    LogSettings {
        mode,
        folder: folder.to_owned(),
        segment_bytes: 4096,
        segments: 4,
        queue: 64,
        // No interval: heads are signed at starts and ends.
        sign_every: Duration::from_secs(3600),
        inputs: None,
    }
}

pub(super) fn open(settings: &LogSettings) -> (DecisionLog, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::default());
    let log = DecisionLog::open(settings, LogKeys::of(&key()), Arc::clone(&metrics)).unwrap();
    (log, metrics)
}

/// A log of this many decisions, ended in order.
fn written(settings: &LogSettings, decisions: usize) {
    let (log, _) = open(settings);
    for _ in 0..decisions {
        log.tell(decision("alice"), None, log.admit().unwrap());
    }
    log.close();
}

fn expected() -> Expected {
    Expected {
        key: Some(signer().public_key()),
        anchor: None,
    }
}

fn verified(folder: &Path) -> Report {
    let report = verify(folder, &expected()).unwrap();
    assert!(report.holds, "{report:#?}");
    report
}

fn counter(metrics: &Metrics, name: &str) -> u64 {
    let text = metrics.render();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn what_is_told_is_there_and_holds() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), Mode::Must);
    let (log, metrics) = open(&settings);
    for name in ["alice", "bob", "alice"] {
        log.tell(decision(name), None, log.admit().unwrap());
    }
    log.close();
    let report = verified(folder.path());
    assert_eq!((report.decisions, report.records), (3, 5));
    assert_eq!(report.unsigned_records, 0);
    assert!(report.notes.is_empty(), "{report:#?}");
    let mut boxes = Vec::new();
    read(folder.path(), |shown| -> io::Result<()> {
        boxes.extend(shown.box_name);
        Ok(())
    })
    .unwrap();
    assert_eq!(boxes, ["alice", "bob", "alice"]);
    assert_eq!(counter(&metrics, "jackfield_decision_log_records_total"), 4);
    assert!(counter(&metrics, "jackfield_decision_log_bytes_total") > 1000);
    let mode = fs::metadata(path(folder.path(), 1))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = written_again(&settings);
    assert!(again.notes.is_empty(), "{again:#?}");
}

fn written_again(settings: &LogSettings) -> Report {
    written(settings, 2);
    verified(&settings.folder)
}

#[test]
fn segments_follow_each_other_and_the_oldest_go() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), Mode::BestEffort);
    for _ in 0..12 {
        written(&settings, 8);
    }
    let numbers = list(folder.path()).unwrap();
    assert_eq!(numbers.len(), 4, "{numbers:?}");
    assert!(numbers[0] > 1, "{numbers:?}");
    for number in &numbers {
        assert!(fs::metadata(path(folder.path(), *number)).unwrap().len() < 16_384);
    }
    let report = verified(folder.path());
    assert!(report.records < 12 * 10);
    // One that should be kept is missed, also at the old end.
    fs::remove_file(path(folder.path(), numbers[0])).unwrap();
    let report = verify(folder.path(), &expected()).unwrap();
    assert!(!report.holds);
    let what = &report.findings[0].what;
    assert!(what.contains(&format!("segment {}", numbers[0])), "{what}");
}

#[test]
fn a_torn_end_is_cut_off_and_told_and_is_no_tampering() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), Mode::Must);
    written(&settings, 3);
    let file = path(folder.path(), 1);
    let whole = fs::read(&file).unwrap();
    // As a crash leaves it: a record without a link, and half of another.
    let torn = b"{\"record\":6,\"time\":\"2026-01-01T00:00:00Z\",\"lost\":{\"count\":1}}\n{\"record\":7,\"ti";
    fs::write(&file, [&whole[..], torn].concat()).unwrap();
    let report = verified(folder.path());
    assert!(
        report.notes[0].contains("without a link (1 whole records)"),
        "{report:#?}"
    );
    written(&settings, 1);
    let report = verified(folder.path());
    assert_eq!(report.decisions, 4);
    let told = format!("{} bytes without a link were cut off", torn.len());
    assert!(report.notes[0].contains(&told), "{report:#?}");
    // A segment of which nothing was written whole goes.
    fs::write(path(folder.path(), 2), b"{\"segment\":2,").unwrap();
    verified(folder.path());
    written(&settings, 1);
    assert_eq!(verified(folder.path()).decisions, 5);
}

#[test]
fn what_was_signed_and_is_gone_at_a_start_stays_told() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), Mode::BestEffort);
    written(&settings, 3);
    let file = path(folder.path(), 1);
    let text = fs::read_to_string(&file).unwrap();
    // Back to the first link, as whoever wants the rest forgotten cuts it.
    let end = text.find("{\"link\":1,").unwrap();
    let end = end + text[end..].find('\n').unwrap() + 1;
    fs::write(&file, &text[..end]).unwrap();
    let report = verify(folder.path(), &expected()).unwrap();
    assert!(report.findings[0].what.contains("cut off"), "{report:#?}");
    // The host's next start signs anew, and cannot make it forgotten.
    written(&settings, 1);
    let report = verify(folder.path(), &expected()).unwrap();
    assert!(!report.holds);
    assert!(
        report.findings[0].what.contains("the host had signed link"),
        "{report:#?}"
    );
}

#[test]
fn an_anchor_finds_a_log_that_was_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), Mode::BestEffort);
    written(&settings, 3);
    let anchor = head(folder.path()).unwrap();
    written(&settings, 3);
    let held_to = |anchor: &SignedHead| {
        let expected = Expected {
            key: None,
            anchor: Some(anchor.clone()),
        };
        verify(folder.path(), &expected).unwrap()
    };
    assert!(held_to(&anchor).holds);
    let mut forged = anchor.clone();
    forged.records += 1;
    assert!(!held_to(&forged).holds);
    // With the host's own key, and shorter or longer than before.
    for decisions in [0, 40] {
        for entry in fs::read_dir(folder.path()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        written(&settings, decisions);
        assert!(verified(folder.path()).holds);
        let report = held_to(&anchor);
        assert!(!report.holds, "{report:#?}");
        assert!(
            report
                .findings
                .iter()
                .any(|one| one.what.contains("written anew"))
        );
    }
}

#[test]
fn another_key_is_found() {
    let folder = tempfile::tempdir().unwrap();
    written(&settings(folder.path(), Mode::Must), 1);
    let other = Signer::of(&VaultKey::from_bytes([6; 32])).public_key();
    let expected = Expected {
        key: Some(other),
        anchor: None,
    };
    assert!(!verify(folder.path(), &expected).unwrap().holds);
    let unsaid = verify(folder.path(), &Expected::default()).unwrap();
    assert!(unsaid.holds && unsaid.notes[0].contains("taken from the log itself"));
}

#[test]
fn a_queue_without_room_refuses_or_counts() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = settings(folder.path(), Mode::Must);
    settings.queue = 2;
    let (log, _) = open(&settings);
    let slots = (log.admit().unwrap(), log.admit().unwrap());
    assert_eq!(log.admit().err(), Some(NoRecord::Queue));
    drop(slots);
    assert!(log.admit().is_ok());
    log.close();
    // Nobody takes anything out of the queue any more.
    log.tell(decision("alice"), None, None);
    assert_eq!(log.shared.lost.load(Ordering::Acquire), 1);
    // What was lost is told by the next batch.
    settings.mode = Mode::BestEffort;
    let (log, metrics) = open(&settings);
    log.shared.lose(7);
    log.tell(decision("alice"), None, log.admit().unwrap());
    log.close();
    assert_eq!(counter(&metrics, "jackfield_decision_log_lost_total"), 7);
    let report = verified(folder.path());
    assert_eq!((report.lost, report.decisions), (7, 1));
    assert!(report.notes[0].contains("7 decisions"), "{report:#?}");
}
