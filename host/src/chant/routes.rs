//! Which plugin, or which route of the host's own, a request belongs to. It
//! knows prefixes and no capability.

use std::sync::Arc;

use http::Method;

use crate::plugins::LivePlugin;
use crate::rules::manifest::Route;
use crate::rules::paths;

/// Where boxes report their declaration.
pub const DECLARATION: &str = "/api/box/declaration";

/// The prefixes that no plugin may take.
pub const RESERVED: &[&str] = &["/api/box"];

/// What a path leads to.
pub enum Destination {
    /// The declaration's route.
    Declaration,
    /// A plugin's route.
    Plugin(PluginRoute),
    /// Nothing.
    Nowhere,
}

/// A plugin's route and what lies under it.
pub struct PluginRoute {
    /// The plugin.
    pub plugin: Arc<LivePlugin>,
    /// Which of its routes.
    index: usize,
    /// The path after the prefix.
    pub tail: String,
}

impl PluginRoute {
    /// The route that matched, in the plugin's manifest.
    #[must_use]
    #[expect(
        clippy::indexing_slicing,
        reason = "`find` counted it, and a manifest does not change"
    )]
    pub fn route(&self) -> &Route {
        &self.plugin.manifest().routes[self.index]
    }
}

/// Finds what a path leads to: the longest prefix that takes the method.
#[must_use]
pub fn find(plugins: &[Arc<LivePlugin>], method: &Method, path: &str) -> Destination {
    if path == DECLARATION {
        return Destination::Declaration;
    }
    let matched = plugins
        .iter()
        .flat_map(|plugin| {
            plugin
                .manifest()
                .routes
                .iter()
                .enumerate()
                .map(move |(index, route)| (plugin, index, route))
        })
        .filter(|(_, _, route)| route.methods.is_empty() || route.methods.contains(method))
        .filter_map(|(plugin, index, route)| {
            let tail = paths::tail(path, &route.prefix)?;
            Some((plugin, index, tail, route.prefix.len()))
        })
        .max_by_key(|(.., length)| *length);
    match matched {
        Some((plugin, index, tail, _)) => Destination::Plugin(PluginRoute {
            plugin: plugin.clone(),
            index,
            tail: tail.to_owned(),
        }),
        None => Destination::Nowhere,
    }
}
