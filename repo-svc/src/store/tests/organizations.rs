//! On both databases.

use ferrite_proto::repo::CreateOrganizationRequest;

use super::*;
use crate::model::{CheckedOrganization, OrganizationChange};
use crate::store::organizations::Membership;

pub(super) fn wanted(name: &str) -> CheckedOrganization {
    let request = CreateOrganizationRequest {
        username: name.into(),
        full_name: "The GRÜSS Company".into(),
        description: "About it".into(),
        website: "https://example.com".into(),
        location: "Here".into(),
        ..Default::default()
    };
    CheckedOrganization::check(&request).unwrap()
}

const TWO: OwnerLimits = OwnerLimits { repositories: None, organizations: Some(2), bytes: None };

async fn make_with(db: &Db, name: &str, owner: UserId, limits: OwnerLimits) -> Result<Organization, RepoError> {
    let mut tx = db.begin().await?;
    let store = OrganizationTable::new(db.clone());
    let made = store.insert(&mut tx, &wanted(name), owner, Some(owner), limits, NOW).await?;
    tx.commit().await?;
    Ok(made)
}

async fn try_make(db: &Db, name: &str, owner: UserId) -> Result<Organization, RepoError> {
    make_with(db, name, owner, OwnerLimits::default()).await
}

fn is_at_limit(outcome: &Result<Organization, RepoError>) -> bool {
    matches!(outcome, Err(RepoError::OrganizationLimit { used: 2, limit: 2 }))
}

pub(super) async fn make(db: &Db, name: &str, owner: &User) -> Organization {
    try_make(db, name, owner.id).await.unwrap()
}

/// Adds a user as a member or owner.
pub(super) async fn join(db: &Db, organization: &Organization, user: &User, is_owner: bool) {
    let store = OrganizationTable::new(db.clone());
    let mut tx = db.begin().await.unwrap();
    assert!(store.lock(&mut tx, organization.id()).await.unwrap());
    assert!(store.join(&mut tx, organization.id(), user.id, NOW).await.unwrap());
    assert!(!store.join(&mut tx, organization.id(), user.id, NOW).await.unwrap());
    if is_owner {
        store.add_owner(&mut tx, organization.id(), user.id, NOW).await.unwrap();
    }
    tx.commit().await.unwrap();
}

pub(super) async fn show(db: &Db, organization: &Organization, user: &User) {
    let mut tx = db.begin().await.unwrap();
    let store = OrganizationTable::new(db.clone());
    assert!(store.set_visibility(&mut tx, organization.id(), user.id, true).await.unwrap());
    assert!(!store.set_visibility(&mut tx, organization.id(), user.id, true).await.unwrap());
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn an_organization_begins_with_its_owner_and_shares_names_with_users() {
    on_both(async |db: Db| {
        let store = OrganizationTable::new(db.clone());
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let made = make(&db, "Acme", &ada).await;
        assert_eq!((made.name.as_str(), made.role()), ("Acme", OrganizationRole::Owner));
        assert_eq!((made.full_name.as_str(), made.description.as_str()), ("The GRÜSS Company", "About it"));
        assert_eq!((made.website.as_str(), made.location.as_str()), ("https://example.com", "Here"));
        let as_seen = async |viewer: &Viewer| store.find("acme", viewer).await.unwrap().unwrap().role();
        let anonymous = Viewer::of(None);
        assert_eq!(as_seen(&viewer(&ada)).await, OrganizationRole::Owner);
        assert_eq!(as_seen(&viewer(&bob)).await, OrganizationRole::Outsider);
        assert_eq!(as_seen(&anonymous).await, OrganizationRole::Outsider);
        assert_eq!(store.find("ada", &anonymous).await.unwrap(), None, "a user is no organization");
        let membership = store.membership(made.id(), ada.id).await.unwrap();
        assert_eq!(membership, Some(Membership { is_public: false, is_owner: true }));

        for name in ["aCME", "ADA"] {
            assert!(matches!(try_make(&db, name, ada.id).await, Err(RepoError::UserExists(taken)) if taken == name));
        }
        assert!(matches!(add_user(&db, "ACME", "x@example.com").await, Err(RepoError::UserExists(_))));
        assert!(matches!(try_make(&db, "gone", UserId(999)).await, Err(RepoError::UserNotFound)));
        assert_eq!(store.find("gone", &anonymous).await.unwrap(), None);
        make(&db, "second", &ada).await;
        let text = SearchText::parse_name("gr", "q").unwrap().unwrap();
        assert_eq!(AccountTable::new(db.clone()).search(&text, all()).await.unwrap(), (vec![], 0));
    })
    .await;
}

#[tokio::test]
async fn a_change_names_the_fields_that_are_different() {
    on_both(async |db: Db| {
        let store = OrganizationTable::new(db.clone());
        let ada = user(&db, "ada").await;
        let old = make(&db, "acme", &ada).await;
        let change = OrganizationChange {
            description: Some(Description::parse("", "d").unwrap()),
            website: Some("https://example.com".into()),
            location: Some("There".into()),
            ..Default::default()
        };
        let mut tx = db.begin().await.unwrap();
        assert_eq!(store.update(&mut tx, &old, &change).await.unwrap(), ["description", "location"]);
        let new = store.reload(&mut tx, old.id(), Some(ada.id)).await.unwrap().unwrap();
        let mut expected = old.clone();
        (expected.description, expected.location) = (String::new(), "There".into());
        assert_eq!(new, expected);
        assert!(store.update(&mut tx, &new, &change).await.unwrap().is_empty());
        assert!(store.update(&mut tx, &new, &OrganizationChange::default()).await.unwrap().is_empty());
        assert_eq!(store.reload(&mut tx, ada.id, None).await.unwrap(), None);
        assert!(!store.lock(&mut tx, ada.id).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn an_organization_without_repositories_is_deleted_with_its_rows() {
    on_both(async |db: Db| {
        let (store, repositories) = (OrganizationTable::new(db.clone()), repositories(&db).await);
        let ada = user(&db, "ada").await;
        let acme = make(&db, "acme", &ada).await;
        let (id, _) =
            repositories.insert(acme.id(), &new("demo", "", true), OwnerLimits::default(), NOW).await.unwrap().unwrap();
        let mut tx = db.begin().await.unwrap();
        let outcome = store.delete(&mut tx, acme.id()).await;
        assert!(matches!(outcome, Err(RepoError::OwnsRepositories)), "half made is owned");
        drop(tx);
        repositories.delete_unfinished(id).await.unwrap();
        let mut tx = db.begin().await.unwrap();
        store.delete(&mut tx, acme.id()).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(store.find("acme", &Viewer::of(None)).await.unwrap(), None);
        for table in
            ["SELECT COUNT(*) FROM memberships", "SELECT COUNT(*) FROM teams", "SELECT COUNT(*) FROM team_members"]
        {
            assert_eq!(count(&db, table).await, 0, "{table}");
        }
        assert_eq!(count(&db, "SELECT COUNT(*) FROM users").await, 1);
    })
    .await;
}

#[tokio::test]
async fn lists_of_organizations_show_visible_memberships_by_id() {
    on_both(async |db: Db| {
        let store = OrganizationTable::new(db.clone());
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let (hidden, open, shared) =
            (make(&db, "hidden", &ada).await, make(&db, "open", &ada).await, make(&db, "shared", &ada).await);
        make(&db, "bobs", &bob).await;
        show(&db, &open, &ada).await;
        join(&db, &shared, &bob, false).await;
        let list = async |user: &User, seen: MembershipFilter| {
            let (rows, total) = store.list(ada.id, &viewer(user), seen, all()).await.unwrap();
            assert_eq!(rows.len() as i64, total);
            rows.into_iter().map(|row| (row.name.clone(), row.role())).collect::<Vec<_>>()
        };
        let row = |name: &str, standing| (name.to_owned(), standing);
        use OrganizationRole::{Member, Outsider, Owner};
        assert_eq!(
            list(&ada, MembershipFilter::All).await,
            [row("hidden", Owner), row("open", Owner), row("shared", Owner)]
        );
        assert_eq!(list(&bob, MembershipFilter::PublicAndShared).await, [row("open", Outsider), row("shared", Member)]);
        assert_eq!(list(&bob, MembershipFilter::Public).await, [row("open", Outsider)]);
        let second = store.list(ada.id, &viewer(&ada), MembershipFilter::All, Page::nearest(2, 2, 10)).await.unwrap();
        assert_eq!((second.0[0].name.as_str(), second.0.len(), second.1), ("shared", 1, 3));
        assert!(hidden.id < open.id);
    })
    .await;
}

#[tokio::test]
async fn members_are_listed_with_or_without_private_ones() {
    on_both(async |db: Db| {
        let store = OrganizationTable::new(db.clone());
        let (ada, bob, eve) = (user(&db, "ada").await, user(&db, "bob").await, user(&db, "eve").await);
        let acme = make(&db, "acme", &ada).await;
        join(&db, &acme, &bob, false).await;
        show(&db, &acme, &bob).await;
        assert_eq!(store.members(acme.id(), false, all()).await.unwrap(), (vec![ada.clone(), bob.clone()], 2));
        assert_eq!(store.members(acme.id(), true, all()).await.unwrap(), (vec![bob.clone()], 1));
        assert_eq!(store.members(acme.id(), false, Page::nearest(2, 1, 10)).await.unwrap(), (vec![bob.clone()], 2));
        let membership = async |user: &User| store.membership(acme.id(), user.id).await.unwrap();
        assert_eq!(membership(&bob).await, Some(Membership { is_public: true, is_owner: false }));
        assert_eq!(membership(&eve).await, None);
        let mut tx = db.begin().await.unwrap();
        let outcome = store.join(&mut tx, acme.id(), UserId(999), NOW).await;
        assert!(matches!(outcome, Err(RepoError::UserNotFound)));
    })
    .await;
}

#[tokio::test]
async fn an_owner_always_remains() {
    on_both(async |db: Db| {
        let store = OrganizationTable::new(db.clone());
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let acme = make(&db, "acme", &ada).await;
        join(&db, &acme, &bob, false).await;
        let mut tx = db.begin().await.unwrap();
        for outcome in [
            store.remove_owner(&mut tx, acme.id(), ada.id).await,
            store.require_other_owner(&mut tx, acme.id(), ada.id).await,
        ] {
            assert!(matches!(outcome, Err(RepoError::LastOwner)));
        }
        assert!(matches!(store.leave(&mut tx, acme.id(), ada.id).await, Err(RepoError::LastOwner)));
        store.add_owner(&mut tx, acme.id(), bob.id, NOW).await.unwrap();
        store.add_owner(&mut tx, acme.id(), bob.id, NOW).await.unwrap();
        store.remove_owner(&mut tx, acme.id(), ada.id).await.unwrap();
        assert!(store.leave(&mut tx, acme.id(), ada.id).await.unwrap());
        assert!(!store.leave(&mut tx, acme.id(), ada.id).await.unwrap());
        assert!(matches!(store.leave(&mut tx, acme.id(), bob.id).await, Err(RepoError::LastOwner)));
        tx.commit().await.unwrap();
        assert_eq!(store.members(acme.id(), false, all()).await.unwrap(), (vec![bob], 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_owners_who_remove_each_other_at_once_one_is_left() {
    on_both(async |db: Db| {
        let store = OrganizationTable::new(db.clone());
        let ada = user(&db, "ada").await;
        let acme = make(&db, "acme", &ada).await;
        let mut owners = vec![ada.id];
        for name in ["bob", "cid", "dan", "eve", "fay"] {
            let other = user(&db, name).await;
            join(&db, &acme, &other, true).await;
            owners.push(other.id);
        }
        let life = ferrite_core::Lifecycle::new(std::time::Duration::from_secs(5));
        let tasks: Vec<_> = owners
            .into_iter()
            .enumerate()
            .map(|(number, owner)| {
                let (store, db, id) = (store.clone(), db.clone(), acme.id());
                life.spawn("remove", async move {
                    let mut tx = db.begin().await?;
                    assert!(store.lock(&mut tx, id).await?);
                    if number % 2 == 0 {
                        store.leave(&mut tx, id, owner).await?;
                    } else {
                        store.remove_owner(&mut tx, id, owner).await?;
                    }
                    Ok::<_, RepoError>(tx.commit().await?)
                })
            })
            .collect();
        let mut refused = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(()) => {}
                Err(RepoError::LastOwner) => refused += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
        let owners = "SELECT COUNT(*) FROM team_members m JOIN teams t ON t.id = m.team_id WHERE t.level = 4";
        assert_eq!((refused, count(&db, owners).await), (1, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_organization_is_not_deleted_while_a_repository_is_being_created() {
    on_both(async |db: Db| {
        let (store, repositories) = (OrganizationTable::new(db.clone()), repositories(&db).await);
        let ada = user(&db, "ada").await;
        let life = ferrite_core::Lifecycle::new(std::time::Duration::from_secs(5));
        for round in 0..8 {
            let acme = make(&db, &format!("acme{round}"), &ada).await;
            let (store, db, id) = (store.clone(), db.clone(), acme.id());
            let deletion = life.spawn("delete", async move {
                let mut tx = db.begin().await?;
                assert!(store.lock(&mut tx, id).await?);
                store.delete(&mut tx, id).await?;
                Ok::<_, RepoError>(tx.commit().await?)
            });
            let creation = repositories.insert(id, &new("demo", "", true), OwnerLimits::default(), NOW).await;
            match (deletion.await.unwrap(), creation) {
                (Ok(()), Err(RepoError::UserNotFound)) | (Err(RepoError::OwnsRepositories), Ok(Some(_))) => {}
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_organization_counts_for_its_creator_whoever_owns_it_later() {
    on_both(async |db: Db| {
        let store = OrganizationTable::new(db.clone());
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let acme = make_with(&db, "acme", ada.id, TWO).await.unwrap();
        join(&db, &acme, &bob, true).await;
        let mut tx = db.begin().await.unwrap();
        assert!(store.lock(&mut tx, acme.id()).await.unwrap());
        assert!(store.leave(&mut tx, acme.id(), ada.id).await.unwrap());
        tx.commit().await.unwrap();
        make_with(&db, "second", ada.id, TWO).await.unwrap();
        assert!(is_at_limit(&make_with(&db, "third", ada.id, TWO).await));

        // Organizations that others added the user to do not count.
        for name in ["one", "two"] {
            make_with(&db, name, bob.id, TWO).await.unwrap();
        }
        assert!(is_at_limit(&make_with(&db, "three", bob.id, TWO).await));
        make_with(&db, "three", bob.id, OwnerLimits::default()).await.unwrap();

        let mut tx = db.begin().await.unwrap();
        assert!(store.lock(&mut tx, acme.id()).await.unwrap());
        store.delete(&mut tx, acme.id()).await.unwrap();
        tx.commit().await.unwrap();
        make_with(&db, "third", ada.id, TWO).await.unwrap();
        assert!(is_at_limit(&make_with(&db, "fourth", ada.id, TWO).await));
        db.execute("UPDATE users SET is_admin = $1 WHERE name_key = 'ada'", &args![true]).await.unwrap();
        make_with(&db, "fourth", ada.id, TWO).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_organization_without_a_creator_counts_for_the_owner_who_began_it() {
    on_both(async |db: Db| {
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        for name in ["acme", "other"] {
            let made = make(&db, name, &ada).await;
            join(&db, &made, &bob, true).await;
        }
        db.execute("UPDATE users SET creator_id = NULL", &[]).await.unwrap();
        let later = "UPDATE team_members SET created_us = created_us + 1 WHERE user_id = $1";
        db.execute(later, &args![bob.id]).await.unwrap();
        assert!(is_at_limit(&make_with(&db, "more", ada.id, TWO).await));
        make_with(&db, "more", bob.id, TWO).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_limit_of_organizations_is_the_users_own_or_that_of_the_site() {
    on_both(async |db: Db| {
        let ada = user(&db, "ada").await;
        let quotas = QuotaTable::new(db.clone(), TWO);
        let set = async |organizations: Option<i64>| {
            let mut tx = db.begin().await.unwrap();
            quotas.set_limits(&mut tx, ada.id, OwnLimits { organizations, ..OwnLimits::default() }).await.unwrap();
            tx.commit().await.unwrap();
        };
        set(Some(1)).await;
        make_with(&db, "one", ada.id, TWO).await.unwrap();
        let refused = make_with(&db, "two", ada.id, TWO).await;
        assert!(matches!(refused, Err(RepoError::OrganizationLimit { used: 1, limit: 1 })), "{refused:?}");
        set(None).await;
        make_with(&db, "two", ada.id, TWO).await.unwrap();
        assert!(is_at_limit(&make_with(&db, "three", ada.id, TWO).await));
        set(Some(-1)).await;
        make_with(&db, "three", ada.id, TWO).await.unwrap();
        let quota = quotas.read(ada.id).await.unwrap().unwrap();
        assert_eq!((quota.organization_count, quota.limits.organizations), (3, Some(-1)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_limit_of_organizations_holds_for_concurrent_creations() {
    on_both(async |db: Db| {
        let ada = user(&db, "ada").await;
        let life = ferrite_core::Lifecycle::new(std::time::Duration::from_secs(5));
        let tasks: Vec<_> = (0..8)
            .map(|number| {
                let (db, owner) = (db.clone(), ada.id);
                life.spawn("create", async move { make_with(&db, &format!("acme{number}"), owner, TWO).await })
            })
            .collect();
        let mut made = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(_) => made += 1,
                refused => assert!(is_at_limit(&refused), "{refused:?}"),
            }
        }
        assert_eq!(made, 2);
    })
    .await;
}
