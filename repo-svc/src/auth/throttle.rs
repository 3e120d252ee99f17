//! Limits wrong passwords per login and address, per address, and per login, to stop guessing.
//!
//! Other people's failures must not lock out the owner of an account. An address from which the
//! owner signed in within the last 30 days has only the limit per login and address, and its
//! failures count only there. So one person who fails behind a shared address blocks nobody who
//! signed in there before.
//!
//! Sessions that right passwords begin are limited per account and address, and per account. They
//! are no writes of the account, which can sign in when it has reached its write limit.
//!
//! Counts live in the kit's limiter: in Redis, shared by all replicas, or in this process. Known
//! addresses are in the database. Access tokens are not limited: they are too long to guess.

use std::time::Duration;

use ferrite_core::Clock;
use ferrite_proto::id::UserId;
use ferrite_rpc::rate_limit::RateLimiter;

use crate::config::SignInArgs;
use crate::error::RepoError;
use crate::store::SignInAddressTable;

const REFUSED_METRIC: &str = "ferrite_sign_ins_refused_total";
/// Sessions that one account begins within the window, from one address and from all.
const MAX_SESSIONS_PAIR: u64 = 100;
const MAX_SESSIONS_ACCOUNT: u64 = 300;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The folded user name or e-mail address, as the client sent it. Counting by account would
    /// reveal that two logins belong to one account.
    pub(crate) login: String,
    /// Empty if unknown.
    pub(crate) address: String,
    /// The account with this login, if there is one.
    pub(crate) user: Option<UserId>,
}

// Limiter keys. Neither a login nor an address contains NUL, so they are unambiguous.
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

#[derive(Debug)]
pub(crate) struct Throttle {
    limiter: RateLimiter,
    addresses: SignInAddressTable,
    limits: SignInArgs,
    clock: Clock,
}

impl Throttle {
    pub(crate) fn new(limiter: RateLimiter, addresses: SignInAddressTable, limits: SignInArgs, clock: Clock) -> Self {
        Self { limiter, addresses, limits, clock }
    }

    fn window(&self) -> Duration {
        Duration::from_secs(self.limits.sign_in_window.into())
    }

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

    /// Returns whether somebody signed in to the account from this address within 30 days. If the
    /// database does not respond, no address is known.
    pub(crate) async fn is_known(&self, attempt: &Attempt) -> bool {
        // Unknown logins are looked up too, so that they take the same time. No account has this
        // id.
        let user = attempt.user.unwrap_or(UserId(0));
        self.addresses.is_known(user, &attempt.address, self.clock.now_us()).await.unwrap_or(false)
    }

    /// Counts a wrong password. From a known address, it counts only for this login and address.
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

    /// Counts a session that the owner of an account begins. What one address may not begin counts
    /// for no other.
    pub(crate) async fn count_session(&self, user: UserId, address: &str) -> Result<(), RepoError> {
        let pair = format!("session pair\0{address}\0{user}");
        let account = format!("session account\0{user}");
        for (key, most) in [(pair, MAX_SESSIONS_PAIR), (account, MAX_SESSIONS_ACCOUNT)] {
            if self.limiter.count(&key, self.window()).await > most {
                let (_, left) = self.limiter.peek(&key, self.window()).await;
                metrics::counter!(REFUSED_METRIC, "reason" => "sessions").increment(1);
                return Err(RepoError::TooManyAttempts { retry_after: left.max(Duration::from_secs(1)) });
            }
        }
        Ok(())
    }

    /// Clears the count of this login and address after a sign-in, and records the address as
    /// known.
    pub(crate) async fn succeeded(&self, attempt: &Attempt) {
        self.limiter.clear(&attempt.pair_key()).await;
        let Some(user) = attempt.user.filter(|_| !attempt.address.is_empty()) else { return };
        if let Err(error) = self.addresses.record(user, &attempt.address, self.clock.now_us()).await {
            // The sign-in still succeeds. The next one records the address.
            tracing::warn!(%error, "cannot record the address of a sign-in");
        }
    }
}

#[cfg(test)]
mod tests;
