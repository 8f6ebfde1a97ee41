//! A box's declaration: reading a report, and the rule that holds every
//! request to it (chant broker protocol, "The rule" and "Reporting the
//! declaration").

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::rules::json;
use crate::rules::names::{CapabilityName, ScopeWord};
use crate::rules::refusal::Refusal;

/// The largest report, in bytes.
pub const MAX_REPORT: usize = 32 * 1024;
const MAX_CAPABILITIES: usize = 20;
const MAX_WORDS: usize = 50;
const MAX_PRINCIPALS: usize = 50;

/// What a box declared to this broker. Entries of one name are merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    /// The entries that name this broker, in the order of their first mention.
    pub entries: Vec<Entry>,
    /// The box block's listing, as it was sent: JSON text.
    pub listing: Option<String>,
    /// What the box says it spent, as it was sent: JSON text.
    pub spend: Option<String>,
}

/// One declared capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The capability.
    pub name: CapabilityName,
    /// Its words, each once, in the order of their first mention.
    pub words: Vec<ScopeWord>,
}

/// Why a body is not a report: which item, and what it must be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct ReportError {
    place: String,
    reason: String,
}

/// Reads a report and keeps the entries whose broker is `broker`. Entries of
/// other brokers must be well formed too, and are then dropped.
///
/// # Errors
/// When the body is not a `declarationReport` of the protocol's schema.
pub fn parse_report(body: &[u8], broker: &str) -> Result<Declaration, ReportError> {
    let value = json::parse(body).map_err(|error| fault("the body", error.to_string()))?;
    let Value::Object(report) = &value else {
        return Err(fault("the body", "must be a JSON object"));
    };
    let Some(Value::Array(capabilities)) = report.get("capabilities") else {
        return Err(fault("capabilities", "must be an array"));
    };
    if capabilities.len() > MAX_CAPABILITIES {
        return Err(fault(
            "capabilities",
            format!("may hold up to {MAX_CAPABILITIES} entries"),
        ));
    }
    let mut entries: Vec<Entry> = Vec::new();
    for (index, capability) in capabilities.iter().enumerate() {
        let (entry, named) = parse_entry(capability, &format!("capabilities[{index}]"))?;
        if named.as_deref() == Some(broker) {
            merge(&mut entries, entry);
        }
    }
    if let Some(listing) = report.get("listing").filter(|value| !value.is_null()) {
        check_listing(listing)?;
    }
    if let Some(spend) = report.get("spend").filter(|value| !value.is_null()) {
        check_spend(spend)?;
    }
    let kept: Verbatim<'_> =
        serde_json::from_slice(body).map_err(|error| fault("the body", error.to_string()))?;
    Ok(Declaration {
        entries,
        listing: kept.listing.map(text),
        spend: kept.spend.map(text),
    })
}

/// The two members that are answered as they came: `null` counts as absent.
#[derive(Deserialize)]
struct Verbatim<'a> {
    #[serde(borrow, default)]
    listing: Option<&'a RawValue>,
    #[serde(borrow, default)]
    spend: Option<&'a RawValue>,
}

fn text(raw: &RawValue) -> String {
    raw.get().to_owned()
}

fn parse_entry(value: &Value, place: &str) -> Result<(Entry, Option<String>), ReportError> {
    let Value::Object(entry) = value else {
        return Err(fault(place, "must be an object"));
    };
    let name = entry
        .get("name")
        .and_then(Value::as_str)
        .ok_or_else(|| fault(format!("{place}.name"), "must be a string"))?;
    let name = CapabilityName::parse(name)
        .map_err(|error| fault(format!("{place}.name"), error.to_string()))?;
    let broker = match entry.get("broker") {
        None | Some(Value::Null) => None,
        Some(Value::String(broker)) => Some(broker.clone()),
        Some(_) => return Err(fault(format!("{place}.broker"), "must be a string or null")),
    };
    let words = match entry.get("scope") {
        None => Vec::new(),
        Some(Value::Array(words)) if words.len() <= MAX_WORDS => words
            .iter()
            .enumerate()
            .map(|(index, word)| parse_word(word, &format!("{place}.scope[{index}]")))
            .collect::<Result<Vec<_>, _>>()?,
        Some(Value::Array(_)) => {
            return Err(fault(
                format!("{place}.scope"),
                format!("may hold up to {MAX_WORDS} words"),
            ));
        }
        Some(_) => return Err(fault(format!("{place}.scope"), "must be an array")),
    };
    Ok((Entry { name, words }, broker))
}

fn parse_word(value: &Value, place: &str) -> Result<ScopeWord, ReportError> {
    let word = value
        .as_str()
        .ok_or_else(|| fault(place, "must be a string"))?;
    ScopeWord::parse(word).map_err(|error| fault(place, error.to_string()))
}

fn merge(entries: &mut Vec<Entry>, new: Entry) {
    let entry = match entries.iter_mut().find(|entry| entry.name == new.name) {
        Some(entry) => entry,
        None => {
            entries.push(Entry {
                name: new.name,
                words: Vec::new(),
            });
            let Some(entry) = entries.last_mut() else {
                return;
            };
            entry
        }
    };
    for word in new.words {
        if !entry.words.contains(&word) {
            entry.words.push(word);
        }
    }
}

fn check_listing(value: &Value) -> Result<(), ReportError> {
    let Value::Object(listing) = value else {
        return Err(fault("listing", "must be an object"));
    };
    if listing
        .get("published")
        .is_some_and(|published| !published.is_boolean())
    {
        return Err(fault("listing.published", "must be true or false"));
    }
    for (member, most) in [("title", 60), ("line", 140)] {
        let place = format!("listing.{member}");
        let text = listing
            .get(member)
            .and_then(Value::as_str)
            .ok_or_else(|| fault(&place, "must be a string"))?;
        if text.chars().count() > most {
            return Err(fault(&place, format!("may be up to {most} characters")));
        }
        if text.chars().any(|c| c < ' ' || c == '\u{7f}') {
            return Err(fault(&place, "may hold no control character"));
        }
    }
    Ok(())
}

fn check_spend(value: &Value) -> Result<(), ReportError> {
    let Value::Object(spend) = value else {
        return Err(fault("spend", "must be an object"));
    };
    let month = spend.get("month").and_then(Value::as_str);
    if !month.is_some_and(is_month) {
        return Err(fault("spend.month", "must be a month as YYYY-MM"));
    }
    check_amounts(value, "spend")?;
    let Some(Value::Array(principals)) = spend.get("byPrincipal") else {
        return Err(fault("spend.byPrincipal", "must be an array"));
    };
    if principals.len() > MAX_PRINCIPALS {
        return Err(fault(
            "spend.byPrincipal",
            format!("may hold up to {MAX_PRINCIPALS} principals"),
        ));
    }
    for (index, principal) in principals.iter().enumerate() {
        let place = format!("spend.byPrincipal[{index}]");
        match principal.get("principal") {
            Some(Value::Null) => {}
            Some(Value::String(name)) if (1..=200).contains(&name.chars().count()) => {}
            _ => {
                return Err(fault(
                    format!("{place}.principal"),
                    "must be null or 1 to 200 characters",
                ));
            }
        }
        check_amounts(principal, &place)?;
    }
    Ok(())
}

fn check_amounts(value: &Value, place: &str) -> Result<(), ReportError> {
    let amount = |member: &str| {
        value
            .get(member)
            .and_then(Value::as_f64)
            .filter(|amount| (0.0..1e9).contains(amount))
    };
    if amount("usd").is_none() {
        return Err(fault(
            format!("{place}.usd"),
            "must be a number from 0 to below 1000000000",
        ));
    }
    for member in ["runs", "unpriced"] {
        if amount(member).is_none_or(|amount| amount.fract() != 0.0) {
            return Err(fault(
                format!("{place}.{member}"),
                "must be a whole number from 0 to below 1000000000",
            ));
        }
    }
    Ok(())
}

fn is_month(text: &str) -> bool {
    let Some((year, month)) = text.split_once('-') else {
        return false;
    };
    year.len() == 4
        && year.bytes().all(|b| b.is_ascii_digit())
        && month.len() == 2
        && month
            .parse::<u8>()
            .is_ok_and(|month| (1..=12).contains(&month))
        && month.bytes().all(|b| b.is_ascii_digit())
}

fn fault(place: impl Into<String>, reason: impl Into<String>) -> ReportError {
    ReportError {
        place: place.into(),
        reason: reason.into(),
    }
}

/// The rule: every word must stand in the entry of that capability in the
/// box's last report. Without words it still asks that the box has reported.
///
/// # Errors
/// A 403 that names the capability and the word and says which entry to add.
pub fn hold_to_rule(
    declared: Option<&Declaration>,
    broker: &str,
    capability: &CapabilityName,
    words: &[ScopeWord],
) -> Result<(), Refusal> {
    let wanted = || {
        let quoted = words.iter().map(|word| format!("{:?}", word.as_str()));
        quoted.collect::<Vec<_>>().join(" and ")
    };
    let Some(declared) = declared else {
        let words = if words.is_empty() {
            String::new()
        } else {
            format!(" whose scope lists {}", wanted())
        };
        return Err(Refusal::forbidden(format!(
            "This box has not reported its declaration, so {capability} is closed to it. Have its steward report \
             a box block that holds an entry named \"{capability}\" with broker \"{broker}\"{words}."
        )));
    };
    let Some(entry) = declared
        .entries
        .iter()
        .find(|entry| entry.name == *capability)
    else {
        if words.is_empty() {
            return Ok(());
        }
        return Err(Refusal::forbidden(format!(
            "This box declares no {capability} capability brokered by {broker}. Add an entry named \
             \"{capability}\" with broker \"{broker}\" and {} in its scope to the box block of its \
             chant.workspace.json.",
            wanted()
        )));
    };
    match words.iter().find(|word| !entry.words.contains(word)) {
        None => Ok(()),
        Some(missing) => {
            let listed = entry
                .words
                .iter()
                .map(ScopeWord::as_str)
                .collect::<Vec<_>>()
                .join(", ");
            let listed = if listed.is_empty() {
                "is empty".to_owned()
            } else {
                format!("lists {listed}")
            };
            Err(Refusal::forbidden(format!(
                "The scope of this box's {capability} capability {listed}, and not {missing}. Add \"{missing}\" to \
                 that scope in the box block of its chant.workspace.json."
            )))
        }
    }
}

#[cfg(test)]
mod tests;
