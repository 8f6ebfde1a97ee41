//! `jackfield secret …`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use http::Method;

use crate::admin::client::Client;
use crate::admin::wire::{Done, NewSecret, SecretView, Value};
use crate::cli::print::{Printer, table};
use crate::cli::value::From;
use crate::rules::names::{BoxName, SecretName};

#[derive(Debug, Subcommand)]
pub enum SecretCommand {
    /// Save a value that a box's requests may carry to one host
    #[command(after_help = "\
Examples:
  jackfield secret set OPENAI --box alice --host api.openai.com < key.txt
  jackfield secret set GITHUB --box alice --host api.github.com \\
    --allow \"GET /repos/\" --allow \"POST /graphql\" --from-file token.txt

The box gets a stand-in: its own token; `jackfield box env` says where to
send it. The box must list NAME in the scope of its declaration. A new host needs the value again.
Setting it again with another value lets what is open finish; with another
--host, --allow, --allow-private or --extra-ca it is cut.")]
    Set(SetArguments),
    /// List secrets, without their values
    List {
        /// Those of this box only
        #[arg(long = "box", value_name = "BOX", value_parser = BoxName::parse)]
        box_name: Option<BoxName>,
    },
    /// Remove a secret; requests that name it are refused, and what it has open is cut
    Remove {
        /// The secret
        #[arg(value_parser = SecretName::parse)]
        name: SecretName,
        /// The box it belongs to
        #[arg(long = "box", value_name = "BOX", value_parser = BoxName::parse)]
        box_name: BoxName,
    },
}

#[derive(Debug, Args)]
pub struct SetArguments {
    /// The secret: capital letters, digits and _
    #[arg(value_parser = SecretName::parse)]
    name: SecretName,
    /// The box it belongs to
    #[arg(long = "box", value_name = "BOX", value_parser = BoxName::parse)]
    box_name: BoxName,
    /// The one place it may be sent to: HOST, HOST:PORT or http(s)://HOST[:PORT]; https unless it says otherwise
    #[arg(long)]
    host: String,
    /// A method and path prefix it may be used for; repeat for more [default: everything]
    #[arg(long, value_name = "METHOD PREFIX")]
    allow: Vec<String>,
    /// The host may be at a private or loopback address
    #[arg(long)]
    allow_private: bool,
    /// A CA to trust for this host, beside the system's
    #[arg(long, value_name = "FILE")]
    extra_ca: Option<PathBuf>,
    /// The value is meant to be under 12 bytes: so short a value cannot be scrubbed from answers reliably
    #[arg(long)]
    short: bool,
    #[command(flatten)]
    from: From,
}

pub(super) async fn run(client: &Client, printer: &Printer, command: SecretCommand) -> Result<()> {
    match command {
        SecretCommand::Set(arguments) => set(client, printer, arguments).await,
        SecretCommand::List { box_name } => {
            let path =
                box_name.map_or("/secrets".to_owned(), |name| format!("/secrets?box={name}"));
            let secrets: Vec<SecretView> = client.get(&path).await?;
            printer.answer(&secrets, || describe(&secrets))
        }
        SecretCommand::Remove { name, box_name } => {
            let path = format!("/secrets/{box_name}/{name}");
            let done: Done = client.act(Method::DELETE, &path).await?;
            printer.answer(&done, || done.done.clone())
        }
    }
}

async fn set(client: &Client, printer: &Printer, arguments: SetArguments) -> Result<()> {
    let extra_ca = arguments.extra_ca.as_deref().map(existing).transpose()?;
    client.answers().await?;
    let value = arguments
        .from
        .read(&format!("the value of {}", arguments.name))?;
    let new = NewSecret {
        host: arguments.host,
        allow: arguments.allow,
        allow_private: arguments.allow_private,
        extra_ca,
        short: arguments.short,
        value: Value::wrap(&value),
    };
    let path = format!("/secrets/{}/{}", arguments.box_name, arguments.name);
    let view: SecretView = client.send(Method::PUT, &path, &new).await?;
    printer.answer(&view, || {
        format!(
            "saved secret {} of box {}, for {} alone",
            view.name, view.box_name, view.host
        )
    })
}

/// The host has another working folder than the command.
fn existing(path: &std::path::Path) -> Result<String> {
    let absolute = path
        .canonicalize()
        .with_context(|| format!("could not find {}", path.display()))?;
    Ok(absolute.display().to_string())
}

fn describe(secrets: &[SecretView]) -> String {
    if secrets.is_empty() {
        return "no secrets; `jackfield secret set NAME --box BOX --host HOST` saves one"
            .to_owned();
    }
    let row = |view: &SecretView| {
        let allow = if view.allow.is_empty() {
            "everything".to_owned()
        } else {
            view.allow.join(", ")
        };
        let private = if view.allow_private { "yes" } else { "no" };
        [
            view.box_name.clone(),
            view.name.clone(),
            view.host.clone(),
            private.to_owned(),
            allow,
        ]
    };
    table(
        ["BOX", "SECRET", "HOST", "PRIVATE", "ALLOWED"],
        &secrets.iter().map(row).collect::<Vec<_>>(),
    )
}
