//! What a new project holds, as plain functions over texts: which worlds and
//! languages there are, what a name must be, how a template becomes a file.

use std::path::PathBuf;

use crate::author::carried::{self, Carried};
use crate::rules::names::{NameError, PluginName};
use crate::rules::paths;

/// A world of the contract that a project can be made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// A capability of a box.
    Capability,
}

/// A language that a project can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Rust.
    Rust,
}

/// Why there is no such project.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// The name is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Its prefix is the host's own.
    #[error(
        "a plugin named {name} would serve /{name}, which meets the host's own {taken}; choose \
         another name"
    )]
    Reserved {
        /// The name.
        name: String,
        /// What is there.
        taken: String,
    },
    /// There is no such world, or not yet.
    #[error(
        "this version makes no plugins of world {0:?}: its contract has world capability alone \
         (`--world capability`)"
    )]
    World(String),
    /// There is no such language, or not yet.
    #[error(
        "this version starts no projects in {0:?}, only in rust (`--lang rust`); a component that \
         another toolchain builds from the files in wit/ is loaded all the same"
    )]
    Language(String),
}

impl World {
    /// Reads a world's name.
    ///
    /// # Errors
    /// When this version has no such world.
    pub fn parse(text: &str) -> Result<Self, ProjectError> {
        match text {
            "capability" => Ok(Self::Capability),
            other => Err(ProjectError::World(shown(other))),
        }
    }
}

impl Language {
    /// Reads a language's name.
    ///
    /// # Errors
    /// When this version starts no projects in it.
    pub fn parse(text: &str) -> Result<Self, ProjectError> {
        match text {
            "rust" => Ok(Self::Rust),
            other => Err(ProjectError::Language(shown(other))),
        }
    }
}

/// A file of a project, by its path below the project's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProjectFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// A name that a project can have; `reserved` are the host's own prefixes.
pub(super) fn name(text: &str, reserved: &[&str]) -> Result<PluginName, ProjectError> {
    let name = PluginName::parse(text)?;
    let prefix = format!("/{name}");
    let meets = |taken: &&&str| {
        paths::tail(taken, &prefix).is_some() || paths::tail(&prefix, taken).is_some()
    };
    match reserved.iter().find(meets) {
        Some(taken) => Err(ProjectError::Reserved {
            name: text.to_owned(),
            taken: (*taken).to_owned(),
        }),
        None => Ok(name),
    }
}

/// All files of a new project.
pub(super) fn files(
    name: &PluginName,
    folder: &str,
    world: World,
    language: Language,
) -> Vec<ProjectFile> {
    let templates = match (world, language) {
        (World::Capability, Language::Rust) => carried::RUST_CAPABILITY,
    };
    let own = templates.iter().map(|template| ProjectFile {
        path: PathBuf::from(template.path),
        text: filled(template.text, name, folder),
    });
    own.chain(vendored()).collect()
}

/// The files of `vendor/`: SDK, test kit and contract, as they lie in this
/// version's own folders, so that no path between them changes.
pub(super) fn vendored() -> Vec<ProjectFile> {
    let file = |carried: &Carried| ProjectFile {
        path: PathBuf::from("vendor").join(carried.path),
        text: if carried.path.ends_with("Cargo.toml") {
            standing_alone(carried.text)
        } else {
            carried.text.to_owned()
        },
    };
    carried::VENDORED.iter().map(file).collect()
}

fn filled(template: &str, name: &PluginName, folder: &str) -> String {
    template
        .replace("{{name}}", name.as_str())
        .replace("{{folder}}", folder)
        .replace("{{Type}}", &type_name(name))
}

/// `my-notes` is `MyNotes`.
fn type_name(name: &PluginName) -> String {
    let word = |word: &str| {
        let mut characters = word.chars();
        let first = characters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(characters).collect::<String>()
    };
    name.as_str().split('-').map(word).collect()
}

/// A crate's manifest, less what it takes from a workspace that is not there.
fn standing_alone(manifest: &str) -> String {
    let line = |line: &str| match line {
        "version.workspace = true" => Some(format!("version = \"{}\"", env!("CARGO_PKG_VERSION"))),
        "edition.workspace = true" => Some("edition = \"2024\"".to_owned()),
        "rust-version.workspace = true" => Some(format!(
            "rust-version = \"{}\"",
            env!("CARGO_PKG_RUST_VERSION")
        )),
        "license.workspace = true" => Some(format!("license = \"{}\"", env!("CARGO_PKG_LICENSE"))),
        "publish.workspace = true" => Some("publish = false".to_owned()),
        "[lints]" | "workspace = true" => None,
        other => Some(other.to_owned()),
    };
    let lines: Vec<String> = manifest.lines().filter_map(line).collect();
    lines.join("\n") + "\n"
}

fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests;
