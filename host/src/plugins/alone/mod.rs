//! A component alone: asked without a host, measured, and judged by the host's
//! own rules. It is what the test kit (`sdk/testkit`) speaks to.
//!
//! Nothing here is on the way of a request: the engine meters instead of
//! looking at a clock, so that a test gives the same answer on every machine.
//! In reading order: `answer` is the conversation, `wire` what is said in it,
//! `judge` walks a request as `chant` does, `set` lays out the world
//! that a test describes, `metered` runs the component. `replay` asks another
//! version what a live one was asked.

mod answer;
mod judge;
mod metered;
mod replay;
mod set;
mod wire;

pub use answer::answer;
pub use replay::{Changed, Replay, Replayed};
