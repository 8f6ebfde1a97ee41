//! Who pays, where a broker says it: in both places, and the same.

use serde_json::{Value, json};

use crate::conformance::bodies::Body;
use crate::conformance::checks::{Check, inference};
use crate::conformance::run::{Ask, DECLARATION, Run, Who};

pub(super) const CHECKS: [Check; 1] = [Check {
    id: "payer-consistent",
    title: "a payer, when the broker says one, is well formed, said on the declaration's answer and on a Messages answer's chant-payer header, and the same on both",
    ask: |run| Box::pin(consistent(run)),
}];

async fn consistent(run: &mut Run) {
    let broker = &run.environment.broker;
    let report =
        json!({"capabilities": [{"name": "inference", "broker": broker, "scope": ["agent"]}]});
    let ask = Ask::post(DECLARATION, report).bearer(Who::First);
    let Some(kept) = run.send(ask).await else {
        return;
    };
    if !run.expect_status(&kept, &[200], "to the report") {
        return;
    }
    let declared = kept.json().get("payer").cloned();
    if let Some(payer) = &declared {
        run.expect_body(Body::Payer, payer);
    }
    let Some(answer) = run.send(inference::message().api_key(Who::First)).await else {
        return;
    };
    if !run.expect_status(&answer, &[200], "to the Messages call") {
        return;
    }
    let lines = answer.headers.get_all("chant-payer").iter().count();
    if lines > 1 {
        return run.problem(&format!("expected one chant-payer header, got {lines}"));
    }
    let header = answer.header("chant-payer");
    let relayed = header.as_deref().map(parse);
    if let (Some(None), Some(header)) = (&relayed, &header) {
        run.problem(&format!(
            "chant-payer is no `KIND` or `KIND PRINCIPAL`: {}",
            run.quoted(header)
        ));
    }
    match (declared.as_ref().map(read), relayed) {
        (Some(_), None) => {
            run.problem("the payer is said on the declaration's answer and not in chant-payer")
        }
        (None, Some(_)) => {
            run.problem("the payer is said in chant-payer and not on the declaration's answer")
        }
        (Some(Some(declared)), Some(Some(relayed))) if declared != relayed => {
            run.problem(&format!(
                "the declaration's answer says {} and chant-payer says {}",
                run.quoted(&said(&declared)),
                run.quoted(&said(&relayed))
            ));
        }
        (None, None) | (Some(_), Some(_)) => {}
    }
}

/// A payer on an answer, less what the schema has told already.
fn read(payer: &Value) -> Option<(String, Option<String>)> {
    let text = |name: &str| payer.get(name).and_then(Value::as_str).map(str::to_owned);
    Some((text("kind")?, text("principal")))
}

/// A payer in the header.
fn parse(header: &str) -> Option<(String, Option<String>)> {
    let mut words = header.split_whitespace();
    let kind = words.next()?;
    let principal = words.next();
    let known = ["shared", "owner", "visitor"].contains(&kind);
    let fits = principal.is_none_or(|principal| principal.chars().count() <= 200);
    let fits = known && fits && words.next().is_none();
    fits.then(|| (kind.to_owned(), principal.map(str::to_owned)))
}

fn said((kind, principal): &(String, Option<String>)) -> String {
    match principal {
        Some(principal) => format!("{kind} {principal}"),
        None => kind.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_names_a_payer_or_none() {
        let check = |header: &str, expected: Option<(&str, Option<&str>)>| {
            let expected = expected.map(|(kind, who)| (kind.to_owned(), who.map(str::to_owned)));
            assert_eq!(parse(header), expected, "{header}");
        };
        check("shared", Some(("shared", None)));
        check(" owner  github:a ", Some(("owner", Some("github:a"))));
        check("visitor github:a more", None);
        check("somebody", None);
        check("", None);
        check(&format!("owner {}", "a".repeat(201)), None);
    }
}
