//! The plugins that are live, and the rule that keeps their prefixes apart.

use std::sync::Arc;

use crate::plugins::error::LoadError;
use crate::plugins::hash::ComponentHash;
use crate::plugins::live::LivePlugin;
use crate::rules::manifest::Manifest;
use crate::rules::names::PluginName;

/// The live plugins, by name. A table never changes; a new one takes its place.
#[derive(Debug, Default, Clone)]
pub struct Table {
    plugins: Vec<Arc<LivePlugin>>,
}

impl Table {
    /// The plugins, in the order of their names.
    #[must_use]
    pub fn plugins(&self) -> &[Arc<LivePlugin>] {
        &self.plugins
    }

    /// The plugin of this name.
    #[must_use]
    pub fn find(&self, name: &PluginName) -> Option<&Arc<LivePlugin>> {
        self.plugins
            .iter()
            .find(|plugin| plugin.manifest().name == *name)
    }

    /// This table with one plugin more, in the place of the one of its name.
    pub(crate) fn with(&self, plugin: Arc<LivePlugin>) -> Self {
        let mut plugins: Vec<_> = self
            .plugins
            .iter()
            .filter(|other| other.manifest().name != plugin.manifest().name)
            .cloned()
            .collect();
        plugins.push(plugin);
        plugins.sort_by(|one, other| one.manifest().name.cmp(&other.manifest().name));
        Self { plugins }
    }

    /// This table without that component.
    pub(crate) fn without(&self, hash: &ComponentHash) -> Self {
        let others = self.plugins.iter().filter(|plugin| plugin.hash() != hash);
        Self {
            plugins: others.cloned().collect(),
        }
    }

    fn canaries(&self) -> impl Iterator<Item = &Manifest> {
        let canaries = self.plugins.iter().filter_map(|plugin| plugin.canary());
        canaries.map(|canary| canary.manifest())
    }

    /// Whether a manifest's prefixes are free: of the host's own, and of every
    /// other plugin's here.
    pub(crate) fn has_room_for(
        &self,
        manifest: &Manifest,
        reserved: &[String],
    ) -> Result<(), LoadError> {
        let others = self
            .plugins
            .iter()
            .map(|plugin| plugin.manifest())
            .chain(self.canaries())
            .filter(|other| other.name != manifest.name)
            .flat_map(|other| {
                let by = format!("the plugin {}", other.name);
                let prefixes = other.routes.iter().map(|route| route.prefix.as_str());
                prefixes.map(move |prefix| (prefix, by.clone()))
            });
        let own = reserved
            .iter()
            .map(|prefix| (prefix.as_str(), "the host itself".to_owned()));
        for (taken, by) in own.chain(others) {
            for route in &manifest.routes {
                if meet(&route.prefix, taken) {
                    return Err(LoadError::Prefix {
                        prefix: route.prefix.clone(),
                        taken: taken.to_owned(),
                        by,
                    });
                }
            }
        }
        Ok(())
    }
}

/// Whether one prefix equals, contains or lies under another, by whole
/// segments.
fn meet(one: &str, other: &str) -> bool {
    let under = |long: &str, short: &str| {
        long.strip_prefix(short.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    under(one, other) || under(other, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_meet_by_whole_segments() {
        let check = |one: &str, other: &str, expected: bool| {
            assert_eq!(meet(one, other), expected, "{one} {other}");
            assert_eq!(meet(other, one), expected, "{other} {one}");
        };
        check("/a", "/a", true);
        check("/a", "/a/b", true);
        check("/a/b", "/a/b/c/d", true);
        check("/a", "/ab", false);
        check("/a/b", "/a/c", false);
        check("/a", "/b", false);
        check("/a", "/a/", true);
        check("/", "/a", true);
    }
}
