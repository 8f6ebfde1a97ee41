//! Reports.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::broker::{Asked, Broker, Caller, Reply, answer, refuse};
use crate::faults::Fault;

impl Broker {
    pub fn declare(&self, asked: &Asked, caller: Option<Caller>) -> Reply {
        if asked.method != http::Method::POST {
            return refuse(405, "Reports are posted.");
        }
        let Some(caller) = caller else {
            if self.breaks(Fault::KnowEveryToken) {
                return answer(200, &json!({"capabilities": [], "at": "now"}));
            }
            return refuse(403, "This token is no box's.");
        };
        let report: Value = serde_json::from_slice(&asked.body).unwrap_or(Value::Null);
        let Some(entries) = report["capabilities"].as_array() else {
            if self.breaks(Fault::TakeMalformedReports) {
                return answer(200, &json!({"capabilities": [], "at": "now"}));
            }
            return refuse(400, "A report is {\"capabilities\": [...]}.");
        };
        let word = self.said("/broker");
        let mut kept = Vec::new();
        let mut words = BTreeMap::new();
        for entry in entries {
            let own = entry["broker"] == word;
            if !own && !self.breaks(Fault::KeepForeignEntries) {
                continue;
            }
            let scope: Vec<String> = entry["scope"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|word| word.as_str().map(str::to_owned))
                .collect();
            let broker = entry["broker"].as_str().unwrap_or("none");
            kept.push(json!({"name": entry["name"], "broker": broker, "scope": scope}));
            if own && let Some(name) = entry["name"].as_str() {
                words.insert(name.to_owned(), scope);
            }
        }
        let mut body = json!({"capabilities": kept, "at": "2026-10-03T00:00:00Z"});
        for member in ["listing", "spend"] {
            if let Some(value) = report.get(member) {
                body[member] = value.clone();
            }
        }
        if self.breaks(Fault::ChangeSpend) && body.get("spend").is_some() {
            body["spend"]["usd"] = json!(1000);
        }
        body["payer"] = match self.breaks(Fault::PayerNonsense) {
            true => json!({"kind": "somebody"}),
            false => json!({"kind": "shared", "principal": null}),
        };
        let mut reports = self.reports.lock().expect("no panic holds it");
        reports.insert(caller.name, words);
        answer(200, &body)
    }

    /// What `chant-payer` says.
    pub fn payer(&self) -> Option<&'static str> {
        if self.breaks(Fault::PayerOnReportOnly) {
            return None;
        }
        Some(match self.breaks(Fault::PayerDisagrees) {
            true => "visitor github:somebody",
            false => "shared",
        })
    }
}
