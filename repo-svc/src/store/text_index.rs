//! The full-text tables of SQLite, which are kept in few segments.
//!
//! A commit adds a segment, and FTS5 merges them four of one size at a time: a large index has ten, and a search reads each of its lists
//! from all of them. From two it takes a third of the time.
//!
//! Not here: the rows of these tables, which the stores of repositories and accounts write, and PostgreSQL, which has no segments.

use ferrite_kit::db::{Db, DbError};

/// Lets a merge begin with two segments of one size, and merges about 100 pages. FTS5 takes commands as rows.
const MERGES: [[&str; 2]; 2] = [
    [
        "INSERT INTO repositories_text (repositories_text, rank) VALUES ('usermerge', 2)",
        "INSERT INTO repositories_text (repositories_text, rank) VALUES ('merge', 100)",
    ],
    [
        "INSERT INTO users_text (users_text, rank) VALUES ('usermerge', 2)",
        "INSERT INTO users_text (users_text, rank) VALUES ('merge', 100)",
    ],
];
const CHANGES: &str = "SELECT total_changes()";
/// Rows that a merge changes if there is nothing to merge: that of the command.
const CHANGES_OF_COMMAND: i64 = 1;

/// The full-text tables.
#[derive(Clone, Debug)]
pub(crate) struct TextIndex {
    db: Db,
}

impl TextIndex {
    /// Creates a handle to the tables of `db`.
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns whether the database has such tables.
    pub(crate) fn is_there(&self) -> bool {
        self.db.pick(false, true)
    }

    /// Merges some pages of each table; the writers of the database wait for as long. Returns whether there was something to merge.
    pub(crate) async fn merge(&self) -> Result<bool, DbError> {
        let mut is_merged = false;
        for [set, merge] in MERGES {
            let mut tx = self.db.begin_relaxed().await?;
            tx.execute(set, &[]).await?;
            let (before,): (i64,) = tx.one(CHANGES, &[]).await?;
            tx.execute(merge, &[]).await?;
            let (after,): (i64,) = tx.one(CHANGES, &[]).await?;
            if after - before > CHANGES_OF_COMMAND {
                tx.commit().await?;
                is_merged = true;
            } else {
                tx.rollback().await?;
            }
        }
        Ok(is_merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_both;

    const ADD: &str = "INSERT INTO repositories_text (rowid, name_key, description_key) VALUES ($1, $2, '')";
    const FIND: &str = "SELECT COUNT(*) FROM repositories_text WHERE repositories_text MATCH '\"abc\"'";
    const COUNT_SEGMENTS: &str = "SELECT COUNT(DISTINCT segid) FROM repositories_text_idx";

    #[tokio::test]
    async fn merges_leave_one_segment_of_each_size() {
        on_both(async |db: Db| {
            let index = TextIndex::new(db.clone());
            if !index.is_there() {
                return;
            }
            let count = async |sql: &str| db.one::<(i64,)>(sql, &[]).await.unwrap().0;
            for id in 1..=3 {
                db.execute(ADD, &ferrite_kit::args![id, "abc"]).await.unwrap();
            }
            assert_eq!(count(COUNT_SEGMENTS).await, 3);
            while index.merge().await.unwrap() {}
            assert_eq!((count(COUNT_SEGMENTS).await, count(FIND).await), (1, 3));
            assert!(!index.merge().await.unwrap());
        })
        .await;
    }
}
