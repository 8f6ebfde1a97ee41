//! Where a value comes from: a file, standard input, or a terminal that does
//! not show what is typed. Never an argument.

use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use zeroize::Zeroizing;

/// More than any value may have; the host says what is too long.
const MAX_READ: usize = 128 * 1024;

/// Where the value is.
#[derive(Debug, Clone, Args)]
pub(super) struct From {
    /// Read the value from this file [default: standard input]
    #[arg(long, value_name = "FILE")]
    pub(super) from_file: Option<PathBuf>,
}

impl From {
    /// Reads the value; one newline at its end is not part of it.
    pub(super) fn read(&self, what: &str) -> Result<Zeroizing<Vec<u8>>> {
        let mut value = match &self.from_file {
            Some(path) => read_file(path)?,
            None if std::io::stdin().is_terminal() => prompt(what)?,
            None => read_all(std::io::stdin()).context("could not read standard input")?,
        };
        trim_newline(&mut value);
        if value.is_empty() {
            bail!("{what} is empty: give it on standard input or with --from-file");
        }
        Ok(value)
    }
}

fn read_file(path: &Path) -> Result<Zeroizing<Vec<u8>>> {
    File::open(path)
        .and_then(read_all)
        .with_context(|| format!("could not read {}", path.display()))
}

/// The buffer has room for all that is read: one that grew would leave copies
/// of the value behind.
fn read_all(from: impl Read) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let mut value = Zeroizing::new(Vec::with_capacity(2 * MAX_READ));
    from.take(MAX_READ as u64).read_to_end(&mut value)?;
    Ok(value)
}

fn trim_newline(value: &mut Vec<u8>) {
    if value.ends_with(b"\r\n") {
        value.truncate(value.len() - 2);
    } else if value.ends_with(b"\n") {
        value.truncate(value.len() - 1);
    }
}

/// Reads one line from the terminal, which shows nothing of it. Keys are read
/// one by one, so that Ctrl-C leaves the terminal as it was.
fn prompt(what: &str) -> Result<Zeroizing<Vec<u8>>> {
    let _ = write!(std::io::stderr(), "{what} (not shown): ");
    let _quiet =
        Quiet::start().context("could not quiet the terminal; give the value on standard input")?;
    let mut line = Zeroizing::new(Vec::with_capacity(MAX_READ));
    for byte in std::io::stdin().lock().bytes() {
        match byte.context("could not read the terminal")? {
            b'\n' | b'\r' | END => break,
            INTERRUPT => bail!("stopped"),
            BACKSPACE | DELETE => {
                line.pop();
            }
            KILL => line.clear(),
            _ if line.len() == MAX_READ => bail!("{what} is too long"),
            byte => line.push(byte),
        }
    }
    let _ = writeln!(std::io::stderr());
    Ok(line)
}

const INTERRUPT: u8 = 3;
const END: u8 = 4;
const BACKSPACE: u8 = 8;
const KILL: u8 = 21;
const DELETE: u8 = 127;

/// The terminal shows nothing for as long as this lives.
struct Quiet(Termios);

impl Quiet {
    fn start() -> rustix::io::Result<Self> {
        let before = tcgetattr(std::io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // Nothing better can be done when the terminal is gone.
        let _gone = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_newline_at_the_end_is_not_part_of_a_value() {
        let check = |text: &str, expected: &str| {
            let mut value = text.as_bytes().to_vec();
            trim_newline(&mut value);
            assert_eq!(value, expected.as_bytes(), "{text:?}");
        };
        check("key", "key");
        check("key\n", "key");
        check("key\r\n", "key");
        check("key\n\n", "key\n");
        check("key\r", "key\r");
        check(" key \n", " key ");
        check("\n", "");
    }

    #[test]
    fn a_file_is_read_and_an_empty_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("value");
        let from = From {
            from_file: Some(path.clone()),
        };
        assert!(
            from.read("the value")
                .unwrap_err()
                .to_string()
                .contains("could not read")
        );
        std::fs::write(&path, "\n").unwrap();
        assert!(
            from.read("the value")
                .unwrap_err()
                .to_string()
                .contains("is empty")
        );
        std::fs::write(&path, "sk-1\n").unwrap();
        assert_eq!(from.read("the value").unwrap().as_slice(), b"sk-1");
    }
}
