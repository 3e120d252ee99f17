//! Limits on request bodies: on the memory of collected bodies, and on the number of streamed
//! uploads.
//!
//! Memory is counted as bytes arrive, whatever length the request declares. The first kilobytes are
//! read for every client; beyond that, the client's credential is checked and the memory counts for
//! its account as well as for its address.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use ferrite_listener::{Client, Quota, QuotaFull, QuotaLimits, Share};
use futures_util::future::BoxFuture;

use super::client_address::counted_client;
use super::error::ApiError;

/// Bytes of a body that are read before the client's credential is checked.
pub(crate) const MAX_UNVERIFIED_BODY_BYTES: usize = 16 * 1024;
/// Maximum ordinary JSON body. A larger one needs a slot for large bodies.
pub(crate) const MAX_JSON_BYTES: usize = 4 * 1024 * 1024;
/// Maximum JSON body with a text of up to 1 MiB, of which every byte can be escaped.
pub(crate) const MAX_TEXT_BODY_BYTES: usize = 8 * 1024 * 1024;
pub(crate) const MAX_FILE_BODY_BYTES: usize = 96 * 1024 * 1024;

/// Memory for bodies of unauthenticated clients.
const UNVERIFIED_BODIES_BYTES: QuotaLimits =
    QuotaLimits { total: 64 * 1024 * 1024, per_address: 8 * 1024 * 1024, ..QuotaLimits::NONE };
/// Memory for ordinary bodies of authenticated clients.
const VERIFIED_BODIES_BYTES: QuotaLimits = QuotaLimits {
    total: 256 * 1024 * 1024,
    per_address: 128 * 1024 * 1024,
    per_user: 64 * 1024 * 1024,
    ..QuotaLimits::NONE
};

/// Looks up the account of a request's token; `None` for a request without one, 401 for an invalid
/// token.
pub(crate) type CredentialCheck =
    Arc<dyn Fn(&HeaderMap) -> BoxFuture<'static, Result<Option<i64>, ApiError>> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct BodyLimits {
    unverified: Quota,
    verified: Quota,
    large: Quota,
    uploads: Quota,
    /// If there is none, every client counts as unauthenticated.
    check: Option<CredentialCheck>,
    /// Total time that a client can pause while it sends a body.
    pub(crate) max_pause: Duration,
}

impl BodyLimits {
    /// `max_large_bodies` limits concurrent bodies above [`MAX_JSON_BYTES`], `max_uploads`
    /// concurrent streamed files.
    pub(crate) fn new(max_large_bodies: usize, max_uploads: usize, max_pause: Duration) -> Self {
        Self {
            unverified: Quota::new(UNVERIFIED_BODIES_BYTES),
            verified: Quota::new(VERIFIED_BODIES_BYTES),
            large: Quota::new(QuotaLimits::of(max_large_bodies)),
            uploads: Quota::new(QuotaLimits::of(max_uploads)),
            check: None,
            max_pause,
        }
    }

    /// Returns the same limits with a credential check for long bodies.
    pub(crate) fn checked_by(&self, check: CredentialCheck) -> Self {
        Self { check: Some(check), ..self.clone() }
    }

    /// Returns a permit for a body that has not started to arrive.
    pub(super) fn permit(&self, headers: &HeaderMap) -> BodyPermit {
        let client = counted_client(headers, None);
        BodyPermit { client, is_checked: false, memory: self.unverified.share_of(client), place: Share::default() }
    }

    /// Returns a permit for a streamed file of `user`, without waiting. 503 if the client, or all
    /// clients together, have reached the limit.
    pub(super) fn upload(&self, headers: &HeaderMap, user: i64) -> Result<UploadPermit, ApiError> {
        let place = self.uploads.take(counted_client(headers, Some(user)));
        Ok(UploadPermit { _place: place.map_err(|full| refused("uploads", full, "uploads"))? })
    }
}

fn refused(limit: &'static str, full: QuotaFull, things: &str) -> ApiError {
    metrics::counter!("ferrite_bodies_refused_total", "limit" => limit).increment(1);
    ApiError::busy(full.message(things))
}

/// A permit to stream a file, returned when dropped.
#[derive(Debug)]
pub(crate) struct UploadPermit {
    _place: Share,
}

/// A permit to hold a body in memory, returned when dropped.
#[derive(Debug)]
pub(crate) struct BodyPermit {
    client: Client,
    pub(super) is_checked: bool,
    memory: Share,
    place: Share,
}

impl BodyPermit {
    pub(super) fn is_large(&self) -> bool {
        !self.place.is_empty()
    }

    /// Checks the client's credential and moves the memory of the body to its account. 401 for an
    /// invalid credential, 503 if it cannot be checked.
    pub(super) async fn check(&mut self, limits: &BodyLimits, headers: &HeaderMap) -> Result<(), ApiError> {
        self.is_checked = true;
        let Some(check) = &limits.check else { return Ok(()) };
        if let Some(user) = check(headers).await? {
            self.client.user = Some(user);
            self.memory = limits.verified.share_of(self.client);
        }
        Ok(())
    }

    /// Reserves the memory for a body of `bytes` bytes. 503 if the client, or all clients together,
    /// have reached the limit.
    pub(super) fn grow_to(&mut self, limits: &BodyLimits, bytes: usize) -> Result<(), ApiError> {
        let memory = self.memory.grow_to(bytes.min(MAX_JSON_BYTES));
        memory.map_err(|full| refused("memory", full, "bytes of request bodies"))?;
        if bytes > MAX_JSON_BYTES && self.place.is_empty() {
            let place = limits.large.take(self.client);
            self.place = place.map_err(|full| refused("large_bodies", full, "large requests"))?;
        }
        Ok(())
    }
}
