//! `serve --conformance`: the real host with the real plugins, in a folder of
//! its own that goes when it ends, holding what the conformance suite's
//! environment says. What is done to the host is done as an operator would;
//! it knows the suite by that environment and by the line it prints alone.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use futures_util::future::{Either, select};
use http::Method;
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::admin::client::Client;
use crate::admin::wire::{
    self, CredentialView, Done, NewBox, NewCredential, NewSecret, PluginView, SecretView,
    ThingView, Token,
};
use crate::app::{self, Running, ServeOptions};
use crate::cli::plugin;
use crate::config::Config;
use crate::demo::folder::{Folder, build_plugins};
use crate::rules::escape::{escape_json, escape_line};
use crate::telemetry;

/// What the command line and the environment say.
pub(crate) struct UnderSuite {
    /// The suite's environment, as JSON.
    pub(crate) environment: String,
    /// Where components lie; without it those that ship are built.
    pub(crate) plugins_dir: Option<PathBuf>,
    /// Components beside them.
    pub(crate) extra_plugins: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct Environment {
    broker: String,
    boxes: Vec<String>,
    anthropic: Upstream,
    fountain: Upstream,
    secrets: Vec<Secret>,
}

#[derive(Deserialize)]
struct Upstream {
    url: String,
    credential: String,
}

#[derive(Deserialize)]
struct Secret {
    #[serde(rename = "box")]
    box_name: String,
    name: String,
    host: String,
    value: String,
}

/// Serves what the environment says until standard input ends, or `shutdown`.
pub(crate) async fn run(asked: UnderSuite, shutdown: CancellationToken) -> Result<()> {
    let environment = read(&asked.environment)?;
    let mut components = components(asked.plugins_dir.as_deref(), &shutdown).await?;
    components.extend(asked.extra_plugins);
    if shutdown.is_cancelled() {
        return Ok(());
    }
    let folder = Folder::make()?;
    folder.fill(&config(&environment)?, &components)?;
    let config = Config::load(Some(&folder.config_file()))?;
    telemetry::start(config.log)?;

    let (tell, told) = oneshot::channel();
    let ready = move |running: &Running| {
        // The receiver is gone only when this has failed already.
        let _gone = tell.send(running.listen);
    };
    let options = ServeOptions {
        approve_plugins: true,
        vault_key: None,
    };
    let host = std::pin::pin!(app::serve(config.clone(), options, shutdown.clone(), ready));
    let guest = std::pin::pin!(async {
        let Ok(listen) = told.await else {
            return Ok(());
        };
        let tokens = prepare(&config, &environment).await?;
        announce(&config, listen, &tokens)?;
        input_ends().await;
        Ok(())
    });
    match select(host, guest).await {
        Either::Left((ended, _guest)) => ended,
        Either::Right((done, host)) => {
            shutdown.cancel();
            let ended = host.await;
            done.and(ended)
        }
    }
}

fn read(text: &str) -> Result<Environment> {
    // Said without serde's words: they may repeat a credential.
    serde_json::from_str(text).ok().context(
        "CONFORMANCE_ENV is not what the conformance suite sets: \
         {\"broker\", \"boxes\", \"anthropic\": {\"url\", \"credential\"}, \
         \"fountain\": {\"url\", \"credential\"}, \"secrets\": [{\"box\", \"name\", \"host\", \"value\"}]}",
    )
}

async fn components(folder: Option<&Path>, shutdown: &CancellationToken) -> Result<Vec<PathBuf>> {
    if let Some(folder) = folder {
        return in_folder(folder);
    }
    let say = |line: &str| {
        let _closed = writeln!(std::io::stderr(), "conformance: {}", escape_line(line));
    };
    say("building the plugins (minutes the first time, seconds afterwards)");
    let build = tokio::task::spawn_blocking(move || build_plugins(&say));
    tokio::select! {
        built = build => built.context("the build did not end")?,
        () = shutdown.cancelled() => Ok(Vec::new()),
    }
}

fn in_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)
        .and_then(|entries| entries.collect::<Result<Vec<_>, _>>())
        .with_context(|| format!("could not read {}", folder.display()))?;
    let mut components: Vec<PathBuf> = entries
        .into_iter()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "wasm"))
        .collect();
    components.sort();
    if components.is_empty() {
        bail!(
            "no component (*.wasm) lies in {}; `jackfield plugin build --out` puts them there",
            folder.display()
        );
    }
    Ok(components)
}

/// What is not of the environment's making is left at its default.
fn config(environment: &Environment) -> Result<String> {
    let text = |value: &str| toml::Value::from(value).to_string();
    let upstream = |name: &str, upstream: &Upstream| {
        format!(
            "[upstreams.{name}]\nurl = {}\nallow_private = true\n",
            text(&upstream.url)
        )
    };
    if environment.boxes.is_empty() {
        bail!("CONFORMANCE_ENV names no boxes");
    }
    Ok(format!(
        "# What the conformance suite asked for: gone when it ends.\n\
         broker = {}\n\
         listen = \"127.0.0.1:0\"\n\
         state_dir = \"./state\"\n\n\
         {}{}\
         [log]\nlevel = \"warn\"\n",
        text(&environment.broker),
        upstream("anthropic", &environment.anthropic),
        upstream("fountain", &environment.fountain),
    ))
}

/// Adds the boxes, and sets what the environment holds. The first box owns the
/// conversation that the suite asks for; no environment says so.
async fn prepare(config: &Config, environment: &Environment) -> Result<BTreeMap<String, String>> {
    let client = Client::new(config.admin_socket());
    let plugins: Vec<PluginView> = client.get("/plugins").await?;
    if plugins.is_empty() || plugins.iter().any(|plugin| plugin.state != "live") {
        bail!(
            "a plugin is not loaded:\n{}",
            plugin::describe(&plugins, false)
        );
    }
    let mut tokens = BTreeMap::new();
    for name in &environment.boxes {
        let new = NewBox { name: name.clone() };
        let token: Token = client.send(Method::POST, "/boxes", &new).await?;
        tokens.insert(name.clone(), token.token);
    }
    for (name, kind, upstream) in [
        ("anthropic", "api-key", &environment.anthropic),
        ("fountain", "bearer", &environment.fountain),
    ] {
        let credential = NewCredential {
            kind: kind.to_owned(),
            payer: Some("shared".to_owned()),
            principal: None,
            box_name: None,
            name: None,
            short: false,
            value: wire::Value::wrap(upstream.credential.as_bytes()),
        };
        let path = format!("/credentials/{name}");
        let _set: CredentialView = client.send(Method::PUT, &path, &credential).await?;
    }
    for secret in &environment.secrets {
        // On loopback nothing speaks TLS, whether or not that is said.
        let host = match secret.host.contains("://") {
            true => secret.host.clone(),
            false => format!("http://{}", secret.host),
        };
        let new = NewSecret {
            host,
            allow: Vec::new(),
            allow_private: true,
            extra_ca: None,
            short: false,
            value: wire::Value::wrap(secret.value.as_bytes()),
        };
        let path = format!("/secrets/{}/{}", secret.box_name, secret.name);
        let _set: SecretView = client.send(Method::PUT, &path, &new).await?;
    }
    if let Some(first) = environment.boxes.first() {
        let thing = ThingView {
            kind: "conversations".to_owned(),
            id: "conformance".to_owned(),
        };
        let path = format!("/boxes/{first}/owned");
        let _done: Done = client.send(Method::PUT, &path, &thing).await?;
    }
    Ok(tokens)
}

fn announce(config: &Config, listen: SocketAddr, tokens: &BTreeMap<String, String>) -> Result<()> {
    let line = json!({"url": config.local_url(listen), "tokens": tokens});
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", escape_json(&line.to_string()))
        .and_then(|()| out.flush())
        .context("could not write to standard output")
}

/// Resolves when standard input is closed, whatever stood in it.
async fn input_ends() {
    let mut input = tokio::io::stdin();
    let mut block = [0; 1024];
    while input.read(&mut block).await.is_ok_and(|read| read > 0) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_read_and_never_repeated() {
        let right = json!({
            "broker": "a \"word\"", "boxes": ["one"],
            "anthropic": {"url": "http://127.0.0.1:1", "credential": "c"},
            "fountain": {"url": "http://127.0.0.1:2", "credential": "d"},
            "secrets": [{"box": "one", "name": "N", "host": "h", "value": "v"}],
        });
        let environment = read(&right.to_string()).unwrap();
        let config = Config::parse(&config(&environment).unwrap(), Path::new("/x/y")).unwrap();
        assert_eq!(config.broker, "a \"word\"");
        assert_eq!(config.upstreams.len(), 2);
        assert!(
            config
                .upstreams
                .values()
                .all(|upstream| upstream.allow_private)
        );
        let wrong = right.to_string().replace("\"boxes\"", "\"sk-value\"");
        let error = read(&wrong).err().unwrap().to_string();
        assert!(
            error.contains("boxes") && !error.contains("sk-value"),
            "{error}"
        );
    }

    #[test]
    fn a_folder_without_a_component_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let error = in_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains("plugin build"), "{error}");
        for name in ["b.wasm", "a.wasm", "c.txt"] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        let found = in_folder(folder.path()).unwrap();
        let names: Vec<_> = found.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(names, ["a.wasm", "b.wasm"]);
    }
}
