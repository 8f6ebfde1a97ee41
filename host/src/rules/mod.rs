//! What decides: plain functions over values, shared by the whole house.
//!
//! Nothing here does I/O, awaits, reads a clock or draws a random number, and
//! nothing here names another part of the house.

pub mod manifest;
pub mod names;
pub mod origin;
pub mod payer;
pub mod plan;
pub mod refusal;
pub mod secret;
pub mod token;
