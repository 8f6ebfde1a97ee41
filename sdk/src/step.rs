//! Builders for what a plugin answers: a forward, an answer, a refusal, or
//! what it needs first.

use crate::contract::{
    Action, Answer, Call, Expected, Forward, Header, HeaderEdit, HeaderPlacement, Listing,
    LogLevel, LogLine, Need, Offer, PathChoice, Placement, Plan, QueryChoice, Refusal, Step,
    Substitution, Target, Thing, Write,
};

/// A header line.
#[must_use]
pub fn header(name: &str, value: impl AsRef<[u8]>) -> Header {
    Header {
        name: name.to_owned(),
        value: value.as_ref().to_owned(),
    }
}

/// A thing that an upstream gave an id to.
#[must_use]
pub fn thing(kind: &str, id: &str) -> Thing {
    Thing {
        kind: kind.to_owned(),
        id: id.to_owned(),
    }
}

impl Placement {
    /// In a header, as its whole value.
    #[must_use]
    pub fn in_header(name: &str) -> Self {
        Self::in_header_as(name, "{}")
    }

    /// In a header, where `{}` stands in the template.
    #[must_use]
    pub fn in_header_as(name: &str, template: &str) -> Self {
        Self::Header(HeaderPlacement {
            name: name.to_owned(),
            template: template.to_owned(),
        })
    }

    /// In a query parameter.
    #[must_use]
    pub fn in_query(name: &str) -> Self {
        Self::Query(name.to_owned())
    }
}

impl Forward {
    /// Sends the request on to this target: path and query as received, no
    /// credential, no edits.
    #[must_use]
    pub fn to(target: Target) -> Self {
        Self {
            to: target,
            path: PathChoice::Received(0),
            query: QueryChoice::Received,
            credential: None,
            placement: Placement::Bearer,
            request_headers: Vec::new(),
            response_headers: Vec::new(),
            substitutions: Vec::new(),
        }
    }

    /// Leaves this many segments after the prefix out of the path.
    #[must_use]
    pub fn skip_segments(mut self, count: u32) -> Self {
        self.path = PathChoice::Received(count);
        self
    }

    /// Sends it to a literal path of the manifest.
    #[must_use]
    pub fn literal_path(mut self, path: &str) -> Self {
        self.path = PathChoice::Literal(path.to_owned());
        self
    }

    /// Sends no query.
    #[must_use]
    pub fn without_query(mut self) -> Self {
        self.query = QueryChoice::None;
        self
    }

    /// Seals this credential in, there.
    #[must_use]
    pub fn credential(mut self, offer: &Offer, placement: Placement) -> Self {
        self.credential = Some(offer.name.clone());
        self.placement = placement;
        self
    }

    /// Replaces a header of the request.
    #[must_use]
    pub fn set_header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.request_headers
            .push(HeaderEdit::Set(header(name, value)));
        self
    }

    /// Removes a header of the request.
    #[must_use]
    pub fn remove_header(mut self, name: &str) -> Self {
        self.request_headers
            .push(HeaderEdit::Remove(name.to_owned()));
        self
    }

    /// Adds a value to a comma-separated header of the request, once.
    #[must_use]
    pub fn add_to_list(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.request_headers
            .push(HeaderEdit::AddToList(header(name, value)));
        self
    }

    /// Edits a header of the answer.
    #[must_use]
    pub fn edit_response(mut self, edit: HeaderEdit) -> Self {
        self.response_headers.push(edit);
        self
    }

    /// Puts a refusal in the place of an upstream's answer of this status.
    #[must_use]
    pub fn substitute(mut self, status: u16, refusal: Refusal) -> Self {
        self.substitutions.push(Substitution { status, refusal });
        self
    }
}

impl Answer {
    /// An answer of this status, without headers or body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// One more header line.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push(header(name, value));
        self
    }

    /// The body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }
}

impl Plan {
    /// A decision without further effects.
    #[must_use]
    pub fn new(action: Action) -> Self {
        Self {
            action,
            writes: Vec::new(),
            journal: Vec::new(),
            owns: Vec::new(),
            log: Vec::new(),
        }
    }

    /// Keeps a value under a key.
    #[must_use]
    pub fn write(self, key: &str, value: impl Into<Vec<u8>>) -> Self {
        self.write_if(key, Expected::Anything, value)
    }

    /// Keeps a value under a key, if the key holds now what is expected. If it
    /// does not, nothing of this plan is made, and the box is told to send its
    /// request again.
    ///
    /// ```
    /// # use jackfield_sdk::{contract::Expected, prelude::*};
    /// /// Counts up, and loses no count to a request that runs beside.
    /// fn count(held: Option<Vec<u8>>) -> Plan {
    ///     let before = held.as_deref().map_or(0, |held| held.len());
    ///     let expected = held.map_or(Expected::Nothing, Expected::Value);
    ///     Plan::from(Answer::status(200)).write_if("count", expected, vec![b'i'; before + 1])
    /// }
    /// # assert_eq!(count(None).writes[0].value.as_deref(), Some(&b"i"[..]));
    /// ```
    #[must_use]
    pub fn write_if(mut self, key: &str, expects: Expected, value: impl Into<Vec<u8>>) -> Self {
        self.writes.push(Write {
            key: key.to_owned(),
            value: Some(value.into()),
            expects,
        });
        self
    }

    /// Deletes a key.
    #[must_use]
    pub fn delete(self, key: &str) -> Self {
        self.delete_if(key, Expected::Anything)
    }

    /// Deletes a key, if it holds now what is expected: see
    /// [`Plan::write_if`].
    #[must_use]
    pub fn delete_if(mut self, key: &str, expects: Expected) -> Self {
        self.writes.push(Write {
            key: key.to_owned(),
            value: None,
            expects,
        });
        self
    }

    /// Records a thing as the box's own.
    ///
    /// ```
    /// # use jackfield_sdk::prelude::*;
    /// let plan = Plan::from(Answer::status(201)).own(thing("conversations", "c-1"));
    /// # assert_eq!(plan.owns, [thing("conversations", "c-1")]);
    /// ```
    #[must_use]
    pub fn own(mut self, thing: Thing) -> Self {
        self.owns.push(thing);
        self
    }

    /// Adds a record to the journal.
    #[must_use]
    pub fn journal(mut self, record: impl Into<Vec<u8>>) -> Self {
        self.journal.push(record.into());
        self
    }

    /// Adds a line to the operator's log.
    #[must_use]
    pub fn log(mut self, level: LogLevel, message: impl Into<String>) -> Self {
        self.log.push(LogLine {
            level,
            message: message.into(),
        });
        self
    }
}

impl Call {
    /// A call like the request that is being decided: its path as received less
    /// the prefix, and its query.
    #[must_use]
    pub fn as_received(method: &str, target: Target) -> Self {
        Self {
            path: PathChoice::Received(0),
            query: QueryChoice::Received,
            ..Self::new(method, target, "/")
        }
    }

    /// A call of this method to a literal path of the manifest.
    #[must_use]
    pub fn new(method: &str, target: Target, path: &str) -> Self {
        Self {
            to: target,
            method: method.to_owned(),
            path: PathChoice::Literal(path.to_owned()),
            query: QueryChoice::None,
            headers: Vec::new(),
            body: Vec::new(),
            credential: None,
            placement: Placement::Bearer,
        }
    }

    /// Seals this credential in, there.
    #[must_use]
    pub fn credential(mut self, offer: &Offer, placement: Placement) -> Self {
        self.credential = Some(offer.name.clone());
        self.placement = placement;
        self
    }

    /// One more header line.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push(header(name, value));
        self
    }

    /// The body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }
}

impl Need {
    /// Needs nothing yet; the state comes back in `resume`.
    #[must_use]
    pub fn with_state(state: impl Into<Vec<u8>>) -> Self {
        Self {
            calls: Vec::new(),
            reads: Vec::new(),
            lists: Vec::new(),
            owned: Vec::new(),
            deadline_ms: 0,
            state: state.into(),
        }
    }

    /// Needs the answer to one more call.
    #[must_use]
    pub fn call(mut self, call: Call) -> Self {
        self.calls.push(call);
        self
    }

    /// Needs the value of one more key.
    #[must_use]
    pub fn read(mut self, key: &str) -> Self {
        self.reads.push(key.to_owned());
        self
    }

    /// Needs the names of the keys that begin so, the first 1,000.
    #[must_use]
    pub fn list(mut self, prefix: &str) -> Self {
        self.lists.push(Listing {
            prefix: prefix.to_owned(),
            after: None,
        });
        self
    }

    /// Needs the names of the keys that begin so and come after `after`, the
    /// next 1,000.
    #[must_use]
    pub fn list_after(mut self, prefix: &str, after: &str) -> Self {
        self.lists.push(Listing {
            prefix: prefix.to_owned(),
            after: Some(after.to_owned()),
        });
        self
    }

    /// Needs to know whether the box owns one more thing.
    #[must_use]
    pub fn owned(mut self, thing: Thing) -> Self {
        self.owned.push(thing);
        self
    }
}

impl From<Forward> for Action {
    fn from(forward: Forward) -> Self {
        Self::Forward(forward)
    }
}

impl From<Answer> for Action {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

impl From<Refusal> for Action {
    fn from(refusal: Refusal) -> Self {
        Self::Refuse(refusal)
    }
}

impl<T: Into<Action>> From<T> for Plan {
    fn from(action: T) -> Self {
        Self::new(action.into())
    }
}

impl From<Plan> for Step {
    fn from(plan: Plan) -> Self {
        Self::Plan(plan)
    }
}

impl From<Need> for Step {
    fn from(need: Need) -> Self {
        Self::Need(need)
    }
}

impl From<Forward> for Step {
    fn from(forward: Forward) -> Self {
        Plan::from(forward).into()
    }
}

impl From<Answer> for Step {
    fn from(answer: Answer) -> Self {
        Plan::from(answer).into()
    }
}

impl From<Refusal> for Step {
    fn from(refusal: Refusal) -> Self {
        Plan::from(refusal).into()
    }
}
