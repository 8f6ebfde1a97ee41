//! What is found again in `resume`: where a request stands, and the bytes that
//! go with it.

use serde_json::{Value, json};

use crate::kinds;

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its ids are being held to what the box owns.
    Check,
    /// A collection has been asked.
    List,
    /// A collection's things are being held to what the box owns.
    Filter,
    /// Something new has been asked for.
    Create,
}

/// What a request's later rounds know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) stage: Stage,
    /// The offered credential's name.
    pub(crate) credential: String,
    /// The collection's kind and the method it is asked with; none for what is
    /// sent on.
    pub(crate) collection: Option<(&'static str, String)>,
    /// Headers that go with it: of the request to come, or of the answer.
    pub(crate) headers: Vec<(String, String)>,
    /// The status of the answer that is being filtered.
    pub(crate) status: u16,
    /// The body of the request to come, or of the answer.
    pub(crate) body: Vec<u8>,
}

impl State {
    /// In bytes: what is small as JSON on one line, and then the body as it is.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let stage = match self.stage {
            Stage::Check => "check",
            Stage::List => "list",
            Stage::Filter => "filter",
            Stage::Create => "create",
        };
        let head = json!({
            "stage": stage, "credential": self.credential, "collection": self.collection,
            "headers": self.headers, "status": self.status,
        });
        let mut bytes = head.to_string().into_bytes();
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Reads what [`State::to_bytes`] wrote.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let (head, body) = bytes.split_at_checked(end)?;
        let head: Value = serde_json::from_slice(head).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let header = |pair: &Value| Some((text(pair.get(0)?)?, text(pair.get(1)?)?));
        let pair = |pair: &Value| {
            let kind = pair.get(0)?.as_str()?;
            let kind = kinds::ALL.into_iter().find(|known| *known == kind)?;
            Some((kind, text(pair.get(1)?)?))
        };
        let collection = pair(head.get("collection")?);
        Some(Self {
            stage: match head.get("stage")?.as_str()? {
                "check" => Stage::Check,
                "list" => Stage::List,
                "filter" => Stage::Filter,
                "create" => Stage::Create,
                _ => return None,
            },
            credential: text(head.get("credential")?)?,
            collection,
            headers: head
                .get("headers")?
                .as_array()?
                .iter()
                .filter_map(header)
                .collect(),
            status: u16::try_from(head.get("status")?.as_u64()?).ok()?,
            body: body.get(1..)?.to_vec(),
        })
    }
}
