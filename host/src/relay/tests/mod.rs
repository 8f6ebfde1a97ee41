//! The relay over real sockets, between a scripted box and a scripted
//! upstream. Each test moves only when the other side has moved; the one
//! clock is the outer limit of [`within`].

mod answers;
mod calls;
mod cancel;
mod connections;
mod heads;
mod http2;
pub(crate) mod line;
mod sealing;
mod secure;
mod stage;
mod streams;
mod uploads;
