use jackfield_sdk::contract::{Action, PathChoice, QueryChoice};
use jackfield_sdk::upstream;

use super::*;

mod answering;
mod asking;

fn caller(kind: &str) -> Caller {
    let mut caller = Caller::of("one");
    caller.credentials = vec![Offer {
        name: "offer-1".to_owned(),
        target: upstream("anthropic"),
        kind: kind.to_owned(),
        payer: None,
    }];
    caller
}

fn tier() -> Value {
    json!({"type": "choice", "instructions": "Pick the tier.",
        "criteria": {"small": "a small change", "large": "a large change"}})
}

fn ship() -> Value {
    json!({"type": "noul", "instructions": "Ship it?",
        "criteria": {"true": "ship", "false": "hold"}})
}

fn mood() -> Value {
    json!({"type": "score", "instructions": "How angry?",
        "criteria": ["calm", "cross", "furious"]})
}

fn request(questions: &Value) -> Vec<u8> {
    let request = json!({"model": "claude-x-1", "state": {"size": 3}, "questions": questions});
    request.to_string().into_bytes()
}

fn asked(questions: &Value) -> Need {
    match ask(&request(questions), &caller("api-key")) {
        Step::Need(need) => need,
        Step::Plan(plan) => panic!("nothing is asked: {:?}", plan.action),
    }
}

fn planned(step: Step) -> Action {
    match step {
        Step::Plan(plan) => {
            assert!(plan.writes.is_empty() && plan.journal.is_empty() && plan.log.is_empty());
            plan.action
        }
        Step::Need(_) => panic!("it asks again"),
    }
}

/// The answer's body, of a request that was answered.
fn answered(step: Step) -> Value {
    match planned(step) {
        Action::Answer(answer) if answer.status == 200 => {
            serde_json::from_slice(&answer.body).expect("JSON")
        }
        other @ (Action::Answer(_) | Action::Forward(_) | Action::Refuse(_)) => {
            panic!("it is not answered: {other:?}")
        }
    }
}

/// Holds a step to being a refusal of this status that says these words.
fn refused(step: Step, status: u16, words: &[&str]) {
    let (said, message) = match planned(step) {
        Action::Refuse(refusal) => (refusal.status, refusal.message),
        Action::Answer(answer) => (
            answer.status,
            String::from_utf8(answer.body).expect("a text"),
        ),
        Action::Forward(_) => panic!("it is forwarded"),
    };
    assert_eq!(said, status, "{message}");
    for word in words {
        assert!(message.contains(word), "no {word:?}: {message}");
    }
}
