//! The conversation, over the components that ship.

use serde_json::{Value, json};

use super::*;
use crate::plugins::testing::component;

/// What belongs to the component that is asked, and not to the host.
fn of_plugin(what: &str) -> Value {
    let all: Value =
        serde_json::from_str(include_str!("../../../../../tests/data/alone.json")).unwrap();
    all[what].clone()
}

/// What is said to the kit when it says this.
async fn said(bytes: &[u8], lines: &[Value]) -> Vec<Value> {
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let mut output = Vec::new();
    answer(bytes, input.as_bytes(), &mut output).await.unwrap();
    let lines = output.split(|byte| *byte == b'\n');
    lines
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

fn ask(change: impl FnOnce(&mut Value)) -> Value {
    let mut ask = of_plugin("ask");
    change(&mut ask);
    json!({ "ask": ask })
}

#[tokio::test]
async fn a_request_is_judged_and_measured() {
    let lines = said(&component("inference"), &[ask(|_| {}), ask(|_| {})]).await;
    let [ready, first, second] = lines.as_slice() else {
        panic!("{lines:?}");
    };
    assert_eq!(ready["ready"]["name"], "inference");
    assert!(ready["ready"]["cost"]["fuel"].as_u64().unwrap() > 0);
    // Nothing but the request counts: the same fuel, the same memory.
    assert_eq!(first, second);
    let decided = &first["decided"];
    assert_eq!(decided["words"], json!(["agent"]));
    let forward = &decided["outcome"]["plan"]["action"]["Forward"];
    assert_eq!(forward["to"], of_plugin("to"));
    assert_eq!(forward["credential"], of_plugin("credential"));
    let costs = decided["costs"].as_array().unwrap();
    let functions: Vec<&str> = costs
        .iter()
        .map(|cost| cost["function"].as_str().unwrap())
        .collect();
    assert_eq!(functions, ["scopes", "route"]);
    for cost in costs {
        assert!(cost["fuel"].as_u64().unwrap() > 0, "{cost}");
        assert!(cost["memory"].as_u64().unwrap() >= 64 * 1024, "{cost}");
    }
}

#[tokio::test]
async fn the_hosts_own_rules_hold() {
    let asked = [
        ask(|ask| ask["declared"] = json!([])),
        ask(|ask| ask["path"] = json!("/elsewhere")),
        ask(|ask| ask["path"] = of_plugin("climbs")),
        ask(|ask| ask["withheld"] = of_plugin("withheld")),
    ];
    let lines = said(&component("inference"), &asked).await;
    let status = |line: usize| lines[line]["decided"]["outcome"]["host"]["status"].clone();
    assert_eq!([status(1), status(2), status(3)], [403, 404, 404]);
    // Kept back, so no credential was on offer: the plugin says so itself.
    let refused = &lines[4]["decided"]["outcome"]["plan"]["action"]["Refuse"];
    assert!(refused["status"].is_u64(), "{}", lines[4]);
}

#[tokio::test]
async fn what_makes_no_sense_is_said() {
    let asked = [
        ask(|ask| ask["box_name"] = json!("No Box")),
        ask(|ask| ask["settings"] = json!("[]")),
        ask(|ask| ask["withheld"] = json!(["journal"])),
        ask(|ask| ask["path"] = json!("llm")),
        ask(|ask| ask["upstreams"] = of_plugin("no_kind")),
    ];
    let lines = said(&component("inference"), &asked).await;
    assert_eq!(lines.len(), 1 + asked.len());
    for line in &lines[1..] {
        assert!(line["mistake"].is_string(), "{line}");
    }
}

#[tokio::test]
async fn what_is_no_plugin_says_why() {
    for bytes in [&b"nothing"[..], b"\0asm\x01\0\0\0"] {
        let lines = said(bytes, &[]).await;
        assert!(lines[0]["no_plugin"].is_string(), "{lines:?}");
    }
}
