//! The `merges` table: merges of pull requests. A row is written with the intent of its update and
//! goes if the update is dropped, so a pull request is merged once.

use ferrite_db::{Db, DbError, Query, Tx, args};
use ferrite_proto::{git::Merge, id::RepositoryId};

/// Numbers per statement.
const NUMBERS_PER_STATEMENT: usize = 100;

/// The columns in the order of [`MergeRow`].
macro_rules! columns {
    () => {
        "SELECT number, style, head_id, base_id, merge_commit_id, user_id, base_branch FROM merges WHERE repository_id = "
    };
}
const SELECT: &str = columns!();
const FIND: &str = concat!(columns!(), "$1 AND number = $2");
const OF_BATCH: &str = concat!(columns!(), "$1 AND batch_id = $2");
const ADD: &str = "INSERT INTO merges (repository_id, number, batch_id, style, head_id, base_id, merge_commit_id, user_id, \
     base_branch, created_us) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
const DROP: &str = "DELETE FROM merges WHERE repository_id = $1 AND batch_id = $2";
const DELETE_ALL: &str = "DELETE FROM merges WHERE repository_id = $1";

#[derive(Clone, Debug)]
pub(crate) struct MergeTable {
    db: Db,
}

#[derive(sqlx_macros::FromRow)]
struct MergeRow {
    number: i64,
    style: i64,
    head_id: String,
    base_id: String,
    merge_commit_id: String,
    user_id: i64,
    base_branch: String,
}

impl From<MergeRow> for Merge {
    fn from(row: MergeRow) -> Self {
        Self {
            number: row.number,
            style: i32::try_from(row.style).unwrap_or_default(),
            head_id: row.head_id,
            base_id: row.base_id,
            merge_commit_id: row.merge_commit_id,
            user_id: row.user_id,
            base_branch: row.base_branch,
        }
    }
}

impl MergeTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns the merge of a pull request, also one whose update is not settled yet.
    pub(crate) async fn find(&self, repository: RepositoryId, number: i64) -> Result<Option<Merge>, DbError> {
        let row: Option<MergeRow> = self.db.optional(FIND, &args![repository, number]).await?;
        Ok(row.map(Merge::from))
    }

    /// Returns the merges of pull requests by number, at most 100.
    pub(crate) async fn list(&self, repository: RepositoryId, numbers: &[i64]) -> Result<Vec<Merge>, DbError> {
        let numbers = &numbers[..numbers.len().min(NUMBERS_PER_STATEMENT)];
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let mut query = Query::new(SELECT);
        query.bind(repository).push(" AND number IN ").bind_list(numbers.iter().copied()).push(" ORDER BY number");
        let rows: Vec<MergeRow> = self.db.all(query.sql(), query.args()).await?;
        Ok(rows.into_iter().map(Merge::from).collect())
    }

    /// Returns the merge that an update makes.
    pub(crate) async fn of_batch(&self, repository: RepositoryId, batch: &str) -> Result<Option<Merge>, DbError> {
        let row: Option<MergeRow> = self.db.optional(OF_BATCH, &args![repository, batch]).await?;
        Ok(row.map(Merge::from))
    }

    /// Adds the merge of an update. Fails with a unique violation if the pull request has one.
    pub(super) async fn add(
        tx: &mut Tx,
        repository: RepositoryId,
        batch: &str,
        merge: &Merge,
        now_us: i64,
    ) -> Result<(), DbError> {
        let args = args![
            repository,
            merge.number,
            batch,
            i64::from(merge.style),
            merge.head_id.as_str(),
            merge.base_id.as_str(),
            merge.merge_commit_id.as_str(),
            merge.user_id,
            merge.base_branch.as_str(),
            now_us
        ];
        tx.execute(ADD, &args).await.map(drop)
    }

    /// Removes the merge of an update that was not applied.
    pub(super) async fn drop_batch(tx: &mut Tx, repository: RepositoryId, batch: &str) -> Result<(), DbError> {
        tx.execute(DROP, &args![repository, batch]).await.map(drop)
    }

    pub(crate) async fn delete_all(tx: &mut Tx, repository: RepositoryId) -> Result<(), DbError> {
        tx.execute(DELETE_ALL, &args![repository]).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_each;

    fn merge(number: i64) -> Merge {
        Merge {
            number,
            style: 1,
            head_id: "a".repeat(40),
            base_id: "b".repeat(40),
            merge_commit_id: "c".repeat(40),
            user_id: 7,
            base_branch: "main".to_owned(),
        }
    }

    #[tokio::test]
    async fn a_pull_request_is_merged_once_unless_its_update_is_dropped() {
        on_each(async |db| {
            let (table, id, other) = (MergeTable::new(db.clone()), RepositoryId(1), RepositoryId(2));
            let add = async |id, batch, number| {
                let mut tx = db.begin().await?;
                MergeTable::add(&mut tx, id, batch, &merge(number), 5).await?;
                tx.commit().await
            };
            for (id, batch, number) in [(id, "x", 1), (id, "y", 2), (other, "x", 1)] {
                add(id, batch, number).await.unwrap();
            }
            assert!(add(id, "z", 1).await.unwrap_err().is_unique());
            assert_eq!(table.find(id, 1).await.unwrap(), Some(merge(1)));
            assert_eq!(table.of_batch(id, "y").await.unwrap(), Some(merge(2)));
            assert_eq!(table.list(id, &[2, 1, 3]).await.unwrap(), [merge(1), merge(2)]);
            let mut tx = db.begin().await.unwrap();
            MergeTable::drop_batch(&mut tx, id, "x").await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(table.find(id, 1).await.unwrap(), None);
            add(id, "z", 1).await.unwrap();
            let mut tx = db.begin().await.unwrap();
            MergeTable::delete_all(&mut tx, id).await.unwrap();
            tx.commit().await.unwrap();
            assert!(table.list(id, &[1, 2]).await.unwrap().is_empty());
            assert!(table.find(other, 1).await.unwrap().is_some());
        })
        .await;
    }
}
