//! What can go wrong with plugins: while the host starts, while one is loaded,
//! and while one is asked.

use std::io;
use std::path::PathBuf;

use crate::plugins::component::BuildError;
use crate::rules::manifest_check::ManifestError;
use crate::rules::names::PluginName;
use crate::rules::signature::SignatureRefusal;
use crate::store::StoreError;

/// Why plugins cannot be had at all.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The engine refused its settings.
    #[error("the WebAssembly engine cannot start: {0}")]
    Engine(String),
    /// No thread for the clock.
    #[error("the plugins' clock cannot start: {0}")]
    Clock(io::Error),
    /// The folder for compiled code.
    #[error("{path} cannot hold compiled plugins: {reason}")]
    Cache {
        /// The folder.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// The folder for versions that are kept.
    #[error("{path} cannot hold the versions of plugins: {reason}")]
    Versions {
        /// The folder.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// Nothing of that name waits.
    #[error("no version of {0} waits for you; `jackfield plugin list` shows what was found")]
    NotWaiting(String),
    /// Several versions of it wait.
    #[error("several versions of {name} wait: pass the hash of the one you mean, {hashes}")]
    SeveralWait {
        /// The plugin.
        name: String,
        /// Their hashes.
        hashes: String,
    },
    /// There is no version to go back to.
    #[error(
        "{name} has no other version to go back to; `jackfield plugin history {name}` shows what there was"
    )]
    NoVersion {
        /// The plugin.
        name: String,
    },
    /// That version is not kept.
    #[error("{hash} is no version that was live as {name} and is kept; kept are {kept}")]
    NotKept {
        /// The plugin.
        name: String,
        /// Which version was meant.
        hash: String,
        /// Those that are.
        kept: String,
    },
    /// Nothing is tried.
    #[error(
        "no version of {0} is tried beside the live one; `jackfield plugin load FILE --shadow` begins it"
    )]
    NotTried(String),
    /// A canary is not compared.
    #[error(
        "the version of {0} that is tried serves boxes itself, and is compared with nothing; load it with --shadow"
    )]
    NotShadow(String),
    /// The version that is tried cannot go live.
    #[error("{name} {hash} cannot go live: {reason}")]
    NotPromoted {
        /// The plugin.
        name: String,
        /// Which version.
        hash: String,
        /// Why not.
        reason: Box<LoadError>,
    },
    /// That version may not go live again.
    #[error("{name} cannot go back to {hash}: {reason}")]
    NotBack {
        /// The plugin.
        name: String,
        /// Which version was meant.
        hash: String,
        /// Why not.
        reason: Box<LoadError>,
    },
    /// Nobody signed what should be approved by its signer.
    #[error(
        "{0} is not signed by a key of its trusted_keys, so only its hash can be approved: leave --signer out"
    )]
    NoSigner(String),
    /// That hash is not blocked.
    #[error("{0} is not blocked; `jackfield plugin blocked` shows what is")]
    NotBlocked(String),
    /// The approvals.
    #[error("the approvals of plugins cannot be read or written: {0}")]
    Store(#[from] StoreError),
    /// No plugin waits under that name.
    #[error(
        "no plugin named {0} is known: none lies in the plugins folder or was loaded; `jackfield plugin list` shows what was found"
    )]
    Unknown(String),
    /// Nobody approved it, so nothing can be taken back.
    #[error("{0} is not approved; `jackfield plugin list` shows what is")]
    NotApproved(String),
    /// Several components were approved under that name, and none is live.
    #[error(
        "several components are approved as {name}: pass the hash of the one you mean, {hashes}"
    )]
    Several {
        /// The name.
        name: String,
        /// Their hashes.
        hashes: String,
    },
    /// It was found and is not accepted.
    #[error("the plugin {name} cannot be approved: {reason}")]
    NotAccepted {
        /// The plugin.
        name: String,
        /// Why.
        reason: Box<LoadError>,
    },
    /// It could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl PluginError {
    pub(crate) fn engine(cause: wasmtime::Error) -> Self {
        Self::Engine(format!("{cause:#}"))
    }

    pub(crate) fn clock(cause: io::Error) -> Self {
        Self::Clock(cause)
    }
}

/// Why one plugin is not loaded. The others are.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The folder or file cannot be read.
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    /// Somebody else could have put it there.
    #[error("others can write {path}; run: chmod go-w {path}")]
    Writable {
        /// The folder or file.
        path: String,
    },
    /// Somebody else owns it.
    #[error("{path} belongs to user {owner}; run: chown {wanted} {path}")]
    Owned {
        /// The folder or file.
        path: String,
        /// Its owner.
        owner: u32,
        /// Who should own it.
        wanted: u32,
    },
    /// It is larger than any plugin should be.
    #[error("it has {size} bytes, and a plugin at most {most}")]
    Large {
        /// Its size.
        size: u64,
        /// The cap.
        most: u64,
    },
    /// It changed under the reader's eyes.
    #[error("it was changed while it was read; it is read again once it lies still")]
    Changed,
    /// Its hash is blocked.
    #[error("its hash is blocked; `jackfield plugin blocked` shows since when")]
    Blocked,
    /// The operator turned it down.
    #[error("it was rejected; `jackfield plugin approve HASH` takes that back")]
    Rejected,
    /// It may not go live without somebody's yes.
    #[error("its approval was taken back; `jackfield plugin list` shows what waits")]
    Unapproved,
    /// Its signature.
    #[error(transparent)]
    Signature(#[from] SignatureRefusal),
    /// Native code that somebody compiled.
    #[error("it is compiled code; only the host compiles: give it the component")]
    Precompiled,
    /// Not binary WebAssembly.
    #[error("it is not binary WebAssembly; text is not taken: encode it first")]
    NotWasm,
    /// A core module.
    #[error("it is a core module, not a component; `jackfield plugin build` makes components")]
    CoreModule,
    /// A WIT package.
    #[error("it is a WIT package, not a component")]
    WitPackage,
    /// The bytes are malformed.
    #[error("it is malformed: {0}")]
    Malformed(String),
    /// It wants something of the host.
    #[error("it imports {0}, which no plugin may; a plugin only computes")]
    Import(String),
    /// It is of another world.
    #[error("it does not fit world capability of jackfield:plugin@0.1.0: {0}")]
    World(String),
    /// It cannot be compiled.
    #[error("it cannot be compiled: {0}")]
    Compile(String),
    /// `describe` failed.
    #[error("it could not say what it is: {0}")]
    Describe(#[from] CallFault),
    /// What it says is not accepted.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// Nothing that it could be tried beside.
    #[error("no version of {0} is live that it could be tried beside; load it as it is")]
    NothingBeside(PluginName),
    /// It is live already.
    #[error("it is the live version of {0} itself, and cannot be tried beside it")]
    IsLive(PluginName),
    /// Two files have one name.
    #[error("another file of the folder is a plugin named {0} too; remove one of them")]
    SameName(PluginName),
    /// Its bytes could not be put down.
    #[error("it cannot be kept: {0}")]
    Keep(io::Error),
    /// A prefix is taken.
    #[error("its prefix {prefix} meets {taken} of {by}; a prefix belongs to one plugin")]
    Prefix {
        /// What it wants.
        prefix: String,
        /// What is there.
        taken: String,
        /// Whose that is.
        by: String,
    },
    /// The approvals failed.
    #[error("its approval cannot be read or written: {0}")]
    Store(#[from] StoreError),
    /// Our own fault.
    #[error("loading it failed inside the host: {0}")]
    Host(String),
}

/// Why a plugin's call brought nothing. Its text is for the box: it names the
/// plugin and the cause, and holds nothing of the plugin's memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the plugin {plugin} {fault}")]
pub struct CallFault {
    /// The plugin.
    pub plugin: String,
    /// What happened.
    pub fault: Fault,
}

/// What happened to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It trapped.
    #[error("failed ({0})")]
    Trapped(&'static str),
    /// It computed for too long.
    #[error("was stopped: it computed for longer than {0} ms")]
    TimedOut(u64),
    /// It wanted too much memory.
    #[error("was stopped: it wanted more than {0} bytes of memory")]
    OutOfMemory(usize),
    /// It said too much.
    #[error("said too much ({0}) and is not listened to")]
    TooLarge(&'static str),
    /// It said something that is not of the contract.
    #[error("answered nonsense ({0})")]
    Nonsense(&'static str),
    /// No instance came free.
    #[error(
        "is busy with other requests (instances_per_plugin, plugin_instances); try again in a moment"
    )]
    Busy,
    /// Our own fault.
    #[error("could not be asked; the host's log says why")]
    Host,
}

impl Fault {
    /// Whether the plugin is at fault, and not its load or the host.
    #[must_use]
    pub fn is_the_plugins(self) -> bool {
        match self {
            Self::Trapped(_)
            | Self::TimedOut(_)
            | Self::OutOfMemory(_)
            | Self::TooLarge(_)
            | Self::Nonsense(_) => true,
            Self::Busy | Self::Host => false,
        }
    }

    /// The word for logs and metrics.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Trapped(_) => "trapped",
            Self::TimedOut(_) => "timed_out",
            Self::OutOfMemory(_) => "out_of_memory",
            Self::TooLarge(_) => "too_large",
            Self::Nonsense(_) => "nonsense",
            Self::Busy => "busy",
            Self::Host => "host",
        }
    }
}
