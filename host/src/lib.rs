//! The Jackfield host: it owns the sockets, the secrets and the streams, and
//! asks sandboxed plugins what to do with them.
//!
//! In reading order: [`rules`] decides, [`store`] keeps, [`vault`] seals,
//! [`relay`] sends on, [`plugins`] asks, [`listen`] accepts, [`chant`] is the
//! protocol that uses them all, [`admin`] and [`cli`] are the operator's,
//! [`demo`] shows it, and [`app`] and [`serve`] put it together. Beside them
//! all, [`conformance`] judges brokers of the protocol, this one among them,
//! [`author`] is what a plugin's author works with, and [`decision_log`] keeps what
//! was decided.

pub mod admin;
pub mod app;
pub mod author;
pub mod chant;
pub mod cli;
pub mod config;
pub mod conformance;
pub mod decision_log;
pub mod demo;
pub mod fleeting;
pub mod lease;
pub mod listen;
pub mod plugins;
pub mod relay;
pub mod rules;
pub mod serve;
pub mod store;
pub mod telemetry;
pub mod vault;
