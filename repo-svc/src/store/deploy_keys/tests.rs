//! On both databases.

use std::time::Duration;

use ferrite_core::Lifecycle;
use ferrite_db::Db;
use ferrite_proto::id::UserId;

use super::*;
use crate::model::{Description, RepoName};
use crate::store::{NewRepository, OwnerLimits, RepositoryTable};
use crate::testing::{default_store, on_both};

const NOW: i64 = 1_000_000;
const ED25519: &str = include_str!("../../model/key/examples/ed25519.pub");
const ECDSA: &str = include_str!("../../model/key/examples/ecdsa-256.pub");
const ADD_USER: &str = "INSERT INTO users (kind, name, name_key, full_name, email, is_admin, is_active, created_us) \
     VALUES ('user', $1, $1, '', '', $2, $3, $4) RETURNING id";
const CLAIMS: &str = "SELECT uses FROM key_fingerprints ORDER BY fingerprint";

fn key(text: &str, title: &str) -> (Title, SshKey) {
    (Title::parse(title, "title").unwrap(), SshKey::parse(text, "key").unwrap())
}

async fn repository(db: &Db, name: &str) -> RepositoryId {
    let store = RepositoryTable::new(db.clone());
    default_store(db).await;
    let mut tx = db.begin().await.unwrap();
    let (owner,): (i64,) = tx.one(ADD_USER, &args![name, false, true, NOW]).await.unwrap();
    tx.commit().await.unwrap();
    let new = NewRepository {
        creator: UserId(owner),
        name: RepoName::parse(name, "name").unwrap(),
        description: Description::parse("", "description").unwrap(),
        is_private: false,
        default_branch: "main".into(),
        store: "default".into(),
    };
    let (id, _) = store.insert(UserId(owner), &new, OwnerLimits::default(), NOW).await.unwrap().unwrap();
    db.execute("UPDATE repositories SET state = 'ready'", &[]).await.unwrap();
    id
}

async fn add(db: &Db, repository: RepositoryId, text: &str, title: &str) -> Result<DeployKey, RepoError> {
    let (title, key) = key(text, title);
    let mut tx = db.begin().await?;
    let Some(owner) = RepositoryTable::new(db.clone()).lock(&mut tx, repository).await? else {
        return Err(RepoError::Interrupted);
    };
    let made = DeployKeyTable::new(db.clone()).insert(&mut tx, repository, owner, (&title, &key), true, NOW).await?;
    tx.commit().await?;
    Ok(made)
}

async fn delete(db: &Db, repository: RepositoryId) -> bool {
    let mut tx = db.begin().await.unwrap();
    let is_deleted = RepositoryTable::new(db.clone()).delete(&mut tx, repository).await.unwrap();
    tx.commit().await.unwrap();
    is_deleted
}

async fn claims(db: &Db) -> Vec<i64> {
    db.all::<(i64,)>(CLAIMS, &[]).await.unwrap().into_iter().map(|(uses,)| uses).collect()
}

#[tokio::test]
async fn a_key_is_added_once_per_repository_and_to_several_repositories() {
    on_both(async |db: Db| {
        let store = DeployKeyTable::new(db.clone());
        let (one, two) = (repository(&db, "one").await, repository(&db, "two").await);
        let made = add(&db, one, ED25519, "Build").await.unwrap();
        assert_eq!((made.title.as_str(), made.is_read_only, made.created_us), ("Build", true, NOW));
        assert!(made.content.starts_with("ssh-ed25519 AAAA") && made.fingerprint.starts_with("SHA256:"));
        assert!(matches!(add(&db, one, ED25519, "other").await, Err(RepoError::KeyUsed)));
        assert!(matches!(add(&db, one, ECDSA, "bUILD").await, Err(RepoError::KeyTitleUsed(title)) if title == "bUILD"));
        let twin = add(&db, two, ED25519, "Build").await.unwrap();
        let other = add(&db, one, ECDSA, "Deploy").await.unwrap();
        assert_eq!(claims(&db).await.iter().sum::<i64>(), 3);

        let id = DeployKeyId(twin.id);
        assert_eq!(store.find(two, id).await.unwrap(), Some(twin));
        assert_eq!(store.find(one, id).await.unwrap(), None);
        let list = store.list(one, Page::nearest(1, 100, 100)).await.unwrap();
        assert_eq!(list, (vec![made.clone(), other], 2));
        assert_eq!(store.list(one, Page::nearest(3, 1, 100)).await.unwrap(), (vec![], 2));

        let mut tx = db.begin().await.unwrap();
        assert_eq!(store.delete(&mut tx, one, id).await.unwrap(), None);
        assert_eq!(store.delete(&mut tx, one, DeployKeyId(made.id)).await.unwrap(), Some(made));
        tx.commit().await.unwrap();
        assert_eq!(claims(&db).await, [1, 1]);
        assert!(delete(&db, one).await && !delete(&db, one).await);
        assert_eq!(claims(&db).await, [1]);
        assert!(delete(&db, two).await);
        assert_eq!(claims(&db).await, Vec::<i64>::new());
    })
    .await;
}

#[tokio::test]
async fn a_users_key_is_no_deploy_key_and_vice_versa() {
    on_both(async |db: Db| {
        let one = repository(&db, "one").await;
        let (_, ssh_key) = key(ED25519, "x");
        let mut tx = db.begin().await.unwrap();
        claim_key(&mut tx, ssh_key.fingerprint(), KeyKind::User).await.unwrap();
        tx.commit().await.unwrap();
        assert!(matches!(add(&db, one, ED25519, "Build").await, Err(RepoError::KeyUsed)));
        let deployed = add(&db, one, ECDSA, "Build").await.unwrap();
        let mut tx = db.begin().await.unwrap();
        let refused = claim_key(&mut tx, &deployed.fingerprint, KeyKind::User).await;
        assert!(matches!(refused, Err(RepoError::KeyUsed)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_creations_of_one_key_one_wins() {
    on_both(async |db: Db| {
        let life = Lifecycle::new(Duration::from_secs(5));
        let (one, two) = (repository(&db, "one").await, repository(&db, "two").await);
        let tasks: Vec<_> = [one, two]
            .repeat(4)
            .into_iter()
            .map(|target| {
                let db = db.clone();
                life.spawn("add", async move { add(&db, target, ED25519, "Build").await })
            })
            .collect();
        let mut added = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(_) => added += 1,
                Err(RepoError::KeyUsed) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!((added, claims(&db).await), (2, vec![2]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_claim_outlives_a_repository_that_is_deleted_meanwhile() {
    on_both(async |db: Db| {
        let life = Lifecycle::new(Duration::from_secs(5));
        for number in 0..10 {
            let target = repository(&db, &format!("demo{number}")).await;
            let (adding, deleting) = (db.clone(), db.clone());
            let added = life.spawn("add", async move { add(&adding, target, ED25519, "Build").await });
            let deleted = life.spawn("delete", async move { delete(&deleting, target).await });
            assert!(matches!(added.await.unwrap(), Ok(_) | Err(RepoError::Interrupted)));
            assert!(deleted.await.unwrap());
            assert_eq!(claims(&db).await, Vec::<i64>::new());
        }
    })
    .await;
}
