//! Stars, watches, and their counts.

use super::*;

fn relations(db: &Db) -> RelationTable {
    RelationTable::new(db.clone())
}

/// The counts of stars and watchers, compared with the rows.
async fn numbers(db: &Db, id: RepositoryId) -> (i64, i64) {
    let sql = "SELECT star_count, watcher_count, (SELECT COUNT(*) FROM stars WHERE repository_id = $1), \
         (SELECT COUNT(*) FROM watches WHERE repository_id = $1) FROM repositories WHERE id = $1";
    let (stars, watchers, star_rows, watch_rows): (i64, i64, i64, i64) = db.one(sql, &args![id]).await.unwrap();
    assert_eq!((stars, watchers), (star_rows, watch_rows));
    (stars, watchers)
}

async fn delete(db: &Db, user: &User) {
    let mut tx = db.begin().await.unwrap();
    let record = lock_user(&mut tx, &user.username.to_lowercase()).await.unwrap().unwrap();
    delete_user(&mut tx, &record).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn the_numbers_are_those_of_the_rows() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let relations = relations(&db);
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let one = ready(&db, &store, &ada, &new("one", "", false), NOW).await.id();
        let two = ready(&db, &store, &ada, &new("two", "", false), NOW).await.id();
        assert_eq!(numbers(&db, one).await, (0, 1));
        for relation in [Relation::Star, Relation::Watch] {
            assert_eq!(relations.find(relation, bob.id, one).await.unwrap(), None);
            for now in [NOW + 1, NOW + 2] {
                assert_eq!(relations.add(relation, bob.id, one, now).await.unwrap(), NOW + 1, "repeated");
            }
            assert_eq!(relations.find(relation, bob.id, one).await.unwrap(), Some(NOW + 1));
            relations.add(relation, bob.id, two, NOW).await.unwrap();
        }
        assert_eq!((numbers(&db, one).await, numbers(&db, two).await), ((1, 2), (1, 2)));
        let watchers = relations.users(Relation::Watch, one, all()).await.unwrap();
        assert_eq!(watchers, [ada.clone(), bob.clone()]);
        for _ in 0..2 {
            relations.remove(Relation::Star, bob.id, two).await.unwrap();
            relations.remove(Relation::Watch, ada.id, two).await.unwrap();
        }
        assert_eq!(numbers(&db, two).await, (0, 1));
        delete(&db, &bob).await;
        assert_eq!((numbers(&db, one).await, numbers(&db, two).await), ((0, 1), (0, 0)));
        let missing = relations.add(Relation::Star, ada.id, RepositoryId(999), NOW).await.unwrap_err();
        assert!(matches!(missing, RepoError::Auth(ferrite_rpc::auth::AuthError::RepositoryNotFound)), "{missing:?}");
        let missing = relations.add(Relation::Star, bob.id, one, NOW).await.unwrap_err();
        assert!(matches!(missing, RepoError::UserNotFound), "{missing:?}");
        relations.add(Relation::Star, ada.id, one, NOW).await.unwrap();
        let mut tx = db.begin().await.unwrap();
        assert!(store.delete(&mut tx, one).await.unwrap());
        tx.commit().await.unwrap();
        let (rows,): (i64,) = db.one("SELECT COUNT(*) FROM stars", &[]).await.unwrap();
        assert_eq!(rows, 0);
    })
    .await;
}

#[tokio::test]
async fn a_deleted_account_is_subtracted_from_more_repositories_than_one_batch_has() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let first = ready(&db, &store, &ada, &new("first", "", false), NOW).await.id();
        let sql = "WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < 2100) \
             INSERT INTO repositories (owner_id, name, name_key, description, description_key, website, state, is_private, \
             is_mirror, is_empty, is_issues_enabled, default_branch, size_bytes, star_count, fork_count, watcher_count, \
             open_issue_count, issues_version, refs_number, created_us, updated_us) \
             SELECT $1, 'n' || i, 'n' || i, '', '', '', 'ready', $2, $2, $2, $2, 'main', 0, 1, 0, 1, 0, 0, 0, i, i FROM numbers";
        db.execute(sql, &args![ada.id, false]).await.unwrap();
        for table in ["stars", "watches"] {
            let sql = format!(
                "INSERT INTO {table} (user_id, repository_id, created_us) SELECT $1, id, 1 FROM repositories WHERE id <> $2"
            );
            db.execute(&sql, &args![bob.id, first]).await.unwrap();
        }
        delete(&db, &bob).await;
        let sql = "SELECT SUM(star_count), SUM(watcher_count) FROM repositories";
        let sql = db.pick(
            "SELECT CAST(SUM(star_count) AS BIGINT), CAST(SUM(watcher_count) AS BIGINT) FROM repositories",
            sql,
        );
        let (stars, watchers): (i64, i64) = db.one(sql, &[]).await.unwrap();
        assert_eq!((stars, watchers), (0, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_star_is_lost_or_counted_twice_when_many_change_at_once() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let ada = user(&db, "ada").await;
        let one = ready(&db, &store, &ada, &new("one", "", false), NOW).await.id();
        let mut users = Vec::new();
        for number in 0..8 {
            users.push(user(&db, &format!("user{number}")).await);
        }
        let life = ferrite_core::Lifecycle::new(std::time::Duration::from_secs(5));
        let mut tasks = Vec::new();
        for (number, user) in users.into_iter().enumerate() {
            let (relations, db) = (relations(&db), db.clone());
            tasks.push(life.spawn("star", async move {
                for round in 0..4 {
                    relations.add(Relation::Star, user.id, one, NOW).await.unwrap();
                    relations.add(Relation::Watch, user.id, one, NOW).await.unwrap();
                    if (number + round) % 2 == 0 {
                        relations.remove(Relation::Star, user.id, one).await.unwrap();
                    }
                }
                if number < 2 {
                    delete(&db, &user).await;
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let (stars, watchers) = numbers(&db, one).await;
        assert_eq!(watchers, 7);
        assert!((0..=6).contains(&stars), "{stars}");
    })
    .await;
}

#[tokio::test]
async fn a_new_repository_is_watched_by_its_owner_or_by_the_user_who_made_it_for_an_organization() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let relations = relations(&db);
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let sql = "INSERT INTO users (kind, name, name_key, full_name, email, is_admin, is_active, created_us) \
             VALUES ('organization', 'acme', 'acme', '', '', $1, $2, 1) RETURNING id";
        let mut tx = db.begin().await.unwrap();
        let (acme,): (i64,) = tx.one(sql, &args![false, true]).await.unwrap();
        tx.commit().await.unwrap();
        for (owner, creator, watcher) in [(ada.id, ada.id, &ada), (ada.id, bob.id, &ada), (UserId(acme), bob.id, &bob)]
        {
            let wanted = NewRepository { creator, ..new(&format!("of{owner}by{creator}"), "", false) };
            let (id, _) = store.insert(owner, &wanted, OwnerLimits::default(), NOW).await.unwrap().unwrap();
            assert_eq!(numbers(&db, id).await, (0, 1));
            assert_eq!(relations.users(Relation::Watch, id, all()).await.unwrap(), std::slice::from_ref(watcher));
        }
    })
    .await;
}

#[tokio::test]
async fn lists_have_the_latest_first_and_only_what_the_viewer_may_see() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let relations = relations(&db);
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let mut ids = Vec::new();
        for (name, is_private) in [("one", false), ("secret", true), ("two", false)] {
            ids.push(ready(&db, &store, &ada, &new(name, "", is_private), NOW).await.id());
        }
        for (now, id) in [(NOW + 3, ids[0]), (NOW + 1, ids[1]), (NOW + 2, ids[2])] {
            relations.add(Relation::Star, ada.id, id, now).await.unwrap();
        }
        let list = async |viewer: &Viewer, page: Page| {
            let (rows, total) = store.list_related(Relation::Star, ada.id, viewer, page).await.unwrap();
            (rows.into_iter().map(|row| row.name).collect::<Vec<_>>().join(" "), total)
        };
        assert_eq!(list(&viewer(&ada), all()).await, ("one two secret".to_owned(), 3));
        assert_eq!(list(&viewer(&bob), all()).await, ("one two".to_owned(), 2));
        assert_eq!(list(&viewer(&bob), Page::nearest(2, 1, 10)).await, ("two".to_owned(), 2));
        assert_eq!(list(&viewer(&bob), Page::nearest(9, 1, 10)).await, (String::new(), 2));
        let (rows, total) = store.list_related(Relation::Star, bob.id, &viewer(&ada), all()).await.unwrap();
        assert_eq!((rows.len(), total), (0, 0));
        let (rows, _) = store.list_related(Relation::Watch, ada.id, &viewer(&bob), all()).await.unwrap();
        assert_eq!(rows.len(), 2);
    })
    .await;
}
