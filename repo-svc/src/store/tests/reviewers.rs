//! Levels of many users at once, and the users with a role. On both databases.

use super::organizations::{join, make, show};
use super::teams::{add, give, owned, team};
use super::*;

const DONE: CreatedOnDisk = CreatedOnDisk { size_bytes: 7, is_empty: true };
const INCLUDE_ALL: &str = "UPDATE teams SET includes_all_repositories = $2 WHERE id = $1";

async fn row(store: &RepositoryTable, id: RepositoryId) -> Repository {
    store.find(&RepositoryKey::Id(id), &Viewer::of(None)).await.unwrap().unwrap()
}

async fn fork(db: &Db, store: &RepositoryTable, owner: &User, parent: RepositoryId) -> RepositoryId {
    let (id, _) = store
        .insert_fork(owner.id, &new("fork", "", true), parent, OwnerLimits::default(), NOW)
        .await
        .unwrap()
        .unwrap();
    let mut tx = db.begin().await.unwrap();
    let (made, _) = store.finish_fork(&mut tx, id, parent, DONE, &viewer(owner)).await.unwrap();
    tx.commit().await.unwrap();
    assert!(made.is_private);
    id
}

async fn disable(db: &Db, user: &User) {
    db.execute("UPDATE users SET is_active = $2 WHERE id = $1", &args![user.id, false]).await.unwrap();
}

/// The levels of users, who are ordered by id. Checks that each has the level that it has alone.
async fn levels(store: &RepositoryTable, id: RepositoryId, users: &[&User]) -> Vec<Permission> {
    let ids: Vec<_> = users.iter().map(|user| user.id.0).collect();
    let mut found = store.reviewers(&row(store, id).await, &ids, &[]).await.unwrap();
    found.sort_by_key(|reviewer| reviewer.id.0);
    assert_eq!(found.iter().map(|reviewer| reviewer.id.0).collect::<Vec<_>>(), ids);
    for (user, reviewer) in users.iter().zip(&found) {
        let alone = Viewer::account(user.id, false);
        let row = store.find(&RepositoryKey::Id(id), &alone).await.unwrap().unwrap();
        assert_eq!(reviewer.level, row.level(&alone), "{} on {}", user.username, row.name);
    }
    found.into_iter().map(|reviewer| reviewer.level).collect()
}

#[tokio::test]
async fn the_levels_of_many_users_are_those_of_each() {
    use Permission::{Admin, None, Owner, Read, Write};
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob, carol) = (user(&db, "ada").await, user(&db, "bob").await, user(&db, "carol").await);
        let (dave, eve, root) = (user(&db, "dave").await, user(&db, "eve").await, user(&db, "root").await);
        let users = [&ada, &bob, &carol, &dave, &eve, &root];
        db.execute("UPDATE users SET is_admin = $2 WHERE id = $1", &args![root.id, true]).await.unwrap();
        let acme = make(&db, "acme", &ada).await;
        let (open, secret) = (owned(&db, &acme, "open", false).await, owned(&db, &acme, "secret", true).await);
        let devs = team(&db, &acme, "devs", "write").await;
        join(&db, &acme, &bob, false).await;
        join(&db, &acme, &dave, false).await;
        add(&db, &devs, &dave).await;
        give(&db, &devs, secret).await;
        collaborate(&db, secret, &carol, "read").await;
        // Of carol and of dave, whose parents others do not read.
        let once = fork(&db, &store, &carol, secret).await;
        collaborate(&db, once, &dave, "admin").await;
        collaborate(&db, once, &eve, "write").await;
        let twice = fork(&db, &store, &dave, once).await;
        collaborate(&db, twice, &carol, "read").await;
        collaborate(&db, twice, &eve, "write").await;
        for (visibility, of_open) in [
            (0, [Owner, Read, Read, Read, Read, Read]),
            (1, [Owner, Read, Read, Read, Read, Read]),
            (2, [Owner, Read, None, Read, None, None]),
        ] {
            db.execute("UPDATE users SET visibility = $2 WHERE id = $1", &args![acme.id(), visibility]).await.unwrap();
            assert_eq!(levels(&store, open, &users).await, of_open, "{visibility}");
            assert_eq!(levels(&store, secret, &users).await, [Owner, None, Read, Write, None, None]);
            assert_eq!(levels(&store, once, &users).await, [None, None, Owner, Admin, None, None]);
            assert_eq!(levels(&store, twice, &users).await, [None, None, Read, Owner, None, None]);
        }
        db.execute("UPDATE repositories SET is_private = $2 WHERE id = $1", &args![secret, false]).await.unwrap();
        // The organization is still private.
        assert_eq!(levels(&store, once, &users).await, [None, None, Owner, Admin, None, None]);
        db.execute("UPDATE users SET visibility = $2 WHERE id = $1", &args![acme.id(), 1]).await.unwrap();
        assert_eq!(levels(&store, once, &users).await, [None, None, Owner, Admin, Write, None]);
    })
    .await;
}

#[tokio::test]
async fn reviewers_are_active_users_with_their_teams() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob, dave) = (user(&db, "ada").await, user(&db, "Bob").await, user(&db, "dave").await);
        let (acme, other) = (make(&db, "acme", &ada).await, make(&db, "other", &ada).await);
        let demo = owned(&db, &acme, "demo", true).await;
        let (devs, idle, every) = (
            team(&db, &acme, "Devs", "write").await,
            team(&db, &acme, "idle", "write").await,
            team(&db, &acme, "every", "read").await,
        );
        let abroad = team(&db, &other, "devs", "write").await;
        db.execute(INCLUDE_ALL, &args![every.id(), true]).await.unwrap();
        give(&db, &devs, demo).await;
        join(&db, &acme, &bob, false).await;
        join(&db, &other, &bob, false).await;
        for team in [&every, &devs, &idle, &abroad] {
            add(&db, team, &bob).await;
        }
        let repository = row(&store, demo).await;
        let find = async |ids: &[i64], names: &[&str]| {
            let mut found = store.reviewers(&repository, ids, names).await.unwrap();
            found.sort_by_key(|reviewer| reviewer.id.0);
            found.into_iter().map(|reviewer| (reviewer.name_key, reviewer.team_ids)).collect::<Vec<_>>()
        };
        let of_bob = ("bob".to_owned(), vec![devs.id, every.id]);
        let of_dave = ("dave".to_owned(), Vec::new());
        let asked = [bob.id.0, acme.id().0, 999, bob.id.0];
        assert_eq!(find(&asked, &["dave", "bob", "acme", "nobody"]).await, [of_bob.clone(), of_dave.clone()]);
        assert_eq!(find(&[], &["dave"]).await, [of_dave]);
        assert_eq!(find(&[bob.id.0], &[]).await, [of_bob]);
        assert_eq!(find(&[], &[]).await, []);
        disable(&db, &bob).await;
        assert_eq!(find(&[bob.id.0], &["bob"]).await, []);

        let mut teams =
            store.reviewing_teams(&repository, &["devs", "idle", "owners", "nobody", "devs"]).await.unwrap();
        teams.sort_by_key(|team| team.id);
        let teams: Vec<_> = teams.iter().map(|team| (team.name.as_str(), team.id, team.holds)).collect();
        let owners = TeamTable::new(db.clone()).find_named(acme.id(), "owners", None).await.unwrap().unwrap();
        assert_eq!(teams, [("Owners", owners.id, true), ("Devs", devs.id, true), ("idle", idle.id, false)]);
        assert_eq!(store.reviewing_teams(&repository, &[]).await.unwrap(), []);
        let own = ready(&db, &store, &dave, &new("own", "", false), NOW).await;
        assert_eq!(store.reviewing_teams(&own, &["devs"]).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn assignees_have_a_role_and_are_listed_once() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob, carol) = (user(&db, "ada").await, user(&db, "bob").await, user(&db, "carol").await);
        let (dave, eve) = (user(&db, "dave").await, user(&db, "eve").await);
        let acme = make(&db, "acme", &ada).await;
        let demo = owned(&db, &acme, "demo", true).await;
        let devs = team(&db, &acme, "devs", "read").await;
        give(&db, &devs, demo).await;
        for member in [&bob, &carol, &dave] {
            join(&db, &acme, member, false).await;
        }
        for member in [&dave, &carol] {
            add(&db, &devs, member).await;
        }
        for member in [&ada, &dave] {
            show(&db, &acme, member).await;
        }
        let list = async |id: RepositoryId, with_private_members, page| {
            let (rows, total) = store.assignees(&row(&store, id).await, with_private_members, page).await.unwrap();
            (rows.into_iter().map(|user| user.username).collect::<Vec<_>>(), total)
        };
        let expected = |names: &[&str], total| (names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), total);
        assert_eq!(list(demo, true, all()).await, expected(&["ada", "carol", "dave"], 3));
        assert_eq!(list(demo, true, Page::nearest(2, 2, 100)).await, expected(&["dave"], 3));
        assert_eq!(list(demo, false, all()).await, expected(&["ada", "dave"], 2));
        for collaborator in [&carol, &dave, &eve] {
            collaborate(&db, demo, collaborator, "read").await;
        }
        assert_eq!(list(demo, false, all()).await, expected(&["ada", "carol", "dave", "eve"], 4));
        disable(&db, &dave).await;
        assert_eq!(list(demo, true, all()).await, expected(&["ada", "carol", "eve"], 3));

        let fork = fork(&db, &store, &carol, demo).await;
        collaborate(&db, fork, &eve, "read").await;
        collaborate(&db, fork, &bob, "write").await;
        assert_eq!(list(fork, true, all()).await, expected(&["carol", "eve"], 2), "bob does not read the parent");
    })
    .await;
}
