//! `jackfield journal …`.

use anyhow::Result;
use clap::Args;
use http::Method;
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::admin::client::Client;
use crate::admin::wire::{Done, RecordView};
use crate::cli::print::Printer;
use crate::rules::escape::escape_line;
use crate::rules::names::{BoxName, PluginName};

#[derive(Debug, Args)]
pub struct JournalArguments {
    /// The plugin
    #[arg(value_parser = PluginName::parse)]
    plugin: PluginName,
    /// Records for this box alone
    #[arg(long = "box", value_name = "BOX", value_parser = BoxName::parse, conflicts_with = "prune")]
    box_name: Option<BoxName>,
    /// Records from this time on, such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "prune")]
    since: Option<Timestamp>,
    /// Delete the records from before this time instead
    #[arg(long, value_name = "TIME")]
    prune: Option<Timestamp>,
}

pub(super) async fn run(
    client: &Client,
    printer: &Printer,
    arguments: JournalArguments,
) -> Result<()> {
    let plugin = &arguments.plugin;
    if let Some(before) = arguments.prune {
        let path = format!("/plugins/{plugin}/journal?before={before}");
        let done: Done = client.act(Method::DELETE, &path).await?;
        return printer.answer(&done, || done.done.clone());
    }
    let mut asked = format!("/plugins/{plugin}/journal?");
    if let Some(name) = &arguments.box_name {
        asked += &format!("box={name}&");
    }
    if let Some(since) = &arguments.since {
        asked += &format!("since={since}&");
    }
    let mut after = String::new();
    loop {
        let page: Vec<RecordView> = client.get(&format!("{asked}{after}")).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        let place = utf8_percent_encode(&last.place, NON_ALPHANUMERIC);
        after = format!("after={place}");
        for record in &page {
            printer.answer(record, || line(record))?;
        }
    }
}

/// A record on one line, whatever stands in it.
fn line(view: &RecordView) -> String {
    let record = match (&view.record, &view.base64) {
        (Some(text), _) => escape_line(text),
        (None, Some(bytes)) => format!("base64:{bytes}"),
        (None, None) => String::new(),
    };
    format!("{} {} {record}", view.at, view.box_name)
}
