//! The audit of a plugin, as far as it is decisions: which requests it is
//! asked, what stands on offer for each, and what its answers mean.
//!
//! It judges by the checks that a live request passes (`manifest_check`,
//! `plan_check`), so an audit and a host never disagree. It runs nothing.

pub mod decision;
pub mod difference;
pub mod finding;
pub mod imports;
pub mod requests;
pub mod strings;
pub mod trial;
