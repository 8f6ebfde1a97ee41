//! A plugin of many versions: a test makes another one by changing bytes of the
//! component, and builds none.
//!
//! Capability `moody`, prefix `/moody`, word `feel`, which reaches the upstream
//! `anthropic`. Three texts stand in its data, each once, to be replaced by one
//! as long:
//! - `tint:green` — what `GET /moody` answers, without a word
//! - `mood:honest` — what it says it is: `mood:greedy` wants a keep, too,
//!   `mood:claims` the prefix of another plugin, `mood:unsure` has no name, and
//!   `mood:traps!` and `mood:loops!` do that when they are asked
//! - `step:as-ever` — what it does with what lies below `/moody/`, which needs
//!   the word: it forwards that, asks the upstream first below `/moody/ask` and
//!   answers with the tint that asked and the one that was asked again, and traps
//!   below `/moody/trap`. `step:failing` traps on all of it,
//!   `step:looping` loops, `step:refuses` refuses, `step:reaches` names an
//!   upstream that no word reaches, `step:edited!` edits a header, and
//!   `step:needing` asks something else

use std::hint::black_box;

use jackfield_sdk::prelude::*;

static TINT: &str = "tint:green";
static MOOD: &str = "mood:honest";
static STEP: &str = "step:as-ever";

/// The plugin.
pub struct Moody;

impl Capability for Moody {
    fn describe() -> Manifest {
        let manifest = Manifest::new("moody", "1.0.0", "moody")
            .summary("Changes with its bytes")
            .route(RouteEntry::under("/moody"))
            .word(Word::new("feel", "Ask a model").reaches(upstream("anthropic")));
        match chosen(MOOD) {
            b"greedy" => manifest.keep(),
            b"claims" => manifest.route(RouteEntry::under("/liar/under")),
            b"unsure" => Manifest {
                name: "No\r\nName".to_owned(),
                ..manifest
            },
            b"traps!" => unreachable!("as it was told"),
            b"loops!" => loop {
                black_box(MOOD);
            },
            _ => manifest,
        }
    }

    fn scopes(request: &Request) -> Option<Vec<String>> {
        match request.segments().as_slice() {
            [] => needs_nothing(),
            _ => needs(["feel"]),
        }
    }

    fn route(request: Request, caller: Caller) -> Step {
        if request.segments().is_empty() {
            return Answer::status(200).body(black_box(TINT)).into();
        }
        let upstream = upstream("anthropic");
        let elsewhere = Target::Upstream("elsewhere".to_owned());
        let Some(offer) = caller.offer_for(&upstream) else {
            return refuse::forbidden("moody has nothing to pay with.").into();
        };
        let key = || Placement::in_header("x-api-key");
        let forward = || Forward::to(upstream.clone()).credential(offer, key());
        let ask = |method: &str| -> Step {
            let call = Call::as_received(method, upstream.clone()).credential(offer, key());
            Need::with_state(black_box(TINT)).call(call).into()
        };
        match (request.segments().as_slice(), chosen(STEP)) {
            (["trap", ..], _) | (_, b"failing") => unreachable!("as it was told"),
            (_, b"looping") => loop {
                black_box(STEP);
            },
            (_, b"refuses") => refuse::forbidden("moody is not in the mood.").into(),
            (_, b"reaches") => Forward::to(elsewhere).into(),
            (_, b"edited!") => forward().set_header("x-mood", "hush-hush").into(),
            (["ask", ..], b"needing") => ask("DELETE"),
            (["ask", ..], _) => ask("GET"),
            _ => forward().into(),
        }
    }

    fn resume(state: Vec<u8>, _answers: Answers) -> Step {
        let both = [state.as_slice(), black_box(TINT).as_bytes()].concat();
        Answer::status(200).body(both).into()
    }
}

jackfield_sdk::plugin!(Moody);

/// What stands there now, which the compiler must not know.
fn chosen(text: &'static str) -> &'static [u8] {
    black_box(text).as_bytes().get(5..).unwrap_or_default()
}
