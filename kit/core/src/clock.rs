use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The system clock, or a fixed clock in tests. Times are microseconds since 1970, UTC.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// Returns the system's clock.
    #[must_use]
    pub fn system() -> Self {
        Self(None)
    }

    /// Returns a clock that stands at `micros` until [`Clock::advance`] moves it.
    #[must_use]
    pub fn fixed(micros: i64) -> Self {
        Self(Some(Arc::new(AtomicI64::new(micros))))
    }

    /// Advances a fixed clock. Has no effect on the system clock.
    pub fn advance(&self, by: Duration) {
        if let Some(time) = &self.0 {
            time.fetch_add(micros(by), Ordering::SeqCst);
        }
    }

    /// Returns the time in microseconds since 1970.
    #[must_use]
    pub fn now_us(&self) -> i64 {
        match &self.0 {
            Some(time) => time.load(Ordering::SeqCst),
            None => micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
        }
    }

    /// Returns the time in whole seconds since 1970.
    #[must_use]
    pub fn now_secs(&self) -> u64 {
        u64::try_from(self.now_us() / 1_000_000).unwrap_or(0)
    }
}

/// Returns the whole microseconds of a duration.
#[must_use]
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Converts a time in microseconds since 1970 to protobuf.
#[must_use]
pub fn timestamp(micros: i64) -> prost_types::Timestamp {
    let nanos = i32::try_from(micros.rem_euclid(1_000_000) * 1_000).unwrap_or(0);
    prost_types::Timestamp { seconds: micros.div_euclid(1_000_000), nanos }
}
