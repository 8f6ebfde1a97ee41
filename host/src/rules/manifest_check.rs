//! From what a plugin says it is, unchecked text from an untrusted component,
//! to a [`Manifest`]. This is the only way from one to the other.
//!
//! It knows no host: prefixes of other plugins, approvals and grants are
//! looked at elsewhere.

use std::collections::BTreeSet;

use http::{HeaderName, Method};

use crate::rules::manifest::{
    Inputs, Manifest, OPEN_WORD, Reach, Route, TokenPlace, Uses, WantedLimits, Word, WordName,
};
use crate::rules::names::{
    CapabilityName, PluginName, ScopeWord, SecretName, ThingKind, UpstreamName,
};
use crate::rules::plan::SaidTarget;
use crate::rules::plan_check::MOST_CALLS;

/// The largest body that a plugin may ask to see.
pub const MAX_BODY: u32 = 1024 * 1024;

const MAX_ROUTES: usize = 32;
const MAX_METHODS: usize = 16;
const MAX_HEADERS: usize = 32;
const MAX_WORDS: usize = 50;
const MAX_REACHES: usize = 32;
const MAX_PATHS: usize = 64;
const MAX_PREFIX: usize = 200;
const MAX_PATH: usize = 1024;
const MAX_TEXT: usize = 300;
const MAX_VERSION: usize = 100;
const MAX_TIME_MS: u32 = 10_000;
const MAX_MEMORY: u32 = 1024 * 1024 * 1024;
const MAX_ROUNDS: u32 = 16;
const MAX_KINDS: usize = 32;

/// A manifest, as a plugin says it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SaidManifest {
    /// The plugin's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The capability.
    pub capability: String,
    /// One line for people.
    pub summary: String,
    /// What it serves.
    pub routes: Vec<SaidRoute>,
    /// The words it knows.
    pub words: Vec<SaidWord>,
    /// The literal paths.
    pub paths: Vec<String>,
    /// Whether it uses its keep.
    pub keep: bool,
    /// Whether it writes to the journal.
    pub journal: bool,
    /// The kinds of things that it asks about and records.
    pub owned_kinds: Vec<String>,
    /// The limits it wants.
    pub limits: WantedLimits,
}

/// A route, as a plugin says it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SaidRoute {
    /// Methods; empty for all.
    pub methods: Vec<String>,
    /// The prefix.
    pub prefix: String,
    /// Served without a token.
    pub public: bool,
    /// Headers where the token may stand; none for anywhere.
    pub token_headers: Option<Vec<String>>,
    /// Shown: the query.
    pub query: bool,
    /// Shown: these headers.
    pub headers: Vec<String>,
    /// Shown: the body, up to this many bytes.
    pub body: u32,
    /// Shown: the time.
    pub time: bool,
    /// Shown: the operator's settings.
    pub settings: bool,
    /// The upstream whose payer is told.
    pub payer_of: Option<String>,
}

/// A scope word, as a plugin says it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SaidWord {
    /// The word.
    pub name: String,
    /// What it lets a box do.
    pub description: String,
    /// What it reaches.
    pub reaches: Vec<SaidTarget>,
}

/// What is wrong with a manifest, where, and what its author can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the manifest's {item} is not accepted: {reason}")]
pub struct ManifestError {
    item: String,
    reason: String,
}

impl Manifest {
    /// Checks what a plugin says it is.
    ///
    /// # Errors
    /// Names the first item that is not accepted, and what to do about it.
    pub fn check(said: SaidManifest) -> Result<Self, ManifestError> {
        let name = PluginName::parse(&said.name).map_err(|error| wrong("name", error))?;
        let capability =
            CapabilityName::parse(&said.capability).map_err(|error| wrong("capability", error))?;
        if said.version.len() > MAX_VERSION || semver::Version::parse(&said.version).is_err() {
            return Err(wrong("version", "write it as semver, such as 1.2.3"));
        }
        text("summary", &said.summary)?;
        if said.routes.is_empty() {
            return Err(wrong("routes", "list at least one prefix"));
        }
        count("routes", said.routes.len(), MAX_ROUTES)?;
        count("words", said.words.len(), MAX_WORDS)?;
        count("paths", said.paths.len(), MAX_PATHS)?;
        let routes: Vec<Route> = said
            .routes
            .into_iter()
            .map(route)
            .collect::<Result<_, _>>()?;
        let words: Vec<Word> = said.words.into_iter().map(word).collect::<Result<_, _>>()?;
        for path in &said.paths {
            literal_path(path)?;
        }
        count("owned-kinds", said.owned_kinds.len(), MAX_KINDS)?;
        let owned_kinds = said.owned_kinds.iter().map(|kind| ThingKind::parse(kind));
        let uses = Uses {
            keep: said.keep,
            journal: said.journal,
            owned_kinds: owned_kinds
                .collect::<Result<_, _>>()
                .map_err(|error| wrong("owned-kinds", error))?,
        };
        unambiguous(&routes)?;
        unique(&words)?;
        payers_are_reached(&routes, &words)?;
        limits(said.limits)?;
        Ok(Self {
            name,
            version: said.version,
            capability,
            summary: said.summary,
            routes,
            words,
            paths: said.paths,
            uses,
            limits: said.limits,
        })
    }
}

fn route(said: SaidRoute) -> Result<Route, ManifestError> {
    prefix(&said.prefix)?;
    let item = format!("route {}", said.prefix);
    count(&format!("{item}, methods"), said.methods.len(), MAX_METHODS)?;
    count(&format!("{item}, headers"), said.headers.len(), MAX_HEADERS)?;
    let methods = said
        .methods
        .iter()
        .map(|method| parse_method(&item, method))
        .collect::<Result<Vec<_>, _>>()?;
    let token = match said.token_headers {
        None => TokenPlace::Anywhere,
        Some(names) => {
            count(&format!("{item}, token"), names.len(), MAX_HEADERS)?;
            TokenPlace::Headers(
                names
                    .iter()
                    .map(|name| token_header(&item, name))
                    .collect::<Result<_, _>>()?,
            )
        }
    };
    let headers = said
        .headers
        .iter()
        .map(|name| shown_header(&item, name, &token))
        .collect::<Result<_, _>>()?;
    if said.body > MAX_BODY {
        return Err(wrong(
            format!("{item}, body"),
            format!("ask for at most {MAX_BODY} bytes, or for 0 and let it stream"),
        ));
    }
    if said.public && said.body > 0 {
        return Err(wrong(
            format!("{item}, body"),
            "a public route reads no body: nobody could be held to a limit; leave body at 0",
        ));
    }
    if said.public && said.payer_of.is_some() {
        return Err(wrong(
            format!("{item}, payer-of"),
            "a public route spends nothing; leave payer-of out, or public",
        ));
    }
    let payer_of = said
        .payer_of
        .as_deref()
        .map(UpstreamName::parse)
        .transpose()
        .map_err(|error| wrong(format!("{item}, payer-of"), error))?;
    Ok(Route {
        methods,
        prefix: said.prefix,
        public: said.public,
        token,
        inputs: Inputs {
            query: said.query,
            headers,
            body: usize::try_from(said.body)
                .map_err(|error| wrong(format!("{item}, body"), error))?,
            time: said.time,
            settings: said.settings,
        },
        payer_of,
    })
}

fn parse_method(item: &str, text: &str) -> Result<Method, ManifestError> {
    let error = || {
        wrong(
            format!("{item}, method {}", shown(text)),
            "write a method in upper case, such as POST; CONNECT and TRACE cannot be served",
        )
    };
    let method = Method::from_bytes(text.as_bytes()).map_err(|_| error())?;
    let upper = text.bytes().all(|byte| !byte.is_ascii_lowercase());
    if !upper || text.len() > 32 || method == Method::CONNECT || method == Method::TRACE {
        return Err(error());
    }
    Ok(method)
}

fn prefix(text: &str) -> Result<(), ManifestError> {
    let segment_fits = |segment: &str| {
        !matches!(segment, "" | "." | "..")
            && segment
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    };
    let fits = text.len() <= MAX_PREFIX
        && text
            .strip_prefix('/')
            .is_some_and(|rest| rest.split('/').all(segment_fits));
    if fits {
        return Ok(());
    }
    Err(wrong(
        format!("prefix {}", shown(text)),
        "write whole literal segments such as /vendor/api: letters, digits and -._~, no dot \
         segment, no percent-encoding, no slash at the end",
    ))
}

fn literal_path(text: &str) -> Result<(), ManifestError> {
    let segment_fits = |segment: &str| {
        !matches!(segment, "." | "..")
            && segment
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte))
    };
    let fits = text.len() <= MAX_PATH
        && !text.contains("//")
        && text
            .strip_prefix('/')
            .is_some_and(|rest| rest.split('/').all(segment_fits));
    if fits {
        return Ok(());
    }
    Err(wrong(
        format!("path {}", shown(text)),
        "write a path such as /v1/items: it starts with a slash and holds no dot segment, no \
         empty segment, no percent-encoding and no query",
    ))
}

fn token_header(item: &str, text: &str) -> Result<HeaderName, ManifestError> {
    let name = header_name(&format!("{item}, token"), text)?;
    let spoken_by_host = matches!(
        name.as_str(),
        "host"
            | "content-length"
            | "transfer-encoding"
            | "connection"
            | "te"
            | "trailer"
            | "upgrade"
            | "keep-alive"
            | "expect"
            | "cookie"
            | "set-cookie"
    );
    if spoken_by_host || is_ours(&name) {
        return Err(wrong(
            format!("{item}, token header {name}"),
            "a token cannot stand in a framing, hop-by-hop or cookie header, nor in one of the \
             broker's own",
        ));
    }
    Ok(name)
}

fn shown_header(item: &str, text: &str, token: &TokenPlace) -> Result<HeaderName, ManifestError> {
    let name = header_name(&format!("{item}, headers"), text)?;
    let credential = matches!(
        name.as_str(),
        "authorization" | "proxy-authorization" | "cookie" | "set-cookie"
    );
    let holds_token = match token {
        TokenPlace::Headers(names) => names.contains(&name),
        TokenPlace::Anywhere => false,
    };
    if credential || holds_token || is_ours(&name) {
        return Err(wrong(
            format!("{item}, header {name}"),
            "a plugin is not shown credentials, cookies or the broker's own headers; leave it out",
        ));
    }
    Ok(name)
}

/// Whether a header is spoken between a box and its broker alone.
fn is_ours(name: &HeaderName) -> bool {
    name.as_str().starts_with("chant-")
}

fn header_name(item: &str, text: &str) -> Result<HeaderName, ManifestError> {
    if text.len() > 128 {
        return Err(wrong(item, "a header name has at most 128 bytes"));
    }
    HeaderName::from_bytes(text.as_bytes())
        .map_err(|_| wrong(item, format!("{} is not a header name", shown(text))))
}

fn word(said: SaidWord) -> Result<Word, ManifestError> {
    let item = format!("word {}", shown(&said.name));
    text(&format!("{item}, description"), &said.description)?;
    count(&format!("{item}, reaches"), said.reaches.len(), MAX_REACHES)?;
    let name = if said.name == OPEN_WORD {
        WordName::AnySecret
    } else {
        if !is_plain(&said.name) || said.name.contains(['<', '>']) {
            return Err(wrong(
                &item,
                format!("a word holds no control character, < or >; the open set is {OPEN_WORD}"),
            ));
        }
        WordName::Literal(ScopeWord::parse(&said.name).map_err(|error| wrong(&item, error))?)
    };
    let reaches = said
        .reaches
        .iter()
        .map(|target| reach(&item, &name, target))
        .collect::<Result<_, _>>()?;
    Ok(Word {
        name,
        description: said.description,
        reaches,
    })
}

fn reach(item: &str, word: &WordName, target: &SaidTarget) -> Result<Reach, ManifestError> {
    match target {
        SaidTarget::Upstream(name) => UpstreamName::parse(name)
            .map(Reach::Upstream)
            .map_err(|error| wrong(item, error)),
        SaidTarget::Secret(name) if name == OPEN_WORD => match word {
            WordName::AnySecret => Ok(Reach::SecretOfThatName),
            WordName::Literal(_) => Err(wrong(
                item,
                format!(
                    "only the word {OPEN_WORD} reaches the secret {OPEN_WORD}; name one secret"
                ),
            )),
        },
        SaidTarget::Secret(name) => SecretName::parse(name)
            .map(Reach::Secret)
            .map_err(|error| wrong(item, error)),
    }
}

fn unambiguous(routes: &[Route]) -> Result<(), ManifestError> {
    for (index, route) in routes.iter().enumerate() {
        let same = routes.iter().skip(index + 1).find(|other| {
            other.prefix == route.prefix
                && (route.methods.is_empty()
                    || other.methods.is_empty()
                    || route
                        .methods
                        .iter()
                        .any(|each| other.methods.contains(each)))
        });
        if same.is_some() {
            return Err(wrong(
                format!("route {}", route.prefix),
                "it is listed twice for the same method; make one route of it",
            ));
        }
    }
    Ok(())
}

fn unique(words: &[Word]) -> Result<(), ManifestError> {
    let mut seen = BTreeSet::new();
    for word in words {
        let name = word.name.as_str();
        if !seen.insert(name) {
            return Err(wrong(
                format!("word {}", shown(name)),
                "it is listed twice; make one word of it",
            ));
        }
    }
    Ok(())
}

fn payers_are_reached(routes: &[Route], words: &[Word]) -> Result<(), ManifestError> {
    for payer in routes.iter().filter_map(|route| route.payer_of.as_ref()) {
        let reached = words
            .iter()
            .flat_map(|word| &word.reaches)
            .any(|reach| match reach {
                Reach::Upstream(name) => name == payer,
                Reach::Secret(_) | Reach::SecretOfThatName => false,
            });
        if !reached {
            return Err(wrong(
                format!("payer-of {payer}"),
                "no word reaches that upstream; let a word reach it, or leave payer-of out",
            ));
        }
    }
    Ok(())
}

fn limits(wanted: WantedLimits) -> Result<(), ManifestError> {
    let at_most = |item: &str, value: u32, most: u32| {
        if value <= most {
            return Ok(());
        }
        Err(wrong(
            format!("limit {item}"),
            format!("ask for at most {most}, or for 0 and leave it to the host"),
        ))
    };
    at_most("time-ms", wanted.time_ms, MAX_TIME_MS)?;
    at_most("memory-bytes", wanted.memory_bytes, MAX_MEMORY)?;
    at_most("rounds", wanted.rounds, MAX_ROUNDS)?;
    at_most("calls", wanted.calls, MOST_CALLS)
}

fn text(item: &str, text: &str) -> Result<(), ManifestError> {
    if text.chars().count() <= MAX_TEXT && is_plain(text) {
        return Ok(());
    }
    Err(wrong(
        item,
        format!("write one line of at most {MAX_TEXT} characters, without control characters"),
    ))
}

/// Whether a terminal shows a text as it is: no control character, and none
/// that turns the direction of what follows or hides itself.
fn is_plain(text: &str) -> bool {
    text.chars().all(|each| {
        !each.is_control()
            && !matches!(
                each,
                '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                    | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
            )
    })
}

fn count(item: &str, count: usize, most: usize) -> Result<(), ManifestError> {
    if count <= most {
        return Ok(());
    }
    Err(wrong(item, format!("list at most {most}, not {count}")))
}

/// A plugin's text for an error that people read: cut and escaped.
fn shown(text: &str) -> String {
    let cut: String = text.chars().take(80).collect();
    format!("{cut:?}")
}

fn wrong(item: impl Into<String>, reason: impl ToString) -> ManifestError {
    ManifestError {
        item: item.into(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests;
