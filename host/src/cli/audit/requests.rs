//! The requests that a reviewer gives an audit: one JSON object a line.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use http::Method;
use serde::Deserialize;

use crate::rules::audit::requests::{Case, Luck};
use crate::rules::paths;

const MOST_BYTES: u64 = 16 * 1024 * 1024;
const MOST_REQUESTS: usize = 5_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default = "get")]
    method: String,
    path: String,
    query: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: String,
}

fn get() -> String {
    "GET".to_owned()
}

pub(super) fn read(file: &Path) -> Result<Vec<Case>> {
    let shown = file.display();
    let size = std::fs::metadata(file)
        .with_context(|| format!("could not read {shown}"))?
        .len();
    if size > MOST_BYTES {
        bail!("{shown} has {size} bytes; at most {MOST_BYTES} of requests are read");
    }
    let text = std::fs::read_to_string(file).with_context(|| format!("could not read {shown}"))?;
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let cases: Vec<Case> = lines
        .map(|(number, line)| case(line).with_context(|| format!("{shown}, line {}", number + 1)))
        .collect::<Result<_>>()?;
    if cases.len() > MOST_REQUESTS {
        bail!(
            "{shown} holds {} requests; at most {MOST_REQUESTS} are asked about",
            cases.len()
        );
    }
    Ok(cases)
}

fn case(line: &str) -> Result<Case> {
    let line: Line = serde_json::from_str(line)?;
    if !line.path.starts_with('/') || !paths::is_plain(line.path.as_bytes()) {
        bail!(
            "path: write one that starts with a slash and holds no dot segment, backslash or NUL"
        );
    }
    Ok(Case {
        method: Method::from_bytes(line.method.as_bytes()).context("method")?,
        path: line.path,
        query: line.query,
        headers: line
            .headers
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.into_bytes()))
            .collect(),
        body: line.body.into_bytes().into(),
        luck: Luck::Good(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_request_and_nonsense_is_refused() {
        let read = case(r#"{"method":"POST","path":"/a","headers":{"X-A":"b"},"body":"{}"}"#);
        let read = read.unwrap();
        assert_eq!((read.method, read.path.as_str()), (Method::POST, "/a"));
        assert_eq!(read.headers, [("x-a".to_owned(), b"b".to_vec())]);
        for line in [
            "",
            "{}",
            r#"{"path":"a"}"#,
            r#"{"path":"/../a"}"#,
            r#"{"path":"/","methd":"GET"}"#,
        ] {
            assert!(case(line).is_err(), "{line}");
        }
    }
}
