//! One request, from its head to its answer. Each step makes the value that
//! the next one cannot do without: a `Caller`, then a `Permit`, then a checked
//! plan, then a sealed request.

use bytes::Bytes;
use http::request::Parts as Head;
use http::{HeaderName, Method, Request, Response, StatusCode};
use http_body::Body;

use crate::chant::answers::{self, Failure};
use crate::chant::caller::Caller;
use crate::chant::decide::Asked;
use crate::chant::ending::{Ending, Told};
use crate::chant::limits::{Held, Over};
use crate::chant::routes::{self, Destination, PluginRoute};
use crate::chant::{Chant, body, declare};
use crate::listen::{InboundBody, ResponseBody};
use crate::relay::{self, HeaderPolicy, RelayBody, RelayFailure, RequestBody};
use crate::rules::declaration::Declaration;
use crate::rules::headers::{is_plainly_framed, plugin_may_see};
use crate::rules::manifest::TokenPlace;
use crate::rules::payer::Payer;
use crate::rules::plan::{Answer, ShownRequest};
use crate::rules::plan_check::CheckedAction;
use crate::rules::refusal::{Refusal, RefusalKind};
use crate::rules::token::BoxToken;
use crate::rules::{identify, paths};
use crate::telemetry::PluginFault;

impl Chant {
    /// Serves one request. It never fails: what goes wrong is an answer.
    pub async fn serve(&self, request: Request<InboundBody>) -> Response<ResponseBody> {
        let mut ending = Ending::begin(&self.0.parts.metrics, request.method());
        let mut payer = None;
        // On the heap: what carries it is handed on by value several times.
        let journey = Box::pin(self.journey(request, &mut ending, &mut payer)).await;
        let mut response = match journey {
            Ok(Reply::Answer(answer)) => {
                ending.answered(answer.status, answer.body.len());
                answers::answered(answer)
            }
            Ok(Reply::Stream(response)) => {
                ending.forwarding(response.status());
                response.map(|body| ResponseBody::stream(Told::new(body, ending)))
            }
            Err(failure) => {
                if let Some(fault) = failure.plugin_fault() {
                    self.0.parts.metrics.plugin_failed(fault);
                    if let Some(plugin) = &ending.plugin
                        && !matches!(fault, PluginFault::Busy)
                    {
                        let box_name = ending.box_name.as_ref();
                        self.0.limits.faults.failed(plugin, box_name);
                    }
                }
                if let Some(limit) = failure.limit() {
                    self.0.parts.metrics.limit_refused(limit);
                }
                let refusal = failure.into_refusal();
                let answer = answers::refuse(&refusal);
                ending.refused(refusal, answer.body.len());
                answers::answered(answer)
            }
        };
        if let Some(payer) = payer {
            answers::say_payer(&mut response, &payer);
        }
        response
    }

    async fn journey(
        &self,
        request: Request<InboundBody>,
        ending: &mut Ending,
        payer: &mut Option<Payer>,
    ) -> Result<Reply, Failure> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        if !paths::is_plain(path.as_bytes()) {
            return Err(Refusal::not_found(
                "This path holds a dot segment, a backslash or a NUL, in one spelling or another. Send it resolved.",
            )
            .into());
        }
        if !is_plainly_framed(&head.headers) {
            return Err(Refusal::new(
                StatusCode::NOT_IMPLEMENTED,
                RefusalKind::InvalidRequest,
                "Of transfer codings only chunked is taken. Send the body in it alone.",
            )
            .into());
        }
        let live = self.0.parts.plugins.live();
        match routes::find(live.plugins(), &head.method, path) {
            Destination::Nowhere => Err(not_served().into()),
            Destination::Declaration => {
                let caller = Caller::identify(self.boxes(), &head, &self.0.own_routes)?;
                self.take_slots(Some(&caller), ending)?;
                declare::report(self, &caller, &head, body)
                    .await
                    .map(Reply::Answer)
            }
            Destination::Plugin(_) if !is_served_method(&head.method) => Err(not_served().into()),
            Destination::Plugin(matched) => {
                let matched = self.version_for(matched, &head).ok_or_else(not_served)?;
                ending.plugin = Some(matched.plugin.manifest().name.clone());
                ending.noted = self.note(&matched)?;
                if matched.route().public {
                    if !matched.plugin.granted().public(&matched.route().prefix) {
                        return Err(not_served().into());
                    }
                    if identify::tokens_in_path(path).next().is_some()
                        || identify::grant_in_path(path).is_some()
                    {
                        return Err(Refusal::invalid(
                            "A token or grant stands in the path. Take it out.",
                        )
                        .into());
                    }
                    self.take_slots(None, ending)?;
                    return self.answer_public(&matched, &head, body, ending).await;
                }
                let mut caller = Caller::identify(self.boxes(), &head, &matched.route().token)?;
                if let Some(upstream) = &matched.route().payer_of {
                    let now = jiff::Timestamp::now();
                    caller.take_turn(self.turn(&head, caller.box_name(), upstream, now));
                    // Said on whatever comes of the request from here on.
                    *payer = match caller.turn() {
                        Some(turn) => turn.payer(),
                        None => self.payer(caller.box_name()),
                    };
                }
                self.take_slots(Some(&caller), ending)?;
                self.answer_box(&matched, &head, body, &caller, ending)
                    .await
            }
        }
    }

    /// The route again, of the version that serves the caller's box: a canary
    /// takes its boxes' requests to its own routes. From here on a request
    /// sees no other. Who shows no token that names a box is the live one's to
    /// answer.
    fn version_for(&self, matched: PluginRoute, head: &Head) -> Option<PluginRoute> {
        let is_canary = matched.plugin.is_canary();
        if !is_canary && (matched.plugin.canary().is_none() || matched.route().public) {
            return Some(matched);
        }
        let caller = Caller::identify(self.boxes(), head, &matched.route().token);
        let Ok(caller) = caller else {
            return (!is_canary).then_some(matched);
        };
        // A route that the live version does not have.
        if is_canary {
            return matched.plugin.serves(caller.box_name()).then_some(matched);
        }
        match matched.plugin.canary_for(caller.box_name()) {
            Some(canary) => routes::under(canary, &head.method, head.uri.path()),
            None => Some(matched),
        }
    }

    /// The caller's room for one more request, and the plugin's, kept until the
    /// end of its answer and of its body.
    fn take_slots(&self, caller: Option<&Caller>, ending: &mut Ending) -> Result<(), Over> {
        ending.box_name = caller.map(|caller| caller.box_name().clone());
        let limits = &self.0.limits;
        let own = caller.map(|caller| (caller.box_name(), &caller.known().slots));
        let own = limits.request_of(own)?;
        let plugins = ending.plugin.as_ref();
        if let Some(plugin) = plugins {
            limits.faults.may_ask(plugin, ending.box_name.as_ref())?;
        }
        let plugins = plugins
            .map(|plugin| limits.request_at(plugin))
            .transpose()?;
        ending.hold(own, plugins);
        Ok(())
    }

    /// A route that needs no token: the plugin can only answer or refuse.
    async fn answer_public(
        &self,
        matched: &PluginRoute,
        head: &Head,
        body: InboundBody,
        ending: &mut Ending,
    ) -> Result<Reply, Failure> {
        if matched.route().inputs.body > 0 {
            body::refuse_encoded(&head.headers)?;
        }
        let held = self.held(matched, None);
        let whole = self.read_if_asked(matched, body, None, held).await?.0;
        let hidden = self.credential_headers(&matched.route().token);
        let shown = self.show(matched, head, whole, &hidden);
        let asked = Asked::public(matched, head, shown, &hidden);
        let (plan, _) = self
            .decide(asked, &mut ending.noted)
            .await?
            .ok_or_else(not_served)?;
        match plan.action {
            CheckedAction::Answer(answer) => Ok(Reply::Answer(answer)),
            CheckedAction::Refuse(refusal) => Err(refusal.into()),
            // Without words no forward passes the check of the plan.
            CheckedAction::Forward(_) => Err(not_served().into()),
        }
    }

    /// A route of a box: held to the rule, decided, relayed.
    async fn answer_box(
        &self,
        matched: &PluginRoute,
        head: &Head,
        body: InboundBody,
        caller: &Caller,
        ending: &mut Ending,
    ) -> Result<Reply, Failure> {
        if matched.route().payer_of.is_some() && caller.known().paused {
            return Err(paused(caller.box_name().as_str()).into());
        }
        Caller::refuse_strays(self.boxes(), head, &matched.route().token)?;
        let reported = self.declarations().of(caller.box_name());
        let declared = reported.as_deref().map(|reported| &reported.declaration);
        if matched.route().inputs.body > 0 {
            // The body is read for a box that declares the capability at all;
            // the words are held to the rule once they are known.
            self.hold_to_capability(matched, declared)?;
            body::refuse_encoded(&head.headers)?;
        }
        let body = ending.counting(body);
        let held = self.held(matched, Some(caller));
        let (whole, rest) = self
            .read_if_asked(matched, body, Some(caller.token()), held)
            .await?;
        let hidden = self.credential_headers(&matched.route().token);
        let shown = self.show(matched, head, whole, &hidden);
        let asked = Asked::of_box(matched, head, shown, &hidden, caller, declared);
        let (plan, lease) = self
            .decide(asked, &mut ending.noted)
            .await?
            .ok_or_else(not_served)?;
        match plan.action {
            CheckedAction::Answer(answer) => Ok(Reply::Answer(answer)),
            CheckedAction::Refuse(refusal) => Err(refusal.into()),
            CheckedAction::Forward(forward) => {
                let target = forward.get().outbound.target.clone();
                let destination = self.locate(&target, caller.box_name())?;
                let policy = HeaderPolicy {
                    cookies: passes_cookies(&matched.route().token),
                };
                let sealed = relay::seal_forward(
                    forward,
                    &destination,
                    head,
                    &caller.shown(),
                    &hidden,
                    policy,
                    &self.0.parts.vault,
                )
                .map_err(|error| error.refusal(&destination.name))?;
                ending.target = Some(target);
                ending.lease = Some(lease.clone());
                let relayed = self.0.parts.relay.forward(sealed, rest, lease).await;
                relayed.map(Reply::Stream).map_err(|failure| {
                    // It may not have been the upstream that was silent.
                    if matches!(failure, RelayFailure::Silent) && ending.awaits_box() {
                        return Failure::Slow;
                    }
                    Failure::Relay(failure, destination.name.clone())
                })
            }
        }
    }

    fn hold_to_capability(
        &self,
        matched: &PluginRoute,
        declared: Option<&Declaration>,
    ) -> Result<(), Refusal> {
        let capability = &matched.plugin.manifest().capability;
        if declared.is_some_and(|declared| {
            declared
                .entries
                .iter()
                .any(|entry| entry.name == *capability)
        }) {
            return Ok(());
        }
        let words: Vec<&str> = matched
            .plugin
            .manifest()
            .words
            .iter()
            .map(|word| word.name.as_str())
            .collect();
        Err(Refusal::forbidden(format!(
            "This box declares no {capability} capability brokered by {broker}. Add an entry named \"{capability}\" \
             with broker \"{broker}\" to the box block of its chant.workspace.json, and in its scope the words it \
             needs of these: {words}.",
            broker = self.broker(),
            words = words.join(", "),
        )))
    }

    /// Headers that may carry a token on a route: they never leave as they
    /// came, and no plugin sees them.
    pub(super) fn credential_headers(&self, place: &TokenPlace) -> Vec<HeaderName> {
        match place {
            TokenPlace::Headers(names) => names
                .iter()
                .chain(&self.0.settings.token_headers)
                .cloned()
                .collect(),
            TokenPlace::Anywhere => Vec::new(),
        }
    }

    /// The body, whole where the route asks to see it, and what is to be sent.
    async fn read_if_asked<B>(
        &self,
        matched: &PluginRoute,
        body: B,
        token: Option<&BoxToken>,
        mut held: Held,
    ) -> Result<(Option<Bytes>, RequestBody), Failure>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        match matched.route().inputs.body {
            0 => Ok((None, RequestBody::stream(body))),
            most => {
                let most = most.min(self.0.settings.max_body);
                let whole = body::read(body, most, self.patience(), &mut held).await?;
                // The upstream gets what the plugin saw: no token, same length.
                let masked = held.hold(identify::mask_body(whole, token));
                Ok((Some(masked.clone()), RequestBody::full(masked)))
            }
        }
    }

    /// What a request at this plugin holds in memory: nothing yet.
    fn held(&self, matched: &PluginRoute, caller: Option<&Caller>) -> Held {
        let plugin = &matched.plugin.manifest().name;
        let box_name = caller.map(Caller::box_name);
        self.0.limits.room(box_name, Some(plugin))
    }

    /// The headers that the route asks to see, less those that may carry a
    /// token anywhere in this host.
    fn shown_headers(&self, matched: &PluginRoute, hidden: &[HeaderName]) -> Vec<HeaderName> {
        let own = &self.0.settings.token_headers;
        let asked = matched.route().inputs.headers.iter();
        asked
            .filter(|name| !own.contains(name) && plugin_may_see(name, hidden))
            .cloned()
            .collect()
    }

    /// What the plugin is shown: what its route asks for, and no token in it.
    fn show(
        &self,
        matched: &PluginRoute,
        head: &Head,
        body: Option<Bytes>,
        hidden: &[HeaderName],
    ) -> ShownRequest {
        let inputs = &matched.route().inputs;
        let settings = &self.0.settings.plugin_settings;
        ShownRequest {
            method: head.method.clone(),
            prefix: matched.route().prefix.clone(),
            path: matched.tail.clone(),
            query: head
                .uri
                .query()
                .filter(|_| inputs.query)
                .map(identify::mask_query),
            headers: identify::without_tokens(&head.headers, &self.shown_headers(matched, hidden)),
            body,
            time: inputs.time.then(now_ms),
            settings: inputs.settings.then(|| {
                settings
                    .get(&matched.plugin.manifest().name)
                    .cloned()
                    .unwrap_or_else(|| "{}".to_owned())
            }),
        }
    }
}

/// What a journey ends in when it is not refused.
enum Reply {
    Answer(Answer),
    Stream(Response<RelayBody>),
}

/// Cookies pass where the API behind the route is the app's own business.
pub(super) fn passes_cookies(place: &TokenPlace) -> bool {
    *place == TokenPlace::Anywhere
}

fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0)
}

/// Methods that a plugin is asked about: names in capitals, which no token can
/// be, and none that makes something else of the connection.
fn is_served_method(method: &Method) -> bool {
    let name = method.as_str();
    *method != Method::CONNECT
        && *method != Method::TRACE
        && name.len() <= 32
        && name
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'-')
}

fn not_served() -> Refusal {
    Refusal::not_found("This broker serves nothing at this path and method.")
}

fn paused(box_name: &str) -> Refusal {
    Refusal::forbidden(format!(
        "The operator has paused the box {box_name}: it may make no model calls until `jackfield box resume {box_name}`."
    ))
}
