//! The limit on what one account writes to the databases within an hour: writes, and the bytes that they store.
//!
//! The database handle counts: at the first transaction of a request one write, or it refuses it, and with each commit the bytes that the
//! statements pass. So an operation needs no code to be counted, and cannot forget it.
//!
//! Not here: the account of a request (`writer`), and limits on single kinds of writes, such as issues, which the services count as well.

use std::sync::Arc;
use std::time::Duration;

use ferrite_core::config::WriteLimitArgs;
use ferrite_core::writer::{Scope, Writer};

use crate::rate_limit::{HourlyLimit, RateExceeded, RateLimiter};

/// Bytes that every write counts beside its values, for its rows and their entries in indexes.
const WRITE_BYTES: u64 = 512;

/// Counts the writes of accounts. Clones, and where there is Redis all services, share the counts.
#[derive(Clone, Debug)]
pub struct WriteLimit {
    writes: HourlyLimit,
    bytes: HourlyLimit,
}

/// A write that is counted. Its bytes are added when it is committed.
#[derive(Clone, Debug)]
pub struct CountedWrite {
    limit: WriteLimit,
    writer: Writer,
    scope: Arc<Scope>,
    /// The refusal of a request that is [refused at its commits](ferrite_core::writer::refuse_at_commit).
    refusal: Option<WriteRefused>,
}

/// An account has written as much as it may within an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("limit reached: {limit} {what} per hour")]
pub struct WriteRefused {
    what: &'static str,
    limit: u64,
    /// Time to wait before the next attempt.
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

    /// Counts the current request as one write, unless it is counted already. Returns `None` for work that writes for no account.
    ///
    /// # Errors
    /// [`WriteRefused`] when the account has reached its limit, unless the commits of the request are refused then.
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
    /// [`WriteRefused`] if the account had reached its limit, and the request has not turned out to take access away.
    pub fn require_room(&self) -> Result<(), WriteRefused> {
        match self.refusal {
            Some(refusal) if !self.scope.is_counted() => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Adds bytes that were written.
    pub fn add(&self, bytes: u64) {
        if bytes > 0 {
            self.limit.bytes.add_later(self.writer.account, bytes, self.writer.rate_percent);
        }
    }
}
