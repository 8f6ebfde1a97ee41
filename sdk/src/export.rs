//! From a [`Capability`] to the component's exports.

use crate::bindings::exports::jackfield::plugin::decisions::Guest;
use crate::contract::{Answers, Caller, Manifest, Request, Step};
use crate::refuse;

/// A capability of a box, as pure functions. The contract, `wit/`, says what
/// each is asked and may answer.
pub trait Capability {
    /// Tells what the plugin is. The same value each time.
    fn describe() -> Manifest;

    /// Names the scope words that a request needs: see [`crate::needs`],
    /// [`crate::needs_nothing`] and [`crate::not_served`].
    fn scopes(request: &Request) -> Option<Vec<String>>;

    /// Decides, after the rule has passed for every word of `scopes`.
    fn route(request: Request, caller: Caller) -> Step;

    /// Decides further with what a need brought back. A plugin that asks for
    /// nothing leaves it as it is.
    fn resume(state: Vec<u8>, answers: Answers) -> Step {
        let _ = (state, answers);
        refuse::internal("This plugin asked for nothing, and got an answer all the same.").into()
    }
}

impl<T: Capability> Guest for T {
    fn describe() -> Manifest {
        <T as Capability>::describe()
    }

    fn scopes(request: Request) -> Option<Vec<String>> {
        <T as Capability>::scopes(&request)
    }

    fn route(request: Request, caller: Caller) -> Step {
        <T as Capability>::route(request, caller)
    }

    fn resume(state: Vec<u8>, answers: Answers) -> Step {
        <T as Capability>::resume(state, answers)
    }
}

/// Exports a type that implements [`Capability`] as a component of world
/// `capability`. In a native build it makes nothing, so that a plugin's tests
/// link like any other's.
#[macro_export]
macro_rules! plugin {
    ($capability:ident) => {
        #[cfg(target_family = "wasm")]
        $crate::bindings::export_capability!($capability with_types_in $crate::bindings);
    };
}
