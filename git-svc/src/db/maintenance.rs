//! The `maintenance` table: the newest update of each repository, its state after the last jobs,
//! and the time of the next one.

use ferrite_db::{Db, DbError, Tx, args};
use ferrite_proto::id::RepositoryId;

/// Due time of a repository that needs no job until it changes.
pub(crate) const NEVER: i64 = i64::MAX;

const CHANGED: &str = "INSERT INTO maintenance (repository_id, number, changed_us, packed_number, packed_us, full_number, full_us, graph_number, \
     loose_left, next_us, not_before_us, failures, checked_us) VALUES ($1, $2, $3, 0, $3, 0, $3, 0, 0, $3, 0, 0, $3) \
     ON CONFLICT (repository_id) DO UPDATE SET \
     number = CASE WHEN maintenance.number < $2 THEN $2 ELSE maintenance.number END, changed_us = $3, \
     next_us = CASE WHEN maintenance.next_us > $3 THEN $3 ELSE maintenance.next_us END";
const DUE: &str = "SELECT m.repository_id, m.number, m.packed_number, m.packed_us, m.full_number, m.full_us, m.graph_number, m.loose_left, m.failures, \
     m.checked_us, m.broken \
     FROM maintenance m JOIN repositories r ON r.repository_id = m.repository_id \
     WHERE m.next_us <= $2 AND m.not_before_us <= $2 AND r.store = $1 AND NOT r.deleted ORDER BY m.next_us LIMIT 256";
const FIND: &str = "SELECT m.repository_id, m.number, m.packed_number, m.packed_us, m.full_number, m.full_us, m.graph_number, m.loose_left, m.failures, \
     m.checked_us, m.broken FROM maintenance m WHERE m.repository_id = $1 AND m.not_before_us <= $2";
/// Keeps a repository due if it changed, or was marked suspect, during the job.
const DONE: &str = "UPDATE maintenance SET packed_number = $2, packed_us = $3, full_number = $4, full_us = $5, graph_number = $6, loose_left = $7, \
     next_us = CASE WHEN number > $8 THEN changed_us WHEN checked_us < $10 THEN 0 ELSE $9 END, not_before_us = 0, failures = 0 WHERE repository_id = $1";
const FAILED: &str = "UPDATE maintenance SET failures = failures + 1, not_before_us = $2 WHERE repository_id = $1";
const LATER: &str = "UPDATE maintenance SET not_before_us = $2 WHERE repository_id = $1";
const MARK_SUSPECT: &str =
    "UPDATE maintenance SET checked_us = 0, next_us = 0 WHERE repository_id = $1 AND checked_us < $2";
const CHECKED: &str = "UPDATE maintenance SET checked_us = $2, broken = $3 WHERE repository_id = $1";
const BROKEN: &str = "SELECT COUNT(*) FROM maintenance m JOIN repositories r ON r.repository_id = m.repository_id \
     WHERE m.broken <> 0 AND r.store = $1 AND NOT r.deleted";
const FORGET: &str = "DELETE FROM maintenance WHERE repository_id = $1";
const LIST_AFTER: &str = "SELECT repository_id FROM repositories WHERE store = $1 AND NOT deleted AND repository_id > $2 \
     ORDER BY repository_id LIMIT 1000";

/// Maintenance state of one repository. `…_number` counts updates in the journal; `…_us` is in
/// microseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct MaintenanceRow {
    pub(crate) repository_id: i64,
    /// Newest update.
    pub(crate) number: i64,
    /// Newest update at the last geometric or full repack.
    pub(crate) packed_number: i64,
    /// Time of the last geometric or full repack.
    pub(crate) packed_us: i64,
    /// Newest update at the last full repack.
    pub(crate) full_number: i64,
    pub(crate) full_us: i64,
    /// Newest update when the commit-graph was written.
    pub(crate) graph_number: i64,
    /// Loose objects left by the last repack.
    pub(crate) loose_left: i64,
    pub(crate) failures: i64,
    /// Time of the last object check; 0 to check now.
    pub(crate) checked_us: i64,
    /// Not 0 if the last check found objects missing.
    pub(crate) broken: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct MaintenanceTable {
    db: Db,
}

impl MaintenanceTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Records update `number` of a repository, in the transaction that confirms it.
    pub(crate) async fn changed(tx: &mut Tx, id: RepositoryId, number: i64, now_us: i64) -> Result<(), DbError> {
        tx.execute_later(CHANGED, &args![id, number, now_us]).await
    }

    /// Returns up to 256 due repositories of a store, longest overdue first.
    pub(crate) async fn due(&self, store: &str, now_us: i64) -> Result<Vec<MaintenanceRow>, DbError> {
        self.db.all(DUE, &args![store, now_us]).await
    }

    /// Returns the row of a repository; `None` if it has none or its jobs are postponed beyond
    /// `now_us`.
    pub(crate) async fn find(&self, id: RepositoryId, now_us: i64) -> Result<Option<MaintenanceRow>, DbError> {
        self.db.optional(FIND, &args![id, now_us]).await
    }

    /// Records the state after a job that saw updates up to `seen`. The repository is next due at
    /// `next_us`, or earlier if it changes.
    pub(crate) async fn done(&self, now: &MaintenanceRow, seen: i64, next_us: i64) -> Result<(), DbError> {
        let args = args![
            now.repository_id,
            now.packed_number,
            now.packed_us,
            now.full_number,
            now.full_us,
            now.graph_number,
            now.loose_left,
            seen,
            next_us,
            now.checked_us
        ];
        self.db.execute(DONE, &args).await.map(drop)
    }

    /// Records a failed job. The repository is not due before `not_before_us`.
    pub(crate) async fn failed(&self, id: RepositoryId, not_before_us: i64) -> Result<(), DbError> {
        self.db.execute(FAILED, &args![id, not_before_us]).await.map(drop)
    }

    pub(crate) async fn later(&self, id: RepositoryId, not_before_us: i64) -> Result<(), DbError> {
        self.db.execute(LATER, &args![id, not_before_us]).await.map(drop)
    }

    /// Makes an object check due now, unless one ran at or after `since_us`.
    pub(crate) async fn mark_suspect(&self, id: RepositoryId, since_us: i64) -> Result<(), DbError> {
        self.db.execute(MARK_SUSPECT, &args![id, since_us]).await.map(drop)
    }

    pub(crate) async fn checked(&self, row: &MaintenanceRow) -> Result<(), DbError> {
        self.db.execute(CHECKED, &args![row.repository_id, row.checked_us, row.broken]).await.map(drop)
    }

    /// Counts the repositories of a store whose last check found objects missing.
    pub(crate) async fn broken(&self, store: &str) -> Result<i64, DbError> {
        let (count,): (i64,) = self.db.one(BROKEN, &args![store]).await?;
        Ok(count)
    }

    pub(crate) async fn forget(tx: &mut Tx, id: RepositoryId) -> Result<(), DbError> {
        tx.execute(FORGET, &args![id]).await.map(drop)
    }

    /// Returns up to 1000 repositories of a store with ids above `after`, ordered by id.
    pub(crate) async fn list_after(&self, store: &str, after: RepositoryId) -> Result<Vec<RepositoryId>, DbError> {
        let rows: Vec<(i64,)> = self.db.all(LIST_AFTER, &args![store, after]).await?;
        Ok(rows.into_iter().map(|(id,)| RepositoryId(id)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{db::RepositoryTable, testing::on_each};

    async fn due(db: &Db, now_us: i64) -> Vec<(i64, i64, i64)> {
        let rows = MaintenanceTable::new(db.clone()).due("s", now_us).await.unwrap();
        rows.iter().map(|row| (row.repository_id, row.number, row.failures)).collect()
    }

    async fn changed(db: &Db, id: i64, number: i64, now_us: i64) {
        let mut tx = db.begin().await.unwrap();
        MaintenanceTable::changed(&mut tx, RepositoryId(id), number, now_us).await.unwrap();
        tx.commit().await.unwrap();
    }

    #[tokio::test]
    async fn repositories_are_due_after_a_change_until_a_job_is_done() {
        on_each(async |db| {
            let (repositories, maintenance) = (RepositoryTable::new(db.clone()), MaintenanceTable::new(db.clone()));
            for (id, store) in [(1, "s"), (2, "s"), (3, "other")] {
                repositories.place(RepositoryId(id), store, 1, false, 0).await.unwrap();
                changed(&db, id, 1, 100 - id).await;
            }
            changed(&db, 1, 2, 200).await;
            assert_eq!(due(&db, 98).await, [(2, 1, 0)]);
            assert_eq!(due(&db, 99).await, [(2, 1, 0), (1, 2, 0)]);
            let row = |id| MaintenanceRow { repository_id: id, ..MaintenanceRow::default() };
            maintenance.done(&row(1), 1, NEVER).await.unwrap();
            maintenance.done(&row(2), 1, 500).await.unwrap();
            assert_eq!(due(&db, 300).await, [(1, 2, 0)], "a change that came meanwhile is not lost");
            maintenance.done(&row(1), 2, NEVER).await.unwrap();
            assert_eq!(due(&db, 499).await, []);
            assert_eq!(due(&db, 500).await, [(2, 1, 0)]);
            maintenance.failed(RepositoryId(2), 900).await.unwrap();
            changed(&db, 2, 2, 600).await;
            assert_eq!(due(&db, 899).await, [], "a failure is not repeated at once");
            assert_eq!(maintenance.find(RepositoryId(2), 899).await.unwrap(), None);
            assert_eq!(maintenance.find(RepositoryId(2), 900).await.unwrap().unwrap().number, 2);
            assert_eq!(due(&db, 900).await, [(2, 2, 1)]);
            maintenance.done(&row(2), 2, NEVER).await.unwrap();
            maintenance.mark_suspect(RepositoryId(2), 98).await.unwrap();
            assert_eq!(due(&db, 900).await, [], "it was looked at after that");
            maintenance.mark_suspect(RepositoryId(2), i64::MAX).await.unwrap();
            assert_eq!(due(&db, 900).await, [(2, 2, 0)]);
            let suspect = MaintenanceRow { checked_us: 700, ..row(2) };
            maintenance.done(&suspect, 2, NEVER).await.unwrap();
            assert_eq!(due(&db, 900).await, [(2, 2, 0)], "a doubt that came meanwhile is not lost");
            maintenance.checked(&MaintenanceRow { broken: 1, ..suspect }).await.unwrap();
            assert_eq!((maintenance.broken("s").await.unwrap(), maintenance.broken("other").await.unwrap()), (1, 0));
            let mut tx = db.begin().await.unwrap();
            MaintenanceTable::forget(&mut tx, RepositoryId(2)).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(due(&db, 900).await, []);
            assert_eq!(maintenance.list_after("s", RepositoryId(0)).await.unwrap(), [RepositoryId(1), RepositoryId(2)]);
            assert_eq!(maintenance.list_after("s", RepositoryId(1)).await.unwrap(), [RepositoryId(2)]);
        })
        .await;
    }
}
