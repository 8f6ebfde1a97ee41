//! What came in over a set of connections, kept so that a test can say what
//! never did.

use std::sync::{Arc, Mutex, PoisonError};

use crate::contains;

/// As much of one connection as is kept.
const KEPT: usize = 2 * 1024 * 1024;

/// The connections of one side.
#[derive(Clone, Default)]
pub struct Taps(Arc<Mutex<Vec<Tap>>>);

/// The bytes read from one connection, up to a limit.
#[derive(Clone, Default)]
pub struct Tap(Arc<Mutex<Vec<u8>>>);

impl Taps {
    /// A tap for a new connection.
    #[must_use]
    pub fn open(&self) -> Tap {
        let tap = Tap::default();
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(tap.clone());
        tap
    }

    /// Whether one of the connections carried these bytes.
    #[must_use]
    pub fn carried(&self, needle: &[u8]) -> bool {
        let taps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taps.iter().any(|tap| contains(&tap.bytes(), needle))
    }
}

impl Tap {
    /// Keeps what was read.
    pub fn keep(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = KEPT.saturating_sub(kept.len()).min(bytes.len());
        kept.extend_from_slice(&bytes[..room]);
    }

    /// What was kept.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
