//! `jackfield config …`.

use std::fs::File;
use std::path::Path;

use anyhow::{Result, bail};
use clap::Subcommand;
use serde::Serialize;

use crate::cli::Global;
use crate::cli::print::Printer;
use crate::config::{Config, EXAMPLE, inspect_state_dir};

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Say what holds, and whether the files and folders it names are usable
    Check,
    /// Print a configuration that documents every key
    Example,
}

pub(super) fn run(global: &Global, printer: &Printer, command: &ConfigCommand) -> Result<()> {
    match command {
        ConfigCommand::Example => printer
            .answer(&serde_json::json!({ "example": EXAMPLE }), || {
                EXAMPLE.to_owned()
            }),
        ConfigCommand::Check => {
            let config = Config::load(global.config.as_deref())?;
            let findings = inspect(&config);
            printer.answer(&findings, || describe(&findings))?;
            match findings.problems.len() {
                0 => Ok(()),
                1 => bail!("the host would not start with this: 1 problem"),
                several => bail!("the host would not start with this: {several} problems"),
            }
        }
    }
}

#[derive(Serialize)]
struct Findings {
    ok: bool,
    found: Vec<String>,
    warnings: Vec<String>,
    problems: Vec<String>,
}

fn inspect(config: &Config) -> Findings {
    let mut found = vec![
        match &config.source {
            Some(path) => format!("configuration: {}", path.display()),
            None => "configuration: none, the defaults hold".to_owned(),
        },
        format!("broker word: {}", config.broker),
        format!("listens on: {}", config.local_url(config.listen)),
    ];
    let mut warnings = Vec::new();
    let mut problems = Vec::new();
    if config.tls.is_none() && !config.listen.ip().is_loopback() {
        warnings.push("tokens cross the network in the clear: there is no [tls], and listen is no loopback address".to_owned());
    }
    match inspect_state_dir(&config.state_dir) {
        Ok(true) => found.push(format!("state_dir: {}", config.state_dir.display())),
        Ok(false) => found.push(format!(
            "state_dir: {} (made at start)",
            config.state_dir.display()
        )),
        Err(error) => problems.push(format!("{:#}", anyhow::Error::new(error))),
    }
    let components = components(&config.plugins_dir);
    found.push(format!(
        "plugins_dir: {} ({components} components)",
        config.plugins_dir.display()
    ));
    if components == 0 {
        warnings.push(
            "plugins_dir holds no component: `jackfield plugin build` puts them there".to_owned(),
        );
    }
    let mut file = |what: String, path: &Path| match File::open(path) {
        Ok(_) => found.push(format!("{what}: {}", path.display())),
        Err(cause) => problems.push(format!(
            "{what}: {} cannot be read: {cause}",
            path.display()
        )),
    };
    if let Some(tls) = &config.tls {
        file("tls.cert".to_owned(), &tls.cert);
        file("tls.key".to_owned(), &tls.key);
    }
    for (name, upstream) in &config.upstreams {
        if let Some(path) = &upstream.extra_ca {
            file(format!("upstreams.{name}.extra_ca"), path);
        }
    }
    for (name, upstream) in &config.upstreams {
        let private = if upstream.allow_private {
            ", private addresses allowed"
        } else {
            ""
        };
        found.push(format!(
            "upstream {name}: {}{}{private}",
            upstream.origin, upstream.base_path
        ));
    }
    Findings {
        ok: problems.is_empty(),
        found,
        warnings,
        problems,
    }
}

fn components(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "wasm"))
        .count()
}

fn describe(findings: &Findings) -> String {
    let lines = |mark: &'static str, items: &[String]| -> Vec<String> {
        items.iter().map(|item| format!("{mark}{item}")).collect()
    };
    [
        lines("", &findings.found),
        lines("warning: ", &findings.warnings),
        lines("problem: ", &findings.problems),
    ]
    .concat()
    .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_could_not_use_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let check = |text: &str, problem: Option<&str>, warning: Option<&str>| {
            let config = Config::parse(text, &folder.path().join("jackfield.toml")).unwrap();
            let findings = inspect(&config);
            let said = |items: &[String], wanted: Option<&str>| match wanted {
                Some(wanted) => items.iter().any(|item| item.contains(wanted)),
                None => items.is_empty(),
            };
            assert!(
                said(&findings.problems, problem),
                "{text}: {:?}",
                findings.problems
            );
            assert!(
                said(&findings.warnings, warning),
                "{text}: {:?}",
                findings.warnings
            );
        };
        std::fs::create_dir(folder.path().join("plugins")).unwrap();
        std::fs::write(folder.path().join("plugins/a.wasm"), "").unwrap();
        let plugins = "plugins_dir = \"plugins\"\n";
        check(plugins, None, None);
        check("", None, Some("plugin build"));
        check(
            &format!("{plugins}listen = \"0.0.0.0:1\""),
            None,
            Some("in the clear"),
        );
        check(
            &format!("{plugins}state_dir = \"plugins/a.wasm\""),
            Some("not a folder"),
            None,
        );
        check(
            &format!("{plugins}[tls]\ncert = \"no.pem\"\nkey = \"plugins/a.wasm\""),
            Some("tls.cert"),
            None,
        );
        check(
            &format!("{plugins}[upstreams.x]\nurl = \"https://h\"\nextra_ca = \"no.pem\""),
            Some("upstreams.x.extra_ca"),
            None,
        );
    }
}
