//! The rule, for capabilities that only their own broker knows.

use crate::conformance::checks::{Planned, Probe};
use crate::conformance::extra::{self, Extra};
use crate::conformance::run::{Ask, Run, Who};

/// A check of one word.
pub(in crate::conformance) struct ExtraProbe {
    capability: String,
    word: String,
    /// The capability's other words.
    others: Vec<String>,
    probe: extra::Probe,
    holds: Holds,
}

/// What a word is held to.
#[derive(Debug, Clone, Copy)]
enum Holds {
    /// Declared alone, it opens its request.
    Served,
    /// Without it the request is refused, whatever else is declared.
    Refused,
    /// A box that never reported is refused.
    Unreported,
    /// Nobody's token is refused.
    UnknownToken,
}

pub(super) fn plan(extra: &Extra) -> impl Iterator<Item = Planned> {
    extra.words.iter().flat_map(|(word, probe)| {
        let others: Vec<String> = extra
            .words
            .iter()
            .map(|(other, _)| other.clone())
            .filter(|other| other != word)
            .collect();
        let (name, word) = (extra.name.clone(), word.clone());
        [Holds::Served, Holds::Refused, Holds::Unreported, Holds::UnknownToken].map(|holds| {
            let (end, title) = match holds {
                Holds::Served => (
                    "served",
                    format!("with {word} alone in {name}'s scope, its request is not refused by the declaration"),
                ),
                Holds::Refused => (
                    "refused",
                    format!("without {word} in {name}'s scope, its request is a 403 naming {name} and {word}"),
                ),
                Holds::Unreported => (
                    "unreported",
                    format!("a box that never reported is refused {word} of {name} with a 403"),
                ),
                Holds::UnknownToken => (
                    "unknown-token",
                    format!("an unknown token is refused {word} of {name} with a 401 or 403"),
                ),
            };
            Planned {
                id: format!("{name}-{word}-{end}"),
                about: name.clone(),
                title,
                skip: None,
                probe: Probe::Extra(Box::new(ExtraProbe {
                    capability: name.clone(),
                    word: word.clone(),
                    others: others.clone(),
                    probe: probe.clone(),
                    holds,
                })),
            }
        })
    })
}

impl ExtraProbe {
    pub(super) async fn ask(&self, run: &mut Run) {
        let (name, word) = (self.capability.as_str(), self.word.as_str());
        let ask = self.request();
        match self.holds {
            Holds::Served => {
                run.declare(&[(name, &[word])]).await;
                if let Some(answer) = run.send(ask.bearer(Who::First)).await
                    && matches!(answer.status, 401 | 403)
                {
                    run.problem(&format!(
                        "expected the request to pass the declaration, got {}",
                        answer.status
                    ));
                }
            }
            Holds::Refused => {
                let others: Vec<&str> = self.others.iter().map(String::as_str).collect();
                run.declare(&[(name, &others)]).await;
                run.refused(ask.bearer(Who::First), &[403], &[name, word])
                    .await;
            }
            Holds::Unreported => run.refused(ask.bearer(Who::Second), &[403], &[]).await,
            Holds::UnknownToken => {
                // What a declared box may do, nobody else may.
                run.declare(&[(name, &[word])]).await;
                run.refused(ask.bearer(Who::Stranger), &[401, 403], &[])
                    .await;
            }
        }
    }

    fn request(&self) -> Ask {
        let mut ask = Ask::new(self.probe.method.clone(), &self.probe.path);
        for (name, value) in &self.probe.headers {
            ask = ask.header(name.clone(), value.clone());
        }
        match &self.probe.body {
            Some(body) => ask.body(body.clone()),
            None => ask,
        }
    }
}
