//! Tables for the report reader and the rule.

use super::*;

fn words(declaration: &Declaration) -> Vec<(String, Vec<String>)> {
    let words = |entry: &Entry| {
        entry
            .words
            .iter()
            .map(|word| word.as_str().to_owned())
            .collect()
    };
    declaration
        .entries
        .iter()
        .map(|entry| (entry.name.as_str().to_owned(), words(entry)))
        .collect()
}

fn check(body: &str, expected: Result<&[(&str, &[&str])], &str>) {
    match (parse_report(body.as_bytes(), "lobby"), expected) {
        (Ok(declaration), Ok(expected)) => {
            let expected: Vec<(String, Vec<String>)> = expected
                .iter()
                .map(|(name, words)| {
                    (
                        (*name).to_owned(),
                        words.iter().map(|word| (*word).to_owned()).collect(),
                    )
                })
                .collect();
            assert_eq!(words(&declaration), expected, "{body}");
        }
        (Err(error), Err(place)) => {
            assert!(error.to_string().starts_with(place), "{body}: {error}")
        }
        (got, expected) => panic!("{body}: {got:?}, expected {expected:?}"),
    }
}

#[test]
fn entries_of_this_broker_are_kept_merged_and_unique() {
    check(r#"{"capabilities":[]}"#, Ok(&[]));
    check(
        r#"{"capabilities":[{"name":"inference","broker":"lobby","scope":["agent","judge","agent"]},
            {"name":"outbound","broker":"other","scope":["A"]},{"name":"x"},{"name":"y","broker":null},
            {"name":"inference","broker":"lobby","scope":["agent","more"]},{"name":"bare","broker":"lobby"}],"extra":1}"#,
        Ok(&[("inference", &["agent", "judge", "more"]), ("bare", &[])]),
    );
}

#[test]
fn what_is_no_report_is_refused_with_its_place() {
    check("", Err("the body"));
    check("[]", Err("the body"));
    check("{}", Err("capabilities"));
    check(r#"{"capabilities":{}}"#, Err("capabilities"));
    check(r#"{"capabilities":[1]}"#, Err("capabilities[0]"));
    check(
        r#"{"capabilities":[{"broker":"lobby"}]}"#,
        Err("capabilities[0].name"),
    );
    check(
        r#"{"capabilities":[{"name":"Inference"}]}"#,
        Err("capabilities[0].name"),
    );
    check(
        r#"{"capabilities":[{"name":"a","broker":1}]}"#,
        Err("capabilities[0].broker"),
    );
    check(
        r#"{"capabilities":[{"name":"a","scope":"b"}]}"#,
        Err("capabilities[0].scope"),
    );
    check(
        r#"{"capabilities":[{"name":"a","scope":null}]}"#,
        Err("capabilities[0].scope"),
    );
    check(
        r#"{"capabilities":[{"name":"a","scope":[""]}]}"#,
        Err("capabilities[0].scope[0]"),
    );
    check(
        r#"{"capabilities":[{"name":"a","broker":"other","scope":["\u0001"]}]}"#,
        Err("capabilities[0].scope[0]"),
    );
    check(r#"{"capabilities":[],"capabilities":[]}"#, Err("the body"));
}

#[test]
fn counts_are_limited() {
    let report = |entries: usize, words: usize| {
        let words = (0..words)
            .map(|word| format!("\"w{word}\""))
            .collect::<Vec<_>>()
            .join(",");
        let entries = (0..entries)
            .map(|entry| format!(r#"{{"name":"c{entry}","broker":"lobby","scope":[{words}]}}"#))
            .collect::<Vec<_>>();
        format!(r#"{{"capabilities":[{}]}}"#, entries.join(","))
    };
    assert!(parse_report(report(20, 50).as_bytes(), "lobby").is_ok());
    check(&report(21, 1), Err("capabilities"));
    check(&report(1, 51), Err("capabilities[0].scope"));
}

#[test]
fn listing_and_spend_are_kept_as_they_came() {
    let listing = r#"{ "title":"T\u00e9", "line" : "L", "more": [1.50, 1e2] }"#;
    let spend = r#"{"month":"2026-10","usd":1.50,"runs":3.0,"unpriced":0,"byPrincipal":[{"principal":null,"usd":1e2,"runs":1,"unpriced":0}]}"#;
    let body = format!(r#"{{"capabilities":[],"listing":{listing},"spend":{spend}}}"#);
    let declaration = parse_report(body.as_bytes(), "lobby").unwrap();
    assert_eq!(declaration.listing.as_deref(), Some(listing));
    assert_eq!(declaration.spend.as_deref(), Some(spend));
    let absent = parse_report(
        br#"{"capabilities":[],"listing":null,"spend":null}"#,
        "lobby",
    )
    .unwrap();
    assert_eq!((absent.listing, absent.spend), (None, None));
}

#[test]
fn malformed_listing_and_spend_are_refused() {
    let listing = |listing: &str, place: &str| {
        check(
            &format!(r#"{{"capabilities":[],"listing":{listing}}}"#),
            Err(place),
        )
    };
    listing("1", "listing");
    listing(r#"{"title":"t"}"#, "listing.line");
    listing(r#"{"title":1,"line":"l"}"#, "listing.title");
    listing(
        &format!(r#"{{"title":"{}","line":"l"}}"#, "é".repeat(61)),
        "listing.title",
    );
    listing(
        &format!(r#"{{"title":"t","line":"{}"}}"#, "é".repeat(141)),
        "listing.line",
    );
    listing(r#"{"title":"a\u007fb","line":"l"}"#, "listing.title");
    listing(
        r#"{"title":"t","line":"l","published":"yes"}"#,
        "listing.published",
    );
    let most = format!(
        r#"{{"capabilities":[],"listing":{{"title":"{}","line":"{}"}}}}"#,
        "é".repeat(60),
        "é".repeat(140)
    );
    assert!(parse_report(most.as_bytes(), "lobby").is_ok());

    let spend = |month: &str, usd: &str, runs: &str, by: &str, place: &str| {
        let spend = format!(
            r#"{{"month":{month},"usd":{usd},"runs":{runs},"unpriced":0,"byPrincipal":{by}}}"#
        );
        check(
            &format!(r#"{{"capabilities":[],"spend":{spend}}}"#),
            Err(place),
        );
    };
    spend(r#""2026-13""#, "0", "0", "[]", "spend.month");
    spend(r#""2026-1""#, "0", "0", "[]", "spend.month");
    spend(r#""2026-+1""#, "0", "0", "[]", "spend.month");
    spend(r#""2026-10""#, "-1", "0", "[]", "spend.usd");
    spend(r#""2026-10""#, "1000000000", "0", "[]", "spend.usd");
    spend(r#""2026-10""#, "\"1\"", "0", "[]", "spend.usd");
    spend(r#""2026-10""#, "0", "1.5", "[]", "spend.runs");
    spend(r#""2026-10""#, "0", "0", "{}", "spend.byPrincipal");
    let principal =
        |name: &str| format!(r#"[{{"principal":{name},"usd":0,"runs":0,"unpriced":0}}]"#);
    spend(
        r#""2026-10""#,
        "0",
        "0",
        &principal("\"\""),
        "spend.byPrincipal[0].principal",
    );
    spend(
        r#""2026-10""#,
        "0",
        "0",
        r#"[{"usd":0,"runs":0,"unpriced":0}]"#,
        "spend.byPrincipal[0].principal",
    );
    let many = vec![r#"{"principal":null,"usd":0,"runs":0,"unpriced":0}"#; 51].join(",");
    spend(
        r#""2026-10""#,
        "0",
        "0",
        &format!("[{many}]"),
        "spend.byPrincipal",
    );
}

#[test]
fn the_rule_names_what_to_add() {
    let inference = CapabilityName::parse("inference").unwrap();
    let rule = |report: Option<&str>, word: &str| {
        let declaration = report.map(|report| parse_report(report.as_bytes(), "lobby").unwrap());
        let words = [ScopeWord::parse(word).unwrap()];
        hold_to_rule(declaration.as_ref(), "lobby", &inference, &words).map_err(|refusal| {
            assert_eq!(refusal.status, 403);
            refusal.message
        })
    };
    let agent = r#"{"capabilities":[{"name":"inference","broker":"lobby","scope":["agent"]}]}"#;
    assert_eq!(rule(Some(agent), "agent"), Ok(()));
    for report in [None, Some(agent), Some(r#"{"capabilities":[]}"#)] {
        let message = rule(report, "judge").unwrap_err();
        assert!(
            message.contains("inference") && message.contains("\"judge\""),
            "{message}"
        );
    }
    assert!(rule(Some(agent), "Agent").is_err());
    assert!(hold_to_rule(None, "lobby", &inference, &[]).is_err());
}
