//! The Jackfield host: it owns the sockets, the secrets and the streams, and
//! asks sandboxed plugins what to do with them.
//!
//! In reading order: [`rules`] decides,
//! [`store`] keeps,
//! [`vault`] seals,
//! [`relay`] sends on,
//! [`listen`] accepts,
//! [`plugins`] asks,
//! [`telemetry`] tells,
//! [`config`] reads,
//! [`chant`] is the protocol.

pub mod chant;
pub mod config;
pub mod listen;
pub mod plugins;
pub mod relay;
pub mod rules;
pub mod store;
pub mod telemetry;
pub mod vault;
