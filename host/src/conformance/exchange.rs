//! One request to the broker and what came of it. Nothing that a broker does
//! holds the suite up for longer than a request may take, or makes it hold
//! more than an answer may have.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::conformance::{StartError, show};

/// The largest answer that is read.
const MOST: usize = 1024 * 1024;

/// Where the broker is.
pub(super) struct Address {
    /// What is dialed.
    host: String,
    port: u16,
    /// What the `Host` header says.
    authority: HeaderValue,
    /// What stands before every path: empty, or without a slash at its end.
    base: String,
}

impl Address {
    /// Reads a base URL.
    pub(super) fn parse(url: &str) -> Result<Self, StartError> {
        let wrong = |why: &str| StartError::Url(url.to_owned(), why.to_owned());
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(wrong("it has no scheme"));
        };
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(wrong(
                "the suite speaks plain HTTP: let the broker listen without TLS",
            ));
        }
        if rest.contains(['?', '#', '@', ' ']) {
            return Err(wrong("it holds more than a host, a port and a path"));
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let parsed: http::uri::Authority =
            authority.parse().map_err(|_| wrong("it names no host"))?;
        let base = path.trim_end_matches('/').to_owned();
        let base_fits = base.is_empty() || base.parse::<http::uri::PathAndQuery>().is_ok();
        let has_port = parsed.as_str().len() > parsed.host().len();
        let port = parsed.port_u16().or((!has_port).then_some(80));
        let (Some(port), true, false) = (port, base_fits, parsed.host().is_empty()) else {
            return Err(wrong("it is no http://HOST:PORT/PATH"));
        };
        Ok(Self {
            host: parsed.host().trim_matches(['[', ']']).to_owned(),
            port,
            authority: HeaderValue::from_str(authority).map_err(|_| wrong("it names no host"))?,
            base,
        })
    }
}

/// A request to be said.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) method: Method,
    /// The path and the query, below the broker's base URL.
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Value>,
}

impl Sent {
    /// Replaces a header. The suite's own names and values fit; those of an
    /// `--extra` were checked when it was read.
    pub(super) fn set(&mut self, name: HeaderName, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
    }
}

/// What the broker answered, as far as it came.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) trailers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// A header that stands there once, as text.
    pub(super) fn header(&self, name: &str) -> Option<String> {
        let value = self.headers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    }

    /// The body as JSON; null where it is none.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The body as text, as far as it is ever shown.
    pub(super) fn text(&self) -> String {
        show::text(&self.body)
    }
}

/// A request with what came of it.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    pub(super) sent: Sent,
    /// The answer, or as much of it as came before the trouble.
    pub(super) answer: Option<Answer>,
    /// Why there is no whole answer.
    pub(super) trouble: Option<String>,
}

/// Says one request on a connection of its own.
pub(super) async fn exchange(
    address: &Address,
    sent: Sent,
    limit: Duration,
    end: Instant,
) -> Exchange {
    let limit = limit.min(end.saturating_duration_since(Instant::now()));
    if limit.is_zero() {
        let trouble = Some("not asked: the whole run has taken too long already".to_owned());
        return Exchange {
            sent,
            answer: None,
            trouble,
        };
    }
    let mut answer = None;
    let talked = tokio::time::timeout(limit, talk(address, &sent, &mut answer)).await;
    let trouble = match talked {
        Ok(Ok(())) => None,
        Ok(Err(trouble)) => Some(trouble),
        Err(_) => Some(format!(
            "no whole answer within {:.1} s",
            limit.as_secs_f64()
        )),
    };
    Exchange {
        sent,
        answer,
        trouble,
    }
}

async fn talk(address: &Address, sent: &Sent, answer: &mut Option<Answer>) -> Result<(), String> {
    let stream = TcpStream::connect((address.host.as_str(), address.port))
        .await
        .map_err(|cause| format!("could not connect: {cause}"))?;
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_headers(1000)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|cause| in_words(&cause))?;
    // Ends with this request, whatever becomes of it.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let request = request(address, sent)?;
    let response = sender
        .send_request(request)
        .await
        .map_err(|cause| format!("no answer: {}", in_words(&cause)))?;
    let (head, mut body) = response.into_parts();
    let coding = head.headers.get(header::CONTENT_ENCODING).cloned();
    let answer = answer.insert(Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        trailers: HeaderMap::new(),
        body: Vec::new(),
    });
    // Kept as it comes: what comes before a timeout or a break counts.
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|cause| format!("the answer broke off: {}", in_words(&cause)))?;
        match frame.into_data() {
            Ok(data) => answer.body.extend_from_slice(&data),
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    answer.trailers.extend(trailers);
                }
            }
        }
        if answer.body.len() > MOST {
            return Err(format!("the answer is larger than {} MiB", MOST >> 20));
        }
    }
    match coding {
        Some(coding) if coding != "identity" => Err(format!(
            "the answer is encoded as {coding:?}, and only identity was asked for"
        )),
        Some(_) | None => Ok(()),
    }
}

fn request(address: &Address, sent: &Sent) -> Result<Request<Full<Bytes>>, String> {
    let body = sent.body.as_ref().map(ToString::to_string);
    let mut request = Request::builder()
        .method(sent.method.clone())
        .uri(format!("{}{}", address.base, sent.target))
        .body(Full::new(Bytes::from(body.unwrap_or_default())))
        .map_err(|cause| format!("the request cannot be said: {cause}"))?;
    let headers = request.headers_mut();
    headers.extend(sent.headers.clone());
    headers.insert(header::HOST, address.authority.clone());
    headers.insert(
        header::ACCEPT_ENCODING,
        HeaderValue::from_static("identity"),
    );
    if sent.body.is_some() && !headers.contains_key(header::CONTENT_TYPE) {
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
    }
    Ok(request)
}

/// An error with its causes, on one line.
fn in_words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_read() {
        let check = |url: &str, expected: Option<(&str, u16, &str)>| {
            let parsed = Address::parse(url).ok();
            let read = parsed
                .as_ref()
                .map(|one| (one.host.as_str(), one.port, one.base.as_str()));
            assert_eq!(read, expected, "{url}");
        };
        check("http://127.0.0.1:81", Some(("127.0.0.1", 81, "")));
        check("http://127.0.0.1:81/", Some(("127.0.0.1", 81, "")));
        check("HTTP://localhost/a/b/", Some(("localhost", 80, "/a/b")));
        check("http://[::1]:9", Some(("::1", 9, "")));
        check("https://127.0.0.1:81", None);
        check("127.0.0.1:81", None);
        check("http://", None);
        check("http://a?b", None);
        check("http://u:p@a", None);
        check("http://a b", None);
        check("http://a:99999", None);
    }
}
