//! Plugins that run: real components, honest and lying.

mod calls;
mod hot;
mod lanes;
mod loading;
