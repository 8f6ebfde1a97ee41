//! Decisions that a model makes, in chant's format.

use serde_json::{Value, json};

use crate::conformance::bodies::Body;
use crate::conformance::checks::Check;
use crate::conformance::checks::inference::on_the_credential;
use crate::conformance::run::{Ask, Run, Who};
use crate::conformance::said::MODEL;
use crate::conformance::upstreams::Upstream;

const PATH: &str = "/decide/v1/systemone";

pub(super) const CHECKS: [Check; 4] = [
    Check {
        id: "decide-answers",
        title: "with decide, an answer per question that validates against decideResponse, naming the model asked, asked upstream on the credential",
        ask: |run| Box::pin(answers(run)),
    },
    Check {
        id: "decide-refused",
        title: "without decide, a 403 naming inference and decide",
        ask: |run| Box::pin(refused(run)),
    },
    Check {
        id: "decide-invalid",
        title: "a request with no question is a 422",
        ask: |run| Box::pin(invalid(run)),
    },
    Check {
        id: "decide-unknown-token",
        title: "an unknown token is a 401 or 403",
        ask: |run| Box::pin(unknown_token(run)),
    },
];

/// A decide request, without a token.
pub(super) fn question() -> Ask {
    Ask::post(
        PATH,
        json!({"model": MODEL, "state": {"change": "conformance"}, "questions": questions()}),
    )
}

fn questions() -> Value {
    json!({
        "conformance-tier": {
            "type": "choice",
            "instructions": "Which tier is this?",
            "criteria": {"small": "a small change", "large": "a large change"},
        },
        "conformance-ship": {
            "type": "noul",
            "instructions": "Should this be shipped?",
            "criteria": {"true": "ship it", "false": "hold it"},
        },
    })
}

async fn answers(run: &mut Run) {
    run.declare(&[("inference", &["decide"])]).await;
    let mark = run.log.len();
    let Some(answer) = run.send(question().bearer(Who::First)).await else {
        return;
    };
    if !run.expect_status(&answer, &[200], "") {
        return;
    }
    let body = answer.json();
    run.expect_body(Body::DecideResponse, &body);
    let model = body.get("model").and_then(Value::as_str);
    if model != Some(MODEL) {
        let named = model.unwrap_or("none");
        run.problem(&format!(
            "expected the answer to name the model {MODEL}, got {}",
            run.quoted(named)
        ));
    }
    let mut decided = false;
    let questions = questions();
    for (name, question) in questions.as_object().into_iter().flatten() {
        let asked = question.get("type").and_then(Value::as_str);
        let answered = body.get("answers").and_then(|answers| answers.get(name));
        let said = answered
            .and_then(|answer| answer.get("type"))
            .and_then(Value::as_str);
        match (answered, said) {
            (None, _) => run.problem(&format!("there is no answer for {name}")),
            (Some(_), Some("unsupported")) => {}
            (Some(_), said) if said == asked => decided = true,
            (Some(_), said) => run.problem(&format!(
                "{name} is asked as {} and was answered as {}",
                asked.unwrap_or("nothing"),
                run.quoted(said.unwrap_or("nothing"))
            )),
        }
    }
    let received = run.log.since(mark);
    let calls = received
        .iter()
        .filter(|one| one.upstream == Upstream::Anthropic);
    let mut called = false;
    for call in calls {
        called = true;
        if !on_the_credential(run, call) {
            run.problem(&format!(
                "{} went upstream without the credential",
                run.quoted(&call.line())
            ));
        }
    }
    if decided && !called {
        run.problem("a question was answered, and no model was asked");
    }
}

async fn refused(run: &mut Run) {
    run.declare(&[("inference", &["agent"])]).await;
    let ask = question().bearer(Who::First);
    run.refused(ask, &[403], &["inference", "decide"]).await;
}

async fn invalid(run: &mut Run) {
    run.declare(&[("inference", &["decide"])]).await;
    let nothing = json!({"model": MODEL, "state": {}, "questions": {}});
    run.refused(Ask::post(PATH, nothing).bearer(Who::First), &[422], &[])
        .await;
}

async fn unknown_token(run: &mut Run) {
    run.refused(question().bearer(Who::Stranger), &[401, 403], &[])
        .await;
}
