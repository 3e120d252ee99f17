//! Usage follows every change of a size and of an owner. On both databases.

use ferrite_db::Tx;

use super::*;

const DONE: CreatedOnDisk = CreatedOnDisk { size_bytes: 50, is_empty: false };

fn bytes(limit: i64) -> OwnerLimits {
    OwnerLimits { bytes: Some(limit), ..OwnerLimits::default() }
}

async fn used(db: &Db, owner: &User) -> i64 {
    QuotaTable::new(db.clone(), OwnerLimits::default()).find(owner.id).await.unwrap().used_bytes()
}

/// Commits changes in size like a delivery of events.
async fn settle(mut tx: Tx, changes: Vec<Option<SizeChange>>) {
    let mut usage = UsageChanges::default();
    for change in changes.into_iter().flatten() {
        usage.add(change.owner, change.bytes);
    }
    usage.write(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
}

/// Reports the size of a repository after its first push.
async fn push(db: &Db, store: &RepositoryTable, id: RepositoryId, size_bytes: i64) {
    let mut tx = db.begin().await.unwrap();
    let change = store.apply_refs(&mut tx, id, &refs(1, size_bytes, b"main"), NOW).await.unwrap();
    settle(tx, vec![change]).await;
}

#[tokio::test]
async fn the_bytes_of_an_owner_follow_events_about_repositories_and_wikis() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let ada = user(&db, "ada").await;
        let id = ready(&db, &store, &ada, &new("demo", "", false), NOW).await.id();
        assert_eq!(used(&db, &ada).await, 7);
        let wiki = store.register_wiki(id, NOW).await.unwrap().unwrap();
        let mut tx = db.begin().await.unwrap();
        let changes = vec![
            store.apply_refs(&mut tx, id, &refs(2, 200, b"main"), NOW).await.unwrap(),
            // Late and repeated events.
            store.apply_refs(&mut tx, id, &refs(1, 900, b"main"), NOW).await.unwrap(),
            store.apply_refs(&mut tx, id, &refs(2, 900, b"main"), NOW).await.unwrap(),
            store.apply_refs(&mut tx, RepositoryId(wiki.id), &refs(1, 30, b"main"), NOW).await.unwrap(),
            store.apply_refs(&mut tx, RepositoryId(999), &refs(1, 1, b"main"), NOW).await.unwrap(),
        ];
        settle(tx, changes).await;
        assert_eq!(used(&db, &ada).await, 230);
        let mut tx = db.begin().await.unwrap();
        let size = |size_bytes, number| SizeChanged { size_bytes, number };
        let changes = vec![
            store.apply_size(&mut tx, id, &size(120, 2)).await.unwrap(),
            store.apply_size(&mut tx, id, &size(999, 1)).await.unwrap(),
            store.apply_size(&mut tx, RepositoryId(wiki.id), &size(10, 1)).await.unwrap(),
            store.apply_size(&mut tx, RepositoryId(wiki.id), &size(999, 0)).await.unwrap(),
        ];
        settle(tx, changes).await;
        assert_eq!(used(&db, &ada).await, 130);

        let mut tx = db.begin().await.unwrap();
        assert!(store.delete(&mut tx, id).await.unwrap());
        tx.commit().await.unwrap();
        assert_eq!(used(&db, &ada).await, 0, "a repository takes its wiki with it");
    })
    .await;
}

#[tokio::test]
async fn an_event_before_the_end_of_a_creation_counts_once() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let ada = user(&db, "ada").await;
        let inserted = store.insert(ada.id, &new("demo", "", false), OwnerLimits::default(), NOW).await;
        let (id, _) = inserted.unwrap().unwrap();
        push(&db, &store, id, 500).await;
        assert_eq!(used(&db, &ada).await, 0);
        let mut tx = db.begin().await.unwrap();
        store.finish(&mut tx, id, DONE, &viewer(&ada)).await.unwrap().unwrap();
        tx.commit().await.unwrap();
        assert_eq!(used(&db, &ada).await, 500);
    })
    .await;
}

#[tokio::test]
async fn a_transfer_moves_the_bytes_and_meets_the_quota_of_the_new_owner() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let id = ready(&db, &store, &ada, &new("demo", "", false), NOW).await.id();
        push(&db, &store, id, 500).await;
        let give = async |limit| {
            let mut tx = db.begin().await.unwrap();
            let to = (bob.id, bob.username.as_str());
            store.set_owner(&mut tx, id, to, bytes(limit), NOW).await?;
            tx.commit().await.map_err(RepoError::from)
        };
        assert!(matches!(give(499).await, Err(RepoError::StorageQuota { used: 0, limit: 499 })));
        assert_eq!((used(&db, &ada).await, used(&db, &bob).await), (500, 0));
        give(500).await.unwrap();
        assert_eq!((used(&db, &ada).await, used(&db, &bob).await), (0, 500));
        let more = store.insert(bob.id, &new("more", "", false), bytes(500), NOW).await;
        assert!(matches!(more, Err(RepoError::StorageQuota { used: 500, limit: 500 })));
    })
    .await;
}

#[tokio::test]
async fn unfinished_forks_count_together_with_what_is_used() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let parent = ready(&db, &store, &ada, &new("demo", "", false), NOW).await;
        push(&db, &store, parent.id(), 40).await;
        let fork = async |name: &str| {
            store.insert_fork(bob.id, &new(name, "", false), parent.id(), bytes(100), NOW).await.map(Option::unwrap)
        };
        let (first, _) = fork("one").await.unwrap();
        fork("two").await.unwrap();
        assert!(matches!(fork("three").await, Err(RepoError::StorageQuota { used: 0, limit: 100 })));
        let mut tx = db.begin().await.unwrap();
        store.finish_fork(&mut tx, first, parent.id(), DONE, &viewer(&bob)).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(used(&db, &bob).await, 50);
        assert!(matches!(fork("three").await, Err(RepoError::StorageQuota { used: 50, limit: 100 })));
    })
    .await;
}

#[tokio::test]
async fn an_account_has_its_own_limits_or_those_of_the_site() {
    on_both(async |db: Db| {
        let ada = user(&db, "ada").await;
        let site = OwnerLimits { repositories: Some(9), organizations: None, bytes: Some(1_000) };
        let quotas = QuotaTable::new(db.clone(), site);
        let set = async |limits: OwnLimits| {
            let mut tx = db.begin().await.unwrap();
            assert!(quotas.lock(&mut tx, ada.id).await.unwrap().is_some());
            quotas.set_limits(&mut tx, ada.id, limits).await.unwrap();
            assert_eq!(quotas.lock(&mut tx, ada.id).await.unwrap().map(|quota| quota.limits), Some(limits));
            tx.commit().await.unwrap();
            quotas.find(ada.id).await.unwrap()
        };
        assert_eq!(quotas.find(ada.id).await.unwrap().max_bytes(site), Some(1_000));
        let mut tx = db.begin().await.unwrap();
        quotas.charge(&mut tx, ada.id, 600).await.unwrap();
        tx.commit().await.unwrap();
        let mut tx = db.begin().await.unwrap();
        let more = quotas.charge(&mut tx, ada.id, 600).await;
        assert!(matches!(more, Err(RepoError::StorageQuota { used: 600, limit: 1_000 })));
        drop(tx);

        let own =
            OwnLimits { repositories: Some(3), organizations: Some(4), bytes: Some(1_200), rate_percent: Some(50) };
        let row = set(own).await;
        assert_eq!((row.used_bytes(), row.max_bytes(site), row.rate_percent), (600, Some(1_200), Some(50)));
        let mut tx = db.begin().await.unwrap();
        quotas.charge(&mut tx, ada.id, 600).await.unwrap();
        quotas.release(&mut tx, ada.id, 1_200).await.unwrap();
        tx.commit().await.unwrap();
        let none =
            OwnLimits { repositories: Some(-1), organizations: Some(-1), bytes: Some(-1), rate_percent: Some(-1) };
        let row = set(none).await;
        assert_eq!((row.used_bytes(), row.max_bytes(site)), (0, None));
        let whole = quotas.read(ada.id).await.unwrap().unwrap();
        assert_eq!((whole.repository_count, effective(whole.limits.repositories, site.repositories)), (0, None));
        assert_eq!(set(OwnLimits::default()).await.max_bytes(site), Some(1_000));
        let mut tx = db.begin().await.unwrap();
        assert_eq!(quotas.lock(&mut tx, UserId(999)).await.unwrap(), None);
    })
    .await;
}
