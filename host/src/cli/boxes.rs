//! `jackfield box …`.

use anyhow::Result;
use clap::{Args, Subcommand};
use http::Method;

use crate::admin::client::Client;
use crate::admin::wire::{BoxView, Done, EnvView, NewBox, ThingView, Token};
use crate::cli::print::{Printer, table};
use crate::rules::names::{BoxName, ThingId, ThingKind};

#[derive(Debug, Subcommand)]
pub enum BoxCommand {
    /// Add a box and print its token, which is shown only this once
    Add {
        /// The new box
        #[arg(value_parser = BoxName::parse)]
        name: BoxName,
    },
    /// List boxes with what they declared
    List,
    /// Make a new token and print it; the old one stops working at once, and what it has open is cut
    Rotate {
        /// The box
        #[arg(value_parser = BoxName::parse)]
        name: BoxName,
    },
    /// Remove a box with its token, secrets, credentials and grants; what it has open is cut
    Remove {
        /// The box
        #[arg(value_parser = BoxName::parse)]
        name: BoxName,
    },
    /// Refuse a box's model calls until it is resumed
    Pause {
        /// The box
        #[arg(value_parser = BoxName::parse)]
        name: BoxName,
    },
    /// Serve a paused box again
    Resume {
        /// The box
        #[arg(value_parser = BoxName::parse)]
        name: BoxName,
    },
    /// Say that a thing of an upstream is a box's own
    #[command(after_help = "\
Example:
  jackfield box own alice conversations c-17

What a plugin sees created for a box becomes the box's own by itself. A thing
that is another box's own already is then shared by the two.")]
    Own(Thing),
    /// Say that a thing is no more a box's own
    Disown(Thing),
    /// List what a box owns
    Owned {
        /// The box
        #[arg(value_parser = BoxName::parse)]
        name: BoxName,
    },
    /// Print the variables that a box's processes need
    #[command(after_help = "\
Example:
  export JACKFIELD_TOKEN=jft_...        the token that `box add` printed
  eval \"$(jackfield box env alice)\"

The host keeps no token, so the variables that need it refer to
$JACKFIELD_TOKEN. With --json, {token} stands in its place.")]
    Env {
        /// The box
        #[arg(value_parser = BoxName::parse)]
        name: BoxName,
    },
}

/// A thing of a box.
#[derive(Debug, Args)]
pub struct Thing {
    /// The box
    #[arg(value_parser = BoxName::parse)]
    name: BoxName,
    /// What sort of thing it is, as a plugin's permission owned:KIND says it
    #[arg(value_parser = ThingKind::parse)]
    kind: ThingKind,
    /// Its id at the upstream
    #[arg(value_parser = ThingId::parse)]
    id: ThingId,
}

pub(super) async fn run(client: &Client, printer: &Printer, command: BoxCommand) -> Result<()> {
    match command {
        BoxCommand::Add { name } => {
            let new = NewBox {
                name: name.to_string(),
            };
            let token: Token = client.send(Method::POST, "/boxes", &new).await?;
            show_once(printer, &token)
        }
        BoxCommand::Rotate { name } => {
            let token = client
                .act(Method::POST, &format!("/boxes/{name}/rotate"))
                .await?;
            show_once(printer, &token)
        }
        BoxCommand::List => list(client, printer).await,
        BoxCommand::Remove { name } => {
            act(client, printer, Method::DELETE, format!("/boxes/{name}")).await
        }
        BoxCommand::Pause { name } => {
            act(
                client,
                printer,
                Method::POST,
                format!("/boxes/{name}/pause"),
            )
            .await
        }
        BoxCommand::Resume { name } => {
            act(
                client,
                printer,
                Method::POST,
                format!("/boxes/{name}/resume"),
            )
            .await
        }
        BoxCommand::Own(thing) => change_owned(client, printer, Method::PUT, &thing).await,
        BoxCommand::Disown(thing) => change_owned(client, printer, Method::DELETE, &thing).await,
        BoxCommand::Owned { name } => {
            let things: Vec<ThingView> = client.get(&format!("/boxes/{name}/owned")).await?;
            printer.answer(&things, || {
                let row = |thing: &ThingView| [thing.kind.clone(), thing.id.clone()];
                if things.is_empty() {
                    return format!("box {name} owns nothing");
                }
                table(["KIND", "ID"], &things.iter().map(row).collect::<Vec<_>>())
            })
        }
        BoxCommand::Env { name } => env(client, printer, &name).await,
    }
}

async fn act(client: &Client, printer: &Printer, method: Method, path: String) -> Result<()> {
    let done: Done = client.act(method, &path).await?;
    printer.answer(&done, || done.done.clone())
}

async fn change_owned(
    client: &Client,
    printer: &Printer,
    method: Method,
    thing: &Thing,
) -> Result<()> {
    let view = ThingView {
        kind: thing.kind.to_string(),
        id: thing.id.to_string(),
    };
    let path = format!("/boxes/{}/owned", thing.name);
    let done: Done = client.send(method, &path, &view).await?;
    printer.answer(&done, || done.done.clone())
}

/// The token alone goes to standard output, so that a script can take it.
fn show_once(printer: &Printer, token: &Token) -> Result<()> {
    printer.note(&format!(
        "the token of box {}; it is not shown again:",
        token.name
    ));
    printer.answer(token, || token.token.clone())
}

async fn list(client: &Client, printer: &Printer) -> Result<()> {
    let boxes: Vec<BoxView> = client.get("/boxes").await?;
    printer.answer(&boxes, || {
        if boxes.is_empty() {
            return "no boxes; `jackfield box add NAME` makes one".to_owned();
        }
        table(
            [
                "BOX",
                "STATE",
                "LAST REPORT",
                "DECLARED",
                "LISTING",
                "SPEND",
            ],
            &boxes.iter().map(row).collect::<Vec<_>>(),
        )
    })
}

fn row(view: &BoxView) -> [String; 6] {
    let state = if view.paused { "paused" } else { "served" };
    let nothing = || "-".to_owned();
    let Some(declaration) = &view.declaration else {
        let none = "never reported: refused everything".to_owned();
        return [
            view.name.clone(),
            state.to_owned(),
            nothing(),
            none,
            nothing(),
            nothing(),
        ];
    };
    let capabilities: Vec<String> = declaration
        .capabilities
        .iter()
        .map(|capability| format!("{}({})", capability.name, capability.scope.join(" ")))
        .collect();
    let raw = |value: &Option<Box<serde_json::value::RawValue>>| {
        value
            .as_ref()
            .map_or_else(nothing, |value| value.get().to_owned())
    };
    [
        view.name.clone(),
        state.to_owned(),
        declaration.at.clone(),
        if capabilities.is_empty() {
            "nothing for this broker".to_owned()
        } else {
            capabilities.join(", ")
        },
        raw(&declaration.listing),
        raw(&declaration.spend),
    ]
}

async fn env(client: &Client, printer: &Printer, name: &BoxName) -> Result<()> {
    let view: EnvView = client.get(&format!("/boxes/{name}/env")).await?;
    let variables: serde_json::Map<String, serde_json::Value> = view
        .variables
        .iter()
        .map(|variable| (variable.name.clone(), variable.value.clone().into()))
        .collect();
    let value = serde_json::json!({ "box": view.name, "env": variables });
    printer.answer(&value, || {
        let head = format!(
            "# Box {name}. First set JACKFIELD_TOKEN to its token, which the host does not keep."
        );
        let lines = view
            .variables
            .iter()
            .map(|variable| format!("export {}={}", variable.name, shell_word(&variable.value)));
        std::iter::once(head)
            .chain(lines)
            .collect::<Vec<_>>()
            .join("\n")
    })
}

/// One word of a shell, with `$JACKFIELD_TOKEN` where the token belongs: text
/// in single quotes means nothing to a shell.
fn shell_word(value: &str) -> String {
    let quoted: Vec<String> = value
        .split("{token}")
        .map(|text| match text {
            "" => String::new(),
            text => format!("'{}'", text.replace('\'', r"'\''")),
        })
        .collect();
    let word = quoted.join("\"$JACKFIELD_TOKEN\"");
    if word.is_empty() {
        "''".to_owned()
    } else {
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_word_to_a_shell() {
        let check = |value: &str, expected: &str| assert_eq!(shell_word(value), expected);
        check("http://h:1/a", "'http://h:1/a'");
        check("{token}", "\"$JACKFIELD_TOKEN\"");
        check("Bearer {token}", "'Bearer '\"$JACKFIELD_TOKEN\"");
        check("a'; rm -rf $HOME; '", r"'a'\''; rm -rf $HOME; '\'''");
        check("", "''");
    }
}
