//! What a narrowed secret may be spent on: a method and a path prefix.

use std::fmt;

use http::Method;

use crate::rules::paths;

/// A method and the beginning of a path, as `--allow "GET /repos/"` says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowRule {
    /// The method, compared exactly.
    pub method: Method,
    /// The prefix: it begins with `/`.
    pub prefix: String,
}

/// Why a text is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not METHOD PREFIX, as in \"GET /repos/\": {reason}")]
pub struct AllowRuleError {
    text: String,
    reason: &'static str,
}

impl AllowRule {
    /// Reads `METHOD PREFIX`.
    ///
    /// # Errors
    /// When the method is not in capitals, or the prefix does not begin with
    /// `/`, holds dot segments, or could never be the path of a request.
    pub fn parse(text: &str) -> Result<Self, AllowRuleError> {
        let refuse = |reason| AllowRuleError {
            text: text.chars().take(200).collect(),
            reason,
        };
        let (method, prefix) = text
            .split_once(' ')
            .ok_or_else(|| refuse("one space must stand between the two"))?;
        let capitals = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
        let method = Method::from_bytes(method.as_bytes())
            .ok()
            .filter(|_| capitals)
            .ok_or_else(|| refuse("the method must be in capital letters"))?;
        if !prefix.starts_with('/') {
            return Err(refuse("the prefix must begin with /"));
        }
        let fits = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#' | b'\\');
        if !prefix.bytes().all(fits) {
            return Err(refuse(
                "the prefix must be the bytes of a path, without a query",
            ));
        }
        if !paths::is_plain(prefix.as_bytes()) {
            return Err(refuse("the prefix must not hold dot segments"));
        }
        Ok(Self {
            method,
            prefix: prefix.to_owned(),
        })
    }

    /// Whether a request may be sent: its path, without the query and as it
    /// will be sent, begins with the prefix. One that does not end in `/` ends
    /// at a segment: `/graphql` allows `/graphql` and `/graphql/x`, not
    /// `/graphqlx`.
    #[must_use]
    pub fn allows(&self, method: &Method, path: &[u8]) -> bool {
        let Some(rest) = path.strip_prefix(self.prefix.as_bytes()) else {
            return false;
        };
        let whole = self.prefix.ends_with('/') || rest.is_empty() || rest.starts_with(b"/");
        // An encoded slash is not a segment's end to us, and may be one to the
        // upstream: what climbs out of the prefix in either reading is refused.
        whole && *method == self.method && paths::is_plain(path)
    }
}

impl fmt::Display for AllowRule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.method, self.prefix)
    }
}

/// Whether one of the rules allows a request; no rules allow all.
#[must_use]
pub fn allows(rules: &[AllowRule], method: &Method, path: &[u8]) -> bool {
    rules.is_empty() || rules.iter().any(|rule| rule.allows(method, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_read_from_method_and_prefix() {
        let check = |text: &str, expected: bool| {
            assert_eq!(AllowRule::parse(text).is_ok(), expected, "{text:?}");
        };
        check("GET /repos/", true);
        check("POST /graphql", true);
        check("GET /", true);
        check("get /repos/", false);
        check("GET repos/", false);
        check("GET", false);
        check("GET  /repos/", false);
        check("GET /a b", false);
        check("GET /a?x=1", false);
        check("GET /a/../b", false);
        check("GET /a/%2e%2E/b", false);
        check("GET /a/%252e./b", false);
        check("GET /a\\b", false);
        check("", false);
        assert_eq!(
            AllowRule::parse("GET /repos/").unwrap().to_string(),
            "GET /repos/"
        );
    }

    #[test]
    fn a_rule_allows_its_method_below_its_prefix() {
        let check = |rule: &str, method: Method, path: &str, expected: bool| {
            let allowed = AllowRule::parse(rule)
                .unwrap()
                .allows(&method, path.as_bytes());
            assert_eq!(allowed, expected, "{rule} against {method} {path}");
        };
        check("GET /repos/", Method::GET, "/repos/a/b", true);
        check("GET /repos/", Method::GET, "/repos/", true);
        check("GET /repos/", Method::GET, "/repos", false);
        check("GET /repos/", Method::GET, "/Repos/a", false);
        check("GET /repos/", Method::POST, "/repos/a", false);
        check("GET /repos/", Method::HEAD, "/repos/a", false);
        check("GET /repos/", Method::GET, "/users", false);
        check("GET /repos/", Method::GET, "/repos/a/../../user", false);
        check(
            "GET /repos/",
            Method::GET,
            "/repos/a%2F..%2F..%2Fuser",
            false,
        );
        check(
            "GET /repos/",
            Method::GET,
            "/repos/a%252F%252e%252e%252Fuser",
            false,
        );
        check("GET /repos/", Method::GET, "/repos/..;x/user", false);
        check("GET /repos/", Method::GET, "/repos/a..b", true);
        check("GET /repos/", Method::GET, "/repos/a%2Fb", true);
        check("POST /graphql", Method::POST, "/graphql", true);
        check("POST /graphql", Method::POST, "/graphql/", true);
        check("POST /graphql", Method::POST, "/graphqlx", false);
        check("POST /graphql", Method::POST, "/graphql%2Fx", false);
    }

    #[test]
    fn no_rules_allow_all() {
        let rules = [AllowRule::parse("GET /a/").unwrap()];
        assert!(allows(&[], &Method::DELETE, b"/anything"));
        assert!(allows(&rules, &Method::GET, b"/a/b"));
        assert!(!allows(&rules, &Method::DELETE, b"/a/b"));
    }
}
