//! Stops long reads at a deadline, or when the caller drops its request.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::types::error::GitError;

/// Time limit for reads of history and trees, including the time in the queue.
pub const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The deadline of a read, checked between objects.
#[derive(Clone, Debug)]
pub struct Deadline {
    at: Instant,
    gone: Arc<AtomicBool>,
}

/// Held by the caller of a read. Dropping it makes the read fail with `ClientGone`.
#[derive(Debug)]
pub struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Deadline {
    /// Starts a deadline.
    #[must_use]
    pub fn start(allowed: Duration) -> (Self, CancelOnDrop) {
        let gone = Arc::new(AtomicBool::new(false));
        (Self { at: Instant::now() + allowed, gone: Arc::clone(&gone) }, CancelOnDrop(gone))
    }

    /// Fails with `TimedOut` after the deadline, or `ClientGone` once [`CancelOnDrop`] is dropped.
    pub fn check(&self) -> Result<(), GitError> {
        if self.gone.load(Ordering::Relaxed) {
            return Err(GitError::ClientGone);
        }
        if Instant::now() >= self.at {
            return Err(GitError::TimedOut { what: "reading" });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_ends_when_its_time_is_over_or_its_caller_is_gone() {
        let (deadline, waiting) = Deadline::start(Duration::from_secs(60));
        deadline.check().unwrap();
        drop(waiting);
        assert!(matches!(deadline.check(), Err(GitError::ClientGone)));
        let (deadline, _waiting) = Deadline::start(Duration::ZERO);
        assert!(matches!(deadline.check(), Err(GitError::TimedOut { .. })));
    }
}
