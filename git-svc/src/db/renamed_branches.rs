//! The `renamed_branches` table: the present name of a branch by its former names. A row whose old
//! name is a branch again stays without effect.

use ferrite_db::{Db, DbError, Tx, args};
use ferrite_proto::id::RepositoryId;
use git_store::types::name::BranchName;

const FIND: &str = "SELECT new_name FROM renamed_branches WHERE repository_id = $1 AND old_name = $2";
const FORGET_NAME: &str = "DELETE FROM renamed_branches WHERE repository_id = $1 AND old_name = $2";
const FOLLOW: &str = "UPDATE renamed_branches SET new_name = $3 WHERE repository_id = $1 AND new_name = $2";
const ADD: &str = "INSERT INTO renamed_branches (repository_id, old_name, new_name, renamed_us) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (repository_id, old_name) DO UPDATE SET new_name = $3, renamed_us = $4";
/// One rename adds one row, so at most one is too many.
const TRIM: &str = "DELETE FROM renamed_branches WHERE repository_id = $1 AND old_name IN \
     (SELECT old_name FROM renamed_branches WHERE repository_id = $1 ORDER BY renamed_us DESC, old_name \
     LIMIT 1 OFFSET 100)";
const DELETE_ALL: &str = "DELETE FROM renamed_branches WHERE repository_id = $1";

#[derive(Clone, Debug)]
pub(crate) struct RenamedBranchTable {
    db: Db,
}

impl RenamedBranchTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns the present name of a renamed branch. There may be no branch of that name any more.
    pub(crate) async fn find(&self, id: RepositoryId, old: &BranchName) -> Result<Option<BranchName>, DbError> {
        let row: Option<(Vec<u8>,)> = self.db.lookup(FIND, &args![id, old.as_bytes()]).await?;
        Ok(row.and_then(|(name,)| BranchName::parse(&name).ok()))
    }

    /// Records a rename, also for the former names of the branch. Keeps the newest 100 names of a
    /// repository.
    pub(crate) async fn record(
        tx: &mut Tx,
        id: RepositoryId,
        (old, new): &(BranchName, BranchName),
        now_us: i64,
    ) -> Result<(), DbError> {
        let (old, new) = (old.as_bytes(), new.as_bytes());
        tx.execute(FORGET_NAME, &args![id, new]).await?;
        tx.execute(FOLLOW, &args![id, old, new]).await?;
        tx.execute(ADD, &args![id, old, new, now_us]).await?;
        tx.execute(TRIM, &args![id]).await.map(drop)
    }

    pub(crate) async fn delete_all(tx: &mut Tx, id: RepositoryId) -> Result<(), DbError> {
        tx.execute(DELETE_ALL, &args![id]).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_each;

    fn branch(name: &str) -> BranchName {
        BranchName::parse(name.as_bytes()).unwrap()
    }

    async fn rename(db: &Db, id: i64, old: &str, new: &str, now_us: i64) {
        let mut tx = db.begin().await.unwrap();
        let names = (branch(old), branch(new));
        RenamedBranchTable::record(&mut tx, RepositoryId(id), &names, now_us).await.unwrap();
        tx.commit().await.unwrap();
    }

    async fn find(db: &Db, id: i64, old: &str) -> Option<String> {
        let found = RenamedBranchTable::new(db.clone()).find(RepositoryId(id), &branch(old)).await.unwrap();
        found.map(|name| String::from_utf8(name.as_bytes().to_vec()).unwrap())
    }

    #[tokio::test]
    async fn former_names_follow_a_branch_until_one_is_its_name_again() {
        on_each(async |db| {
            rename(&db, 1, "a", "b", 1).await;
            rename(&db, 2, "a", "z", 1).await;
            rename(&db, 1, "b", "c", 2).await;
            for old in ["a", "b"] {
                assert_eq!(find(&db, 1, old).await.as_deref(), Some("c"), "{old}");
            }
            assert_eq!((find(&db, 1, "c").await, find(&db, 2, "a").await.as_deref()), (None, Some("z")));
            rename(&db, 1, "c", "a", 3).await;
            assert_eq!((find(&db, 1, "a").await, find(&db, 1, "b").await.as_deref()), (None, Some("a")));
            // Another branch had the name meanwhile.
            rename(&db, 1, "b", "d", 4).await;
            assert_eq!(find(&db, 1, "b").await.as_deref(), Some("d"));
            let mut tx = db.begin().await.unwrap();
            RenamedBranchTable::delete_all(&mut tx, RepositoryId(1)).await.unwrap();
            tx.commit().await.unwrap();
            assert_eq!((find(&db, 1, "b").await, find(&db, 2, "a").await.as_deref()), (None, Some("z")));
        })
        .await;
    }

    #[tokio::test]
    async fn the_oldest_of_more_than_100_names_goes() {
        on_each(async |db| {
            for number in 0..101 {
                rename(&db, 1, &format!("n{number}"), &format!("m{number}"), number).await;
            }
            assert_eq!((find(&db, 1, "n0").await, find(&db, 1, "n1").await.as_deref()), (None, Some("m1")));
            assert_eq!(find(&db, 1, "n100").await.as_deref(), Some("m100"));
        })
        .await;
    }
}
