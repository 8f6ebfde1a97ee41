//! What the demo prints: progress on standard error, and on standard output
//! three requests to paste.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;

use crate::cli::plugin;
use crate::config::Config;
use crate::demo::setup::{BOX, Ready};
use crate::rules::escape::{escape_json, escape_line};

/// Where the demo prints.
#[derive(Clone)]
pub(super) struct Screen {
    json: bool,
}

impl Screen {
    pub(super) fn new(json: bool) -> Self {
        Self { json }
    }

    /// A line of progress.
    pub(super) fn say(&self, line: &str) {
        let _closed = writeln!(std::io::stderr(), "demo: {}", escape_line(line));
    }

    /// The address, then what to try.
    pub(super) fn guide(
        &self,
        config: &Config,
        listen: SocketAddr,
        ready: &Ready,
        file: &Path,
    ) -> Result<()> {
        let url = config.local_url(listen);
        let curls = curls(&url, &ready.token);
        let file = file.display().to_string();
        let text = if self.json {
            let [stream, egress, refused] = &curls;
            let line = json!({
                "listen": listen.to_string(),
                "url": url,
                "plugins": ready.plugins,
                "box": BOX,
                "token": ready.token,
                "config": file,
                "curl": {"stream": stream.line, "egress": egress.line, "refused": refused.line},
            });
            escape_json(&line.to_string()) + "\n"
        } else {
            let mut text = format!("listening on {url}\n");
            text += &plugin::describe(&ready.plugins, false);
            for (number, curl) in (1..).zip(&curls) {
                text += &format!("\n# {number}. {}\n{}\n", curl.expect, curl.line);
            }
            text += &format!(
                "\n# The operator's commands work on this host, too:\n\
                 #   {program} box list --config {file}\n\
                 # Ctrl-C ends the demo and removes {folder}.\n",
                program = escape_line(&std::env::args().next().unwrap_or_default()),
                folder = Path::new(&file)
                    .parent()
                    .unwrap_or(Path::new("it"))
                    .display(),
            );
            text
        };
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .context("could not write to standard output")
    }
}

/// A request to paste and what to expect of it.
struct Curl {
    expect: &'static str,
    line: String,
}

fn curls(url: &str, token: &str) -> [Curl; 3] {
    [
        Curl {
            expect: "A streamed message through the inference plugin: events arrive one by one.\n\
                     #    The upstream gets the operator's key where the box's token stood.",
            line: format!(
                "curl -sS -N '{url}/llm/anthropic/v1/messages' -H 'x-api-key: {token}' \
                 -H 'anthropic-version: 2023-06-01' -H 'content-type: application/json' \
                 -d '{{\"model\":\"claude-demo\",\"max_tokens\":64,\"stream\":true,\
                 \"messages\":[{{\"role\":\"user\",\"content\":\"hello\"}}]}}'"
            ),
        },
        Curl {
            expect: "Egress: the token goes where the API expects its key. The API says that the secret's\n\
                     #    value arrived, and in x-key-received, where it repeats it, the token is back.",
            line: format!(
                "curl -sS -i '{url}/egress/ECHO/v1/things?color=blue' -H 'authorization: Bearer {token}'"
            ),
        },
        Curl {
            expect: "Refused with a 403: the box has not declared the secret OTHER. Nothing was sent anywhere.",
            line: format!(
                "curl -sS -i '{url}/egress/OTHER/v1/things' -H 'authorization: Bearer {token}'"
            ),
        },
    ]
}
