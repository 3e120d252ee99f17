//! Hidden organizations with their repositories, on both databases.

use ferrite_proto::Scope;
use ferrite_proto::repo::{UpdateOrganizationRequest, Visibility as Shown};

use super::organizations::{join, make};
use super::*;
use crate::access::Unit;
use crate::model::OrganizationChange;

const DONE: CreatedOnDisk = CreatedOnDisk { size_bytes: 7, is_empty: false };

async fn show_to(db: &Db, organization: &Organization, visibility: Shown) {
    let store = OrganizationTable::new(db.clone());
    let request = UpdateOrganizationRequest { visibility: Some(visibility.into()), ..Default::default() };
    let change = OrganizationChange::check(&request).unwrap();
    let mut tx = db.begin().await.unwrap();
    let old = store.reload(&mut tx, organization.id(), None).await.unwrap().unwrap();
    assert_eq!(store.update(&mut tx, &old, &change).await.unwrap(), ["visibility"]);
    let new = store.reload(&mut tx, organization.id(), None).await.unwrap().unwrap();
    assert!(store.update(&mut tx, &new, &change).await.unwrap().is_empty());
    tx.commit().await.unwrap();
}

async fn owned(db: &Db, store: &RepositoryTable, owner: UserId, name: &str, is_private: bool) -> Repository {
    let (id, _) = store.insert(owner, &new(name, "", is_private), OwnerLimits::default(), NOW).await.unwrap().unwrap();
    let mut tx = db.begin().await.unwrap();
    let made = store.finish(&mut tx, id, DONE, &Viewer::of(None)).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    made
}

fn token(user: &User, scopes: &[Scope], only: Option<&[i64]>) -> Viewer {
    Viewer::of(Some(&Identity {
        user_id: user.id.0,
        token_id: 1,
        scopes: scopes.iter().copied().collect::<Scopes>().to_proto(),
        is_limited: only.is_some(),
        repository_ids: only.unwrap_or_default().to_vec(),
        ..Identity::default()
    }))
}

/// The names of the repositories that a viewer sees. Checks that all ways to ask agree.
async fn seen(store: &RepositoryTable, rows: &[&Repository], viewer: &Viewer) -> Vec<String> {
    let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
    let found = store.find_many_visible(&ids, viewer).await.unwrap();
    let searched = store.search(&RepositorySearch::default(), viewer, all()).await.unwrap();
    assert_eq!((searched.repositories.len(), searched.total), (found.len(), found.len() as i64));
    let keys: Vec<_> = rows.iter().map(|row| RepositoryKey::Id(row.id())).collect();
    let with_issues = store.find_with_issues(keys.iter(), false, viewer).await.unwrap();
    let mut names = Vec::new();
    for row in rows {
        let one = store.find(&RepositoryKey::Id(row.id()), viewer).await.unwrap().unwrap();
        let level = one.level(viewer);
        let issues = with_issues.iter().find(|found| found.id == row.id).unwrap();
        assert_eq!(level, issues.access().level(viewer, Unit::Repository), "{}", row.name);
        assert_eq!(level >= Permission::Read, found.iter().any(|found| found.id == row.id), "{}", row.name);
        assert_eq!(level >= Permission::Read, searched.repositories.iter().any(|found| found.id == row.id));
        let (listed, _) = store.list(Some(UserId(row.owner_id)), viewer, all()).await.unwrap();
        assert_eq!(level >= Permission::Read, listed.iter().any(|found| found.id == row.id), "{}", row.name);
        names.extend((level >= Permission::Read).then(|| row.name.clone()));
    }
    names
}

#[tokio::test]
async fn repositories_are_seen_by_those_who_see_their_organization() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let (dave, eve) = (user(&db, "dave").await, user(&db, "eve").await);
        let (acme, club) = (make(&db, "acme", &ada).await, make(&db, "club", &ada).await);
        join(&db, &acme, &bob, false).await;
        show_to(&db, &acme, Shown::Private).await;
        show_to(&db, &club, Shown::Limited).await;
        let lib = owned(&db, &store, acme.id(), "lib", false).await;
        let secret = owned(&db, &store, acme.id(), "secret", true).await;
        let rules = owned(&db, &store, club.id(), "rules", false).await;
        let cash = owned(&db, &store, club.id(), "cash", true).await;
        let open = owned(&db, &store, ada.id, "open", false).await;
        collaborate(&db, lib.id(), &dave, "read").await;
        let rows = [&lib, &secret, &rules, &cash, &open];
        let admin = User { is_admin: true, ..eve.clone() };
        let everything = ["lib", "secret", "rules", "cash", "open"];
        for (viewer, expected) in [
            (viewer(&ada), &everything[..]),
            (viewer(&admin), &everything),
            (viewer(&bob), &["lib", "rules", "open"]),
            (viewer(&dave), &["lib", "rules", "open"]),
            (viewer(&eve), &["rules", "open"]),
            (token(&bob, &[Scope::Org], None), &["rules", "open"]),
            (token(&bob, &[Scope::RepoRead], None), &["lib", "rules", "open"]),
            (token(&bob, &Scope::ALL, Some(&[open.id])), &["rules", "open"]),
            (token(&bob, &Scope::ALL, Some(&[lib.id])), &["lib", "rules", "open"]),
            (Viewer::of(None), &["open"]),
        ] {
            assert_eq!(seen(&store, &rows, &viewer).await, expected, "{viewer:?}");
        }
        show_to(&db, &acme, Shown::Public).await;
        assert_eq!(seen(&store, &rows, &Viewer::of(None)).await, ["lib", "open"]);
    })
    .await;
}

#[tokio::test]
async fn a_hidden_organization_is_found_by_those_who_may_see_it() {
    on_both(async |db: Db| {
        let (organizations, accounts) = (OrganizationTable::new(db.clone()), AccountTable::new(db.clone()));
        let avatars = AvatarTable::new(db.clone());
        let (ada, bob, eve) = (user(&db, "ada").await, user(&db, "bob").await, user(&db, "eve").await);
        let (acme, club) = (make(&db, "acme", &ada).await, make(&db, "club", &ada).await);
        join(&db, &acme, &bob, false).await;
        show_to(&db, &acme, Shown::Private).await;
        show_to(&db, &club, Shown::Limited).await;
        let admin = User { is_admin: true, ..eve.clone() };
        for (viewer, expected) in [
            (viewer(&bob), &["acme", "club"][..]),
            (viewer(&admin), &["acme", "club"]),
            (token(&bob, &[], None), &["acme", "club"]),
            (token(&bob, &Scope::ALL, Some(&[1])), &["club"]),
            (viewer(&eve), &["club"]),
            (Viewer::deploy_key(&[(RepositoryId(1), Permission::Write)]), &[]),
            (Viewer::of(None), &[]),
        ] {
            for (organization, name) in [(&acme, "acme"), (&club, "club")] {
                let is_seen = expected.contains(&name);
                let id = organization.id();
                assert_eq!(organizations.find(name, &viewer).await.unwrap().is_some(), is_seen, "{viewer:?}");
                assert_eq!(accounts.find(name, &viewer).await.unwrap().is_some(), is_seen, "{viewer:?}");
                assert_eq!(accounts.find_active(id, &viewer).await.unwrap().is_some(), is_seen, "{viewer:?}");
                let avatar = avatars.find(id, &viewer).await.unwrap();
                assert_eq!(avatar.map(|avatar| avatar.is_hidden()), is_seen.then_some(true), "{viewer:?}");
            }
            let (listed, total) = organizations.list(ada.id, &viewer, MembershipFilter::All, all()).await.unwrap();
            let listed: Vec<_> = listed.into_iter().map(|row| row.name).collect();
            assert_eq!(
                (listed, total),
                (expected.iter().map(|name| (*name).to_owned()).collect(), expected.len() as i64)
            );
            let ids = vec![ada.id.0, acme.id, club.id];
            let found = accounts.find_many(AccountQuery { ids, ..AccountQuery::default() }, &viewer).await.unwrap();
            let found: Vec<_> = found.users.iter().map(|user| user.username.as_str()).collect();
            assert_eq!(found, [&["ada"][..], expected].concat(), "{viewer:?}");
        }
        assert!(!avatars.find(ada.id, &Viewer::of(None)).await.unwrap().unwrap().is_hidden());
        assert!(matches!(add_user(&db, "ACME", "x@example.com").await, Err(RepoError::UserExists(_))));
    })
    .await;
}

#[tokio::test]
async fn a_fork_of_a_hidden_organizations_repository_is_private_and_hidden_with_it() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let organizations = OrganizationTable::new(db.clone());
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let acme = make(&db, "acme", &ada).await;
        join(&db, &acme, &bob, false).await;
        let lib = owned(&db, &store, acme.id(), "lib", false).await;
        let new_fork = new("fork", "", false);
        let (id, _) =
            store.insert_fork(bob.id, &new_fork, lib.id(), OwnerLimits::default(), NOW).await.unwrap().unwrap();
        // The organization is hidden while the fork is copied.
        show_to(&db, &acme, Shown::Private).await;
        let mut tx = db.begin().await.unwrap();
        let (fork, parent) = store.finish_fork(&mut tx, id, lib.id(), DONE, &viewer(&bob)).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!((fork.is_private, parent.is_private, parent.is_hidden()), (true, false, true));
        let publish = async || {
            let mut tx = db.begin().await.unwrap();
            let (_, before) = store.lock_settings(&mut tx, id).await.unwrap().unwrap();
            let after = crate::model::RepositorySettings { is_private: false, ..before.clone() };
            store.set_settings(&mut tx, &fork, &before, &after, NOW).await
        };
        assert!(matches!(publish().await, Err(RepoError::Invalid(_))));

        let key = Viewer::deploy_key(&[(id, Permission::Write)]);
        let level = async |viewer: &Viewer| {
            let row = store.find(&RepositoryKey::Id(id), viewer).await.unwrap().unwrap();
            row.level(viewer)
        };
        let levels = async || (level(&viewer(&bob)).await, level(&key).await);
        assert_eq!(levels().await, (Permission::Owner, Permission::Write));
        let mut tx = db.begin().await.unwrap();
        assert!(organizations.leave(&mut tx, acme.id(), bob.id).await.unwrap());
        tx.commit().await.unwrap();
        assert_eq!(levels().await, (Permission::None, Permission::None));
        assert_eq!(store.list(None, &viewer(&bob), all()).await.unwrap().1, 0);
        assert_eq!(level(&viewer(&User { is_admin: true, ..ada.clone() })).await, Permission::Owner);
        // All users read what a limited organization has.
        show_to(&db, &acme, Shown::Limited).await;
        assert_eq!(levels().await, (Permission::Owner, Permission::Write));
        assert!(matches!(publish().await, Err(RepoError::Invalid(_))));
        show_to(&db, &acme, Shown::Public).await;
        publish().await.unwrap();
    })
    .await;
}
