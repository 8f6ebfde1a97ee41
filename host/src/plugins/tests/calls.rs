//! What a plugin does harms its own request and nothing else.

use std::sync::Arc;
use std::time::Duration;

use crate::plugins::testing::{Host, body, caller, request};
use crate::plugins::{CallFault, Fault, LivePlugin};
use crate::rules::plan::{Answers, SaidAction, SaidStep};

async fn tell(plugin: &Arc<LivePlugin>, lie: &str) -> Result<SaidStep, CallFault> {
    let decision = plugin.decide(request("/liar", &format!("/{lie}"))).await?;
    decision.route(caller()).await
}

async fn resumed(plugin: &Arc<LivePlugin>, lie: &str) -> Result<SaidStep, CallFault> {
    match tell(plugin, lie).await? {
        SaidStep::Need(need) => plugin.resume(need.state, Answers::default()).await,
        step @ SaidStep::Plan(_) => panic!("{step:?}"),
    }
}

fn impatient() -> Host {
    Host::with(&["liar"]).limits(|limits| {
        limits.time = Duration::from_millis(20);
        limits.memory = 8 * 1024 * 1024;
    })
}

#[tokio::test]
async fn words_and_step_come_from_real_wasm() {
    let (_plugins, liar) = Host::with(&["liar"]).live("liar").await;
    let decision = liar.decide(request("/liar", "/ok/v1/x")).await.unwrap();
    assert_eq!(decision.words(), Some(["tell".to_owned()].as_slice()));
    let SaidStep::Plan(plan) = decision.route(caller()).await.unwrap() else {
        panic!("it needs nothing");
    };
    assert!(matches!(plan.action, SaidAction::Forward(_)));
    let decision = liar.decide(request("/liar", "/hello")).await.unwrap();
    assert_eq!(decision.words(), Some([].as_slice()));
    let decision = liar.decide(request("/liar", "/not-served")).await.unwrap();
    assert_eq!(decision.words(), None);
}

#[tokio::test]
async fn each_request_has_an_instance_of_its_own() {
    let (_plugins, liar) = Host::with(&["liar"]).live("liar").await;
    for _ in 0..50 {
        assert_eq!(body(tell(&liar, "counts").await.unwrap()), "2");
    }
}

#[tokio::test]
async fn harm_ends_its_own_call_and_says_so() {
    let host = impatient();
    let (_plugins, liar) = host.live("liar").await;
    let check = async |lie: &str, expected: Fault| {
        let fault = if lie.ends_with("-in-resume") {
            resumed(&liar, lie).await
        } else {
            tell(&liar, lie).await
        };
        let fault = fault.unwrap_err();
        assert_eq!(fault.fault, expected, "{lie}");
        let text = fault.to_string();
        assert!(
            text.contains("liar") && !text.contains("its memory"),
            "{text}"
        );
        // The next request finds the plugin as it was.
        assert_eq!(body(tell(&liar, "counts").await.unwrap()), "2", "{lie}");
    };
    let trapped = Fault::Trapped("unreachable code reached");
    let memory = Fault::OutOfMemory(8 * 1024 * 1024);
    check("trap", trapped).await;
    check("trap-in-scopes", trapped).await;
    check("trap-in-resume", trapped).await;
    check("loop", Fault::TimedOut(20)).await;
    check("loop-in-scopes", Fault::TimedOut(20)).await;
    check("loop-in-resume", Fault::TimedOut(20)).await;
    check("memory", memory).await;
    check("memory-in-scopes", memory).await;
    check("memory-in-resume", memory).await;
    check("grow", memory).await;
    check("stack", Fault::Trapped("memory access out of bounds")).await;
    check("frames", Fault::Trapped("call stack exhausted")).await;
    check("huge-answer", memory).await;
}

#[tokio::test]
async fn more_than_a_call_may_hand_over_is_not_listened_to() {
    let host = Host::with(&["liar"]).limits(|limits| limits.answer = 4 * 1024 * 1024);
    let (_plugins, liar) = host.live("liar").await;
    for lie in ["huge-answer", "huge-state", "huge-call-body"] {
        let fault = tell(&liar, lie).await.unwrap_err().fault;
        assert_eq!(
            fault,
            Fault::TooLarge("more bytes than a call may hand over"),
            "{lie}"
        );
    }
}
