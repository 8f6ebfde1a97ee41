//! `POST /api/box/declaration`: a box's steward reports what the box may do.

use http::request::Parts;
use http::{Method, StatusCode};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::chant::answers::{self, Failure};
use crate::chant::caller::Caller;
use crate::chant::declarations::Reported;
use crate::chant::{Chant, body};
use crate::listen::InboundBody;
use crate::rules::declaration::{Entry, MAX_REPORT, parse_report};
use crate::rules::payer::Payer;
use crate::rules::plan::Answer;
use crate::rules::refusal::Refusal;
use crate::store::StoreError;

#[derive(Serialize)]
struct Kept<'a> {
    capabilities: Vec<serde_json::Value>,
    at: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payer: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    listing: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spend: Option<Box<RawValue>>,
}

/// Takes a report in. It is on disk before the answer is made.
pub(super) async fn report(
    chant: &Chant,
    caller: &Caller,
    head: &Parts,
    body: InboundBody,
) -> Result<Answer, Failure> {
    if head.method != Method::POST {
        return Err(Refusal::method("A declaration is reported with POST.").into());
    }
    let mut held = chant.0.limits.room(Some(caller.box_name()), None);
    let bytes = body::read(body, MAX_REPORT, chant.patience(), &mut held).await?;
    let declaration = parse_report(&bytes, chant.broker())
        .map_err(|error| Refusal::invalid(format!("This is not a declaration report. {error}.")))?;
    let at = jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S.%3fZ")
        .to_string();
    let reported = Reported { declaration, at };
    let mut known = caller.known().clone();
    loop {
        let kept = chant.declarations().keep(&known, &reported).await;
        if kept != Err(StoreError::Conflict) {
            kept?;
            break;
        }
        known = chant.still(caller).await?;
    }
    let payer = chant.payer(caller.box_name());
    let kept = kept(&reported, chant.broker(), payer.as_ref());
    Ok(answers::json_answer(StatusCode::OK, kept))
}

fn kept(reported: &Reported, broker: &str, payer: Option<&Payer>) -> String {
    let Reported { declaration, at } = reported;
    let words = |entry: &Entry| {
        entry
            .words
            .iter()
            .map(|word| json!(word.as_str()))
            .collect::<Vec<_>>()
    };
    let raw = |text: &Option<String>| {
        text.clone()
            .and_then(|text| RawValue::from_string(text).ok())
    };
    let kept = Kept {
        capabilities: declaration
            .entries
            .iter()
            .map(|entry| json!({ "name": entry.name.as_str(), "broker": broker, "scope": words(entry) }))
            .collect(),
        at,
        payer: payer.map(|payer| {
            json!({ "kind": payer.kind.as_str(), "principal": payer.principal.as_ref().map(|who| who.as_str()) })
        }),
        listing: raw(&declaration.listing),
        spend: raw(&declaration.spend),
    };
    serde_json::to_string(&kept).unwrap_or_default()
}
