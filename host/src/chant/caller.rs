//! Who asks: a token that names a box becomes a [`Caller`], and nothing else
//! does.

use std::sync::Arc;

use http::HeaderName;
use http::request::Parts;

use crate::chant::boxes::{Boxes, Known};
use crate::chant::visitor::Turn;
use crate::lease::Lease;
use crate::relay::ShownToken;
use crate::rules::identify::{self, Shown};
use crate::rules::manifest::TokenPlace;
use crate::rules::names::BoxName;
use crate::rules::refusal::Refusal;
use crate::rules::token::BoxToken;

/// A token that named a box.
pub(super) struct Caller {
    known: Arc<Known>,
    token: BoxToken,
    turn: Option<Turn>,
}

impl Caller {
    /// Identifies the caller of a request.
    ///
    /// # Errors
    /// A 403 when no token is shown, two are, or it names no box.
    pub(super) fn identify(
        boxes: &Boxes,
        head: &Parts,
        place: &TokenPlace,
    ) -> Result<Self, Refusal> {
        match identify::shown_token(&head.headers, path_and_query(head), place) {
            Shown::One(token) => match boxes.by_token(&token) {
                Some(known) => Ok(Self {
                    known,
                    token,
                    turn: None,
                }),
                None => Err(Self::unknown()),
            },
            Shown::Malformed => Err(Self::unknown()),
            Shown::Several => Err(Refusal::forbidden(
                "This request shows two different tokens. Send the box's own token alone, in one place or the same \
                 in each.",
            )),
            Shown::Nothing => Err(Refusal::forbidden(format!(
                "This request shows no box token. Send it as {}.",
                places(place)
            ))),
        }
    }

    /// The refusal of a token that names no box.
    pub(super) fn unknown() -> Refusal {
        Refusal::forbidden(
            "This token names no box here. Ask the operator for the box's current token.",
        )
    }

    /// Refuses a request that carries a box's token or a grant where it would
    /// leave the host: it may be this box's or another's.
    ///
    /// # Errors
    /// A 400 that names the place.
    pub(super) fn refuse_strays(
        boxes: &Boxes,
        head: &Parts,
        place: &TokenPlace,
    ) -> Result<(), Refusal> {
        let target = path_and_query(head);
        let strays = match place {
            TokenPlace::Headers(names) => identify::stray_tokens(&head.headers, target, names),
            TokenPlace::Anywhere => {
                identify::tokens_in_path(target.split('?').next().unwrap_or(target)).collect()
            }
        };
        match strays
            .into_iter()
            .find(|(_, token)| boxes.by_token(token).is_some())
        {
            None => Ok(()),
            Some((place, _)) => Err(Refusal::invalid(format!(
                "A box's token stands in {place}, from where it would reach the upstream. Take it out."
            ))),
        }?;
        let grant = match place {
            TokenPlace::Headers(names) => identify::stray_grant(&head.headers, target, names),
            // What has its shape elsewhere is hidden from the plugin, and
            // refused when the request is sealed.
            TokenPlace::Anywhere => identify::grant_in_path(target),
        };
        match grant {
            None => Ok(()),
            Some(place) => Err(Refusal::invalid(format!(
                "A grant stands in {place}, from where it would reach the upstream. Send it as chant-grant alone."
            ))),
        }
    }

    /// Whose turn this request is, where a valid grant says so.
    pub(super) fn turn(&self) -> Option<&Turn> {
        self.turn.as_ref()
    }

    /// Makes this request a person's turn.
    pub(super) fn take_turn(&mut self, turn: Option<Turn>) {
        self.turn = turn;
    }

    /// The box.
    pub(super) fn box_name(&self) -> &BoxName {
        &self.known.name
    }

    /// The box as it stood when it was identified.
    pub(super) fn known(&self) -> &Arc<Known> {
        &self.known
    }

    /// The token it showed, with what finds it wherever it must not go.
    pub(super) fn shown(&self) -> ShownToken<'_> {
        ShownToken {
            token: &self.token,
            finder: self.known.finder(&self.token),
        }
    }

    /// The token it showed.
    pub(super) fn token(&self) -> &BoxToken {
        &self.token
    }

    /// What its streams live under.
    pub(super) fn lease(&self) -> Lease {
        self.known.lease.clone().into()
    }
}

/// The path and query as they were received.
pub(super) fn path_and_query(head: &Parts) -> &str {
    head.uri
        .path_and_query()
        .map_or("", |target| target.as_str())
}

fn places(place: &TokenPlace) -> String {
    match place {
        TokenPlace::Headers(names) => {
            let others = names
                .iter()
                .map(|name: &HeaderName| format!(" or {name}: <token>"))
                .collect::<String>();
            format!("Authorization: Bearer <token>{others}")
        }
        TokenPlace::Anywhere => {
            "the API expects its key: in a header, inside Basic, or in the query".to_owned()
        }
    }
}
