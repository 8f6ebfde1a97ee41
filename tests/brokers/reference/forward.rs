//! Requests that are sent on.

use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::broker::{Asked, Broker, Caller, Reply, answer, refuse};
use crate::faults::Fault;

/// Headers that end at the broker.
const DROPPED: [&str; 8] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "authorization",
    "x-api-key",
    "cookie",
    "chant-grant",
];

impl Broker {
    pub async fn messages(&self, asked: &Asked, caller: &Caller) -> Reply {
        let mut headers = kept(&asked.headers);
        set(
            &mut headers,
            "x-api-key",
            self.said("/anthropic/credential"),
        );
        if self.breaks(Fault::PassToken) {
            set(&mut headers, "x-box-token", &caller.token);
        }
        if self.breaks(Fault::PassTokenEncoded) {
            let encoded = BASE64_STANDARD.encode(format!("box:{}", caller.token));
            set(&mut headers, "x-box", &format!("Basic {encoded}"));
        }
        let mut query = asked.query.clone();
        if self.breaks(Fault::DropQuery) {
            query = None;
        }
        if self.breaks(Fault::PassTokenInQuery) {
            query = Some(format!("box={}", percent(&caller.token)));
        }
        let body = match self.breaks(Fault::ChangeBody) {
            true => Bytes::from(r#"{"model":"another","messages":[]}"#),
            false => asked.body.clone(),
        };
        let rest = asked.path.trim_start_matches("/llm/anthropic");
        let url = self.said("/anthropic/url");
        let target = target(rest, query.as_deref());
        let mut reply = send(url, asked.method.clone(), &target, headers, body).await;
        if self.breaks(Fault::InventAnswers) {
            reply = answer(200, &json!({"id": "msg_invented"}));
        }
        if self.breaks(Fault::LeakCredential) {
            let shown = percent(self.said("/anthropic/credential"));
            set(reply.headers_mut(), "x-debug", &shown);
        }
        if let Some(payer) = self.payer() {
            set(reply.headers_mut(), "chant-payer", payer);
        }
        reply
    }

    pub async fn egress(&self, asked: &Asked, caller: &Caller, name: &str) -> Reply {
        let secrets = self.environment["secrets"].as_array().expect("secrets");
        let held = secrets
            .iter()
            .find(|secret| secret["box"] == caller.name.as_str() && secret["name"] == name);
        let Some(held) = held else {
            let status = if self.breaks(Fault::UnheldIs404) {
                404
            } else {
                403
            };
            return refuse(status, &format!("This broker holds no value for {name}."));
        };
        let text = |member: &str| held[member].as_str().expect("a text");
        let value = match self.breaks(Fault::KeepStandIn) {
            true => &caller.token,
            false => text("value"),
        };
        let swap = |text: &str| text.replace(&caller.token, value);
        let mut headers = HeaderMap::new();
        for (name, line) in &asked.headers {
            if !["host", "connection", "content-length"].contains(&name.as_str()) {
                let line = swap(line.to_str().unwrap_or_default());
                headers.append(name, HeaderValue::from_str(&line).expect("a value"));
            }
        }
        let rest = asked.path.trim_start_matches(&format!("/egress/{name}"));
        let target = swap(&target(rest, asked.query.as_deref()));
        let host = match self.breaks(Fault::SendElsewhere) {
            true => self.said("/fountain/url"),
            false => text("host"),
        };
        let mut reply = send(
            host,
            asked.method.clone(),
            &target,
            headers,
            asked.body.clone(),
        )
        .await;
        if !self.breaks(Fault::LeakSecretHeader) {
            for line in reply.headers_mut().values_mut() {
                let back = line
                    .to_str()
                    .unwrap_or_default()
                    .replace(value, &caller.token);
                *line = HeaderValue::from_str(&back).expect("a value");
            }
        }
        reply
    }

    pub async fn fountain(&self, asked: &Asked) -> Reply {
        let mut headers = kept(&asked.headers);
        if !self.breaks(Fault::FountainWithoutKey) {
            let key = format!("Bearer {}", self.said("/fountain/credential"));
            set(&mut headers, "authorization", &key);
        }
        let rest = asked.path.trim_start_matches("/fountain");
        let target = target(rest, asked.query.as_deref());
        let url = self.said("/fountain/url");
        send(
            url,
            asked.method.clone(),
            &target,
            headers,
            asked.body.clone(),
        )
        .await
    }

    /// Asks the model API for something.
    pub async fn touch(&self) {
        let mut headers = HeaderMap::new();
        set(
            &mut headers,
            "x-api-key",
            self.said("/anthropic/credential"),
        );
        let url = self.said("/anthropic/url");
        let _answer = send(url, Method::GET, "/v1/models", headers, Bytes::new()).await;
    }

    /// Asks the model a question that it answers by a schema.
    pub async fn ask_model(&self, body: &Value) -> Option<Value> {
        let mut headers = HeaderMap::new();
        set(&mut headers, "content-type", "application/json");
        if !self.breaks(Fault::DecideWithoutCredential) {
            set(
                &mut headers,
                "x-api-key",
                self.said("/anthropic/credential"),
            );
        }
        let url = self.said("/anthropic/url");
        let body = Bytes::from(body.to_string());
        let reply = send(url, Method::POST, "/v1/messages", headers, body).await;
        let body = reply.into_body().collect().await.ok()?.to_bytes();
        let message: Value = serde_json::from_slice(&body).ok()?;
        serde_json::from_str(message["content"][0]["text"].as_str()?).ok()
    }
}

fn kept(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    for name in DROPPED {
        kept.remove(name);
    }
    kept
}

/// Sets a header.
pub fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    headers.insert(name, HeaderValue::from_str(value).expect("a value"));
}

fn target(path: &str, query: Option<&str>) -> String {
    let path = if path.is_empty() { "/" } else { path };
    match query {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    }
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn send(url: &str, method: Method, target: &str, headers: HeaderMap, body: Bytes) -> Reply {
    match try_send(url, method, target, headers, body).await {
        Ok(reply) => reply,
        Err(error) => refuse(502, &format!("the upstream did not answer: {error}")),
    }
}

async fn try_send(
    url: &str,
    method: Method,
    target: &str,
    headers: HeaderMap,
    body: Bytes,
) -> anyhow::Result<Reply> {
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    let stream = TcpStream::connect(host).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut request = Request::builder()
        .method(method)
        .uri(target)
        .body(Full::new(body))?;
    *request.headers_mut() = headers;
    set(request.headers_mut(), "host", host);
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    let mut reply = Response::new(Full::new(body));
    *reply.status_mut() = head.status;
    *reply.headers_mut() = head.headers;
    for name in [
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
    ] {
        reply.headers_mut().remove(name);
    }
    Ok(reply)
}
