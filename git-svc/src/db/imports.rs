//! The `migrations` table: repositories fetched from other hosts. Rows are deleted some days after
//! the import ended.

use ferrite_db::{Db, DbError, Tx, Value, args};
use ferrite_proto::id::RepositoryId;

const ADD: &str = "INSERT INTO migrations (repository_id, store, epoch, user_id, default_branch, url, credentials, mirror_interval_secs, \
     wiki_id, phase, object_count, received_bytes, error, created_us, finished_us) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'queued', 0, 0, '', $10, 0) ON CONFLICT (repository_id) DO NOTHING";
const FIND: &str = "SELECT repository_id, store, epoch, user_id, default_branch, url, credentials, mirror_interval_secs, wiki_id, phase, \
     object_count, received_bytes, error, created_us, finished_us FROM migrations WHERE repository_id = $1";
const WAITING: &str = "SELECT repository_id, store, epoch, user_id, default_branch, url, credentials, mirror_interval_secs, wiki_id, phase, \
     object_count, received_bytes, error, created_us, finished_us FROM migrations WHERE store = $1 AND user_id = $2 AND finished_us = 0 \
     ORDER BY created_us, repository_id LIMIT $3";
const COUNT_WAITING: &str =
    "SELECT COUNT(*), COUNT(CASE WHEN user_id = $2 THEN 1 END) FROM migrations WHERE store = $1 AND finished_us = 0";
const COUNT_BY_ACCOUNT: &str =
    "SELECT user_id, COUNT(*) FROM migrations WHERE store = $1 AND finished_us = 0 GROUP BY user_id";
const PROGRESS: &str = "UPDATE migrations SET phase = $2, object_count = $3, received_bytes = $4 WHERE repository_id = $1 AND finished_us = 0";
const FINISH: &str = "UPDATE migrations SET phase = $2, object_count = $3, received_bytes = $4, error = $5, finished_us = $6, \
     credentials = NULL WHERE repository_id = $1 AND finished_us = 0";
const FORGET: &str = "DELETE FROM migrations WHERE repository_id = $1";
const PURGE: &str = "DELETE FROM migrations WHERE finished_us > 0 AND finished_us < $1";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ImportPhase {
    #[default]
    Queued,
    Fetching,
    /// Checking and indexing what was received.
    Indexing,
    Done,
    Failed,
}

impl ImportPhase {
    const ALL: [Self; 5] = [Self::Queued, Self::Fetching, Self::Indexing, Self::Done, Self::Failed];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Fetching => "fetching",
            Self::Indexing => "indexing",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    fn parse(name: &str) -> Self {
        Self::ALL.into_iter().find(|phase| phase.as_str() == name).unwrap_or_default()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct ImportRow {
    pub(crate) repository_id: i64,
    pub(crate) store: String,
    pub(crate) epoch: i64,
    pub(crate) user_id: i64,
    /// Branch for HEAD if the remote names none.
    pub(crate) default_branch: String,
    /// Address of the remote, without user and password.
    pub(crate) url: String,
    /// User and password, sealed.
    pub(crate) credentials: Option<Vec<u8>>,
    /// Sync interval of a mirror; 0 for a one-time import.
    pub(crate) mirror_interval_secs: i64,
    /// Repository for the wiki; 0 if the wiki is not imported.
    pub(crate) wiki_id: i64,
    /// Last recorded phase; see [`ImportRow::phase`].
    pub(crate) phase: String,
    pub(crate) object_count: i64,
    pub(crate) received_bytes: i64,
    /// Why it failed; empty if it did not.
    pub(crate) error: String,
    pub(crate) created_us: i64,
    /// In microseconds since 1970; 0 until the import ends.
    pub(crate) finished_us: i64,
}

impl ImportRow {
    /// Creates the row of a queued import.
    pub(crate) fn queued(id: RepositoryId, store: &str, url: String, now_us: i64) -> Self {
        Self {
            repository_id: id.0,
            store: store.to_owned(),
            epoch: 0,
            user_id: 0,
            default_branch: String::new(),
            url,
            credentials: None,
            mirror_interval_secs: 0,
            wiki_id: 0,
            phase: ImportPhase::Queued.as_str().to_owned(),
            object_count: 0,
            received_bytes: 0,
            error: String::new(),
            created_us: now_us,
            finished_us: 0,
        }
    }

    pub(crate) fn id(&self) -> RepositoryId {
        RepositoryId(self.repository_id)
    }

    pub(crate) fn wiki(&self) -> Option<RepositoryId> {
        (self.wiki_id > 0).then_some(RepositoryId(self.wiki_id))
    }

    pub(crate) fn phase(&self) -> ImportPhase {
        ImportPhase::parse(&self.phase)
    }
}

/// Progress or result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ImportState {
    pub(crate) phase: ImportPhase,
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
    /// Why it failed; empty if it did not.
    pub(crate) error: String,
}

#[derive(Clone, Debug)]
pub(crate) struct ImportTable {
    db: Db,
}

impl ImportTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    pub(crate) async fn add(&self, row: &ImportRow) -> Result<(), DbError> {
        let args = args![
            row.repository_id,
            row.store.as_str(),
            row.epoch,
            row.user_id,
            row.default_branch.as_str(),
            row.url.as_str(),
            Value::Bytes(row.credentials.clone()),
            row.mirror_interval_secs,
            row.wiki_id,
            row.created_us
        ];
        self.db.execute(ADD, &args).await.map(drop)
    }

    pub(crate) async fn find(&self, id: RepositoryId) -> Result<Option<ImportRow>, DbError> {
        self.db.optional(FIND, &args![id]).await
    }

    /// Returns up to `limit` unfinished imports of an account on a store, oldest request first.
    pub(crate) async fn waiting(&self, store: &str, user: i64, limit: usize) -> Result<Vec<ImportRow>, DbError> {
        self.db.all(WAITING, &args![store, user, i64::try_from(limit).unwrap_or(i64::MAX)]).await
    }

    /// Counts the unfinished imports of a store: all, and those of one account.
    pub(crate) async fn count_waiting(&self, store: &str, user: i64) -> Result<(u64, u64), DbError> {
        let (all, own): (i64, i64) = self.db.one(COUNT_WAITING, &args![store, user]).await?;
        Ok((all.unsigned_abs(), own.unsigned_abs()))
    }

    pub(crate) async fn count_by_account(&self, store: &str) -> Result<Vec<(i64, i64)>, DbError> {
        self.db.all(COUNT_BY_ACCOUNT, &args![store]).await
    }

    pub(crate) async fn progress(&self, id: RepositoryId, state: &ImportState) -> Result<(), DbError> {
        let args = args![id, state.phase.as_str(), count(state.objects), count(state.bytes)];
        self.db.execute(PROGRESS, &args).await.map(drop)
    }

    /// Records the end of an import and drops its credentials. Returns `false` if it had ended
    /// before.
    pub(crate) async fn finish(
        tx: &mut Tx,
        id: RepositoryId,
        state: &ImportState,
        now_us: i64,
    ) -> Result<bool, DbError> {
        let (objects, bytes) = (count(state.objects), count(state.bytes));
        let args = args![id, state.phase.as_str(), objects, bytes, state.error.as_str(), now_us];
        Ok(tx.execute(FINISH, &args).await? > 0)
    }

    pub(crate) async fn forget(tx: &mut Tx, id: RepositoryId) -> Result<(), DbError> {
        tx.execute(FORGET, &args![id]).await.map(drop)
    }

    /// Deletes the rows of imports that ended before `before_us` (microseconds since 1970).
    pub(crate) async fn purge(&self, before_us: i64) -> Result<(), DbError> {
        self.db.execute(PURGE, &args![before_us]).await.map(drop)
    }
}

/// Converts a count for the database.
pub(crate) fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_each;

    #[tokio::test]
    async fn an_import_waits_until_it_ends_and_its_credentials_go_then() {
        on_each(async |db| {
            let table = ImportTable::new(db.clone());
            let row = |id, store: &str, now| ImportRow {
                credentials: Some(vec![1, 2]),
                mirror_interval_secs: 600,
                wiki_id: 9,
                user_id: 7,
                ..ImportRow::queued(RepositoryId(id), store, "https://example.com/a.git".to_owned(), now)
            };
            for row in [row(2, "s", 10), row(1, "s", 20), row(3, "other", 5)] {
                table.add(&row).await.unwrap();
            }
            table.add(&ImportRow { wiki_id: 0, ..row(2, "s", 99) }).await.unwrap();
            assert_eq!(table.find(RepositoryId(2)).await.unwrap(), Some(row(2, "s", 10)), "the first request counts");
            let ids = async |limit| -> Vec<_> {
                table.waiting("s", 7, limit).await.unwrap().into_iter().map(|row| row.repository_id).collect()
            };
            assert_eq!((ids(9).await, ids(1).await), (vec![2, 1], vec![2]));
            let of_another = ImportRow { user_id: 8, ..row(4, "s", 1) };
            table.add(&of_another).await.unwrap();
            assert_eq!(table.waiting("s", 8, 9).await.unwrap(), [of_another]);
            assert_eq!(table.count_waiting("s", 7).await.unwrap(), (3, 2));
            let mut by_account = table.count_by_account("s").await.unwrap();
            by_account.sort_unstable();
            assert_eq!(by_account, [(7, 2), (8, 1)]);

            let fetching = ImportState { phase: ImportPhase::Fetching, objects: 7, bytes: 70, ..Default::default() };
            table.progress(RepositoryId(2), &fetching).await.unwrap();
            let found = table.find(RepositoryId(2)).await.unwrap().unwrap();
            assert_eq!((found.phase(), found.object_count, found.received_bytes), (ImportPhase::Fetching, 7, 70));
            let failed = ImportState { phase: ImportPhase::Failed, error: "why".to_owned(), ..fetching.clone() };
            let mut tx = db.begin().await.unwrap();
            assert!(ImportTable::finish(&mut tx, RepositoryId(2), &failed, 50).await.unwrap());
            assert!(!ImportTable::finish(&mut tx, RepositoryId(2), &fetching, 60).await.unwrap());
            tx.commit().await.unwrap();
            let found = table.find(RepositoryId(2)).await.unwrap().unwrap();
            assert_eq!((found.phase(), found.error.as_str(), found.finished_us), (ImportPhase::Failed, "why", 50));
            assert_eq!(found.credentials, None);
            assert_eq!(ids(9).await, [1]);

            table.purge(50).await.unwrap();
            assert!(table.find(RepositoryId(2)).await.unwrap().is_some());
            table.purge(51).await.unwrap();
            assert!(table.find(RepositoryId(2)).await.unwrap().is_none());
            let mut tx = db.begin().await.unwrap();
            ImportTable::forget(&mut tx, RepositoryId(1)).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(ids(9).await, [0; 0]);
        })
        .await;
    }
}
