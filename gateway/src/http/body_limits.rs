//! Limits on request bodies: on the memory of those that are collected, and on the number of those that are passed on.
//!
//! The memory of a body is counted as its bytes come, whatever it declares. The first kilobytes are read for anybody; for more, the client's
//! credential is checked, and the memory counts for its account as well as for its address.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use ferrite_listener::{Client, Quota, QuotaFull, QuotaLimits, Share};
use futures_util::future::BoxFuture;

use super::client_address::counted_client;
use super::error::ApiError;

/// Most bytes of a body that are read before the credential of its client is checked.
pub(crate) const MAX_UNVERIFIED_BODY_BYTES: usize = 16 * 1024;
/// Largest ordinary JSON body, in bytes. A larger one takes one of the places of large bodies.
pub(crate) const MAX_JSON_BYTES: usize = 4 * 1024 * 1024;
/// Largest JSON body that carries a text of up to 1 MiB, of which each byte may be escaped, in bytes.
pub(crate) const MAX_TEXT_BODY_BYTES: usize = 8 * 1024 * 1024;
/// Largest JSON body that carries files, in bytes.
pub(crate) const MAX_FILE_BODY_BYTES: usize = 96 * 1024 * 1024;

/// Memory of bodies whose clients are not known, in bytes.
const UNVERIFIED_BODIES_BYTES: QuotaLimits =
    QuotaLimits { total: 64 * 1024 * 1024, per_address: 8 * 1024 * 1024, ..QuotaLimits::NONE };
/// Memory of bodies of known clients, in bytes, as far as each is an ordinary one.
const VERIFIED_BODIES_BYTES: QuotaLimits = QuotaLimits {
    total: 256 * 1024 * 1024,
    per_address: 128 * 1024 * 1024,
    per_user: 64 * 1024 * 1024,
    ..QuotaLimits::NONE
};

/// The check of a request's credential: the account behind a token, `None` for a request without one.
///
/// The future fails with a 401 for a token that is not valid.
pub(crate) type CredentialCheck =
    Arc<dyn Fn(&HeaderMap) -> BoxFuture<'static, Result<Option<i64>, ApiError>> + Send + Sync>;

/// Limits that all requests share; cheap to clone.
#[derive(Clone)]
pub(crate) struct BodyLimits {
    unverified: Quota,
    verified: Quota,
    large: Quota,
    uploads: Quota,
    /// Without one, every client counts as unknown.
    check: Option<CredentialCheck>,
    /// Longest pause of a client inside a body.
    pub(super) max_pause: Duration,
}

impl BodyLimits {
    /// Allows `max_large_bodies` bodies above [`MAX_JSON_BYTES`] in memory at once, `max_uploads` files that are passed on at once, and
    /// pauses of `max_pause`.
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

    /// Returns the same limits, by which `check` finds out the clients of long bodies.
    pub(crate) fn checked_by(&self, check: CredentialCheck) -> Self {
        Self { check: Some(check), ..self.clone() }
    }

    /// Returns a permit for a body of a request with `headers`, of which nothing has come.
    pub(super) fn permit(&self, headers: &HeaderMap) -> BodyPermit {
        let client = counted_client(headers, None);
        BodyPermit { client, is_checked: false, memory: self.unverified.share_of(client), place: Share::default() }
    }

    /// Returns a permit for a file that is passed on for `user`; does not wait for one.
    ///
    /// # Errors
    /// 503 when the client passes on as many as it may, or all clients do.
    pub(super) fn upload(&self, headers: &HeaderMap, user: i64) -> Result<UploadPermit, ApiError> {
        let place = self.uploads.take(counted_client(headers, Some(user)));
        Ok(UploadPermit { _place: place.map_err(|full| refused("uploads", full, "uploads"))? })
    }
}

fn refused(limit: &'static str, full: QuotaFull, things: &str) -> ApiError {
    metrics::counter!("ferrite_bodies_refused_total", "limit" => limit).increment(1);
    ApiError::busy(full.message(things))
}

/// Permit to pass on a file, returned when dropped.
#[derive(Debug)]
pub(crate) struct UploadPermit {
    _place: Share,
}

/// Permit to hold a body in memory, returned when dropped.
#[derive(Debug)]
pub(crate) struct BodyPermit {
    client: Client,
    /// True once the credential of the client was checked.
    pub(super) is_checked: bool,
    memory: Share,
    place: Share,
}

impl BodyPermit {
    /// True if the body has one of the places of large bodies.
    pub(super) fn is_large(&self) -> bool {
        !self.place.is_empty()
    }

    /// Checks the credential of the client. What the body has taken counts for its account from here on.
    ///
    /// # Errors
    /// 401 for a credential that is not valid, 503 when it cannot be checked.
    pub(super) async fn check(&mut self, limits: &BodyLimits, headers: &HeaderMap) -> Result<(), ApiError> {
        self.is_checked = true;
        let Some(check) = &limits.check else { return Ok(()) };
        if let Some(user) = check(headers).await? {
            self.client.user = Some(user);
            self.memory = limits.verified.share_of(self.client);
        }
        Ok(())
    }

    /// Takes what a body of `bytes` bytes needs.
    ///
    /// # Errors
    /// 503 when the client has as much as it may have, or all clients have.
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
