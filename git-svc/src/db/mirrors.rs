//! The `mirrors` table: repositories that follow a remote, and when each is due for a sync.

use ferrite_db::{Db, DbError, Tx, Value, args};
use ferrite_proto::id::RepositoryId;

const ADD: &str = "INSERT INTO mirrors (repository_id, store, user_id, url, credentials, wiki_id, interval_secs, next_sync_us, last_sync_us, \
     last_error, failure_count, version) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, '', 0, 1) ON CONFLICT (repository_id) DO NOTHING";
const FIND: &str = "SELECT repository_id, user_id, url, credentials, wiki_id, interval_secs, next_sync_us, last_sync_us, last_error, \
     failure_count, version FROM mirrors WHERE repository_id = $1";
const DUE: &str = "SELECT repository_id, user_id, url, credentials, wiki_id, interval_secs, next_sync_us, last_sync_us, last_error, \
     failure_count, version FROM mirrors WHERE store = $1 AND user_id = $2 AND next_sync_us <= $3 \
     ORDER BY next_sync_us, repository_id LIMIT $4";
const COUNT_DUE_BY_ACCOUNT: &str =
    "SELECT user_id, COUNT(*) FROM mirrors WHERE store = $1 AND next_sync_us <= $2 GROUP BY user_id";
const COUNT_DUE: &str = "SELECT COUNT(*) FROM mirrors WHERE store = $1 AND next_sync_us <= $2";
const HASTEN: &str = "UPDATE mirrors SET next_sync_us = $2 WHERE repository_id = $1 AND next_sync_us > $2";
const RESCHEDULE: &str = "UPDATE mirrors SET interval_secs = $2, next_sync_us = $3, version = version + 1 WHERE repository_id = $1 \
     RETURNING repository_id, user_id, url, credentials, wiki_id, interval_secs, next_sync_us, last_sync_us, last_error, failure_count, version";
const SYNCED: &str = "UPDATE mirrors SET next_sync_us = $2, last_sync_us = $3, last_error = '', failure_count = 0, version = version + 1 \
     WHERE repository_id = $1 \
     RETURNING repository_id, user_id, url, credentials, wiki_id, interval_secs, next_sync_us, last_sync_us, last_error, failure_count, version";
const FAILED: &str = "UPDATE mirrors SET next_sync_us = $2, last_error = $3, failure_count = failure_count + 1, version = version + 1 \
     WHERE repository_id = $1 \
     RETURNING repository_id, user_id, url, credentials, wiki_id, interval_secs, next_sync_us, last_sync_us, last_error, failure_count, version";
const FORGET: &str = "DELETE FROM mirrors WHERE repository_id = $1";

/// Times are in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct MirrorRow {
    pub(crate) repository_id: i64,
    /// User who set up the mirror.
    pub(crate) user_id: i64,
    /// Without user and password.
    pub(crate) url: String,
    /// User and password, sealed.
    pub(crate) credentials: Option<Vec<u8>>,
    /// Repository of the wiki; 0 for none.
    pub(crate) wiki_id: i64,
    pub(crate) interval_secs: i64,
    pub(crate) next_sync_us: i64,
    /// Time of the last successful sync; 0 for none.
    pub(crate) last_sync_us: i64,
    /// Why the last sync failed; empty if it succeeded.
    pub(crate) last_error: String,
    pub(crate) failure_count: i64,
    /// Increases with every event of the mirror.
    pub(crate) version: i64,
}

impl MirrorRow {
    pub(crate) fn id(&self) -> RepositoryId {
        RepositoryId(self.repository_id)
    }

    pub(crate) fn wiki(&self) -> Option<RepositoryId> {
        (self.wiki_id > 0).then_some(RepositoryId(self.wiki_id))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct MirrorTable {
    db: Db,
}

impl MirrorTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Adds a mirror after its first fetch, unless the repository already is one.
    pub(crate) async fn add(tx: &mut Tx, store: &str, row: &MirrorRow) -> Result<(), DbError> {
        let args = args![
            row.repository_id,
            store,
            row.user_id,
            row.url.as_str(),
            Value::Bytes(row.credentials.clone()),
            row.wiki_id,
            row.interval_secs,
            row.next_sync_us,
            row.last_sync_us
        ];
        tx.execute(ADD, &args).await.map(drop)
    }

    pub(crate) async fn find(&self, id: RepositoryId) -> Result<Option<MirrorRow>, DbError> {
        self.db.optional(FIND, &args![id]).await
    }

    /// Returns up to `limit` due mirrors of an account on a store, longest overdue first.
    pub(crate) async fn due(
        &self,
        store: &str,
        user: i64,
        now_us: i64,
        limit: usize,
    ) -> Result<Vec<MirrorRow>, DbError> {
        self.db.all(DUE, &args![store, user, now_us, i64::try_from(limit).unwrap_or(i64::MAX)]).await
    }

    pub(crate) async fn count_due_by_account(&self, store: &str, now_us: i64) -> Result<Vec<(i64, i64)>, DbError> {
        self.db.all(COUNT_DUE_BY_ACCOUNT, &args![store, now_us]).await
    }

    pub(crate) async fn count_due(&self, store: &str, now_us: i64) -> Result<i64, DbError> {
        let (count,): (i64,) = self.db.one(COUNT_DUE, &args![store, now_us]).await?;
        Ok(count)
    }

    /// Makes a mirror due now if it is not due yet.
    pub(crate) async fn hasten(&self, id: RepositoryId, now_us: i64) -> Result<(), DbError> {
        self.db.execute(HASTEN, &args![id, now_us]).await.map(drop)
    }

    /// Changes the schedule of a mirror. Returns the new row, or `None` if there is no such mirror.
    pub(crate) async fn reschedule(
        tx: &mut Tx,
        id: RepositoryId,
        interval_secs: i64,
        next_us: i64,
    ) -> Result<Option<MirrorRow>, DbError> {
        tx.optional(RESCHEDULE, &args![id, interval_secs, next_us]).await
    }

    /// Records a successful sync. Returns the new row, or `None` if the mirror was deleted.
    pub(crate) async fn synced(
        tx: &mut Tx,
        id: RepositoryId,
        next_us: i64,
        now_us: i64,
    ) -> Result<Option<MirrorRow>, DbError> {
        tx.optional(SYNCED, &args![id, next_us, now_us]).await
    }

    /// Records a failed sync. Returns the new row, or `None` if the mirror was deleted.
    pub(crate) async fn failed(
        tx: &mut Tx,
        id: RepositoryId,
        next_us: i64,
        error: &str,
    ) -> Result<Option<MirrorRow>, DbError> {
        tx.optional(FAILED, &args![id, next_us, error]).await
    }

    pub(crate) async fn forget(tx: &mut Tx, id: RepositoryId) -> Result<(), DbError> {
        tx.execute(FORGET, &args![id]).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_each;

    fn row(id: i64, next_us: i64) -> MirrorRow {
        MirrorRow {
            repository_id: id,
            user_id: 7,
            url: "https://example.com/a.git".to_owned(),
            credentials: Some(vec![3]),
            wiki_id: 0,
            interval_secs: 600,
            next_sync_us: next_us,
            last_sync_us: 5,
            last_error: String::new(),
            failure_count: 0,
            version: 1,
        }
    }

    #[tokio::test]
    async fn mirrors_are_due_in_order_and_every_change_raises_the_version() {
        on_each(async |db| {
            let table = MirrorTable::new(db.clone());
            let mut tx = db.begin().await.unwrap();
            for (id, store, next) in [(1, "s", 30), (2, "s", 10), (3, "s", 20), (4, "other", 1)] {
                MirrorTable::add(&mut tx, store, &row(id, next)).await.unwrap();
            }
            MirrorTable::add(&mut tx, "s", &MirrorRow { user_id: 8, ..row(5, 15) }).await.unwrap();
            tx.commit().await.unwrap();
            let due = async |now, limit| -> Vec<_> {
                table.due("s", 7, now, limit).await.unwrap().into_iter().map(|row| row.repository_id).collect()
            };
            assert_eq!((due(30, 9).await, due(30, 2).await, due(9, 9).await), (vec![2, 3, 1], vec![2, 3], vec![]));
            assert_eq!(table.count_due("s", 20).await.unwrap(), 3);
            let mut by_account = table.count_due_by_account("s", 20).await.unwrap();
            by_account.sort_unstable();
            assert_eq!(by_account, [(7, 2), (8, 1)]);
            table.hasten(RepositoryId(1), 7).await.unwrap();
            table.hasten(RepositoryId(1), 8).await.unwrap();
            assert_eq!(table.find(RepositoryId(1)).await.unwrap(), Some(row(1, 7)));

            let mut tx = db.begin().await.unwrap();
            let failed = MirrorTable::failed(&mut tx, RepositoryId(2), 40, "why").await.unwrap().unwrap();
            assert_eq!((failed.last_error.as_str(), failed.failure_count, failed.version), ("why", 1, 2));
            let again = MirrorTable::failed(&mut tx, RepositoryId(2), 50, "why").await.unwrap().unwrap();
            assert_eq!((again.failure_count, again.next_sync_us, again.last_sync_us), (2, 50, 5));
            let synced = MirrorTable::synced(&mut tx, RepositoryId(2), 90, 60).await.unwrap().unwrap();
            assert_eq!(synced, MirrorRow { last_sync_us: 60, version: 4, ..row(2, 90) });
            let changed = MirrorTable::reschedule(&mut tx, RepositoryId(2), 1200, 95).await.unwrap().unwrap();
            assert_eq!((changed.interval_secs, changed.next_sync_us, changed.version), (1200, 95, 5));
            MirrorTable::forget(&mut tx, RepositoryId(2)).await.unwrap();
            assert_eq!(MirrorTable::synced(&mut tx, RepositoryId(2), 90, 60).await.unwrap(), None);
            tx.commit().await.unwrap();
            assert_eq!(due(i64::MAX, 9).await, [1, 3]);
        })
        .await;
    }
}
