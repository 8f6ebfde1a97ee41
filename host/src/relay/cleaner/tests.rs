//! Every sort of answer, cut at every byte, in every coding, is the scrub of
//! the whole.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde_json::json;

use crate::relay::cleaner::Cleaner;
use crate::relay::decode::tests::{CODINGS, encoded, whole};
use crate::relay::scrubber::Scrubber;
use crate::rules::codings::Coding;
use crate::rules::scrub::Matcher;

const VALUE: &str = "sk-live-0123456789/+=\"abc";
const TOKEN: &str = "jft_0123456789012345678901234567890123456789012";

fn cleaner(codings: &[Coding]) -> Cleaner {
    Cleaner::new(
        &Scrubber::new(
            Arc::new(Matcher::new(VALUE.as_bytes()).unwrap()),
            VALUE.as_bytes(),
            TOKEN.as_bytes(),
        ),
        codings,
    )
}

fn clean(codings: &[Coding], pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut cleaner = cleaner(codings);
    let mut given = Vec::new();
    for piece in pieces {
        cleaner.push(Bytes::copy_from_slice(piece));
        given.push(rest(&mut cleaner));
    }
    cleaner.end();
    given.push(rest(&mut cleaner));
    given
}

fn rest(cleaner: &mut Cleaner) -> Vec<u8> {
    let mut rest = Vec::new();
    while let Some(piece) = cleaner.next().unwrap() {
        rest.extend_from_slice(&piece);
    }
    rest
}

/// What answers look like: streamed messages, JSON, text, bytes; the value at
/// the beginning, in the middle, at the end, beside and within itself.
fn fixtures() -> Vec<(&'static str, Vec<u8>)> {
    let event = |kind: &str, data: &serde_json::Value| format!("event: {kind}\ndata: {data}\n\n");
    let delta = |text: &str| {
        event(
            "content_block_delta",
            &json!({"type": "content_block_delta", "index": 0,
                "delta": {"type": "text_delta", "text": text}}),
        )
    };
    let half = &VALUE[..12];
    let messages = [
        delta("北京 é 😀"),
        delta(&format!("the key is {VALUE}, I think")),
        event("ping", &json!({"type": "ping"})),
        delta(half),
        delta(&VALUE[12..]),
        event("message_stop", &json!({"type": "message_stop"})),
    ];
    let nested = json!({"arguments": json!({"key": VALUE, "url": "a/b"}).to_string()});
    let escaped = nested.to_string().replace('/', "\\/");
    let basic = STANDARD.encode(format!("user:{VALUE}"));
    let bare = URL_SAFE_NO_PAD.encode(format!("{VALUE}\u{1}"));
    vec![
        ("messages", messages.concat().into_bytes()),
        (
            "json",
            json!({"error": {"message": format!("Incorrect API key: {VALUE}")}})
                .to_string()
                .into(),
        ),
        ("nested json", escaped.into()),
        (
            "base64",
            format!("{{\"Authorization\":\"Basic {basic}\",\"b\":\"{bare}\"}}").into(),
        ),
        (
            "form",
            format!("key=sk%2Dlive-0123456789%2F%2B%3D%22abc&half={half}%").into(),
        ),
        ("adjacent", format!("{VALUE}{VALUE}é{VALUE}").into()),
        (
            "near misses",
            format!("{half}{half}{VALUE}{}sk-live-012345678é", &VALUE[1..]).into(),
        ),
        (
            "binary",
            [
                &[0xFF, 0, 0xC3, b'\\'][..],
                VALUE.as_bytes(),
                &[0xE5, 0x8C, b'%'],
            ]
            .concat(),
        ),
        (
            "nothing",
            "data: 北é %20 \\u00e9 sk- c2st\n\n".as_bytes().to_vec(),
        ),
        ("empty", Vec::new()),
    ]
}

#[test]
fn every_cut_of_every_answer_is_the_scrub_of_the_whole() {
    let matcher = Matcher::new(VALUE.as_bytes()).unwrap();
    let mut combinations = 0;
    for (name, text) in fixtures() {
        let expected = matcher
            .replace(&text, TOKEN.as_bytes())
            .unwrap_or_else(|| text.clone());
        assert!(!matcher.finds(&expected), "{name}");
        assert_eq!(
            expected == text,
            ["nothing", "empty"].contains(&name),
            "{name}"
        );
        let mut check = |codings: &[Coding], sent: &[u8]| {
            for cut in 0..=sent.len() {
                let (head, tail) = sent.split_at(cut);
                let given = clean(codings, &[head, tail]).concat();
                assert!(
                    given == expected,
                    "{name} {codings:?} at {cut}: {:?}",
                    String::from_utf8_lossy(&given)
                );
                combinations += 1;
            }
            let single: Vec<&[u8]> = sent.chunks(1).collect();
            assert!(
                clean(codings, &single).concat() == expected,
                "{name} {codings:?}"
            );
        };
        check(&[], &text);
        for coding in CODINGS {
            check(&[coding], &whole(coding, &text));
            // Cut where the sender flushed, at every byte of what it sent.
            for cut in 0..=text.len() {
                let (head, tail) = text.split_at(cut);
                let sent = encoded(coding, &[head, tail]);
                let sent: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
                assert!(
                    clean(&[coding], &sent).concat() == expected,
                    "{name} {coding:?} flushed at {cut}"
                );
            }
        }
        check(
            &[Coding::Gzip, Coding::Zstd],
            &whole(Coding::Zstd, &whole(Coding::Gzip, &text)),
        );
    }
    assert!(combinations > 5_000, "{combinations}");
}

#[test]
fn what_was_flushed_leaves_but_for_what_may_begin_the_value() {
    let pieces: [&[u8]; 3] = [b"data: 1\n\ns", b"k-live-0", b"data: 2\n\n%7"];
    let expected: [&[u8]; 4] = [b"data: 1\n\n", b"", b"sk-live-0data: 2\n\n", b"%7"];
    assert_eq!(clean(&[], &pieces), expected);
    for coding in CODINGS {
        let sent = encoded(coding, &pieces);
        let sent: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
        let given = clean(&[coding], &sent);
        assert_eq!(given[..3], expected[..3], "{coding:?}");
        assert_eq!(given[3..].concat(), expected[3], "{coding:?}");
    }
}
