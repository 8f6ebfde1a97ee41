//! The demo's folder: fresh each time, mode 0700, gone at the end. And where
//! the shipped plugins' crates are, which are built into `target/`.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cli::plugin::{crates_under, target_dir};
use crate::plugins::component;

/// The folder, removed when this is dropped.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn make() -> Result<Self> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|cause| anyhow::anyhow!("no randomness: {cause}"))?;
        let name = format!("jackfield-demo-{:016x}", u64::from_ne_bytes(random));
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("could not make the demo's folder {}", path.display()))?;
        Ok(Self(path))
    }

    pub(super) fn config_file(&self) -> PathBuf {
        self.0.join("jackfield.toml")
    }

    /// Writes the configuration, and copies the components to where the host
    /// alone can change them.
    pub(super) fn fill(&self, config: &str, components: &[PathBuf]) -> Result<()> {
        let file = self.config_file();
        std::fs::write(&file, config)
            .with_context(|| format!("could not write {}", file.display()))?;
        let plugins = self.0.join("state/plugins");
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&plugins)
            .with_context(|| format!("could not make {}", plugins.display()))?;
        for component in components {
            let name = component.file_name().context("a component has no name")?;
            let copy = plugins.join(name);
            // A copy takes the original's mode along, which may be anything.
            std::fs::copy(component, &copy)
                .and_then(|_bytes| std::fs::set_permissions(&copy, Permissions::from_mode(0o600)))
                .with_context(|| format!("could not copy {}", component.display()))?;
        }
        Ok(())
    }
}

/// The demo's configuration.
pub(super) fn demo_config(listen: SocketAddr, anthropic: SocketAddr) -> String {
    format!(
        "# The demo's configuration: gone when the demo ends.\n\
         listen = \"{listen}\"\n\
         state_dir = \"./state\"\n\n\
         [upstreams.anthropic]\n\
         url = \"http://{anthropic}\"\n\
         allow_private = true\n"
    )
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It is in the system's temporary folder: what stays is cleared there.
        let _stays = std::fs::remove_dir_all(&self.0);
    }
}

/// Builds every plugin that ships, and says where the components are.
pub(super) fn build_plugins(progress: &dyn Fn(&str)) -> Result<Vec<PathBuf>> {
    let workspace = workspace()?;
    let crates = crates_under(&workspace.join("plugins"))?;
    let out = workspace.join("target/jackfield-plugins");
    let built = component::build(&crates, &target_dir(&crates), &out, &mut |line: &str| {
        progress(line)
    })
    .context("the demo's plugins could not be built")?;
    Ok(built.into_iter().map(|built| built.path).collect())
}

/// The workspace: around the crate that cargo runs, around the one that was
/// compiled, or here.
fn workspace() -> Result<PathBuf> {
    let run = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let compiled = Some(PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    let here = std::env::current_dir().ok();
    let around = |path: PathBuf| path.parent().map(Path::to_path_buf);
    let candidates = [run.and_then(around), compiled.and_then(around), here];
    for candidate in candidates.into_iter().flatten() {
        if !crates_under(&candidate.join("plugins"))?.is_empty() {
            return Ok(candidate);
        }
    }
    bail!(
        "the demo builds the plugins that ship, and their source is not here: \
         run it in a clone of the repository, with `cargo run --release -- serve --demo`"
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use crate::config::Config;
    use crate::rules::names::UpstreamName;

    use super::*;

    #[test]
    fn the_folder_is_its_own_and_goes() {
        let first = Folder::make().unwrap();
        let second = Folder::make().unwrap();
        assert_ne!(first.0, second.0);
        assert_eq!(first.0.metadata().unwrap().mode() & 0o777, 0o700);
        let source = tempfile::tempdir().unwrap();
        let component = source.path().join("a.wasm");
        std::fs::write(&component, "x").unwrap();
        std::fs::set_permissions(&component, Permissions::from_mode(0o664)).unwrap();
        let [listen, anthropic] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let config = demo_config(listen, anthropic);
        first.fill(&config, &[component]).unwrap();
        let config = Config::load(Some(&first.config_file())).unwrap();
        assert_eq!(config.listen.port(), 1);
        let mode = |path: PathBuf| path.metadata().unwrap().mode() & 0o777;
        assert_eq!(mode(config.plugins_dir.join("a.wasm")), 0o600);
        assert_eq!(mode(config.plugins_dir.clone()), 0o700);
        let upstream = &config.upstreams[&UpstreamName::parse("anthropic").unwrap()];
        assert!(upstream.allow_private && upstream.origin.port == 2);
        let path = first.0.clone();
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn the_workspace_is_found() {
        assert!(workspace().unwrap().join("plugins").is_dir());
    }
}
