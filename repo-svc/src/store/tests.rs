//! Tests of the tables, on both databases: accounts and repositories here, the rest in other files.

mod account_lists;
mod features;
mod forks;
mod keys;
mod organizations;
mod people;
mod quotas;
mod relations;
mod repository_teams;
mod reviewers;
mod sessions;
mod teams;
mod visibility;

use std::sync::Arc;

use ferrite_core::Secret;
use ferrite_core::page::Page;
use ferrite_db::Db;
use ferrite_db::args;
use ferrite_proto::events::{IssueChanged, RefsUpdated, SizeChanged};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::Identity;
use ferrite_proto::{Permission, Scopes};

use super::*;
use crate::access::Viewer;
use crate::error::RepoError;
use crate::model::{CheckedUser, Description, NewUser, RepoName, RepositorySearch, SearchText, User};
use crate::testing::{default_store, on_both};

mod tokens;

const NOW: i64 = 1_000_000;
/// A session ends after this time without a use.
const IDLE_US: i64 = 500;
fn all() -> Page {
    Page::nearest(1, 100, 100)
}

async fn add_user(db: &Db, name: &str, email: &str) -> Result<User, RepoError> {
    let new = NewUser {
        username: name.into(),
        email: email.into(),
        password: Secret::new("correct horse"),
        full_name: "Full Name".into(),
        is_admin: false,
    };
    let mut tx = db.begin().await?;
    let user = AccountTable::new(db.clone()).insert(&mut tx, &CheckedUser::check(&new)?, "hash", NOW).await?;
    tx.commit().await?;
    Ok(user)
}

async fn user(db: &Db, name: &str) -> User {
    add_user(db, name, &format!("{name}@example.com")).await.unwrap()
}

fn viewer(user: &User) -> Viewer {
    Viewer::of(Some(&Identity {
        user_id: user.id.0,
        token_id: 1,
        is_admin: user.is_admin,
        scopes: Scopes::all().to_proto(),
        ..Identity::default()
    }))
}

fn new(name: &str, description: &str, is_private: bool) -> NewRepository {
    NewRepository {
        // The first account of every test is a user.
        creator: UserId(1),
        name: RepoName::parse(name, "name").unwrap(),
        description: Description::parse(description, "description").unwrap(),
        is_private,
        default_branch: "main".into(),
        store: "default".into(),
    }
}

async fn repositories(db: &Db) -> RepositoryTable {
    let store = RepositoryTable::new(db.clone());
    default_store(db).await;
    store
}

async fn ready(db: &Db, store: &RepositoryTable, owner: &User, new: &NewRepository, now_us: i64) -> Repository {
    let (id, _) = store.insert(owner.id, new, OwnerLimits::default(), now_us).await.unwrap().unwrap();
    let mut tx = db.begin().await.unwrap();
    let finished = CreatedOnDisk { size_bytes: 7, is_empty: true };
    let repository = store.finish(&mut tx, id, finished, &viewer(owner)).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    repository
}

async fn collaborate(db: &Db, repository: RepositoryId, user: &User, permission: &str) {
    let sql = "INSERT INTO collaborators (repository_id, user_id, permission, created_us) VALUES ($1, $2, $3, $4)";
    db.execute(sql, &args![repository, user.id, permission, NOW]).await.unwrap();
}

fn names(rows: &(Vec<Repository>, i64)) -> Vec<&str> {
    assert_eq!(rows.0.len() as i64, rows.1);
    rows.0.iter().map(|row| row.name.as_str()).collect()
}

fn refs(number: i64, size_bytes: i64, branch: &[u8]) -> RefsUpdated {
    RefsUpdated { number, size_bytes, is_empty: false, default_branch: branch.to_vec(), ..RefsUpdated::default() }
}

async fn count(db: &Db, sql: &str) -> i64 {
    db.one::<(i64,)>(sql, &[]).await.unwrap().0
}

#[tokio::test]
async fn accounts_are_unique_by_name_and_by_address_without_case() {
    on_both(async |db: Db| {
        let store = AccountTable::new(db.clone());
        let mut tx = db.begin().await.unwrap();
        assert!(store.is_empty(&mut tx).await.unwrap());
        drop(tx);
        let ada = add_user(&db, "Ada", "Ada@Example.com").await.unwrap();
        let mut tx = db.begin().await.unwrap();
        assert!(!store.is_empty(&mut tx).await.unwrap());
        drop(tx);
        assert!(
            matches!(add_user(&db, "aDA", "x@example.com").await, Err(RepoError::UserExists(name)) if name == "aDA")
        );
        assert!(matches!(add_user(&db, "eve", "ADA@example.COM").await, Err(RepoError::EmailUsed)));
        assert_eq!(store.find("ada", &Viewer::of(None)).await.unwrap(), Some(ada.clone()));
        assert_eq!(store.find("eve", &Viewer::of(None)).await.unwrap(), None);
        assert_eq!((ada.username.as_str(), ada.email.as_str()), ("Ada", "Ada@Example.com"));
    })
    .await;
}

#[tokio::test]
async fn users_sign_in_by_name_or_address_and_organizations_do_not() {
    on_both(async |db: Db| {
        let store = AccountTable::new(db.clone());
        let ada = user(&db, "ada").await;
        for login in ["ADA", "ada@EXAMPLE.com"] {
            let found = store.login(login).await.unwrap().unwrap();
            assert_eq!((found.user.id, found.is_active, found.password_hash.as_deref()), (ada.id, true, Some("hash")));
        }
        assert!(store.login("unknown").await.unwrap().is_none());
        db.execute("UPDATE users SET kind = 'organization' WHERE id = $1", &args![ada.id]).await.unwrap();
        assert!(store.login("ada").await.unwrap().is_none());
        assert!(store.find("ada", &Viewer::of(None)).await.unwrap().unwrap().is_organization);
    })
    .await;
}

#[tokio::test]
async fn many_accounts_are_found_at_once_and_each_once() {
    on_both(async |db: Db| {
        let store = AccountTable::new(db.clone());
        let (ada, bob, eve) = (user(&db, "ada").await, user(&db, "bob").await, user(&db, "eve").await);
        let asked = AccountQuery {
            ids: vec![ada.id.0, 999],
            name_keys: vec!["ada".into(), "bob".into()],
            email_keys: vec!["eve@example.com".into()],
        };
        assert_eq!(store.find_many(asked, &Viewer::of(None)).await.unwrap().users, [ada, bob, eve]);
        assert_eq!(store.find_many(AccountQuery::default(), &Viewer::of(None)).await.unwrap().users, []);
    })
    .await;
}

#[tokio::test]
async fn a_repository_is_seen_once_it_is_finished() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let ada = user(&db, "ada").await;
        let wanted = new("Demo", "A demo", false);
        let key = RepositoryKey::of("ADA", "demo").unwrap();
        let (id, epoch) = store.insert(ada.id, &wanted, OwnerLimits::default(), NOW).await.unwrap().unwrap();
        assert_eq!(store.find(&key, &viewer(&ada)).await.unwrap(), None);
        assert!(store.is_name_in_creation(ada.id, &wanted.name).await.unwrap() && store.is_creating(id).await.unwrap());
        assert_eq!(store.insert(ada.id, &new("dEMO", "", true), OwnerLimits::default(), NOW).await.unwrap(), None);
        assert_eq!(store.unfinished(NOW).await.unwrap(), []);
        assert_eq!(store.unfinished(NOW + 1).await.unwrap(), [(id, "default".to_owned())]);

        let mut tx = db.begin().await.unwrap();
        let finished = CreatedOnDisk { size_bytes: 9, is_empty: false };
        let made = store.finish(&mut tx, id, finished, &viewer(&ada)).await.unwrap().unwrap();
        tx.commit().await.unwrap();
        assert_eq!(
            (made.size_bytes, made.is_empty, made.watcher_count, made.store.as_str(), made.epoch),
            (9, false, 1, "default", epoch)
        );
        assert_eq!(store.find(&key, &viewer(&ada)).await.unwrap(), Some(made.clone()));
        assert_eq!(store.find(&RepositoryKey::Id(id), &viewer(&ada)).await.unwrap(), Some(made));
        assert!(
            !store.is_name_in_creation(ada.id, &wanted.name).await.unwrap() && !store.is_creating(id).await.unwrap()
        );
        store.delete_unfinished(id).await.unwrap();
        assert!(store.find(&key, &viewer(&ada)).await.unwrap().is_some(), "a finished creation is not deleted");
    })
    .await;
}

#[tokio::test]
async fn a_repository_is_finished_while_its_name_is_asked_for_again() {
    on_both(async |db: Db| {
        // SQLite has a single writer: the second transaction would wait before it begins.
        if db.pick(false, true) {
            return;
        }
        let (store, ada) = (repositories(&db).await, user(&db, "ada").await);
        let wanted = new("demo", "", false);
        let (id, _) = store.insert(ada.id, &wanted, OwnerLimits::default(), NOW).await.unwrap().unwrap();
        let mut first = db.begin().await.unwrap();
        first.execute("UPDATE repositories SET state = 'ready' WHERE id = $1", &args![id]).await.unwrap();
        let locked = tokio::sync::Notify::new();
        let again = async {
            let mut second = db.begin().await.unwrap();
            super::repositories::lock_owner(&mut second, ada.id, OwnerLimits::default()).await.unwrap();
            locked.notify_one();
            let inserted = store.insert_in(&mut second, ada.id, &wanted, OwnerLimits::default(), NOW).await;
            second.commit().await.unwrap();
            inserted.unwrap()
        };
        let finish = async {
            locked.notified().await;
            // The first usage row references the account.
            let usage = "INSERT INTO owner_quotas (owner_id, used_bytes) VALUES ($1, 9)";
            first.execute(usage, &args![ada.id]).await.unwrap();
            first.commit().await.unwrap();
        };
        let (inserted, ()) = tokio::join!(again, finish);
        assert_eq!(inserted, None, "the name is taken");
    })
    .await;
}

#[tokio::test]
async fn an_unfinished_repository_frees_its_name_and_not_its_id() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let ada = user(&db, "ada").await;
        let (id, _) =
            store.insert(ada.id, &new("demo", "", false), OwnerLimits::default(), NOW).await.unwrap().unwrap();
        store.delete_unfinished(id).await.unwrap();
        let mut tx = db.begin().await.unwrap();
        let finished = CreatedOnDisk { size_bytes: 0, is_empty: true };
        assert_eq!(store.finish(&mut tx, id, finished, &viewer(&ada)).await.unwrap(), None);
        drop(tx);
        let (again, _) =
            store.insert(ada.id, &new("demo", "", false), OwnerLimits::default(), NOW).await.unwrap().unwrap();
        assert!(again > id);
        store.release_name(again).await.unwrap();
        let third = ready(&db, &store, &ada, &new("demo", "", false), NOW).await;
        store.release_name(third.id()).await.unwrap();
        assert_eq!(store.unfinished(NOW + 1).await.unwrap(), [(again, "default".to_owned())]);
        assert!(store.find(&RepositoryKey::of("ada", "demo").unwrap(), &viewer(&ada)).await.unwrap().is_some());
    })
    .await;
}

#[tokio::test]
async fn deleting_a_repository_removes_all_its_rows() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let repository = ready(&db, &store, &ada, &new("demo", "", false), NOW).await;
        collaborate(&db, repository.id(), &bob, "read").await;
        let mut tx = db.begin().await.unwrap();
        assert!(store.delete(&mut tx, repository.id()).await.unwrap());
        assert!(!store.delete(&mut tx, repository.id()).await.unwrap());
        tx.commit().await.unwrap();
        for table in [
            "SELECT COUNT(*) FROM repositories",
            "SELECT COUNT(*) FROM placements",
            "SELECT COUNT(*) FROM collaborators",
        ] {
            assert_eq!(db.one::<(i64,)>(table, &[]).await.unwrap(), (0,), "{table}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_row_has_the_levels_of_its_viewer() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob, eve) = (user(&db, "ada").await, user(&db, "bob").await, user(&db, "eve").await);
        let repository = ready(&db, &store, &ada, &new("secret", "", true), NOW).await;
        collaborate(&db, repository.id(), &bob, "write").await;
        let key = RepositoryKey::Id(repository.id());
        for (viewer, level) in [
            (&viewer(&ada), Permission::Owner),
            (&viewer(&bob), Permission::Write),
            (&viewer(&eve), Permission::None),
            (&Viewer::of(None), Permission::None),
        ] {
            assert_eq!(store.find(&key, viewer).await.unwrap().unwrap().level(viewer), level);
        }
    })
    .await;
}

#[tokio::test]
async fn lists_have_visible_repositories_last_updated_first() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        ready(&db, &store, &ada, &new("old", "", false), NOW).await;
        let shared = ready(&db, &store, &ada, &new("shared", "", true), NOW + 1).await;
        ready(&db, &store, &ada, &new("hidden", "", true), NOW + 2).await;
        ready(&db, &store, &ada, &new("twin", "", false), NOW + 2).await;
        ready(&db, &store, &bob, &new("bobs", "", true), NOW + 9).await;
        collaborate(&db, shared.id(), &bob, "read").await;
        let admin = Viewer::of(Some(&Identity {
            user_id: 999,
            is_admin: true,
            token_id: 1,
            scopes: Scopes::all().to_proto(),
            ..Identity::default()
        }));
        let list = async |owner: Option<&User>, viewer: Viewer| {
            store.list(owner.map(|owner| owner.id), &viewer, all()).await.unwrap()
        };
        assert_eq!(names(&list(Some(&ada), viewer(&ada)).await), ["twin", "hidden", "shared", "old"]);
        assert_eq!(names(&list(Some(&ada), viewer(&bob)).await), ["twin", "shared", "old"]);
        assert_eq!(names(&list(Some(&ada), Viewer::of(None)).await), ["twin", "old"]);
        assert_eq!(names(&list(Some(&ada), admin.clone()).await), ["twin", "hidden", "shared", "old"]);
        assert_eq!(names(&list(None, viewer(&bob)).await), ["bobs", "shared"]);
        assert_eq!(names(&list(None, admin).await), Vec::<&str>::new());
        let second = store.list(Some(ada.id), &viewer(&ada), Page::nearest(2, 3, 1000)).await.unwrap();
        assert_eq!((second.0.len(), second.0[0].name.as_str(), second.1), (1, "old", 4));
        let beyond = store.list(Some(ada.id), &viewer(&ada), Page::nearest(i32::MAX, i32::MAX, 1000)).await.unwrap();
        assert_eq!((beyond.0.len(), beyond.1), (0, 4));
    })
    .await;
}

#[tokio::test]
async fn search_is_literal_and_shows_visible_repositories_only() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        ready(&db, &store, &ada, &new("Demo_one", "Ein GRÜSS", false), NOW).await;
        ready(&db, &store, &ada, &new("demoXone", "100% done!", false), NOW).await;
        ready(&db, &store, &bob, &new("demo-secret", "", true), NOW).await;
        let search = async |query: &str, owner: Option<UserId>, viewer: &Viewer| {
            let text = SearchText::parse(query, "q").unwrap();
            let search = RepositorySearch { text, owner, ..RepositorySearch::default() };
            let rows = store.search(&search, viewer, all()).await.unwrap().repositories;
            rows.into_iter().map(|row| row.name).collect::<Vec<_>>()
        };
        let anonymous = Viewer::of(None);
        assert_eq!(search("", None, &anonymous).await, ["Demo_one", "demoXone"]);
        assert_eq!(search("%_", None, &anonymous).await, ["Demo_one", "demoXone"]);
        assert_eq!(search("DEMO_", None, &anonymous).await, ["Demo_one"]);
        assert_eq!(search("0% d", None, &anonymous).await, ["demoXone"]);
        assert_eq!(search("e!", None, &anonymous).await, ["demoXone"]);
        assert_eq!(search("grüss", None, &anonymous).await, ["Demo_one"]);
        assert_eq!(search("demo", None, &viewer(&bob)).await, ["Demo_one", "demoXone", "demo-secret"]);
        assert_eq!(search("Bob/demo", None, &viewer(&bob)).await, ["demo-secret"]);
        assert_eq!(search("demo", Some(bob.id), &anonymous).await, Vec::<String>::new());
        assert_eq!(search("", Some(UserId(999)), &viewer(&bob)).await, Vec::<String>::new());
        assert_eq!(search("' OR 1=1 --", None, &viewer(&bob)).await, Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn late_and_repeated_events_change_nothing() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let ada = user(&db, "ada").await;
        let id = ready(&db, &store, &ada, &new("demo", "", false), NOW).await.id();
        let mut tx = db.begin().await.unwrap();
        store.apply_refs(&mut tx, id, &refs(2, 200, b"trunk"), NOW + 20).await.unwrap();
        store.apply_refs(&mut tx, id, &refs(1, 100, b"old"), NOW + 30).await.unwrap();
        store.apply_refs(&mut tx, id, &refs(2, 999, b"old"), NOW + 30).await.unwrap();
        store
            .apply_issues(&mut tx, id, &IssueChanged { open_issue_count: 5, version: 3, ..Default::default() })
            .await
            .unwrap();
        store
            .apply_issues(&mut tx, id, &IssueChanged { open_issue_count: 9, version: 3, ..Default::default() })
            .await
            .unwrap();
        store.apply_refs(&mut tx, RepositoryId(999), &refs(1, 1, b"x"), NOW).await.unwrap();
        tx.commit().await.unwrap();
        let row = store.find(&RepositoryKey::Id(id), &viewer(&ada)).await.unwrap().unwrap();
        assert_eq!((row.size_bytes, row.is_empty, row.default_branch.as_str()), (200, false, "trunk"));
        assert_eq!((row.updated_us, row.open_issue_count), (NOW + 20, 5));

        let mut tx = db.begin().await.unwrap();
        store.apply_refs(&mut tx, id, &refs(3, 300, b"b\xffd"), NOW).await.unwrap();
        tx.commit().await.unwrap();
        let row = store.find(&RepositoryKey::Id(id), &viewer(&ada)).await.unwrap().unwrap();
        assert_eq!((row.size_bytes, row.default_branch.as_str(), row.updated_us), (300, "trunk", NOW + 20));
    })
    .await;
}

#[tokio::test]
async fn a_size_counts_unless_a_later_update_was_applied() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let ada = user(&db, "ada").await;
        let id = ready(&db, &store, &ada, &new("demo", "", false), NOW).await.id();
        let mut tx = db.begin().await.unwrap();
        store.apply_refs(&mut tx, id, &refs(2, 200, b"trunk"), NOW + 20).await.unwrap();
        for (number, size_bytes) in [(2, 120), (1, 999)] {
            store.apply_size(&mut tx, id, &SizeChanged { size_bytes, number }).await.unwrap();
        }
        tx.commit().await.unwrap();
        let row = store.find(&RepositoryKey::Id(id), &viewer(&ada)).await.unwrap().unwrap();
        assert_eq!((row.size_bytes, row.updated_us), (120, NOW + 20));
    })
    .await;
}

#[tokio::test]
async fn the_event_of_the_first_commit_may_come_before_the_response() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let ada = user(&db, "ada").await;
        let (id, _) =
            store.insert(ada.id, &new("demo", "", false), OwnerLimits::default(), NOW).await.unwrap().unwrap();
        let mut tx = db.begin().await.unwrap();
        store.apply_refs(&mut tx, id, &refs(1, 500, b"main"), NOW + 1).await.unwrap();
        let finished = CreatedOnDisk { size_bytes: 100, is_empty: true };
        let row = store.finish(&mut tx, id, finished, &viewer(&ada)).await.unwrap().unwrap();
        assert_eq!((row.size_bytes, row.is_empty), (500, false));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_limit_holds_for_concurrent_creations() {
    on_both(async |db: Db| {
        let store = Arc::new(repositories(&db).await);
        let ada = user(&db, "ada").await;
        let life = ferrite_core::Lifecycle::new(std::time::Duration::from_secs(5));
        let tasks: Vec<_> = (0..8)
            .map(|number| {
                let (store, owner) = (Arc::clone(&store), ada.id);
                let wanted = new(&format!("r{number}"), "", false);
                let limits = OwnerLimits { repositories: Some(3), ..OwnerLimits::default() };
                life.spawn("create", async move { store.insert(owner, &wanted, limits, NOW).await })
            })
            .collect();
        let mut made = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(Some(_)) => made += 1,
                Err(RepoError::RepositoryLimit { used: 3, limit: 3 }) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(made, 3);
    })
    .await;
}
