//! The test kit: a component alone, asked as the host would ask it.
//!
//! A test says what a box sends and what the operator set up; it is given back
//! what the component decided, judged by the host's own rules. No host runs,
//! no socket is opened, no credential exists: what a plugin *needs* is
//! answered by the test itself.
//!
//! ```no_run
//! use jackfield_testkit::prelude::*;
//!
//! let asked = get("/weather/forecast/oslo")
//!     .declares(["read"])
//!     .upstream("weather");
//! let decided = Plugin::under_test().ask(asked);
//! assert_eq!(decided.words(), ["read"]);
//! assert_eq!(decided.forward().to, upstream("weather"));
//! ```
//!
//! The component runs in the `jackfield` command, which holds the engine and
//! the rules, so that a project compiles neither: the kit speaks to it through
//! a pipe. `jackfield plugin test` builds the component, says where it lies,
//! and prints what each call cost. Under a plain `cargo test` the kit finds
//! `jackfield` on the path and has it build the component first.

mod ask;
mod outcome;
mod plugin;
mod script;
mod wire;

pub use crate::ask::{Ask, delete, get, post, put, request};
pub use crate::outcome::{Cost, Decided};
pub use crate::plugin::Plugin;
pub use crate::script::Script;

/// Everything that a test usually names.
pub mod prelude {
    pub use crate::{Ask, Cost, Decided, Plugin, Script, delete, get, post, put, request};
    pub use jackfield_sdk::contract::{
        Action, Answers, CallAnswer, CallFailure, Expected, Need, PathChoice, Placement,
    };
    pub use jackfield_sdk::{header, secret, thing, upstream};
}
