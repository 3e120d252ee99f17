//! The `pull_heads` table: the newest known head of each pull request. It orders calls that set
//! `refs/pull/N/head`; the ref itself is what counts.

use ferrite_db::{Db, DbError, Tx, args};
use ferrite_proto::id::RepositoryId;

const SEQUENCE: &str = "SELECT sequence FROM pull_heads WHERE repository_id = $1 AND number = $2";
const SET: &str = "INSERT INTO pull_heads (repository_id, number, sequence, head_id) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (repository_id, number) DO UPDATE SET sequence = $3, head_id = $4 WHERE pull_heads.sequence <= $3";
const DELETE_ALL: &str = "DELETE FROM pull_heads WHERE repository_id = $1";

#[derive(Clone, Debug)]
pub(crate) struct PullHeadTable {
    db: Db,
}

impl PullHeadTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns the sequence number of the last head of a pull request; 0 if it had none.
    pub(crate) async fn sequence(&self, id: RepositoryId, number: i64) -> Result<i64, DbError> {
        let row: Option<(i64,)> = self.db.optional(SEQUENCE, &args![id, number]).await?;
        Ok(row.map_or(0, |(sequence,)| sequence))
    }

    /// Records a head. Returns false and does nothing if a newer one is known.
    pub(crate) async fn set(
        &self,
        id: RepositoryId,
        number: i64,
        sequence: i64,
        head_id: &str,
    ) -> Result<bool, DbError> {
        Ok(self.db.execute(SET, &args![id, number, sequence, head_id]).await? > 0)
    }

    pub(crate) async fn delete_all(tx: &mut Tx, id: RepositoryId) -> Result<(), DbError> {
        tx.execute(DELETE_ALL, &args![id]).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_each;

    #[tokio::test]
    async fn an_older_head_changes_nothing() {
        on_each(async |db| {
            let (table, id) = (PullHeadTable::new(db.clone()), RepositoryId(1));
            let (one, two) = ("1".repeat(40), "2".repeat(40));
            assert_eq!(table.sequence(id, 7).await.unwrap(), 0);
            for (sequence, head, is_set) in [(2, &one, true), (1, &two, false), (2, &two, true), (9, &one, true)] {
                assert_eq!(table.set(id, 7, sequence, head).await.unwrap(), is_set, "{sequence}");
            }
            assert!(table.set(id, 8, 1, &one).await.unwrap());
            assert!(table.set(RepositoryId(2), 7, 1, &one).await.unwrap());
            assert_eq!((table.sequence(id, 7).await.unwrap(), table.sequence(id, 8).await.unwrap()), (9, 1));
            let mut tx = db.begin().await.unwrap();
            PullHeadTable::delete_all(&mut tx, id).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(table.sequence(id, 7).await.unwrap(), 0);
            assert_eq!(table.sequence(RepositoryId(2), 7).await.unwrap(), 1);
        })
        .await;
    }
}
