//! The findings as SARIF 2.1.0: what code scanning and review tools take.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::cli::audit::Shown;
use crate::rules::audit::finding::{Check, Finding};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// What stands in a path of a URI as it is.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

pub(super) fn of(shown: &Shown) -> Value {
    let uri = utf8_percent_encode(&shown.file, PATH).to_string();
    let report = &shown.report;
    let rules: Vec<Value> = Check::ALL.iter().map(|check| rule(*check)).collect();
    let findings = report.findings.sorted();
    let results: Vec<Value> = findings
        .into_iter()
        .map(|each| result(each, &uri))
        .collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "jackfield plugin audit",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "invocations": [{"executionSuccessful": true}],
            "artifacts": [{
                "location": {"uri": uri},
                "length": report.size,
                "hashes": {"sha-256": report.hash.to_string()},
            }],
            "results": results,
        }],
    })
}

fn rule(check: Check) -> Value {
    json!({
        "id": check.id(),
        "shortDescription": {"text": check.means()},
        "defaultConfiguration": {"level": check.severity().word()},
    })
}

fn result(finding: &Finding, uri: &str) -> Value {
    let check = finding.check;
    let request = finding.request.as_deref();
    let request = request.map_or_else(String::new, |request| format!(" (first seen on {request})"));
    json!({
        "ruleId": check.id(),
        "ruleIndex": Check::ALL.iter().position(|each| *each == check),
        "level": check.severity().word(),
        "message": {"text": format!("{}{request}. {}", finding.what, check.means())},
        "occurrenceCount": finding.count,
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri, "index": 0}}}],
    })
}
