//! The `languages` table: the bytes in each language of a repository, as last counted, and the
//! newest update that the count has seen.

use std::collections::BTreeMap;

use ferrite_db::{Db, DbError, Tx, args};
use ferrite_proto::id::RepositoryId;
use git_store::repo::read::LanguageCounts;
use prost::Message as _;

const FIND: &str = "SELECT number, commit_id, counts FROM languages WHERE repository_id = $1";
/// The newest settled update.
const NEWEST: &str = "SELECT m.number FROM maintenance m JOIN repositories r ON r.repository_id = m.repository_id \
     WHERE m.repository_id = $1 AND NOT r.deleted AND NOT r.is_wiki";
const STALE: &str = "SELECT m.repository_id FROM maintenance m JOIN repositories r ON r.repository_id = m.repository_id \
     LEFT JOIN languages l ON l.repository_id = m.repository_id \
     WHERE m.repository_id > $2 AND r.store = $1 AND NOT r.deleted AND NOT r.is_wiki \
     AND (l.number IS NULL OR l.number < m.number) ORDER BY m.repository_id LIMIT 256";
const SET: &str = "INSERT INTO languages (repository_id, number, commit_id, counts) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (repository_id) DO UPDATE SET number = $2, commit_id = $3, counts = $4";
const SEEN: &str = "UPDATE languages SET number = $2 WHERE repository_id = $1 AND number < $2";
const FORGET: &str = "DELETE FROM languages WHERE repository_id = $1";

/// The languages of one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LanguageRow {
    /// Newest update in the journal that the count has seen.
    pub(crate) number: i64,
    /// The counted commit; empty for a repository without commits.
    pub(crate) commit_id: String,
    pub(crate) counts: LanguageCounts,
}

#[derive(sqlx_macros::FromRow)]
struct StoredRow {
    number: i64,
    commit_id: String,
    counts: Vec<u8>,
}

/// Encoding of the counts in a row.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct StoredCounts {
    #[prost(btree_map = "string, uint64", tag = "1")]
    bytes: BTreeMap<String, u64>,
    #[prost(bool, tag = "2")]
    is_truncated: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct LanguageTable {
    db: Db,
}

impl LanguageTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns the row of a repository; `None` before its first count.
    pub(crate) async fn find(&self, id: RepositoryId) -> Result<Option<LanguageRow>, DbError> {
        let row: Option<StoredRow> = self.db.lookup(FIND, &args![id]).await?;
        // An unreadable row is counted again.
        Ok(row.and_then(|row| {
            let StoredCounts { bytes, is_truncated } = StoredCounts::decode(row.counts.as_slice()).ok()?;
            let counts = LanguageCounts { bytes, is_truncated };
            Some(LanguageRow { number: row.number, commit_id: row.commit_id, counts })
        }))
    }

    /// Returns the number of the newest settled update; `None` if there is none, if the repository
    /// was deleted, and for a wiki.
    pub(crate) async fn newest(&self, id: RepositoryId) -> Result<Option<i64>, DbError> {
        let row: Option<(i64,)> = self.db.optional(NEWEST, &args![id]).await?;
        Ok(row.map(|(number,)| number))
    }

    /// Returns up to 256 repositories of a store with ids above `after` that changed since their last
    /// language count, ordered by id.
    pub(crate) async fn stale(&self, store: &str, after: RepositoryId) -> Result<Vec<RepositoryId>, DbError> {
        let rows: Vec<(i64,)> = self.db.all(STALE, &args![store, after]).await?;
        Ok(rows.into_iter().map(|(id,)| RepositoryId(id)).collect())
    }

    /// Replaces the row of a repository.
    pub(crate) async fn set(tx: &mut Tx, id: RepositoryId, row: &LanguageRow) -> Result<(), DbError> {
        let LanguageCounts { bytes, is_truncated } = row.counts.clone();
        let counts = StoredCounts { bytes, is_truncated }.encode_to_vec();
        tx.execute(SET, &args![id, row.number, row.commit_id.as_str(), counts]).await.map(drop)
    }

    /// Records that update `number` left the counted commit in place.
    pub(crate) async fn seen(&self, id: RepositoryId, number: i64) -> Result<(), DbError> {
        self.db.execute(SEEN, &args![id, number]).await.map(drop)
    }

    pub(crate) async fn forget(tx: &mut Tx, id: RepositoryId) -> Result<(), DbError> {
        tx.execute(FORGET, &args![id]).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        db::{MaintenanceTable, RepositoryTable},
        testing::on_each,
    };

    fn row(number: i64, bytes: u64) -> LanguageRow {
        let bytes = [("Rust".to_owned(), bytes), ("C".to_owned(), 1)].into();
        LanguageRow { number, commit_id: "1".repeat(40), counts: LanguageCounts { bytes, is_truncated: true } }
    }

    async fn set(db: &Db, id: i64, row: &LanguageRow) {
        let mut tx = db.begin().await.unwrap();
        LanguageTable::set(&mut tx, RepositoryId(id), row).await.unwrap();
        tx.commit().await.unwrap();
    }

    #[tokio::test]
    async fn a_count_is_replaced_and_stale_after_an_update() {
        on_each(async |db| {
            let (repositories, table) = (RepositoryTable::new(db.clone()), LanguageTable::new(db.clone()));
            for (id, store, is_wiki) in [(1, "s", false), (2, "s", false), (3, "other", false), (4, "s", true)] {
                repositories.place(RepositoryId(id), store, 1, is_wiki, 0).await.unwrap();
                let mut tx = db.begin().await.unwrap();
                MaintenanceTable::changed(&mut tx, RepositoryId(id), 5, 0).await.unwrap();
                tx.commit().await.unwrap();
            }
            let stale = async |after| -> Vec<_> {
                table.stale("s", RepositoryId(after)).await.unwrap().into_iter().map(|id| id.0).collect()
            };
            assert_eq!((stale(0).await, stale(1).await, stale(2).await), (vec![1, 2], vec![2], vec![]));
            let newest = async |id| table.newest(RepositoryId(id)).await.unwrap();
            assert_eq!((newest(1).await, newest(4).await, newest(9).await), (Some(5), None, None));
            assert_eq!(table.find(RepositoryId(1)).await.unwrap(), None);
            set(&db, 1, &row(5, 10)).await;
            set(&db, 2, &row(4, 20)).await;
            assert_eq!(stale(0).await, [2]);
            table.seen(RepositoryId(2), 5).await.unwrap();
            table.seen(RepositoryId(2), 3).await.unwrap();
            assert_eq!(table.find(RepositoryId(2)).await.unwrap(), Some(row(5, 20)));
            set(&db, 1, &row(6, u64::MAX)).await;
            assert_eq!(table.find(RepositoryId(1)).await.unwrap(), Some(row(6, u64::MAX)));
            assert!(stale(0).await.is_empty());
            let mut tx = db.begin().await.unwrap();
            LanguageTable::forget(&mut tx, RepositoryId(1)).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!((table.find(RepositoryId(1)).await.unwrap(), stale(0).await), (None, vec![1]));
        })
        .await;
    }
}
