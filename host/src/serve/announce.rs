//! What a host says on standard output once it listens.

use std::io::Write;

use serde_json::json;

use crate::admin::wire::PluginView;
use crate::app::Running;
use crate::cli::plugin;
use crate::config::Config;
use crate::rules::escape::{escape_json, escape_line};

/// Prints the address and the plugins; a closed standard output stops no host.
pub(super) fn ready(config: &Config, running: &Running, json: bool, with_permissions: bool) {
    let plugins: Vec<PluginView> = running.plugins.iter().cloned().map(Into::into).collect();
    let url = config.local_url(running.listen);
    let text = if json {
        let line = json!({
            "listen": running.listen.to_string(),
            "url": url,
            "plugins": plugins,
            "plugins_problem": running.plugins_problem,
        });
        escape_json(&line.to_string()) + "\n"
    } else {
        format!(
            "listening on {url}\n{}",
            describe(&plugins, running, config, with_permissions)
        )
    };
    let mut out = std::io::stdout().lock();
    let _closed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn describe(
    plugins: &[PluginView],
    running: &Running,
    config: &Config,
    permissions: bool,
) -> String {
    let folder = escape_line(&config.plugins_dir.display().to_string());
    if let Some(problem) = &running.plugins_problem {
        return format!("no plugins: {}\n", escape_line(problem));
    }
    if plugins.is_empty() {
        return format!(
            "no plugins in {folder}: every capability is a 404. `jackfield plugin build` puts them there\n"
        );
    }
    plugin::describe(plugins, permissions)
}
