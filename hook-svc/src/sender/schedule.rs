//! Decides when a failed delivery is retried and when a hook is paused.

use std::str::FromStr;
use std::time::Duration;

use chrono::DateTime;
use ferrite_core::micros;

use crate::store::outcomes::{HookEffect, Outcome};

/// Retries that hold up the rest of the queue. After the last of them, a failing delivery steps
/// aside.
const ORDERED_RETRIES: i64 = 3;
/// Longest `Retry-After` that is honored.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);
/// How long every attempt must have failed before the hook is paused.
const MAX_FAILING: Duration = Duration::from_secs(5 * 24 * 3600);
/// Each delay varies by up to this fraction in either direction.
const JITTER: f64 = 0.2;
const MAX_RETRIES: usize = 32;
const MAX_DELAY_SECONDS: u64 = 7 * 24 * 3600;
/// HTTP 410: the receiver is gone for good.
const GONE: u16 = 410;

/// Delays before each retry of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RetrySchedule {
    delays: Vec<Duration>,
}

#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("must be at most {MAX_RETRIES} comma-separated numbers of seconds, each at most {MAX_DELAY_SECONDS}")]
pub(crate) struct ScheduleError;

impl FromStr for RetrySchedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let mut delays = Vec::new();
        for number in text.split(',').filter(|_| !text.is_empty()) {
            let seconds: u64 = number.trim().parse().map_err(|_| ScheduleError)?;
            if seconds > MAX_DELAY_SECONDS || delays.len() == MAX_RETRIES {
                return Err(ScheduleError);
            }
            delays.push(Duration::from_secs(seconds));
        }
        Ok(Self { delays })
    }
}

/// The facts about an attempt that decide what happens next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// The response status. `None` without a response.
    pub(super) status: Option<u16>,
    pub(super) retry_after: Option<Duration>,
    /// Failed attempts since the delivery was queued, without this one.
    pub(super) failures: i64,
    /// Whether the delivery has a queue to itself.
    pub(super) is_alone: bool,
    pub(super) now_us: i64,
}

impl Facts {
    pub(super) fn is_success(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }
}

/// The hook when the request was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct HookState {
    pub(super) is_paused: bool,
    pub(super) failing_since_us: Option<i64>,
    pub(super) updated_us: i64,
    /// Whether this is a test delivery. Its success resumes the hook.
    pub(super) is_test: bool,
}

impl RetrySchedule {
    /// Decides what happens to the delivery. `random` is between -1 and 1.
    pub(super) fn outcome(&self, facts: &Facts, random: f64) -> Outcome {
        if facts.is_success() {
            return Outcome::Succeeded;
        }
        let delay = usize::try_from(facts.failures).ok().and_then(|failures| self.delays.get(failures));
        let Some(delay) = delay else { return Outcome::Exhausted };
        let jittered = delay.mul_f64(1.0 + JITTER * random.clamp(-1.0, 1.0));
        let wanted = facts.retry_after.unwrap_or_default().min(MAX_RETRY_AFTER);
        let next_us = facts.now_us + micros(jittered.max(wanted));
        if facts.failures >= ORDERED_RETRIES && !facts.is_alone {
            Outcome::StepAsideUntil(next_us)
        } else {
            Outcome::RetryAt(next_us)
        }
    }
}

/// Decides what happens to the hook.
pub(super) fn effect(facts: &Facts, hook: &HookState) -> HookEffect {
    if facts.is_success() {
        return match (hook.is_paused && hook.is_test, hook.failing_since_us) {
            (true, _) => HookEffect::Resumed,
            (false, Some(_)) => HookEffect::Healthy,
            (false, None) => HookEffect::Unchanged,
        };
    }
    let pause = |reason: &str| HookEffect::Paused { reason: reason.to_owned(), hook_updated_us: hook.updated_us };
    if hook.is_paused {
        return HookEffect::Unchanged;
    }
    if facts.status == Some(GONE) {
        return pause("the receiver responded with 410 Gone");
    }
    match hook.failing_since_us {
        Some(since_us) if facts.now_us - since_us >= micros(MAX_FAILING) => pause("all deliveries failed for 5 days"),
        Some(_) => HookEffect::Unchanged,
        None => HookEffect::Failing,
    }
}

/// Parses `Retry-After`, either seconds or an HTTP date.
pub(super) fn retry_after(value: &str, now_us: i64) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(value.parse().map_or(MAX_RETRY_AFTER, Duration::from_secs));
    }
    let date = DateTime::parse_from_rfc2822(value).ok()?;
    Some(Duration::from_micros(u64::try_from(date.timestamp_micros() - now_us).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_US: i64 = 1_700_000_000_000_000;

    fn failure(failures: i64) -> Facts {
        Facts { status: Some(500), retry_after: None, failures, is_alone: false, now_us: NOW_US }
    }

    fn seconds(seconds: i64) -> i64 {
        NOW_US + seconds * 1_000_000
    }

    #[test]
    fn a_delivery_steps_aside_after_the_third_retry_and_ends_after_the_last() {
        let schedule: RetrySchedule = "5,30,120,600".parse().unwrap();
        let outcomes: Vec<_> = (0..5).map(|failures| schedule.outcome(&failure(failures), 0.0)).collect();
        let expected = [
            Outcome::RetryAt(seconds(5)),
            Outcome::RetryAt(seconds(30)),
            Outcome::RetryAt(seconds(120)),
            Outcome::StepAsideUntil(seconds(600)),
            Outcome::Exhausted,
        ];
        assert_eq!(outcomes, expected);
        let alone = Facts { is_alone: true, ..failure(3) };
        assert_eq!(schedule.outcome(&alone, 0.0), Outcome::RetryAt(seconds(600)));
        assert_eq!(schedule.outcome(&Facts { status: Some(299), ..failure(9) }, 0.0), Outcome::Succeeded);
        for status in [None, Some(199), Some(301), Some(308), Some(404), Some(410), Some(500)] {
            assert_eq!(schedule.outcome(&Facts { status, ..failure(0) }, 0.0), Outcome::RetryAt(seconds(5)));
        }
    }

    #[test]
    fn delays_vary_by_a_fifth_and_receivers_extend_them_to_an_hour() {
        let schedule: RetrySchedule = "100".parse().unwrap();
        assert_eq!(schedule.outcome(&failure(0), 1.0), Outcome::RetryAt(seconds(120)));
        assert_eq!(schedule.outcome(&failure(0), -1.0), Outcome::RetryAt(seconds(80)));
        for (wanted, delay) in [(7, 100), (300, 300), (1_000_000, 3600)] {
            let facts = Facts { retry_after: Some(Duration::from_secs(wanted)), ..failure(0) };
            assert_eq!(schedule.outcome(&facts, 0.0), Outcome::RetryAt(seconds(delay)));
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(retry_after(" 120 ", NOW_US), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("99999999999999999999999", NOW_US), Some(MAX_RETRY_AFTER));
        assert_eq!(retry_after("Tue, 14 Nov 2023 22:14:20 GMT", NOW_US), Some(Duration::from_secs(60)));
        assert_eq!(retry_after("Tue, 14 Nov 2000 22:14:20 GMT", NOW_US), Some(Duration::ZERO));
        for wrong in ["", "soon", "-1", "1.5"] {
            assert_eq!(retry_after(wrong, NOW_US), None, "{wrong:?}");
        }
    }

    #[test]
    fn schedules_are_numbers_of_seconds() {
        assert_eq!("".parse::<RetrySchedule>().unwrap().delays, []);
        assert_eq!("1, 2".parse::<RetrySchedule>().unwrap().delays, [1, 2].map(Duration::from_secs));
        for wrong in ["x", "1,,2", "-1", "1s", "604801", &["1"; 33].join(",")] {
            assert!(wrong.parse::<RetrySchedule>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn hooks_are_paused_when_they_are_gone_or_fail_for_days_and_resumed_by_a_test() {
        let hook = HookState { is_paused: false, failing_since_us: None, updated_us: 7, is_test: false };
        let paused = |effect| matches!(effect, HookEffect::Paused { hook_updated_us: 7, .. });
        assert_eq!(effect(&failure(0), &hook), HookEffect::Failing);
        assert!(paused(effect(&Facts { status: Some(410), ..failure(0) }, &hook)));
        let day_us = 86_400_000_000;
        let since = |days: i64| HookState { failing_since_us: Some(NOW_US - days * day_us), ..hook };
        assert_eq!(effect(&failure(0), &since(4)), HookEffect::Unchanged);
        assert!(paused(effect(&failure(0), &since(5))));
        let success = Facts { status: Some(204), ..failure(0) };
        assert_eq!(effect(&success, &hook), HookEffect::Unchanged);
        assert_eq!(effect(&success, &since(5)), HookEffect::Healthy);
        let paused = HookState { is_paused: true, ..since(6) };
        assert_eq!(effect(&success, &paused), HookEffect::Healthy);
        assert_eq!(effect(&success, &HookState { is_test: true, ..paused }), HookEffect::Resumed);
        assert_eq!(effect(&failure(0), &HookState { is_test: true, ..paused }), HookEffect::Unchanged);
    }
}
