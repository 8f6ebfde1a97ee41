//! The components under test, built once by the binary's own `plugin build`
//! and shared by every test through the target folder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// A crate that becomes a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plugin {
    /// The Anthropic proxy.
    Inference,
    /// Secrets per box.
    Egress,
    /// Fountain, of which a box reaches its own.
    Fountain,
    /// What agents report.
    Feedback,
    /// The example of a capability of one's own.
    Notes,
    /// Keeps, notes and owns what its request tells it to.
    Clerk,
    /// Another version with other bytes in it.
    Moody,
    /// Says whatever its request tells it to say.
    Liar,
    /// Does to its host whatever it can.
    Villain,
}

impl Plugin {
    fn name(self) -> &'static str {
        match self {
            Self::Inference => "inference",
            Self::Egress => "egress",
            Self::Fountain => "fountain",
            Self::Feedback => "feedback",
            Self::Notes => "notes",
            Self::Clerk => "clerk",
            Self::Moody => "moody",
            Self::Liar => "liar",
            Self::Villain => "villain",
        }
    }

    fn source(self) -> PathBuf {
        let root = root();
        match self {
            Self::Inference | Self::Egress | Self::Fountain | Self::Feedback => {
                root.join("plugins").join(self.name())
            }
            Self::Notes => root.join("plugins/examples").join(self.name()),
            Self::Clerk | Self::Moody | Self::Liar | Self::Villain => {
                root.join("tests/guests").join(self.name())
            }
        }
    }
}

/// The repository.
#[must_use]
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// The component, built if it is not, or if what it is made of is newer.
///
/// # Panics
/// When it cannot be built; the message holds what the build printed.
#[must_use]
pub fn component(binary: &Path, plugin: Plugin) -> PathBuf {
    let target = binary
        .parent()
        .and_then(Path::parent)
        .expect("the binary lies in a target folder");
    let built = target.join("test-plugins");
    let folder = built.join(plugin.name());
    fs::create_dir_all(&folder).expect("a folder");
    // One build at a time, over all test processes.
    let lock = File::create(built.join(format!("{}.lock", plugin.name()))).expect("a lock file");
    lock.lock().expect("a lock");
    if let Some(component) = fresh(&folder, plugin, binary) {
        return component;
    }
    build(binary, &plugin.source(), &folder);
    only_component(&folder)
        .unwrap_or_else(|| panic!("no component lies in {} after its build", folder.display()))
}

fn build(binary: &Path, source: &Path, folder: &Path) {
    let output = Command::new(binary)
        .args(["plugin", "build"])
        .arg(source)
        .arg("--out")
        .arg(folder)
        .current_dir(root())
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts");
    assert!(
        output.status.success(),
        "`plugin build {}` failed:\n{}{}",
        source.display(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn fresh(folder: &Path, plugin: Plugin, binary: &Path) -> Option<PathBuf> {
    let component = only_component(folder)?;
    let built = changed(&component)?;
    let root = root();
    let newest = [plugin.source(), root.join("sdk"), root.join("wit")]
        .iter()
        .filter_map(|part| newest(part))
        .chain(changed(binary))
        .max()?;
    (built > newest).then_some(component)
}

fn only_component(folder: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(folder).ok()?.filter_map(Result::ok);
    entries
        .find(|entry| entry.path().extension().is_some_and(|end| end == "wasm"))
        .map(|entry| entry.path())
}

fn newest(path: &Path) -> Option<SystemTime> {
    if path.is_file() {
        return changed(path);
    }
    let entries = fs::read_dir(path).ok()?.filter_map(Result::ok);
    entries.filter_map(|entry| newest(&entry.path())).max()
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}
