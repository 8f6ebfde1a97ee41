//! `jackfield grant …`.

use anyhow::Result;
use clap::{Args, Subcommand};
use http::Method;

use crate::admin::client::Client;
use crate::admin::wire::{Done, GrantView, Issued, NewGrant};
use crate::cli::print::{Printer, table};
use crate::rules::grant::Ttl;
use crate::rules::names::BoxName;

#[derive(Debug, Subcommand)]
pub enum GrantCommand {
    /// Issue a grant to a person for one box and print it; it is shown only this once
    #[command(after_help = "\
Examples:
  jackfield grant issue --box alice --credential octocat
  jackfield grant issue --box alice --credential models/octocat --ttl 15m

The credential is a visitor's (`credential set … --payer visitor`). While the
grant is valid, a model call of that box that carries it as the header
chant-grant is paid by that credential. A grant that is expired, revoked or of
another box is ignored: the request is paid as without it. Keep grants short:
code that the box's agent runs on that person's turn can read them.")]
    Issue(IssueArguments),
    /// List grants, without their values; one is kept for a day after it expired
    List {
        /// Those of this box only
        #[arg(long = "box", value_name = "BOX", value_parser = BoxName::parse)]
        box_name: Option<BoxName>,
    },
    /// Take a grant back, or all of a box; what they had open is cut
    Revoke(RevokeArguments),
}

#[derive(Debug, Args)]
pub struct IssueArguments {
    /// The box whose requests may carry it
    #[arg(long = "box", value_name = "BOX", value_parser = BoxName::parse)]
    box_name: BoxName,
    /// The visitor's credential that it spends: NAME, or UPSTREAM/NAME where several upstreams have one of that name
    #[arg(long, value_name = "NAME")]
    credential: String,
    /// How long it lives, 1s to 24h
    #[arg(long, default_value = "1h", value_parser = Ttl::parse)]
    ttl: Ttl,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct RevokeArguments {
    /// The grant's id, as `list` shows it
    #[arg(value_parser = id)]
    id: Option<String>,
    /// Every grant of this box
    #[arg(long = "box", value_name = "BOX", value_parser = BoxName::parse)]
    box_name: Option<BoxName>,
}

pub(super) async fn run(client: &Client, printer: &Printer, command: GrantCommand) -> Result<()> {
    match command {
        GrantCommand::Issue(arguments) => issue(client, printer, arguments).await,
        GrantCommand::List { box_name } => {
            let query = box_name.map_or(String::new(), |name| format!("?box={name}"));
            let grants: Vec<GrantView> = client.get(&format!("/grants{query}")).await?;
            printer.answer(&grants, || describe(&grants))
        }
        GrantCommand::Revoke(RevokeArguments { id, box_name }) => {
            let path = match (id, box_name) {
                (Some(id), _) => format!("/grants/{id}"),
                (None, Some(name)) => format!("/grants?box={name}"),
                (None, None) => "/grants".to_owned(),
            };
            let done: Done = client.act(Method::DELETE, &path).await?;
            printer.answer(&done, || done.done.clone())
        }
    }
}

/// The grant alone goes to standard output, so that a script can take it.
async fn issue(client: &Client, printer: &Printer, arguments: IssueArguments) -> Result<()> {
    let new = NewGrant {
        box_name: arguments.box_name.to_string(),
        credential: arguments.credential,
        ttl_seconds: arguments.ttl.seconds(),
    };
    let issued: Issued = client.send(Method::POST, "/grants", &new).await?;
    let view = &issued.view;
    printer.note(&format!(
        "grant {} for box {}: {} pays with {} until {}; it is not shown again:",
        view.id, view.box_name, view.principal, view.credential, view.expires
    ));
    printer.answer(&issued, || issued.grant.clone())
}

fn describe(grants: &[GrantView]) -> String {
    if grants.is_empty() {
        return "no grants; `jackfield grant issue --box BOX --credential NAME` makes one"
            .to_owned();
    }
    let rows: Vec<[String; 7]> = grants
        .iter()
        .map(|view| {
            [
                view.id.clone(),
                view.box_name.clone(),
                view.credential.clone(),
                view.principal.clone(),
                view.issued.clone(),
                view.expires.clone(),
                view.state.clone(),
            ]
        })
        .collect();
    let head = [
        "ID",
        "BOX",
        "CREDENTIAL",
        "PRINCIPAL",
        "ISSUED",
        "EXPIRES",
        "STATE",
    ];
    table(head, &rows)
}

/// An id stands in a path, so it holds nothing else. The text is not repeated:
/// it may be a grant.
fn id(text: &str) -> Result<String, String> {
    let fits = (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    fits.then(|| text.to_owned())
        .ok_or_else(|| "a grant's id is what `jackfield grant list` shows as ID".to_owned())
}
