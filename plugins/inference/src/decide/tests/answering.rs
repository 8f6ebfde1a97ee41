use jackfield_sdk::contract::{CallAnswer, CallFailure, Header};

use super::*;

fn message(text: &str) -> CallAnswer {
    said(
        200,
        &json!({"type": "message", "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 10, "output_tokens": 3}}),
    )
}

fn said(status: u16, body: &Value) -> CallAnswer {
    CallAnswer {
        status,
        headers: Vec::new(),
        body: body.to_string().into_bytes(),
    }
}

/// What comes of one question that a model answers with this.
fn resumed(question: &Value, call: Result<CallAnswer, CallFailure>) -> Step {
    let need = asked(&json!({"the one": question}));
    answer(&need.state, &[call])
}

fn answer_to(question: &Value, text: &Value) -> Value {
    let body = answered(resumed(question, Ok(message(&text.to_string()))));
    assert_eq!(body["model"], "claude-x-1");
    body["answers"]["the one"].clone()
}

#[test]
fn a_choice_has_its_option_all_probabilities_confidence_and_reason() {
    let text = json!({"reason": " It is big. ", "choice": "large",
        "probabilities": {"small": 0.25, "large": 0.75}});
    assert_eq!(
        answer_to(&tier(), &text),
        json!({"type": "choice", "choice": "large",
            "probabilities": {"small": 0.25, "large": 0.75}, "confidence": 0.75,
            "reason": "It is big."})
    );
}

#[test]
fn a_noul_is_the_probability_that_it_is_true() {
    let text = json!({"reason": "", "choice": "false",
        "probabilities": {"true": 0.125, "false": 0.875}});
    assert_eq!(
        answer_to(&ship(), &text),
        json!({"type": "noul", "noul": 0.125})
    );
}

#[test]
fn a_score_is_the_expected_level_counted_from_0() {
    let text = json!({"reason": "r", "level": "furious",
        "probabilities": {"calm": 0.25, "cross": 0.25, "furious": 0.5}});
    assert_eq!(
        answer_to(&mood(), &text),
        json!({"type": "score", "score": 1.25, "legend": ["calm", "cross", "furious"],
            "probabilities": {"calm": 0.25, "cross": 0.25, "furious": 0.5}, "confidence": 0.5,
            "reason": "r"})
    );
    let numbers = json!({"type": "score", "instructions": "i", "criteria": [1, 2.5]});
    let text = json!({"reason": "r", "level": "2.5", "probabilities": {"1": 0, "2.5": 1}});
    let answer = answer_to(&numbers, &text);
    assert_eq!(answer["legend"], json!([1, 2.5]));
    assert_eq!(answer["score"], json!(1.0));
    // Numbers come back with the digits that they came with.
    let levels = r#"[-3,0,1.0,2.5,18446744073709551615]"#;
    let criteria: Value = serde_json::from_str(levels).unwrap();
    let numbers = json!({"type": "score", "instructions": "i", "criteria": criteria});
    let shares = json!({"-3": 0, "0": 0, "1.0": 1, "2.5": 0, "18446744073709551615": 0});
    let text = json!({"reason": "r", "level": "1.0", "probabilities": shares});
    assert_eq!(answer_to(&numbers, &text)["legend"].to_string(), levels);
}

#[test]
fn numbered_options_come_back_as_the_box_named_them() {
    let question = json!({"type": "choice", "instructions": "i",
        "criteria": {"a b": "x", "é": "y"}});
    let text = json!({"reason": "r", "choice": "option_2",
        "probabilities": {"option_1": 0.5, "option_2": 0.5}});
    let answer = answer_to(&question, &text);
    assert_eq!(answer["choice"], "é");
    assert_eq!(answer["probabilities"], json!({"a b": 0.5, "é": 0.5}));
    // Not what the model was offered.
    let text = json!({"reason": "r", "choice": "é", "probabilities": {"a b": 1, "é": 0}});
    refused(
        resumed(&question, Ok(message(&text.to_string()))),
        502,
        &["offered"],
    );
}

#[test]
fn probabilities_are_made_to_sum_to_1() {
    let check = |small: f64, large: f64, expected: (f64, f64)| {
        let text = json!({"reason": "r", "choice": "small",
            "probabilities": {"small": small, "large": large}});
        let answer = answer_to(&tier(), &text);
        let probabilities = &answer["probabilities"];
        assert_eq!(probabilities["small"], json!(expected.0), "{small} {large}");
        assert_eq!(probabilities["large"], json!(expected.1), "{small} {large}");
        assert_eq!(answer["confidence"], json!(expected.0));
    };
    check(0.5, 0.5, (0.5, 0.5));
    check(1.0, 1.0, (0.5, 0.5));
    check(75.0, 25.0, (0.75, 0.25));
    check(0.1, 0.0, (1.0, 0.0));
    check(0.0, 0.0, (1.0, 0.0));
    check(0.0, 0.3, (0.0, 1.0));
}

#[test]
fn usage_is_summed() {
    let need = asked(&json!({"a": tier(), "b": {"type": "later"}, "c": ship()}));
    let text = |options: Value| {
        json!({"reason": "", "choice": options[0],
        "probabilities": {options[0].as_str().unwrap(): 1, options[1].as_str().unwrap(): 0}})
        .to_string()
    };
    let calls = [
        Ok(message(&text(json!(["small", "large"])))),
        Ok(message(&text(json!(["true", "false"])))),
    ];
    let body = answered(answer(&need.state, &calls));
    assert_eq!(
        body["usage"],
        json!({"input_tokens": 20, "output_tokens": 6})
    );
    let names: Vec<&String> = body["answers"]
        .as_object()
        .expect("answers")
        .keys()
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(body["answers"]["b"], json!({"type": "unsupported"}));
}

#[test]
fn where_all_is_unsupported_no_model_is_asked() {
    let body = answered(ask(
        &request(&json!({"a": {"type": "rank"}, "b": {"type": "", "criteria": 1}})),
        &caller("api-key"),
    ));
    assert_eq!(
        body,
        json!({"model": "claude-x-1",
            "answers": {"a": {"type": "unsupported"}, "b": {"type": "unsupported"}},
            "usage": {"input_tokens": 0, "output_tokens": 0}})
    );
}

#[test]
fn nonsense_is_a_502_that_says_of_which_question() {
    let whole = json!({"reason": "r", "choice": "small",
        "probabilities": {"small": 0.5, "large": 0.5}});
    answer_to(&tier(), &whole);
    let without = |name: &str| {
        let mut text = whole.clone();
        text.as_object_mut().expect("an object").remove(name);
        text
    };
    let with = |name: &str, value: Value| {
        let mut text = whole.clone();
        text[name] = value;
        text
    };
    for text in [
        without("choice"),
        without("probabilities"),
        with("choice", json!("purple")),
        with("choice", json!(1)),
        with("reason", json!(1)),
        with("probabilities", json!([0.5, 0.5])),
        with("probabilities", json!({"small": 0.5})),
        with("probabilities", json!({"small": 0.5, "large": "0.5"})),
        with("probabilities", json!({"small": 1.5, "large": -0.5})),
        with("probabilities", json!({"small": 1e308, "large": 1e308})),
        with("probabilities", json!({"small": null, "large": 1})),
        with(
            "probabilities",
            json!({"small": 0.5, "large": 0.5, "purple": 0}),
        ),
        json!("small"),
        json!(null),
    ] {
        refused(
            resumed(&tier(), Ok(message(&text.to_string()))),
            502,
            &["the one"],
        );
    }
    for text in [
        "",
        "not JSON",
        r#"{"reason":"r","choice":"small","choice":"large","probabilities":{"small":1,"large":0}}"#,
        r#"{"reason":"r","choice":"small","probabilities":{"small":1e999,"large":0}}"#,
    ] {
        refused(resumed(&tier(), Ok(message(text))), 502, &["the one"]);
    }
}

#[test]
fn an_unfinished_message_is_a_502() {
    let text = json!({"reason": "r", "choice": "small",
        "probabilities": {"small": 1, "large": 0}});
    let stopped = |reason: Value| {
        let body = json!({"content": [{"type": "thinking", "thinking": "…"},
            {"type": "text", "text": text.to_string()}], "stop_reason": reason});
        resumed(&tier(), Ok(said(200, &body)))
    };
    for reason in ["refusal", "max_tokens", "tool_use", "pause_turn", "x\ny"] {
        refused(stopped(json!(reason)), 502, &["the one"]);
    }
    refused(stopped(json!(3)), 502, &["the one"]);
    let body = answered(stopped(Value::Null));
    // A usage that nobody gives adds nothing.
    assert_eq!(
        body["usage"],
        json!({"input_tokens": 0, "output_tokens": 0})
    );
    for body in [
        json!({"stop_reason": "end_turn"}),
        json!({"content": "small"}),
        json!({"content": []}),
        json!({"content": [{"type": "tool_use"}]}),
        json!([]),
    ] {
        refused(resumed(&tier(), Ok(said(200, &body))), 502, &["the one"]);
    }
    let broken = CallAnswer {
        status: 200,
        headers: Vec::new(),
        body: b"<html>".to_vec(),
    };
    refused(resumed(&tier(), Ok(broken)), 502, &["the one"]);
}

#[test]
fn a_failing_upstream_is_never_a_success() {
    let check = |call, status, words: &[&str]| refused(resumed(&tier(), call), status, words);
    check(Err(CallFailure::Timeout), 504, &["the one", "too long"]);
    check(Err(CallFailure::Unreachable), 502, &["the one"]);
    check(Err(CallFailure::Broken), 502, &["the one"]);
    check(Err(CallFailure::TooLarge), 502, &["the one"]);
    let error = json!({"error": {"type": "t", "message": "no such\nmodel"}});
    for (status, told) in [
        (400, 502),
        (403, 502),
        (404, 502),
        (307, 502),
        (429, 429),
        (500, 502),
        (503, 503),
        (529, 503),
    ] {
        check(
            Ok(said(status, &error)),
            told,
            &["the one", &status.to_string(), "no such model"],
        );
    }
    check(Ok(said(500, &json!("…"))), 502, &["the one", "500"]);
    // A 401 is the operator's trouble, and no box is to see one.
    check(Ok(said(401, &error)), 403, &["credential"]);
}

#[test]
fn when_to_come_back_is_handed_on() {
    let busy = |value: &str| {
        let mut answer = said(429, &json!({}));
        answer.headers.push(Header {
            name: "Retry-After".to_owned(),
            value: value.as_bytes().to_vec(),
        });
        let Action::Answer(answer) = planned(resumed(&tier(), Ok(answer))) else {
            panic!("it is an answer");
        };
        answer
            .headers
            .iter()
            .find(|header| header.name == "retry-after")
            .map(|header| String::from_utf8_lossy(&header.value).into_owned())
    };
    assert_eq!(busy("7").as_deref(), Some("7"));
    assert_eq!(busy("soon"), None);
    assert_eq!(busy("-1"), None);
    assert_eq!(busy("Mon, 30 Nov 2026 00:00:00 GMT"), None);
    assert_eq!(busy(""), None);
}

#[test]
fn one_failure_fails_the_whole_request() {
    let need = asked(&json!({"a": tier(), "b": ship()}));
    let text = json!({"reason": "r", "choice": "small",
        "probabilities": {"small": 1, "large": 0}});
    let first = message(&text.to_string());
    refused(
        answer(&need.state, &[Ok(first.clone()), Err(CallFailure::Broken)]),
        502,
        &["\"b\""],
    );
    // An answer to another question is none to this one.
    refused(
        answer(&need.state, &[Ok(first.clone()), Ok(first.clone())]),
        502,
        &["\"b\""],
    );
    refused(answer(&need.state, &[Ok(first)]), 502, &["\"b\""]);
    refused(answer(b"nonsense", &[]), 500, &[]);
}
