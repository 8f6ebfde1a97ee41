//! What a plugin is asked and what it says, as values: unchecked text from an
//! untrusted component on one side, checked types on the other.
//! `plan_check` is the only way from one to the other.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::rules::manifest::Uses;
use crate::rules::names::{BoxName, CredentialName, SecretName, UpstreamName};
use crate::rules::payer::Payer;
use crate::rules::refusal::Refusal;

// === What a plugin is shown ===

/// A request, as far as the route's inputs show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownRequest {
    /// The method.
    pub method: Method,
    /// The matched prefix.
    pub prefix: String,
    /// The path after it.
    pub path: String,
    /// The query, where asked for.
    pub query: Option<String>,
    /// The headers asked for: lower-case name and value.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, where asked for.
    pub body: Option<Bytes>,
    /// Milliseconds since the epoch, where asked for.
    pub time: Option<u64>,
    /// The operator's settings as JSON, where asked for.
    pub settings: Option<String>,
}

/// Who asks, as a plugin sees them.
#[derive(Debug, Clone)]
pub struct ShownCaller {
    /// The box; none on a public route.
    pub box_name: Option<BoxName>,
    /// The permitted words.
    pub words: Vec<String>,
    /// The credentials on offer.
    pub offers: Vec<Offer>,
    /// Where the permitted words lead right now.
    pub targets: Vec<Target>,
    /// What the plugin may use.
    pub uses: Uses,
}

/// A credential that this request may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The name a plan answers with.
    pub name: String,
    /// The only target it may be sent to.
    pub target: Target,
    /// What sort of value it is.
    pub kind: CredentialKind,
    /// Whose it is.
    pub payer: Option<Payer>,
    /// Which value the vault holds for it.
    pub key: CredentialKey,
}

/// What sort of value a credential is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CredentialKind {
    /// An API key of an upstream.
    ApiKey,
    /// A setup token.
    SetupToken,
    /// A bearer token.
    Bearer,
    /// A box's secret.
    Secret,
}

impl CredentialKind {
    /// The word in the contract and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiKey => "api-key",
            Self::SetupToken => "setup-token",
            Self::Bearer => "bearer",
            Self::Secret => "secret",
        }
    }
}

/// Which stored value: what the vault looks up and the pool keys by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CredentialKey {
    /// An operator credential for an upstream.
    Credential {
        /// The upstream.
        upstream: UpstreamName,
        /// The credential's name, unique for the upstream.
        name: CredentialName,
    },
    /// A box's secret.
    Secret {
        /// The box.
        box_name: BoxName,
        /// The secret's name.
        name: SecretName,
    },
}

/// Where a request goes: a record of the host's, by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// A configured upstream.
    Upstream(UpstreamName),
    /// The host of the calling box's secret.
    Secret(SecretName),
}

// === What a plugin says, unchecked ===

/// A target, as a plugin names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaidTarget {
    /// An upstream's name.
    Upstream(String),
    /// A secret's name.
    Secret(String),
}

/// A placement, as a plugin says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaidPlacement {
    /// `Authorization: Bearer VALUE`.
    Bearer,
    /// A header of this name and template.
    Header {
        /// The field name.
        name: String,
        /// The value, `{}` standing for the credential.
        template: String,
    },
    /// A query parameter.
    Query(String),
    /// Where the box's token stands.
    StandIn,
}

/// A path, as a plugin chooses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaidPath {
    /// As received, less the prefix and this many segments.
    Received(u32),
    /// A literal of the manifest.
    Literal(String),
}

/// A query, as a plugin chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaidQuery {
    /// As received.
    Received,
    /// None.
    None,
}

/// A header edit, as a plugin says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaidEdit {
    /// Replace all lines by this one.
    Set(String, Vec<u8>),
    /// Remove all lines.
    Remove(String),
    /// Merge all lines and this value into one list.
    AddToList(String, Vec<u8>),
}

/// A refusal, as a plugin says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaidRefusal {
    /// The status.
    pub status: u16,
    /// The sort.
    pub kind: String,
    /// The message.
    pub message: String,
}

/// A forward, as a plugin says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaidForward {
    /// Where to.
    pub to: SaidTarget,
    /// The path.
    pub path: SaidPath,
    /// The query.
    pub query: SaidQuery,
    /// The offered credential.
    pub credential: Option<String>,
    /// Where it goes.
    pub placement: SaidPlacement,
    /// Request-header edits.
    pub request_headers: Vec<SaidEdit>,
    /// Response-header edits.
    pub response_headers: Vec<SaidEdit>,
    /// Answers to replace.
    pub substitutions: Vec<(u16, SaidRefusal)>,
}

/// What is to happen, as a plugin says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaidAction {
    /// Send it on.
    Forward(Box<SaidForward>),
    /// Answer it.
    Answer {
        /// The status.
        status: u16,
        /// Headers.
        headers: Vec<(String, Vec<u8>)>,
        /// The body.
        body: Vec<u8>,
    },
    /// Refuse it.
    Refuse(SaidRefusal),
}

/// A decision, as a plugin says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaidPlan {
    /// What is to happen.
    pub action: SaidAction,
    /// Changes to the keep.
    pub writes: Vec<Write>,
    /// Records for the journal.
    pub journal: Vec<Vec<u8>>,
    /// Things that become the box's own.
    pub owns: Vec<SaidThing>,
    /// Lines for the log.
    pub log: Vec<LogLine>,
}

/// A change to the keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: String,
    /// The new value; none deletes the key.
    pub value: Option<Vec<u8>>,
    /// What the key must hold now.
    pub expects: Expected,
}

/// What a key must hold for a plan to be made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Expected {
    /// Whatever it holds.
    #[default]
    Anything,
    /// Nothing.
    Nothing,
    /// Exactly this value.
    Value(Vec<u8>),
}

impl Expected {
    /// Whether what a key holds is what was expected.
    #[must_use]
    pub fn is_met_by(&self, held: Option<&[u8]>) -> bool {
        match self {
            Self::Anything => true,
            Self::Nothing => held.is_none(),
            Self::Value(value) => held == Some(value.as_slice()),
        }
    }
}

/// A thing, as a plugin says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaidThing {
    /// Its kind.
    pub kind: String,
    /// Its id.
    pub id: String,
}

/// Which keys of the keep to name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// What they begin with.
    pub prefix: String,
    /// Only those after this one.
    pub after: Option<String>,
}

/// A line for the operator's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// How serious it is.
    pub level: LogLevel,
    /// What it says.
    pub message: String,
}

/// How serious a log line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// For the plugin's author.
    Debug,
    /// In passing.
    Info,
    /// To look at.
    Warn,
}

/// A call, as a plugin asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaidCall {
    /// Where to.
    pub to: SaidTarget,
    /// The method.
    pub method: String,
    /// The path.
    pub path: SaidPath,
    /// The query.
    pub query: SaidQuery,
    /// Headers.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
    /// The offered credential.
    pub credential: Option<String>,
    /// Where it goes.
    pub placement: SaidPlacement,
}

/// What must be known first, as a plugin asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaidNeed {
    /// Calls, made side by side.
    pub calls: Vec<SaidCall>,
    /// Keys of the keep to read.
    pub reads: Vec<String>,
    /// Keys of the keep to name.
    pub lists: Vec<Listing>,
    /// Things that the box may own.
    pub owned: Vec<SaidThing>,
    /// How long the calls may take, in milliseconds; 0 leaves it to the host.
    pub deadline_ms: u32,
    /// What to find again in `resume`.
    pub state: Vec<u8>,
}

/// What a plugin answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaidStep {
    /// A decision.
    Plan(Box<SaidPlan>),
    /// What it needs to make one.
    Need(SaidNeed),
}

// === What the host brings back ===

/// Why a call brought no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallFailure {
    /// No connection, or an address that is not allowed.
    Unreachable,
    /// Not within the deadline.
    Timeout,
    /// Broken off, or not readable.
    Broken,
    /// Larger than the host buffers.
    TooLarge,
}

/// What a call brought, scrubbed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallAnswer {
    /// The status.
    pub status: u16,
    /// Headers.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Bytes,
}

/// What the host brings back for a need.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answers {
    /// One for each call.
    pub calls: Vec<Result<CallAnswer, CallFailure>>,
    /// One for each read.
    pub reads: Vec<Option<Vec<u8>>>,
    /// One for each listing.
    pub lists: Vec<Vec<String>>,
    /// One for each thing.
    pub owned: Vec<bool>,
}

// === What has been checked ===

/// A placement whose names and template are well formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// `Authorization: Bearer VALUE`.
    Bearer,
    /// A header: what stands before and after the value.
    Header {
        /// The field name.
        name: HeaderName,
        /// Before the value.
        before: String,
        /// After the value.
        after: String,
    },
    /// A query parameter of this name, percent-encoded already.
    Query(String),
    /// Where the box's token stands.
    StandIn,
}

/// A header edit that the host is willing to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Replace all lines by this one.
    Set(HeaderName, HeaderValue),
    /// Remove all lines.
    Remove(HeaderName),
    /// Merge all lines and this value into one list.
    AddToList(HeaderName, HeaderValue),
}

/// A request that may be sent: its target is reached by a permitted word, its
/// path is what was received or a literal of the manifest, its credential was
/// on offer for that target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbound {
    /// Where to.
    pub target: Target,
    /// The method.
    pub method: Method,
    /// The path, to be appended to the target's base path; starts with `/`.
    pub path: String,
    /// The query, without `?`.
    pub query: Option<String>,
    /// The credential to seal in and where.
    pub credential: Option<(CredentialKey, Placement)>,
}

/// A checked forward.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// What is sent.
    pub outbound: Outbound,
    /// Request-header edits.
    pub request_edits: Vec<Edit>,
    /// Response-header edits.
    pub response_edits: Vec<Edit>,
    /// Answers to replace, by the upstream's status.
    pub substitutions: Vec<(StatusCode, Refusal)>,
}

/// A checked call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// What is sent.
    pub outbound: Outbound,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// A checked answer of a plugin's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}
