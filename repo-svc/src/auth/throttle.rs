//! Limits on wrong passwords, against guessing: per pair of login and client address, per address, and per login.
//!
//! Failures of others do not keep the owner of an account out: an address from which the right password of the account came within
//! 30 days has only the limit of its own pair, and its failures count for that pair alone. So one person who fails behind an address of
//! many stops none of those who signed in there before.
//!
//! The limiter of the kit holds the counts: in Redis, shared between replicas, or else in this process. The database has the known
//! addresses.
//!
//! Not here: access tokens, which are too long to guess and never refused.

use std::time::Duration;

use ferrite_core::Clock;
use ferrite_proto::id::UserId;
use ferrite_rpc::rate_limit::RateLimiter;

use crate::config::SignInArgs;
use crate::error::RepoError;
use crate::store::SignInAddressTable;

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
}

/// Counters of wrong passwords, and the addresses that right ones came from.
#[derive(Debug)]
pub(crate) struct Throttle {
    limiter: RateLimiter,
    addresses: SignInAddressTable,
    limits: SignInArgs,
    clock: Clock,
}

impl Throttle {
    /// Creates a throttle that counts in `limiter`, which replicas may share, and keeps known addresses in `addresses`.
    pub(crate) fn new(limiter: RateLimiter, addresses: SignInAddressTable, limits: SignInArgs, clock: Clock) -> Self {
        Self { limiter, addresses, limits, clock }
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
        let is_address_over = address.0 >= limits.sign_in_failures_address.into();
        let is_account_over = account.0 >= limits.sign_in_failures_account.into();
        let (reason, left) = if pair.0 >= limits.sign_in_failures_pair.into() {
            ("pair", pair.1)
        } else if !(is_address_over || is_account_over) || self.is_known(attempt).await {
            return Ok(());
        } else if is_address_over {
            ("address", address.1)
        } else {
            ("account", account.1)
        };
        metrics::counter!(REFUSED_METRIC, "reason" => reason).increment(1);
        Err(RepoError::TooManyAttempts { retry_after: left.max(Duration::from_secs(1)) })
    }

    /// Returns whether the right password of the account came from the address within 30 days. While the database does not respond, no
    /// address is known.
    pub(crate) async fn is_known(&self, attempt: &Attempt) -> bool {
        // Asked for unknown logins as well, so that they cost the same work. No account has this id.
        let user = attempt.user.unwrap_or(UserId(0));
        self.addresses.is_known(user, &attempt.address, self.clock.now_us()).await.unwrap_or(false)
    }

    /// Counts a wrong password: from a known address for the pair alone.
    pub(crate) async fn failed(&self, attempt: &Attempt) {
        metrics::counter!(REFUSED_METRIC, "reason" => "password").increment(1);
        let window = self.window();
        let (pair, address, account) = (attempt.pair_key(), attempt.address_key(), attempt.account_key());
        if self.is_known(attempt).await {
            self.limiter.count(&pair, window).await;
            return;
        }
        tokio::join!(
            self.limiter.count(&pair, window),
            self.limiter.count(&address, window),
            self.limiter.count(&account, window),
        );
    }

    /// Clears the count of the login at this address after a sign-in, and notes the address as known.
    pub(crate) async fn succeeded(&self, attempt: &Attempt) {
        self.limiter.clear(&attempt.pair_key()).await;
        let Some(user) = attempt.user.filter(|_| !attempt.address.is_empty()) else { return };
        if let Err(error) = self.addresses.record(user, &attempt.address, self.clock.now_us()).await {
            // The sign-in holds: the address is noted by the next one.
            tracing::warn!(%error, "cannot note the address of a sign-in");
        }
    }
}

#[cfg(test)]
mod tests;
