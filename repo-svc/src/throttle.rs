//! Counts wrong passwords per account name and address they came from, so that one cannot be guessed by trying, and nobody can lock
//! an account's owner out from elsewhere. Tokens are too long to guess and are not counted.
//!
//! Kept in memory: a restart forgives, and each replica counts for itself.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::RepoError;

const FAILURES: u32 = 20;
const WINDOW_US: i64 = 10 * 60 * 1_000_000;
/// Pairs counted at once; the oldest make room.
const PAIRS: usize = 10_000;

/// What is counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Attempt {
    /// The account name, folded.
    pub(crate) login: String,
    /// Where the attempt comes from; empty when nobody says.
    pub(crate) origin: String,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    since_us: i64,
    failures: u32,
}

/// Wrong passwords of the last minutes.
#[derive(Debug, Default)]
pub(crate) struct Throttle(Mutex<HashMap<Attempt, Window>>);

impl Throttle {
    /// Refuses an attempt after too many wrong passwords.
    ///
    /// # Errors
    /// [`RepoError::TooManyAttempts`] with the time to wait.
    pub(crate) fn check(&self, attempt: &Attempt, now_us: i64) -> Result<(), RepoError> {
        let windows = self.0.lock().expect("nothing panics while it is held");
        let Some(window) = windows.get(attempt) else { return Ok(()) };
        let left_us = window.since_us + WINDOW_US - now_us;
        if window.failures < FAILURES || left_us <= 0 {
            return Ok(());
        }
        Err(RepoError::TooManyAttempts { retry_after: Duration::from_micros(left_us.unsigned_abs()) })
    }

    /// Counts a wrong password.
    pub(crate) fn failed(&self, attempt: &Attempt, now_us: i64) {
        let mut windows = self.0.lock().expect("nothing panics while it is held");
        if !windows.contains_key(attempt) && windows.len() >= PAIRS {
            windows.retain(|_, window| now_us - window.since_us < WINDOW_US);
            let oldest = windows.iter().min_by_key(|(_, window)| window.since_us).map(|(attempt, _)| attempt.clone());
            if let Some(oldest) = oldest.filter(|_| windows.len() >= PAIRS) {
                windows.remove(&oldest);
            }
        }
        let window = windows.entry(attempt.clone()).or_insert(Window { since_us: now_us, failures: 0 });
        if now_us - window.since_us >= WINDOW_US {
            *window = Window { since_us: now_us, failures: 0 };
        }
        window.failures = window.failures.saturating_add(1);
    }

    /// Forgives an account whose owner has signed in.
    pub(crate) fn succeeded(&self, attempt: &Attempt) {
        self.0.lock().expect("nothing panics while it is held").remove(attempt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(login: &str, origin: &str) -> Attempt {
        Attempt { login: login.into(), origin: origin.into() }
    }

    #[test]
    fn the_twenty_first_wrong_password_within_ten_minutes_is_not_tried() {
        let throttle = Throttle::default();
        let ada = from("ada", "192.0.2.1");
        for second in 0..20 {
            assert!(throttle.check(&ada, second * 1_000_000).is_ok());
            throttle.failed(&ada, second * 1_000_000);
        }
        assert!(matches!(throttle.check(&ada, 20_000_000), Err(RepoError::TooManyAttempts { .. })));
        assert!(throttle.check(&from("bob", "192.0.2.1"), 20_000_000).is_ok());
        assert!(throttle.check(&from("ada", "192.0.2.2"), 20_000_000).is_ok());
        assert!(throttle.check(&ada, WINDOW_US).is_ok());
    }

    #[test]
    fn signing_in_forgives() {
        let throttle = Throttle::default();
        let ada = from("ada", "");
        (0..20).for_each(|_| throttle.failed(&ada, 0));
        throttle.succeeded(&ada);
        assert!(throttle.check(&ada, 0).is_ok());
    }

    #[test]
    fn memory_is_bounded() {
        let throttle = Throttle::default();
        (0..PAIRS + 50).for_each(|number| throttle.failed(&from(&number.to_string(), ""), 0));
        assert_eq!(throttle.0.lock().unwrap().len(), PAIRS);
    }
}
