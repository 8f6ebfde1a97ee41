//! `[upstreams]`: where each is, and the one that is there by itself.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;

use crate::config::Upstream;
use crate::config::check::{fault, path};
use crate::config::error::Fault;
use crate::config::raw::RawUpstream;
use crate::rules::names::UpstreamName;
use crate::rules::origin::Origin;

const DEFAULT_UPSTREAMS: [(&str, &str); 1] = [("anthropic", "https://api.anthropic.com")];

pub(super) fn check(
    raw: &BTreeMap<Spanned<String>, RawUpstream>,
    base: &Path,
) -> Result<BTreeMap<UpstreamName, Upstream>, Fault> {
    let mut upstreams = BTreeMap::new();
    for (name, entry) in raw {
        let key =
            UpstreamName::parse(name.get_ref()).map_err(|error| fault(name, error.to_string()))?;
        let default = DEFAULT_UPSTREAMS
            .iter()
            .find(|(known, _)| *known == key.as_str())
            .map(|(_, url)| Spanned::new(name.span(), (*url).to_owned()));
        let Some(placed) = entry.url.clone().or(default) else {
            return Err(fault(name, format!("[upstreams.{key}] needs a `url`")));
        };
        let (origin, base_path) = url("url", &placed)?;
        let extra_ca = entry
            .extra_ca
            .as_ref()
            .map(|file| path(file, base))
            .transpose()?;
        upstreams.insert(
            key,
            Upstream {
                origin,
                base_path,
                allow_private: entry.allow_private,
                extra_ca,
            },
        );
    }
    for (name, text) in DEFAULT_UPSTREAMS {
        let internal = |message: String| Fault {
            span: None,
            message,
        };
        let key = UpstreamName::parse(name).map_err(|error| internal(error.to_string()))?;
        let origin = Origin::parse(text).map_err(|error| internal(error.to_string()))?;
        upstreams.entry(key).or_insert_with(|| Upstream {
            origin,
            base_path: String::new(),
            allow_private: false,
            extra_ca: None,
        });
    }
    Ok(upstreams)
}

/// An origin and a base path with no slash at its end.
pub(super) fn url(key: &str, placed: &Spanned<String>) -> Result<(Origin, String), Fault> {
    let text = placed.get_ref();
    if !text.contains("://") {
        return Err(fault(
            placed,
            format!("{key} must start with http:// or https://, not {text:?}"),
        ));
    }
    // Said without the text: what stands before the `@` may be a password.
    if text.contains('@') {
        return Err(fault(
            placed,
            format!(
                "{key} must hold no user and no password; `jackfield credential set` takes credentials"
            ),
        ));
    }
    let (origin, rest) =
        Origin::parse_prefix(text).map_err(|error| fault(placed, format!("{key}: {error}")))?;
    let base_path = rest.trim_end_matches('/');
    let plain = base_path
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte));
    let segments = base_path.split('/').skip(1);
    if !plain
        || segments
            .clone()
            .any(|segment| matches!(segment, "" | "." | ".."))
    {
        return Err(fault(
            placed,
            format!(
                "{key} may hold a plain path after the host, and no query, fragment, escape or dot segment"
            ),
        ));
    }
    Ok((origin, base_path.to_owned()))
}
