//! Plugins that run: real components, honest and lying.

mod calls;
mod lanes;
mod loading;
