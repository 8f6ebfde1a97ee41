//! What a plugin says it is, parsed: once a `Manifest` exists, its names fit
//! their patterns and its words reach what they may.

use std::collections::BTreeSet;

use http::{HeaderName, Method};

use crate::rules::names::{
    CapabilityName, PluginName, ScopeWord, SecretName, ThingKind, UpstreamName,
};
use crate::rules::paths;

/// The word that stands for every secret's name.
pub const OPEN_WORD: &str = "<NAME>";

/// A plugin's manifest, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The plugin's name.
    pub name: PluginName,
    /// Its version, as it writes it (semver).
    pub version: String,
    /// The capability a box must declare.
    pub capability: CapabilityName,
    /// One line for people.
    pub summary: String,
    /// What it serves.
    pub routes: Vec<Route>,
    /// The words it knows.
    pub words: Vec<Word>,
    /// The literal paths its plans may name.
    pub paths: Vec<String>,
    /// What it uses beside its routes.
    pub uses: Uses,
    /// The limits it wants; 0 leaves one to the host.
    pub limits: WantedLimits,
}

impl Manifest {
    /// The route that a request belongs to, by its place in the list, and the
    /// path after its prefix: the longest prefix that takes the method.
    #[must_use]
    pub fn serving<'a>(&self, method: &Method, path: &'a str) -> Option<(usize, &'a str)> {
        let routes = self.routes.iter().enumerate();
        routes
            .filter(|(_, route)| route.methods.is_empty() || route.methods.contains(method))
            .filter_map(|(index, route)| {
                let tail = paths::tail(path, &route.prefix)?;
                Some((index, tail, route.prefix.len()))
            })
            .max_by_key(|(.., length)| *length)
            .map(|(index, tail, _)| (index, tail))
    }
}

/// A prefix and how it is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Methods; empty for all.
    pub methods: Vec<Method>,
    /// The prefix: `/` and literal segments, no slash at the end.
    pub prefix: String,
    /// Served without a token.
    pub public: bool,
    /// Where the token may stand.
    pub token: TokenPlace,
    /// What the plugin is shown.
    pub inputs: Inputs,
    /// The upstream whose payer is told to the box.
    pub payer_of: Option<UpstreamName>,
}

/// Where a box's token may stand, beside `Authorization: Bearer`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenPlace {
    /// As the whole value of one of these headers.
    Headers(Vec<HeaderName>),
    /// In any header, inside `Basic`, or in the query.
    Anywhere,
}

/// What a plugin is shown of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inputs {
    /// The query.
    pub query: bool,
    /// These headers.
    pub headers: Vec<HeaderName>,
    /// The body, up to this many bytes; 0 streams it unseen.
    pub body: usize,
    /// The time.
    pub time: bool,
    /// The operator's settings.
    pub settings: bool,
}

/// A scope word and what it opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The word, or the open set.
    pub name: WordName,
    /// What it lets a box do.
    pub description: String,
    /// What it reaches.
    pub reaches: Vec<Reach>,
}

/// A literal word, or every secret's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WordName {
    /// This word.
    Literal(ScopeWord),
    /// `<NAME>`.
    AnySecret,
}

impl WordName {
    /// The word as a manifest writes it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Literal(word) => word.as_str(),
            Self::AnySecret => OPEN_WORD,
        }
    }
}

/// What a word reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// A configured upstream.
    Upstream(UpstreamName),
    /// The box's secret of this name.
    Secret(SecretName),
    /// `<NAME>`: the secret that the word itself names.
    SecretOfThatName,
}

/// What a plugin uses beside its routes: as a manifest asks for it, or as it
/// was granted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Uses {
    /// It reads and writes its keep.
    pub keep: bool,
    /// It writes to the journal.
    pub journal: bool,
    /// It asks what of these kinds a box owns, and records more.
    pub owned_kinds: BTreeSet<ThingKind>,
}

/// Limits a plugin wants; 0 leaves one to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WantedLimits {
    /// Computing time for a call, in milliseconds.
    pub time_ms: u32,
    /// Memory of one instance, in bytes.
    pub memory_bytes: u32,
    /// How often a decision may answer `need`.
    pub rounds: u32,
    /// How many calls one `need` may hold.
    pub calls: u32,
}
