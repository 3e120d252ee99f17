//! Delays retries of failed dispatches.

use std::collections::HashMap;
use std::time::Duration;

use ferrite_core::micros;

use super::render::Stream;

/// Pause after the first failure. Each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Longest pause while a service is down.
const MAX_SERVICE_PAUSE: Duration = Duration::from_secs(5);
/// Failing streams to remember. Beyond this number, the failure counts of others start over.
const MAX_STREAMS: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Backoff {
    streams: HashMap<Stream, Failures>,
    service_failures: u32,
    git_failures: u32,
    git_down_until_us: i64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    count: u32,
    next_us: i64,
}

fn pause(failures: u32, max: Duration) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(max)
}

impl Backoff {
    pub(super) fn is_due(&self, stream: Stream, now_us: i64) -> bool {
        self.streams.get(&stream).is_none_or(|failures| failures.next_us <= now_us)
    }

    /// Returns the number of failures since the stream's last success.
    pub(super) fn failures(&self, stream: Stream) -> u32 {
        self.streams.get(&stream).map_or(0, |failures| failures.count)
    }

    pub(super) fn add_failure(&mut self, stream: Stream, now_us: i64) {
        if self.streams.len() >= MAX_STREAMS && !self.streams.contains_key(&stream) {
            self.streams.clear();
        }
        let failures = self.streams.entry(stream).or_default();
        failures.next_us = now_us.saturating_add(micros(pause(failures.count, MAX_PAUSE)));
        failures.count += 1;
    }

    /// Clears the failures of the stream after a success.
    pub(super) fn forget(&mut self, stream: Stream) {
        self.streams.remove(&stream);
    }

    /// Records a failure of a service that all events need. Returns the pause to take.
    pub(super) fn service_pause(&mut self) -> Duration {
        let pause = pause(self.service_failures, MAX_SERVICE_PAUSE);
        self.service_failures += 1;
        pause
    }

    pub(super) fn set_service_up(&mut self) {
        self.service_failures = 0;
    }

    pub(super) fn set_git_down(&mut self, now_us: i64) {
        self.git_down_until_us = now_us.saturating_add(micros(pause(self.git_failures, MAX_SERVICE_PAUSE)));
        self.git_failures += 1;
    }

    pub(super) fn is_git_down(&self, now_us: i64) -> bool {
        now_us < self.git_down_until_us
    }

    pub(super) fn set_git_up(&mut self) {
        self.git_failures = 0;
    }
}
