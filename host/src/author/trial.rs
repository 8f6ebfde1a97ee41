//! Running a project's own tests on its built component, and reading what its
//! calls took.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

/// Why tests could not be run.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// Cargo could not be started.
    #[error("cannot run cargo: {0}; is the Rust toolchain installed and on the path?")]
    Cargo(io::Error),
    /// A file could not be read or written.
    #[error("{path}: {cause}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

/// What one call of the component took in one test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Noted {
    /// The test.
    pub test: String,
    /// The contract's function.
    pub function: String,
    /// Fuel: about one for each instruction.
    pub fuel: u64,
    /// Memory that the instance held when the call had ended, in bytes.
    pub memory: u64,
}

/// How the tests went.
#[derive(Debug)]
pub struct Trial {
    /// Whether all passed.
    pub passed: bool,
    /// What each call took, by test, in the order of the calls.
    pub noted: Vec<Noted>,
}

/// Runs the tests of the crate in `folder`, native ones and those that ask its
/// component. What cargo prints goes to standard error.
///
/// # Errors
/// When they could not be run. That one fails is no error.
pub fn run(
    folder: &Path,
    component: &Path,
    jackfield: &Path,
    arguments: &[String],
) -> Result<Trial, TrialError> {
    let costs = component.with_extension("costs.jsonl");
    match fs::remove_file(&costs) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
            return Err(file_error(&costs, cause));
        }
        Ok(()) | Err(_) => {}
    }
    let status = Command::new("cargo")
        .arg("test")
        .arg("--manifest-path")
        .arg(folder.join("Cargo.toml"))
        .args(arguments)
        .env("JACKFIELD", jackfield)
        .env("JACKFIELD_COMPONENT", component)
        .env("JACKFIELD_COSTS", &costs)
        .env_remove("JACKFIELD_VAULT_KEY")
        .stdin(Stdio::null())
        .stdout(io::stderr())
        .status()
        .map_err(TrialError::Cargo)?;
    let text = match fs::read_to_string(&costs) {
        Ok(text) => text,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => String::new(),
        Err(cause) => return Err(file_error(&costs, cause)),
    };
    Ok(Trial {
        passed: status.success(),
        noted: noted(&text),
    })
}

/// Reads what tests noted, a line of JSON each. Tests run side by side; a
/// stable sort brings each one's calls together.
fn noted(text: &str) -> Vec<Noted> {
    let lines = text.lines();
    let mut noted: Vec<Noted> = lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    noted.sort_by(|one, other| one.test.cmp(&other.test));
    noted
}

fn file_error(path: &Path, cause: io::Error) -> TrialError {
    TrialError::File {
        path: path.to_owned(),
        cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tests_calls_stand_together_in_their_order() {
        let line = |test: &str, function: &str| {
            format!(r#"{{"test":"{test}","function":"{function}","fuel":1,"memory":2}}"#)
        };
        let text = [
            line("b", "scopes"),
            line("a", "scopes"),
            line("b", "route"),
            "half a li".to_owned(),
            line("a", "resume"),
        ];
        let read = noted(&text.join("\n"));
        let read: Vec<(&str, &str)> = read
            .iter()
            .map(|noted| (noted.test.as_str(), noted.function.as_str()))
            .collect();
        let expected = [
            ("a", "scopes"),
            ("a", "resume"),
            ("b", "scopes"),
            ("b", "route"),
        ];
        assert_eq!(read, expected);
    }
}
