//! Sets the demo up over the admin socket, as an operator would, and reports
//! the box's declaration over HTTP, as its steward would.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use crate::admin::client::Client;
use crate::admin::wire::{
    self, CredentialView, NewBox, NewCredential, NewSecret, SecretView, Token,
};
use crate::config::Config;
use crate::demo::{anthropic, echo};

/// The demo's box.
pub(super) const BOX: &str = "demo";

/// What the guide needs to know.
pub(super) struct Ready {
    pub(super) token: String,
    pub(super) plugins: Vec<wire::PluginView>,
}

pub(super) async fn prepare(
    config: &Config,
    listen: SocketAddr,
    echo: SocketAddr,
) -> Result<Ready> {
    let client = Client::new(config.admin_socket());
    let new = NewBox {
        name: BOX.to_owned(),
    };
    let token: Token = client.send(Method::POST, "/boxes", &new).await?;
    let credential = NewCredential {
        kind: "api-key".to_owned(),
        payer: Some("shared".to_owned()),
        principal: None,
        box_name: None,
        name: None,
        short: false,
        value: wire::Value::wrap(anthropic::KEY.as_bytes()),
    };
    let _set: CredentialView = client
        .send(Method::PUT, "/credentials/anthropic", &credential)
        .await?;
    let secret = NewSecret {
        host: format!("http://{echo}"),
        allow: Vec::new(),
        allow_private: true,
        extra_ca: None,
        short: false,
        value: wire::Value::wrap(echo::VALUE.as_bytes()),
    };
    let path = format!("/secrets/{BOX}/ECHO");
    let _set: SecretView = client.send(Method::PUT, &path, &secret).await?;
    report(config, listen, &token.token).await?;
    let plugins = client.get("/plugins").await?;
    Ok(Ready {
        token: token.token,
        plugins,
    })
}

/// Reports what the box declares: a model, and the secret ECHO.
async fn report(config: &Config, listen: SocketAddr, token: &str) -> Result<()> {
    let broker = &config.broker;
    let declaration = json!({"capabilities": [
        {"name": "inference", "broker": broker, "scope": ["agent"]},
        {"name": "egress", "broker": broker, "scope": ["ECHO"]},
    ]});
    let request = Request::post("/api/box/declaration")
        .header(header::HOST, listen.to_string())
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(declaration.to_string())))
        .context("the demo's report is no request")?;
    let stream = tokio::net::TcpStream::connect(listen)
        .await
        .context("the demo's box could not reach the host")?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let exchange = async {
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        drop(sender);
        Ok::<_, hyper::Error>((status, body))
    };
    let (exchanged, _ended) = tokio::join!(exchange, connection);
    let (status, body) = exchanged.context("the host did not answer the demo's report")?;
    if status.is_success() {
        return Ok(());
    }
    let said = serde_json::from_slice::<Value>(&body).unwrap_or_default();
    bail!("the host refused the demo's report: {status} {said}")
}
