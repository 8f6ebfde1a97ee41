//! `jackfield plugin load|compare|promote|pending|approve|reject|rollback|history|
//! block …`: what the operator says about single versions of plugins.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::admin::client::Client;
use crate::admin::wire::{
    BlockedView, ChangeView, ComparisonView, Done, EventView, PluginView, VersionView,
};
use crate::cli::plugin::{describe, name_or_hash};
use crate::cli::print::{Printer, table};
use crate::plugins::{ComponentHash, MOST_BYTES};
use crate::rules::escape::escape_line;
use crate::rules::names::PluginName;
use crate::rules::signature::MOST_SIGNATURE;
use crate::rules::trial::Share;

#[derive(Debug, Subcommand)]
pub enum VersionCommand {
    /// Hand a component to the running host: it goes live, waits for you, or is refused
    #[command(after_help = "\
Examples:
  jackfield plugin load notes.wasm                          with notes.wasm.minisig, if it lies there
  jackfield plugin load notes.wasm --signature notes.sig
  jackfield plugin load notes.wasm --shadow                 asked what the live version is asked, and not heeded
  jackfield plugin load notes.wasm --canary 10%             serves every tenth box
  jackfield plugin load notes.wasm --canary box-a,box-b     serves these

The host keeps it, and loads it again when it starts. It takes the place of the
version that is live if it is approved, or signed by a signer that is, and asks
for no more than was approved. As a shadow it needs no approval while it asks
for no more than the live version; `compare` shows where the two decide
differently. `promote` lets what is tried go live, `reject` ends it, and so does
whatever else goes live under its name. One version of a plugin is tried at a
time; it goes on over a restart, and a shadow counts anew. What goes live is
watched for a while, and taken back by itself: see [watch] in `jackfield config
example`.")]
    Load {
        /// The component
        file: PathBuf,
        /// Its signature, in minisign's format [default: FILE.minisig, if there is one]
        #[arg(long, value_name = "FILE")]
        signature: Option<PathBuf>,
        /// Ask it what the live version is asked, compare, and do nothing it says
        #[arg(long, conflicts_with = "canary")]
        shadow: bool,
        /// Let it serve some boxes first: a percentage of all, or names
        #[arg(long, value_name = "SHARE", value_parser = Share::parse)]
        canary: Option<Share>,
    },
    /// Show on which requests a shadow decides differently from the live version
    #[command(after_help = "\
Compared is every decision of the live version, after it has been made: words,
plans and what they keep, with the values. Shown are names and counts, no
header's value, query, body or secret. Where both need the same, the shadow is
brought what the live version was; where it needs something else, that is the
difference. Requests that it was too slow for are skipped, and counted.")]
    Compare {
        /// The plugin
        #[arg(value_parser = PluginName::parse)]
        name: PluginName,
    },
    /// Let the version that is tried, as a shadow or a canary, go live
    Promote {
        /// The plugin, or the hash of the version
        #[arg(value_name = "NAME|HASH", value_parser = name_or_hash)]
        which: String,
    },
    /// List the versions that wait for you, and how each differs from the live one
    Pending,
    /// Let a version that waits go live, with the permissions that `pending` shows
    Approve {
        /// The plugin, or the hash of one of its versions
        #[arg(value_name = "NAME|HASH", value_parser = name_or_hash)]
        which: String,
        /// And every later one that the same key signs and that asks for no more
        #[arg(long)]
        signer: bool,
    },
    /// Turn a version down that waits, or end its trial; the live one goes on
    Reject {
        /// The plugin, or the hash of one of its versions
        #[arg(value_name = "NAME|HASH", value_parser = name_or_hash)]
        which: String,
    },
    /// Put a version back that was live before, at once
    #[command(after_help = "\
Examples:
  jackfield plugin rollback notes                 the one that was live before this one
  jackfield plugin rollback notes --to 3f1c       the one whose hash begins so

The last five versions of each plugin are kept. The one that goes back stays
live over a restart, whatever lies in plugins_dir, until another is put there.
A version that is blocked, no longer approved, or not signed as the
configuration asks is refused.")]
    Rollback {
        /// The plugin
        #[arg(value_parser = PluginName::parse)]
        name: PluginName,
        /// The version's hash, or how it begins [default: the one before]
        #[arg(long, value_name = "HASH", value_parser = beginning)]
        to: Option<String>,
    },
    /// What became of a plugin's versions: where each came from, who signed it, what it asks for, who said yes
    History {
        /// The plugin
        #[arg(value_parser = PluginName::parse)]
        name: PluginName,
    },
    /// Run a component nowhere: refuse it wherever it comes from, stop it where it is live
    Block {
        /// The component's hash
        #[arg(value_parser = whole)]
        hash: String,
    },
    /// Take a block back
    Unblock {
        /// The component's hash
        #[arg(value_parser = whole)]
        hash: String,
    },
    /// List the hashes that are blocked
    Blocked,
}

pub(super) async fn run(client: &Client, printer: &Printer, command: VersionCommand) -> Result<()> {
    let one = |plugin: PluginView| {
        printer.answer(&plugin, || describe(std::slice::from_ref(&plugin), true))
    };
    match command {
        VersionCommand::Load {
            file,
            signature,
            shadow,
            canary,
        } => {
            let how = match (shadow, canary) {
                (true, _) => "&shadow=true".to_owned(),
                (false, Some(share)) => format!("&canary={}", encode(&share.to_string())),
                (false, None) => String::new(),
            };
            one(load(client, &file, signature.as_deref(), &how).await?)
        }
        VersionCommand::Compare { name } => {
            let path = format!("/plugins/{name}/compare");
            let comparison: ComparisonView = client.get(&path).await?;
            printer.answer(&comparison, || describe_comparison(&comparison))
        }
        VersionCommand::Promote { which } => {
            let path = format!("/plugins/{which}/promote");
            one(client.act(Method::POST, &path).await?)
        }
        VersionCommand::Pending => {
            let mut plugins: Vec<PluginView> = client.get("/plugins").await?;
            plugins.retain(|plugin| plugin.state == "waiting");
            printer.answer(&plugins, || match plugins.as_slice() {
                [] => "nothing waits".to_owned(),
                plugins => describe(plugins, true),
            })
        }
        VersionCommand::Approve { which, signer } => {
            let path = format!("/plugins/{which}/approve?signer={signer}");
            one(client.act(Method::POST, &path).await?)
        }
        VersionCommand::Reject { which } => {
            let path = format!("/plugins/{which}/reject");
            one(client.act(Method::POST, &path).await?)
        }
        VersionCommand::Rollback { name, to } => {
            let to = to.map_or_else(String::new, |to| format!("?to={to}"));
            let path = format!("/plugins/{name}/rollback{to}");
            one(client.act(Method::POST, &path).await?)
        }
        VersionCommand::History { name } => {
            let path = format!("/plugins/{name}/history");
            let events: Vec<EventView> = client.get(&path).await?;
            printer.answer(&events, || events.iter().map(describe_event).collect())
        }
        VersionCommand::Block { hash } => {
            let path = format!("/plugin-blocks/{hash}");
            let done: Done = client.act(Method::PUT, &path).await?;
            printer.answer(&done, || done.done.clone())
        }
        VersionCommand::Unblock { hash } => {
            let path = format!("/plugin-blocks/{hash}");
            let done: Done = client.act(Method::DELETE, &path).await?;
            printer.answer(&done, || done.done.clone())
        }
        VersionCommand::Blocked => {
            let blocked: Vec<BlockedView> = client.get("/plugin-blocks").await?;
            printer.answer(&blocked, || match blocked.as_slice() {
                [] => "no hash is blocked".to_owned(),
                blocked => table(
                    ["HASH", "SINCE", "PLUGIN"],
                    &blocked.iter().map(row).collect::<Vec<_>>(),
                ),
            })
        }
    }
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

async fn load(
    client: &Client,
    file: &Path,
    signature: Option<&Path>,
    how: &str,
) -> Result<PluginView> {
    let bytes = read(file, MOST_BYTES)?;
    let beside = {
        let mut name = file.as_os_str().to_owned();
        name.push(".minisig");
        PathBuf::from(name)
    };
    let signature = match signature {
        Some(signature) => Some(read(signature, MOST_SIGNATURE as u64)?),
        None if beside.exists() => Some(read(&beside, MOST_SIGNATURE as u64)?),
        None => None,
    };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut path = format!("/plugin-loads?file={}{how}", encode(&name));
    if let Some(signature) = signature {
        let signature = String::from_utf8(signature).context("the signature is no text")?;
        path += &format!("&signature={}", encode(&signature));
    }
    Ok(client.hand(&path, bytes.into()).await?)
}

/// Reads a file that the host would take; what is larger is not even sent.
fn read(file: &Path, most: u64) -> Result<Vec<u8>> {
    let could_not = || format!("could not read {}", file.display());
    let size = std::fs::metadata(file).with_context(could_not)?.len();
    if size > most {
        bail!(
            "{} has {size} bytes, and the host takes at most {most}",
            file.display()
        );
    }
    std::fs::read(file).with_context(could_not)
}

fn row(blocked: &BlockedView) -> [String; 3] {
    let plugin = blocked.plugin.clone().unwrap_or_default();
    [blocked.hash.clone(), blocked.since.clone(), plugin]
}

/// How a shadow went together with the live version.
fn describe_comparison(comparison: &ComparisonView) -> String {
    let version = |of: &VersionView| {
        let hash = of.hash.get(..12).unwrap_or(&of.hash);
        format!("{} {}", escape_line(&of.version), escape_line(hash))
    };
    let ComparisonView {
        compared,
        differing,
        skipped,
        ..
    } = comparison;
    let mut text = format!(
        "plugin {}: live {}, shadow {}\n{differing} of {compared} requests decided differently, {skipped} skipped\n",
        escape_line(&comparison.plugin),
        version(&comparison.live),
        version(&comparison.shadow),
    );
    for sight in &comparison.unseen {
        let permission = escape_line(&sight.permission);
        text += &format!("  asked without {permission}: the live version is not shown it\n");
    }
    for (kind, count) in &comparison.kinds {
        text += &format!("  {count:>8}  {}\n", escape_line(kind));
    }
    for example in &comparison.examples {
        text += &format!(
            "{} {} of {}\n",
            escape_line(&example.method),
            escape_line(&example.path),
            escape_line(example.box_name.as_deref().unwrap_or("a stranger")),
        );
        for found in &example.differences {
            let line = format!(
                "{}: live {}; shadow {}",
                found.kind, found.live, found.shadow
            );
            text += &format!("  {}\n", escape_line(&line));
        }
    }
    text
}

/// How a version differs from the live one, a line for each permission.
pub(super) fn describe_change(change: &ChangeView) -> String {
    let version = escape_line(&change.version);
    let mut text = format!(
        "  the live version is {version}, {}\n",
        escape_line(&change.hash)
    );
    for (sign, permissions) in [("more", &change.more), ("less", &change.less)] {
        for permission in permissions {
            let line = format!("{}: {}", permission.permission, permission.means);
            text += &format!("  {sign} than it: {}\n", escape_line(&line));
        }
    }
    if change.more.is_empty() && change.less.is_empty() {
        text += "  it asks for the same\n";
    }
    text
}

fn describe_event(event: &EventView) -> String {
    let part = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), escape_line);
    let hash = event.hash.as_deref().and_then(|hash| hash.get(..12));
    let mut text = format!(
        "{} {:<11} {} {} {}\n",
        escape_line(&event.at),
        escape_line(&event.happened),
        part(event.version.as_deref()),
        part(hash),
        escape_line(&event.text),
    );
    for (sign, permissions) in [('+', &event.more), ('-', &event.less)] {
        for permission in permissions {
            text += &format!("  {sign} {}\n", escape_line(permission));
        }
    }
    text
}

fn whole(text: &str) -> Result<String, String> {
    let hash = ComponentHash::parse(text);
    let hash = hash.ok_or_else(|| "a hash has 64 hexadecimal digits".to_owned())?;
    Ok(hash.to_string())
}

fn beginning(text: &str) -> Result<String, String> {
    let fits = (4..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let error = || "give 4 to 64 hexadecimal digits of the hash".to_owned();
    fits.then(|| text.to_ascii_lowercase()).ok_or_else(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::wire::PermissionView;

    #[test]
    fn a_difference_and_an_event_stay_on_their_lines() {
        let permission = |permission: &str| PermissionView {
            permission: permission.to_owned(),
            means: "it\nmeans".to_owned(),
        };
        let change = |more: &[&str], less: &[&str]| ChangeView {
            version: "1\u{1b}[2J".to_owned(),
            hash: "abc".to_owned(),
            more: more.iter().map(|text| permission(text)).collect(),
            less: less.iter().map(|text| permission(text)).collect(),
        };
        let head = "  the live version is 1\\u{1b}[2J, abc\n";
        let check = |more: &[&str], less: &[&str], expected: &str| {
            let text = describe_change(&change(more, less));
            assert_eq!(text, format!("{head}{expected}"));
        };
        check(&[], &[], "  it asks for the same\n");
        check(
            &["keep"],
            &["journal"],
            "  more than it: keep: it\\u{a}means\n  less than it: journal: it\\u{a}means\n",
        );
        let event = EventView {
            at: "T".to_owned(),
            happened: "asks".to_owned(),
            hash: Some("0123456789abcdef".to_owned()),
            version: None,
            text: "a\nb".to_owned(),
            more: vec!["path:/\n".to_owned()],
            less: vec!["keep".to_owned()],
        };
        assert_eq!(
            describe_event(&event),
            "T asks        - 0123456789ab a\\u{a}b\n  + path:/\\u{a}\n  - keep\n"
        );
    }

    #[test]
    fn a_comparison_stays_on_its_lines() {
        let comparison: ComparisonView = serde_json::from_value(serde_json::json!({
            "plugin": "p", "live": {"version": "1\n", "hash": "0123456789abcdef"},
            "shadow": {"version": "2", "hash": "ff"},
            "compared": 9, "differing": 2, "skipped": 1, "kinds": {"status": 2},
            "unseen": [{"permission": "sees:/p:query", "means": "m"}],
            "examples": [{"box": null, "method": "GET", "path": "/p\u{1b}", "differences": [
                {"kind": "status", "live": "200", "shadow": "2\n01"}
            ]}],
        }))
        .unwrap();
        assert_eq!(
            describe_comparison(&comparison),
            "plugin p: live 1\\u{a} 0123456789ab, shadow 2 ff\n\
             2 of 9 requests decided differently, 1 skipped\n  \
             asked without sees:/p:query: the live version is not shown it\n         \
             2  status\n\
             GET /p\\u{1b} of a stranger\n  status: live 200; shadow 2\\u{a}01\n"
        );
    }

    #[test]
    fn a_hash_is_whole_or_how_it_begins() {
        let hash = "AB".repeat(32);
        assert_eq!(whole(&hash), Ok(hash.to_lowercase()));
        assert!(whole("ab").is_err());
        assert_eq!(beginning("ABcd"), Ok("abcd".to_owned()));
        for text in ["abc", "xyz1", &"a".repeat(65)] {
            assert!(beginning(text).is_err(), "{text}");
        }
    }
}
