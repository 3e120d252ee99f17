//! On both databases.

use std::time::Duration;

use ferrite_core::Lifecycle;
use ferrite_proto::id::UserId;

use super::*;
use crate::model::{Description, RepoName};
use crate::store::{NewRepository, OwnerLimits, RepositoryTable};
use crate::testing::{default_store, on_both};

const NOW: i64 = 1_000_000;
const ADD_USER: &str = "INSERT INTO users (kind, name, name_key, full_name, email, is_admin, is_active, created_us) \
     VALUES ('user', 'ada', 'ada', '', 'ada@example.com', $1, $2, $3) RETURNING id";

fn name(text: &str) -> StoreName {
    text.parse().unwrap()
}

fn all() -> Page {
    Page::nearest(1, 100, 100)
}

async fn listed(table: &GitStoreTable) -> Vec<(String, i64, i64)> {
    let (rows, total) = table.list(all()).await.unwrap();
    assert_eq!(i64::try_from(rows.len()).unwrap(), total);
    rows.into_iter().map(|row| (row.name, row.weight, row.repository_count)).collect()
}

async fn add(db: &Db, store: &str, weight: i32, now_us: i64) -> Result<(), RepoError> {
    let mut tx = db.begin().await?;
    GitStoreTable::new(db.clone()).add(&mut tx, &name(store), weight, now_us).await?;
    Ok(tx.commit().await?)
}

async fn delete(db: &Db, store: &str) -> Result<(), RepoError> {
    let (table, mut tx) = (GitStoreTable::new(db.clone()), db.begin().await?);
    table.delete(&mut tx, &name(store)).await?;
    Ok(tx.commit().await?)
}

async fn owner(db: &Db) -> UserId {
    let mut tx = db.begin().await.unwrap();
    let (id,): (i64,) = tx.one(ADD_USER, &args![false, true, NOW]).await.unwrap();
    tx.commit().await.unwrap();
    UserId(id)
}

async fn place(db: &Db, owner: UserId, repository: &str, store: &str) -> Result<RepositoryId, RepoError> {
    let new = NewRepository {
        creator: owner,
        name: RepoName::parse(repository, "name").unwrap(),
        description: Description::parse("", "description").unwrap(),
        is_private: false,
        default_branch: "main".into(),
        store: store.into(),
    };
    let inserted = RepositoryTable::new(db.clone()).insert(owner, &new, OwnerLimits::default(), NOW).await?;
    Ok(inserted.unwrap().0)
}

#[tokio::test]
async fn the_first_stores_are_added_once() {
    on_both(async |db: Db| {
        let table = GitStoreTable::new(db.clone());
        table.add_first(&[name("git-1"), name("git-0")], NOW).await.unwrap();
        table.add_first(&[name("default")], NOW).await.unwrap();
        assert_eq!(listed(&table).await, [("git-0".to_owned(), 100, 0), ("git-1".to_owned(), 100, 0)]);
    })
    .await;
}

#[tokio::test]
async fn stores_are_known_oldest_first_and_open_with_a_weight() {
    on_both(async |db: Db| {
        let table = GitStoreTable::new(db.clone());
        for (age, (store, weight)) in (0..).zip([("z", 7), ("m", 0), ("a", 100)]) {
            add(&db, store, weight, NOW + age).await.unwrap();
        }
        add(&db, "z", 1, NOW + 9).await.unwrap();
        assert_eq!(table.names().await.unwrap(), ["z", "m", "a"]);
        let open = table.open_stores().await.unwrap();
        let open: Vec<_> = open.iter().map(|store| (store.name.as_str(), store.weight)).collect();
        assert_eq!(open, [("a", 100), ("z", 7)]);
        let mut tx = db.begin().await.unwrap();
        assert_eq!(table.lock(&mut tx, &name("m")).await.unwrap(), Some(0));
        assert_eq!(table.lock(&mut tx, &name("none")).await.unwrap(), None);
        table.set_weight(&mut tx, &name("m"), 30).await.unwrap();
        assert_eq!(table.find_in(&mut tx, &name("m")).await.unwrap().unwrap().weight, 30);
        assert_eq!(table.find_in(&mut tx, &name("none")).await.unwrap(), None);
        tx.commit().await.unwrap();
        let (second, total) = table.list(Page::nearest(2, 2, 100)).await.unwrap();
        assert_eq!((second[0].name.as_str(), second[0].created_us, total), ("z", NOW, 3));
    })
    .await;
}

#[tokio::test]
async fn a_store_with_a_repository_stays() {
    on_both(async |db: Db| {
        let (table, owner) = (GitStoreTable::new(db.clone()), owner(&db).await);
        add(&db, "git-0", 100, NOW).await.unwrap();
        add(&db, "git-1", 100, NOW).await.unwrap();
        let (one, two) =
            (place(&db, owner, "one", "git-0").await.unwrap(), place(&db, owner, "two", "git-0").await.unwrap());
        assert!(matches!(place(&db, owner, "three", "gone").await, Err(RepoError::StoreUnavailable)));
        assert_eq!(listed(&table).await, [("git-0".to_owned(), 100, 2), ("git-1".to_owned(), 100, 0)]);
        let stores = table.of_repositories(&[one, RepositoryId(999)]).await.unwrap();
        assert_eq!(stores, HashMap::from([(one, "git-0".to_owned())]));
        assert!(matches!(delete(&db, "git-0").await, Err(RepoError::StoreNotEmpty)));
        assert!(matches!(delete(&db, "git-7").await, Err(RepoError::StoreNotFound)));
        delete(&db, "git-1").await.unwrap();
        for id in [one, two] {
            RepositoryTable::new(db.clone()).delete_unfinished(id).await.unwrap();
        }
        delete(&db, "git-0").await.unwrap();
        assert_eq!(listed(&table).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_repository_is_not_placed_on_a_store_that_is_being_removed() {
    on_both(async |db: Db| {
        let (owner, life) = (owner(&db).await, Lifecycle::new(Duration::from_secs(5)));
        add(&db, "git-0", 100, NOW).await.unwrap();
        for round in 0..8 {
            add(&db, "git-1", 100, NOW).await.unwrap();
            let (db2, db3, repository) = (db.clone(), db.clone(), format!("r{round}"));
            let placed = life.spawn("place", async move { place(&db2, owner, &repository, "git-1").await });
            let deleted = life.spawn("delete", async move { delete(&db3, "git-1").await });
            match (placed.await.unwrap(), deleted.await.unwrap()) {
                (Ok(id), Err(RepoError::StoreNotEmpty)) => {
                    RepositoryTable::new(db.clone()).delete_unfinished(id).await.unwrap();
                }
                (Err(RepoError::StoreUnavailable), Ok(())) => {}
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn events_that_wait_for_a_removed_store_are_dropped() {
    on_both(async |db: Db| {
        default_store(&db).await;
        let table = GitStoreTable::new(db.clone());
        let count = async |subscriber: &str| {
            let sql = "SELECT COUNT(*) FROM outbox_lanes WHERE subscriber = $1";
            db.one::<(i64,)>(sql, &args![subscriber]).await.unwrap().0
        };
        let fact = ferrite_proto::events::event::Fact::RepositoryDeleted(Default::default());
        let event = ferrite_events::event(RepositoryId(1), NOW, fact);
        let mut tx = db.begin().await.unwrap();
        let subscribers = ["git-svc/default", "git-svc/other", FORMER_SUBSCRIBER];
        ferrite_events::append(&mut tx, &event, &subscribers, NOW).await.unwrap();
        tx.commit().await.unwrap();
        assert!(table.has_former_events().await.unwrap());
        delete(&db, "default").await.unwrap();
        assert_eq!((count("git-svc/default").await, count("git-svc/other").await), (0, 1));
        assert_eq!(db.one::<(i64,)>("SELECT COUNT(*) FROM outbox", &[]).await.unwrap().0, 2);
    })
    .await;
}
