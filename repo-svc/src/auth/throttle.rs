//! Limits on wrong passwords, against guessing: per pair of login and client address, per address, and per login. An attacker
//! cannot lock out the owner of an account: addresses that signed in to it within a day are exempt from the limit per login.
//!
//! The limiter of the kit holds the counts: in Redis, shared between replicas, or else in this process.
//!
//! Not here: access tokens, which are too long to guess.

use std::time::Duration;

use ferrite_kit::rate_limit::RateLimiter;
use ferrite_proto::id::UserId;

use crate::config::SignInArgs;
use crate::error::RepoError;

/// Time for which an address that signed in to an account is known.
const KNOWN_ADDRESS_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
const REFUSED_METRIC: &str = "ferrite_sign_ins_refused_total";

/// One attempt to sign in by password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The folded user name or e-mail address as the client sent it. Attempts are counted by it and not by the account, because two
    /// logins with one count would reveal that they belong to one account.
    pub(crate) login: String,
    /// Address of the client; empty if unknown.
    pub(crate) address: String,
    /// The account with this login, if there is one.
    pub(crate) user: Option<UserId>,
}

// Keys of the limiter. Neither a login nor an address contains NUL, so they are unambiguous.
impl Attempt {
    fn pair_key(&self) -> String {
        format!("sign-in pair\0{}\0{}", self.address, self.login)
    }

    fn address_key(&self) -> String {
        format!("sign-in address\0{}", self.address)
    }

    fn account_key(&self) -> String {
        format!("sign-in account\0{}", self.login)
    }

    /// Key of a known address. By account, because its owner may use several logins.
    fn known_key(&self) -> Option<String> {
        let user = self.user.filter(|_| !self.address.is_empty())?;
        Some(format!("sign-in known\0{}\0{user}", self.address))
    }
}

/// Counters of wrong passwords.
#[derive(Debug)]
pub(crate) struct Throttle {
    limiter: RateLimiter,
    limits: SignInArgs,
}

impl Throttle {
    /// Creates a throttle that counts in `limiter`, which replicas may share.
    pub(crate) fn new(limiter: RateLimiter, limits: SignInArgs) -> Self {
        Self { limiter, limits }
    }

    fn window(&self) -> Duration {
        Duration::from_secs(self.limits.sign_in_window.into())
    }

    /// Checks that an attempt is within the limits.
    ///
    /// # Errors
    /// [`RepoError::TooManyAttempts`] with the time to wait.
    pub(crate) async fn check(&self, attempt: &Attempt) -> Result<(), RepoError> {
        let window = self.window();
        let (pair, address, account) = (attempt.pair_key(), attempt.address_key(), attempt.account_key());
        let (pair, address, account) = tokio::join!(
            self.limiter.peek(&pair, window),
            self.limiter.peek(&address, window),
            self.limiter.peek(&account, window),
        );
        let limits = &self.limits;
        let (reason, left) = if pair.0 >= limits.sign_in_failures_pair {
            ("pair", pair.1)
        } else if address.0 >= limits.sign_in_failures_address {
            ("address", address.1)
        } else if account.0 >= limits.sign_in_failures_account && !self.is_known(attempt).await {
            ("account", account.1)
        } else {
            return Ok(());
        };
        metrics::counter!(REFUSED_METRIC, "reason" => reason).increment(1);
        Err(RepoError::TooManyAttempts { retry_after: left.max(Duration::from_secs(1)) })
    }

    /// Returns whether the address signed in to the account within a day.
    async fn is_known(&self, attempt: &Attempt) -> bool {
        match attempt.known_key() {
            Some(key) => self.limiter.peek(&key, KNOWN_ADDRESS_LIFETIME).await.0 > 0,
            None => false,
        }
    }

    /// Counts a wrong password.
    pub(crate) async fn failed(&self, attempt: &Attempt) {
        metrics::counter!(REFUSED_METRIC, "reason" => "password").increment(1);
        let window = self.window();
        let (pair, address, account) = (attempt.pair_key(), attempt.address_key(), attempt.account_key());
        tokio::join!(
            self.limiter.count(&pair, window),
            self.limiter.count(&address, window),
            self.limiter.count(&account, window),
        );
    }

    /// Clears the count of the login at this address after a sign-in, and notes the address as known.
    pub(crate) async fn succeeded(&self, attempt: &Attempt) {
        self.limiter.clear(&attempt.pair_key()).await;
        if let Some(key) = attempt.known_key() {
            // Cleared first, so that the time begins now.
            self.limiter.clear(&key).await;
            self.limiter.count(&key, KNOWN_ADDRESS_LIFETIME).await;
        }
    }
}

#[cfg(test)]
mod tests;
