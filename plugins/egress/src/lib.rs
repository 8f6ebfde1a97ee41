//! Capability `egress`: any API, with a secret of the box in the place of the
//! box's token.
//!
//! `/egress/<NAME>/<path>` needs the word `<NAME>` and goes to the one host of
//! the secret NAME, as `/<path>` with the query as it came; the value stands
//! wherever the request carried the token. A first segment that is no secret's
//! name is not served.

use jackfield_sdk::prelude::*;

/// The plugin.
pub struct Egress;

impl Capability for Egress {
    fn describe() -> Manifest {
        Manifest::new("egress", env!("CARGO_PKG_VERSION"), "egress")
            .summary("Lets a box call the hosts of its own secrets")
            .route(RouteEntry::under("/egress").token_anywhere())
            .word(Word::any_secret(
                "Call the host of the secret NAME with its value",
            ))
    }

    fn scopes(request: &Request) -> Option<Vec<String>> {
        needs([secret_name(request)?])
    }

    fn route(request: Request, caller: Caller) -> Step {
        let Some(name) = secret_name(&request) else {
            return refuse::not_found("egress serves /egress/<NAME>/<path>.").into();
        };
        match caller.offer_for(&secret(name)) {
            Some(offer) => Forward::to(secret(name))
                .skip_segments(1)
                .credential(offer, Placement::StandIn)
                .into(),
            None => no_value(name, caller.box_name.as_deref().unwrap_or("BOX")).into(),
        }
    }
}

jackfield_sdk::plugin!(Egress);

fn secret_name(request: &Request) -> Option<&str> {
    let name = *request.segments().first()?;
    is_secret_name(name).then_some(name)
}

fn no_value(name: &str, box_name: &str) -> Refusal {
    refuse::forbidden(format!(
        "egress: this broker holds no value for the secret {name} of this box. The operator can \
         store one: jackfield secret set {name} --box {box_name} --host HOST"
    ))
}

#[cfg(test)]
mod tests;
