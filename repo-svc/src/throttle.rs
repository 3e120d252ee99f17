//! Counts wrong passwords, so that none can be guessed by trying, not even from many addresses: per account name and address they
//! came from, per address, and per account name. Nobody can lock an account's owner out from elsewhere: addresses that signed in to
//! it lately are let through when only the account has had too many. Tokens are too long to guess and are not counted.
//!
//! The counts are the limiter's: shared between replicas with Redis, each process's own without it.

use std::time::Duration;

use ferrite_kit::rate_limit::RateLimiter;
use ferrite_proto::id::UserId;

use crate::RepoError;
use crate::config::SignInArgs;

/// How long an address is remembered that signed in to an account.
const KNOWN_FOR: Duration = Duration::from_secs(24 * 60 * 60);
const REFUSED: &str = "ferrite_sign_ins_refused_total";

/// One try of a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// What the account was called, folded. Not the account that it means: two names that count together would tell everybody that
    /// they are one account's.
    pub(crate) login: String,
    /// Where the attempt comes from; empty when nobody says.
    pub(crate) origin: String,
    /// The account, if there is one.
    pub(crate) user: Option<UserId>,
}

// Neither a login nor an origin holds a NUL, so no two of these meet.
impl Attempt {
    fn pair_key(&self) -> String {
        format!("sign-in pair\0{}\0{}", self.origin, self.login)
    }

    fn address_key(&self) -> String {
        format!("sign-in address\0{}", self.origin)
    }

    fn account_key(&self) -> String {
        format!("sign-in account\0{}", self.login)
    }

    /// Remembers by the account: its owner may call it this or that.
    fn known_key(&self) -> Option<String> {
        let user = self.user.filter(|_| !self.origin.is_empty())?;
        Some(format!("sign-in known\0{}\0{user}", self.origin))
    }
}

/// Wrong passwords of the last minutes.
#[derive(Debug)]
pub(crate) struct Throttle {
    limiter: RateLimiter,
    limits: SignInArgs,
}

impl Throttle {
    /// Nothing is counted yet, unless another replica did.
    pub(crate) fn new(limiter: RateLimiter, limits: SignInArgs) -> Self {
        Self { limiter, limits }
    }

    fn window(&self) -> Duration {
        Duration::from_secs(self.limits.sign_in_window.into())
    }

    /// Refuses an attempt after too many wrong passwords.
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
        metrics::counter!(REFUSED, "reason" => reason).increment(1);
        Err(RepoError::TooManyAttempts { retry_after: left.max(Duration::from_secs(1)) })
    }

    /// Whether the attempt comes from where its account was signed in to lately.
    async fn is_known(&self, attempt: &Attempt) -> bool {
        match attempt.known_key() {
            Some(key) => self.limiter.peek(&key, KNOWN_FOR).await.0 > 0,
            None => false,
        }
    }

    /// Counts a wrong password.
    pub(crate) async fn failed(&self, attempt: &Attempt) {
        metrics::counter!(REFUSED, "reason" => "password").increment(1);
        let window = self.window();
        let (pair, address, account) = (attempt.pair_key(), attempt.address_key(), attempt.account_key());
        tokio::join!(
            self.limiter.count(&pair, window),
            self.limiter.count(&address, window),
            self.limiter.count(&account, window),
        );
    }

    /// Forgives an account whose owner has signed in what was tried from there, and remembers where that was.
    pub(crate) async fn succeeded(&self, attempt: &Attempt) {
        self.limiter.clear(&attempt.pair_key()).await;
        if let Some(key) = attempt.known_key() {
            // Anew, so that it lasts from now on.
            self.limiter.clear(&key).await;
            self.limiter.count(&key, KNOWN_FOR).await;
        }
    }
}

#[cfg(test)]
mod tests;
