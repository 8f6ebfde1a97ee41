//! End-to-end tests of the host: the real binary, real sockets and real
//! components. A module for each part of the protocol; each refusal is also
//! held to having touched no upstream.

mod audit;
mod author;
mod bad_input;
mod bad_input_h2;
mod bad_input_heads;
mod bad_input_slow;
mod book;
mod conformance;
mod credentials;
mod decide;
mod decision_log;
mod declaration;
mod durability;
mod egress;
mod feedback;
mod fountain;
mod frozen;
mod grants;
mod hot_loads;
mod identify;
mod inference;
mod journal;
mod keep;
mod layering;
mod leftovers;
mod lifecycle;
mod limits;
mod moods;
mod no_capability;
mod notes;
mod ownership;
mod paths;
mod payer;
mod plugins;
mod plumbing;
mod python_sdk;
mod replay;
mod revocation;
mod rule;
mod scrub;
mod shares;
mod stand_ins;
mod streams;
mod tls;
mod trials;
mod versions;
mod watch;

use jackfield_tests::world::{Builder, World};

/// The host that cargo built for these tests.
const BINARY: &str = env!("CARGO_BIN_EXE_jackfield-under-test");

/// A world around it.
fn world() -> Builder {
    World::of(BINARY)
}
