//! From a plugin's crate to a component on disk: finds the Wasm target, runs
//! cargo, and encodes what comes out.
//!
//! It runs the author's own toolchain and never what the toolchain makes. Its
//! functions block: call them off the async threads.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use wit_component::ComponentEncoder;

/// What a folder and a component are made with, whatever the umask says: the
/// host loads nothing that others could have written.
const FOLDER_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;

/// Write, for the group and for everybody else.
const OTHERS_WRITE: u32 = 0o022;

/// A folder that is shared on purpose, such as `/tmp`.
const STICKY: u32 = 0o1000;

const TARGET: &str = "wasm32-unknown-unknown";

/// Small enough to be reset in no time, deep enough for code that decides.
const STACK: &str = "-C link-arg=-zstack-size=65536";

const PROFILE: [&str; 5] = [
    "profile.release.opt-level=\"s\"",
    "profile.release.lto=true",
    "profile.release.strip=true",
    "profile.release.panic=\"abort\"",
    "profile.release.codegen-units=1",
];

/// What the build must not inherit: the vault's key, and flags that are meant
/// for the host's own build.
const NOT_INHERITED: [&str; 7] = [
    "JACKFIELD_VAULT_KEY",
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
];

const NO_TARGET: &str = "the Rust target wasm32-unknown-unknown is missing and rustup could not \
add it. Either run `rustup target add wasm32-unknown-unknown`, or, on Debian without rustup, \
install the distribution's Rust with its sources and build the crate by hand:\n  \
apt-get install -y --no-install-recommends rustc-web rust-web-src\n  \
RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 \
CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$(/usr/bin/rustc --print sysroot)/lib/rustlib/\
x86_64-unknown-linux-gnu/bin/rust-lld cargo build --release --target wasm32-unknown-unknown \
-Z build-std=std,panic_abort";

/// Why a plugin could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// There is no crate.
    #[error("{0} holds no Cargo.toml: name the folder of a plugin's crate")]
    NoCrate(PathBuf),
    /// The folder has no name that a component could carry.
    #[error("{0} has no name that a component could be called by")]
    NoName(PathBuf),
    /// The Wasm target is not there.
    #[error("{NO_TARGET}")]
    NoTarget,
    /// A tool could not be started.
    #[error("cannot run {tool}: {cause}; is the Rust toolchain installed and on the path?")]
    Tool {
        /// Which.
        tool: &'static str,
        /// Why.
        cause: io::Error,
    },
    /// Cargo said no; its reasons are on standard error.
    #[error("cargo could not build {0}; its messages stand above")]
    Cargo(String),
    /// The crate made no Wasm module.
    #[error("{0} made no Wasm module: its Cargo.toml needs [lib] crate-type = [\"cdylib\"]")]
    NoModule(String),
    /// The module is no component of ours.
    #[error("{name} cannot be made a component: {reason}")]
    Encode {
        /// The plugin.
        name: String,
        /// Why.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {cause}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

/// A component that lies in the plugins folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// The crate's folder name.
    pub name: String,
    /// The component.
    pub path: PathBuf,
}

/// Builds plugin crates and puts each as `<folder name>.wasm` into
/// `plugins_dir`. Crates of one workspace share one run of cargo, all crates
/// share `target_dir`, and builds that share it wait for each other. Cargo's
/// progress goes to standard error; `say` is told what else happens. The umask
/// does not matter: others can read the folder and its components, and write
/// neither.
///
/// # Errors
/// Says what is missing or wrong, and what to do about it.
pub fn build(
    crates: &[PathBuf],
    target_dir: &Path,
    plugins_dir: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Built>, BuildError> {
    let _turn = take_turn(target_dir)?;
    make_folder(plugins_dir, say).map_err(|cause| file_error(plugins_dir, cause))?;
    let target_dir = canonical(target_dir)?;
    have_target(say)?;
    let mut built = Vec::new();
    for (workspace, members) in by_workspace(crates)? {
        let modules = cargo_build(&workspace, &members, &target_dir)?;
        for member in members {
            let module = modules
                .iter()
                .find(|artifact| artifact.manifest_path == member.manifest)
                .and_then(Artifact::module)
                .ok_or_else(|| BuildError::NoModule(member.name.clone()))?;
            let component = encode(&member.name, module)?;
            let path = plugins_dir.join(format!("{}.wasm", member.name));
            write_whole(&path, &component)?;
            built.push(Built {
                name: member.name,
                path,
            });
        }
    }
    Ok(built)
}

struct Member {
    name: String,
    package: String,
    manifest: PathBuf,
}

/// Makes the folder, or takes others' write permission from the one that is
/// there: the host would refuse all that lies in it. One that is shared on
/// purpose is left as it is.
fn make_folder(path: &Path, say: &mut dyn FnMut(&str)) -> io::Result<()> {
    if !path.exists() {
        let mut maker = DirBuilder::new();
        maker.recursive(true).mode(FOLDER_MODE).create(path)?;
        return fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE));
    }
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & STICKY != 0 || mode & OTHERS_WRITE == 0 {
        return Ok(());
    }
    say(&format!("others could write {}: closed", path.display()));
    fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS_WRITE))
}

fn take_turn(target_dir: &Path) -> Result<File, BuildError> {
    fs::create_dir_all(target_dir).map_err(|cause| file_error(target_dir, cause))?;
    let path = target_dir.join("jackfield-build.lock");
    let file = File::create(&path).map_err(|cause| file_error(&path, cause))?;
    file.lock().map_err(|cause| file_error(&path, cause))?;
    Ok(file)
}

fn have_target(say: &mut dyn FnMut(&str)) -> Result<(), BuildError> {
    if target_is_there()? {
        return Ok(());
    }
    say(
        "the Rust target wasm32-unknown-unknown is missing; running: rustup target add wasm32-unknown-unknown",
    );
    let added = command("rustup")
        .args(["target", "add", TARGET])
        .status()
        .is_ok_and(|status| status.success());
    if added && target_is_there()? {
        return Ok(());
    }
    Err(BuildError::NoTarget)
}

fn target_is_there() -> Result<bool, BuildError> {
    let output = command("rustc")
        .args(["--print", "sysroot"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|cause| BuildError::Tool {
            tool: "rustc",
            cause,
        })?;
    let sysroot = String::from_utf8_lossy(&output.stdout).into_owned();
    let libraries = Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET);
    Ok(libraries.join("lib").is_dir())
}

fn by_workspace(crates: &[PathBuf]) -> Result<Vec<(PathBuf, Vec<Member>)>, BuildError> {
    let mut known: Vec<Metadata> = Vec::new();
    let mut groups: Vec<(PathBuf, Vec<Member>)> = Vec::new();
    for folder in crates {
        let folder = canonical(folder)?;
        let manifest = folder.join("Cargo.toml");
        if !manifest.is_file() {
            return Err(BuildError::NoCrate(folder));
        }
        let name = folder.file_name().and_then(|name| name.to_str());
        let Some(name) = name.map(ToOwned::to_owned) else {
            return Err(BuildError::NoName(folder));
        };
        if !known.iter().any(|each| each.package(&manifest).is_some()) {
            known.push(metadata(&manifest)?);
        }
        let found = known
            .iter()
            .find_map(|each| Some((each.manifest(), each.package(&manifest)?.id.clone())));
        let (workspace, package) =
            found.ok_or_else(|| BuildError::Cargo(manifest.display().to_string()))?;
        let member = Member {
            name,
            package,
            manifest,
        };
        match groups.iter_mut().find(|(root, _)| *root == workspace) {
            Some((_, members)) => members.push(member),
            None => groups.push((workspace, vec![member])),
        }
    }
    Ok(groups)
}

/// A workspace, in cargo's own words.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    manifest_path: PathBuf,
}

impl Metadata {
    fn manifest(&self) -> PathBuf {
        self.workspace_root.join("Cargo.toml")
    }

    fn package(&self, manifest: &Path) -> Option<&Package> {
        let mut packages = self.packages.iter();
        packages.find(|package| package.manifest_path == manifest)
    }
}

fn metadata(manifest: &Path) -> Result<Metadata, BuildError> {
    let output = command("cargo")
        .args(["metadata", "--no-deps", "--format-version=1"])
        .arg("--manifest-path")
        .arg(manifest)
        .stderr(Stdio::inherit())
        .output()
        .map_err(cargo_error)?;
    serde_json::from_slice(&output.stdout)
        .map_err(|_| BuildError::Cargo(manifest.display().to_string()))
}

/// One line of cargo's own report; what does not fit is some other message.
#[derive(Deserialize)]
struct Artifact {
    reason: String,
    manifest_path: PathBuf,
    filenames: Vec<PathBuf>,
}

impl Artifact {
    fn module(&self) -> Option<&Path> {
        self.filenames
            .iter()
            .find(|path| path.extension().is_some_and(|end| end == "wasm"))
            .map(PathBuf::as_path)
    }
}

fn cargo_build(
    workspace: &Path,
    members: &[Member],
    target_dir: &Path,
) -> Result<Vec<Artifact>, BuildError> {
    let mut cargo = command("cargo");
    cargo
        .args(["build", "--release", "--target", TARGET])
        .arg("--message-format=json-render-diagnostics")
        .arg("--manifest-path")
        .arg(workspace)
        .arg("--target-dir")
        .arg(target_dir)
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS", STACK)
        .stdout(Stdio::piped());
    for setting in PROFILE {
        cargo.args(["--config", setting]);
    }
    for member in members {
        cargo.args(["--package", &member.package]);
    }
    let mut child = cargo.spawn().map_err(cargo_error)?;
    let mut artifacts = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(cargo_error)?;
            if let Ok(artifact) = serde_json::from_str::<Artifact>(&line)
                && artifact.reason == "compiler-artifact"
            {
                artifacts.push(artifact);
            }
        }
    }
    let status = child.wait().map_err(cargo_error)?;
    if status.success() {
        return Ok(artifacts);
    }
    let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
    Err(BuildError::Cargo(names.join(", ")))
}

fn encode(name: &str, module: &Path) -> Result<Vec<u8>, BuildError> {
    let bytes = fs::read(module).map_err(|cause| file_error(module, cause))?;
    ComponentEncoder::default()
        .module(&bytes)
        .and_then(|encoder| encoder.validate(true).encode())
        .map_err(|cause| BuildError::Encode {
            name: name.to_owned(),
            reason: format!("{cause:#}"),
        })
}

/// Whoever reads the folder sees the old component or the new one. One that
/// has not changed keeps its file, which others can write no longer.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return open_to_readers(path);
    }
    let half = path.with_extension("wasm.half");
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .open(&half)
        .and_then(|mut file| file.write_all(bytes))
        .map_err(|cause| file_error(&half, cause))?;
    open_to_readers(&half)?;
    fs::rename(&half, path).map_err(|cause| file_error(path, cause))
}

fn open_to_readers(path: &Path) -> Result<(), BuildError> {
    fs::set_permissions(path, Permissions::from_mode(FILE_MODE))
        .map_err(|cause| file_error(path, cause))
}

fn command(tool: &str) -> Command {
    let mut command = Command::new(tool);
    command.stdin(Stdio::null());
    for name in NOT_INHERITED {
        command.env_remove(name);
    }
    command
}

fn canonical(path: &Path) -> Result<PathBuf, BuildError> {
    fs::canonicalize(path).map_err(|cause| file_error(path, cause))
}

fn cargo_error(cause: io::Error) -> BuildError {
    BuildError::Tool {
        tool: "cargo",
        cause,
    }
}

fn file_error(path: &Path, cause: io::Error) -> BuildError {
    BuildError::File {
        path: path.to_owned(),
        cause,
    }
}

#[cfg(test)]
mod tests;
