//! Reports: what is kept, what is refused, and that a box which never reported
//! is refused everything.

use serde_json::{Value, json};

use crate::conformance::Capability;
use crate::conformance::bodies::Body;
use crate::conformance::checks::{Check, decide, egress, feedback, fountain, inference};
use crate::conformance::run::{Ask, DECLARATION, Run, Who, same};

pub(super) const CHECKS: [Check; 5] = [
    Check {
        id: "declaration-kept",
        title: "a report is answered 200 with the entries naming this broker, and none naming another broker or none",
        ask: |run| Box::pin(kept(run)),
    },
    Check {
        id: "declaration-unknown-token",
        title: "a report with no token, or one that is no box's, is a 401 or 403",
        ask: |run| Box::pin(unknown_token(run)),
    },
    Check {
        id: "declaration-malformed",
        title: "a body that is not a report is a 400",
        ask: |run| Box::pin(malformed(run)),
    },
    Check {
        id: "declaration-listing-spend",
        title: "a report that also carries a listing and a spend is answered 200, and an answer that echoes them echoes them unchanged",
        ask: |run| Box::pin(listing_spend(run)),
    },
    Check {
        id: "unreported-refused",
        title: "a box that never reported is refused every served capability with a 403",
        ask: |run| Box::pin(unreported(run)),
    },
];

async fn kept(run: &mut Run) {
    let broker = run.environment.broker.clone();
    let report = json!({"capabilities": [
        {"name": "inference", "broker": broker, "scope": ["agent", "decide"]},
        {"name": "elsewhere", "broker": format!("not-{broker}"), "scope": ["x"]},
        {"name": "unbrokered", "broker": null, "scope": ["x"]},
    ]});
    let ask = Ask::post(DECLARATION, report).bearer(Who::First);
    let Some(answer) = run.send(ask).await else {
        return;
    };
    if !run.expect_status(&answer, &[200], "") {
        return;
    }
    let body = answer.json();
    run.expect_body(Body::DeclarationKept, &body);
    for name in ["elsewhere", "unbrokered"] {
        if entries(&body, name).next().is_some() {
            run.problem(&format!("it kept {name}, which does not name this broker"));
        }
    }
    let own: Vec<&Value> = entries(&body, "inference").collect();
    let [own] = own.as_slice() else {
        let times = own.len();
        return run.problem(&format!("expected one entry for inference, got {times}"));
    };
    if own.get("broker").and_then(Value::as_str) != Some(broker.as_str()) {
        run.problem("the entry for inference does not name this broker");
    }
    let mut scope = texts(own.get("scope"));
    scope.sort_unstable();
    if scope != ["agent", "decide"] {
        run.problem(&format!(
            "expected inference's scope to be agent and decide, got {}",
            run.quoted(&scope.join(", "))
        ));
    }
}

async fn unknown_token(run: &mut Run) {
    let ask = Ask::post(DECLARATION, json!({"capabilities": []}));
    let stranger = ask
        .clone()
        .bearer(Who::Stranger)
        .labeled("an unknown token");
    run.refused(ask.labeled("no token"), &[401, 403], &[]).await;
    run.refused(stranger, &[401, 403], &[]).await;
}

async fn malformed(run: &mut Run) {
    let ask = Ask::post(DECLARATION, json!({"capability": []})).bearer(Who::First);
    run.refused(ask, &[400], &[]).await;
}

async fn listing_spend(run: &mut Run) {
    let report = json!({
        "capabilities": [
            {"name": "inference", "broker": run.environment.broker, "scope": ["agent", "decide"]},
        ],
        "listing": {
            "published": true,
            "title": "Conformance",
            "line": "A box that is reported by the conformance suite",
        },
        "spend": {
            "month": "2026-10", "usd": 2.75, "runs": 4, "unpriced": 1,
            "byPrincipal": [
                {"principal": "github:conformance", "usd": 2.75, "runs": 3, "unpriced": 0},
                {"principal": null, "usd": 0, "runs": 1, "unpriced": 1},
            ],
        },
    });
    let ask = Ask::post(DECLARATION, report.clone()).bearer(Who::First);
    let Some(answer) = run.send(ask).await else {
        return;
    };
    if !run.expect_status(&answer, &[200], "") {
        return;
    }
    let body = answer.json();
    run.expect_body(Body::DeclarationKept, &body);
    if entries(&body, "inference").next().is_none() {
        run.problem("it did not keep the report's entry for inference");
    }
    for member in ["listing", "spend"] {
        let (reported, echoed) = (report.get(member), body.get(member));
        if let (Some(reported), Some(echoed)) = (reported, echoed)
            && !same(reported, echoed)
        {
            run.problem(&format!(
                "expected {member} as it was reported, {reported}, got {}",
                run.quoted(&echoed.to_string())
            ));
        }
    }
}

async fn unreported(run: &mut Run) {
    for capability in run.served.clone() {
        let asks = match capability {
            Capability::Inference => vec![
                inference::message()
                    .api_key(Who::Second)
                    .labeled("a Messages call"),
                decide::question()
                    .bearer(Who::Second)
                    .labeled("a decide request"),
            ],
            Capability::Egress => vec![egress::echo().bearer(Who::Second).labeled("egress")],
            Capability::Feedback => {
                vec![feedback::entries().bearer(Who::Second).labeled("feedback")]
            }
            Capability::Fountain => {
                vec![fountain::listing().bearer(Who::Second).labeled("fountain")]
            }
        };
        for ask in asks {
            run.refused(ask, &[403], &[]).await;
        }
    }
}

fn entries<'a>(body: &'a Value, name: &'a str) -> impl Iterator<Item = &'a Value> {
    let kept = body.get("capabilities").and_then(Value::as_array);
    kept.into_iter()
        .flatten()
        .filter(move |entry| entry.get("name").and_then(Value::as_str) == Some(name))
}

fn texts(list: Option<&Value>) -> Vec<&str> {
    let list = list.and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}
