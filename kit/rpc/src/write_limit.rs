//! Limits what one account writes to the databases per hour: the number of writes and their bytes.
//!
//! The database handle counts: the first transaction of a request counts as a write, or is refused,
//! and each commit adds the bytes of its statements. So operations need no code for this and cannot
//! forget it. Services limit some kinds of writes, such as issues, in addition.

use std::sync::Arc;
use std::time::Duration;

use ferrite_core::config::WriteLimitArgs;
use ferrite_core::writer::{Scope, Writer};

use crate::rate_limit::{HourlyLimit, RateExceeded, RateLimiter};

/// Bytes counted for every write besides its values, for rows and index entries.
const WRITE_BYTES: u64 = 512;

/// Counts the writes of accounts. Clones share the counts; with Redis, all services do.
#[derive(Clone, Debug)]
pub struct WriteLimit {
    writes: HourlyLimit,
    bytes: HourlyLimit,
}

/// A counted write. Its bytes are added at the commit.
#[derive(Clone, Debug)]
pub struct CountedWrite {
    limit: WriteLimit,
    writer: Writer,
    scope: Arc<Scope>,
    /// The refusal of a request that is [refused at its commits](ferrite_core::writer::refuse_at_commit).
    refusal: Option<WriteRefused>,
}

/// An account has reached its write limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limit reached: {limit} {what} per hour")]
pub struct WriteRefused {
    what: &'static str,
    limit: u64,
    /// Time to wait before a retry.
    pub retry_after: Duration,
}

impl From<RateExceeded> for WriteRefused {
    fn from(RateExceeded { name, limit, retry_after }: RateExceeded) -> Self {
        Self { what: if name == "writes" { name } else { "bytes written" }, limit, retry_after }
    }
}

impl WriteLimit {
    /// Returns a limit that counts in `limiter`.
    #[must_use]
    pub fn new(limiter: &RateLimiter, args: &WriteLimitArgs) -> Self {
        let limit = |name, per_hour| HourlyLimit::new(limiter.clone(), name, per_hour);
        Self {
            writes: limit("writes", u64::from(args.writes_per_hour)),
            bytes: limit("write_bytes", args.write_bytes_per_hour),
        }
    }

    /// Counts the current request as one write, unless it already is. Returns `None` for work
    /// without an account.
    ///
    /// # Errors
    /// [`WriteRefused`] if the account has reached its limit, unless the request is refused at its
    /// commits instead.
    pub async fn count(&self) -> Result<Option<CountedWrite>, WriteRefused> {
        let Some(scope) = Scope::current() else { return Ok(None) };
        let Some(writer) = scope.writer() else { return Ok(None) };
        let mut refusal = None;
        if !scope.is_counted() {
            let amounts = [(&self.writes, 1), (&self.bytes, WRITE_BYTES)];
            match HourlyLimit::add_all(amounts, writer.account, writer.rate_percent).await {
                Ok(()) => scope.set_counted(),
                Err(exceeded) if scope.is_refused_at_commit() => refusal = Some(exceeded.into()),
                Err(exceeded) => return Err(exceeded.into()),
            }
        }
        Ok(Some(CountedWrite { limit: self.clone(), writer, scope, refusal }))
    }
}

impl CountedWrite {
    /// Checks that the write may be committed.
    ///
    /// # Errors
    /// [`WriteRefused`] if the account had reached its limit and the request does more than take
    /// access away.
    pub fn require_room(&self) -> Result<(), WriteRefused> {
        match self.refusal {
            Some(refusal) if !self.scope.is_counted() => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Adds written bytes.
    pub fn add(&self, bytes: u64) {
        if bytes > 0 {
            self.limit.bytes.add_later(self.writer.account, bytes, self.writer.rate_percent);
        }
    }
}
