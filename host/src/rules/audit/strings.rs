//! Every string that a plugin says, by its place, and whether it holds what
//! could end a header's line or steer a terminal.
//!
//! The host's checks refuse these one by one; an audit wants all of them.

use crate::rules::manifest_check::SaidManifest;
use crate::rules::plan::{
    SaidAction, SaidCall, SaidEdit, SaidForward, SaidNeed, SaidPath, SaidPlacement, SaidPlan,
    SaidRefusal, SaidStep, SaidTarget,
};

/// The places of a step in which a control character stands, each once.
#[must_use]
pub fn in_step(step: &SaidStep) -> Vec<&'static str> {
    let mut seen = Seen::default();
    match step {
        SaidStep::Plan(plan) => seen.plan(plan),
        SaidStep::Need(need) => seen.need(need),
    }
    seen.0
}

/// Whether a scope word holds one.
#[must_use]
pub fn in_words(words: &[String]) -> Vec<&'static str> {
    let mut seen = Seen::default();
    for word in words {
        seen.text("a scope word", word);
    }
    seen.0
}

/// The places of a manifest in which a control character stands.
#[must_use]
pub fn in_manifest(said: &SaidManifest) -> Vec<&'static str> {
    let mut seen = Seen::default();
    seen.text("the manifest's name", &said.name);
    seen.text("the manifest's version", &said.version);
    seen.text("the manifest's capability", &said.capability);
    seen.text("the manifest's summary", &said.summary);
    for route in &said.routes {
        seen.text("a route's prefix", &route.prefix);
        for method in &route.methods {
            seen.text("a route's method", method);
        }
        for name in route
            .headers
            .iter()
            .chain(route.token_headers.iter().flatten())
        {
            seen.text("a route's header", name);
        }
    }
    for word in &said.words {
        seen.text("a word of the manifest", &word.name);
        seen.text("the description of a word", &word.description);
        for target in &word.reaches {
            seen.target("what a word reaches", target);
        }
    }
    for path in &said.paths {
        seen.text("a path of the manifest", path);
    }
    seen.0
}

#[derive(Default)]
struct Seen(Vec<&'static str>);

impl Seen {
    fn text(&mut self, place: &'static str, text: &str) {
        if text.chars().any(char::is_control) && !self.0.contains(&place) {
            self.0.push(place);
        }
    }

    /// A header's value is bytes; a tab may stand in it.
    fn value(&mut self, place: &'static str, value: &[u8]) {
        let ends_line = |byte: &u8| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f;
        if value.iter().any(ends_line) && !self.0.contains(&place) {
            self.0.push(place);
        }
    }

    fn plan(&mut self, plan: &SaidPlan) {
        match &plan.action {
            SaidAction::Forward(forward) => self.forward(forward),
            SaidAction::Answer { headers, .. } => {
                self.headers("a header of the answer", headers);
            }
            SaidAction::Refuse(refusal) => self.refusal(refusal),
        }
        for write in &plan.writes {
            self.text("a key of its keep", &write.key);
        }
        for thing in &plan.owns {
            self.text("a thing's kind", &thing.kind);
            self.text("a thing's id", &thing.id);
        }
        for line in &plan.log {
            self.text("a log line", &line.message);
        }
    }

    fn need(&mut self, need: &SaidNeed) {
        need.calls.iter().for_each(|call| self.call(call));
        for key in &need.reads {
            self.text("a key of its keep", key);
        }
        for listing in &need.lists {
            self.text("the prefix of a listing", &listing.prefix);
            self.text(
                "the start of a listing",
                listing.after.as_deref().unwrap_or_default(),
            );
        }
        for thing in &need.owned {
            self.text("a thing's kind", &thing.kind);
            self.text("a thing's id", &thing.id);
        }
    }

    fn forward(&mut self, forward: &SaidForward) {
        self.target("the target of a forward", &forward.to);
        self.path("the path of a forward", &forward.path);
        self.text(
            "the credential of a forward",
            forward.credential.as_deref().unwrap_or_default(),
        );
        self.placement(&forward.placement);
        self.edits("a header edit of the request", &forward.request_headers);
        self.edits("a header edit of the answer", &forward.response_headers);
        for (_, refusal) in &forward.substitutions {
            self.refusal(refusal);
        }
    }

    fn call(&mut self, call: &SaidCall) {
        self.target("the target of a call", &call.to);
        self.text("the method of a call", &call.method);
        self.path("the path of a call", &call.path);
        self.headers("a header of a call", &call.headers);
        self.text(
            "the credential of a call",
            call.credential.as_deref().unwrap_or_default(),
        );
        self.placement(&call.placement);
    }

    fn refusal(&mut self, refusal: &SaidRefusal) {
        self.text("the type of a refusal", &refusal.kind);
        self.text("the message of a refusal", &refusal.message);
    }

    fn target(&mut self, place: &'static str, target: &SaidTarget) {
        match target {
            SaidTarget::Upstream(name) | SaidTarget::Secret(name) => self.text(place, name),
        }
    }

    fn path(&mut self, place: &'static str, path: &SaidPath) {
        match path {
            SaidPath::Literal(literal) => self.text(place, literal),
            SaidPath::Received(_) => {}
        }
    }

    fn placement(&mut self, placement: &SaidPlacement) {
        match placement {
            SaidPlacement::Bearer | SaidPlacement::StandIn => {}
            SaidPlacement::Header { name, template } => {
                self.text("the header of a placement", name);
                self.text("the template of a placement", template);
            }
            SaidPlacement::Query(name) => self.text("the parameter of a placement", name),
        }
    }

    fn headers(&mut self, place: &'static str, headers: &[(String, Vec<u8>)]) {
        for (name, value) in headers {
            self.text(place, name);
            self.value(place, value);
        }
    }

    fn edits(&mut self, place: &'static str, edits: &[SaidEdit]) {
        for edit in edits {
            match edit {
                SaidEdit::Set(name, value) | SaidEdit::AddToList(name, value) => {
                    self.text(place, name);
                    self.value(place, value);
                }
                SaidEdit::Remove(name) => self.text(place, name),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(name: &str, value: &[u8]) -> SaidStep {
        SaidStep::Plan(Box::new(SaidPlan {
            action: SaidAction::Answer {
                status: 200,
                headers: vec![(name.to_owned(), value.to_vec())],
                body: b"a\nbody\0".to_vec(),
            },
            writes: Vec::new(),
            journal: Vec::new(),
            owns: Vec::new(),
            log: Vec::new(),
        }))
    }

    #[test]
    fn what_ends_a_line_is_found_where_it_stands() {
        let check = |name: &str, value: &[u8], expected: &[&str]| {
            assert_eq!(
                in_step(&answer(name, value)),
                expected,
                "{name:?} {value:?}"
            );
        };
        check("x-a", b"plain\tand \xff", &[]);
        check("x-a", b"a\r\nb", &["a header of the answer"]);
        check("x-a\0", b"a\0", &["a header of the answer"]);
    }

    #[test]
    fn every_place_of_a_need_is_looked_at() {
        let bad = "a\nb".to_owned();
        let call = SaidCall {
            to: SaidTarget::Upstream(bad.clone()),
            method: bad.clone(),
            path: SaidPath::Literal(bad.clone()),
            query: crate::rules::plan::SaidQuery::None,
            headers: vec![(bad.clone(), Vec::new())],
            body: Vec::new(),
            credential: Some(bad.clone()),
            placement: SaidPlacement::Query(bad.clone()),
        };
        let need = SaidNeed {
            calls: vec![call],
            reads: vec![bad.clone()],
            lists: vec![crate::rules::plan::Listing {
                prefix: bad.clone(),
                after: Some(bad.clone()),
            }],
            owned: vec![crate::rules::plan::SaidThing {
                kind: bad.clone(),
                id: bad,
            }],
            deadline_ms: 0,
            state: Vec::new(),
        };
        assert_eq!(in_step(&SaidStep::Need(need)).len(), 11);
    }
}
