//! A cache of the capabilities that git-svc advertises in version 2 of git's protocol.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

/// Oldest advertisement that is served from the cache. Capabilities change only when git-svc is replaced.
const MAX_AGE: Duration = Duration::from_secs(10);
/// Largest advertisement that is read, in bytes; git sends a few hundred.
const MAX_ADVERTISEMENT_BYTES: usize = 16 * 1024;
/// Deadline for reading an advertisement whose headers have arrived.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Most stores whose advertisements are kept.
const MAX_STORES: usize = 1024;

/// An advertisement that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdvertisementError {
    /// Not complete within the deadline.
    TimedOut,
    /// The connection was lost, or the advertisement was too large.
    Interrupted,
}

/// The capabilities of git for version 2, which are the same for every repository of a store. Clones share the cache.
#[derive(Clone, Debug, Default)]
pub(crate) struct CapabilitiesCache(Arc<Mutex<HashMap<String, Advertisement>>>);

#[derive(Debug)]
struct Advertisement {
    stored: Instant,
    body: Bytes,
}

impl CapabilitiesCache {
    /// Returns the cached advertisement of a store, if it is recent.
    pub(crate) fn get(&self, store: &str) -> Option<Bytes> {
        self.lock().get(store).filter(|cached| cached.is_recent()).map(|cached| cached.body.clone())
    }

    /// Reads an advertisement of a store, caches and returns it.
    ///
    /// # Errors
    /// When the body cannot be read as a whole.
    pub(crate) async fn store(&self, store: &str, body: Incoming) -> Result<Bytes, AdvertisementError> {
        let whole = tokio::time::timeout(READ_TIMEOUT, Limited::new(body, MAX_ADVERTISEMENT_BYTES).collect()).await;
        let whole = whole.map_err(|_| AdvertisementError::TimedOut)?.map_err(|_| AdvertisementError::Interrupted)?;
        let body = whole.to_bytes();
        let mut cached = self.lock();
        if cached.len() >= MAX_STORES {
            cached.retain(|_, advertisement| advertisement.is_recent());
        }
        if cached.len() < MAX_STORES {
            cached.insert(store.to_owned(), Advertisement { stored: Instant::now(), body: body.clone() });
        }
        Ok(body)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Advertisement>> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Advertisement {
    fn is_recent(&self) -> bool {
        self.stored.elapsed() < MAX_AGE
    }
}
