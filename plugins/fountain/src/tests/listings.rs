//! What is shown of a listing.

use crate::listing::{Unclear, filtered, things};

/// What a box that owns conversations `1` and `own` and agent `mine` is shown.
fn shown(text: &str) -> Result<String, Unclear> {
    let own = [
        ("conversations", "1".to_owned()),
        ("conversations", "own".to_owned()),
        ("agents", "mine".to_owned()),
    ];
    filtered(text.as_bytes(), "conversations", &own.into())
}

#[test]
fn only_the_boxs_own_is_shown_and_as_it_was_written() {
    let check =
        |text: &str, expected: &str| assert_eq!(shown(text).as_deref(), Ok(expected), "{text}");
    check("[]", "[]");
    check(
        r#" [ {"id":"own"} , {"id":"other"} ] "#,
        r#"[{"id":"own"}]"#,
    );
    check(
        r#"[{"n":1.00,"id":"own","b":{"id":"x"}},{"id":1},{"id":2}]"#,
        r#"[{"n":1.00,"id":"own","b":{"id":"x"}},{"id":1}]"#,
    );
    check(r#"["own","other",1,2]"#, r#"["own",1]"#);
    check(r#"{"data":[{"id":"other"}]}"#, r#"{"data":[]}"#);
    check(
        r#"{"items":[{"id":"\u006fwn"}]}"#,
        r#"{"items":[{"id":"\u006fwn"}]}"#,
    );
    check(
        r#"{"data":{"conversations":[{"id":"own"},{"id":"x"}],"total":2}}"#,
        r#"{"data":{"conversations":[{"id":"own"}]}}"#,
    );
    check(
        r#"{"conversations":[{"id":"own"},{"id":"mine"}],"agents":[{"id":"own"},{"id":"mine"}]}"#,
        r#"{"conversations":[{"id":"own"}],"agents":[{"id":"mine"}]}"#,
    );
    check(
        r#"{"data":[{"id":""},{"id":"a\u0000b"}]}"#,
        r#"{"data":[]}"#,
    );
}

#[test]
fn counts_are_dropped_and_cursors_are_kept() {
    let check = |beside: &str, expected: &str| {
        let comma = if expected.is_empty() { "" } else { "," };
        let shown = shown(&format!(r#"{{{beside},"data":[]}}"#));
        assert_eq!(
            shown.as_deref(),
            Ok(format!(r#"{{{expected}{comma}"data":[]}}"#).as_str()),
            "{beside}"
        );
    };
    for kept in [
        r#""has_more":true"#,
        r#""next_cursor":"a1b2""#,
        r#""next":"https://x/?cursor=a""#,
        r#""next":null"#,
        r#""page":2"#,
        r#""per_page":20"#,
        r#""limit":"50""#,
        r#""object":"list""#,
        r#""first_id":"own""#,
        r#""meta":{"next":"x","links":{"prev":null}}"#,
    ] {
        check(kept, kept);
    }
    for dropped in [
        r#""total":3"#,
        r#""total_count":"3""#,
        r#""count":3"#,
        r#""totalPages":1.5"#,
        r#""x":0"#,
        r#""first_id":"other""#,
        r#""last_id":"x y""#,
        r#""id":"page-1""#,
        r#""latest_conversation":"other""#,
        r#""last_uuid":"other""#,
        r#""last_ids":"other""#,
        r#""default_agent":"a""#,
    ] {
        check(dropped, "");
    }
    check(
        r#""meta":{"total":3,"next":"x","last_id":"other","limit":5}"#,
        r#""meta":{"next":"x","limit":5}"#,
    );
}

#[test]
fn what_is_not_understood_is_shown_to_nobody() {
    for text in [
        "",
        "null",
        "1",
        r#""own""#,
        "{}",
        r#"{"total":3}"#,
        "[",
        r#"[{"id":"own"}"#,
        "[]x",
        r#"[{}]"#,
        r#"[{"id":null}]"#,
        r#"[{"id":{"a":1}}]"#,
        r#"[{"id":1.5}]"#,
        r#"[{"id":true}]"#,
        "[[1]]",
        "[null]",
        r#"[{"conversation":{"id":"own"}}]"#,
        r#"[{"ID":"own"}]"#,
        r#"{"data":[],"more":{"x":{}}}"#,
        r#"{"conversations":{"own":{}}}"#,
        r#"{"data":{"data":{"data":[]}}}"#,
        r#"{"data":[],"data":[]}"#,
        r#"[{"id":"own","id":"other"}]"#,
        r#"{"data":[],"meta":{"items":[{"id":"own"}]}}"#,
        r#"{"data":{"own":{"id":"own"}}}"#,
        "data: {}\n\n",
    ] {
        assert_eq!(shown(text), Err(Unclear), "{text}");
    }
    assert_eq!(
        filtered(b"[\"\xff\"]", "conversations", &[].into()),
        Err(Unclear)
    );
}

#[test]
fn what_is_asked_about_is_what_could_be_shown() {
    let found = things(
        br#"{"data":[{"id":"a"},{"id":"b"},{"id":"a"}],"last_id":"b"}"#,
        "sandboxes",
    );
    let expected = [("sandboxes", "a".to_owned()), ("sandboxes", "b".to_owned())];
    assert_eq!(found, Ok(expected.into()));
}
