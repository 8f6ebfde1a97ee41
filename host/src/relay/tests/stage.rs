//! A broker for tests: a real listener and a real relay, with a plan in place
//! of the plugin, and values in place of the vault.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method, Request, Response};

use crate::lease::Tenure;
use crate::listen::{InboundBody, ListenSettings, Listener, ResponseBody, Workers};
use crate::relay::{
    Destination, HeaderPolicy, OpenValue, OpenedValue, Relay, RelaySettings, RequestBody,
    SealedRequest, ShownToken, ValueUnavailable, seal_forward,
};
use crate::rules::names::{BoxName, SecretName};
use crate::rules::origin::Origin;
use crate::rules::plan::{
    CredentialKey, CredentialKind, Edit, Forward, Outbound, Placement, Target,
};
use crate::rules::plan_check::Checked;
use crate::rules::refusal::Refusal;
use crate::rules::scrub::Matcher;
use crate::rules::secret::Secret;
use crate::rules::token::BoxToken;

/// The value that every test seals in.
pub(crate) const VALUE: &str = "sk-live-0123456789/+=abc";

pub(crate) fn token() -> BoxToken {
    BoxToken::from_random(&[7; 32])
}

pub(crate) fn shown(token: &BoxToken) -> ShownToken<'_> {
    ShownToken {
        token,
        finder: Arc::new(Matcher::of_token(token)),
    }
}

pub(crate) fn key(name: &str) -> CredentialKey {
    CredentialKey::Secret {
        box_name: BoxName::parse("box").unwrap(),
        name: SecretName::parse(name).unwrap(),
    }
}

/// Values, each bound to its origin.
pub(crate) struct Values(pub(crate) HashMap<CredentialKey, (Vec<u8>, Origin)>);

impl OpenValue for Values {
    fn open_value(&self, key: &CredentialKey) -> Result<Arc<OpenedValue>, ValueUnavailable> {
        let (value, bound_to) = self.0.get(key).ok_or(ValueUnavailable)?;
        Ok(Arc::new(OpenedValue::new(
            Secret::new(value.clone()),
            CredentialKind::Secret,
            bound_to.clone(),
        )))
    }
}

/// What is done with every request of one test.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) destination: Destination,
    pub(crate) placement: Option<Placement>,
    pub(crate) credential: CredentialKey,
    pub(crate) values: Arc<Values>,
    pub(crate) credential_headers: Vec<HeaderName>,
    pub(crate) policy: HeaderPolicy,
    pub(crate) request_edits: Vec<Edit>,
    pub(crate) response_edits: Vec<Edit>,
    pub(crate) substitutions: Vec<(http::StatusCode, Refusal)>,
    pub(crate) lease: Tenure,
}

impl Script {
    /// A bearer for a private destination.
    pub(crate) fn to(origin: &Origin) -> Self {
        let values = HashMap::from([(key("KEY"), (VALUE.into(), origin.clone()))]);
        Self {
            destination: Destination {
                origin: origin.clone(),
                base_path: String::new(),
                allow_private: true,
                extra_ca: None,
                allow: Vec::new(),
                name: "secret KEY".to_owned(),
            },
            placement: Some(Placement::Bearer),
            credential: key("KEY"),
            values: Arc::new(Values(values)),
            credential_headers: vec![HeaderName::from_static("x-key")],
            policy: HeaderPolicy::default(),
            request_edits: Vec::new(),
            response_edits: Vec::new(),
            substitutions: Vec::new(),
            lease: Tenure::new(),
        }
    }

    pub(crate) fn seal(&self, head: &http::request::Parts) -> Result<SealedRequest, Refusal> {
        let outbound = Outbound {
            target: Target::Secret(SecretName::parse("KEY").unwrap()),
            method: head.method.clone(),
            path: head.uri.path().to_owned(),
            query: head.uri.query().map(str::to_owned),
            credential: self
                .placement
                .clone()
                .map(|placement| (self.credential.clone(), placement)),
        };
        let forward = Forward {
            outbound,
            request_edits: self.request_edits.clone(),
            response_edits: self.response_edits.clone(),
            substitutions: self.substitutions.clone(),
        };
        seal_forward(
            Checked::unchecked(forward),
            &self.destination,
            head,
            &shown(&token()),
            &self.credential_headers,
            self.policy,
            &*self.values,
        )
        .map_err(|refused| refused.refusal(&self.destination.name))
    }
}

/// A head as a box sends it.
pub(crate) fn head(method: &Method, target: &str, fields: &[(&str, &str)]) -> http::request::Parts {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

pub(crate) fn relay() -> Relay {
    relay_with(RelaySettings::default())
}

pub(crate) fn relay_with(settings: RelaySettings) -> Relay {
    Relay::new(settings).unwrap()
}

/// A listener in front of a relay, for as long as the test runs.
pub(crate) struct Broker {
    pub(crate) address: SocketAddr,
}

impl Broker {
    pub(crate) async fn start(relay: Relay, script: Script) -> Self {
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(any, None, ListenSettings::default())
            .await
            .unwrap();
        let address = listener.local_addr();
        let service = move |request| answer(relay.clone(), script.clone(), request);
        let for_ever = tokio_util::sync::CancellationToken::new();
        tokio::spawn(async move {
            let workers = Workers::start().unwrap();
            let never = Duration::ZERO;
            listener.serve(service, &workers, for_ever, never).await;
        });
        Self { address }
    }
}

async fn answer(
    relay: Relay,
    script: Script,
    request: Request<InboundBody>,
) -> Response<ResponseBody> {
    let (head, body) = request.into_parts();
    let sealed = match script.seal(&head) {
        Ok(sealed) => sealed,
        Err(refusal) => return refused(&refusal),
    };
    match relay
        .forward(sealed, RequestBody::stream(body), script.lease.into())
        .await
    {
        Ok(response) => response.map(ResponseBody::stream),
        Err(failure) => refused(&failure.refusal(&script.destination.name)),
    }
}

fn refused(refusal: &Refusal) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(refusal.message.clone()));
    *response.status_mut() = refusal.status;
    response
}
