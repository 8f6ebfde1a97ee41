//! `jackfield credential …`.

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use http::Method;

use crate::admin::client::Client;
use crate::admin::wire::{CredentialView, Done, NewCredential, Value};
use crate::cli::print::{Printer, table};
use crate::cli::value::From;
use crate::config::help;
use crate::rules::names::{BoxName, CredentialName, UpstreamName};
use crate::rules::payer::PayerKind;
use crate::rules::plan::CredentialKind;

#[derive(Debug, Subcommand)]
pub enum CredentialCommand {
    /// Save a credential for an upstream
    #[command(after_help = help::CREDENTIAL_SET)]
    Set(SetArguments),
    /// List credentials, without their values
    List,
    /// Remove a credential; it is spent on nothing from here on, and what it has open is cut
    Remove {
        /// The upstream
        #[arg(value_parser = UpstreamName::parse)]
        upstream: UpstreamName,
        /// Which of its credentials; needed when it has several
        #[arg(long, value_parser = CredentialName::parse)]
        name: Option<CredentialName>,
    },
}

#[derive(Debug, Args)]
pub struct SetArguments {
    /// The upstream, as [upstreams] names it
    #[arg(value_parser = UpstreamName::parse)]
    upstream: UpstreamName,
    /// What sort of value it is
    #[arg(long)]
    kind: Kind,
    /// Whose it is, for boxes to be told; without it they are told nothing
    #[arg(long)]
    payer: Option<Whose>,
    /// Who that is, such as github:octocat
    #[arg(long)]
    principal: Option<String>,
    /// The only box that may spend it
    #[arg(long = "box", value_name = "BOX", value_parser = BoxName::parse)]
    box_name: Option<BoxName>,
    /// Its name; needed for a second one of the same box, or of all boxes
    #[arg(long, value_parser = CredentialName::parse)]
    name: Option<CredentialName>,
    /// The value is meant to be under 12 bytes
    #[arg(long)]
    short: bool,
    #[command(flatten)]
    from: From,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// An API key
    ApiKey,
    /// A setup token
    SetupToken,
    /// A bearer token
    Bearer,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Whose {
    /// A house or operator key
    Shared,
    /// The box's owner
    Owner,
    /// A person who brought it for this box
    Visitor,
}

pub(super) async fn run(
    client: &Client,
    printer: &Printer,
    command: CredentialCommand,
) -> Result<()> {
    match command {
        CredentialCommand::Set(arguments) => set(client, printer, arguments).await,
        CredentialCommand::List => {
            let credentials: Vec<CredentialView> = client.get("/credentials").await?;
            printer.answer(&credentials, || describe(&credentials))
        }
        CredentialCommand::Remove { upstream, name } => {
            let query = name.map_or(String::new(), |name| format!("?name={name}"));
            let path = format!("/credentials/{upstream}{query}");
            let done: Done = client.act(Method::DELETE, &path).await?;
            printer.answer(&done, || done.done.clone())
        }
    }
}

async fn set(client: &Client, printer: &Printer, arguments: SetArguments) -> Result<()> {
    let kind = match arguments.kind {
        Kind::ApiKey => CredentialKind::ApiKey,
        Kind::SetupToken => CredentialKind::SetupToken,
        Kind::Bearer => CredentialKind::Bearer,
    };
    let payer = arguments.payer.map(|whose| match whose {
        Whose::Shared => PayerKind::Shared,
        Whose::Owner => PayerKind::Owner,
        Whose::Visitor => PayerKind::Visitor,
    });
    client.answers().await?;
    let value = arguments
        .from
        .read(&format!("the credential for {}", arguments.upstream))?;
    let new = NewCredential {
        kind: kind.as_str().to_owned(),
        payer: payer.map(|payer| payer.as_str().to_owned()),
        principal: arguments.principal,
        box_name: arguments.box_name.map(|name| name.to_string()),
        name: arguments.name.map(|name| name.to_string()),
        short: arguments.short,
        value: Value::wrap(&value),
    };
    let path = format!("/credentials/{}", arguments.upstream);
    let view: CredentialView = client.send(Method::PUT, &path, &new).await?;
    printer.answer(&view, || {
        let whose = view
            .box_name
            .as_ref()
            .map_or("every box".to_owned(), |name| format!("box {name}"));
        format!(
            "saved credential {} of {}, for {} alone, spent by {whose}",
            view.name, view.upstream, view.bound_to
        )
    })
}

fn describe(credentials: &[CredentialView]) -> String {
    if credentials.is_empty() {
        return "no credentials; `jackfield credential set UPSTREAM --kind KIND` saves one"
            .to_owned();
    }
    let row = |view: &CredentialView| {
        let payer = match (&view.payer, &view.principal) {
            (Some(payer), Some(principal)) => format!("{payer} {principal}"),
            (Some(payer), None) => payer.clone(),
            (None, _) => "not said".to_owned(),
        };
        let bound_to = if view.usable {
            view.bound_to.clone()
        } else {
            format!("{} (the upstream has moved: set it again)", view.bound_to)
        };
        [
            view.upstream.clone(),
            view.name.clone(),
            view.kind.clone(),
            payer,
            view.box_name
                .clone()
                .unwrap_or_else(|| "every box".to_owned()),
            bound_to,
        ]
    };
    table(
        ["UPSTREAM", "NAME", "KIND", "PAYER", "SPENT BY", "SENT TO"],
        &credentials.iter().map(row).collect::<Vec<_>>(),
    )
}
