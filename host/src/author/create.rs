//! Writing a new project, and renewing what one has vendored.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::author::project::{self, Language, ProjectError, ProjectFile, World};

/// Why a project could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// There is no such project.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// Something is there already.
    #[error("{0} is there already, and nothing is written over it; choose another name or folder")]
    Taken(PathBuf),
    /// It is no project of ours.
    #[error("{0} holds no vendor/sdk: it is no project that `jackfield plugin new` made")]
    NotOurs(PathBuf),
    /// A file could not be written.
    #[error("{path}: {cause}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

/// Makes the project of this name as a new folder below `parent`, and says
/// where it lies. `reserved` are the host's own prefixes.
///
/// # Errors
/// When the name is none, the folder is there already, or cannot be written.
pub fn create(
    parent: &Path,
    name: &str,
    reserved: &[&str],
    world: World,
    language: Language,
) -> Result<PathBuf, CreateError> {
    let name = project::name(name, reserved)?;
    let folder = parent.join(name.as_str());
    // Made and not looked for: nobody else can make it in between.
    fs::create_dir(&folder).map_err(|cause| {
        if cause.kind() == ErrorKind::AlreadyExists {
            CreateError::Taken(folder.clone())
        } else {
            file_error(&folder, cause)
        }
    })?;
    let files = project::files(&name, name.as_str(), world, language);
    write(&folder, &files)?;
    Ok(folder)
}

/// Puts this version's SDK, test kit and contract into a project's `vendor/`,
/// in the place of those that are there.
///
/// # Errors
/// When it is no project, or cannot be written.
pub fn renew(folder: &Path) -> Result<(), CreateError> {
    let vendor = folder.join("vendor");
    if !vendor.join("sdk/Cargo.toml").is_file() {
        return Err(CreateError::NotOurs(folder.to_owned()));
    }
    for part in ["sdk", "wit"] {
        let path = vendor.join(part);
        match fs::remove_dir_all(&path) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                return Err(file_error(&path, cause));
            }
            Ok(()) | Err(_) => {}
        }
    }
    write(folder, &project::vendored())
}

fn write(folder: &Path, files: &[ProjectFile]) -> Result<(), CreateError> {
    for file in files {
        let path = folder.join(&file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|cause| file_error(parent, cause))?;
        }
        fs::write(&path, &file.text).map_err(|cause| file_error(&path, cause))?;
    }
    Ok(())
}

fn file_error(path: &Path, cause: io::Error) -> CreateError {
    CreateError::File {
        path: path.to_owned(),
        cause,
    }
}

#[cfg(test)]
mod tests;
