//! Addresses from which the right password of an account came.
//!
//! Not here: what they are exempt from, which `auth::throttle` decides.

use std::time::Duration;

use ferrite_kit::db::{Db, DbError};
use ferrite_kit::{args, micros};
use ferrite_proto::id::UserId;

/// Time for which an address is known after the last right password.
pub(crate) const KNOWN_ADDRESS_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Age after which the time of an address is written again: most sign-ins write nothing.
const REFRESH_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Addresses that are kept of one account, the latest ones.
pub(crate) const MAX_KNOWN_ADDRESSES: i64 = 64;

const FIND: &str = "SELECT used_us FROM sign_in_addresses WHERE user_id = $1 AND address = $2";
const RECORD: &str = "INSERT INTO sign_in_addresses (user_id, address, used_us) VALUES ($1, $2, $3) \
     ON CONFLICT (user_id, address) DO UPDATE SET used_us = excluded.used_us";
const TRIM: &str = "DELETE FROM sign_in_addresses WHERE user_id = $1 AND address NOT IN \
     (SELECT address FROM sign_in_addresses WHERE user_id = $1 ORDER BY used_us DESC, address LIMIT $2)";
const PURGE: &str = "DELETE FROM sign_in_addresses WHERE used_us <= $1";

/// Store of known addresses.
#[derive(Clone, Debug)]
pub(crate) struct SignInAddressStore {
    db: Db,
}

impl SignInAddressStore {
    /// Creates the store over `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns whether the right password of the account came from this address within [`KNOWN_ADDRESS_LIFETIME`].
    pub(crate) async fn is_known(&self, user: UserId, address: &str, now_us: i64) -> Result<bool, DbError> {
        let used_us = self.used_us(user, address).await?;
        Ok(used_us.is_some_and(|used_us| used_us > now_us - micros(KNOWN_ADDRESS_LIFETIME)))
    }

    /// Notes that the right password came from this address, and forgets addresses that are too old or too many.
    pub(crate) async fn record(&self, user: UserId, address: &str, now_us: i64) -> Result<(), DbError> {
        let used_us = self.used_us(user, address).await?;
        if used_us.is_some_and(|used_us| used_us > now_us - micros(REFRESH_AGE)) {
            return Ok(());
        }
        let mut tx = self.db.begin().await?;
        tx.execute(RECORD, &args![user, address, now_us]).await?;
        tx.execute(TRIM, &args![user, MAX_KNOWN_ADDRESSES]).await?;
        tx.execute(PURGE, &args![now_us - micros(KNOWN_ADDRESS_LIFETIME)]).await?;
        tx.commit().await
    }

    async fn used_us(&self, user: UserId, address: &str) -> Result<Option<i64>, DbError> {
        let row: Option<(i64,)> = self.db.optional(FIND, &args![user, address]).await?;
        Ok(row.map(|(used_us,)| used_us))
    }
}
