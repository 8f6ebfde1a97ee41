//! What a plugin may do: its manifest in words for people, and the operator's
//! grant that narrows it. An act needs both.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::rules::manifest::{Manifest, OPEN_WORD, Reach, TokenPlace, Uses, WordName};
use crate::rules::names::{ScopeWord, SecretName, ThingKind, UpstreamName};
use crate::rules::plan::Target;

/// One thing that a plugin may do. Its text is what an operator approves. Of
/// these a `[plugins.NAME] grant` narrows upstreams, secrets, keep, journal,
/// kinds of things and public routes; it may also list places of the token, paths and payers, and
/// narrows none of them by leaving them out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// `upstream:NAME`: send requests to that upstream.
    Upstream(UpstreamName),
    /// `secret:NAME`: send requests to the host of that secret of a box.
    Secret(SecretName),
    /// `secret:<NAME>`: to the host of any secret of a box.
    AnySecret,
    /// `keep`: read and write its keep.
    Keep,
    /// `journal`: write to the journal.
    Journal,
    /// `owned:KIND`: ask what of that kind a box owns, and record more.
    Owned(ThingKind),
    /// `public:PREFIX`: answer there without a token.
    Public(String),
    /// `route:PREFIX`: be asked about requests there.
    Route(String),
    /// `sees:PREFIX:WHAT`: be shown more of them than method and path.
    Sees(String, Sight),
    /// `token-anywhere:PREFIX`: a box's token may stand anywhere in a request
    /// there, and cookies pass.
    TokenAnywhere(String),
    /// `path:PATH`: send requests to that path, whatever path was asked for.
    Path(String),
    /// `payer:PREFIX:UPSTREAM`: have boxes told who pays for that upstream.
    Payer(String, UpstreamName),
    /// `word:WORD:TARGET`: what a declared word opens.
    Word(String, String),
}

/// What a plugin is shown of a request beside method and path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    /// The query.
    Query,
    /// The body.
    Body,
    /// The time.
    Time,
    /// The operator's settings.
    Settings,
    /// A header.
    Header(String),
}

/// Why a text is not a permission that can be granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot be granted: write upstream:NAME, secret:NAME, secret:<NAME>, keep, journal, owned:KIND, \
     public:/PREFIX, token-anywhere:/PREFIX, path:/PATH or payer:/PREFIX:UPSTREAM"
)]
pub struct PermissionError(String);

impl Permission {
    /// Reads what an operator writes into a grant.
    ///
    /// # Errors
    /// When the text is none of the permissions that a grant may list.
    pub fn parse(text: &str) -> Result<Self, PermissionError> {
        let error = || PermissionError(text.chars().take(80).collect());
        match text.split_once(':') {
            None if text == "keep" => Ok(Self::Keep),
            None if text == "journal" => Ok(Self::Journal),
            Some(("upstream", name)) => UpstreamName::parse(name)
                .map(Self::Upstream)
                .map_err(|_| error()),
            Some(("secret", OPEN_WORD)) => Ok(Self::AnySecret),
            Some(("secret", name)) => SecretName::parse(name)
                .map(Self::Secret)
                .map_err(|_| error()),
            Some(("owned", kind)) => ThingKind::parse(kind).map(Self::Owned).map_err(|_| error()),
            Some(("public", prefix)) if prefix.starts_with('/') => {
                Ok(Self::Public(prefix.to_owned()))
            }
            Some(("token-anywhere", prefix)) if prefix.starts_with('/') => {
                Ok(Self::TokenAnywhere(prefix.to_owned()))
            }
            Some(("path", path)) if path.starts_with('/') => Ok(Self::Path(path.to_owned())),
            // No prefix holds a colon.
            Some(("payer", rest)) if rest.starts_with('/') => rest
                .split_once(':')
                .and_then(|(prefix, name)| Some((prefix, UpstreamName::parse(name).ok()?)))
                .map(|(prefix, name)| Self::Payer(prefix.to_owned(), name))
                .ok_or_else(error),
            Some(_) | None => Err(error()),
        }
    }

    /// Everything that a manifest asks for.
    #[must_use]
    pub fn of(manifest: &Manifest) -> BTreeSet<Self> {
        let mut all = BTreeSet::new();
        for word in &manifest.words {
            for reach in &word.reaches {
                let permission = Self::to(reach);
                all.insert(Self::Word(
                    word.name.as_str().to_owned(),
                    permission.to_string(),
                ));
                all.insert(permission);
            }
        }
        for route in &manifest.routes {
            all.insert(Self::Route(route.prefix.clone()));
            if route.public {
                all.insert(Self::Public(route.prefix.clone()));
            }
            match &route.token {
                TokenPlace::Anywhere => {
                    all.insert(Self::TokenAnywhere(route.prefix.clone()));
                }
                TokenPlace::Headers(_) => {}
            }
            if let Some(upstream) = &route.payer_of {
                all.insert(Self::Payer(route.prefix.clone(), upstream.clone()));
            }
            let headers = route.inputs.headers.iter();
            let sights = [
                (route.inputs.query, Sight::Query),
                (route.inputs.body > 0, Sight::Body),
                (route.inputs.time, Sight::Time),
                (route.inputs.settings, Sight::Settings),
            ]
            .into_iter()
            .filter_map(|(shown, sight)| shown.then_some(sight))
            .chain(headers.map(|name| Sight::Header(name.as_str().to_owned())));
            all.extend(sights.map(|sight| Self::Sees(route.prefix.clone(), sight)));
        }
        all.extend(manifest.paths.iter().cloned().map(Self::Path));
        if manifest.uses.keep {
            all.insert(Self::Keep);
        }
        if manifest.uses.journal {
            all.insert(Self::Journal);
        }
        all.extend(manifest.uses.owned_kinds.iter().cloned().map(Self::Owned));
        all
    }

    fn to(reach: &Reach) -> Self {
        match reach {
            Reach::Upstream(name) => Self::Upstream(name.clone()),
            Reach::Secret(name) => Self::Secret(name.clone()),
            Reach::SecretOfThatName => Self::AnySecret,
        }
    }

    /// What it means, for somebody who decides whether to approve it.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Upstream(name) => {
                format!("send requests, with its credentials, to the upstream {name}")
            }
            Self::Secret(name) => {
                format!("send requests, with its value, to the host of a box's secret {name}")
            }
            Self::AnySecret => {
                "send requests, with its value, to the host of any secret of a box".to_owned()
            }
            Self::Keep => "keep values for each box".to_owned(),
            Self::Journal => "write records to the journal".to_owned(),
            Self::Owned(kind) => {
                format!("ask which {kind} a box owns, and record new {kind} as a box's own")
            }
            Self::Public(prefix) => format!("answer {prefix} without a token"),
            Self::Route(prefix) => format!("be asked about requests under {prefix}"),
            Self::Sees(prefix, sight) => format!("see {sight} of requests under {prefix}"),
            Self::TokenAnywhere(prefix) => format!(
                "find a box's token anywhere in requests under {prefix}, where cookies pass, too"
            ),
            Self::Path(path) => {
                format!("send requests to the path {path}, whatever path they asked for")
            }
            Self::Payer(prefix, upstream) => {
                format!(
                    "have boxes told, under {prefix}, who pays for the upstream {upstream}; a \
                     paused box is refused there"
                )
            }
            Self::Word(word, target) => format!("the word {word} opens {target}"),
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upstream(name) => write!(formatter, "upstream:{name}"),
            Self::Secret(name) => write!(formatter, "secret:{name}"),
            Self::AnySecret => write!(formatter, "secret:{OPEN_WORD}"),
            Self::Keep => formatter.write_str("keep"),
            Self::Journal => formatter.write_str("journal"),
            Self::Owned(kind) => write!(formatter, "owned:{kind}"),
            Self::Public(prefix) => write!(formatter, "public:{prefix}"),
            Self::Route(prefix) => write!(formatter, "route:{prefix}"),
            Self::Sees(prefix, sight) => write!(formatter, "sees:{prefix}:{sight}"),
            Self::TokenAnywhere(prefix) => write!(formatter, "token-anywhere:{prefix}"),
            Self::Path(path) => write!(formatter, "path:{path}"),
            Self::Payer(prefix, upstream) => write!(formatter, "payer:{prefix}:{upstream}"),
            Self::Word(word, target) => write!(formatter, "word:{word}:{target}"),
        }
    }
}

impl fmt::Display for Sight {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Query => formatter.write_str("query"),
            Self::Body => formatter.write_str("body"),
            Self::Time => formatter.write_str("time"),
            Self::Settings => formatter.write_str("settings"),
            Self::Header(name) => write!(formatter, "header {name}"),
        }
    }
}

/// What of `wanted` is more than `approved`, as texts: a plugin's next version
/// waits for the operator when this is not empty.
#[must_use]
pub fn more_than(approved: &BTreeSet<String>, wanted: &BTreeSet<Permission>) -> Vec<Permission> {
    wanted
        .iter()
        .filter(|permission| !approved.contains(&permission.to_string()))
        .cloned()
        .collect()
}

/// What a plugin may really do: its approved manifest, narrowed by the
/// operator's grant. No grant narrows nothing.
#[derive(Debug, Clone)]
pub struct Grants {
    manifest: Arc<Manifest>,
    narrowed: Option<BTreeSet<Permission>>,
}

impl Grants {
    /// The grants of a plugin whose manifest, with all its permissions, has
    /// been approved.
    #[must_use]
    pub fn new(approved: Arc<Manifest>, grant: Option<BTreeSet<Permission>>) -> Self {
        Self {
            manifest: approved,
            narrowed: grant,
        }
    }

    /// The targets that a declared word opens; none for a word that the
    /// manifest does not hold.
    #[must_use]
    pub fn reached(&self, word: &ScopeWord) -> Vec<Target> {
        let words = &self.manifest.words;
        let named = |name: &WordName| words.iter().find(|each| each.name == *name);
        let secret = SecretName::parse(word.as_str()).ok();
        let open = || secret.as_ref().and_then(|_| named(&WordName::AnySecret));
        let Some(entry) = named(&WordName::Literal(word.clone())).or_else(open) else {
            return Vec::new();
        };
        let opened = entry.reaches.iter().filter_map(|reach| match reach {
            Reach::Upstream(name) => Some(Target::Upstream(name.clone())),
            Reach::Secret(name) => Some(Target::Secret(name.clone())),
            Reach::SecretOfThatName => secret.clone().map(Target::Secret),
        });
        opened
            .filter(|target| match target {
                Target::Upstream(name) => self.allows(&Permission::Upstream(name.clone())),
                Target::Secret(name) => {
                    self.allows(&Permission::Secret(name.clone()))
                        || self.allows(&Permission::AnySecret)
                }
            })
            .collect()
    }

    /// What it may use beside its routes.
    #[must_use]
    pub fn uses(&self) -> Uses {
        let asked = &self.manifest.uses;
        let kinds = asked.owned_kinds.iter();
        Uses {
            keep: asked.keep && self.allows(&Permission::Keep),
            journal: asked.journal && self.allows(&Permission::Journal),
            owned_kinds: kinds
                .filter(|kind| self.allows(&Permission::Owned((*kind).clone())))
                .cloned()
                .collect(),
        }
    }

    /// Whether it may serve this prefix of its manifest without a token.
    #[must_use]
    pub fn public(&self, prefix: &str) -> bool {
        let declared = self
            .manifest
            .routes
            .iter()
            .any(|route| route.public && route.prefix == prefix);
        declared && self.allows(&Permission::Public(prefix.to_owned()))
    }

    /// What the operator granted that the manifest does not ask for: most
    /// likely misspelled.
    #[must_use]
    pub fn unused(&self) -> Vec<Permission> {
        let wanted = Permission::of(&self.manifest);
        let any_secret = wanted.contains(&Permission::AnySecret);
        self.narrowed
            .iter()
            .flatten()
            .filter(|permission| {
                let one_of_any = any_secret && matches!(permission, Permission::Secret(_));
                !one_of_any && !wanted.contains(*permission)
            })
            .cloned()
            .collect()
    }

    fn allows(&self, permission: &Permission) -> bool {
        self.narrowed
            .as_ref()
            .is_none_or(|granted| granted.contains(permission))
    }
}

#[cfg(test)]
mod tests;
