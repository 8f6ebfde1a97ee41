//! What agents say about their work.

use serde_json::json;

use crate::conformance::checks::Check;
use crate::conformance::run::{Ask, Run, Who};

const PATH: &str = "/api/feedback";

pub(super) const CHECKS: [Check; 3] = [
    Check {
        id: "feedback-taken",
        title: "with agent, a batch of entries is not refused by the declaration",
        ask: |run| Box::pin(taken(run)),
    },
    Check {
        id: "feedback-refused",
        title: "counts without passive are a 403 naming feedback and passive",
        ask: |run| Box::pin(refused(run)),
    },
    Check {
        id: "feedback-empty",
        title: "a batch with neither is a 400",
        ask: |run| Box::pin(empty(run)),
    },
];

/// A batch of one entry, without a token.
pub(super) fn entries() -> Ask {
    Ask::post(PATH, json!({"entries": [{"note": "conformance"}]}))
}

async fn taken(run: &mut Run) {
    run.declare(&[("feedback", &["agent"])]).await;
    if let Some(answer) = run.send(entries().bearer(Who::First)).await
        && matches!(answer.status, 401 | 403)
    {
        run.problem(&format!(
            "expected the batch to pass the declaration, got {}",
            answer.status
        ));
    }
}

async fn refused(run: &mut Run) {
    run.declare(&[("feedback", &["agent"])]).await;
    let ask = Ask::post(PATH, json!({"counts": {"refusals": 1}})).bearer(Who::First);
    run.refused(ask, &[403], &["feedback", "passive"]).await;
}

async fn empty(run: &mut Run) {
    run.declare(&[("feedback", &["agent", "passive"])]).await;
    run.refused(Ask::post(PATH, json!({})).bearer(Who::First), &[400], &[])
        .await;
}
