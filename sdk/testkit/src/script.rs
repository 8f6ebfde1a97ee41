//! What a test answers when the component needs to know something.

use std::collections::BTreeMap;

use jackfield_sdk::contract::{Answers, CallAnswer, CallFailure, Need};
use jackfield_sdk::{header, thing};

type Called = Result<CallAnswer, CallFailure>;

/// Answers to a decision's needs, in the order in which they are asked. What
/// was not said is not there: a key holds nothing, a thing is not the box's
/// own, and a call that nobody answers is `unreachable`.
///
/// Whoever wants more passes a closure, `|need: &Need| Answers { … }`, to
/// [`crate::Plugin::ask_with`].
#[derive(Debug, Default)]
#[must_use]
pub struct Script {
    calls: std::collections::VecDeque<Called>,
    keep: BTreeMap<String, Vec<u8>>,
    owned: Vec<(String, String)>,
}

impl Script {
    /// Nothing is there.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next call is answered so.
    pub fn call(mut self, status: u16, body: impl Into<Vec<u8>>) -> Self {
        self.calls.push_back(Ok(CallAnswer {
            status,
            headers: Vec::new(),
            body: body.into(),
        }));
        self
    }

    /// A header of the call that was answered last.
    ///
    /// # Panics
    /// When no call was answered before.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        let Some(Ok(answer)) = self.calls.back_mut() else {
            fail("with_header needs a call that was answered before it");
        };
        answer.headers.push(header(name, value));
        self
    }

    /// The next call fails so.
    pub fn failed_call(mut self, failure: CallFailure) -> Self {
        self.calls.push_back(Err(failure));
        self
    }

    /// A key of the keep holds this.
    pub fn keeps(mut self, key: &str, value: impl Into<Vec<u8>>) -> Self {
        self.keep.insert(key.to_owned(), value.into());
        self
    }

    /// The box owns this.
    pub fn owns(mut self, kind: &str, id: &str) -> Self {
        self.owned.push((kind.to_owned(), id.to_owned()));
        self
    }

    pub(crate) fn answer(&mut self, need: &Need) -> Answers {
        let calls = need.calls.iter().map(|_| {
            let next = self.calls.pop_front();
            next.unwrap_or(Err(CallFailure::Unreachable))
        });
        let lists = need.lists.iter().map(|listing| {
            let after = listing.after.as_deref().unwrap_or_default();
            self.keep
                .keys()
                .filter(|key| key.starts_with(&listing.prefix) && key.as_str() > after)
                .take(1000)
                .cloned()
                .collect()
        });
        let owns = |asked: &jackfield_sdk::contract::Thing| {
            let mut owned = self.owned.iter();
            owned.any(|(kind, id)| thing(kind, id) == *asked)
        };
        let lists: Vec<Vec<String>> = lists.collect();
        let owned = need.owned.iter().map(owns).collect();
        Answers {
            calls: calls.collect(),
            reads: need
                .reads
                .iter()
                .map(|key| self.keep.get(key).cloned())
                .collect(),
            lists,
            owned,
        }
    }
}

/// Ends the test with a reason.
#[expect(clippy::panic, reason = "this is how a test fails")]
#[track_caller]
pub(crate) fn fail(reason: &str) -> ! {
    panic!("{reason}")
}
