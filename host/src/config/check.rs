//! From what was written to what holds: every default, and every check that
//! needs more than the type of a value.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use http::HeaderName;
use toml::Spanned;

use crate::config::error::Fault;
use crate::config::raw::{Placed, RawConfig, RawLog, RawPlugin, RawTls, nearest};
use crate::config::{
    Config, DecisionLogMode, LogConfig, LogFormat, LogLevel, PluginConfig, TlsFiles, decision_log,
    env, limits, upstreams,
};
use crate::rules::names::PluginName;
use crate::rules::permission::Permission;
use crate::rules::signature::{SignaturePolicy, TrustedKey};

const DEFAULT_BROKER: &str = "lobby";
const DEFAULT_LISTEN: &str = "127.0.0.1:8787";
const DEFAULT_STATE_DIR: &str = "jackfield-state";
const DEFAULT_TOKEN_HEADERS: [&str; 1] = ["x-api-key"];

/// Headers that mean something else to the host or to HTTP.
const NOT_TOKEN_HEADERS: [&str; 10] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "expect",
    "chant-grant",
    "chant-payer",
];

pub(super) fn check(raw: RawConfig, base: &Path) -> Result<Config, Fault> {
    let state_dir = match &raw.state_dir {
        Some(placed) => path(placed, base)?,
        None => base.join(DEFAULT_STATE_DIR),
    };
    let plugins_dir = match &raw.plugins_dir {
        Some(placed) => path(placed, base)?,
        None => state_dir.join("plugins"),
    };
    let decision_log = decision_log::check(&raw.decision_log)?;
    Ok(Config {
        source: None,
        broker: broker(&raw.broker)?,
        listen: listen(&raw.listen)?,
        public_url: raw.public_url.as_ref().map(public_url).transpose()?,
        state_dir,
        plugins_dir,
        token_headers: token_headers(raw.token_headers)?,
        tls: raw
            .tls
            .as_ref()
            .map(|tls| tls_files(tls, base))
            .transpose()?,
        upstreams: upstreams::check(&raw.upstreams, base)?,
        plugins: plugins(raw.plugins, decision_log.mode)?,
        limits: limits::check(&raw.limits)?,
        watch: limits::watch(&raw.watch)?,
        log: log(&raw.log)?,
        decision_log,
        env: env::check(raw.env)?,
    })
}

fn broker(raw: &Placed<String>) -> Result<String, Fault> {
    let Some(placed) = raw else {
        return Ok(DEFAULT_BROKER.to_owned());
    };
    let word = placed.get_ref();
    if (1..=64).contains(&word.chars().count()) && !word.chars().any(char::is_control) {
        return Ok(word.clone());
    }
    Err(fault(
        placed,
        "broker must be 1 to 64 characters with no control character",
    ))
}

fn listen(raw: &Placed<String>) -> Result<SocketAddr, Fault> {
    let text = raw
        .as_ref()
        .map_or(DEFAULT_LISTEN, |placed| placed.get_ref());
    text.parse().map_err(|_| Fault {
        span: raw.as_ref().map(Spanned::span),
        message: format!(
            "listen must be an address and a port, such as \"127.0.0.1:8787\" or \"[::1]:0\", not {text:?}"
        ),
    })
}

fn public_url(placed: &Spanned<String>) -> Result<String, Fault> {
    let text = placed.get_ref();
    let (origin, base_path) = upstreams::url("public_url", placed)?;
    if text.contains(['{', '}']) {
        return Err(fault(placed, "public_url must hold no braces"));
    }
    Ok(format!("{origin}{base_path}"))
}

fn token_headers(raw: Option<Vec<Spanned<String>>>) -> Result<Vec<HeaderName>, Fault> {
    let Some(names) = raw else {
        return Ok(DEFAULT_TOKEN_HEADERS.map(HeaderName::from_static).to_vec());
    };
    names
        .iter()
        .map(|placed| {
            let name = HeaderName::from_bytes(placed.get_ref().as_bytes()).map_err(|_| {
                fault(
                    placed,
                    format!("{:?} is not a header name", placed.get_ref()),
                )
            })?;
            if NOT_TOKEN_HEADERS.contains(&name.as_str()) {
                return Err(fault(
                    placed,
                    format!(
                        "`{name}` cannot be one of token_headers: it means something else already"
                    ),
                ));
            }
            Ok(name)
        })
        .collect()
}

fn tls_files(placed: &Spanned<RawTls>, base: &Path) -> Result<TlsFiles, Fault> {
    let raw = placed.get_ref();
    let (Some(cert), Some(key)) = (&raw.cert, &raw.key) else {
        return Err(fault(placed, "[tls] needs both `cert` and `key`"));
    };
    Ok(TlsFiles {
        cert: path(cert, base)?,
        key: path(key, base)?,
    })
}

fn plugins(
    raw: BTreeMap<Spanned<String>, RawPlugin>,
    log: DecisionLogMode,
) -> Result<BTreeMap<PluginName, PluginConfig>, Fault> {
    raw.into_iter()
        .map(|(name, entry)| {
            let key = PluginName::parse(name.get_ref())
                .map_err(|error| fault(&name, error.to_string()))?;
            let grant = entry
                .grant
                .map(|entries| {
                    entries
                        .iter()
                        .map(grant)
                        .collect::<Result<BTreeSet<_>, _>>()
                })
                .transpose()?;
            let settings = entry.settings.map(|table| {
                let object = table
                    .into_inner()
                    .into_iter()
                    .map(|(key, value)| (key, json(value)));
                serde_json::Value::Object(object.collect()).to_string()
            });
            let signatures = signatures(entry.trusted_keys, entry.require_signature)?;
            let plugin = PluginConfig {
                grant,
                settings,
                signatures,
                record_inputs: records_inputs(&entry.record, log)?,
            };
            Ok((key, plugin))
        })
        .collect()
}

fn records_inputs(raw: &Placed<String>, log: DecisionLogMode) -> Result<bool, Fault> {
    let records = choice("record", raw, &[("nothing", false), ("inputs", true)])?;
    match raw {
        Some(placed) if records == Some(true) && log == DecisionLogMode::Off => Err(fault(
            placed,
            "record = \"inputs\" needs a decision log: set mode in [decision_log]",
        )),
        Some(_) | None => Ok(records.unwrap_or_default()),
    }
}

fn signatures(
    keys: Option<Vec<Spanned<String>>>,
    required: Placed<bool>,
) -> Result<SignaturePolicy, Fault> {
    let key = |placed: &Spanned<String>| {
        TrustedKey::parse(placed.get_ref()).map_err(|error| fault(placed, error.to_string()))
    };
    let trusted: Vec<TrustedKey> = keys
        .unwrap_or_default()
        .iter()
        .map(key)
        .collect::<Result<_, _>>()?;
    match required {
        Some(placed) if *placed.get_ref() && trusted.is_empty() => Err(fault(
            &placed,
            "require_signature needs trusted_keys: without one, nothing could be loaded",
        )),
        placed => Ok(SignaturePolicy {
            trusted,
            required: placed.is_some_and(|placed| *placed.get_ref()),
        }),
    }
}

fn grant(placed: &Spanned<String>) -> Result<Permission, Fault> {
    Permission::parse(placed.get_ref()).map_err(|error| fault(placed, error.to_string()))
}

/// TOML's dates have no JSON of their own; they become text.
fn json(value: toml::Value) -> serde_json::Value {
    match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(truth) => truth.into(),
        toml::Value::Datetime(date) => date.to_string().into(),
        toml::Value::Array(items) => items.into_iter().map(json).collect(),
        toml::Value::Table(table) => serde_json::Value::Object(
            table
                .into_iter()
                .map(|(key, value)| (key, json(value)))
                .collect(),
        ),
    }
}

fn log(raw: &RawLog) -> Result<LogConfig, Fault> {
    let levels = [
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];
    let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
    Ok(LogConfig {
        level: choice("level", &raw.level, &levels)?.unwrap_or_default(),
        format: choice("format", &raw.format, &formats)?.unwrap_or_default(),
    })
}

pub(super) fn choice<T: Copy>(
    key: &str,
    raw: &Placed<String>,
    known: &[(&str, T)],
) -> Result<Option<T>, Fault> {
    let Some(placed) = raw else {
        return Ok(None);
    };
    let text = placed.get_ref().as_str();
    if let Some((_, value)) = known.iter().find(|(word, _)| *word == text) {
        return Ok(Some(*value));
    }
    let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
    let hint =
        nearest(text, &words).map_or(String::new(), |near| format!("; did you mean {near:?}?"));
    Err(fault(
        placed,
        format!(
            "{key} must be one of {}, not {text:?}{hint}",
            words.join(", ")
        ),
    ))
}

pub(super) fn path(placed: &Spanned<String>, base: &Path) -> Result<PathBuf, Fault> {
    let text = placed.get_ref();
    if text.is_empty() || text.contains('\0') {
        return Err(fault(placed, "a path must not be empty or hold NUL"));
    }
    Ok(base.join(text.strip_prefix("./").unwrap_or(text)))
}

pub(super) fn fault<T>(placed: &Spanned<T>, message: impl Into<String>) -> Fault {
    Fault::new(placed.span(), message)
}
