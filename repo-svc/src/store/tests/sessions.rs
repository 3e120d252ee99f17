use ferrite_core::id_or_name::IdOrName;
use ferrite_proto::id::TokenId;
use ferrite_rpc::auth::TokenHash;

use super::*;
use crate::store::{NewSession, SessionRow, SessionTable};

/// When the sessions of these tests expire.
const EXPIRY: i64 = NOW + 2_000;

async fn sign_in(db: &Db, user: &User, value: &str, now_us: i64) -> (SessionRow, Vec<TokenHash>) {
    let sessions = SessionTable::new(db.clone(), IDLE_US);
    let new = NewSession { user_agent: "Lynx".into(), address: "192.0.2.1".into(), expire_us: EXPIRY };
    let mut tx = db.begin().await.unwrap();
    let made = sessions.insert(&mut tx, user.id, &new, value, now_us).await.unwrap();
    tx.commit().await.unwrap();
    made
}

async fn ids(db: &Db, user: &User, now_us: i64) -> Vec<i64> {
    let (rows, count) = SessionTable::new(db.clone(), IDLE_US).list(user.id, all(), now_us).await.unwrap();
    assert_eq!(rows.len() as i64, count);
    rows.into_iter().map(|row| row.id).collect()
}

#[tokio::test]
async fn a_session_is_valid_while_it_is_used_and_until_it_expires() {
    on_both(async |db: Db| {
        let (tokens, ada) = (TokenTable::new(db.clone(), IDLE_US), user(&db, "ada").await);
        let (row, ended) = sign_in(&db, &ada, "one", NOW).await;
        let expected = SessionRow {
            id: row.id,
            created_us: NOW,
            expire_us: EXPIRY,
            last_use_us: NOW,
            user_agent: "Lynx".into(),
            address: "192.0.2.1".into(),
        };
        assert_eq!((&row, ended.len()), (&expected, 0));
        let hash = TokenHash::of("one");
        let identity = tokens.identity(&hash, NOW).await.unwrap().unwrap();
        assert_eq!((identity.user_id, identity.token_id, identity.is_session), (ada.id.0, row.id, true));
        assert!(Scopes::from_proto(&identity.scopes).is_all() && !identity.is_limited);
        // The cache of identities ends with each commit, so the times are not asked in between.
        let is_valid = async |now_us: i64| tokens.identity_by_id(TokenId(row.id), now_us).await.unwrap().is_some();
        assert!(is_valid(NOW + IDLE_US - 1).await && !is_valid(NOW + IDLE_US).await);
        assert_eq!(ids(&db, &ada, NOW + IDLE_US - 1).await, [row.id]);
        assert_eq!(ids(&db, &ada, NOW + IDLE_US).await, [0; 0]);
        for round in 1..=4 {
            tokens.record_uses(&[(row.id, NOW + 400 * round)]).await.unwrap();
        }
        assert!(tokens.identity(&hash, NOW + 1_999).await.unwrap().is_some());
        assert!(is_valid(NOW + 1_999).await && !is_valid(EXPIRY).await);
        assert!(tokens.identity(&hash, EXPIRY).await.unwrap().is_none(), "it has expired");
    })
    .await;
}

#[tokio::test]
async fn lists_and_deletions_of_tokens_know_no_sessions() {
    on_both(async |db: Db| {
        let (tokens, sessions) = (TokenTable::new(db.clone(), IDLE_US), SessionTable::new(db.clone(), IDLE_US));
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let (row, _) = sign_in(&db, &ada, "one", NOW).await;
        assert_eq!(tokens.list(ada.id, all()).await.unwrap(), (vec![], 0));
        let (name,): (String,) = db.one("SELECT name FROM access_tokens", &[]).await.unwrap();
        let mut tx = db.begin().await.unwrap();
        for text in [row.id.to_string(), name] {
            assert_eq!(tokens.delete(&mut tx, ada.id, IdOrName::new(&text)).await.unwrap(), None);
        }
        assert_eq!(sessions.delete(&mut tx, bob.id, TokenId(row.id)).await.unwrap(), None);
        let deleted = sessions.delete(&mut tx, ada.id, TokenId(row.id)).await.unwrap();
        assert_eq!(deleted, Some(TokenHash::of("one")));
        tx.commit().await.unwrap();
        assert_eq!(tokens.identity(&TokenHash::of("one"), NOW).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn the_hundred_used_last_stay() {
    on_both(async |db: Db| {
        let (tokens, ada, bob) = (TokenTable::new(db.clone(), IDLE_US), user(&db, "ada").await, user(&db, "bob").await);
        let (of_bob, _) = sign_in(&db, &bob, "bob", NOW).await;
        let mut made = Vec::new();
        for number in 0..100 {
            let (row, ended) = sign_in(&db, &ada, &number.to_string(), NOW + number).await;
            assert!(ended.is_empty());
            made.push(row.id);
        }
        tokens.record_uses(&[(made[0], NOW + 200)]).await.unwrap();
        let (last, ended) = sign_in(&db, &ada, "100", NOW + 100).await;
        assert_eq!(ended, [TokenHash::of("1")]);
        let left = ids(&db, &ada, NOW + 200).await;
        assert_eq!((left.len(), &left[..2]), (100, &[made[0], last.id][..]));
        assert_eq!(ids(&db, &bob, NOW).await, [of_bob.id]);
    })
    .await;
}

#[tokio::test]
async fn a_new_password_and_a_disabled_account_end_all_sessions_but_no_token() {
    on_both(async |db: Db| {
        let (tokens, ada, bob) = (TokenTable::new(db.clone(), IDLE_US), user(&db, "ada").await, user(&db, "bob").await);
        let sql = "INSERT INTO access_tokens (user_id, hash, name, name_key, digest, created_us) \
             VALUES ($1, $2, 't', 't', 'd', $3)";
        db.execute(sql, &args![ada.id, TokenHash::of("token").0.as_slice(), NOW]).await.unwrap();
        sign_in(&db, &bob, "bob", NOW).await;
        let change = async |password: Option<&str>, is_active: bool| {
            let mut tx = db.begin().await.unwrap();
            let before = lock_user(&mut tx, "ada").await.unwrap().unwrap();
            let after = UserRecord { website: format!("{password:?}"), is_active, ..before.clone() };
            change_user(&mut tx, &before, &after, password.map(str::to_owned), NOW).await.unwrap();
            tx.commit().await.unwrap();
        };
        for (value, password, is_active, count) in
            [("one", None, true, 1), ("two", Some("hash2"), true, 0), ("three", None, false, 0)]
        {
            sign_in(&db, &ada, value, NOW).await;
            change(password, is_active).await;
            assert_eq!(ids(&db, &ada, NOW).await.len(), count, "{value}");
        }
        change(None, true).await;
        assert!(tokens.identity(&TokenHash::of("token"), NOW).await.unwrap().is_some());
        assert_eq!(ids(&db, &bob, NOW).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn ended_sessions_are_deleted_and_others_stay() {
    on_both(async |db: Db| {
        let (tokens, sessions) = (TokenTable::new(db.clone(), IDLE_US), SessionTable::new(db.clone(), IDLE_US));
        let ada = user(&db, "ada").await;
        let (idle, _) = sign_in(&db, &ada, "idle", NOW).await;
        let (used, _) = sign_in(&db, &ada, "used", NOW).await;
        tokens.record_uses(&[(used.id, NOW + IDLE_US)]).await.unwrap();
        assert_eq!(sessions.purge(NOW).await.unwrap(), 0);
        assert_eq!(sessions.purge(NOW + IDLE_US).await.unwrap(), 1);
        assert_eq!(ids(&db, &ada, NOW + IDLE_US).await, [used.id]);
        assert!(tokens.identity_by_id(TokenId(idle.id), NOW).await.unwrap().is_none());
        tokens.record_uses(&[(used.id, EXPIRY)]).await.unwrap();
        assert_eq!(sessions.purge(EXPIRY).await.unwrap(), 1);
        assert_eq!(sessions.purge(EXPIRY).await.unwrap(), 0);
    })
    .await;
}
