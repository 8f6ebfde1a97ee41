//! What decides: plain functions over values, shared by the whole house.
//!
//! Nothing here does I/O, awaits, reads a clock or draws a random number, and
//! nothing here names another part of the house.

pub mod address;
pub mod admission;
pub mod allow;
pub mod audit;
pub mod bucket;
pub mod causes;
pub mod codings;
pub mod compare;
pub mod declaration;
pub mod escape;
pub mod grant;
pub mod headers;
pub mod identify;
pub mod json;
pub mod manifest;
pub mod manifest_check;
pub mod names;
pub mod origin;
pub mod owned;
pub mod paths;
pub mod payer;
pub mod permission;
pub mod permit;
pub mod plan;
pub mod plan_check;
pub mod refusal;
pub mod rollback;
pub mod scrub;
pub mod secret;
pub mod signature;
pub mod token;
pub mod trial;
