use ferrite_proto::id::TeamId;

use ferrite_rpc::auth::TokenHash;

use super::keys::{key, new_key, title};
use super::*;
use crate::model::Email;
use crate::store::users;

fn emails(texts: &[&str]) -> Vec<Email> {
    texts.iter().map(|text| Email::parse(text, "emails").unwrap()).collect()
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

async fn listed(store: &ProfileTable, user: &User) -> Vec<(String, bool)> {
    let (rows, count) = store.emails(user.id, all()).await.unwrap();
    assert_eq!(rows.len() as i64, count);
    rows.into_iter().map(|row| (row.email, row.is_primary)).collect()
}

async fn add(db: &Db, user: &User, texts: &[&str]) -> Result<(), RepoError> {
    let mut tx = db.begin().await?;
    ProfileTable::new(db.clone()).add_emails(&mut tx, user.id, &emails(texts), NOW).await?;
    Ok(tx.commit().await?)
}

async fn verify(db: &Db, user: &User, email: &str) -> Result<bool, RepoError> {
    let mut tx = db.begin().await?;
    let is_changed = verify_email(&mut tx, user.id, &emails(&[email])[0], NOW).await?;
    tx.commit().await?;
    Ok(is_changed)
}

/// Changes a user like the administrators' RPC.
async fn change(db: &Db, name: &str, change: impl FnOnce(&mut UserRecord)) -> Result<(), RepoError> {
    let mut tx = db.begin().await?;
    lock_administrators(&mut tx).await?;
    let before = lock_user(&mut tx, name).await?.ok_or(RepoError::UserNotFound)?;
    let mut after = before.clone();
    change(&mut after);
    change_user(&mut tx, &before, &after, None, NOW).await?;
    Ok(tx.commit().await?)
}

async fn remove(db: &Db, name: &str) -> Result<(), RepoError> {
    let mut tx = db.begin().await?;
    lock_administrators(&mut tx).await?;
    let user = lock_user(&mut tx, name).await?.ok_or(RepoError::UserNotFound)?;
    delete_user(&mut tx, &user).await?;
    Ok(tx.commit().await?)
}

async fn make_administrator(db: &Db, user: &User) {
    db.execute("UPDATE users SET is_admin = $1 WHERE id = $2", &args![true, user.id]).await.unwrap();
}

#[tokio::test]
async fn an_address_belongs_to_one_account_and_signs_in_to_it() {
    on_both(async |db: Db| {
        let (accounts, profiles) = (AccountTable::new(db.clone()), ProfileTable::new(db.clone()));
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        add(&db, &ada, &["z@x", "a@x"]).await.unwrap();
        let expected = [("ada@example.com", true), ("a@x", false), ("z@x", false)];
        assert_eq!(listed(&profiles, &ada).await, expected.map(|(email, primary)| (email.to_owned(), primary)));
        assert!(accounts.login("z@x").await.unwrap().is_none(), "not verified yet");
        for email in ["z@x", "a@x"] {
            assert!(verify(&db, &ada, email).await.unwrap());
            assert!(!verify(&db, &ada, email).await.unwrap());
            assert!(matches!(verify(&db, &bob, email).await, Err(RepoError::EmailUsed)));
        }
        for taken in [&["new@x", "BOB@example.com"][..], &["a@x"], &["n@x", "N@x"], &["Ada@Example.com"]] {
            assert!(matches!(add(&db, &ada, taken).await, Err(RepoError::OneOfEmailsUsed)), "{taken:?}");
        }
        assert!(matches!(add(&db, &bob, &["A@X"]).await, Err(RepoError::OneOfEmailsUsed)));
        assert!(matches!(add_user(&db, "eve", "A@x").await, Err(RepoError::EmailUsed)));
        assert_eq!(listed(&profiles, &ada).await.len(), 3);

        assert_eq!(accounts.login("Z@X").await.unwrap().unwrap().user.id, ada.id);
        let anonymous = Viewer::of(None);
        let by_email = |emails: &[&str]| {
            let query = AccountQuery { email_keys: strings(emails), ..AccountQuery::default() };
            accounts.find_many(query, &anonymous)
        };
        assert_eq!(by_email(&["a@x", "z@x"]).await.unwrap().users, std::slice::from_ref(&ada));
        let found = by_email(&["a@x", "bob@example.com", "no@x"]).await.unwrap();
        assert_eq!(found.email_owners, [("a@x".to_owned(), ada.id.0), ("bob@example.com".to_owned(), bob.id.0)].into());
        assert!(by_email(&[]).await.unwrap().email_owners.is_empty());
        let mut tx = db.begin().await.unwrap();
        assert!(unverify_email(&mut tx, ada.id, &emails(&["A@x"])[0]).await.unwrap());
        assert!(!unverify_email(&mut tx, bob.id, &emails(&["z@x"])[0]).await.unwrap());
        tx.commit().await.unwrap();
        assert!(by_email(&["a@x"]).await.unwrap().users.is_empty());
        assert_eq!(listed(&profiles, &ada).await.len(), 3);
    })
    .await;
}

#[tokio::test]
async fn an_unverified_address_is_taken_by_the_account_for_which_it_is_verified() {
    on_both(async |db: Db| {
        let profiles = ProfileTable::new(db.clone());
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        add(&db, &bob, &["a@x", "b@x", "c@x"]).await.unwrap();
        assert!(matches!(add(&db, &ada, &["a@x"]).await, Err(RepoError::OneOfEmailsUsed)));
        assert!(verify(&db, &ada, "a@x").await.unwrap());
        change(&db, "ada", |user| user.email = "B@x".into()).await.unwrap();
        add_user(&db, "eve", "C@x").await.unwrap();
        assert_eq!(listed(&profiles, &bob).await, [("bob@example.com".to_owned(), true)]);
        let expected = [("B@x", true), ("a@x", false)].map(|(email, primary)| (email.to_owned(), primary));
        assert_eq!(listed(&profiles, &ada).await, expected);
    })
    .await;
}

#[tokio::test]
async fn the_primary_address_stays_and_others_are_removed() {
    on_both(async |db: Db| {
        let profiles = ProfileTable::new(db.clone());
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        add(&db, &ada, &["a@x", "b@x"]).await.unwrap();
        add(&db, &bob, &["c@x"]).await.unwrap();
        let remove = async |keys: &[&str]| {
            let mut tx = db.begin().await.unwrap();
            let removed = profiles.remove_emails(&mut tx, ada.id, &strings(keys)).await.unwrap();
            tx.commit().await.unwrap();
            removed
        };
        assert_eq!(remove(&["a@x", "ada@example.com"]).await, None);
        assert_eq!(listed(&profiles, &ada).await.len(), 3);
        assert_eq!(remove(&["a@x", "c@x", "no@x"]).await, Some(strings(&["a@x"])));
        assert_eq!(remove(&["c@x"]).await, Some(Vec::new()));
        assert_eq!((listed(&profiles, &ada).await.len(), listed(&profiles, &bob).await.len()), (2, 2));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_concurrent_requests_for_the_same_addresses_one_gets_them_all() {
    on_both(async |db: Db| {
        let life = ferrite_core::Lifecycle::new(std::time::Duration::from_secs(5));
        let mut tasks = Vec::new();
        for number in 0..6 {
            let (db, user) = (db.clone(), user(&db, &format!("u{number}")).await);
            let order = if number % 2 == 0 { ["a@x", "b@x", "c@x"] } else { ["c@x", "b@x", "a@x"] };
            tasks.push(life.spawn("add", async move { add(&db, &user, &order).await }));
        }
        let mut won = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(()) => won += 1,
                Err(RepoError::OneOfEmailsUsed) => {}
                other => panic!("{other:?}"),
            }
        }
        let owners = count(&db, "SELECT COUNT(DISTINCT user_id) FROM unverified_emails").await;
        assert_eq!((won, owners), (1, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_address_requested_in_every_way_at_once_is_assigned_once() {
    on_both(async |db: Db| {
        user(&db, "ada").await;
        let bob = user(&db, "bob").await;
        for round in 0..8 {
            let life = ferrite_core::Lifecycle::new(std::time::Duration::from_secs(5));
            let tasks: Vec<_> = (0..5)
                .map(|way| {
                    let (db, bob, email) = (db.clone(), bob.clone(), format!("wanted{round}@x"));
                    life.spawn("want", async move {
                        match way {
                            0 => change(&db, "ada", |user| user.email = email).await,
                            1 | 2 => add(&db, &bob, &[&email]).await,
                            3 => change(&db, "bob", |user| user.email = email).await,
                            _ => add_user(&db, &format!("new{round}"), &email).await.map(drop),
                        }
                    })
                })
                .collect();
            for task in tasks {
                let outcome = task.await.unwrap();
                assert!(matches!(outcome, Ok(()) | Err(RepoError::EmailUsed | RepoError::OneOfEmailsUsed)));
            }
            let sql = "SELECT COUNT(*) FROM emails WHERE email_key = $1";
            let given: (i64,) = db.one(sql, &args![format!("wanted{round}@x")]).await.unwrap();
            assert_eq!(given, (1,));
        }
        let strays = "SELECT COUNT(*) FROM users u WHERE NOT EXISTS \
             (SELECT 1 FROM emails e WHERE e.user_id = u.id AND e.email_key = u.email_key AND e.email = u.email)";
        assert_eq!(count(&db, strays).await, 0);
    })
    .await;
}

#[tokio::test]
async fn follows_are_listed_in_the_order_they_began() {
    on_both(async |db: Db| {
        let store = ProfileTable::new(db.clone());
        let (ada, bob, eve) = (user(&db, "ada").await, user(&db, "bob").await, user(&db, "eve").await);
        store.follow(eve.id, ada.id, NOW).await.unwrap();
        store.follow(bob.id, ada.id, NOW + 1).await.unwrap();
        store.follow(eve.id, ada.id, NOW + 2).await.unwrap();
        store.follow(ada.id, bob.id, NOW).await.unwrap();
        let followers = store.follows(ada.id, FollowDirection::Followers, all()).await.unwrap();
        assert_eq!(followers, (vec![eve.clone(), bob.clone()], 2));
        assert_eq!(store.follows(ada.id, FollowDirection::Following, all()).await.unwrap(), (vec![bob.clone()], 1));
        let second = store.follows(ada.id, FollowDirection::Followers, Page::nearest(2, 1, 40)).await.unwrap();
        assert_eq!(second, (vec![bob.clone()], 2));
        assert!(store.is_following(bob.id, ada.id).await.unwrap());
        assert!(!store.is_following(bob.id, eve.id).await.unwrap());
        store.unfollow(bob.id, ada.id).await.unwrap();
        store.unfollow(bob.id, ada.id).await.unwrap();
        assert!(!store.is_following(bob.id, ada.id).await.unwrap());
        assert!(matches!(store.follow(ada.id, UserId(999), NOW).await, Err(RepoError::UserNotFound)));
        remove(&db, "eve").await.unwrap();
        assert_eq!(store.follows(ada.id, FollowDirection::Followers, all()).await.unwrap(), (vec![], 0));
    })
    .await;
}

#[tokio::test]
async fn changing_an_account_updates_its_addresses_and_its_index() {
    on_both(async |db: Db| {
        let (accounts, profiles) = (AccountTable::new(db.clone()), ProfileTable::new(db.clone()));
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        add(&db, &ada, &["second@x"]).await.unwrap();
        assert!(verify(&db, &bob, "bobs@x").await.unwrap());
        let set = async |email: &str| change(&db, "ada", |user| user.email = email.to_owned()).await;
        let list = async || listed(&profiles, &ada).await;
        let expect = |rows: &[(&str, bool)]| -> Vec<(String, bool)> {
            rows.iter().map(|&(email, primary)| (email.to_owned(), primary)).collect()
        };
        set("ADA@example.com").await.unwrap();
        assert_eq!(list().await, expect(&[("ADA@example.com", true), ("second@x", false)]));
        set("Second@x").await.unwrap();
        assert_eq!(list().await, expect(&[("Second@x", true)]));
        set("new@x").await.unwrap();
        assert_eq!(list().await, expect(&[("new@x", true)]));
        for taken in ["BOB@example.com", "bobs@x"] {
            assert!(matches!(set(taken).await, Err(RepoError::EmailUsed)), "{taken}");
        }
        assert_eq!(list().await, expect(&[("new@x", true)]));
        assert_eq!(accounts.find("ada", &Viewer::of(None)).await.unwrap().unwrap().email, "new@x");

        change(&db, "ada", |user| user.full_name = "Ünique Name".to_owned()).await.unwrap();
        let text = SearchText::parse_name("üNIQUE", "q").unwrap().unwrap();
        assert_eq!(accounts.search(&text, all()).await.unwrap().1, 1);
        let finds = if db.pick(false, true) {
            count(&db, "SELECT COUNT(*) FROM users_text WHERE users_text MATCH '\"ünique\"'").await
        } else {
            1
        };
        assert_eq!(finds, 1);
        assert!(matches!(change(&db, "unknown", |_| {}).await, Err(RepoError::UserNotFound)));
    })
    .await;
}

#[tokio::test]
async fn a_user_is_deleted_with_all_its_rows() {
    on_both(async |db: Db| {
        let (tokens, public_keys) = (TokenTable::new(db.clone(), IDLE_US), PublicKeyTable::new(db.clone()));
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        add(&db, &ada, &["second@x"]).await.unwrap();
        let hash = TokenHash::of("one");
        let sql = "INSERT INTO access_tokens (user_id, hash, name, name_key, digest, created_us) \
             VALUES ($1, $2, 't', 't', 'd', $3)";
        db.execute(sql, &args![ada.id, hash.0.as_slice(), NOW]).await.unwrap();
        assert_eq!(tokens.identity(&hash, 0).await.unwrap().unwrap().user_id, ada.id.0);
        let mut tx = db.begin().await.unwrap();
        public_keys.insert(&mut tx, ada.id, new_key(&title("t"), &key(1), None), NOW).await.unwrap();
        let locked = lock_user(&mut tx, "ada").await.unwrap().unwrap();
        assert_eq!(users::token_hashes(&mut tx, locked.id()).await.unwrap(), [hash]);
        tx.commit().await.unwrap();

        let repositories = repositories(&db).await;
        let repository = ready(&db, &repositories, &ada, &new("r", "", false), NOW).await.id();
        assert!(matches!(remove(&db, "ada").await, Err(RepoError::OwnsRepositories)));
        let mut tx = db.begin().await.unwrap();
        repositories.delete(&mut tx, repository).await.unwrap();
        tx.commit().await.unwrap();
        let organization = user(&db, "acme").await;
        db.execute("UPDATE users SET kind = 'organization' WHERE id = $1", &args![organization.id]).await.unwrap();
        let sql = "INSERT INTO memberships (organization_id, user_id, is_public, created_us) VALUES ($1, $2, $3, $4)";
        db.execute(sql, &args![organization.id, ada.id, false, NOW]).await.unwrap();
        assert!(matches!(remove(&db, "ada").await, Err(RepoError::BelongsToOrganizations)));
        assert!(matches!(remove(&db, "acme").await, Err(RepoError::UserNotFound)));
        db.execute("DELETE FROM memberships", &[]).await.unwrap();

        remove(&db, "ada").await.unwrap();
        assert!(matches!(remove(&db, "ada").await, Err(RepoError::UserNotFound)));
        assert_eq!(tokens.identity(&hash, 0).await.unwrap(), None);
        for table in ["access_tokens", "public_keys", "key_fingerprints"] {
            assert_eq!(count(&db, &format!("SELECT COUNT(*) FROM {table}")).await, 0, "{table}");
        }
        assert_eq!(count(&db, "SELECT COUNT(*) FROM emails").await, 2);
        add(&db, &bob, &["second@x", "ada@example.com"]).await.unwrap();
        assert!(user(&db, "ada2").await.id > organization.id);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_administrators_who_remove_each_other_one_remains() {
    on_both(async |db: Db| {
        for round in 0..4 {
            let names: Vec<String> = (0..3).map(|number| format!("r{round}u{number}")).collect();
            for name in &names {
                make_administrator(&db, &user(&db, name).await).await;
            }
            let life = ferrite_core::Lifecycle::new(std::time::Duration::from_secs(5));
            let tasks: Vec<_> = names
                .iter()
                .enumerate()
                .map(|(number, name)| {
                    let (db, name) = (db.clone(), name.clone());
                    life.spawn("take away", async move {
                        match number {
                            0 => change(&db, &name, |user| user.is_admin = false).await,
                            1 => change(&db, &name, |user| user.is_active = false).await,
                            _ => remove(&db, &name).await,
                        }
                    })
                })
                .collect();
            let mut refused = 0;
            for task in tasks {
                match task.await.unwrap() {
                    Ok(()) => {}
                    Err(RepoError::LastAdministrator) => refused += 1,
                    other => panic!("{other:?}"),
                }
            }
            let left = count(&db, "SELECT COUNT(*) FROM users WHERE is_admin AND is_active").await;
            assert_eq!((refused, left), (1, 1), "round {round}");
            db.execute("UPDATE users SET is_admin = $1", &args![false]).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn the_log_is_read_newest_first_through_its_filters() {
    on_both(async |db: Db| {
        let store = AuditTable::new(db.clone());
        let actor = |name: &str| Actor { name: name.to_owned(), ..Actor::operator() };
        let mut tx = db.begin().await.unwrap();
        for (place, (who, action, target)) in [
            ("Ada", Action::TeamCreate, Target::team_named(TeamId(1), "Acme", "Core")),
            ("Ada", Action::TeamMemberAdd, Target::team_named(TeamId(1), "Acme", "Core")),
            ("bob", Action::TeamDelete, Target::team_named(TeamId(1), "Acme", "Core")),
            ("bob", Action::KeyAdd, Target::user(UserId(2), "bob")),
        ]
        .into_iter()
        .enumerate()
        {
            let details = &[("n", place.to_string())];
            let entry = Entry { actor: &actor(who), action, target, details };
            append(&mut tx, entry, NOW + place as i64).await.unwrap();
        }
        tx.commit().await.unwrap();
        let list = async |filter: AuditFilter, page| {
            let (rows, total) = store.list(&filter, page).await.unwrap();
            (rows.iter().map(|row| row.details()["n"].clone()).collect::<String>(), total)
        };
        let nothing = AuditFilter::default;
        let some = |text: &str| Some(text.to_owned());
        for (filter, expected) in [
            (nothing(), "3210"),
            (AuditFilter { actor_key: some("ada"), ..nothing() }, "10"),
            (AuditFilter { target_key: some("acme/core"), ..nothing() }, "210"),
            (AuditFilter { action: some("team"), ..nothing() }, "20"),
            (AuditFilter { action: some("team.delete"), ..nothing() }, "2"),
            (AuditFilter { action: some("te%"), ..nothing() }, ""),
            (AuditFilter { action: some("team."), ..nothing() }, ""),
            (AuditFilter { since_us: Some(NOW + 1), until_us: Some(NOW + 3), ..nothing() }, "21"),
            (AuditFilter { actor_key: some("bob"), action: some("key"), ..nothing() }, "3"),
            (AuditFilter { actor_key: some("ada"), target_key: some("bob"), ..nothing() }, ""),
        ] {
            let before = db.statements();
            assert_eq!(list(filter.clone(), all()).await, (expected.to_owned(), expected.len() as i64), "{filter:?}");
            assert_eq!(db.statements() - before, 2);
        }
        assert_eq!(list(nothing(), Page::nearest(2, 3, 100)).await, ("0".to_owned(), 4));
    })
    .await;
}
