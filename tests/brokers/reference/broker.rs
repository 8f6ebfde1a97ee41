//! What the broker holds, and which way a request goes.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::faults::Fault;
use crate::rule::{self, Route};

/// An answer.
pub type Reply = Response<Full<Bytes>>;

/// A request, whole.
pub struct Asked {
    pub method: Method,
    pub path: String,
    pub query: Option<String>,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Who asks.
pub struct Caller {
    pub name: String,
    pub token: String,
}

/// The broker.
pub struct Broker {
    pub environment: Value,
    /// The last report of each box: the words of each capability.
    pub reports: Mutex<BTreeMap<String, BTreeMap<String, Vec<String>>>>,
    faults: Vec<Fault>,
    tokens: BTreeMap<String, String>,
}

impl Broker {
    pub fn new(environment: Value, faults: Vec<Fault>) -> Self {
        let boxes = environment["boxes"].as_array().expect("boxes");
        let tokens = boxes
            .iter()
            .map(|name| (name.as_str().expect("a name").to_owned(), token()))
            .collect();
        Self {
            environment,
            reports: Mutex::default(),
            faults,
            tokens,
        }
    }

    pub fn breaks(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// What the suite is told.
    pub fn line(&self, url: &str) -> String {
        json!({"url": url, "tokens": self.tokens}).to_string()
    }

    /// A text of the environment.
    pub fn said(&self, pointer: &str) -> &str {
        self.environment
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_else(|| panic!("the environment has no {pointer}"))
    }

    pub async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Reply {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes());
        let asked = Asked {
            method: head.method,
            path: head.uri.path().to_owned(),
            query: head.uri.query().map(str::to_owned),
            headers: head.headers,
            body: body.unwrap_or_default(),
        };
        if self.breaks(Fault::HugeAnswers) {
            return Response::new(Full::new(Bytes::from(vec![b'x'; 8 << 20])));
        }
        let mut reply = self.route(&asked).await;
        if self.breaks(Fault::Compress) {
            let gzip = http::HeaderValue::from_static("gzip");
            reply.headers_mut().insert("content-encoding", gzip);
        }
        reply
    }

    async fn route(self: &Arc<Self>, asked: &Asked) -> Reply {
        let caller = self.caller(asked);
        if asked.path == "/api/box/declaration" {
            return self.declare(asked, caller);
        }
        let Some(route) = rule::route(self, asked) else {
            return refuse(404, "This broker does not serve that.");
        };
        if let Route::Hello = route {
            if self.breaks(Fault::HelloNeedsToken) && caller.is_none() {
                return refuse(403, "The hello needs a token.");
            }
            return answer(200, &json!({}));
        }
        let Some(caller) = caller.or_else(|| self.stranger(&route)) else {
            return self.unknown(&route);
        };
        if let Some(refused) = rule::refused(self, &caller, &route) {
            if self.breaks(Fault::TouchUpstreamBeforeRefusing) {
                self.touch().await;
            }
            if self.breaks(Fault::TouchUpstreamWhileRefusing) {
                let broker = Arc::clone(self);
                tokio::spawn(async move { broker.touch().await });
            }
            return refused;
        }
        match route {
            Route::Hello => unreachable!("answered above"),
            Route::Messages => self.messages(asked, &caller).await,
            Route::Decide => self.decide(asked).await,
            Route::Egress(name) => self.egress(asked, &caller, &name).await,
            Route::Feedback(words) => self.feedback(&words),
            Route::Fountain(_) => self.fountain(asked).await,
            Route::Notes(_) => answer(200, &json!({})),
        }
    }

    fn caller(&self, asked: &Asked) -> Option<Caller> {
        let text = |name| asked.headers.get(name)?.to_str().ok();
        let bearer = text("authorization").and_then(|text| text.strip_prefix("Bearer "));
        let shown = bearer.or_else(|| text("x-api-key"))?;
        let found = self.tokens.iter().find(|(_, token)| *token == shown);
        found.map(|(name, token)| Caller {
            name: name.clone(),
            token: token.clone(),
        })
    }

    fn stranger(&self, route: &Route) -> Option<Caller> {
        let taken = matches!(route, Route::Notes(_)) && self.breaks(Fault::NotesForStrangers);
        taken.then(|| Caller {
            name: "conformance-a".to_owned(),
            token: String::new(),
        })
    }

    fn unknown(&self, route: &Route) -> Reply {
        let hidden = matches!(route, Route::Decide) && self.breaks(Fault::HideDecide);
        let status = match (hidden, self.breaks(Fault::Answer401)) {
            (true, _) => 404,
            (false, true) => 401,
            (false, false) => 403,
        };
        refuse(status, "This token is no box's.")
    }

    fn feedback(&self, words: &[&str]) -> Reply {
        if self.breaks(Fault::RefuseFeedback) {
            return refuse(403, "No feedback here.");
        }
        if words.is_empty() && !self.breaks(Fault::TakeEmptyBatch) {
            return refuse(400, "A batch holds entries, counts or both.");
        }
        answer(202, &json!({}))
    }
}

/// An answer of JSON.
pub fn answer(status: u16, body: &Value) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body.to_string())));
    *reply.status_mut() = StatusCode::from_u16(status).expect("a status");
    let json = http::HeaderValue::from_static("application/json");
    reply.headers_mut().insert("content-type", json);
    reply
}

/// A refusal of the protocol.
pub fn refuse(status: u16, message: &str) -> Reply {
    answer(
        status,
        &json!({"error": {"type": "refused", "message": message}}),
    )
}

fn token() -> String {
    let mut bytes = [0; 24];
    let mut source = std::fs::File::open("/dev/urandom").expect("randomness");
    source.read_exact(&mut bytes).expect("randomness");
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("box_{digits}")
}
