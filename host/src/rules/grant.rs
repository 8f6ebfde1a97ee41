//! Whose turn it is (chant broker protocol, "Whose turn"): how long a grant may
//! live, and whether it spends its person's credential on a request.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::rules::names::{BoxName, CredentialName, UpstreamName};
use crate::rules::origin::Origin;
use crate::rules::payer::Principal;

/// A grant as the broker remembers it: a person's word that a box may spend
/// their credential for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The box it was issued for.
    pub box_name: BoxName,
    /// The upstream that the credential is for.
    pub upstream: UpstreamName,
    /// The credential.
    pub credential: CredentialName,
    /// The person.
    pub principal: Principal,
    /// When it was issued.
    pub issued: Timestamp,
    /// From when on it is worth nothing.
    pub expires: Timestamp,
    /// Whether it was taken back.
    pub revoked: bool,
}

/// What is asked of a grant.
#[derive(Debug, Clone, Copy)]
pub struct Turn<'a> {
    /// The box whose token the request carries.
    pub box_name: &'a BoxName,
    /// The upstream that the request is to be paid at.
    pub upstream: &'a UpstreamName,
    /// Where that upstream is now.
    pub origin: &'a Origin,
    /// When.
    pub now: Timestamp,
}

/// The credential that lies where a grant points now.
#[derive(Debug, Clone, Copy)]
pub struct Pointed<'a> {
    /// The visitor whose it is; none when it is no visitor's.
    pub visitor: Option<&'a Principal>,
    /// The only box that may spend it.
    pub box_name: Option<&'a BoxName>,
    /// The only origin that it may be sent to.
    pub bound_to: &'a Origin,
}

/// Why a grant spends nothing. The box is never told; the operator is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unspent {
    /// It was taken back.
    #[error("revoked")]
    Revoked,
    /// Its time is over.
    #[error("expired")]
    Expired,
    /// It was issued for another box, or its credential is another box's.
    #[error("for another box")]
    AnotherBox,
    /// Its credential is for another upstream.
    #[error("for another upstream")]
    AnotherUpstream,
    /// The person holds no such credential any more.
    #[error("no credential")]
    NoCredential,
    /// The credential was set for another address than the upstream has.
    #[error("credential for another address")]
    Moved,
}

impl Grant {
    /// Whether it spends the credential that lies where it points.
    ///
    /// # Errors
    /// Why it does not: the request is then paid as it would be without one.
    pub fn spends(&self, turn: &Turn<'_>, pointed: Option<Pointed<'_>>) -> Result<(), Unspent> {
        if self.revoked {
            return Err(Unspent::Revoked);
        }
        if turn.now >= self.expires {
            return Err(Unspent::Expired);
        }
        if *turn.box_name != self.box_name {
            return Err(Unspent::AnotherBox);
        }
        if *turn.upstream != self.upstream {
            return Err(Unspent::AnotherUpstream);
        }
        let pointed = pointed.ok_or(Unspent::NoCredential)?;
        if pointed.visitor != Some(&self.principal) {
            return Err(Unspent::NoCredential);
        }
        if pointed.box_name.is_some_and(|only| *only != self.box_name) {
            return Err(Unspent::AnotherBox);
        }
        if pointed.bound_to != turn.origin {
            return Err(Unspent::Moved);
        }
        Ok(())
    }

    /// Whether its record can go: it has been worth nothing for as long as a
    /// grant can live, and so has everything that began under it.
    #[must_use]
    pub fn is_stale(&self, now: Timestamp) -> bool {
        now.duration_since(self.expires) >= MOST.0
    }
}

/// How long a grant lives: 1 s to 24 h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ttl(SignedDuration);

/// The longest life.
const MOST: Ttl = Ttl(SignedDuration::from_hours(24));

/// A text or a number that is no life of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a grant lives between 1s and 24h: write 45s, 10m or 1h")]
pub struct TtlError;

impl Ttl {
    /// Takes a number of seconds.
    ///
    /// # Errors
    /// When it is none, or more than 24 hours.
    pub fn from_seconds(seconds: u64) -> Result<Self, TtlError> {
        let seconds = i64::try_from(seconds).map_err(|_| TtlError)?;
        let ttl = SignedDuration::from_secs(seconds);
        let fits = seconds >= 1 && ttl <= MOST.0;
        fits.then_some(Self(ttl)).ok_or(TtlError)
    }

    /// Reads a number with its unit: `s`, `m` or `h`.
    ///
    /// # Errors
    /// When it is none, or out of bounds.
    pub fn parse(text: &str) -> Result<Self, TtlError> {
        let split = text.len().checked_sub(1).ok_or(TtlError)?;
        let (number, unit) = text.split_at_checked(split).ok_or(TtlError)?;
        let unit = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 60 * 60,
            _ => return Err(TtlError),
        };
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(TtlError);
        }
        let number: u64 = number.parse().map_err(|_| TtlError)?;
        Self::from_seconds(number.checked_mul(unit).ok_or(TtlError)?)
    }

    /// In seconds.
    #[must_use]
    pub fn seconds(self) -> u64 {
        self.0.as_secs().unsigned_abs()
    }

    /// When a grant of this life expires.
    ///
    /// # Errors
    /// When that is beyond the end of time.
    pub fn after(self, now: Timestamp) -> Result<Timestamp, TtlError> {
        now.checked_add(self.0).map_err(|_| TtlError)
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}s", self.seconds())
    }
}

#[cfg(test)]
mod tests;
