//! Limits on request bodies that are collected in memory.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::ApiError;

/// Largest ordinary JSON body, in bytes. A larger one holds a [`LargeBodyPermit`].
pub(crate) const MAX_JSON_BYTES: usize = 4 * 1024 * 1024;
/// Largest JSON body that carries a text of up to 1 MiB, of which each byte may be escaped, in bytes.
pub(crate) const MAX_TEXT_BODY_BYTES: usize = 8 * 1024 * 1024;
/// Largest JSON body that carries files, in bytes.
pub(crate) const MAX_FILE_BODY_BYTES: usize = 96 * 1024 * 1024;

/// Limits that all requests share; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct BodyLimits {
    large_bodies: Arc<Semaphore>,
    /// Longest pause of a client inside a body.
    pub(super) max_pause: Duration,
}

impl BodyLimits {
    /// Allows `max_large_bodies` bodies above [`MAX_JSON_BYTES`] in memory at once, and pauses of `max_pause`.
    pub(crate) fn new(max_large_bodies: usize, max_pause: Duration) -> Self {
        Self { large_bodies: Arc::new(Semaphore::new(max_large_bodies)), max_pause }
    }

    /// Returns a permit for one large body; does not wait for one.
    ///
    /// # Errors
    /// 503 when all permits are taken.
    pub(super) fn acquire_large(&self) -> Result<LargeBodyPermit, ApiError> {
        let permit = Arc::clone(&self.large_bodies).try_acquire_owned().map_err(|_| ApiError::unavailable())?;
        Ok(LargeBodyPermit { permit: Some(permit) })
    }
}

/// Permit to hold a large body in memory, returned when dropped; an empty one for an ordinary body.
#[derive(Debug, Default)]
pub(crate) struct LargeBodyPermit {
    permit: Option<OwnedSemaphorePermit>,
}

impl LargeBodyPermit {
    /// True if the body is an ordinary one.
    pub(super) fn is_empty(&self) -> bool {
        self.permit.is_none()
    }
}
