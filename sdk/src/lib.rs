//! What a plugin author depends on: the contract's types, builders that make
//! a plugin read like its specification, and the macro that exports it.
//!
//! A plugin is a set of pure functions. It says what it is
//! ([`Capability::describe`]), which scope words a request needs
//! ([`Capability::scopes`]), and where the request goes
//! ([`Capability::route`]). It never sees a token or a credential's value, and
//! it can do nothing but compute.
//!
//! The smallest plugin:
//!
//! ```
//! use jackfield_sdk::prelude::*;
//!
//! pub struct Weather;
//!
//! impl Capability for Weather {
//!     fn describe() -> Manifest {
//!         Manifest::new("weather", "0.1.0", "weather")
//!             .summary("Reads the forecast")
//!             .route(RouteEntry::under("/weather"))
//!             .word(Word::new("read", "Read the forecast").reaches(upstream("weather")))
//!     }
//!
//!     fn scopes(request: &Request) -> Option<Vec<String>> {
//!         match (request.method.as_str(), request.segments().as_slice()) {
//!             ("GET", ["forecast", city]) if !city.is_empty() => needs(["read"]),
//!             _ => not_served(),
//!         }
//!     }
//!
//!     fn route(_request: Request, caller: Caller) -> Step {
//!         let Some(offer) = caller.offer_for(&upstream("weather")) else {
//!             return refuse::forbidden("This broker holds no credential for weather.").into();
//!         };
//!         Forward::to(upstream("weather"))
//!             .credential(offer, Placement::Bearer)
//!             .into()
//!     }
//! }
//!
//! jackfield_sdk::plugin!(Weather);
//! # fn main() {
//! #     assert_eq!(Weather::describe().name, "weather");
//! # }
//! ```
//!
//! Its functions are ordinary Rust, so `cargo test` runs a plugin's tests
//! natively; the export exists in a Wasm build alone.

pub mod bindings;
mod export;
#[cfg(any(target_family = "wasm", test))]
mod heap;
mod manifest;
mod request;
mod step;

pub mod json;
pub mod members;
pub mod refuse;

pub use crate::export::Capability;
pub use crate::manifest::{any_secret, secret, upstream};
pub use crate::request::{is_secret_name, needs, needs_nothing, not_served};
pub use crate::step::{header, thing};

/// The contract's types, under one name.
pub mod contract {
    pub use crate::bindings::exports::jackfield::plugin::decisions::{
        Action, Answer, Caller, Forward, HeaderEdit, Inputs, Limits, Manifest, Plan, Request,
        RouteEntry, Step, Substitution, TokenPlace, Uses, Word,
    };
    pub use crate::bindings::exports::jackfield::plugin::types::{
        Answers, Call, CallAnswer, CallFailure, Expected, Header, HeaderPlacement, Listing,
        LogLevel, LogLine, Need, Offer, PathChoice, Payer, PayerKind, Placement, QueryChoice,
        Refusal, Target, Thing, Write,
    };
}

/// Everything that a plugin usually names.
pub mod prelude {
    pub use crate::contract::{
        Answer, Answers, Call, Caller, Forward, Manifest, Need, Offer, Placement, Plan, Refusal,
        Request, RouteEntry, Step, Target, Thing, Word,
    };
    pub use crate::refuse;
    pub use crate::{
        Capability, any_secret, header, is_secret_name, needs, needs_nothing, not_served, secret,
        thing, upstream,
    };
}
