//! What an author of a plugin works with: a project that is made from nothing,
//! its tests, and its component built again at each change.
//!
//! In reading order: `project` decides what a new project holds, `carried` is
//! what the binary carries for it, `create` writes it, `trial` runs a
//! project's tests, `watch` waits for a change.

mod carried;
mod create;
mod project;
mod trial;
mod watch;

pub use create::{CreateError, create, renew};
pub use project::{Language, ProjectError, World};
pub use trial::{Noted, Trial, TrialError, run};
pub use watch::Sources;
