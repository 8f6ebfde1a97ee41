//! `[env]`: what `box env` prints.

use std::collections::BTreeMap;

use toml::Spanned;

use crate::config::check::fault;
use crate::config::error::Fault;

const DEFAULT_ENV: [(&str, &str); 4] = [
    ("STUDIO_URL", "{public_url}"),
    ("ANTHROPIC_BASE_URL", "{public_url}/llm/anthropic"),
    ("{NAME}_KEY", "{token}"),
    ("{NAME}_BASE_URL", "{public_url}/egress/{NAME}"),
];

/// The defaults, overlaid with what the operator wrote; an empty value takes a
/// variable away.
pub(super) fn check(
    raw: BTreeMap<Spanned<String>, Spanned<String>>,
) -> Result<BTreeMap<String, String>, Fault> {
    let mut env: BTreeMap<String, String> = DEFAULT_ENV
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    for (name, value) in raw {
        let bare = name.get_ref().replace("{NAME}", "N");
        let fits = bare.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && bare.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !fits {
            return Err(fault(
                &name,
                format!(
                    "{:?} is not a variable's name: letters, digits, _ and {{NAME}}",
                    name.get_ref()
                ),
            ));
        }
        let per_secret = name.get_ref().contains("{NAME}");
        let mut rest = value
            .get_ref()
            .replace("{public_url}", "")
            .replace("{token}", "");
        if per_secret {
            rest = rest.replace("{NAME}", "");
        }
        if rest.contains(['{', '}']) || rest.chars().any(char::is_control) {
            let also = if per_secret { " and {NAME}" } else { "" };
            return Err(fault(
                &value,
                format!(
                    "a variable's value may hold {{public_url}}, {{token}}{also}, and no other brace or control character"
                ),
            ));
        }
        if value.get_ref().is_empty() {
            env.remove(name.get_ref());
        } else {
            env.insert(name.into_inner(), value.into_inner());
        }
    }
    Ok(env)
}
