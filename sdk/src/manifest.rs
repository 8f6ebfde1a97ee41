//! Builders for what a plugin says it is.

use crate::contract::{Inputs, Limits, Manifest, RouteEntry, Target, TokenPlace, Uses, Word};

/// An upstream that the operator configures, by name.
#[must_use]
pub fn upstream(name: &str) -> Target {
    Target::Upstream(name.to_owned())
}

/// The host of the calling box's secret, by name.
#[must_use]
pub fn secret(name: &str) -> Target {
    Target::Secret(name.to_owned())
}

/// The secret that an open word itself names; only the word [`Word::any_secret`]
/// may reach it.
#[must_use]
pub fn any_secret() -> Target {
    secret("<NAME>")
}

impl Manifest {
    /// A plugin of this name and version that serves this capability.
    #[must_use]
    pub fn new(name: &str, version: &str, capability: &str) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            capability: capability.to_owned(),
            summary: String::new(),
            routes: Vec::new(),
            words: Vec::new(),
            paths: Vec::new(),
            uses: Uses {
                keep: false,
                journal: false,
                owned_kinds: Vec::new(),
            },
            limits: Limits {
                time_ms: 0,
                memory_bytes: 0,
                rounds: 0,
                calls: 0,
            },
        }
    }

    /// One line for people: what it is for.
    #[must_use]
    pub fn summary(mut self, summary: &str) -> Self {
        summary.clone_into(&mut self.summary);
        self
    }

    /// Serves one more prefix.
    #[must_use]
    pub fn route(mut self, route: RouteEntry) -> Self {
        self.routes.push(route);
        self
    }

    /// Knows one more scope word.
    #[must_use]
    pub fn word(mut self, word: Word) -> Self {
        self.words.push(word);
        self
    }

    /// May send requests to this literal path.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        self.paths.push(path.to_owned());
        self
    }

    /// Reads and writes its keep.
    #[must_use]
    pub fn keep(mut self) -> Self {
        self.uses.keep = true;
        self
    }

    /// Writes to the journal.
    #[must_use]
    pub fn journal(mut self) -> Self {
        self.uses.journal = true;
        self
    }

    /// Asks which things of these kinds a box owns, and records new ones.
    #[must_use]
    pub fn owned_kinds<const N: usize>(mut self, kinds: [&str; N]) -> Self {
        self.uses.owned_kinds = kinds.map(str::to_owned).into();
        self
    }

    /// Wants these limits; 0 leaves one to the host.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

impl RouteEntry {
    /// Serves every method under this prefix, with a token as a bearer, and is
    /// shown method and path alone.
    #[must_use]
    pub fn under(prefix: &str) -> Self {
        Self {
            methods: Vec::new(),
            prefix: prefix.to_owned(),
            public: false,
            token: TokenPlace::Headers(Vec::new()),
            inputs: Inputs {
                query: false,
                headers: Vec::new(),
                body: 0,
                time: false,
                settings: false,
            },
            payer_of: None,
        }
    }

    /// Serves these methods alone.
    #[must_use]
    pub fn methods<const N: usize>(mut self, methods: [&str; N]) -> Self {
        self.methods = methods.map(str::to_owned).into();
        self
    }

    /// Is served without a token.
    #[must_use]
    pub fn public(mut self) -> Self {
        self.public = true;
        self
    }

    /// Takes the token also as the whole value of these headers.
    #[must_use]
    pub fn token_in_headers<const N: usize>(mut self, names: [&str; N]) -> Self {
        self.token = TokenPlace::Headers(names.map(str::to_owned).into());
        self
    }

    /// Takes the token wherever the upstream's API expects its key.
    #[must_use]
    pub fn token_anywhere(mut self) -> Self {
        self.token = TokenPlace::Anywhere;
        self
    }

    /// Is shown the query.
    #[must_use]
    pub fn sees_query(mut self) -> Self {
        self.inputs.query = true;
        self
    }

    /// Is shown these headers.
    #[must_use]
    pub fn sees_headers<const N: usize>(mut self, names: [&str; N]) -> Self {
        self.inputs.headers = names.map(str::to_owned).into();
        self
    }

    /// Is shown the body, up to this many bytes.
    #[must_use]
    pub fn sees_body(mut self, bytes: u32) -> Self {
        self.inputs.body = bytes;
        self
    }

    /// Is shown the time.
    #[must_use]
    pub fn sees_time(mut self) -> Self {
        self.inputs.time = true;
        self
    }

    /// Is shown the operator's settings.
    #[must_use]
    pub fn sees_settings(mut self) -> Self {
        self.inputs.settings = true;
        self
    }

    /// Spends the credential of this upstream: boxes are told who pays.
    #[must_use]
    pub fn payer_of(mut self, upstream: &str) -> Self {
        self.payer_of = Some(upstream.to_owned());
        self
    }
}

impl Word {
    /// A scope word, and what it lets a box do in words for people.
    #[must_use]
    pub fn new(name: &str, description: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            reaches: Vec::new(),
        }
    }

    /// Every secret's name is a word, and reaches the secret of that name.
    #[must_use]
    pub fn any_secret(description: &str) -> Self {
        Self::new("<NAME>", description).reaches(any_secret())
    }

    /// Reaches one more target.
    #[must_use]
    pub fn reaches(mut self, target: Target) -> Self {
        self.reaches.push(target);
        self
    }
}
