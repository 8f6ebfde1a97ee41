//! Nobody stalls anybody: instances are queued for, shared, and given back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use crate::plugins::testing::{Host, body, caller, request};
use crate::plugins::{CallLimits, Fault, LivePlugin};

const SOON: Duration = Duration::from_millis(5);

fn two_plugins(change: impl FnOnce(&mut CallLimits)) -> Host {
    Host::with(&["hermit", "liar"]).limits(change)
}

async fn counts(liar: &Arc<LivePlugin>) -> String {
    let decision = liar.decide(request("/liar", "/counts")).await.unwrap();
    body(decision.route(caller()).await.unwrap())
}

#[tokio::test]
async fn a_loop_holds_up_neither_the_async_thread_nor_its_own_plugin() {
    let limit = Duration::from_secs(60);
    let host = Host::with(&["liar"]).limits(|limits| limits.time = limit);
    let (_plugins, liar) = host.live("liar").await;
    let looping = Arc::clone(&liar);
    let looping =
        tokio::spawn(async move { looping.decide(request("/liar", "/loop-in-scopes")).await });
    // The loop has its first slice on this very thread.
    let started = Instant::now();
    tokio::task::yield_now().await;
    for _ in 0..10 {
        assert_eq!(counts(&liar).await, "2");
        tokio::task::yield_now().await;
    }
    assert!(!looping.is_finished());
    assert!(started.elapsed() < limit / 2, "{:?}", started.elapsed());
    looping.abort();
}

#[tokio::test]
async fn a_full_pool_is_queued_for() {
    let host = two_plugins(|limits| limits.instances = 1);
    let (_plugins, liar) = host.live("liar").await;
    let first = liar.decide(request("/liar", "/counts")).await.unwrap();
    let mut second = Box::pin(counts(&liar));
    assert!(second.as_mut().now_or_never().is_none());
    first.route(caller()).await.unwrap();
    assert_eq!(second.await, "2");
}

#[tokio::test]
async fn whoever_waits_too_long_is_told_that_it_is_busy() {
    let host = two_plugins(|limits| {
        limits.instances = 1;
        limits.wait = SOON;
    });
    let (_plugins, liar) = host.live("liar").await;
    let held = liar.decide(request("/liar", "/counts")).await.unwrap();
    let fault = liar.decide(request("/liar", "/counts")).await.unwrap_err();
    assert_eq!(fault.fault, Fault::Busy);
    assert!(!fault.fault.is_the_plugins());
    drop(held);
    assert_eq!(counts(&liar).await, "2");
}

#[tokio::test]
async fn one_plugin_cannot_take_every_instance() {
    let host = two_plugins(|limits| {
        limits.instances = 2;
        limits.share = 1;
        limits.wait = SOON;
    });
    let (plugins, liar) = host.live("liar").await;
    let hermit = crate::plugins::testing::find(&plugins, "hermit").unwrap();
    let _held = liar.decide(request("/liar", "/counts")).await.unwrap();
    let fault = liar.decide(request("/liar", "/counts")).await.unwrap_err();
    assert_eq!(fault.fault, Fault::Busy);
    hermit.decide(request("/hermit", "/ok")).await.unwrap();
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_gives_its_instance_back() {
    let host = Host::with(&["liar"]).limits(|limits| {
        limits.instances = 1;
        limits.time = Duration::from_millis(50);
    });
    let (plugins, liar) = host.live("liar").await;
    for lie in ["/loop-in-scopes", "/counts"] {
        // Asked once, and then never again.
        let _ = liar.decide(request("/liar", lie)).now_or_never();
        assert_eq!(counts(&liar).await, "2");
    }
    let metrics = plugins
        .0
        .machine
        .engine
        .pooling_allocator_metrics()
        .unwrap();
    assert_eq!(metrics.component_instances(), 0);
}

#[tokio::test]
async fn instances_come_and_go_without_a_trace() {
    let host = Host::with(&["liar"]).limits(|limits| {
        limits.instances = 2;
        limits.time = Duration::from_millis(5);
    });
    let (plugins, liar) = host.live("liar").await;
    for lie in [
        "/ok",
        "/trap-in-scopes",
        "/memory-in-scopes",
        "/stack-in-scopes",
    ] {
        for _ in 0..20 {
            let _ = liar.decide(request("/liar", lie)).await;
        }
    }
    let metrics = plugins
        .0
        .machine
        .engine
        .pooling_allocator_metrics()
        .unwrap();
    assert_eq!(metrics.component_instances(), 0);
    assert_eq!(metrics.core_instances(), 0);
    assert_eq!(metrics.memories(), 0);
    assert_eq!(metrics.stacks(), 0);
}

#[tokio::test]
async fn the_clock_ends_with_the_plugins() {
    let host = Host::with(&["liar"]);
    let (plugins, liar) = host.live("liar").await;
    let clock = plugins.0.machine.ticker.watch();
    assert!(clock.upgrade().is_some());
    drop((plugins, liar));
    assert!(clock.upgrade().is_none());
}
