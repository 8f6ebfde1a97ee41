//! Every kind of tampering, drawn at random, is found; what is left alone
//! holds.

use std::path::PathBuf;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::decision_log::record::{About, Decision, Entry, tests::decision};
use crate::decision_log::segments::{Bounds, Segments};
use crate::decision_log::tests::signer;

/// The files of a log of several segments, ended in order, by name.
static LOG: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let bounds = Bounds {
        bytes: 2500,
        segments: 100,
    };
    let mut segments = Segments::open(folder.path(), bounds).unwrap().segments;
    let entry = |about| Entry::new(jiff::Timestamp::UNIX_EPOCH, about);
    for batch in 0..12 {
        let told = |name: &str| Decision {
            ended_us: batch,
            ..decision(name)
        };
        let about = ["alice", "bob", "carol"].map(|name| About::Decision(Box::new(told(name))));
        segments.append(&about.map(entry), false).unwrap();
        if batch % 4 == 3 {
            segments
                .sign(&signer(), jiff::Timestamp::UNIX_EPOCH)
                .unwrap();
        }
    }
    segments.append(&[entry(About::Ended)], true).unwrap();
    segments
        .sign(&signer(), jiff::Timestamp::UNIX_EPOCH)
        .unwrap();
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    assert!(files.len() > 4, "{}", files.len());
    files
});

fn report(files: &[(String, Vec<u8>)]) -> Report {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(PathBuf::from(folder.path()).join(name), bytes).unwrap();
    }
    let expected = Expected {
        key: Some(signer().public_key()),
        anchor: None,
    };
    verify(folder.path(), &expected).unwrap()
}

/// The segments' files; the last one is the head's.
fn segments() -> usize {
    LOG.len() - 1
}

fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.map(<[u8]>::to_vec).collect()
}

fn is_record(line: &[u8]) -> bool {
    line.starts_with(b"{\"record\"")
}

#[test]
fn what_is_left_alone_holds() {
    let report = report(&LOG);
    assert!(report.holds, "{report:#?}");
    assert_eq!(
        (report.decisions, report.links, report.signed_heads),
        (36, 13, 4)
    );
}

#[test]
fn a_break_is_told_once_and_where() {
    let mut files = LOG.clone();
    let text = String::from_utf8(files[1].1.clone()).unwrap();
    files[1].1 = text.replacen("alice", "aline", 1).into_bytes();
    let findings = report(&files).findings;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert!(
        findings[0].place.starts_with("0000000002.log, lines 1 to"),
        "{findings:#?}"
    );
    assert!(findings[0].what.starts_with("records "), "{findings:#?}");
}

#[test]
fn any_segment_that_is_gone_is_missed() {
    // The oldest, one in the middle, the newest; and the head's file.
    for gone in 0..LOG.len() {
        let mut files = LOG.clone();
        let (name, _) = files.remove(gone);
        assert!(!report(&files).holds, "{name}");
    }
}

#[test]
fn an_end_that_is_cut_is_missed_wherever_it_is_cut() {
    let last = segments() - 1;
    let length = LOG[last].1.len();
    for cut in 1..=length {
        let mut files = LOG.clone();
        files[last].1.truncate(length - cut);
        assert!(!report(&files).holds, "{cut} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_byte_is_found(file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), change in 1_u8..) {
        let mut files = LOG.clone();
        let bytes = &mut file.get_mut(&mut files).1;
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        prop_assert!(!report(&files).holds);
    }

    #[test]
    fn a_dropped_line_is_found(file in any::<prop::sample::Index>(), line in any::<prop::sample::Index>()) {
        let mut files = LOG.clone();
        let bytes = &mut files[file.index(segments())].1;
        let mut all = lines(bytes);
        let dropped = all.remove(line.index(all.len()));
        *bytes = all.concat();
        // A signature at a segment's end may go: the next one covers as much.
        let covered = dropped.starts_with(b"{\"signed\"");
        prop_assert!(covered || !report(&files).holds);
    }

    #[test]
    fn two_swapped_lines_are_found(
        file in any::<prop::sample::Index>(),
        one in any::<prop::sample::Index>(),
        other in any::<prop::sample::Index>(),
    ) {
        let mut files = LOG.clone();
        let bytes = &mut files[file.index(segments())].1;
        let mut all = lines(bytes);
        let (one, other) = (one.index(all.len()), other.index(all.len()));
        prop_assume!(all[one] != all[other]);
        all.swap(one, other);
        *bytes = all.concat();
        prop_assert!(!report(&files).holds);
    }

    #[test]
    fn a_record_that_is_repeated_or_moved_to_another_segment_is_found(
        from in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
        line in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
    ) {
        let mut files = LOG.clone();
        let records: Vec<Vec<u8>> = lines(&files[from.index(segments())].1)
            .into_iter()
            .filter(|line| is_record(line))
            .collect();
        let bytes = &mut files[to.index(segments())].1;
        let mut all = lines(bytes);
        all.insert(place.index(all.len()), line.get(&records).clone());
        *bytes = all.concat();
        prop_assert!(!report(&files).holds);
    }

    #[test]
    fn a_cut_in_any_segment_is_found(file in any::<prop::sample::Index>(), at in any::<prop::sample::Index>()) {
        let mut files = LOG.clone();
        let bytes = &mut files[file.index(segments())].1;
        let at = at.index(bytes.len());
        let all = bytes.len();
        bytes.truncate(at);
        // Where a signature alone was cut off a segment that another follows, no record is gone.
        let rest = &LOG[file.index(segments())].1[at..all];
        prop_assume!(!rest.starts_with(b"{\"signed\""));
        prop_assert!(!report(&files).holds);
    }
}
