//! `jackfield.toml`: what the operator writes, checked. Text goes in through
//! [`Config::load`]; once a [`Config`] exists every name, address and limit in
//! it fits. It holds no secret and opens nothing: files that it names are
//! looked at by `config check` and by whoever uses them.

mod check;
mod decision_log;
mod env;
mod error;
pub(crate) mod help;
mod limits;
mod raw;
mod state_dir;
mod upstreams;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::HeaderName;

use crate::rules::names::{PluginName, UpstreamName};
use crate::rules::origin::Origin;
use crate::rules::permission::Permission;
use crate::rules::signature::SignaturePolicy;

pub use decision_log::{DecisionLogConfig, DecisionLogMode};
pub use error::ConfigError;
pub use limits::Limits;
pub use state_dir::{StateDirError, inspect as inspect_state_dir, prepare as prepare_state_dir};

/// The file that is read when `--config` names none.
pub const DEFAULT_FILE: &str = "jackfield.toml";

/// The example that `config example` prints: every key with its default.
pub const EXAMPLE: &str = include_str!("config/example.toml");

/// A checked configuration. Paths are absolute.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The file it came from; none when there was no file.
    pub source: Option<PathBuf>,
    /// The broker word that this host answers for.
    pub broker: String,
    /// The address to listen on; port 0 lets the system pick one.
    pub listen: SocketAddr,
    /// The base URL that boxes reach this host by, without a slash at the end.
    pub public_url: Option<String>,
    /// Where everything that must survive is kept.
    pub state_dir: PathBuf,
    /// Where components are loaded from.
    pub plugins_dir: PathBuf,
    /// Headers that may carry a box's token on the host's own routes, beside
    /// `Authorization: Bearer`.
    pub token_headers: Vec<HeaderName>,
    /// The certificate of the listener; none for plain HTTP.
    pub tls: Option<TlsFiles>,
    /// The upstreams that plugins may name.
    pub upstreams: BTreeMap<UpstreamName, Upstream>,
    /// What the operator says about single plugins.
    pub plugins: BTreeMap<PluginName, PluginConfig>,
    /// Limits.
    pub limits: Limits,
    /// How a version of a plugin is watched that has just gone live.
    pub watch: WatchConfig,
    /// The log.
    pub log: LogConfig,
    /// The decision log.
    pub decision_log: DecisionLogConfig,
    /// What `box env` prints: a variable's name and value, in which
    /// `{public_url}` and `{token}` are filled in. One whose name holds
    /// `{NAME}` stands for one variable of each secret of the box.
    pub env: BTreeMap<String, String>,
}

/// The listener's certificate chain and key, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain, leaf first.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// An upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Where it is.
    pub origin: Origin,
    /// What every path is appended to: empty, or `/` and segments with no
    /// slash at the end.
    pub base_path: String,
    /// Whether it may resolve to a private address.
    pub allow_private: bool,
    /// A CA to trust for this upstream, beside the system's.
    pub extra_ca: Option<PathBuf>,
}

/// What the operator says about one plugin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PluginConfig {
    /// What it may do of what its manifest asks for; none narrows nothing.
    pub grant: Option<BTreeSet<Permission>>,
    /// Settings that the plugin may be shown: a JSON object.
    pub settings: Option<String>,
    /// Whose signatures count, and whether there must be one.
    pub signatures: SignaturePolicy,
    /// Whether what its decisions are made from is recorded, too.
    pub record_inputs: bool,
}

/// For how long a version of a plugin is watched that has just gone live, and
/// when it is taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchConfig {
    /// From its going live on; nothing is watched where this is zero.
    pub window: Duration,
    /// Boxes that have met a failure which the version before does not have.
    pub boxes: usize,
}

/// How much is logged, and in what shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogConfig {
    /// The level.
    pub level: LogLevel,
    /// The shape.
    pub format: LogFormat,
}

/// The least serious events that are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogLevel {
    /// What went wrong.
    Error,
    /// What to look at.
    Warn,
    /// One event for each request.
    #[default]
    Info,
    /// For who works on the host.
    Debug,
    /// Everything.
    Trace,
}

/// The shape of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl Config {
    /// Reads the file at `named`, which must exist, or else
    /// `./jackfield.toml`, without which the defaults hold.
    ///
    /// # Errors
    /// When the file cannot be read, or says what it must not.
    pub fn load(named: Option<&Path>) -> Result<Self, ConfigError> {
        let file = named.unwrap_or(Path::new(DEFAULT_FILE));
        let file = std::path::absolute(file).map_err(|cause| ConfigError::read(file, cause))?;
        let base = file.parent().unwrap_or(Path::new("/"));
        match std::fs::read_to_string(&file) {
            Ok(text) => Self::parse(&text, &file),
            Err(cause) if named.is_none() && cause.kind() == std::io::ErrorKind::NotFound => {
                Self::defaults(base)
            }
            Err(cause) => Err(ConfigError::read(&file, cause)),
        }
    }

    /// Reads `text` as the content of `file`, whose folder relative paths
    /// start from. Touches no file.
    ///
    /// # Errors
    /// When the text is not TOML, holds an unknown key, or a value that does
    /// not fit; the error names the line.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let base = file.parent().unwrap_or(Path::new("."));
        let raw =
            raw::RawConfig::read(text).map_err(|fault| ConfigError::fault(file, text, fault))?;
        let config =
            check::check(raw, base).map_err(|fault| ConfigError::fault(file, text, fault))?;
        Ok(Self {
            source: Some(file.to_path_buf()),
            ..config
        })
    }

    /// What holds where no file says otherwise; `base` is where relative paths
    /// start from.
    ///
    /// # Errors
    /// Never, unless a default of ours does not fit its own check.
    pub fn defaults(base: &Path) -> Result<Self, ConfigError> {
        check::check(raw::RawConfig::default(), base)
            .map_err(|fault| ConfigError::fault(&base.join(DEFAULT_FILE), "", fault))
    }

    /// The socket that the operator's commands speak to.
    #[must_use]
    pub fn admin_socket(&self) -> PathBuf {
        self.state_dir.join("admin.sock")
    }

    /// The URL of the listener, once it is bound to `bound`.
    #[must_use]
    pub fn local_url(&self, bound: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let ip = match bound.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        };
        format!("{scheme}://{}", SocketAddr::new(ip, bound.port()))
    }

    /// The base URL that boxes are told: `public_url`, or the listener's own.
    #[must_use]
    pub fn box_url(&self, bound: SocketAddr) -> String {
        self.public_url
            .clone()
            .unwrap_or_else(|| self.local_url(bound))
    }
}

#[cfg(test)]
mod tests;
