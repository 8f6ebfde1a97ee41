//! The component under test, and the command that runs it.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use jackfield_sdk::contract::{Answers, Need};
use serde::Serialize;

use crate::ask::Ask;
use crate::outcome::{Cost, Decided};
use crate::script::{Script, fail};
use crate::wire::{Hears, Ready, Says};

/// The `jackfield` command; on the path if it is not said.
const COMMAND: &str = "JACKFIELD";
/// The component; built if it is not said.
const COMPONENT: &str = "JACKFIELD_COMPONENT";
/// A file that what each call took is added to.
const COSTS: &str = "JACKFIELD_COSTS";

/// A component that is asked alone. Its requests take turns.
#[derive(Debug)]
pub struct Plugin {
    ready: Ready,
    line: Mutex<Line>,
}

#[derive(Debug)]
struct Line {
    command: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Plugin {
    /// The component of the crate whose tests these are, loaded once for all
    /// tests of a file.
    ///
    /// # Panics
    /// When it cannot be built or loaded; says why.
    #[must_use]
    pub fn under_test() -> &'static Self {
        static UNDER_TEST: OnceLock<Plugin> = OnceLock::new();
        UNDER_TEST.get_or_init(|| match env::var_os(COMPONENT) {
            Some(component) => Self::open(Path::new(&component)),
            None => Self::open(&build()),
        })
    }

    /// Any component.
    ///
    /// # Panics
    /// When it cannot be loaded; says why.
    #[must_use]
    pub fn open(component: &Path) -> Self {
        let mut command = Command::new(jackfield())
            .args(["plugin", "answer"])
            .arg(component)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|cause| no_command(&cause));
        let (Some(to), Some(from)) = (command.stdin.take(), command.stdout.take()) else {
            fail("the jackfield command has no pipes");
        };
        let from = BufReader::new(from);
        let mut line = Line { command, to, from };
        let ready = match line.hear() {
            Hears::Ready(ready) => ready,
            Hears::NoPlugin(reason) => fail(&format!(
                "{} is no plugin that a host would load: {reason}",
                component.display()
            )),
            other @ (Hears::Need(_) | Hears::Decided(_) | Hears::Mistake(_)) => {
                fail(&format!("jackfield said, out of turn: {other:?}"))
            }
        };
        note("(load)", std::slice::from_ref(&ready.cost));
        Self {
            ready,
            line: Mutex::new(line),
        }
    }

    /// Its name, as its manifest says it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.ready.name
    }

    /// What an operator would be asked to approve, such as `upstream:weather`.
    #[must_use]
    pub fn permissions(&self) -> &[String] {
        &self.ready.permissions
    }

    /// Asks what is to happen with a request, where nothing is there that the
    /// plugin could need.
    #[track_caller]
    #[must_use]
    pub fn ask(&self, ask: Ask) -> Decided {
        self.ask_in(ask, Script::new())
    }

    /// Asks, and answers what the plugin needs from a script.
    #[track_caller]
    #[must_use]
    pub fn ask_in(&self, ask: Ask, mut script: Script) -> Decided {
        self.ask_with(ask, |need| script.answer(need))
    }

    /// Asks, and has each need answered by a function.
    ///
    /// # Panics
    /// When what is asked or answered makes no sense; says what.
    #[track_caller]
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "a test makes it in place")]
    pub fn ask_with(&self, ask: Ask, mut answer: impl FnMut(&Need) -> Answers) -> Decided {
        // A test that failed in the middle of an exchange has left a need
        // open, which the next question closes.
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.say(&Says::Ask(&ask));
        loop {
            match line.hear() {
                Hears::Need(need) => {
                    let answers = answer(&need);
                    line.say(&Says::Answers(&answers));
                }
                Hears::Decided(told) => {
                    note(&test(), &told.costs);
                    return Decided::new(*told);
                }
                Hears::Mistake(reason) => fail(&reason),
                other @ (Hears::Ready(_) | Hears::NoPlugin(_)) => {
                    fail(&format!("jackfield said, out of turn: {other:?}"))
                }
            }
        }
    }
}

impl Line {
    fn say(&mut self, what: &Says<'_>) {
        let mut line = serde_json::to_vec(what).unwrap_or_else(|cause| fail(&cause.to_string()));
        line.push(b'\n');
        let sent = self.to.write_all(&line).and_then(|()| self.to.flush());
        if let Err(cause) = sent {
            fail(&format!("jackfield does not listen any more: {cause}"));
        }
    }

    fn hear(&mut self) -> Hears {
        let mut line = String::new();
        match self.from.read_line(&mut line) {
            Ok(0) => fail("jackfield ended; its reasons stand on standard error"),
            Ok(_) => serde_json::from_str(&line).unwrap_or_else(|cause| {
                fail(&format!(
                    "the kit and the jackfield command are of different versions ({cause}); \
                     renew vendor/ with `jackfield plugin vendor`"
                ))
            }),
            Err(cause) => fail(&format!("jackfield cannot be heard: {cause}")),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // It ends when its input does; nobody waits for what it says then.
        let _ended = self.command.kill();
        let _reaped = self.command.wait();
    }
}

fn jackfield() -> PathBuf {
    env::var_os(COMMAND).map_or_else(|| PathBuf::from("jackfield"), PathBuf::from)
}

fn no_command(cause: &std::io::Error) -> ! {
    fail(&format!(
        "cannot run {}: {cause}; run the tests with `jackfield plugin test`, or put jackfield on \
         the path",
        jackfield().display()
    ))
}

/// Has the command build the crate in the current folder, which is where cargo
/// runs a crate's tests.
fn build() -> PathBuf {
    let out = Path::new("target/plugins/under-test");
    let built = Command::new(jackfield())
        .args(["plugin", "build", ".", "--out"])
        .arg(out)
        .stdout(Stdio::null())
        .status()
        .unwrap_or_else(|cause| no_command(&cause));
    if !built.success() {
        fail("the component could not be built; the reasons stand above");
    }
    let here = fs::canonicalize(".").unwrap_or_default();
    let name = here.file_name().unwrap_or_default().to_string_lossy();
    out.join(format!("{name}.wasm"))
}

/// The test that runs here: its thread is called by its name.
fn test() -> String {
    let thread = std::thread::current();
    thread.name().unwrap_or("(a thread)").to_owned()
}

/// Adds what calls took to the file that `jackfield plugin test` reads.
fn note(test: &str, costs: &[Cost]) {
    #[derive(Serialize)]
    struct Noted<'a> {
        test: &'a str,
        #[serde(flatten)]
        cost: &'a Cost,
    }
    let Some(path) = env::var_os(COSTS) else {
        return;
    };
    let mut lines = String::new();
    for cost in costs {
        if let Ok(line) = serde_json::to_string(&Noted { test, cost }) {
            lines += &line;
            lines.push('\n');
        }
    }
    // One write each, so that lines of tests that run side by side stay whole.
    let noted = OpenOptions::new().append(true).create(true).open(path);
    if let Err(cause) = noted.and_then(|mut file| file.write_all(lines.as_bytes())) {
        fail(&format!("what the calls took cannot be noted: {cause}"));
    }
}
