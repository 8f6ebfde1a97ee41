//! The world that a test describes, in the host's own types: which route a
//! request takes, what of it a plugin is shown, what its words lead to.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::plugins::alone::wire::Ask;
use crate::rules::declaration::{Declaration, Entry};
use crate::rules::headers::plugin_may_see;
use crate::rules::identify;
use crate::rules::manifest::{Manifest, Route, TokenPlace};
use crate::rules::names::{BoxName, CredentialName, ScopeWord, SecretName, UpstreamName};
use crate::rules::paths;
use crate::rules::payer::{Payer, PayerKind};
use crate::rules::plan::{CredentialKey, CredentialKind, Offer, ShownRequest, Target};

/// A request and its world, read.
pub(super) struct Set {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) box_name: BoxName,
    pub(super) declaration: Declaration,
    headers: HeaderMap,
    body: Bytes,
    time: u64,
    settings: String,
    upstreams: Vec<(UpstreamName, Option<CredentialKind>)>,
    secrets: Vec<SecretName>,
}

const KINDS: [CredentialKind; 3] = [
    CredentialKind::ApiKey,
    CredentialKind::SetupToken,
    CredentialKind::Bearer,
];

impl Set {
    /// Reads what a test describes.
    ///
    /// # Errors
    /// Says what of it no host could be like.
    pub(super) fn read(ask: &Ask, manifest: &Manifest) -> Result<Self, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let method = Method::from_bytes(ask.method.as_bytes())
            .map_err(|_| format!("{:?} is no method", ask.method))?;
        let (path, query) = match ask.path.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (ask.path.as_str(), None),
        };
        if !path.starts_with('/') {
            return Err(format!("the path {path:?} does not begin with a slash"));
        }
        let settings: serde_json::Value = serde_json::from_str(&ask.settings)
            .map_err(|cause| format!("the settings are not JSON: {cause}"))?;
        if !settings.is_object() {
            return Err("the settings must be a JSON object".to_owned());
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &ask.headers {
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| format!("{name:?} is no header's name"))?;
            let value = HeaderValue::from_str(value)
                .map_err(|_| format!("the value of the header {name} cannot be sent"))?;
            headers.append(name, value);
        }
        let words = ask.declared.iter().map(|word| ScopeWord::parse(word));
        let entry = Entry {
            name: manifest.capability.clone(),
            words: words
                .collect::<Result<_, _>>()
                .map_err(|error| text(&error))?,
        };
        let upstream = |asked: &super::wire::Upstream| {
            let name = UpstreamName::parse(&asked.name).map_err(|error| text(&error))?;
            let kind = match &asked.kind {
                None => None,
                Some(word) => Some(kind(word)?),
            };
            Ok((name, kind))
        };
        let secrets = ask.secrets.iter().map(|name| SecretName::parse(name));
        Ok(Self {
            method,
            path: path.to_owned(),
            query,
            box_name: BoxName::parse(&ask.box_name).map_err(|error| text(&error))?,
            declaration: Declaration {
                entries: vec![entry],
                listing: None,
                spend: None,
            },
            headers,
            body: Bytes::from(ask.body.clone()),
            time: ask.time,
            settings: ask.settings.clone(),
            upstreams: ask
                .upstreams
                .iter()
                .map(upstream)
                .collect::<Result<_, String>>()?,
            secrets: secrets
                .collect::<Result<_, _>>()
                .map_err(|error| text(&error))?,
        })
    }

    /// The route that the request takes, and its path after the prefix: the
    /// longest prefix that takes the method, as the host's own table finds it.
    pub(super) fn route<'a>(&'a self, manifest: &'a Manifest) -> Option<(&'a Route, &'a str)> {
        let routes = manifest.routes.iter();
        let under =
            routes.filter_map(|route| Some((route, paths::tail(&self.path, &route.prefix)?)));
        under
            .filter(|(route, _)| route.methods.is_empty() || route.methods.contains(&self.method))
            .max_by_key(|(route, _)| route.prefix.len())
    }

    /// What a plugin is shown; none when the body is larger than it asks for.
    pub(super) fn shown(&self, route: &Route, tail: &str) -> Option<ShownRequest> {
        let inputs = &route.inputs;
        if inputs.body > 0 && self.body.len() > inputs.body {
            return None;
        }
        let hidden = hidden(route);
        let seen = inputs.headers.iter();
        let seen: Vec<HeaderName> = seen
            .filter(|name| plugin_may_see(name, &hidden))
            .cloned()
            .collect();
        let query = self.query.as_deref().filter(|_| inputs.query);
        Some(ShownRequest {
            method: self.method.clone(),
            prefix: route.prefix.clone(),
            path: tail.to_owned(),
            query: query.map(identify::mask_query),
            headers: identify::without_tokens(&self.headers, &seen),
            body: (inputs.body > 0).then(|| self.body.clone()),
            time: inputs.time.then_some(self.time),
            settings: inputs.settings.then(|| self.settings.clone()),
        })
    }

    /// Of these targets, those that lead somewhere here.
    pub(super) fn leading(&self, reachable: &[Target]) -> Vec<Target> {
        let leads = |target: &&Target| match target {
            Target::Upstream(name) => self.upstreams.iter().any(|(known, _)| known == name),
            Target::Secret(name) => self.secrets.contains(name),
        };
        reachable.iter().filter(leads).cloned().collect()
    }

    /// The credentials on offer for these targets, named as the host names
    /// them.
    pub(super) fn offers(&self, reachable: &[Target]) -> Vec<Offer> {
        reachable
            .iter()
            .filter_map(|target| self.offer(target))
            .collect()
    }

    fn offer(&self, target: &Target) -> Option<Offer> {
        match target {
            Target::Upstream(upstream) => {
                let (_, kind) = self.upstreams.iter().find(|(known, _)| known == upstream)?;
                let name = CredentialName::parse("general").ok()?;
                Some(Offer {
                    name: format!("upstream/{upstream}/{name}"),
                    target: target.clone(),
                    kind: (*kind)?,
                    payer: Some(Payer {
                        kind: PayerKind::Shared,
                        principal: None,
                    }),
                    key: CredentialKey::Credential {
                        upstream: upstream.clone(),
                        name,
                    },
                })
            }
            Target::Secret(name) => self.secrets.contains(name).then(|| Offer {
                name: format!("secret/{name}"),
                target: target.clone(),
                kind: CredentialKind::Secret,
                payer: None,
                key: CredentialKey::Secret {
                    box_name: self.box_name.clone(),
                    name: name.clone(),
                },
            }),
        }
    }
}

/// The headers in which a box's token may stand on a route.
pub(super) fn hidden(route: &Route) -> Vec<HeaderName> {
    match &route.token {
        TokenPlace::Headers(names) => names.clone(),
        TokenPlace::Anywhere => Vec::new(),
    }
}

fn kind(word: &str) -> Result<CredentialKind, String> {
    let mut known = KINDS.into_iter();
    known.find(|kind| kind.as_str() == word).ok_or_else(|| {
        let known = KINDS.map(CredentialKind::as_str).join(", ");
        format!("{word:?} is no kind of credential; there are {known}")
    })
}
