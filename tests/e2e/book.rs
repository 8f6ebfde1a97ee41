//! `docs/plugins.md`, executed: its listings in their order, in one shell and
//! one folder, as a reader would. No listing is exempt: a block that this file
//! does not know how to run fails it.
//!
//! - `sh` is run, and must succeed;
//! - `sh another-terminal` is started, and goes on beside the rest;
//! - `LANGUAGE PATH` is a file, and is written;
//! - `text` must be printed by the block before it, line by line and in this
//!   order, with `…` for anything.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use jackfield_tests::plugins::root;
use tokio::process::Command;

use crate::BINARY;
use crate::author::share_builds;

#[derive(Debug, PartialEq, Eq)]
enum Listing {
    Run(String),
    Start(String),
    Write { path: String, text: String },
    Printed(Vec<String>),
}

#[tokio::test]
async fn every_listing_of_the_authors_page_holds() {
    let page = fs::read_to_string(root().join("docs/plugins.md")).unwrap();
    let page = with_free_ports(&page, &["8787", "9000"]);
    let listings = listings(&page);
    assert!(listings.len() > 20, "the page's listings are not found");
    let folder = tempfile::tempdir().unwrap();
    let tools = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(BINARY, tools.path().join("jackfield")).unwrap();
    share_builds(Path::new(BINARY), &folder.path().join("weather-target"));
    let shell = Command::new("bash")
        .arg("-c")
        .arg(script(&listings, tools.path()))
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    // A first build on a slow machine takes minutes.
    let output = tokio::time::timeout(Duration::from_secs(1200), shell)
        .await
        .expect("the page ends")
        .unwrap();
    let last = fs::read_to_string(tools.path().join("printed")).unwrap_or_default();
    assert!(
        output.status.success(),
        "{}{}the last listing printed:\n{last}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_listing_that_nobody_knows_is_an_error() {
    let check = |page: &str| std::panic::catch_unwind(|| listings(page)).is_err();
    assert!(check("```python\nprint()\n```\n"));
    assert!(check("```\nplain\n```\n"));
    assert!(check("```text\nprinted by nothing\n```\n"));
    assert!(check("```sh\nnever closed\n"));
    assert!(!check("```sh\ntrue\n```\n```text\n…\n```\n"));
}

#[test]
fn a_line_is_found_by_its_pattern() {
    let check = |pattern: &str, line: &str| {
        let pattern = regex_lite::Regex::new(&pattern_of(pattern)).unwrap();
        pattern.is_match(line)
    };
    assert!(check("a … c", "  a b c"));
    assert!(check("1", "1"));
    assert!(!check("1", "12"));
    assert!(!check("a.c", "abc"));
}

/// The page's listings. A file's path may hold no blank.
fn listings(page: &str) -> Vec<Listing> {
    let mut listings = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else {
            continue;
        };
        let mut body: Vec<&str> = Vec::new();
        loop {
            match lines.next() {
                Some("```") => break,
                Some(line) => body.push(line),
                None => panic!("the listing {info:?} does not end"),
            }
        }
        let text = body.join("\n") + "\n";
        listings.push(match info.split(' ').collect::<Vec<_>>().as_slice() {
            ["sh"] => Listing::Run(text),
            ["sh", "another-terminal"] => Listing::Start(text),
            ["text"] => {
                let of_something =
                    matches!(listings.last(), Some(Listing::Run(_) | Listing::Start(_)));
                assert!(of_something, "nothing prints {text:?}");
                Listing::Printed(body.iter().map(|line| (*line).to_owned()).collect())
            }
            ["rust" | "toml", path] => Listing::Write {
                path: (*path).to_owned(),
                text,
            },
            _ => panic!("nobody knows how to execute the listing {info:?}"),
        });
    }
    listings
}

/// One script, so that folders and variables last from one listing to the next.
fn script(listings: &[Listing], folder: &Path) -> String {
    let printed = folder.join("printed");
    let (printed, tools) = (printed.display(), folder.display());
    let mut script = format!(
        "set -euo pipefail\n{FUNCTIONS}\nstarted=()\ntrap 'kill \"${{started[@]}}\" 2>/dev/null || true' EXIT\nprinted={printed}\nPATH={tools}:$PATH\n"
    );
    let mut listings = listings.iter().peekable();
    while let Some(listing) = listings.next() {
        let printed: &[String] = match listings.peek() {
            Some(Listing::Printed(lines)) => lines,
            _ => &[],
        };
        let patterns: Vec<String> = printed
            .iter()
            .map(|line| quoted(&pattern_of(line)))
            .collect();
        let patterns = patterns.join(" ");
        match listing {
            Listing::Run(text) => {
                writeln!(script, "echo {}", quoted(text)).unwrap();
                writeln!(script, "{{\n{text}}} >\"$printed\" 2>&1").unwrap();
                writeln!(script, "holds {patterns} <\"$printed\"").unwrap();
            }
            // What it prints is read as it comes: nobody guesses how long.
            Listing::Start(text) => {
                writeln!(script, "echo {}", quoted(text)).unwrap();
                let command = text.trim();
                assert!(
                    !command.contains('\n'),
                    "one command to a terminal: {text:?}"
                );
                writeln!(script, "exec {{from}}< <(exec 2>&1; exec {command})").unwrap();
                writeln!(script, "started+=($!)\nholds {patterns} <&\"$from\"").unwrap();
                writeln!(script, "cat <&\"$from\" >/dev/null &").unwrap();
            }
            Listing::Write { path, text } => {
                writeln!(script, "cat >{} <<'END_OF_LISTING'", quoted(path)).unwrap();
                writeln!(script, "{text}END_OF_LISTING").unwrap();
            }
            Listing::Printed(_) => {}
        }
        // A project is built where others are, once it is there.
        writeln!(
            script,
            "[ -e target ] || [ ! -e Cargo.toml ] || ln -s ../weather-target target"
        )
        .unwrap();
    }
    script
}

/// Holds its input to lines of these patterns, in their order.
const FUNCTIONS: &str = r#"
holds() {
  local line
  for pattern in "$@"; do
    local found=
    while IFS= read -r line; do
      if [[ $line =~ $pattern ]]; then found=1; break; fi
    done
    [ -n "$found" ] || { echo "nothing was printed like: $pattern" >&2; return 1; }
  done
}
"#;

/// A line's pattern: its text, whatever stands for `…`, and blanks before it.
fn pattern_of(line: &str) -> String {
    let parts = line.trim().split('…').map(|part| {
        let mut text = String::new();
        for character in part.trim().chars() {
            match character {
                // In brackets these two would mean something else.
                '^' | '\\' => text.extend(['\\', character]),
                // A backslash before some of the others would, too.
                _ if character.is_ascii_alphanumeric() || character == ' ' => text.push(character),
                _ => text.extend(['[', character, ']']),
            }
        }
        text
    });
    format!("^ *{}$", parts.collect::<Vec<_>>().join(".*"))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The page with ports that are free here, so that two suites can run at once.
fn with_free_ports(page: &str, ports: &[&str]) -> String {
    let held: Vec<TcpListener> = ports
        .iter()
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    ports
        .iter()
        .zip(&held)
        .fold(page.to_owned(), |page, (port, free)| {
            assert!(page.contains(port), "the page names no port {port}");
            page.replace(port, &free.local_addr().unwrap().port().to_string())
        })
}
