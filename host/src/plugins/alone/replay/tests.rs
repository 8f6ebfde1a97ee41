//! Over the components that ship, and over what a host would have recorded.

use bytes::Bytes;
use http::Method;
use jiff::Timestamp;

use super::*;
use crate::plugins::hash::ComponentHash;
use crate::plugins::recorded::Recording;
use crate::plugins::testing::component;
use crate::rules::manifest::{Manifest, Route, Uses};
use crate::rules::names::{BoxName, CredentialName, PluginName, UpstreamName};
use crate::rules::plan::{
    CredentialKey, CredentialKind, Offer, SaidAction, SaidStep, ShownCaller, ShownRequest, Target,
};

const CANARY: &str = "canary-2b9d";

/// The route that somebody pays for.
fn paid(manifest: &Manifest) -> (&Route, &UpstreamName) {
    let mut routes = manifest.routes.iter();
    let found = routes.find_map(|route| Some((route, route.payer_of.as_ref()?)));
    found.unwrap()
}

fn request(manifest: &Manifest) -> ShownRequest {
    ShownRequest {
        method: Method::POST,
        prefix: paid(manifest).0.prefix.clone(),
        path: "/v1/messages".to_owned(),
        query: None,
        headers: vec![("accept".to_owned(), CANARY.as_bytes().to_vec())],
        body: Some(Bytes::from_static(CANARY.as_bytes())),
        time: None,
        settings: None,
    }
}

fn caller(kind: CredentialKind, manifest: &Manifest) -> ShownCaller {
    let upstream = paid(manifest).1.clone();
    let name = CredentialName::parse("general").unwrap();
    ShownCaller {
        box_name: Some(BoxName::parse("alice").unwrap()),
        words: vec!["agent".to_owned()],
        offers: vec![Offer {
            name: "the general one".to_owned(),
            target: Target::Upstream(upstream.clone()),
            kind,
            payer: None,
            key: CredentialKey::Credential { upstream, name },
        }],
        targets: vec![],
        uses: Uses::default(),
    }
}

/// What this version says now, as a host would have recorded it.
async fn recorded(
    bytes: &[u8],
    kind: CredentialKind,
    change: impl FnOnce(&mut SaidStep),
) -> Recorded {
    let alone = Alone::load(bytes).await.unwrap();
    let manifest = alone.manifest();
    let (shown, caller) = (request(manifest), caller(kind, manifest));
    let mut recording = Recording::of(&shown);
    let asked = convert::request(shown);
    let (instance, words) = alone.metered().scopes(&asked).await.said.unwrap();
    recording.scopes(words.as_deref());
    recording.caller(&caller);
    let caller = convert::caller(caller);
    let step = alone.metered().route(instance, &asked, &caller).await;
    let mut step = convert::step(step.said.unwrap());
    change(&mut step);
    recording.step(&step);
    let plugin = PluginName::parse("inference").unwrap();
    let kept = recording.bytes(Timestamp::UNIX_EPOCH, &plugin, ComponentHash([1; 32]), None);
    Recorded::read(&kept).unwrap()
}

async fn changed(recorded: &Recorded) -> Vec<Changed> {
    let replay = Replay::load(&component("inference")).await.unwrap();
    let replayed = replay.replay(recorded).await;
    assert_eq!(replayed, replay.replay(recorded).await);
    assert!(!replayed.unanswered && replayed.fuel > 0);
    replayed.changed
}

#[tokio::test]
async fn what_decides_alike_changes_nothing() {
    for kind in [CredentialKind::ApiKey, CredentialKind::SetupToken] {
        let recorded = recorded(&component("inference"), kind, |_| {}).await;
        assert_eq!(changed(&recorded).await, []);
    }
}

#[tokio::test]
async fn what_decides_otherwise_is_told_by_field_and_without_values() {
    let bytes = component("inference");
    let other = recorded(&bytes, CredentialKind::ApiKey, |step| {
        let SaidStep::Plan(plan) = step else {
            panic!("a need");
        };
        plan.journal.push(CANARY.as_bytes().to_vec());
        let SaidAction::Forward(forward) = &mut plan.action else {
            panic!("no forward");
        };
        forward.credential = None;
    })
    .await;
    let told = changed(&other).await;
    let fields: Vec<&str> = told.iter().map(|changed| changed.field.as_str()).collect();
    let credential = "step 1.plan.action.forward.credential";
    assert_eq!(fields, [credential, "step 1.plan.journal[0]"], "{told:#?}");
    assert_eq!(told[0].before, "nothing");
    assert_eq!(told[0].after, "the general one");
    assert_eq!(told[1].before, format!("{} bytes", CANARY.len()));
    assert!(!format!("{told:?}").contains(CANARY));
    // A value of the same length is another value all the same.
    let answer = |body: &str| {
        let body = body.as_bytes().to_vec();
        move |step: &mut SaidStep| {
            if let SaidStep::Plan(plan) = step {
                plan.action = SaidAction::Answer {
                    status: 200,
                    headers: vec![],
                    body,
                };
            }
        }
    };
    let one = recorded(&bytes, CredentialKind::ApiKey, answer("one")).await;
    let two = recorded(&bytes, CredentialKind::ApiKey, answer("two")).await;
    let mut replayed = Replayed {
        changed: vec![],
        unanswered: false,
        fuel: 0,
    };
    compare("step 1", &one.steps[0], &two.steps[0], &mut replayed);
    let [changed] = replayed.changed.as_slice() else {
        panic!("{replayed:?}");
    };
    assert_eq!(changed.field, "step 1.plan.action.answer.body");
    assert_eq!(changed.after, "3 bytes, another value");
}

#[tokio::test]
async fn words_and_routes_that_are_others_end_the_comparison() {
    let mut other = recorded(&component("inference"), CredentialKind::ApiKey, |_| {}).await;
    other.scopes = Some(Scopes {
        words: Some(vec!["agent".to_owned(), "more".to_owned()]),
    });
    let told = changed(&other).await;
    let words = Changed {
        field: "words".to_owned(),
        before: "agent, more".to_owned(),
        after: "agent".to_owned(),
    };
    assert_eq!(told, [words]);
    let replay = Replay::load(&component("hermit")).await.unwrap();
    assert_eq!(replay.name(), "hermit");
    let replayed = replay.replay(&other).await;
    assert_eq!(replayed.changed[0].field, "route");
    // What the live version did not answer is compared with nothing.
    other.scopes = None;
    let replay = Replay::load(&component("inference")).await.unwrap();
    let replayed = replay.replay(&other).await;
    assert!(replayed.unanswered && replayed.changed.is_empty());
}
