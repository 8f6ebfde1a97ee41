//! Round trips over a real socket.

use http::Method;
use serde_json::{Value, json};

use super::client::{Client, ClientError};
use crate::chant::journal::JournalLimits;
use crate::plugins::PluginSettings;

use super::*;

struct Host {
    client: Client,
    config: Arc<Config>,
    shutdown: CancellationToken,
    served: tokio::task::JoinHandle<()>,
    _folder: tempfile::TempDir,
}

async fn start() -> Host {
    let folder = tempfile::tempdir().unwrap();
    let config = Arc::new(Config::defaults(folder.path()).unwrap());
    crate::config::prepare_state_dir(&config.state_dir).unwrap();
    let parts = parts(Arc::clone(&config)).await;
    let socket = AdminSocket::bind(&config.admin_socket()).await.unwrap();
    let shutdown = CancellationToken::new();
    let served = tokio::spawn(socket.serve(parts, shutdown.clone()));
    Host {
        client: Client::new(config.admin_socket()),
        config,
        shutdown,
        served,
        _folder: folder,
    }
}

/// The one place that opens the other parts.
async fn parts(config: Arc<Config>) -> Parts {
    let store =
        crate::store::open_sled(&config.state_dir.join("store"), Default::default()).unwrap();
    let key = crate::vault::VaultKey::from_bytes([1; 32]);
    let settings = PluginSettings {
        cache_dir: config.state_dir.join("compiled"),
        versions_dir: config.state_dir.join("versions"),
        ..PluginSettings::default()
    };
    let journal = JournalLimits {
        bytes: 1024,
        bytes_per_box: 1024,
    };
    Parts {
        listen: "127.0.0.1:8787".parse().unwrap(),
        boxes: Arc::new(Boxes::open(Arc::clone(&store), 4).await.unwrap()),
        declarations: Arc::new(Declarations::open(Arc::clone(&store)).await.unwrap()),
        grants: Arc::new(
            Grants::open(Arc::clone(&store), jiff::Timestamp::UNIX_EPOCH)
                .await
                .unwrap(),
        ),
        owned: Arc::new(Owned::open(Arc::clone(&store)).await.unwrap()),
        journal: Arc::new(Journal::open(Arc::clone(&store), journal).await.unwrap()),
        vault: Vault::open(Arc::clone(&store), key).await.unwrap(),
        plugins: Plugins::open(settings, store, [2; 32]).await.unwrap(),
        metrics: Arc::new(Metrics::default()),
        config,
    }
}

impl Host {
    async fn did(&self, method: Method, path: &str, body: Value) -> Value {
        self.client.send(method, path, &body).await.unwrap()
    }

    async fn refused(&self, method: Method, path: &str, body: Value, said: &str) {
        match self.client.send::<Value>(method, path, &body).await {
            Err(ClientError::Refused(fault)) => {
                assert!(fault.message.contains(said), "{path}: {}", fault.message);
            }
            other => panic!("{path}: {other:?}"),
        }
    }
}

fn value(text: &str) -> Value {
    serde_json::to_value(wire::Value::wrap(text.as_bytes())).unwrap()
}

#[tokio::test]
async fn a_box_lives_and_goes_with_its_secrets() {
    let host = start().await;
    let added = host.did(Method::POST, "/boxes", json!({"box": "a"})).await;
    let token = added["token"].as_str().unwrap();
    assert_eq!((added["box"].as_str(), token.len()), (Some("a"), 47));
    host.refused(Method::POST, "/boxes", json!({"box": "a"}), "already")
        .await;
    host.refused(Method::POST, "/boxes", json!({"box": "A b"}), "box name")
        .await;
    host.refused(Method::POST, "/boxes", json!(3), "does not fit")
        .await;
    host.did(Method::POST, "/boxes/a/pause", json!({})).await;
    let list: Value = host.client.get("/boxes").await.unwrap();
    let listed = (&list[0]["box"], &list[0]["paused"], &list[0]["declaration"]);
    assert_eq!(listed, (&json!("a"), &json!(true), &Value::Null));
    assert_eq!(list.as_array().unwrap().len(), 1);
    let rotated = host.did(Method::POST, "/boxes/a/rotate", json!({})).await;
    assert_ne!(rotated["token"], added["token"]);
    host.refused(Method::POST, "/boxes/b/rotate", json!({}), "no box b")
        .await;

    let secret = json!({"host": "api.example.com", "allow": ["GET /x/"], "value": value("a long enough value")});
    let set = host
        .did(Method::PUT, "/secrets/a/KEY", secret.clone())
        .await;
    assert_eq!(set["host"], "https://api.example.com");
    assert_eq!(set["allow"], json!(["GET /x/"]));
    assert!(!set.to_string().contains("long enough"));
    let env: Value = host.client.get("/boxes/a/env").await.unwrap();
    let variables = env["variables"].to_string();
    assert!(
        variables.contains(r#"{"name":"KEY_KEY","value":"{token}"}"#),
        "{variables}"
    );
    assert!(
        variables.contains(r#"{"name":"KEY_BASE_URL","value":"http://127.0.0.1:8787/"#),
        "{variables}"
    );

    host.client
        .act::<Value>(Method::DELETE, "/boxes/a")
        .await
        .unwrap();
    let left: Value = host.client.get("/secrets").await.unwrap();
    assert_eq!(left, json!([]));
    host.refused(Method::PUT, "/secrets/a/KEY", secret, "no box a")
        .await;
}

#[tokio::test]
async fn a_secret_that_does_not_fit_is_refused() {
    let host = start().await;
    host.did(Method::POST, "/boxes", json!({"box": "a"})).await;
    let secret = |host: &str, allow: &str, text: &str| json!({"host": host, "allow": [allow], "value": value(text)});
    let put = |path, body, said| host.refused(Method::PUT, path, body, said);
    put(
        "/secrets/a/key",
        secret("h", "GET /", "twelve bytes and more"),
        "secret name",
    )
    .await;
    put(
        "/secrets/a/KEY",
        secret("h/path", "GET /", "twelve bytes and more"),
        "only scheme",
    )
    .await;
    put(
        "/secrets/a/KEY",
        secret("h", "all", "twelve bytes and more"),
        "GET /repos/",
    )
    .await;
    put("/secrets/a/KEY", secret("h", "GET /", "short"), "--short").await;
    put(
        "/secrets/a/KEY",
        json!({"host": "h", "value": "not base64!"}),
        "base64",
    )
    .await;
    host.refused(Method::DELETE, "/secrets/a/KEY", json!({}), "no secret KEY")
        .await;
    let list: Value = host.client.get("/secrets?box=a").await.unwrap();
    assert_eq!(list, json!([]));
}

#[tokio::test]
async fn a_credential_belongs_to_an_upstream_and_a_payer() {
    let host = start().await;
    host.did(Method::POST, "/boxes", json!({"box": "a"})).await;
    let new = |more: Value| {
        let mut body =
            json!({"kind": "api-key", "payer": "shared", "value": value("a long enough value")});
        let more = more.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(more);
        body
    };
    let upstream = host.config.upstreams.first_key_value().unwrap();
    let path = &*format!("/credentials/{}", upstream.0);
    let set = host.did(Method::PUT, path, new(json!({}))).await;
    assert_eq!(set["name"], "default");
    assert_eq!(set["bound_to"], upstream.1.origin.to_string());
    assert_eq!(set["usable"], true);
    let own = host
        .did(
            Method::PUT,
            path,
            new(json!({"box": "a", "payer": "owner"})),
        )
        .await;
    assert_eq!(
        (own["name"].as_str(), own["box"].as_str()),
        (Some("a"), Some("a"))
    );
    let put = |path, body, said| host.refused(Method::PUT, path, body, said);
    put(path, new(json!({"box": "b"})), "no box b").await;
    put(path, new(json!({"kind": "secret"})), "the kind is").await;
    put(path, new(json!({"payer": "visitor"})), "--principal").await;
    put(path, new(json!({"name": "a"})), "another --name").await;
    put(
        "/credentials/nowhere",
        new(json!({})),
        "[upstreams.nowhere]",
    )
    .await;
    host.refused(Method::DELETE, path, json!({}), "a, default")
        .await;
    host.did(Method::DELETE, &format!("{path}?name=default"), json!({}))
        .await;
    host.did(Method::DELETE, path, json!({})).await;
    host.refused(Method::DELETE, path, json!({}), "no credential")
        .await;
}

#[tokio::test]
async fn the_host_says_what_it_is_and_leaves_no_socket() {
    let host = start().await;
    let status: wire::Status = host.client.get("/status").await.unwrap();
    assert_eq!(status.url, "http://127.0.0.1:8787");
    assert!(
        host.client
            .metrics()
            .await
            .unwrap()
            .contains("jackfield_requests_total")
    );
    host.refused(Method::GET, "/nowhere", json!({}), "no such path")
        .await;
    host.refused(Method::PUT, "/boxes", json!({}), "another method")
        .await;
    host.shutdown.cancel();
    host.served.await.unwrap();
    let error = host.client.get::<Value>("/status").await.unwrap_err();
    assert!(matches!(error, ClientError::NotRunning(_)), "{error}");
    assert!(error.to_string().contains("jackfield serve"), "{error}");
}
