//! Public keys of users, and claims on fingerprints.

use ferrite_proto::id::{PublicKeyId, TokenId};

use super::*;
use crate::model::{SshKey, Title};
use crate::store::key_fingerprints::{KeyKind, claim_key, release_key};

/// A made-up key, distinct for each number.
pub(super) fn key(number: u8) -> SshKey {
    let mut blob = b"\0\0\0\x0bssh-ed25519\0\0\0\x20".to_vec();
    blob.extend([number; 32]);
    SshKey::parse(&base64::Engine::encode(&base64::engine::general_purpose::STANDARD, blob), "key").unwrap()
}

pub(super) fn title(text: &str) -> Title {
    Title::parse(text, "title").unwrap()
}

pub(super) fn new_key<'a>(title: &'a Title, key: &'a SshKey, token: Option<TokenId>) -> NewPublicKey<'a> {
    NewPublicKey { title, key, token }
}

async fn claim(db: &Db, fingerprint: &str, kind: KeyKind) -> Result<(), RepoError> {
    let mut tx = db.begin().await?;
    claim_key(&mut tx, fingerprint, kind).await?;
    Ok(tx.commit().await?)
}

async fn release(db: &Db, fingerprint: &str) {
    let mut tx = db.begin().await.unwrap();
    release_key(&mut tx, fingerprint).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_key_belongs_to_one_user_and_titles_are_unique_per_user() {
    on_both(async |db: Db| {
        let store = PublicKeyTable::new(db.clone());
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let insert = async |user: &User, name: &str, number| {
            let mut tx = db.begin().await?;
            let row = store.insert(&mut tx, user.id, new_key(&title(name), &key(number), None), NOW).await?;
            tx.commit().await?;
            Ok::<_, RepoError>(row)
        };
        let first = insert(&ada, "Laptop", 1).await.unwrap();
        assert_eq!((first.title.as_str(), first.content.as_str()), ("Laptop", key(1).as_str()));
        assert!(matches!(insert(&ada, "other", 1).await, Err(RepoError::KeyUsed)));
        assert!(matches!(insert(&bob, "other", 1).await, Err(RepoError::KeyUsed)));
        assert!(matches!(insert(&ada, "LAPTOP", 2).await, Err(RepoError::KeyTitleUsed(_))));
        let second = insert(&bob, "laptop", 2).await.unwrap();
        assert_eq!(store.find(ada.id, PublicKeyId(first.id)).await.unwrap(), Some(first.clone()));
        assert_eq!(store.find(ada.id, PublicKeyId(second.id)).await.unwrap(), None);
        let third = insert(&ada, "desk", 3).await.unwrap();
        assert_eq!(store.list(ada.id, all()).await.unwrap(), (vec![first.clone(), third], 2));

        let delete = async |user: &User, id| {
            let mut tx = db.begin().await.unwrap();
            let row = store.delete(&mut tx, user.id, PublicKeyId(id), None).await.unwrap();
            tx.commit().await.unwrap();
            row.map(|row| row.fingerprint)
        };
        assert_eq!(delete(&bob, first.id).await, None);
        assert_eq!(delete(&ada, first.id).await, Some(first.fingerprint));
        assert_eq!(delete(&ada, first.id).await, None);
        assert!(insert(&bob, "ada's", 1).await.unwrap().id > first.id);
        let mut tx = db.begin().await.unwrap();
        let gone = store.insert(&mut tx, UserId(999), new_key(&title("x"), &key(9), None), NOW).await;
        assert!(matches!(gone, Err(RepoError::UserNotFound)));
    })
    .await;
}

#[tokio::test]
async fn a_fingerprint_belongs_to_a_user_or_to_repositories() {
    on_both(async |db: Db| {
        use KeyKind::{Deployment, User};
        claim(&db, "one", Deployment).await.unwrap();
        claim(&db, "one", Deployment).await.unwrap();
        assert!(matches!(claim(&db, "one", User).await, Err(RepoError::KeyUsed)));
        release(&db, "one").await;
        assert!(matches!(claim(&db, "one", User).await, Err(RepoError::KeyUsed)));
        release(&db, "one").await;
        claim(&db, "one", User).await.unwrap();
        for kind in [User, Deployment] {
            assert!(matches!(claim(&db, "one", kind).await, Err(RepoError::KeyUsed)));
        }
        release(&db, "one").await;
        assert_eq!(count(&db, "SELECT COUNT(*) FROM key_fingerprints").await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_repository_releases_its_keys_and_no_others() {
    on_both(async |db: Db| {
        let (store, ada) = (repositories(&db).await, user(&db, "ada").await);
        let one = ready(&db, &store, &ada, &new("one", "", false), NOW).await.id();
        let two = ready(&db, &store, &ada, &new("two", "", false), NOW).await.id();
        let sql = "INSERT INTO deploy_keys (repository_id, fingerprint, content, title, title_key, is_read_only, created_us) \
             VALUES ($1, $2, 'key', $2, $2, $3, $4)";
        for (repository, fingerprint) in [(one, "both"), (two, "both"), (one, "first"), (two, "second")] {
            claim(&db, fingerprint, KeyKind::Deployment).await.unwrap();
            db.execute(sql, &args![repository, fingerprint, true, NOW]).await.unwrap();
        }
        let mut tx = db.begin().await.unwrap();
        store.delete(&mut tx, one).await.unwrap();
        tx.commit().await.unwrap();
        let left: Vec<(String, i64)> =
            db.all("SELECT fingerprint, uses FROM key_fingerprints ORDER BY fingerprint", &[]).await.unwrap();
        assert_eq!(left, [("both".to_owned(), 1), ("second".to_owned(), 1)]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_concurrent_claims_one_kind_wins() {
    on_both(async |db: Db| {
        for round in 0..5 {
            let life = ferrite_core::Lifecycle::new(std::time::Duration::from_secs(5));
            let tasks: Vec<_> = (0..6)
                .map(|number| {
                    let kind = if number % 2 == 0 { KeyKind::User } else { KeyKind::Deployment };
                    let (db, name) = (db.clone(), format!("key{round}"));
                    (kind, life.spawn("claim", async move { claim(&db, &name, kind).await }))
                })
                .collect();
            let mut won = Vec::new();
            for (kind, task) in tasks {
                match task.await.unwrap() {
                    Ok(()) => won.push(kind),
                    Err(RepoError::KeyUsed) => {}
                    other => panic!("{other:?}"),
                }
            }
            let is_fair = won == [KeyKind::User] || won == [KeyKind::Deployment; 3];
            assert!(is_fair, "{won:?}");
        }
    })
    .await;
}
