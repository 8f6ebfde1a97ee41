//! Where a request may be sent: scheme, host and port, compared exactly.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The two schemes that are dialed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    /// `http` or `https`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// 80 or 443.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// An origin (RFC 6454): two requests go to the same place only when all three
/// parts are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// The scheme.
    pub scheme: Scheme,
    /// The host in lower case; an IPv6 literal stands without brackets.
    pub host: String,
    /// The port, always present.
    pub port: u16,
}

/// Why a text names no origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a host, host:port, or http(s)://host[:port]: {reason}")]
pub struct OriginError {
    text: String,
    reason: &'static str,
}

impl Origin {
    /// Reads `host`, `host:port` or `http(s)://host[:port]`; the scheme is
    /// https unless the text says otherwise.
    ///
    /// # Errors
    /// When the text is none of these, or carries a user, path or query.
    pub fn parse(text: &str) -> Result<Self, OriginError> {
        let (origin, rest) = Self::parse_prefix(text)?;
        if rest.is_empty() || rest == "/" {
            return Ok(origin);
        }
        Err(error(text, "only scheme, host and port may stand here"))
    }

    /// Reads an origin and returns what follows the authority: empty, or text
    /// that starts with `/`, `?` or `#`.
    ///
    /// # Errors
    /// When no origin stands at the beginning.
    pub fn parse_prefix(text: &str) -> Result<(Self, &str), OriginError> {
        let (scheme, after) = match text.split_once("://") {
            Some((scheme, after)) if scheme.eq_ignore_ascii_case("https") => (Scheme::Https, after),
            Some((scheme, after)) if scheme.eq_ignore_ascii_case("http") => (Scheme::Http, after),
            Some(_) => return Err(error(text, "the scheme must be http or https")),
            None => (Scheme::Https, text),
        };
        let end = after.find(['/', '?', '#']).unwrap_or(after.len());
        let (authority, rest) = after.split_at(end);
        let (host, port) = split_authority(authority)
            .ok_or_else(|| error(text, "the host or port is malformed"))?;
        let port = match port {
            Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits
                    .parse::<u16>()
                    .ok()
                    .filter(|port| *port != 0)
                    .ok_or_else(|| error(text, "the port must be 1 to 65535"))?
            }
            Some(_) => return Err(error(text, "the port must be 1 to 65535")),
            None => scheme.default_port(),
        };
        Ok((Self { scheme, host, port }, rest))
    }

    /// What the `Host` header says: the port is left out when it is the
    /// scheme's own.
    #[must_use]
    pub fn authority(&self) -> String {
        let is_address = self.host.contains(':');
        let mut text = String::with_capacity(self.host.len() + "[]:65535".len());
        if is_address {
            text.push('[');
        }
        text.push_str(&self.host);
        if is_address {
            text.push(']');
        }
        if self.port != self.scheme.default_port() {
            text.push(':');
            text.push_str(&self.port.to_string());
        }
        text
    }

    /// The address, when the host is a literal.
    #[must_use]
    pub fn literal(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}", self.scheme.as_str(), self.authority())
    }
}

fn error(text: &str, reason: &'static str) -> OriginError {
    OriginError {
        text: text.chars().take(200).collect(),
        reason,
    }
}

fn split_authority(authority: &str) -> Option<(String, Option<&str>)> {
    if let Some(inner) = authority.strip_prefix('[') {
        let (literal, after) = inner.split_once(']')?;
        let address: Ipv6Addr = literal.parse().ok()?;
        let port = if after.is_empty() {
            None
        } else {
            Some(after.strip_prefix(':')?)
        };
        return Some((address.to_string(), port));
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    // `0x7f.1` and `2130706433` are addresses to some resolvers and names to
    // others; only the dotted form of four decimal numbers is one here.
    let last = host.trim_end_matches('.').rsplit('.').next()?;
    let numeric = last.bytes().all(|b| b.is_ascii_digit())
        || last.starts_with("0x")
        || last.starts_with("0X");
    if numeric && host.parse::<std::net::Ipv4Addr>().is_err() {
        return None;
    }
    let well_formed = !host.is_empty()
        && host.len() <= 253
        && host.split('.').enumerate().all(|(index, label)| {
            let trailing_dot = label.is_empty()
                && index > 0
                && host.ends_with('.')
                && index == host.matches('.').count();
            trailing_dot || (!label.is_empty() && label.len() <= 63)
        })
        && host
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.' || b == b'_');
    well_formed.then(|| (host.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_read_with_its_defaults() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(
                Origin::parse(text)
                    .ok()
                    .map(|origin| origin.to_string())
                    .as_deref(),
                expected,
                "{text:?}"
            );
        };
        check("api.openai.com", Some("https://api.openai.com"));
        check("API.OpenAI.com:8443", Some("https://api.openai.com:8443"));
        check("http://127.0.0.1:9000", Some("http://127.0.0.1:9000"));
        check("https://host/", Some("https://host"));
        check("http://[::1]:80", Some("http://[::1]"));
        check("[::1]:8080", Some("https://[::1]:8080"));
        check("https://host/path", None);
        check("https://user@host", None);
        check("ftp://host", None);
        check("host:0", None);
        check("host:", None);
        check("host:99999", None);
        check("", None);
        check("a b", None);
        check("2130706433", None);
        check("127.1", None);
        check("0x7f000001", None);
        check("host?x=1", None);
        check("a..b", None);
    }
}
