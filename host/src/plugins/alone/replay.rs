//! Another version of a plugin over recorded decisions: where it would decide
//! otherwise, field by field.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::plugins::alone::judge::Alone;
use crate::plugins::alone::metered::Called;
use crate::plugins::bindings::exports::jackfield::plugin::decisions::Step;
use crate::plugins::convert;
use crate::plugins::error::LoadError;
use crate::plugins::recorded::{BYTES, Recorded, SHA256, Scopes, view};

/// The version that is asked.
pub struct Replay(Alone);

/// A field that would be another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Which: `words`, or a place in a step.
    pub field: String,
    /// What was recorded.
    pub before: String,
    /// What this version says.
    pub after: String,
}

/// What this version makes of one recorded decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// What it decides otherwise.
    pub changed: Vec<Changed>,
    /// The recorded version gave no answer there, so nothing is compared.
    pub unanswered: bool,
    /// What its calls took.
    pub fuel: u64,
}

impl Replay {
    /// Loads a version as a host would.
    ///
    /// # Errors
    /// When it is no plugin.
    pub async fn load(bytes: &[u8]) -> Result<Self, LoadError> {
        Alone::load(bytes).await.map(Self)
    }

    /// Its plugin's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.manifest().name.as_str()
    }

    /// Asks it what it was that the recorded version was asked.
    pub async fn replay(&self, recorded: &Recorded) -> Replayed {
        let mut replayed = Replayed {
            changed: Vec::new(),
            unanswered: false,
            fuel: 0,
        };
        let prefix = &recorded.request.prefix;
        let routes = &self.0.manifest().routes;
        if !routes.iter().any(|route| route.prefix == *prefix) {
            replayed.say("route", prefix, "no route of this prefix");
            return replayed;
        }
        let Some(before) = &recorded.scopes else {
            replayed.unanswered = true;
            return replayed;
        };
        let metered = self.0.metered();
        let Called { said, cost } = metered.scopes(&recorded.request).await;
        replayed.fuel += cost.fuel;
        let (instance, after) = match said {
            Ok(said) => said,
            Err(reason) => {
                replayed.say("words", &words(before), &reason);
                return replayed;
            }
        };
        let after = Scopes { words: after };
        if after != *before {
            // It would be shown another caller, of which nothing is known.
            replayed.say("words", &words(before), &words(&after));
            return replayed;
        }
        let Some(caller) = &recorded.caller else {
            return replayed;
        };
        let route = metered.route(instance, &recorded.request, caller);
        let Called { mut said, cost } = route.await;
        replayed.fuel += cost.fuel;
        let mut answers = recorded.answers.iter();
        for (index, before) in recorded.steps.iter().enumerate() {
            let step = match said {
                Ok(step) => step,
                Err(reason) => {
                    replayed.say(&format!("step {}", index + 1), "an answer", &reason);
                    return replayed;
                }
            };
            let state = match &step {
                Step::Need(need) => Some(need.state.clone()),
                Step::Plan(_) => None,
            };
            let after = view(&convert::step(step));
            compare(
                &format!("step {}", index + 1),
                before,
                &after,
                &mut replayed,
            );
            let (Some(state), Some(answers), true) =
                (state, answers.next(), replayed.changed.is_empty())
            else {
                return replayed;
            };
            let Called { said: next, cost } = metered.resume(&state, answers).await;
            replayed.fuel += cost.fuel;
            said = next;
        }
        replayed.unanswered = true;
        replayed
    }
}

impl Replayed {
    fn say(&mut self, field: &str, before: &str, after: &str) {
        self.changed.push(Changed {
            field: field.to_owned(),
            before: before.to_owned(),
            after: after.to_owned(),
        });
    }
}

fn words(scopes: &Scopes) -> String {
    match &scopes.words {
        None => "not served".to_owned(),
        Some(words) if words.is_empty() => "none".to_owned(),
        Some(words) => words.join(", "),
    }
}

/// Notes each field that differs, the deepest that can be named.
fn compare(field: &str, before: &Value, after: &Value, replayed: &mut Replayed) {
    if before == after {
        return;
    }
    match (before, after) {
        (Value::Object(one), Value::Object(other)) if !is_hidden(one) && !is_hidden(other) => {
            let more = other.keys().filter(|name| !one.contains_key(*name));
            for name in one.keys().chain(more) {
                let [one, other] = [one, other].map(|of| of.get(name).unwrap_or(&Value::Null));
                compare(&format!("{field}.{name}"), one, other, replayed);
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            for index in 0..one.len().max(other.len()) {
                let [one, other] = [one, other].map(|of| of.get(index).unwrap_or(&Value::Null));
                compare(&format!("{field}[{index}]"), one, other, replayed);
            }
        }
        _ => {
            let same_length = text(before) == text(after);
            let after = match same_length {
                true => format!("{}, another value", text(after)),
                false => text(after),
            };
            replayed.say(field, &text(before), &after);
        }
    }
}

fn is_hidden(members: &Map<String, Value>) -> bool {
    members.contains_key(SHA256)
}

/// A value as it may be shown.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(members) if is_hidden(members) => {
            format!("{} bytes", members.get(BYTES).unwrap_or(&Value::Null))
        }
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| format!("{name}: {}", text(value));
            format!(
                "{{{}}}",
                members.iter().map(member).collect::<Vec<_>>().join(", ")
            )
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(text).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests;
