//! `--extra`: a capability of one's own, and for each of its words a request
//! that needs exactly that word.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue, Method};
use serde::Deserialize;
use serde_json::Value;

/// A capability beyond the standard ones.
#[derive(Debug, Clone)]
pub struct Extra {
    /// Its name, as a report says it.
    pub(super) name: String,
    /// Its words, each with a request that needs it.
    pub(super) words: Vec<(String, Probe)>,
}

/// A request that needs exactly one word.
#[derive(Debug, Clone)]
pub(super) struct Probe {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExtra {
    name: String,
    words: Vec<String>,
    probes: BTreeMap<String, RawProbe>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProbe {
    method: String,
    path: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<Value>,
}

impl Extra {
    /// Reads one capability, or a list of them.
    ///
    /// # Errors
    /// When the text is not that; the error says what is missing.
    pub fn parse(text: &str) -> Result<Vec<Self>, String> {
        let raw: Vec<RawExtra> = if text.trim_start().starts_with('[') {
            serde_json::from_str(text)
        } else {
            serde_json::from_str(text).map(|one| vec![one])
        }
        .map_err(|cause| format!("it is no {{name, words, probes}}: {cause}"))?;
        raw.into_iter().map(check).collect()
    }
}

fn check(raw: RawExtra) -> Result<Extra, String> {
    let RawExtra {
        name,
        words,
        mut probes,
    } = raw;
    let mut letters = name.bytes();
    let fits = letters
        .next()
        .is_some_and(|first| first.is_ascii_lowercase())
        && letters.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !fits || name.len() > 63 {
        return Err(format!(
            "{name:?} is no capability's name: a letter, then up to 62 letters, digits and `-`, in lower case"
        ));
    }
    if words.is_empty() {
        return Err(format!("{name} lists no words"));
    }
    let words = words.into_iter().map(|word| {
        let Some(probe) = probes.remove(&word) else {
            return Err(format!(
                "{name} has no probe for {word:?}, or lists it twice"
            ));
        };
        let probe =
            check_probe(probe).map_err(|why| format!("the probe of {name} {word}: {why}"))?;
        Ok((word, probe))
    });
    let words = words.collect::<Result<Vec<_>, _>>()?;
    match probes.keys().next() {
        Some(left) => Err(format!(
            "{name} has a probe for {left:?}, which is none of its words"
        )),
        None => Ok(Extra { name, words }),
    }
}

fn check_probe(raw: RawProbe) -> Result<Probe, String> {
    let method = Method::from_bytes(raw.method.as_bytes())
        .map_err(|_| format!("{:?} is no method", raw.method))?;
    if !raw.path.starts_with('/') || raw.path.parse::<http::Uri>().is_err() {
        return Err(format!(
            "{:?} is no path below the broker's URL; it starts with `/`",
            raw.path
        ));
    }
    let headers = raw.headers.iter().map(|(name, value)| {
        let wrong = || format!("{name:?} is no header, or its value is none");
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        Ok::<_, String>((name, value))
    });
    Ok(Probe {
        method,
        path: raw.path,
        headers: headers.collect::<Result<_, _>>()?,
        body: raw.body,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extra_is_read_or_says_what_is_wrong() {
        let check = |text: &str, expected: Result<usize, &str>| match (Extra::parse(text), expected)
        {
            (Ok(read), Ok(count)) => assert_eq!(read.len(), count, "{text}"),
            (Err(said), Err(words)) => assert!(said.contains(words), "{text}: {said}"),
            (read, _) => panic!("{text}: {read:?}"),
        };
        let one = r#"{"name":"notes","words":["read"],"probes":{"read":{"method":"GET","path":"/notes/a?b","headers":{"x-a":"1"},"body":{"a":[]}}}}"#;
        check(one, Ok(1));
        check(&format!(" [{one}, {one}]"), Ok(2));
        check("[]", Ok(0));
        check("nonsense", Err("{name, words, probes}"));
        check(
            &one.replace("notes\"", "Notes\""),
            Err("no capability's name"),
        );
        check(&one.replace("[\"read\"]", "[]"), Err("no words"));
        check(
            &one.replace("[\"read\"]", "[\"read\",\"write\"]"),
            Err("no probe for \"write\""),
        );
        check(
            &one.replace("[\"read\"]", "[\"read\",\"read\"]"),
            Err("twice"),
        );
        check(&one.replace("GET", "G T"), Err("no method"));
        check(&one.replace("/notes/a?b", "notes"), Err("starts with `/`"));
        check(&one.replace("x-a", "x a"), Err("no header"));
        check(&one.replace("\"path\"", "\"route\""), Err("unknown field"));
    }
}
