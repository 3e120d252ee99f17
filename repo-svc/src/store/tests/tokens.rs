//! On both databases.

use std::collections::{BTreeSet, HashMap};

use ferrite_core::id_or_name::IdOrName;
use ferrite_proto::Scope;
use ferrite_proto::id::{PublicKeyId, TokenId};
use ferrite_rpc::auth::{AuthError, TokenHash};

use super::*;
use crate::model::{RepositoryPath, SshKey, Title, parse_expiry};

const ED25519: &str = include_str!("../../model/key/examples/ed25519.pub");

fn token(name: &str) -> NewToken {
    NewToken { name: Title::parse(name, "name").unwrap(), scopes: Scopes::all(), expire_us: 0, only: None }
}

async fn insert(db: &Db, user: &User, new: &NewToken, value: &str) -> Option<TokenRow> {
    let mut tx = db.begin().await.unwrap();
    let row = TokenTable::new(db.clone(), IDLE_US).insert(&mut tx, user.id, new, value, NOW).await.unwrap();
    tx.commit().await.unwrap();
    row
}

async fn delete(db: &Db, user: &User, name: &str) -> Option<(String, TokenHash)> {
    let mut tx = db.begin().await.unwrap();
    let deleted = TokenTable::new(db.clone(), IDLE_US).delete(&mut tx, user.id, IdOrName::new(name)).await.unwrap();
    tx.commit().await.unwrap();
    deleted.map(|token| (token.name, token.hash))
}

#[tokio::test]
async fn a_token_is_valid_until_it_is_deleted_or_its_owner_disabled() {
    on_both(async |db: Db| {
        let store = TokenTable::new(db.clone(), IDLE_US);
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let (one, two) = (TokenHash::of("one"), TokenHash::of("two"));
        let row = insert(&db, &ada, &token("Laptop"), "one").await.unwrap();
        assert_eq!((row.name.as_str(), row.digest.as_str()), ("Laptop", &one.to_hex()[..40]));
        assert_eq!(row.last_eight, "", "no token is this short");
        assert_eq!((row.scopes(), row.expire_us, row.last_use_us, row.only()), (Scopes::all(), 0, 0, None));
        assert_eq!(insert(&db, &ada, &token("laptop"), "two").await, None);
        assert!(insert(&db, &bob, &token("Laptop"), "two").await.is_some());
        let identity = store.identity(&one, 0).await.unwrap().unwrap();
        assert_eq!((identity.user_id, identity.username.as_str(), identity.token_id), (ada.id.0, "ada", row.id));
        assert_eq!((identity.is_limited, Scopes::from_proto(&identity.scopes)), (false, Scopes::all()));
        assert_eq!(store.list(ada.id, all()).await.unwrap(), (vec![row.clone()], 1));
        assert_eq!(store.list(ada.id, Page::nearest(6, 1, 1)).await.unwrap(), (vec![], 1));

        assert_eq!(delete(&db, &bob, &row.id.to_string()).await, None);
        assert_eq!(delete(&db, &ada, "LAPTOP").await, Some(("Laptop".into(), one)));
        assert_eq!(store.identity(&one, 0).await.unwrap(), None);
        let two_id = store.list(bob.id, all()).await.unwrap().0[0].id;
        db.execute("UPDATE users SET is_active = $1 WHERE id = $2", &args![false, bob.id]).await.unwrap();
        assert_eq!(store.identity(&two, 0).await.unwrap(), None);
        assert_eq!(delete(&db, &bob, &two_id.to_string()).await, Some(("Laptop".into(), two)));
    })
    .await;
}

#[tokio::test]
async fn scopes_expiry_and_repositories_are_stored_with_a_token() {
    on_both(async |db: Db| {
        let store = TokenTable::new(db.clone(), IDLE_US);
        let ada = user(&db, "ada").await;
        let hash = TokenHash::of("one");
        let scopes: Scopes = [Scope::RepoRead, Scope::Issue].into_iter().collect();
        let new = NewToken {
            scopes,
            expire_us: parse_expiry(Some((2, 5_000)), NOW, "expires_at").unwrap(),
            only: Some(vec![RepositoryId(7), RepositoryId(3)]),
            ..token("ci")
        };
        let row = insert(&db, &ada, &new, "one").await.unwrap();
        assert_eq!((row.scopes(), row.expire_us, row.only()), (scopes, 2_000_005, Some(vec![7, 3])));
        let other = insert(&db, &ada, &token("other"), "0123456789abcdef").await.unwrap();
        assert_eq!(other.last_eight, "89abcdef");
        assert_eq!(store.list(ada.id, Page::nearest(1, 1, 1)).await.unwrap(), (vec![other], 2));
        let identity = store.identity(&hash, 2_000_004).await.unwrap().unwrap();
        assert_eq!((Scopes::from_proto(&identity.scopes), identity.expire_us), (scopes, 2_000_005));
        assert_eq!((identity.is_limited, identity.repository_ids), (true, vec![7, 3]));
        assert_eq!(store.identity(&hash, 2_000_005).await.unwrap(), None, "it has expired");
    })
    .await;
}

#[tokio::test]
async fn of_two_concurrent_tokens_of_one_name_one_is_created() {
    on_both(async |db: Db| {
        let ada = user(&db, "ada").await;
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..8 {
            let (db, ada) = (db.clone(), ada.clone());
            tasks.spawn(async move { insert(&db, &ada, &token("ci"), &number.to_string()).await.is_some() });
        }
        assert_eq!(tasks.join_all().await.into_iter().filter(|made| *made).count(), 1);
    })
    .await;
}

#[tokio::test]
async fn the_latest_use_of_a_token_stays() {
    on_both(async |db: Db| {
        let store = TokenTable::new(db.clone(), IDLE_US);
        let ada = user(&db, "ada").await;
        let one = insert(&db, &ada, &token("one"), "one").await.unwrap().id;
        let two = insert(&db, &ada, &token("two"), "two").await.unwrap().id;
        store.record_uses(&[]).await.unwrap();
        store.record_uses(&[(one, 20), (two, 30), (999_999, 40)]).await.unwrap();
        store.record_uses(&[(one, 10), (two, 31)]).await.unwrap();
        let uses: HashMap<_, _> =
            store.list(ada.id, all()).await.unwrap().0.into_iter().map(|row| (row.id, row.last_use_us)).collect();
        assert_eq!(uses, HashMap::from([(one, 20), (two, 31)]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn uses_are_written_while_tokens_are_created_and_deleted() {
    on_both(async |db: Db| {
        let store = TokenTable::new(db.clone(), IDLE_US);
        let ada = user(&db, "ada").await;
        let mut uses = Vec::new();
        for number in 0..60 {
            let name = number.to_string();
            uses.push((insert(&db, &ada, &token(&name), &name).await.unwrap().id, NOW));
        }
        let mut tasks = tokio::task::JoinSet::new();
        for replica in 0..4 {
            let store = store.clone();
            let mut uses = uses.clone();
            if replica % 2 == 1 {
                uses.reverse();
            }
            tasks.spawn(async move {
                for round in 0..5 {
                    let uses: Vec<_> = uses.iter().map(|&(id, at)| (id, at + round)).collect();
                    store.record_uses(&uses).await.unwrap();
                }
            });
        }
        let (db2, ids) = (db.clone(), uses.clone());
        tasks.spawn(async move {
            // In one transaction and in another order, like the deletion of an account.
            let mut tx = db2.begin().await.unwrap();
            for (id, _) in ids.iter().rev().step_by(2).chain(ids.iter().step_by(4)) {
                tx.execute("DELETE FROM access_tokens WHERE id = $1", &args![*id]).await.unwrap();
            }
            tx.commit().await.unwrap();
        });
        tasks.join_all().await;
        assert!(store.list(ada.id, all()).await.unwrap().1 < 60);
    })
    .await;
}

#[tokio::test]
async fn names_of_repositories_are_returned_to_viewers_who_may_see_them() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob) = (user(&db, "Ada").await, user(&db, "bob").await);
        let open = ready(&db, &store, &ada, &new("Open", "", false), NOW).await.id();
        let hidden = ready(&db, &store, &ada, &new("Hidden", "", true), NOW).await.id();
        let shared = ready(&db, &store, &ada, &new("shared", "", true), NOW).await.id();
        let own = ready(&db, &store, &bob, &new("open", "", true), NOW).await.id();
        collaborate(&db, shared, &bob, "read").await;
        store.insert(bob.id, &new("half", "", false), OwnerLimits::default(), NOW).await.unwrap().unwrap();

        let texts = ["ADA/open", "ada/hidden", "ada/shared", "bob/OPEN", "bob/hidden", "bob/half", "eve/open"];
        let paths = RepositoryPath::parse_all(&texts.map(str::to_owned), "repositories").unwrap();
        let found = store.find_paths(&paths, &viewer(&bob)).await.unwrap();
        let found: BTreeSet<_> = found.iter().map(|row| (row.id, row.full())).collect();
        let expected = [(open.0, "Ada/Open"), (shared.0, "Ada/shared"), (own.0, "bob/open")];
        assert_eq!(found, expected.map(|(id, name)| (id, name.to_owned())).into());

        let ids = BTreeSet::from([open.0, hidden.0, shared.0, own.0, 999_999]);
        let names = store.names(&ids, &viewer(&bob)).await.unwrap();
        assert_eq!(names.keys().copied().collect::<BTreeSet<_>>(), BTreeSet::from([open.0, shared.0, own.0]));
        assert_eq!(names[&open.0].full(), "Ada/Open");
        assert!(store.names(&BTreeSet::new(), &viewer(&bob)).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn names_of_more_repositories_than_fit_one_query_are_returned() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let ada = user(&db, "ada").await;
        let id = ready(&db, &store, &ada, &new("demo", "", false), NOW).await.id().0;
        let ids: BTreeSet<i64> = (id - 1..id + 20_001).collect();
        let before = db.statements();
        let names = store.names(&ids, &viewer(&ada)).await.unwrap();
        assert_eq!((names.len(), db.statements() - before), (1, 3));
    })
    .await;
}

#[tokio::test]
async fn a_password_is_valid_until_it_is_changed_or_its_owner_disabled() {
    on_both(async |db: Db| {
        let store = AccountTable::new(db.clone());
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        db.execute("UPDATE users SET password_hash = 'new' WHERE id = $1", &args![bob.id]).await.unwrap();
        let mut tx = db.begin().await.unwrap();
        assert!(store.is_password(&mut tx, ada.id, "hash").await.unwrap());
        assert!(!store.is_password(&mut tx, bob.id, "hash").await.unwrap());
        assert!(!store.is_password(&mut tx, UserId(999_999), "hash").await.unwrap());
        tx.commit().await.unwrap();
        db.execute("UPDATE users SET is_active = $1", &args![false]).await.unwrap();
        let mut tx = db.begin().await.unwrap();
        assert!(!store.is_password(&mut tx, ada.id, "hash").await.unwrap());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_token_is_created_by_an_old_password_after_its_change() {
    on_both(async |db: Db| {
        let store = AccountTable::new(db.clone());
        let ada = user(&db, "ada").await;
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..20 {
            let (db, store, id) = (db.clone(), store.clone(), ada.id);
            tasks.spawn(async move {
                let name = number.to_string();
                let mut tx = db.begin().await.unwrap();
                if store.is_password(&mut tx, id, "hash").await.unwrap() {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                    let tokens = TokenTable::new(db.clone(), IDLE_US);
                    tokens.insert(&mut tx, id, &token(&name), &name, NOW).await.unwrap().unwrap();
                    tx.commit().await.unwrap();
                }
            });
        }
        let (db2, id) = (db.clone(), ada.id);
        tasks.spawn(async move {
            let mut tx = db2.begin().await.unwrap();
            tx.execute("UPDATE users SET password_hash = 'new' WHERE id = $1", &args![id]).await.unwrap();
            tx.execute("DELETE FROM access_tokens WHERE user_id = $1", &args![id]).await.unwrap();
            tx.commit().await.unwrap();
        });
        tasks.join_all().await;
        assert_eq!(TokenTable::new(db, IDLE_US).list(ada.id, all()).await.unwrap(), (vec![], 0));
    })
    .await;
}

#[tokio::test]
async fn a_key_that_is_bound_to_a_token_has_its_limits_and_ends_with_it() {
    on_both(async |db: Db| {
        let (keys, ada) = (PublicKeyTable::new(db.clone()), user(&db, "ada").await);
        let scopes: Scopes = [Scope::RepoRead, Scope::Key].into_iter().collect();
        let expire_us = parse_expiry(Some((2, 0)), NOW, "expires_at").unwrap();
        let new = NewToken { scopes, expire_us, only: Some(vec![RepositoryId(7)]), ..token("ci") };
        let token = insert(&db, &ada, &new, "one").await.unwrap();
        let (title, key) = (Title::parse("t", "title").unwrap(), SshKey::parse(ED25519, "key").unwrap());
        let add = async |bound_to: Option<i64>| {
            let mut tx = db.begin().await.unwrap();
            let new = NewPublicKey { title: &title, key: &key, token: bound_to.map(TokenId) };
            let row = keys.insert(&mut tx, ada.id, new, NOW).await?;
            tx.commit().await.unwrap();
            Ok::<_, RepoError>(row)
        };
        let row = add(Some(token.id)).await.unwrap();
        assert_eq!((row.token_id, row.token_name.as_deref()), (Some(token.id), Some("ci")));
        let Some(KeyHolder::User(identity)) = key_holder(&db, key.fingerprint(), 1_999_999).await.unwrap() else {
            panic!("the key has no owner")
        };
        assert_eq!((identity.token_id, Scopes::from_proto(&identity.scopes)), (token.id, scopes));
        assert_eq!((identity.is_limited, identity.repository_ids, identity.expire_us), (true, vec![7], 2_000_000));
        assert_eq!(key_holder(&db, key.fingerprint(), 2_000_000).await.unwrap(), None, "the token has expired");
        let mut tx = db.begin().await.unwrap();
        let foreign = keys.delete(&mut tx, ada.id, PublicKeyId(row.id), Some(TokenId(token.id + 1))).await.unwrap();
        assert_eq!(foreign, None);
        tx.commit().await.unwrap();

        assert!(delete(&db, &ada, "ci").await.is_some());
        assert_eq!(keys.list(ada.id, all()).await.unwrap(), (vec![], 0));
        assert_eq!(key_holder(&db, key.fingerprint(), NOW).await.unwrap(), None);
        assert!(matches!(add(Some(token.id)).await, Err(RepoError::Auth(AuthError::BadCredentials))));
        assert_eq!(add(None).await.unwrap().token_id, None, "the key is free");
    })
    .await;
}
