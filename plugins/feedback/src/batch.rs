//! What a batch holds, as far as its words depend on it.

use jackfield_sdk::json;
use serde_json::Value;

/// Which of the two a batch holds: one at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Batch {
    entries: bool,
    counts: bool,
}

impl Batch {
    /// Reads a batch.
    ///
    /// # Errors
    /// When it is no batch, or holds nothing: what is wrong.
    pub(crate) fn read(body: &[u8]) -> Result<Self, String> {
        let batch = json::parse(body).map_err(|error| format!("The body is not JSON: {error}."))?;
        let batch = batch.as_object().ok_or("The batch is not an object.")?;
        let entries = match batch.get("entries") {
            None => false,
            Some(Value::Array(entries)) => !entries.is_empty(),
            Some(_) => return Err("The entries of the batch are not a list.".to_owned()),
        };
        let counts = match batch.get("counts") {
            None => false,
            Some(Value::Object(counts)) => !counts.is_empty(),
            Some(_) => return Err("The counts of the batch are not an object.".to_owned()),
        };
        if !entries && !counts {
            return Err(
                "The batch holds neither entries nor counts: it carries entries (scope agent), \
                 counts (scope passive), or both."
                    .to_owned(),
            );
        }
        Ok(Self { entries, counts })
    }

    /// The words that it needs.
    pub(crate) fn words(self) -> Vec<String> {
        let agent = self.entries.then(|| "agent".to_owned());
        let passive = self.counts.then(|| "passive".to_owned());
        agent.into_iter().chain(passive).collect()
    }
}
