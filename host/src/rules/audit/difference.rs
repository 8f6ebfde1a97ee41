//! What a version may do and does that another one does not, in words.

use std::collections::BTreeSet;

use crate::rules::manifest::{Manifest, Route};
use crate::rules::permission::Permission;

/// Whether something came or went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The new version has it and the old one has not.
    Gains,
    /// The other way round.
    Loses,
}

impl Change {
    /// The word in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Gains => "gains",
            Self::Loses => "loses",
        }
    }
}

/// One difference in what two versions may do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// Which way.
    pub change: Change,
    /// What, as a permission or a line of the manifest is written.
    pub what: String,
    /// What that means.
    pub means: String,
}

/// What changed in permissions, routes, words, limits and imports.
#[must_use]
pub fn permissions(old: (&Manifest, &[String]), new: (&Manifest, &[String])) -> Vec<Difference> {
    let before = facts(old.0, old.1);
    let after = facts(new.0, new.1);
    let one_way =
        |change, of: &BTreeSet<(String, String)>, without: &BTreeSet<(String, String)>| {
            of.difference(without)
                .map(|(what, means)| Difference {
                    change,
                    what: what.clone(),
                    means: means.clone(),
                })
                .collect::<Vec<_>>()
        };
    let mut differences = one_way(Change::Gains, &after, &before);
    differences.extend(one_way(Change::Loses, &before, &after));
    differences
}

fn facts(manifest: &Manifest, imports: &[String]) -> BTreeSet<(String, String)> {
    let permissions = Permission::of(manifest);
    let mut facts: BTreeSet<(String, String)> = permissions
        .iter()
        .map(|permission| (permission.to_string(), permission.describe()))
        .collect();
    for route in &manifest.routes {
        facts.insert(methods(route));
        if route.inputs.body > 0 {
            let what = format!("body:{}:{}", route.prefix, route.inputs.body);
            let means = format!(
                "read bodies under {} of up to {} bytes",
                route.prefix, route.inputs.body
            );
            facts.insert((what, means));
        }
    }
    for word in &manifest.words {
        let name = word.name.as_str();
        facts.insert((
            format!("word:{name}"),
            format!("know the scope word {name}"),
        ));
    }
    let limits = manifest.limits;
    for (name, value) in [
        ("time-ms", limits.time_ms),
        ("memory-bytes", limits.memory_bytes),
        ("rounds", limits.rounds),
        ("calls", limits.calls),
    ] {
        let value = match value {
            0 => "the host's own".to_owned(),
            value => value.to_string(),
        };
        facts.insert((
            format!("limit:{name}:{value}"),
            format!("ask for this limit: {name} {value}"),
        ));
    }
    for import in imports {
        let means = super::imports::means(import);
        facts.insert((format!("import:{import}"), means.to_owned()));
    }
    let capability = &manifest.capability;
    facts.insert((
        format!("capability:{capability}"),
        format!("serve boxes that declare {capability}"),
    ));
    facts
}

fn methods(route: &Route) -> (String, String) {
    let names: BTreeSet<&str> = route.methods.iter().map(http::Method::as_str).collect();
    let names = match names.len() {
        0 => "any method".to_owned(),
        _ => Vec::from_iter(names).join(", "),
    };
    (
        format!("methods:{}:{names}", route.prefix),
        format!("serve {names} under {}", route.prefix),
    )
}

/// A request that two versions decide differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apart {
    /// The request.
    pub request: String,
    /// What the old version does with it.
    pub old: String,
    /// And the new one.
    pub new: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::manifest_check::{SaidManifest, SaidRoute, SaidWord};
    use crate::rules::plan::SaidTarget;

    fn manifest(methods: &[&str], reaches: &[&str]) -> Manifest {
        let reaches = reaches
            .iter()
            .map(|name| SaidTarget::Upstream((*name).to_owned()));
        Manifest::check(SaidManifest {
            name: "p".to_owned(),
            version: "1.0.0".to_owned(),
            capability: "p".to_owned(),
            routes: vec![SaidRoute {
                prefix: "/p".to_owned(),
                methods: methods.iter().map(|each| (*each).to_owned()).collect(),
                token_headers: Some(Vec::new()),
                ..SaidRoute::default()
            }],
            words: vec![SaidWord {
                name: "tell".to_owned(),
                reaches: reaches.collect(),
                ..SaidWord::default()
            }],
            ..SaidManifest::default()
        })
        .unwrap()
    }

    #[test]
    fn what_is_gained_and_lost_is_told_apart() {
        let old = manifest(&["GET"], &["one"]);
        let new = manifest(&["GET", "POST"], &["one", "two"]);
        let none: &[String] = &[];
        let imports = ["wasi:cli/exit@0.2.0".to_owned()];
        assert_eq!(permissions((&old, none), (&old, none)), []);
        let told: Vec<String> = permissions((&old, none), (&new, &imports))
            .iter()
            .map(|each| format!("{} {}", each.change.word(), each.what))
            .collect();
        assert_eq!(
            told,
            [
                "gains import:wasi:cli/exit@0.2.0",
                "gains methods:/p:GET, POST",
                "gains upstream:two",
                "gains word:tell:upstream:two",
                "loses methods:/p:GET",
            ]
        );
    }
}
