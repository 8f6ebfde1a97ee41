//! Over the whole run: what must never have gone out, and what must never
//! have come back.

use http::HeaderMap;

use crate::conformance::checks::Check;
use crate::conformance::exchange::Answer;
use crate::conformance::run::Run;
use crate::conformance::traces::{Form, Trace};
use crate::conformance::upstreams::Received;

pub(super) const CHECKS: [Check; 1] = [Check {
    id: "token-isolation",
    title: "over the whole run, no upstream received a box's token, and no answer to a box carried a credential or a secret's value",
    ask: |run| Box::pin(isolation(run)),
}];

/// How many of the same kind are told.
const MOST: usize = 10;

async fn isolation(run: &mut Run) {
    let mut problems = Vec::new();
    let tokens = run.tokens_traced();
    for received in run.log.since(0) {
        for (trace, place, form) in found(&tokens, &received_parts(&received)) {
            problems.push(format!(
                "{} received {}{}, {place} of {}",
                received.upstream.name(),
                trace.name,
                form.words(),
                run.quoted(&received.line())
            ));
        }
    }
    let values = run.values_traced();
    for (exchange, _mark) in &run.exchanges {
        let Some(answer) = &exchange.answer else {
            continue;
        };
        for (trace, place, form) in found(&values, &answer_parts(answer)) {
            problems.push(format!(
                "{} came back{}, {place} of the answer {} to {} {}",
                trace.name,
                form.words(),
                answer.status,
                exchange.sent.method,
                exchange.sent.target
            ));
        }
    }
    match run.log.dropped() {
        0 => {}
        dropped => problems.push(format!(
            "the upstreams received more than the suite keeps; {dropped} requests were not looked at"
        )),
    }
    problems.dedup();
    let more = problems.len().saturating_sub(MOST);
    for problem in problems.iter().take(MOST) {
        run.problem(problem);
    }
    if more > 0 {
        run.problem(&format!("and {more} more"));
    }
}

/// The traces that show in these parts, each with where and how.
fn found<'a>(traces: &'a [Trace], parts: &[(String, Vec<u8>)]) -> Vec<(&'a Trace, String, Form)> {
    let mut found = Vec::new();
    for trace in traces {
        for (place, bytes) in parts {
            if let Some(form) = trace.find(bytes) {
                found.push((trace, place.clone(), form));
            }
        }
    }
    found
}

fn received_parts(received: &Received) -> Vec<(String, Vec<u8>)> {
    let mut parts = vec![
        (
            "in the path or query".to_owned(),
            received.target.clone().into_bytes(),
        ),
        ("in the body".to_owned(), received.body.to_vec()),
        (
            "as the method".to_owned(),
            received.method.clone().into_bytes(),
        ),
    ];
    parts.extend(lines("header", &received.headers));
    parts.extend(lines("trailer", &received.trailers));
    parts
}

fn answer_parts(answer: &Answer) -> Vec<(String, Vec<u8>)> {
    let mut parts = vec![("in the body".to_owned(), answer.body.clone())];
    parts.extend(lines("header", &answer.headers));
    parts.extend(lines("trailer", &answer.trailers));
    parts
}

fn lines(sort: &'static str, headers: &HeaderMap) -> impl Iterator<Item = (String, Vec<u8>)> {
    headers.iter().map(move |(name, value)| {
        // A value may stand in a header's name as well as anywhere else.
        let line = [name.as_str().as_bytes(), b": ", value.as_bytes()].concat();
        (format!("in the {sort} {name}"), line)
    })
}
