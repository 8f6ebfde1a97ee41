//! A box's report: whatever the bytes, reading them ends, and what is kept
//! lies within the protocol's limits and reads as the same again.

#![no_main]

use jackfield::rules::declaration::{MAX_REPORT, hold_to_rule, parse_report};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

fuzz_target!(|data: &[u8]| {
    if data.len() > MAX_REPORT {
        return;
    }
    let Ok(kept) = parse_report(data, "lobby") else {
        return;
    };
    assert!(kept.entries.len() <= 20);
    for entry in &kept.entries {
        let words = &entry.words;
        assert!(words.len() <= 20 * 50);
        let each_once = words
            .iter()
            .enumerate()
            .all(|(at, word)| !words[..at].contains(word));
        assert!(each_once, "a word is kept twice");
        assert!(hold_to_rule(Some(&kept), "lobby", &entry.name, words).is_ok());
    }

    // What was kept, reported again, is kept again: nothing but the broker's
    // own entries was let in, and nothing was lost.
    let capabilities: Vec<Value> = kept
        .entries
        .iter()
        .filter(|entry| entry.words.len() <= 50)
        .map(|entry| {
            let scope: Vec<&str> = entry.words.iter().map(|word| word.as_str()).collect();
            json!({"name": entry.name.as_str(), "broker": "lobby", "scope": scope})
        })
        .collect();
    if capabilities.len() < kept.entries.len() {
        return;
    }
    let mut again = json!({ "capabilities": capabilities }).to_string();
    again.pop();
    for (name, text) in [("listing", &kept.listing), ("spend", &kept.spend)] {
        if let Some(text) = text {
            again.push_str(&format!(",{name:?}:{text}"));
        }
    }
    again.push('}');
    if again.len() <= MAX_REPORT {
        assert_eq!(parse_report(again.as_bytes(), "lobby").as_ref(), Ok(&kept));
    }
});
