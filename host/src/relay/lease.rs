//! What a relay lives under: whatever allowed it. Once any of that is revoked,
//! the relay is cut in both directions.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// What one request is allowed by: its box, its plugin, what it spends. Each
/// is a token that its owner cancels when it is taken back.
#[derive(Debug, Clone, Default)]
pub struct Lease(Vec<CancellationToken>);

impl Lease {
    /// This lease, which from here on also ends with that token.
    #[must_use]
    pub fn and(mut self, token: &CancellationToken) -> Self {
        self.0.push(token.clone());
        self
    }

    /// This lease, which from here on also ends with that one.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        self.0.extend_from_slice(&other.0);
        self
    }

    /// Whether anything that it stands on was taken back.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.iter().any(CancellationToken::is_cancelled)
    }

    /// Ends when anything that it stands on is taken back; a lease that stands
    /// on nothing never ends.
    #[must_use]
    pub fn cancelled(&self) -> Cancelled {
        let tokens = self.0.iter().cloned();
        Cancelled(
            tokens
                .map(|token| Box::pin(token.cancelled_owned()))
                .collect(),
        )
    }
}

impl From<CancellationToken> for Lease {
    fn from(token: CancellationToken) -> Self {
        Self(vec![token])
    }
}

/// The end of a [`Lease`].
pub struct Cancelled(Vec<Pin<Box<WaitForCancellationFutureOwned>>>);

impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut waits = self.0.iter_mut();
        if waits.any(|wait| wait.as_mut().poll(context).is_ready()) {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_lease_ends_with_the_first_of_what_it_stands_on() {
        let tokens: [CancellationToken; 3] = Default::default();
        for ends in 0..tokens.len() {
            let tokens: [CancellationToken; 3] = Default::default();
            let lease = tokens.iter().fold(Lease::default(), Lease::and);
            let mut end = lease.cancelled();
            assert!((&mut end).now_or_never().is_none());
            assert!(!lease.is_cancelled());
            tokens[ends].cancel();
            end.await;
            assert!(lease.is_cancelled());
            assert!(lease.clone().cancelled().now_or_never().is_some());
        }
        assert!(Lease::default().cancelled().now_or_never().is_none());
    }
}
