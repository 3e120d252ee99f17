//! On both databases.

use std::time::Duration;

use ferrite_db::Db;
use ferrite_db::args;

use super::*;
use crate::store::RepositoryTable;
use crate::testing::on_both;

const NOW: i64 = 1_000_000;
const ADD_USER: &str = "INSERT INTO users (kind, name, name_key, full_name, email, is_admin, is_active, created_us) \
     VALUES ('user', $1, $1, '', '', $2, $3, $4) RETURNING id";
const ADD_REPOSITORY: &str = "INSERT INTO repositories (owner_id, name, name_key, description, description_key, website, state, \
     is_private, is_mirror, is_empty, is_issues_enabled, default_branch, size_bytes, star_count, fork_count, watcher_count, \
     open_issue_count, issues_version, refs_number, created_us, updated_us) \
     VALUES ($1, 'demo', 'demo', '', '', '', 'ready', $2, $2, $2, $2, 'main', 0, 0, 0, 1, 0, 0, 0, 0, 0) RETURNING id";

async fn user(db: &Db, name: &str) -> UserId {
    let mut tx = db.begin().await.unwrap();
    let (id,): (i64,) = tx.one(ADD_USER, &args![name, false, true, NOW]).await.unwrap();
    tx.commit().await.unwrap();
    UserId(id)
}

async fn repository(db: &Db, owner: UserId) -> RepositoryId {
    let mut tx = db.begin().await.unwrap();
    let (id,): (i64,) = tx.one(ADD_REPOSITORY, &args![owner, false]).await.unwrap();
    tx.commit().await.unwrap();
    RepositoryId(id)
}

#[tokio::test]
async fn a_collaborator_has_one_level_which_can_be_changed() {
    on_both(async |db: Db| {
        let store = CollaboratorTable::new(db.clone());
        let (ada, bob, eve) = (user(&db, "ada").await, user(&db, "bob").await, user(&db, "eve").await);
        let demo = repository(&db, ada).await;
        let mut tx = db.begin().await.unwrap();
        assert_eq!(store.level(&mut tx, demo, bob).await.unwrap(), Permission::None);
        for (who, level) in [(eve, Permission::Admin), (bob, Permission::Read), (bob, Permission::Write)] {
            store.set(&mut tx, demo, who, level, NOW).await.unwrap();
            assert_eq!(store.level(&mut tx, demo, who).await.unwrap(), level);
        }
        tx.commit().await.unwrap();
        let page = |number| Page::nearest(number, 1, 100);
        let (first, total) = store.list(demo, page(1)).await.unwrap();
        assert_eq!((first[0].user.username.as_str(), first[0].permission, total), ("bob", Permission::Write, 2));
        let (second, _) = store.list(demo, page(2)).await.unwrap();
        assert_eq!((second[0].user.username.as_str(), second[0].permission), ("eve", Permission::Admin));
        assert_eq!(store.find(demo, bob).await.unwrap(), Some(first[0].clone()));
        assert_eq!(store.find(demo, ada).await.unwrap(), None);

        let mut tx = db.begin().await.unwrap();
        assert!(store.remove(&mut tx, demo, bob).await.unwrap());
        assert!(!store.remove(&mut tx, demo, bob).await.unwrap());
        let gone = store.set(&mut tx, demo, UserId(999), Permission::Read, NOW).await.unwrap_err();
        assert!(gone.is_foreign_key(), "{gone:?}");
        drop(tx);
        let mut tx = db.begin().await.unwrap();
        assert!(store.remove(&mut tx, demo, bob).await.unwrap(), "it was rolled back");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_transaction_with_the_lock_sees_what_the_previous_one_wrote() {
    on_both(async |db: Db| {
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let demo = repository(&db, ada).await;
        let life = ferrite_core::Lifecycle::new(Duration::from_secs(5));
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let db = db.clone();
                life.spawn("set", async move {
                    let store = CollaboratorTable::new(db.clone());
                    let mut tx = db.begin().await.unwrap();
                    let turn = RepositoryTable::new(db.clone()).lock(&mut tx, demo).await.unwrap();
                    assert_eq!(turn, Some(ada));
                    let is_new = store.level(&mut tx, demo, bob).await.unwrap() == Permission::None;
                    if is_new {
                        store.set(&mut tx, demo, bob, Permission::Read, NOW).await.unwrap();
                    }
                    tx.commit().await.unwrap();
                    is_new
                })
            })
            .collect();
        let mut added = 0;
        for task in tasks {
            added += i32::from(task.await.unwrap());
        }
        assert_eq!(added, 1);
    })
    .await;
}
