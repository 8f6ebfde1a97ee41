//! Capability `feedback`: what a box's agents report, taken by
//! `POST /api/feedback`.
//!
//! | the batch holds | word |
//! |---|---|
//! | `entries`, which the agents wrote | `agent` |
//! | `counts` of refusals, errors and restarts | `passive` |
//! | both | both |
//!
//! An empty list or object counts as none, and a batch with neither is no
//! batch. What an entry holds is the receiver's format and none of this
//! plugin's business: the batch is kept, or sent on, as it came.
//!
//! Where the operator configures the upstream `feedback`, that is the receiver;
//! else the batch is kept in the journal. The owner's consent (`consent`)
//! stands before both.

mod batch;
mod consent;
mod receiver;

use jackfield_sdk::contract::LogLevel;
use jackfield_sdk::prelude::*;

use batch::Batch;
use consent::Consent;
use receiver::UPSTREAM;

const PATH: &str = "/api/feedback";

/// The largest batch.
const MAX_BODY: u32 = 1024 * 1024;

/// The plugin.
pub struct Feedback;

impl Capability for Feedback {
    fn describe() -> Manifest {
        Manifest::new("feedback", env!("CARGO_PKG_VERSION"), "feedback")
            .summary("Takes what a box's agents report")
            .route(
                RouteEntry::under(PATH)
                    .methods(["POST"])
                    .sees_body(MAX_BODY)
                    .sees_settings(),
            )
            .word(
                Word::new("agent", "Send entries that its agents wrote")
                    .reaches(upstream(UPSTREAM)),
            )
            .word(
                Word::new("passive", "Send counts of refusals, errors and restarts")
                    .reaches(upstream(UPSTREAM)),
            )
            .path(PATH)
            .journal()
    }

    fn scopes(request: &Request) -> Option<Vec<String>> {
        if request.method != "POST" || !request.path.is_empty() {
            return not_served();
        }
        // What is no batch needs no word: it is refused for what it is.
        Some(Batch::read(body(request)).map_or_else(|_| Vec::new(), Batch::words))
    }

    fn route(request: Request, caller: Caller) -> Step {
        if let Err(wrong) = Batch::read(body(&request)) {
            return refuse::invalid(wrong).into();
        }
        let box_name = caller.box_name.as_deref().unwrap_or_default();
        match Consent::read(request.settings.as_deref()) {
            Ok(consent) if consent.is_given_by(box_name) => {}
            Ok(_) => return withheld(box_name).into(),
            Err(wrong) => return misconfigured(&wrong),
        }
        let batch = request.body.unwrap_or_default();
        if caller.reaches(&upstream(UPSTREAM)) {
            return receiver::send(batch, &caller);
        }
        if caller.uses.journal {
            return Plan::from(taken()).journal(batch).into();
        }
        nobody().into()
    }

    fn resume(_state: Vec<u8>, answers: Answers) -> Step {
        receiver::answer(answers.calls)
    }
}

jackfield_sdk::plugin!(Feedback);

fn body(request: &Request) -> &[u8] {
    request.body.as_deref().unwrap_or_default()
}

/// The batch has been taken.
fn taken() -> Answer {
    Answer::status(202)
        .header("content-type", "application/json")
        .body("{\"taken\":true}")
}

fn withheld(box_name: &str) -> Refusal {
    refuse::forbidden(format!(
        "The owner of the box {box_name} has not consented to its feedback being taken: this \
         broker's consent policy withholds the batch. The box's declaration allows it, and needs \
         no change. The operator can add the box to `consent` in the settings of the plugin \
         feedback."
    ))
}

/// Nobody knows what the owner wants, so nothing is taken; the box sends the
/// batch again later.
fn misconfigured(wrong: &str) -> Step {
    let message = format!(
        "The settings of the plugin feedback are not understood: {wrong}. The operator can set \
         `consent` to \"all\", \"none\" or a list of boxes. Keep the batch, and send it later."
    );
    Plan::from(refuse::with(503, "configuration_error", message.clone()))
        .log(LogLevel::Warn, message)
        .into()
}

fn nobody() -> Refusal {
    refuse::not_implemented(
        "This broker keeps no feedback: its operator has granted the plugin feedback neither the \
         journal nor an upstream of that name. Keep the batch, and send it later.",
    )
}

#[cfg(test)]
mod tests;
