//! Client addresses that have signed in to an account with the right password. `auth::throttle`
//! exempts them from limits.

use std::time::Duration;

use ferrite_core::micros;
use ferrite_db::args;
use ferrite_db::{Db, DbError};
use ferrite_proto::id::UserId;

/// How long an address stays known after the last sign-in.
pub(crate) const KNOWN_ADDRESS_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How old a time must be to be written again, so that most sign-ins write nothing.
const REFRESH_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Addresses kept per account: the most recent ones.
pub(crate) const MAX_KNOWN_ADDRESSES: i64 = 64;

const FIND: &str = "SELECT used_us FROM sign_in_addresses WHERE user_id = $1 AND address = $2";
const RECORD: &str = "INSERT INTO sign_in_addresses (user_id, address, used_us) VALUES ($1, $2, $3) \
     ON CONFLICT (user_id, address) DO UPDATE SET used_us = excluded.used_us";
const TRIM: &str = "DELETE FROM sign_in_addresses WHERE user_id = $1 AND address NOT IN \
     (SELECT address FROM sign_in_addresses WHERE user_id = $1 ORDER BY used_us DESC, address LIMIT $2)";
const PURGE_SQLITE: &str = "DELETE FROM sign_in_addresses WHERE used_us <= $1";
/// Skips rows that another sign-in is refreshing, to avoid deadlocks.
const PURGE_POSTGRES: &str = "DELETE FROM sign_in_addresses WHERE (user_id, address) IN (SELECT user_id, address \
     FROM sign_in_addresses WHERE used_us <= $1 FOR UPDATE SKIP LOCKED)";

#[derive(Clone, Debug)]
pub(crate) struct SignInAddressTable {
    db: Db,
}

impl SignInAddressTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Whether a sign-in with the right password came from this address within
    /// [`KNOWN_ADDRESS_LIFETIME`].
    pub(crate) async fn is_known(&self, user: UserId, address: &str, now_us: i64) -> Result<bool, DbError> {
        let used_us = self.used_us(user, address).await?;
        Ok(used_us.is_some_and(|used_us| used_us > now_us - micros(KNOWN_ADDRESS_LIFETIME)))
    }

    /// Records a sign-in from this address. Forgets addresses that are too old or too many.
    pub(crate) async fn record(&self, user: UserId, address: &str, now_us: i64) -> Result<(), DbError> {
        let used_us = self.used_us(user, address).await?;
        if used_us.is_some_and(|used_us| used_us > now_us - micros(REFRESH_AGE)) {
            return Ok(());
        }
        let mut tx = self.db.begin().await?;
        tx.execute(RECORD, &args![user, address, now_us]).await?;
        tx.execute(TRIM, &args![user, MAX_KNOWN_ADDRESSES]).await?;
        let purge = tx.pick(PURGE_POSTGRES, PURGE_SQLITE);
        tx.execute(purge, &args![now_us - micros(KNOWN_ADDRESS_LIFETIME)]).await?;
        tx.commit().await
    }

    async fn used_us(&self, user: UserId, address: &str) -> Result<Option<i64>, DbError> {
        let row: Option<(i64,)> = self.db.optional(FIND, &args![user, address]).await?;
        Ok(row.map(|(used_us,)| used_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_both;

    const NOW: i64 = 1_000_000;
    const ADD_USER: &str = "INSERT INTO users (kind, name, name_key, full_name, email, is_admin, is_active, created_us) \
         VALUES ('user', $1, $1, '', '', FALSE, TRUE, 1) RETURNING id";

    #[tokio::test]
    async fn sign_ins_at_two_replicas_do_not_wait_for_each_other_on_postgres() {
        on_both(async |db: Db| {
            if !db.pick(true, false) {
                return;
            }
            let store = SignInAddressTable::new(db.clone());
            let mut users = Vec::new();
            let mut tx = db.begin().await.unwrap();
            for name in ["ada", "bob"] {
                let (id,): (i64,) = tx.one(ADD_USER, &args![name]).await.unwrap();
                users.push(UserId(id));
            }
            tx.commit().await.unwrap();
            store.record(users[0], "192.0.2.1", NOW).await.unwrap();
            let later = NOW + 2 * micros(KNOWN_ADDRESS_LIFETIME);
            // The other replica is refreshing the address that has just become too old.
            let mut other = db.begin().await.unwrap();
            other.execute(RECORD, &args![users[0], "192.0.2.1", later]).await.unwrap();
            let sign_in = store.record(users[1], "192.0.2.2", later);
            tokio::time::timeout(Duration::from_secs(10), sign_in).await.expect("the sign-in waits").unwrap();
            other.commit().await.unwrap();
            for (user, address) in [(users[0], "192.0.2.1"), (users[1], "192.0.2.2")] {
                assert!(store.is_known(user, address, later).await.unwrap(), "{address}");
            }
        })
        .await;
    }
}
