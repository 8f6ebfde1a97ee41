//! Fountain's API behind the broker.

use crate::conformance::checks::Check;
use crate::conformance::run::{Ask, Run, Who};
use crate::conformance::upstreams::Upstream;

pub(super) const CHECKS: [Check; 2] = [
    Check {
        id: "fountain-forwards",
        title: "with conversations, a request reaches Fountain with the operator's key as the bearer",
        ask: |run| Box::pin(forwards(run)),
    },
    Check {
        id: "fountain-refused",
        title: "without sandboxes, a 403 naming fountain and sandboxes",
        ask: |run| Box::pin(refused(run)),
    },
];

/// A request for the box's conversations, without a token.
pub(super) fn listing() -> Ask {
    Ask::get("/fountain/api/conversations")
}

async fn forwards(run: &mut Run) {
    run.declare(&[("fountain", &["conversations"])]).await;
    let mark = run.log.len();
    let ask = Ask::get("/fountain/api/conversations/conformance").bearer(Who::First);
    let Some(answer) = run.send(ask).await else {
        return;
    };
    if !run.expect_status(&answer, &[200], "") {
        return;
    }
    let received = run.log.since(mark);
    let call = match received.as_slice() {
        [call] if call.upstream == Upstream::Fountain => call,
        [] => return run.problem("nothing reached Fountain"),
        other => {
            let reached = run.reached(other);
            return run.problem(&format!("expected one request, to Fountain, and {reached}"));
        }
    };
    if call.target != "/api/conversations/conformance" {
        run.problem(&format!(
            "expected Fountain to receive /api/conversations/conformance, got {}",
            run.quoted(&call.target)
        ));
    }
    let key = format!("Bearer {}", run.environment.fountain.credential);
    if call.header("authorization") != Some(&key) {
        run.problem("Fountain did not receive the operator's key as the bearer");
    }
}

async fn refused(run: &mut Run) {
    run.declare(&[("fountain", &["conversations"])]).await;
    let ask = Ask::get("/fountain/api/sandboxes").bearer(Who::First);
    run.refused(ask, &[403], &["fountain", "sandboxes"]).await;
}
