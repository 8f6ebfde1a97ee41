//! The Jackfield host: it owns the sockets, the secrets and the streams, and
//! asks sandboxed plugins what to do with them.
//!
//! In reading order: [`rules`] decides.

pub mod rules;
