//! What plugins say to the operator's log: escaped, and no more in a minute
//! than a box and a plugin may. A plan that would say more is refused whole,
//! before anything comes of it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::chant::limits::Over;
use crate::rules::bucket::Bucket;
use crate::rules::escape::escape_line;
use crate::rules::names::{BoxName, PluginName};
use crate::rules::plan::{LogLevel, LogLine};
use crate::telemetry::Limit;

/// How many characters of a line are written.
const MOST_CHARACTERS: usize = 1024;

/// How many buckets are kept before the full ones are let go.
const MANY: usize = 1024;

/// How many bytes may be said in a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// By one plugin, of one box's requests.
    pub per_box: u64,
    /// By one plugin.
    pub per_plugin: u64,
}

/// Who has said how much.
pub(super) struct LogRoom {
    limits: LogLimits,
    began: Instant,
    said: Mutex<Said>,
}

#[derive(Default)]
struct Said {
    boxes: HashMap<(PluginName, Option<BoxName>), Bucket>,
    plugins: HashMap<PluginName, Bucket>,
}

impl LogRoom {
    pub(super) fn new(limits: LogLimits) -> Self {
        Self {
            limits,
            began: Instant::now(),
            said: Mutex::default(),
        }
    }

    /// Writes a plan's lines, all of them or none.
    pub(super) fn say(
        &self,
        plugin: &PluginName,
        box_name: Option<&BoxName>,
        lines: &[LogLine],
    ) -> Result<(), Over> {
        let lines: Vec<(LogLevel, String)> = lines
            .iter()
            .filter(|line| is_written(line.level))
            .map(|line| (line.level, shown(&line.message)))
            .collect();
        if lines.is_empty() {
            return Ok(());
        }
        let bytes = lines.iter().map(|(_, said)| said.len() as u64).sum();
        self.take(plugin, box_name, bytes, self.began.elapsed())?;
        for (level, said) in lines {
            write(plugin, box_name, level, &said);
        }
        Ok(())
    }

    fn take(
        &self,
        plugin: &PluginName,
        box_name: Option<&BoxName>,
        bytes: u64,
        now: Duration,
    ) -> Result<(), Over> {
        let LogLimits {
            per_box,
            per_plugin,
        } = self.limits;
        // A panic in here leaves at worst a bucket too full.
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let Said { boxes, plugins } = &mut *said;
        let of_box = bucket(boxes, (plugin.clone(), box_name.cloned()), per_box, now);
        let of_plugin = bucket(plugins, plugin.clone(), per_plugin, now);
        if let Some(wait) = of_box.lacks(bytes, now) {
            return Err(Over::new(
                Limit::LogBytesPerBox,
                format!(
                    "The plugin {plugin} has said as much to the operator's log for this box as it may in a minute \
                     ({per_box} bytes, log_bytes_per_box); nothing was done for this request. Send it again later."
                ),
                Some(wait),
            ));
        }
        if let Some(wait) = of_plugin.lacks(bytes, now) {
            return Err(Over::new(
                Limit::LogBytesPerPlugin,
                format!(
                    "The plugin {plugin} has said as much to the operator's log as it may in a minute ({per_plugin} \
                     bytes, log_bytes_per_plugin); nothing was done for this request. Send it again later."
                ),
                Some(wait),
            ));
        }
        of_box.spend(bytes);
        of_plugin.spend(bytes);
        Ok(())
    }
}

fn bucket<K: Eq + Hash>(
    buckets: &mut HashMap<K, Bucket>,
    key: K,
    most: u64,
    now: Duration,
) -> &mut Bucket {
    if buckets.len() >= MANY && !buckets.contains_key(&key) {
        buckets.retain(|_, bucket| !bucket.is_full(now));
    }
    buckets
        .entry(key)
        .or_insert_with(|| Bucket::full(most, now))
}

/// Lines that the operator does not want cost nothing.
fn is_written(level: LogLevel) -> bool {
    match level {
        LogLevel::Debug => tracing::enabled!(tracing::Level::DEBUG),
        LogLevel::Info => tracing::enabled!(tracing::Level::INFO),
        LogLevel::Warn => tracing::enabled!(tracing::Level::WARN),
    }
}

fn shown(message: &str) -> String {
    escape_line(&message.chars().take(MOST_CHARACTERS).collect::<String>())
}

fn write(plugin: &PluginName, box_name: Option<&BoxName>, level: LogLevel, said: &str) {
    let box_name = box_name.map_or("-", BoxName::as_str);
    match level {
        LogLevel::Debug => tracing::debug!(%plugin, box_name, said, "a plugin says"),
        LogLevel::Info => tracing::info!(%plugin, box_name, said, "a plugin says"),
        LogLevel::Warn => tracing::warn!(%plugin, box_name, said, "a plugin says"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_and_a_plugin_have_their_minutes_worth() {
        let room = LogRoom::new(LogLimits {
            per_box: 100,
            per_plugin: 150,
        });
        let plugin = |name: &str| PluginName::parse(name).unwrap();
        let check = |who: &str, at: u64, bytes: u64, over: Option<Limit>| {
            let (name, box_name) = who.split_once(' ').unwrap();
            let box_name = BoxName::parse(box_name).unwrap();
            let now = Duration::from_secs(at);
            let taken = room.take(&plugin(name), Some(&box_name), bytes, now);
            assert_eq!(taken.err().map(|over| over.limit), over, "{who} {at}");
        };
        check("p a", 0, 100, None);
        check("p a", 0, 1, Some(Limit::LogBytesPerBox));
        check("q a", 0, 100, None);
        check("p b", 0, 51, Some(Limit::LogBytesPerPlugin));
        // What was refused cost neither of them anything.
        check("p b", 0, 50, None);
        check("p b", 0, 1, Some(Limit::LogBytesPerPlugin));
        check("p a", 30, 50, None);
        check("p a", 30, 1, Some(Limit::LogBytesPerBox));
        check("p c", 120, 100, None);
    }

    #[test]
    fn those_who_say_nothing_are_forgotten() {
        let room = LogRoom::new(LogLimits {
            per_box: 60,
            per_plugin: 1_000_000,
        });
        let plugin = PluginName::parse("p").unwrap();
        for number in 0..3 * MANY as u64 {
            let box_name = BoxName::parse(&format!("box-{number}")).unwrap();
            let now = Duration::from_secs(number);
            assert!(room.take(&plugin, Some(&box_name), 1, now).is_ok());
        }
        assert!(room.said.lock().unwrap().boxes.len() <= MANY + 1);
    }
}
