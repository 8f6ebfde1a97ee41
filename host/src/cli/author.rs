//! `jackfield plugin new|test|dev|vendor`: what a plugin's author does.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::Subcommand;

use crate::author::{self, Language, Noted, Sources, World};
use crate::chant::routes::RESERVED;
use crate::cli::plugin::{out_folder, target_dir};
use crate::cli::print::{Printer, table};
use crate::config::Config;
use crate::plugins::alone;
use crate::plugins::component::{self, Built};

#[derive(Debug, Subcommand)]
pub enum AuthorCommand {
    /// Make a project for a new plugin: it builds, tests and runs as it is
    #[command(after_help = "\
Examples:
  jackfield plugin new weather               ./weather, a capability in Rust
  cd weather && jackfield plugin test        its tests, and what each call takes

The project carries the SDK, the test kit and the contract in vendor/, so it
needs this command, a Rust toolchain and the crate registry, and nothing else.
Nothing is written over: a folder of that name is left as it is.")]
    New {
        /// The plugin's name, which is its folder's, its capability's and its prefix's
        name: String,
        /// What it is to be; this version's contract has `capability`
        #[arg(long, default_value = "capability")]
        world: String,
        /// What it is to be written in; this version starts projects in `rust`
        #[arg(long, default_value = "rust")]
        lang: String,
    },
    /// Build a plugin and run its tests: natively, and on the component
    #[command(after_help = "\
Examples:
  jackfield plugin test                      the crate in this folder
  jackfield plugin test ../weather
  jackfield plugin test -- --test component  arguments for cargo test

Prints what each call of the component took: fuel, which is about one for each
instruction and the same on every machine, and the memory that the instance
held. Exits with 1 when a test fails.")]
    Test {
        /// The plugin's crate
        #[arg(default_value = ".")]
        dir: PathBuf,
        /// What else `cargo test` is told
        #[arg(last = true, value_name = "CARGO")]
        cargo: Vec<String>,
    },
    /// Build a plugin again at each change, until you end it
    #[command(after_help = "\
Examples:
  jackfield plugin dev                       the crate in this folder, into plugins_dir
  jackfield plugin dev ../weather --out built

The component takes its place in one step, and only when it was built: what
lies there stays until then. Errors stand in this terminal.")]
    Dev {
        /// The plugin's crate
        #[arg(default_value = ".")]
        dir: PathBuf,
        /// Where the component goes [default: plugins_dir]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Put this version's SDK, test kit and contract into a project's vendor/
    Vendor {
        /// The project
        #[arg(default_value = ".")]
        dir: PathBuf,
    },
    /// Answer the test kit about a component, over standard input and output
    #[command(hide = true)]
    Answer {
        /// The component
        component: PathBuf,
    },
}

pub(super) async fn run(config: &Config, printer: &Printer, command: AuthorCommand) -> Result<()> {
    match command {
        AuthorCommand::New { name, world, lang } => new(printer, &name, &world, &lang),
        AuthorCommand::Test { dir, cargo } => test(printer, &dir, &cargo),
        AuthorCommand::Dev { dir, out } => dev(config, printer, &dir, out).await,
        AuthorCommand::Vendor { dir } => {
            author::renew(&dir)?;
            let vendor = dir.join("vendor");
            printer.answer(&serde_json::json!({ "renewed": vendor }), || {
                format!("{} is of this version now", vendor.display())
            })
        }
        AuthorCommand::Answer { component } => {
            let bytes = fs::read(&component)
                .with_context(|| format!("could not read {}", component.display()))?;
            alone::answer(&bytes, io::stdin().lock(), io::stdout().lock())
                .await
                .context("the test kit cannot be answered")
        }
    }
}

fn new(printer: &Printer, name: &str, world: &str, lang: &str) -> Result<()> {
    let (world, language) = (World::parse(world)?, Language::parse(lang)?);
    let folder = author::create(Path::new("."), name, RESERVED, world, language)?;
    let shown = folder.strip_prefix(".").unwrap_or(&folder);
    printer.answer(&serde_json::json!({ "created": shown }), || {
        let shown = shown.display();
        format!(
            "{shown} is there. Next:\n  cd {shown}\n  jackfield plugin test\n  \
             jackfield plugin build --out built"
        )
    })
}

fn test(printer: &Printer, dir: &Path, cargo: &[String]) -> Result<()> {
    let dirs = [dir.to_owned()];
    let target = target_dir(&dirs);
    let mut say = |line: &str| printer.note(line);
    let built = component::build(&dirs, &target, &target.join("under-test"), &mut say)?;
    let component = only(built)?.path;
    let component = component
        .canonicalize()
        .with_context(|| format!("could not find {}", component.display()))?;
    let jackfield = std::env::current_exe().context("this command does not find itself")?;
    let trial = author::run(dir, &component, &jackfield, cargo)?;
    printer.answer(
        &serde_json::json!({ "passed": trial.passed, "calls": trial.noted }),
        || costs(&trial.noted),
    )?;
    if !trial.passed {
        bail!("a test failed, or could not be built; cargo's messages stand above");
    }
    Ok(())
}

fn costs(noted: &[Noted]) -> String {
    if noted.is_empty() {
        return "no test asked the component; see `tests/component.rs` of a new project".to_owned();
    }
    let row = |noted: &Noted| {
        [
            noted.test.clone(),
            noted.function.clone(),
            noted.fuel.to_string(),
            format!("{} KiB", noted.memory.div_ceil(1024)),
        ]
    };
    let rows: Vec<[String; 4]> = noted.iter().map(row).collect();
    table(["TEST", "CALL", "FUEL", "MEMORY"], &rows)
}

async fn dev(config: &Config, printer: &Printer, dir: &Path, out: Option<PathBuf>) -> Result<()> {
    let out = out_folder(config, out)?;
    let dirs = vec![dir.to_owned()];
    let target = target_dir(&dirs);
    let mut sources =
        Sources::look(dir).with_context(|| format!("could not read {}", dir.display()))?;
    loop {
        let (dirs, target, out) = (dirs.clone(), target.clone(), out.clone());
        let building = tokio::task::spawn_blocking(move || {
            let mut said = Vec::new();
            let built =
                component::build(&dirs, &target, &out, &mut |line| said.push(line.to_owned()));
            (built, said)
        });
        let (built, said) = building.await.context("the build broke off")?;
        said.iter().for_each(|line| printer.note(line));
        // A build that failed has said why, right here; the next change is the
        // author's answer.
        match built {
            Ok(built) => hand_over(printer, &only(built)?)?,
            Err(error) => printer.note(&format!("{error}")),
        }
        printer.note(&format!("waiting for a change in {}", dir.display()));
        sources = sources
            .changed()
            .await
            .with_context(|| format!("could not read {}", dir.display()))?;
    }
}

/// What becomes of a component that `dev` has built: it lies in its place
/// already, by one rename, and a running host looks there each second.
fn hand_over(printer: &Printer, built: &Built) -> Result<()> {
    printer.answer(&serde_json::json!({ "built": built.path }), || {
        format!(
            "built {}; a running host takes it up if that is in its plugins folder: \
             `jackfield plugin pending` says what waits for your yes",
            built.path.display()
        )
    })
}

fn only(built: Vec<Built>) -> Result<Built> {
    built
        .into_iter()
        .next()
        .ok_or_else(|| anyhow!("nothing was built"))
}
