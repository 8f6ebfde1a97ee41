//! What a plugin wants done beside its decision: writes and reads of its keep,
//! records for the journal, lines for the log. A keep belongs to one plugin
//! and one box.

use std::sync::Arc;

use crate::rules::escape::escape_line;
use crate::rules::names::{BoxName, PluginName};
use crate::rules::plan::{LogLevel, LogLine};
use crate::store::{Change, Store, StoreError};

/// Where what plugins keep for a box stands.
#[must_use]
pub(super) fn keep_prefix(box_name: &BoxName) -> Vec<u8> {
    format!("keep/{box_name}/").into_bytes()
}

fn keep_key(box_name: &BoxName, plugin: &PluginName, key: &str) -> Vec<u8> {
    format!("keep/{box_name}/{plugin}/{key}").into_bytes()
}

/// Reads keys of a plugin's keep for a box.
///
/// # Errors
/// When the store cannot be read.
pub(super) async fn read(
    store: &Arc<dyn Store>,
    box_name: &BoxName,
    plugin: &PluginName,
    keys: &[String],
) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
    let mut values = Vec::with_capacity(keys.len());
    for key in keys {
        values.push(
            store
                .get(&keep_key(box_name, plugin, key))
                .await?
                .map(|found| found.value),
        );
    }
    Ok(values)
}

/// The store's changes that make writes and journal records last.
pub(super) fn changes(
    box_name: &BoxName,
    plugin: &PluginName,
    writes: Vec<(String, Option<Vec<u8>>)>,
    journal: Vec<Vec<u8>>,
) -> Vec<Change> {
    let written = writes.into_iter().map(|(key, value)| {
        let key = keep_key(box_name, plugin, &key);
        match value {
            Some(value) => Change::Put(key, value),
            None => Change::Delete(key),
        }
    });
    let now = jiff::Timestamp::now().as_nanosecond();
    let noted = journal.into_iter().enumerate().map(|(index, entry)| {
        let key = format!("journal/{plugin}/{now:020}-{index:02}/{box_name}");
        Change::Put(key.into_bytes(), entry)
    });
    written.chain(noted).collect()
}

/// Writes a plugin's lines to the operator's log, escaped.
pub(super) fn log(plugin: &PluginName, box_name: Option<&BoxName>, lines: &[LogLine]) {
    let box_name = box_name.map_or("-", BoxName::as_str);
    for line in lines {
        let said = escape_line(&line.message.chars().take(1024).collect::<String>());
        match line.level {
            LogLevel::Debug => tracing::debug!(%plugin, box_name, said, "a plugin says"),
            LogLevel::Info => tracing::info!(%plugin, box_name, said, "a plugin says"),
            LogLevel::Warn => tracing::warn!(%plugin, box_name, said, "a plugin says"),
        }
    }
}
