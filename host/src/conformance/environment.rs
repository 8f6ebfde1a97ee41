//! What the suite hands the broker under test: the upstreams, what to spend
//! there, the boxes and a secret. Every value is drawn anew for each run.

use serde::Serialize;

use crate::conformance::StartError;
use crate::conformance::upstreams::Addresses;

/// The box that reports before each check, and the one that never does.
pub(super) const BOXES: [&str; 2] = ["conformance-a", "conformance-b"];

/// The secret that the first box holds at the broker.
pub(super) const SECRET: &str = "CONFORMANCE";

/// A secret that is declared and that the broker holds no value for.
pub(super) const UNHELD: &str = "CONFORMANCE_UNHELD";

/// The page's `env`, as it stands in `CONFORMANCE_ENV`.
#[derive(Serialize)]
pub(super) struct Environment {
    /// The broker word of the boxes' reports.
    pub(super) broker: String,
    /// The boxes.
    pub(super) boxes: [&'static str; 2],
    /// The Anthropic API's stand-in.
    pub(super) anthropic: Paid,
    /// Fountain's.
    pub(super) fountain: Paid,
    /// The secrets.
    pub(super) secrets: [SavedSecret; 1],
}

/// An upstream and what to spend there.
#[derive(Serialize)]
pub(super) struct Paid {
    pub(super) url: String,
    pub(super) credential: String,
}

/// A secret of a box.
#[derive(Serialize)]
pub(super) struct SavedSecret {
    #[serde(rename = "box")]
    pub(super) box_name: &'static str,
    pub(super) name: &'static str,
    /// The one host that it may be sent to, as an origin: `http://` is said,
    /// since nothing else tells a broker that this one speaks no TLS.
    pub(super) host: String,
    pub(super) value: String,
}

impl Environment {
    pub(super) fn make(broker: &str, upstreams: Addresses) -> Result<Self, StartError> {
        let [first, _never_reports] = BOXES;
        Ok(Self {
            broker: broker.to_owned(),
            boxes: BOXES,
            anthropic: Paid {
                url: format!("http://{}", upstreams.anthropic),
                credential: format!("sk-ant-api03-conformance-{}", random()?),
            },
            fountain: Paid {
                url: format!("http://{}", upstreams.fountain),
                credential: format!("fountain-conformance-{}", random()?),
            },
            secrets: [SavedSecret {
                box_name: first,
                name: SECRET,
                host: format!("http://{}", upstreams.echo),
                value: format!("conformance-secret-{}", random()?),
            }],
        })
    }

    /// The value of the secret that the first box holds.
    pub(super) fn secret(&self) -> &str {
        let [secret] = &self.secrets;
        &secret.value
    }

    /// What no answer may carry, each with what to call it.
    pub(super) fn values(&self) -> [(String, String); 3] {
        [
            (
                "the Anthropic credential".to_owned(),
                self.anthropic.credential.clone(),
            ),
            (
                "the Fountain credential".to_owned(),
                self.fountain.credential.clone(),
            ),
            (format!("the value of {SECRET}"), self.secret().to_owned()),
        ]
    }
}

/// 48 hexadecimal digits that nobody can guess.
pub(super) fn random() -> Result<String, StartError> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).map_err(|cause| StartError::Randomness(cause.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
