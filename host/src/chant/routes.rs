//! Which plugin, or which route of the host's own, a request belongs to. It
//! knows prefixes and no capability.

use std::sync::Arc;

use http::Method;

use crate::plugins::LivePlugin;
use crate::rules::manifest::Route;

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

/// Finds what a path leads to: the longest prefix that takes the method, of a
/// live version, or else of one that serves some boxes first.
#[must_use]
pub fn find(plugins: &[Arc<LivePlugin>], method: &Method, path: &str) -> Destination {
    if path == DECLARATION {
        return Destination::Declaration;
    }
    let live = longest(plugins.iter(), method, path);
    let canaries = || plugins.iter().filter_map(|plugin| plugin.canary());
    match live.or_else(|| longest(canaries(), method, path)) {
        Some((plugin, index, tail)) => Destination::Plugin(PluginRoute {
            plugin: plugin.clone(),
            index,
            tail: tail.to_owned(),
        }),
        None => Destination::Nowhere,
    }
}

fn longest<'a, 'b>(
    plugins: impl Iterator<Item = &'a Arc<LivePlugin>>,
    method: &Method,
    path: &'b str,
) -> Option<(&'a Arc<LivePlugin>, usize, &'b str)> {
    plugins
        .filter_map(|plugin| {
            let (index, tail) = plugin.manifest().serving(method, path)?;
            Some((plugin, index, tail))
        })
        // The tail is the shorter, the longer the prefix is.
        .min_by_key(|(.., tail)| tail.len())
}

/// The route of one plugin that a path leads to, where it has one.
#[must_use]
pub fn under(plugin: &Arc<LivePlugin>, method: &Method, path: &str) -> Option<PluginRoute> {
    let (index, tail) = plugin.manifest().serving(method, path)?;
    Some(PluginRoute {
        plugin: Arc::clone(plugin),
        index,
        tail: tail.to_owned(),
    })
}
