//! What two versions of a plugin decided on the same request, held against each
//! other, and how often and in what they differed.
//!
//! Whatever is told of a difference names things and counts them: no header's
//! value, no query, no body, nothing of what is kept, and no credential but by
//! its name. Compared are the values, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::rules::audit::finding::shown;
use crate::rules::plan::{
    SaidAction, SaidEdit, SaidForward, SaidNeed, SaidPath, SaidPlacement, SaidPlan, SaidQuery,
    SaidTarget,
};
use crate::rules::plan_check::PlanFault;

/// How many examples are kept of one kind.
const MOST_EXAMPLES: u64 = 3;

/// What a version decided on a request.
#[derive(Debug, Clone)]
pub struct Decided {
    /// The words that it named; none where it does not serve the request, or
    /// failed before it named any.
    pub words: Option<Vec<String>>,
    /// What it came to.
    pub end: End,
}

/// What a decision came to.
#[derive(Debug, Clone)]
pub enum End {
    /// It does not serve the request.
    NotServed,
    /// It has named its words, and was not asked further.
    Named,
    /// A plan that the host would do.
    Plan(Box<SaidPlan>),
    /// It asked for what nobody brought.
    Need(SaidNeed),
    /// It failed.
    Failed(Failing),
}

/// How a decision failed: in a word, and never in the plugin's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failing(pub &'static str);

impl Failing {
    /// A plan that the host refuses.
    #[must_use]
    pub fn plan(fault: &PlanFault) -> Self {
        Self(match fault {
            PlanFault::Beyond(_) => "it reaches beyond its bounds",
            PlanFault::Nonsense(_) => "what it says is not well formed",
            PlanFault::TooLarge(_) => "it says more than the host takes",
        })
    }
}

/// In what two decisions differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One of them failed, or each in its way.
    Failure,
    /// One of them does not serve the request.
    Served,
    /// The words.
    Words,
    /// What has to be known first.
    Need,
    /// Forward, answer or refuse.
    Action,
    /// Where to.
    Target,
    /// The path.
    Path,
    /// The query.
    Query,
    /// The credential.
    Credential,
    /// Where the credential goes.
    Placement,
    /// Edits of request headers.
    RequestHeaders,
    /// Edits of response headers, or an answer's headers.
    ResponseHeaders,
    /// The status of an answer or a refusal, and a refusal's type.
    Status,
    /// Which answers of the upstream are replaced.
    Substitutions,
    /// An answer's body.
    Body,
    /// What is kept.
    Writes,
    /// What is noted.
    Journal,
    /// What becomes the box's own.
    Owns,
}

impl Kind {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Served => "served",
            Self::Words => "words",
            Self::Need => "need",
            Self::Action => "action",
            Self::Target => "target",
            Self::Path => "path",
            Self::Query => "query",
            Self::Credential => "credential",
            Self::Placement => "placement",
            Self::RequestHeaders => "request-headers",
            Self::ResponseHeaders => "response-headers",
            Self::Status => "status",
            Self::Substitutions => "substitutions",
            Self::Body => "body",
            Self::Writes => "writes",
            Self::Journal => "journal",
            Self::Owns => "owns",
        }
    }
}

/// One difference, with what each side says, in words that may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// In what.
    pub kind: Kind,
    /// What the live version says.
    pub live: String,
    /// What the other one says.
    pub other: String,
}

impl Difference {
    fn new(kind: Kind, live: impl fmt::Display, other: impl fmt::Display) -> Self {
        let (live, mut other) = (shown(&live.to_string()), shown(&other.to_string()));
        if live == other {
            other += ", of another value";
        }
        Self { kind, live, other }
    }
}

/// Whether two needs are the same: what one is brought answers the other. What
/// each finds again in `resume` is its own.
#[must_use]
pub fn is_same_need(one: &SaidNeed, other: &SaidNeed) -> bool {
    let of = |need: &SaidNeed| SaidNeed {
        state: Vec::new(),
        ..need.clone()
    };
    of(one) == of(other)
}

/// In what two decisions differ; nothing where they are the same.
#[must_use]
pub fn differences(live: &Decided, other: &Decided) -> Vec<Difference> {
    let single = |kind| vec![Difference::new(kind, brief(&live.end), brief(&other.end))];
    match (&live.end, &other.end) {
        (End::Failed(one), End::Failed(two)) if one == two => return Vec::new(),
        (End::Failed(_), _) | (_, End::Failed(_)) => return single(Kind::Failure),
        (End::NotServed, End::NotServed) => return Vec::new(),
        (End::NotServed, _) | (_, End::NotServed) => return single(Kind::Served),
        (End::Named | End::Plan(_) | End::Need(_), End::Named | End::Plan(_) | End::Need(_)) => {}
    }
    let named = |decided: &Decided| -> BTreeSet<String> {
        decided.words.iter().flatten().cloned().collect()
    };
    let (before, after) = (named(live), named(other));
    if before != after {
        return vec![Difference::new(Kind::Words, list(&before), list(&after))];
    }
    match (&live.end, &other.end) {
        (End::Plan(one), End::Plan(two)) => of_plans(one, two),
        (End::Need(one), End::Need(two)) if is_same_need(one, two) => Vec::new(),
        (End::Need(_), End::Need(_) | End::Plan(_)) | (End::Plan(_), End::Need(_)) => {
            single(Kind::Need)
        }
        // One of them was asked no further.
        (End::Named | End::NotServed | End::Failed(_), _)
        | (_, End::Named | End::NotServed | End::Failed(_)) => Vec::new(),
    }
}

fn of_plans(live: &SaidPlan, other: &SaidPlan) -> Vec<Difference> {
    let mut found = of_actions(&live.action, &other.action);
    let mut hold = |kind, differ: bool, one: String, two: String| {
        if differ {
            found.push(Difference::new(kind, one, two));
        }
    };
    let keys = |plan: &SaidPlan| list(plan.writes.iter().map(|write| &write.key));
    hold(
        Kind::Writes,
        live.writes != other.writes,
        keys(live),
        keys(other),
    );
    let records = |plan: &SaidPlan| format!("{} records", plan.journal.len());
    hold(
        Kind::Journal,
        live.journal != other.journal,
        records(live),
        records(other),
    );
    let things = |plan: &SaidPlan| list(plan.owns.iter().map(|thing| &thing.kind));
    hold(
        Kind::Owns,
        live.owns != other.owns,
        things(live),
        things(other),
    );
    found
}

fn of_actions(live: &SaidAction, other: &SaidAction) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut hold = |kind, differ: bool, one: String, two: String| {
        if differ {
            found.push(Difference::new(kind, one, two));
        }
    };
    match (live, other) {
        (SaidAction::Forward(one), SaidAction::Forward(two)) => of_forwards(one, two, &mut hold),
        (
            SaidAction::Answer {
                status: one,
                headers: had,
                body: said,
            },
            SaidAction::Answer {
                status: two,
                headers: has,
                body: says,
            },
        ) => {
            hold(Kind::Status, one != two, one.to_string(), two.to_string());
            let names = |headers: &[(String, Vec<u8>)]| list(headers.iter().map(|(name, _)| name));
            hold(Kind::ResponseHeaders, had != has, names(had), names(has));
            let size = |body: &[u8]| format!("{} bytes", body.len());
            hold(Kind::Body, said != says, size(said), size(says));
        }
        (SaidAction::Refuse(one), SaidAction::Refuse(two)) => {
            let said = (one.status, &one.kind) != (two.status, &two.kind);
            let text = |status: u16, kind: &str| format!("{status} {kind}");
            hold(
                Kind::Status,
                said,
                text(one.status, &one.kind),
                text(two.status, &two.kind),
            );
        }
        (
            SaidAction::Forward(_) | SaidAction::Answer { .. } | SaidAction::Refuse(_),
            SaidAction::Forward(_) | SaidAction::Answer { .. } | SaidAction::Refuse(_),
        ) => hold(Kind::Action, true, verb(live), verb(other)),
    }
    found
}

fn of_forwards(
    live: &SaidForward,
    other: &SaidForward,
    hold: &mut impl FnMut(Kind, bool, String, String),
) {
    let mut each = |kind, differ, say: fn(&SaidForward) -> String| {
        hold(kind, differ, say(live), say(other));
    };
    each(Kind::Target, live.to != other.to, |said| match &said.to {
        SaidTarget::Upstream(name) => format!("the upstream {name}"),
        SaidTarget::Secret(name) => format!("the host of the secret {name}"),
    });
    each(Kind::Path, live.path != other.path, |said| {
        match &said.path {
            SaidPath::Received(0) => "as it came".to_owned(),
            SaidPath::Received(skipped) => format!("as it came, less {skipped} segments"),
            SaidPath::Literal(path) => path.clone(),
        }
    });
    each(Kind::Query, live.query != other.query, |said| {
        match said.query {
            SaidQuery::Received => "as it came".to_owned(),
            SaidQuery::None => "none".to_owned(),
        }
    });
    each(
        Kind::Credential,
        live.credential != other.credential,
        |said| said.credential.clone().unwrap_or("none".to_owned()),
    );
    each(
        Kind::Placement,
        live.placement != other.placement,
        |said| match &said.placement {
            SaidPlacement::Bearer => "as a bearer".to_owned(),
            SaidPlacement::Header { name, .. } => format!("in the header {name}"),
            SaidPlacement::Query(name) => format!("in the query as {name}"),
            SaidPlacement::StandIn => "where the token stands".to_owned(),
        },
    );
    each(
        Kind::RequestHeaders,
        live.request_headers != other.request_headers,
        |said| edits(&said.request_headers),
    );
    each(
        Kind::ResponseHeaders,
        live.response_headers != other.response_headers,
        |said| edits(&said.response_headers),
    );
    each(
        Kind::Substitutions,
        live.substitutions != other.substitutions,
        |said| {
            let replaced = said.substitutions.iter();
            list(replaced.map(|(from, by)| format!("{from} by {}", by.status)))
        },
    );
}

fn edits(said: &[SaidEdit]) -> String {
    list(said.iter().map(|edit| match edit {
        SaidEdit::Set(name, _) => format!("set {name}"),
        SaidEdit::Remove(name) => format!("remove {name}"),
        SaidEdit::AddToList(name, _) => format!("add to {name}"),
    }))
}

fn verb(action: &SaidAction) -> String {
    match action {
        SaidAction::Forward(_) => "forwards".to_owned(),
        SaidAction::Answer { status, .. } => format!("answers {status}"),
        SaidAction::Refuse(refusal) => format!("refuses {}", refusal.status),
    }
}

fn brief(end: &End) -> String {
    match end {
        End::NotServed => "does not serve it".to_owned(),
        End::Named => "serves it".to_owned(),
        End::Plan(plan) => verb(&plan.action),
        End::Need(need) => format!(
            "needs {} calls, {} reads, {} listings, {} things",
            need.calls.len(),
            need.reads.len(),
            need.lists.len(),
            need.owned.len()
        ),
        End::Failed(Failing(how)) => format!("fails: {how}"),
    }
}

fn list<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.as_slice() {
        [] => "none".to_owned(),
        items => items.join(", "),
    }
}

/// A request on which two versions differed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// The box; none on a public route.
    pub box_name: Option<String>,
    /// The method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// In what they differed.
    pub differences: Vec<Difference>,
}

/// How two versions went together so far.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Requests that both decided.
    pub compared: u64,
    /// Of these, those on which they differed.
    pub differing: u64,
    /// Requests on which the other one was not asked: it was behind.
    pub skipped: u64,
    /// On how many they differed in what.
    pub kinds: BTreeMap<Kind, u64>,
    /// The first of each kind.
    pub examples: Vec<Example>,
}

impl Tally {
    /// Counts a request that both decided.
    pub fn note(
        &mut self,
        differences: Vec<Difference>,
        example: impl FnOnce(Vec<Difference>) -> Example,
    ) {
        self.compared += 1;
        if differences.is_empty() {
            return;
        }
        self.differing += 1;
        let kinds: BTreeSet<Kind> = differences.iter().map(|found| found.kind).collect();
        let mut is_new = false;
        for kind in kinds {
            let count = self.kinds.entry(kind).or_default();
            *count += 1;
            is_new |= *count <= MOST_EXAMPLES;
        }
        if is_new {
            let mut example = example(differences);
            example.method = shown(&example.method);
            example.path = shown(&example.path);
            self.examples.push(example);
        }
    }
}

#[cfg(test)]
mod tests;
