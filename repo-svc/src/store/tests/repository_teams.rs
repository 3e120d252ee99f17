//! Teams that hold a repository, and what a user may do by them. On both databases.

use super::organizations::{join, make};
use super::teams::{add, give, owned, team};
use super::*;

#[tokio::test]
async fn the_teams_of_a_repository_are_those_that_hold_it_and_the_owners() {
    on_both(async |db: Db| {
        let store = TeamTable::new(db.clone());
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let (acme, other) = (make(&db, "Acme", &ada).await, make(&db, "other", &ada).await);
        let (devs, ops) = (team(&db, &acme, "Devs", "write").await, team(&db, &acme, "ops", "admin").await);
        team(&db, &other, "devs", "read").await;
        let (demo, tools) = (owned(&db, &acme, "demo", true).await, owned(&db, &acme, "tools", true).await);
        give(&db, &devs, demo).await;
        let list = async |repository: RepositoryId, page: Page| {
            let (rows, total) = store.list_of_repository(acme.id(), repository, Some(bob.id), page).await.unwrap();
            (rows.into_iter().map(|row| row.name).collect::<Vec<_>>(), total)
        };
        assert_eq!(list(demo, all()).await, (vec!["Owners".to_owned(), "Devs".to_owned()], 2));
        assert_eq!(list(demo, Page::nearest(2, 1, 1)).await, (vec!["Devs".to_owned()], 2));
        assert_eq!(list(tools, all()).await, (vec!["Owners".to_owned()], 1));
        let find = async |name: &str| store.find_named(acme.id(), name, Some(ada.id)).await.unwrap();
        let owners = find("OWNERS").await.unwrap();
        assert_eq!((find("dEVS").await.map(|row| row.id), owners.role()), (Some(devs.id), OrganizationRole::Owner));
        for absent in ["dev", "", "a/b", "%"] {
            assert_eq!(find(absent).await, None, "{absent}");
        }
        let mut tx = db.begin().await.unwrap();
        for (team, repository, expected) in [
            (&owners, demo, true),
            (&owners, tools, true),
            (&devs, demo, true),
            (&devs, tools, false),
            (&ops, demo, false),
        ] {
            assert_eq!(store.covers(team.id(), repository).await.unwrap(), expected);
            assert_eq!(store.covers_in(&mut tx, team.id(), repository).await.unwrap(), expected);
        }
        drop(tx);
        let sql = "UPDATE teams SET includes_all_repositories = $2 WHERE id = $1";
        db.execute(sql, &args![ops.id(), true]).await.unwrap();
        assert!(store.covers(ops.id(), tools).await.unwrap());
        assert_eq!(list(tools, all()).await, (vec!["Owners".to_owned(), "ops".to_owned()], 2));
    })
    .await;
}

#[tokio::test]
async fn all_organizations_are_listed_and_the_highest_team_counts() {
    on_both(async |db: Db| {
        let store = OrganizationTable::new(db.clone());
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let (acme, other) = (make(&db, "acme", &ada).await, make(&db, "other", &bob).await);
        team(&db, &acme, "empty", "admin").await;
        let (rows, total) = store.list_all(&viewer(&ada), all()).await.unwrap();
        let listed: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.role())).collect();
        let expected = vec![("acme", OrganizationRole::Owner), ("other", OrganizationRole::Outsider)];
        assert_eq!((listed, total), (expected, 2));
        let (rows, total) = store.list_all(&Viewer::of(None), Page::nearest(2, 1, 1)).await.unwrap();
        assert_eq!((rows.len(), rows[0].id(), total), (1, other.id(), 2));
        db.execute("UPDATE users SET visibility = 2 WHERE id = $1", &args![other.id()]).await.unwrap();
        for (viewer, expected) in [(viewer(&ada), 1), (viewer(&bob), 2), (Viewer::of(None), 1)] {
            let (rows, total) = store.list_all(&viewer, all()).await.unwrap();
            assert_eq!((rows.len() as i64, total), (expected, expected), "{viewer:?}");
        }
        db.execute("UPDATE users SET visibility = 0 WHERE id = $1", &args![other.id()]).await.unwrap();

        join(&db, &acme, &bob, false).await;
        let level = async |user: &User| store.highest_level(acme.id(), user.id).await.unwrap();
        assert_eq!((level(&ada).await, level(&bob).await), (Permission::Owner, Permission::None));
        for (name, permission) in
            [("readers", Permission::Read), ("admins", Permission::Admin), ("writers", Permission::Admin)]
        {
            let word = if name == "writers" { "write".to_owned() } else { permission.to_string() };
            add(&db, &team(&db, &acme, name, &word).await, &bob).await;
            assert_eq!(level(&bob).await, permission, "{name}");
        }
    })
    .await;
}
