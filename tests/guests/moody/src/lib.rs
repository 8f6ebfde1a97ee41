//! A plugin of many versions: a test makes another one by changing bytes of the
//! component, and builds none.
//!
//! Capability `moody`, prefix `/moody`, word `feel`, which reaches the upstream
//! `anthropic`. Two texts stand in its data, each once, to be replaced by one
//! as long:
//! - `tint:green` — what `GET /moody` answers, without a word
//! - `mood:honest` — what it says it is: `mood:greedy` wants a keep, too,
//!   `mood:claims` the prefix of another plugin, `mood:unsure` has no name, and
//!   `mood:traps!` and `mood:loops!` do that when they are asked
//!
//! Anything below `/moody/` needs the word, and is forwarded.

use std::hint::black_box;

use jackfield_sdk::prelude::*;

static TINT: &str = "tint:green";
static MOOD: &str = "mood:honest";

/// The plugin.
pub struct Moody;

impl Capability for Moody {
    fn describe() -> Manifest {
        let manifest = Manifest::new("moody", "1.0.0", "moody")
            .summary("Changes with its bytes")
            .route(RouteEntry::under("/moody"))
            .word(Word::new("feel", "Ask a model").reaches(upstream("anthropic")));
        match mood() {
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
        match caller.offer_for(&upstream) {
            Some(offer) => Forward::to(upstream.clone())
                .credential(offer, Placement::in_header("x-api-key"))
                .into(),
            None => refuse::forbidden("moody has nothing to pay with.").into(),
        }
    }
}

jackfield_sdk::plugin!(Moody);

/// What stands there now, which the compiler must not know.
fn mood() -> &'static [u8] {
    black_box(MOOD).as_bytes().get(5..).unwrap_or_default()
}
