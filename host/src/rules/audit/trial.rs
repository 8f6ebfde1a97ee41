//! One request put to a plugin: what it is shown, what stands on offer, and
//! what its answer means, judged as a live request is.

use bytes::Bytes;
use http::HeaderName;

use crate::rules::audit::finding::Check;
use crate::rules::audit::requests::{Case, Luck};
use crate::rules::manifest::{Manifest, Route, TokenPlace, Uses};
use crate::rules::names::{BoxName, CredentialName, ScopeWord};
use crate::rules::permission::Grants;
use crate::rules::plan::{
    Answers, CallAnswer, CallFailure, CredentialKey, CredentialKind, Offer, SaidStep, ShownCaller,
    ShownRequest, Target,
};
use crate::rules::plan_check::{
    Bounds, CheckedNeed, PlanFault, check_need, check_plan, check_words,
};

/// The box that asks in an audit.
const BOX: &str = "audit";

/// The moment at which every audit takes place: 2023-11-14T22:13:20Z.
const NOW: u64 = 1_700_000_000_000;

/// The host's usual caps, which stand above what a manifest asks for.
const ROUNDS: u32 = 4;
const CALLS: u32 = 64;

/// Something wrong with what a plugin said: which check, and what in words.
pub type Wrong = (Check, String);

/// A request that a route claims.
pub struct Trial<'a> {
    manifest: &'a Manifest,
    route: &'a Route,
    case: &'a Case,
    tail: &'a str,
}

/// A request whose words have passed, with what they open.
pub struct Stand<'a> {
    trial: &'a Trial<'a>,
    words: Vec<ScopeWord>,
    reachable: Vec<Target>,
    offers: Vec<Offer>,
    uses: Uses,
    hidden: Vec<HeaderName>,
}

/// What follows from a step that passed.
#[derive(Debug)]
pub enum Next {
    /// It has decided.
    Decided,
    /// It is to be asked again with this.
    Again {
        /// What it wanted to find again.
        state: Vec<u8>,
        /// What its needs brought.
        answers: Answers,
    },
}

impl<'a> Trial<'a> {
    /// The trial of a request; none where no route claims it.
    #[must_use]
    pub fn of(manifest: &'a Manifest, case: &'a Case) -> Option<Self> {
        let (index, tail) = manifest.serving(&case.method, &case.path)?;
        let route = manifest.routes.get(index)?;
        Some(Self {
            manifest,
            route,
            case,
            tail,
        })
    }

    /// The prefix that it lies under.
    #[must_use]
    pub fn prefix(&self) -> &'a str {
        &self.route.prefix
    }

    /// What the plugin is shown of it.
    #[must_use]
    pub fn shown(&self, settings: &str) -> ShownRequest {
        let inputs = &self.route.inputs;
        let asked = |name: &String| inputs.headers.iter().any(|known| known.as_str() == name);
        let body = self
            .case
            .body
            .slice(..self.case.body.len().min(inputs.body));
        ShownRequest {
            method: self.case.method.clone(),
            prefix: self.route.prefix.clone(),
            path: self.tail.to_owned(),
            query: self.case.query.clone().filter(|_| inputs.query),
            headers: self
                .case
                .headers
                .iter()
                .filter(|(name, _)| asked(name))
                .cloned()
                .collect(),
            body: (inputs.body > 0).then_some(body),
            time: inputs.time.then_some(NOW),
            settings: inputs.settings.then(|| settings.to_owned()),
        }
    }

    /// What the plugin's words open.
    ///
    /// # Errors
    /// When one is not declared, or stands where no word may.
    pub fn stand(&'a self, grants: &Grants, said: &[String]) -> Result<Stand<'a>, Wrong> {
        let words = check_words(self.manifest, said).map_err(|fault| match fault {
            PlanFault::Beyond(what) | PlanFault::Nonsense(what) => (Check::UndeclaredWord, what),
            PlanFault::TooLarge(what) => (Check::TooLarge, what),
        })?;
        if self.route.public && !words.is_empty() {
            return Err(needs_box("a scope word"));
        }
        let mut reachable = Vec::new();
        for target in words.iter().flat_map(|word| grants.reached(word)) {
            if !reachable.contains(&target) {
                reachable.push(target);
            }
        }
        let offers = match self.case.luck {
            Luck::Good(number) => reachable.iter().map(|to| offer(to, number)).collect(),
            Luck::Bad => Vec::new(),
        };
        Ok(Stand {
            uses: match self.route.public {
                true => Uses::default(),
                false => grants.uses(),
            },
            hidden: match &self.route.token {
                TokenPlace::Headers(names) => names.clone(),
                TokenPlace::Anywhere => Vec::new(),
            },
            trial: self,
            words,
            reachable,
            offers,
        })
    }

    /// How often its needs are met.
    #[must_use]
    pub fn most_rounds(&self) -> u32 {
        capped(self.manifest.limits.rounds, ROUNDS)
    }
}

impl Stand<'_> {
    /// The words, as they are shown.
    #[must_use]
    pub fn words(&self) -> &[ScopeWord] {
        &self.words
    }

    /// Who asks.
    #[must_use]
    pub fn caller(&self) -> ShownCaller {
        let has_box = !self.trial.route.public;
        ShownCaller {
            box_name: has_box.then(|| BoxName::parse(BOX).ok()).flatten(),
            words: self
                .words
                .iter()
                .map(|word| word.as_str().to_owned())
                .collect(),
            offers: self.offers.clone(),
            targets: match self.trial.case.luck {
                Luck::Good(_) => self.reachable.clone(),
                Luck::Bad => Vec::new(),
            },
            uses: self.uses.clone(),
        }
    }

    /// Judges a step as the host does.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn judge(&self, step: SaidStep) -> Result<Next, Wrong> {
        let bounds = Bounds {
            manifest: self.trial.manifest,
            words: &self.words,
            reachable: &self.reachable,
            offers: &self.offers,
            credential_headers: &self.hidden,
            uses: &self.uses,
            method: &self.trial.case.method,
            tail: self.trial.tail,
            query: self.trial.case.query.as_deref(),
            max_calls: usize::try_from(capped(self.trial.manifest.limits.calls, CALLS))
                .unwrap_or(usize::MAX),
        };
        match step {
            SaidStep::Plan(plan) => check_plan(*plan, &bounds)
                .map(|_| Next::Decided)
                .map_err(wrong),
            SaidStep::Need(_) if self.trial.route.public => Err(needs_box("a need")),
            SaidStep::Need(need) => {
                let need = check_need(need, &bounds).map_err(wrong)?;
                let answers = meet(&need, self.trial.case.luck);
                Ok(Next::Again {
                    state: need.state,
                    answers,
                })
            }
        }
    }
}

/// What a plugin is shown of a request that none of its routes claims.
#[must_use]
pub fn shown_unclaimed(manifest: &Manifest, case: &Case) -> ShownRequest {
    let under = manifest.routes.iter().find_map(|route| {
        Some((
            route.prefix.as_str(),
            crate::rules::paths::tail(&case.path, &route.prefix)?,
        ))
    });
    let (prefix, tail) = under.unwrap_or((case.path.as_str(), ""));
    ShownRequest {
        method: case.method.clone(),
        prefix: prefix.to_owned(),
        path: tail.to_owned(),
        query: None,
        headers: Vec::new(),
        body: None,
        time: None,
        settings: None,
    }
}

fn needs_box(what: &str) -> Wrong {
    let what = format!("it asks for {what} on a public route");
    (Check::PublicNeedsBox, what)
}

fn wrong(fault: PlanFault) -> Wrong {
    match fault {
        PlanFault::Beyond(what) => (Check::BeyondWords, what),
        PlanFault::Nonsense(what) => (Check::IllFormed, what),
        PlanFault::TooLarge(what) => (Check::TooLarge, what),
    }
}

fn capped(asked: u32, cap: u32) -> u32 {
    if asked == 0 { cap } else { asked.min(cap) }
}

fn offer(target: &Target, number: u8) -> Offer {
    let kinds = [
        CredentialKind::ApiKey,
        CredentialKind::SetupToken,
        CredentialKind::Bearer,
    ];
    match target {
        Target::Upstream(upstream) => Offer {
            name: format!("upstream/{upstream}/{BOX}"),
            target: target.clone(),
            kind: kinds
                .get(usize::from(number) % kinds.len())
                .copied()
                .unwrap_or(CredentialKind::ApiKey),
            payer: None,
            key: CredentialKey::Credential {
                upstream: upstream.clone(),
                name: named(CredentialName::parse(BOX)),
            },
        },
        Target::Secret(name) => Offer {
            name: format!("secret/{name}"),
            target: target.clone(),
            kind: CredentialKind::Secret,
            payer: None,
            key: CredentialKey::Secret {
                box_name: named(BoxName::parse(BOX)),
                name: name.clone(),
            },
        },
    }
}

fn named<T>(parsed: Result<T, crate::rules::names::NameError>) -> T {
    parsed.expect("`audit` is a name of every sort")
}

/// What a need's calls, reads, listings and things bring. None of it is what an
/// upstream would say: how a plugin takes it is what is looked at.
fn meet(need: &CheckedNeed, luck: Luck) -> Answers {
    let Luck::Good(number) = luck else {
        let failures = [
            CallFailure::Unreachable,
            CallFailure::Timeout,
            CallFailure::Broken,
            CallFailure::TooLarge,
        ];
        let failed = failures.iter().cycle().take(need.calls.len());
        return Answers {
            calls: failed.map(|failure| Err(*failure)).collect(),
            reads: vec![None; need.reads.len()],
            lists: vec![Vec::new(); need.lists.len()],
            owned: vec![false; need.owned.len()],
        };
    };
    let (status, body) = brought(number);
    let answer = CallAnswer {
        status,
        headers: vec![("content-type".to_owned(), b"application/json".to_vec())],
        body: Bytes::from_static(body),
    };
    Answers {
        calls: need.calls.iter().map(|_| Ok(answer.clone())).collect(),
        reads: vec![Some(body.to_vec()); need.reads.len()],
        lists: vec![vec!["a".to_owned(), "b".to_owned()]; need.lists.len()],
        owned: vec![number.is_multiple_of(2); need.owned.len()],
    }
}

fn brought(number: u8) -> (u16, &'static [u8]) {
    match number % 8 {
        0 => (200, b"{\"id\":\"a\",\"data\":[{\"id\":\"b\"}]}"),
        1 => (200, b"{}"),
        2 => (200, b"[]"),
        3 => (200, b"\xff\xfe\0 no JSON"),
        4 => (500, b"{\"error\":{\"type\":\"a\\r\\nx-smuggled: b\"}}"),
        5 => (401, b""),
        6 => (
            200,
            b"{\"id\":\"a\\r\\nb\",\"content\":[{\"type\":\"text\",\"text\":\"\\u0000\"}]}",
        ),
        _ => (302, b"null"),
    }
}

#[cfg(test)]
mod tests;
