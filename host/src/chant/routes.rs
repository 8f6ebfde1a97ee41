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
    /// The route that matched, in its manifest.
    pub route: Route,
    /// The path after the prefix.
    pub tail: String,
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
                .map(move |route| (plugin, route))
        })
        .filter(|(_, route)| route.methods.is_empty() || route.methods.contains(method))
        .filter_map(|(plugin, route)| Some((plugin, route, paths::tail(path, &route.prefix)?)))
        .max_by_key(|(_, route, _)| route.prefix.len());
    match matched {
        Some((plugin, route, tail)) => Destination::Plugin(PluginRoute {
            plugin: plugin.clone(),
            route: route.clone(),
            tail: tail.to_owned(),
        }),
        None => Destination::Nowhere,
    }
}
