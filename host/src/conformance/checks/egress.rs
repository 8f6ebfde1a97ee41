//! Secrets that a broker sends to one host.

use crate::conformance::checks::Check;
use crate::conformance::environment::{SECRET, UNHELD};
use crate::conformance::run::{Ask, Run, Who};
use crate::conformance::said::ECHO;
use crate::conformance::upstreams::Upstream;

/// Another secret, to declare in the place of the one that is asked for.
const OTHER: &str = "ANOTHER_SECRET";

pub(super) const CHECKS: [Check; 4] = [
    Check {
        id: "egress-forwards",
        title: "with the secret declared, the request reaches only the secret's host with the value in place of the token, and the repeated value comes back as the token",
        ask: |run| Box::pin(forwards(run)),
    },
    Check {
        id: "egress-refused",
        title: "an undeclared secret is a 403 naming egress and the secret",
        ask: |run| Box::pin(refused(run)),
    },
    Check {
        id: "egress-unheld",
        title: "a declared secret that the broker holds no value for is a 403 naming it",
        ask: |run| Box::pin(unheld(run)),
    },
    Check {
        id: "egress-bad-name",
        title: "a path whose name is not a secret's name is a 404",
        ask: |run| Box::pin(bad_name(run)),
    },
];

/// A request to the secret's host, without a token.
pub(super) fn echo() -> Ask {
    Ask::get(&format!("/egress/{SECRET}/v1/echo"))
}

async fn forwards(run: &mut Run) {
    run.declare(&[("egress", &[SECRET])]).await;
    let mark = run.log.len();
    let ask = Ask::get(&format!("/egress/{SECRET}/v1/echo?q=1")).bearer(Who::First);
    let Some(answer) = run.send(ask).await else {
        return;
    };
    if !run.expect_status(&answer, &[200], "") {
        return;
    }
    let received = run.log.since(mark);
    let call = match received.as_slice() {
        [call] if call.upstream == Upstream::Echo => call,
        [] => return run.problem("nothing reached the secret's host"),
        other => {
            let reached = run.reached(other);
            return run.problem(&format!(
                "expected one request, to the secret's host, and {reached}"
            ));
        }
    };
    if call.line() != "GET /v1/echo?q=1" {
        run.problem(&format!(
            "expected the host to receive GET /v1/echo?q=1, got {}",
            run.quoted(&call.line())
        ));
    }
    let value = format!("Bearer {}", run.environment.secret());
    if call.header("authorization") != Some(&value) {
        run.problem("the host did not receive the secret's value where the box put its token");
    }
    let token = format!("Bearer {}", run.first_token());
    if answer.header(ECHO).as_deref() != Some(&token) {
        run.problem(&format!(
            "the host repeated the value in {ECHO}, and it did not come back with the token in its place"
        ));
    }
}

async fn refused(run: &mut Run) {
    run.declare(&[("egress", &[OTHER])]).await;
    run.refused(echo().bearer(Who::First), &[403], &["egress", SECRET])
        .await;
}

async fn unheld(run: &mut Run) {
    run.declare(&[("egress", &[SECRET, UNHELD])]).await;
    let ask = Ask::get(&format!("/egress/{UNHELD}/v1/echo"));
    run.refused(ask.bearer(Who::First), &[403], &[UNHELD]).await;
}

async fn bad_name(run: &mut Run) {
    run.declare(&[("egress", &[SECRET])]).await;
    run.not_found(Ask::get("/egress/conformance/v1/echo").bearer(Who::First))
        .await;
}
