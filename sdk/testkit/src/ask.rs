//! What a test asks: a request, who sends it, and what the operator set up.

use serde::Serialize;

/// A request of a box, and the world that it is made in.
///
/// It begins as the request of a box named `box` that declared nothing, at a
/// host where no upstream is configured and no secret is held.
#[derive(Debug, Clone, Serialize)]
#[must_use]
pub struct Ask {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    time: u64,
    settings: String,
    box_name: String,
    declared: Vec<String>,
    upstreams: Vec<Upstream>,
    secrets: Vec<String>,
    withheld: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
struct Upstream {
    name: String,
    kind: Option<String>,
}

/// A `GET` of this path, with its query where it has one.
pub fn get(path: &str) -> Ask {
    request("GET", path)
}

/// A `POST`.
pub fn post(path: &str) -> Ask {
    request("POST", path)
}

/// A `PUT`.
pub fn put(path: &str) -> Ask {
    request("PUT", path)
}

/// A `DELETE`.
pub fn delete(path: &str) -> Ask {
    request("DELETE", path)
}

/// A request of any method.
pub fn request(method: &str, path: &str) -> Ask {
    Ask {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
        time: 0,
        settings: "{}".to_owned(),
        box_name: "box".to_owned(),
        declared: Vec::new(),
        upstreams: Vec::new(),
        secrets: Vec::new(),
        withheld: Vec::new(),
    }
}

impl Ask {
    /// One more header. A plugin is shown those that its route asks for.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The body. A plugin is shown it where its route asks for it.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The time, in milliseconds since 1970-01-01T00:00:00Z; 0 if it is not
    /// said. The kit has no clock: the same test gives the same answer.
    pub fn at(mut self, time: u64) -> Self {
        self.time = time;
        self
    }

    /// What the operator wrote under `[plugins.NAME.settings]`, as JSON.
    pub fn settings(mut self, json: &str) -> Self {
        json.clone_into(&mut self.settings);
        self
    }

    /// Which box asks.
    pub fn of(mut self, box_name: &str) -> Self {
        box_name.clone_into(&mut self.box_name);
        self
    }

    /// The words of the plugin's capability that the box declared.
    pub fn declares<const N: usize>(mut self, words: [&str; N]) -> Self {
        self.declared.extend(words.map(str::to_owned));
        self
    }

    /// The operator configured this upstream, and there is an API key for it.
    pub fn upstream(self, name: &str) -> Self {
        self.upstream_with(name, "api-key")
    }

    /// The operator configured this upstream, and there is a credential of
    /// this kind for it: `api-key`, `setup-token` or `bearer`.
    pub fn upstream_with(mut self, name: &str, kind: &str) -> Self {
        self.upstreams.push(Upstream {
            name: name.to_owned(),
            kind: Some(kind.to_owned()),
        });
        self
    }

    /// The operator configured this upstream, and nobody set a credential.
    pub fn upstream_without_credential(mut self, name: &str) -> Self {
        self.upstreams.push(Upstream {
            name: name.to_owned(),
            kind: None,
        });
        self
    }

    /// The box holds the secret of this name.
    pub fn secret(mut self, name: &str) -> Self {
        self.secrets.push(name.to_owned());
        self
    }

    /// The operator keeps this permission back, such as `journal` or
    /// `upstream:NAME`: the words of `jackfield plugin list`.
    pub fn withholds(mut self, permission: &str) -> Self {
        self.withheld.push(permission.to_owned());
        self
    }
}
