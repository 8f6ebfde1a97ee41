//! Who drives an HTTP/1.1 connection to an upstream. Mostly whoever waits for
//! its answer, in the same task: a task of its own would be woken, perhaps on
//! another core, for each step of each request. While it lies unused, nobody
//! does, and whoever takes it up looks first whether it still stands.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Waker};

use hyper::client::conn::http1::Connection;
use hyper_util::rt::TokioIo;
use tokio::task::AbortHandle;

use crate::relay::io::{Look, UpstreamIo};
use crate::relay::upload::Upload;

/// A connection and who drives it. Dropping this closes it.
pub(super) enum Drive {
    /// Whoever waits for something of it.
    Here {
        /// The connection.
        connection: Box<Connection<TokioIo<UpstreamIo>, Upload>>,
        /// What has it look for its end.
        look: Look,
    },
    /// A task of its own.
    Apart {
        /// Held, for its end.
        _driver: Driver,
    },
    /// It has ended.
    Over,
}

/// The task that drives a connection: dropping this closes it.
pub(super) struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Drive {
    /// Lets it move on as far as it can. How it ends is told to whoever waits
    /// for an answer or a body, once it has been let go of.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) {
        if let Self::Here { connection, .. } = self
            && Pin::new(connection).poll(context).is_ready()
        {
            *self = Self::Over;
        }
    }

    /// Lets it take in what has come, when nobody waits for more.
    pub(super) fn catch_up(&mut self) {
        self.poll(&mut Context::from_waker(Waker::noop()));
    }

    /// Lets it notice that its peer has ended it, while it lies unused.
    pub(super) fn look(&mut self) {
        if let Self::Here { look, .. } = self {
            look.ask();
            self.catch_up();
        }
    }

    /// Waits for something of the connection, and drives it meanwhile.
    pub(super) async fn until<T>(&mut self, outcome: impl Future<Output = T>) -> T {
        let mut outcome = pin!(outcome);
        poll_fn(|context| {
            self.poll(context);
            outcome.as_mut().poll(context)
        })
        .await
    }

    /// Has it driven by a task of its own from here on, also while nobody
    /// waits.
    pub(super) fn leave(&mut self) {
        match std::mem::replace(self, Self::Over) {
            Self::Here { connection, .. } => {
                let driver = tokio::spawn(async move { drop(connection.await) });
                *self = Self::Apart {
                    _driver: Driver(driver.abort_handle()),
                };
            }
            other @ (Self::Apart { .. } | Self::Over) => *self = other,
        }
    }
}
