//! A host with its upstreams and boxes: the one setup that the tests share.
//! What must hold over a whole run is held when a world ends: no upstream
//! received a box's token or a grant, no box and no log a credential's value.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::client::{Client, Request, Response};
use crate::host::{Home, Host, Output};
use crate::plugins::{Plugin, component};
use crate::schema;
use crate::stand_ins;
use crate::tap::Taps;
use crate::upstream::{Speaks, Upstream};

/// The operator's API key in a world that is ready.
pub const KEY: &str = "sk-ant-api03-0123456789abcdefghijkl";

/// The value of the secret `OPENAI` in a world that is ready. It looks
/// different once it is percent-encoded.
pub const VALUE: &str = "sk-live+0123/4567=89~abcdefgh";

/// What a world is to be made of.
pub struct Builder {
    binary: PathBuf,
    plugins: Vec<Plugin>,
    speaks: Speaks,
    top: String,
    anthropic: String,
    tables: String,
    files: Vec<(String, String)>,
    arguments: Vec<String>,
}

impl Builder {
    /// Loads these plugins instead of the two that ship.
    #[must_use]
    pub fn plugins(mut self, plugins: &[Plugin]) -> Self {
        self.plugins = plugins.to_vec();
        self
    }

    /// How the Anthropic stand-in speaks.
    #[must_use]
    pub fn speaks(mut self, speaks: Speaks) -> Self {
        self.speaks = speaks;
        self
    }

    /// Adds lines to the top of the configuration.
    #[must_use]
    pub fn top(mut self, lines: &str) -> Self {
        self.top.push_str(lines);
        self
    }

    /// Adds lines to `[upstreams.anthropic]`.
    #[must_use]
    pub fn upstream(mut self, lines: &str) -> Self {
        self.anthropic.push_str(lines);
        self
    }

    /// Adds tables to the end of the configuration. `{echo}` stands for the
    /// echo host's URL, and `{fountain}` for the Fountain stand-in's.
    #[must_use]
    pub fn tables(mut self, text: &str) -> Self {
        self.tables.push_str(text);
        self
    }

    /// Puts a file beside the configuration.
    #[must_use]
    pub fn file(mut self, name: &str, text: String) -> Self {
        self.files.push((name.to_owned(), text));
        self
    }

    /// Starts the host without anybody's yes to its plugins.
    #[must_use]
    pub fn unapproved(mut self) -> Self {
        self.arguments.clear();
        self
    }

    /// Starts the upstreams and the host, with no box, credential or secret.
    pub async fn start(self) -> World {
        let mut world = self.prepare().await;
        world.serve().await;
        world
    }

    /// Starts the upstreams and lays everything out, but not the host.
    ///
    /// # Panics
    /// When a file cannot be written.
    pub async fn prepare(self) -> World {
        let home = Home::new(&self.binary);
        let (to_upstreams, to_boxes) = (Taps::default(), Taps::default());
        let anthropic =
            Upstream::start(stand_ins::anthropic, self.speaks, to_upstreams.clone()).await;
        let echo = Upstream::start(stand_ins::echo, Speaks::Plain, to_upstreams.clone()).await;
        let echo_url = echo.url();
        let fountain =
            Upstream::start(stand_ins::fountain, Speaks::Plain, to_upstreams.clone()).await;
        let fountain_url = fountain.url();
        for (name, text) in &self.files {
            fs::write(home.path().join(name), text).expect("a file");
        }
        let world = World {
            home,
            binary: self.binary,
            anthropic,
            echo,
            fountain,
            token: String::new(),
            host: None,
            top: self.top,
            upstream_lines: self.anthropic,
            tables: self
                .tables
                .replace("{echo}", &echo_url)
                .replace("{fountain}", &fountain_url),
            arguments: self.arguments,
            tokens: Mutex::default(),
            values: Mutex::default(),
            to_upstreams,
            to_boxes,
        };
        for plugin in &self.plugins {
            world.drop_in(*plugin);
        }
        world.configure(&world.anthropic.url());
        world
    }

    /// Starts a world in which `box-a` may use the inference and egress
    /// capabilities: it has declared `agent` and `OPENAI`, the operator's key
    /// is set, and the secret `OPENAI` may be sent to the echo host.
    pub async fn ready(self) -> World {
        let mut world = self.start().await;
        world.token = world.add_box("box-a").await;
        world
            .credential(KEY, &["anthropic", "--kind", "api-key"])
            .await;
        let host = world.echo.url();
        world
            .secret("box-a", "OPENAI", &host, VALUE, &["--allow-private"])
            .await;
        world
            .declare(
                &world.token,
                &[("inference", &["agent"]), ("egress", &["OPENAI"])],
            )
            .await;
        world
    }
}

/// A host with its upstreams and boxes.
pub struct World {
    /// Where the host lives.
    pub home: Home,
    /// The stand-in for the Anthropic API.
    pub anthropic: Upstream,
    /// The host that the secret `OPENAI` belongs to.
    pub echo: Upstream,
    /// The stand-in for Fountain's API, for who configures it.
    pub fountain: Upstream,
    /// The token of `box-a`, once a world is ready.
    pub token: String,
    host: Option<Host>,
    binary: PathBuf,
    top: String,
    upstream_lines: String,
    tables: String,
    arguments: Vec<String>,
    tokens: Mutex<Vec<String>>,
    values: Mutex<Vec<String>>,
    to_upstreams: Taps,
    to_boxes: Taps,
}

/// How many connections and requests the upstreams had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    connections: usize,
    requests: usize,
}

impl World {
    /// A world around this binary.
    #[must_use]
    pub fn of(binary: &str) -> Builder {
        Builder {
            binary: PathBuf::from(binary),
            plugins: vec![Plugin::Inference, Plugin::Egress],
            speaks: Speaks::Plain,
            top: String::new(),
            anthropic: String::new(),
            tables: String::new(),
            files: Vec::new(),
            arguments: vec!["--approve-plugins".to_owned()],
        }
    }

    // === The host ===

    /// The running host.
    ///
    /// # Panics
    /// When none runs.
    #[must_use]
    pub fn host(&self) -> &Host {
        self.host.as_ref().expect("the host runs")
    }

    /// Where the host listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.host().address
    }

    /// Starts the host.
    pub async fn serve(&mut self) {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.host = Some(self.home.serve(&arguments).await);
    }

    /// Starts the host without approving what lies in its plugins folder.
    pub async fn serve_as_approved(&mut self) {
        self.host = Some(self.home.serve(&[]).await);
    }

    /// Takes the host out of the world, to end it in a way of one's own.
    ///
    /// # Panics
    /// When none runs.
    pub fn take_host(&mut self) -> Host {
        self.host.take().expect("the host runs")
    }

    /// Ends the host in order and starts it again, without new approvals.
    pub async fn restart(&mut self) {
        self.take_host().stop().await;
        self.serve_as_approved().await;
    }

    /// Points the configuration's `anthropic` upstream at this URL.
    pub fn configure(&self, url: &str) {
        self.home.configure(&format!(
            "{}[upstreams.anthropic]\nurl = {url:?}\nallow_private = true\n{}{}",
            self.top, self.upstream_lines, self.tables
        ));
    }

    // === What the operator does ===

    /// Puts a component into the plugins folder.
    ///
    /// # Panics
    /// When it cannot be built or copied.
    pub fn drop_in(&self, plugin: Plugin) {
        let from = component(&self.binary, plugin);
        let name = from.file_name().expect("a name").to_owned();
        fs::copy(&from, self.home.plugins().join(name)).expect("a component");
    }

    /// Runs a command. Whatever it prints, it is no credential's value.
    ///
    /// # Panics
    /// When a value that was set stands in what it prints.
    pub async fn command(&self, arguments: &[&str], input: &str) -> Output {
        let output = self.home.run(arguments, input.as_bytes()).await;
        for value in &*lock(&self.values) {
            let said = output.stdout.contains(value) || output.stderr.contains(value);
            assert!(
                !said,
                "`{}` prints a value: {output:#?}",
                arguments.join(" ")
            );
        }
        output
    }

    /// Adds a box and gives its token.
    pub async fn add_box(&self, name: &str) -> String {
        self.token_of(&["box", "add", name, "--json"], name).await
    }

    /// Gives a box a new token.
    pub async fn rotate_box(&self, name: &str) -> String {
        self.token_of(&["box", "rotate", name, "--json"], name)
            .await
    }

    async fn token_of(&self, arguments: &[&str], name: &str) -> String {
        let printed = self.command(arguments, "").await.ok().json();
        assert_eq!(printed["box"], json!(name));
        let token = printed["token"].as_str().expect("a token").to_owned();
        lock(&self.tokens).push(token.clone());
        token
    }

    /// Sets an operator credential: `arguments` are what follows
    /// `credential set`.
    pub async fn credential(&self, value: &str, arguments: &[&str]) {
        self.remember(value);
        let arguments = [&["credential", "set"], arguments].concat();
        self.command(&arguments, value).await.ok();
    }

    /// Saves a secret of a box; `more` are further arguments.
    pub async fn secret(&self, owner: &str, name: &str, host: &str, value: &str, more: &[&str]) {
        self.remember(value);
        let arguments = ["secret", "set", name, "--box", owner, "--host", host];
        self.command(&[&arguments, more].concat(), value).await.ok();
    }

    /// Issues a grant and gives its id and its value. No upstream and no log
    /// may ever hold that.
    pub async fn grant(&self, owner: &str, credential: &str) -> (String, String) {
        let arguments = ["grant", "issue", "--box", owner, "--credential", credential];
        let arguments = [&arguments[..], &["--json"]].concat();
        let printed = self.command(&arguments, "").await.ok().json();
        let said = |name: &str| printed[name].as_str().expect("a text").to_owned();
        let value = said("grant");
        lock(&self.tokens).push(value.clone());
        (said("id"), value)
    }

    /// Holds this value to never being shown.
    pub fn remember(&self, value: &str) {
        lock(&self.values).push(value.to_owned());
    }

    // === What boxes do ===

    /// A connection to the host.
    ///
    /// # Panics
    /// When it does not listen.
    pub async fn client(&self) -> Client {
        Client::connect(self.address(), self.to_boxes.open())
            .await
            .expect("the host listens")
    }

    /// Says one request on a connection of its own.
    ///
    /// # Panics
    /// When the answer breaks off.
    pub async fn send(&self, request: &Request) -> Response {
        self.try_send(request)
            .await
            .unwrap_or_else(|error| panic!("{} {}: {error}", request.method, request.target))
    }

    /// Says one request on a connection of its own.
    ///
    /// # Errors
    /// When the answer breaks off.
    pub async fn try_send(&self, request: &Request) -> std::io::Result<Response> {
        let mut client = self.client().await;
        client.send(request).await;
        client.response().await
    }

    /// Reports this declaration to the broker `lobby` and holds it to being
    /// kept.
    pub async fn declare(&self, token: &str, entries: &[(&str, &[&str])]) -> Value {
        let report = report(entries);
        let response = self.send(&declaration(&report).bearer(token)).await;
        assert_eq!(response.status, 200, "{}", response.text());
        schema::holds("declarationKept", &response.json());
        response.json()
    }

    // === What is held ===

    /// Where the upstreams stand now.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            connections: self.upstreams().map(Upstream::connections).sum(),
            requests: self
                .upstreams()
                .map(|upstream| upstream.requests().len())
                .sum(),
        }
    }

    fn upstreams(&self) -> impl Iterator<Item = &Upstream> {
        [&self.anthropic, &self.echo, &self.fountain].into_iter()
    }

    /// Says a request that must be refused with this status, in a body of the
    /// protocol whose message holds these words, and untouched: nothing
    /// reaches an upstream.
    ///
    /// # Panics
    /// When it is not.
    pub async fn refuses(&self, request: &Request, status: u16, words: &[&str]) -> Response {
        let mark = self.mark();
        let response = self.send(request).await;
        let label = format!("{} {}", request.method, request.target);
        is_refusal(&label, &response, status, words);
        assert_eq!(self.mark(), mark, "{label} reached an upstream");
        response
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.host.take());
        let log = self.home.log();
        if std::thread::panicking() {
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.len().saturating_sub(60);
            eprintln!("--- the host's log\n{}", lines[last..].join("\n"));
            return;
        }
        for token in &*lock(&self.tokens) {
            assert!(
                !self.to_upstreams.carried(token.as_bytes()),
                "an upstream received a box's token, or a grant"
            );
            assert!(!log.contains(token), "the log holds a token or a grant");
        }
        for value in &*lock(&self.values) {
            for form in forms_of(value) {
                assert!(
                    !self.to_boxes.carried(form.as_bytes()),
                    "a box received a credential's value"
                );
            }
            assert!(!log.contains(value), "the log holds a credential's value");
        }
    }
}

/// A value as it is and as others write it: percent-encoded, and what it is
/// sure to become inside base64.
fn forms_of(value: &str) -> Vec<String> {
    let percent: String = value
        .bytes()
        .map(
            |byte| match byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                true => char::from(byte).to_string(),
                false => format!("%{byte:02X}"),
            },
        )
        .collect();
    let mut forms = vec![value.to_owned(), percent];
    for alignment in 0..3 {
        let padded = [&vec![0; alignment], value.as_bytes()].concat();
        let encoded = STANDARD.encode(&padded);
        let sure = (alignment * 8).div_ceil(6)..padded.len() * 8 / 6;
        forms.push(encoded[sure].to_owned());
    }
    forms
}

/// Holds an answer to being one of the host's refusals.
///
/// # Panics
/// When it is not.
pub fn is_refusal(label: &str, response: &Response, status: u16, words: &[&str]) {
    assert_eq!(response.status, status, "{label}: {}", response.text());
    let body = response.json();
    schema::holds("refusal", &body);
    let content = response.fields.first("content-type").unwrap_or_default();
    assert!(
        content.starts_with("application/json"),
        "{label}: {content}"
    );
    let kind = body["error"]["type"].as_str().unwrap_or_default();
    assert!(!kind.is_empty(), "{label} says no type: {body}");
    let message = body["error"]["message"].as_str().unwrap_or_default();
    for word in words {
        assert!(
            message.contains(word),
            "{label} says no {word:?}: {message}"
        );
    }
}

/// A declaration's report to the broker `lobby`.
#[must_use]
pub fn report(entries: &[(&str, &[&str])]) -> String {
    let entries: Vec<Value> = entries
        .iter()
        .map(|(name, scope)| json!({"name": name, "broker": "lobby", "scope": scope}))
        .collect();
    json!({ "capabilities": entries }).to_string()
}

/// A POST of this report.
#[must_use]
pub fn declaration(report: &str) -> Request {
    Request::post("/api/box/declaration")
        .header("content-type", "application/json")
        .body(report.to_owned())
}

/// A Messages call.
#[must_use]
pub fn messages() -> Request {
    Request::post("/llm/anthropic/v1/messages")
        .header("anthropic-version", "2023-06-01")
        .json(&json!({"model": stand_ins::MODEL, "max_tokens": 16,
            "messages": [{"role": "user", "content": "Hello"}]}))
}

/// The files below a folder.
///
/// # Panics
/// When one cannot be read.
#[must_use]
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
