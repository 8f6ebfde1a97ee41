//! Whose owner has consented: the operator's settings for this plugin.
//!
//! `consent` is `"all"`, which it is when nothing is said, `"none"`, or a list
//! of boxes. Whatever else stands in the settings is refused: a misspelled
//! consent must not pass for a given one.

use jackfield_sdk::json::{self, quoted};
use serde_json::Value;

/// Which boxes' owners have consented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Consent {
    /// All.
    All,
    /// These.
    Boxes(Vec<String>),
}

impl Consent {
    /// Reads the settings.
    ///
    /// # Errors
    /// When they say something else: what is wrong.
    pub(crate) fn read(settings: Option<&str>) -> Result<Self, String> {
        let Some(settings) = settings else {
            return Ok(Self::All);
        };
        let settings = json::parse(settings.as_bytes()).map_err(|error| error.to_string())?;
        let settings = settings.as_object().ok_or("they are not a table")?;
        if let Some(other) = settings.keys().find(|key| *key != "consent") {
            return Err(format!("there is no setting {}", quoted(other)));
        }
        match settings.get("consent") {
            None => Ok(Self::All),
            Some(Value::String(word)) if word == "all" => Ok(Self::All),
            Some(Value::String(word)) if word == "none" => Ok(Self::Boxes(Vec::new())),
            Some(Value::Array(boxes)) => {
                let names = boxes.iter().map(|name| name.as_str().map(str::to_owned));
                let names = names.collect::<Option<_>>();
                let names = names.ok_or("a box in `consent` is not a text")?;
                Ok(Self::Boxes(names))
            }
            Some(other) => Err(format!("`consent` is {}", quoted(&other.to_string()))),
        }
    }

    /// Whether the owner of this box has consented.
    pub(crate) fn is_given_by(&self, box_name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Boxes(names) => names.iter().any(|name| name == box_name),
        }
    }
}
