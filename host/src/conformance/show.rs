//! An exchange as text for people, on one line each.

use http::HeaderMap;

use crate::conformance::exchange::{Exchange, Sent};
use crate::conformance::upstreams::Received;

/// How much of a line is shown.
const MOST: usize = 800;

/// How much of a body is looked at for that.
const MOST_MASKED: usize = 16 * 1024;

/// Headers that are shown; the rest tells nobody what is wrong.
const TELLING: [&str; 9] = [
    "authorization",
    "x-api-key",
    "anthropic-beta",
    "anthropic-version",
    "content-type",
    "content-encoding",
    "location",
    "chant-payer",
    "x-conformance-echo",
];

pub(super) fn sent(sent: &Sent) -> String {
    let body = sent.body.as_ref().map(ToString::to_string);
    format!(
        "{} {}{}{}",
        sent.method,
        sent.target,
        headers(&sent.headers),
        body.map_or_else(String::new, |body| format!(" {body}"))
    )
}

pub(super) fn got(exchange: &Exchange) -> String {
    let trouble = exchange.trouble.as_deref();
    match (&exchange.answer, trouble) {
        (Some(answer), trouble) => format!(
            "{}{} {}{}",
            answer.status,
            headers(&answer.headers),
            answer.text(),
            trouble.map_or_else(String::new, |trouble| format!(" ({trouble})"))
        ),
        (None, trouble) => format!("nothing: {}", trouble.unwrap_or("no answer")),
    }
}

pub(super) fn received(received: &Received) -> String {
    format!(
        "{} received {}{} {}",
        received.upstream.name(),
        received.line(),
        headers(&received.headers),
        text(&received.body)
    )
}

fn headers(headers: &HeaderMap) -> String {
    let lines: Vec<String> = headers
        .iter()
        .filter(|(name, _)| TELLING.contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!(" [{}]", lines.join("; ")),
    }
}

/// A body as text: more of it than is shown, so that what is masked in it is
/// whole, and not all of what may be megabytes.
pub(super) fn text(body: &[u8]) -> String {
    let part = body.get(..MOST_MASKED).unwrap_or(body);
    String::from_utf8_lossy(part).into_owned()
}

/// As much of a text as is shown.
pub(super) fn quote(text: &str) -> String {
    let mut quoted: String = text.trim_end().chars().take(MOST).collect();
    if quoted.len() < text.trim_end().len() {
        quoted.push('…');
    }
    quoted
}
