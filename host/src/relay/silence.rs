//! How long an exchange may stand still. One timer serves it from the first
//! byte sent to the last one received: it is set late, and when it rings it
//! looks whether something has moved since.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::relay::upload::Activity;

/// Notices that nothing has moved for too long.
pub(super) struct Silence {
    activity: Arc<Activity>,
    idle: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    /// Of an exchange in which nothing may stand still for longer than this.
    pub(super) fn new(activity: Arc<Activity>, idle: Duration) -> Self {
        Self {
            activity,
            idle,
            timer: None,
        }
    }

    /// The same for who goes on alone.
    pub(super) fn again(&self) -> Self {
        Self::new(self.activity.clone(), self.idle)
    }

    /// Ready once nothing has moved for too long.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (activity, idle) = (&self.activity, self.idle);
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(activity.deadline(idle))));
        loop {
            ready!(timer.as_mut().poll(context));
            let deadline = activity.deadline(idle);
            if deadline <= Instant::now() {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
    }

    /// Waits for an outcome for as long as something moves; none when nothing
    /// did.
    pub(super) async fn or<T>(&mut self, outcome: impl Future<Output = T>) -> Option<T> {
        let mut outcome = pin!(outcome);
        poll_fn(|context| match outcome.as_mut().poll(context) {
            Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
            Poll::Pending => self.poll(context).map(|()| None),
        })
        .await
    }
}
