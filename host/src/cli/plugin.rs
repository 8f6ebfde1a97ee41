//! `jackfield plugin …`.

mod versions;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use http::Method;

use crate::admin::client::Client;
use crate::admin::wire::{Done, PluginView};
use crate::cli::Global;
use crate::cli::audit::{self, AuditArguments};
use crate::cli::author::{self, AuthorCommand};
use crate::cli::print::Printer;
use crate::cli::replay::{self, ReplayArguments};
use crate::config::{Config, prepare_state_dir};
use crate::plugins::{ComponentHash, component};
use crate::rules::escape::escape_line;
use crate::rules::names::PluginName;

use versions::VersionCommand;

const NO_PLUGINS: &str = "no plugins; `jackfield plugin build` puts them into plugins_dir, and `jackfield plugin load FILE` hands one over";

#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// List the plugins of the running host, with what each may do
    List,
    /// Build plugin crates into components
    #[command(after_help = "\
Examples:
  jackfield plugin build                     ./plugins/*, or the crate in this folder
  jackfield plugin build ../my-plugin        one crate
  jackfield plugin build --out ./built       somewhere else than plugins_dir

Needs cargo and the target wasm32-unknown-unknown, which rustup adds by itself
where it can. A running host takes up what is new or changed in plugins_dir.")]
    Build {
        /// Folders of plugin crates
        dirs: Vec<PathBuf>,
        /// Where the components go [default: plugins_dir]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// What the operator says about single versions.
    #[command(flatten)]
    Version(VersionCommand),
    /// Look at a component that nobody trusts yet: what it is, may do and does
    Audit(Box<AuditArguments>),
    /// Ask another version what the live ones were asked, and show what it would decide otherwise
    Replay(Box<ReplayArguments>),
    /// Take a plugin's approval back: it goes out of use, what it has open is cut, and it waits to be approved again
    #[command(after_help = "\
Examples:
  jackfield plugin revoke inference     the component that is live under this name
  jackfield plugin revoke 3f1c…         the component of this hash, all 64 digits of it

The approval belongs to that component alone: another one that is approved
under the same name stays so, and the answer names it. What a signer was
approved for under that name is taken back, too. `serve
--approve-plugins` approves again whatever lies in plugins_dir.")]
    Revoke {
        /// The plugin's name, or a component's hash
        #[arg(value_name = "NAME|HASH", value_parser = name_or_hash)]
        which: String,
    },
    /// What an author does.
    #[command(flatten)]
    Author(AuthorCommand),
}

pub(super) async fn run(global: &Global, printer: &Printer, command: PluginCommand) -> Result<()> {
    let config = Config::load(global.config.as_deref())?;
    let client = Client::new(config.admin_socket());
    match command {
        PluginCommand::List => {
            let plugins: Vec<PluginView> = client.get("/plugins").await?;
            for name in not_found(&config, plugins.iter().map(|plugin| plugin.name.as_str())) {
                printer.note(&format!(
                    "[plugins.{name}] in the configuration names no plugin that was found"
                ));
            }
            printer.answer(&plugins, || match plugins.as_slice() {
                [] => NO_PLUGINS.to_owned(),
                plugins => describe(plugins, true),
            })
        }
        PluginCommand::Audit(arguments) => audit::run(global, *arguments).await.map(|_| ()),
        PluginCommand::Replay(arguments) => replay::run(global, *arguments).await.map(|_| ()),
        PluginCommand::Build { dirs, out } => build(&config, printer, dirs, out),
        PluginCommand::Version(command) => versions::run(&client, printer, command).await,
        PluginCommand::Author(command) => author::run(&config, printer, command).await,
        PluginCommand::Revoke { which } => {
            let path = format!("/plugins/{which}/revoke");
            let done: Done = client.act(Method::POST, &path).await?;
            printer.answer(&done, || done.done.clone())
        }
    }
}

fn name_or_hash(text: &str) -> Result<String, String> {
    if ComponentHash::parse(text).is_none() {
        PluginName::parse(text).map_err(|error| format!("{error}, or be a hash of 64 digits"))?;
    }
    Ok(text.to_owned())
}

/// What the configuration calls by a name that no plugin has.
pub(crate) fn not_found<'a>(
    config: &'a Config,
    names: impl Iterator<Item = &'a str>,
) -> Vec<&'a PluginName> {
    let found: BTreeSet<&str> = names.collect();
    let configured = config.plugins.keys();
    configured
        .filter(|name| !found.contains(name.as_str()))
        .collect()
}

/// A line for each plugin, and with `permissions` one for each of those; text
/// of a plugin's making is escaped.
pub(crate) fn describe(plugins: &[PluginView], permissions: bool) -> String {
    let mut text = String::new();
    for plugin in plugins {
        let name = escape_line(&plugin.name);
        let version = escape_line(plugin.version.as_deref().unwrap_or_default());
        let stands = match &plugin.reason {
            Some(reason) => format!("is not loaded: {}", escape_line(reason)),
            None if plugin.state == "waiting" => {
                format!("waits for you: jackfield plugin approve {name}")
            }
            None if plugin.state == "shadow" => {
                format!("is asked beside the live version: jackfield plugin compare {name}")
            }
            None if plugin.state == "canary" => format!(
                "serves {} first: jackfield plugin promote {name}",
                escape_line(plugin.boxes.as_deref().unwrap_or_default())
            ),
            None if plugin.state == "replaced" => "is replaced by another version".to_owned(),
            None => format!("is {}", escape_line(&plugin.state)),
        };
        text += &format!(
            "plugin {} {stands}\n",
            format!("{name} {version}").trim_end()
        );
        if let Some(change) = &plugin.change
            && plugin.state == "waiting"
        {
            text += &versions::describe_change(change);
        }
        if permissions || plugin.state == "waiting" {
            for permission in &plugin.permissions {
                let line = format!("{}: {}", permission.permission, permission.means);
                text += &format!("  {}\n", escape_line(&line));
            }
            for permission in &plugin.unused_grants {
                let permission = escape_line(permission);
                text += &format!("  its grant lists {permission}, which it does not ask for\n");
            }
            for import in &plugin.inert_imports {
                text += &format!("  imports {}, which does nothing\n", escape_line(import));
            }
        }
    }
    text
}

fn build(
    config: &Config,
    printer: &Printer,
    dirs: Vec<PathBuf>,
    out: Option<PathBuf>,
) -> Result<()> {
    let dirs = if dirs.is_empty() {
        crates_here(Path::new("."))?
    } else {
        dirs
    };
    let out = out_folder(config, out)?;
    let mut say = |line: &str| printer.note(line);
    let built = component::build(&dirs, &target_dir(&dirs), &out, &mut say)?;
    let paths: Vec<String> = built
        .iter()
        .map(|built| built.path.display().to_string())
        .collect();
    printer.answer(&serde_json::json!({ "built": paths }), || paths.join("\n"))
}

/// The crates that `plugin build` means where it is told none.
fn crates_here(folder: &Path) -> Result<Vec<PathBuf>> {
    let below = crates_under(&folder.join("plugins"))?;
    if !below.is_empty() {
        return Ok(below);
    }
    if folder.join("Cargo.toml").exists() {
        return Ok(vec![folder.to_path_buf()]);
    }
    bail!(
        "no plugin crates here: there is neither a plugins folder nor a Cargo.toml; pass their folders"
    )
}

/// Where cargo builds: beside the workspace's own output, so that all its
/// plugins share what they depend on and nothing is built twice.
pub(crate) fn target_dir(crates: &[PathBuf]) -> PathBuf {
    let first = crates.first().map_or(Path::new("."), PathBuf::as_path);
    let first = first.canonicalize().unwrap_or_else(|_| first.to_path_buf());
    let is_workspace = |folder: &&Path| {
        std::fs::read_to_string(folder.join("Cargo.toml"))
            .is_ok_and(|text| text.lines().any(|line| line.trim() == "[workspace]"))
    };
    let root = first.ancestors().find(is_workspace).unwrap_or(&first);
    root.join("target/plugins")
}

/// The folders in `folder` that hold a crate, by name. None where there is no
/// such folder.
pub(crate) fn crates_under(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(folder)
        .and_then(|entries| entries.collect::<Result<Vec<_>, _>>())
        .with_context(|| format!("could not read {}", folder.display()))?;
    let mut crates: Vec<PathBuf> = entries
        .into_iter()
        .map(|entry| entry.path())
        .filter(|path| path.join("Cargo.toml").exists())
        .collect();
    crates.sort();
    Ok(crates)
}

/// Where components are put: the plugins folder, unless another one is named.
pub(super) fn out_folder(config: &Config, named: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(named) = named {
        return Ok(named);
    }
    // Made by the same hand as at start, so that it is closed to others.
    if config.plugins_dir.starts_with(&config.state_dir) {
        prepare_state_dir(&config.state_dir)?;
    }
    Ok(config.plugins_dir.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_plugin_says_stays_on_its_line() {
        let plugin = |state: &str, reason: Option<&str>| {
            serde_json::from_value(serde_json::json!({
                "name": "a\u{1b}[2J", "file": "f", "state": state, "reason": reason,
                "version": "1\n", "capability": null, "summary": null, "hash": null,
                "signer": null, "change": null,
                "permissions": [{"permission": "keep", "means": "x\ny"}],
                "unused_grants": ["path:/\u{1b}"], "inert_imports": ["i"],
            }))
            .unwrap()
        };
        let check = |state, reason, permissions, expected: &str| {
            assert_eq!(describe(&[plugin(state, reason)], permissions), expected);
        };
        check("live", None, false, "plugin a\\u{1b}[2J 1\\u{a} is live\n");
        check(
            "live",
            None,
            true,
            "plugin a\\u{1b}[2J 1\\u{a} is live\n  keep: x\\u{a}y\n  its grant lists path:/\\u{1b}, which it does not ask for\n  imports i, which does nothing\n",
        );
        check(
            "waiting",
            None,
            false,
            "plugin a\\u{1b}[2J 1\\u{a} waits for you: jackfield plugin approve a\\u{1b}[2J\n  \
             keep: x\\u{a}y\n  its grant lists path:/\\u{1b}, which it does not ask for\n  imports i, which does nothing\n",
        );
        check(
            "refused",
            Some("bad\n"),
            false,
            "plugin a\\u{1b}[2J 1\\u{a} is not loaded: bad\\u{a}\n",
        );
    }

    #[test]
    fn a_configured_plugin_that_was_not_found_is_named() {
        let mut config = Config::defaults(Path::new("/")).unwrap();
        for name in ["here", "misspelled"] {
            let name = PluginName::parse(name).unwrap();
            config
                .plugins
                .insert(name, crate::config::PluginConfig::default());
        }
        let missing = not_found(&config, ["here", "other"].into_iter());
        assert_eq!(missing, [&PluginName::parse("misspelled").unwrap()]);
    }

    #[test]
    fn plugins_of_a_workspace_share_their_target() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let plugin = root.join("plugins/a");
        std::fs::create_dir_all(&plugin).unwrap();
        std::fs::write(plugin.join("Cargo.toml"), "[package]").unwrap();
        assert_eq!(
            target_dir(std::slice::from_ref(&plugin)),
            plugin.join("target/plugins")
        );
        std::fs::write(root.join("Cargo.toml"), "[workspace]\n").unwrap();
        assert_eq!(target_dir(&[plugin]), root.join("target/plugins"));
    }

    #[test]
    fn crates_are_found_below_plugins_first() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert!(crates_here(root).is_err());
        std::fs::write(root.join("Cargo.toml"), "").unwrap();
        assert_eq!(crates_here(root).unwrap(), [root.to_path_buf()]);
        for name in ["b", "a", "built"] {
            std::fs::create_dir_all(root.join("plugins").join(name)).unwrap();
        }
        for name in ["b", "a"] {
            std::fs::write(root.join("plugins").join(name).join("Cargo.toml"), "").unwrap();
        }
        assert_eq!(
            crates_here(root).unwrap(),
            [root.join("plugins/a"), root.join("plugins/b")]
        );
    }
}
