//! On both databases.

use ferrite_proto::id::TeamId;
use ferrite_proto::repo::{CreateTeamRequest, UpdateTeamRequest};
use ferrite_rpc::auth::AuthError;

use super::organizations::{join, make};
use super::*;
use crate::model::{CheckedTeam, TeamChange};

fn wanted(name: &str, permission: &str) -> CheckedTeam {
    let request = CreateTeamRequest { name: name.into(), permission: permission.into(), ..Default::default() };
    CheckedTeam::check(&request).unwrap()
}

fn change(name: Option<&str>, description: Option<&str>, permission: Option<&str>) -> TeamChange {
    let text = |text: Option<&str>| text.map(str::to_owned);
    let request = UpdateTeamRequest {
        team_id: 0,
        name: text(name),
        description: text(description),
        permission: text(permission),
        ..Default::default()
    };
    TeamChange::check(&request).unwrap()
}

async fn try_team(db: &Db, organization: UserId, name: &str, permission: &str) -> Result<Team, RepoError> {
    let mut tx = db.begin().await?;
    let team = TeamTable::new(db.clone()).insert(&mut tx, organization, &wanted(name, permission), None, NOW).await?;
    tx.commit().await?;
    Ok(team)
}

pub(super) async fn team(db: &Db, organization: &Organization, name: &str, permission: &str) -> Team {
    try_team(db, organization.id(), name, permission).await.unwrap()
}

pub(super) async fn add(db: &Db, team: &Team, user: &User) {
    let store = TeamTable::new(db.clone());
    let mut tx = db.begin().await.unwrap();
    assert!(store.add_member(&mut tx, team.id(), user.id, NOW).await.unwrap());
    assert!(!store.add_member(&mut tx, team.id(), user.id, NOW).await.unwrap());
    tx.commit().await.unwrap();
}

pub(super) async fn give(db: &Db, team: &Team, repository: RepositoryId) {
    let store = TeamTable::new(db.clone());
    let mut tx = db.begin().await.unwrap();
    assert!(store.add_repository(&mut tx, team.id(), repository, NOW).await.unwrap());
    assert!(!store.add_repository(&mut tx, team.id(), repository, NOW).await.unwrap());
    tx.commit().await.unwrap();
}

pub(super) async fn owned(db: &Db, organization: &Organization, name: &str, is_private: bool) -> RepositoryId {
    let store = repositories(db).await;
    let (id, _) = store
        .insert(organization.id(), &new(name, "", is_private), OwnerLimits::default(), NOW)
        .await
        .unwrap()
        .unwrap();
    let mut tx = db.begin().await.unwrap();
    let finished = CreatedOnDisk { size_bytes: 7, is_empty: true };
    store.finish(&mut tx, id, finished, &Viewer::of(None)).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    id
}

#[tokio::test]
async fn teams_are_unique_by_name_without_case_within_an_organization() {
    on_both(async |db: Db| {
        let store = TeamTable::new(db.clone());
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let (acme, other) = (make(&db, "Acme", &ada).await, make(&db, "other", &ada).await);
        join(&db, &acme, &bob, false).await;
        let made = team(&db, &acme, "Devs", "write").await;
        assert_eq!((made.name.as_str(), made.organization.as_str()), ("Devs", "Acme"));
        assert_eq!(
            (made.permission(), made.organization_id(), made.is_owners()),
            (Permission::Write, acme.id(), false)
        );
        for name in ["dEVS", "oWNERS"] {
            let outcome = try_team(&db, acme.id(), name, "read").await;
            assert!(matches!(outcome, Err(RepoError::TeamExists(taken)) if taken == name));
        }
        team(&db, &other, "devs", "read").await;
        let standing = async |user: &User| store.find(made.id(), Some(user.id)).await.unwrap().unwrap().role();
        assert_eq!((standing(&ada).await, standing(&bob).await), (OrganizationRole::Owner, OrganizationRole::Member));
        assert_eq!(made.role(), OrganizationRole::Outsider);
        assert_eq!(store.find(TeamId(999), None).await.unwrap(), None);
        let (teams, total) = store.list(acme.id(), Some(bob.id), all()).await.unwrap();
        let names: Vec<_> = teams.iter().map(|team| (team.name.as_str(), team.permission())).collect();
        assert_eq!((names, total), (vec![("Owners", Permission::Owner), ("Devs", Permission::Write)], 2));
        assert_eq!(store.list(acme.id(), None, Page::nearest(2, 1, 1)).await.unwrap(), (vec![made], 2));
    })
    .await;
}

#[tokio::test]
async fn a_team_changes_and_the_team_of_owners_does_not() {
    on_both(async |db: Db| {
        let store = TeamTable::new(db.clone());
        let ada = user(&db, "ada").await;
        let acme = make(&db, "acme", &ada).await;
        let devs = team(&db, &acme, "devs", "read").await;
        team(&db, &acme, "taken", "read").await;
        let update = async |team: &Team, change: TeamChange| {
            let mut tx = db.begin().await.unwrap();
            let fields = store.update(&mut tx, team, &change).await?;
            let new = store.reload(&mut tx, team.id(), None).await.unwrap().unwrap();
            tx.commit().await.unwrap();
            Ok::<_, RepoError>((fields, new))
        };
        let (fields, new) = update(&devs, change(Some("DEVS"), Some("They"), Some("admin"))).await.unwrap();
        assert_eq!(fields, ["name", "description", "permission"]);
        assert_eq!(
            (new.name.as_str(), new.description.as_str(), new.permission()),
            ("DEVS", "They", Permission::Admin)
        );
        assert!(update(&new, change(Some("DEVS"), None, Some("admin"))).await.unwrap().0.is_empty());
        let outcome = update(&new, change(Some("Taken"), None, None)).await;
        assert!(matches!(outcome, Err(RepoError::TeamExists(name)) if name == "Taken"));

        let owners = store.list(acme.id(), None, all()).await.unwrap().0.remove(0);
        for refused in [change(Some("owners"), None, None), change(None, None, Some("read"))] {
            assert!(matches!(update(&owners, refused).await, Err(RepoError::OwnersTeam)));
        }
        let (fields, _) = update(&owners, change(Some("Owners"), Some("They own"), None)).await.unwrap();
        assert_eq!(fields, ["description"]);
        let mut tx = db.begin().await.unwrap();
        assert!(matches!(store.delete(&mut tx, &owners).await, Err(RepoError::OwnersTeam)));
        store.delete(&mut tx, &new).await.unwrap();
        assert_eq!(store.reload(&mut tx, new.id(), None).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_member_who_is_removed_leaves_the_teams_of_that_organization_only() {
    on_both(async |db: Db| {
        let store = TeamTable::new(db.clone());
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let (acme, other) = (make(&db, "acme", &ada).await, make(&db, "other", &ada).await);
        let mut kept = Vec::new();
        for organization in [&acme, &other] {
            join(&db, organization, &bob, true).await;
            let devs = team(&db, organization, "devs", "write").await;
            add(&db, &devs, &bob).await;
            kept.push(devs);
        }
        let mut tx = db.begin().await.unwrap();
        assert!(OrganizationTable::new(db.clone()).leave(&mut tx, acme.id(), bob.id).await.unwrap());
        tx.commit().await.unwrap();
        assert_eq!(store.members(kept[0].id(), all()).await.unwrap(), (vec![], 0));
        assert_eq!(store.members(kept[1].id(), all()).await.unwrap(), (vec![bob.clone()], 1));
        assert_eq!(store.find(kept[0].id(), Some(bob.id)).await.unwrap().unwrap().role(), OrganizationRole::Outsider);
        assert_eq!(store.find(kept[1].id(), Some(bob.id)).await.unwrap().unwrap().role(), OrganizationRole::Owner);
        let mut tx = db.begin().await.unwrap();
        assert!(store.has_member(&mut tx, kept[1].id(), bob.id).await.unwrap());
        assert!(store.remove_member(&mut tx, kept[1].id(), bob.id).await.unwrap());
        assert!(!store.remove_member(&mut tx, kept[1].id(), bob.id).await.unwrap());
        assert!(!store.has_member(&mut tx, kept[1].id(), bob.id).await.unwrap());
        let outcome = store.add_member(&mut tx, kept[1].id(), UserId(999), NOW).await;
        assert!(matches!(outcome, Err(RepoError::UserNotFound)));
    })
    .await;
}

#[tokio::test]
async fn teams_hold_repositories_at_their_level_and_owners_hold_all() {
    on_both(async |db: Db| {
        let (store, repositories) = (TeamTable::new(db.clone()), repositories(&db).await);
        let (ada, bob, eve) = (user(&db, "ada").await, user(&db, "bob").await, user(&db, "eve").await);
        let acme = make(&db, "acme", &ada).await;
        join(&db, &acme, &bob, false).await;
        join(&db, &acme, &eve, false).await;
        let (one, two) = (owned(&db, &acme, "One", true).await, owned(&db, &acme, "two", true).await);
        let open = owned(&db, &acme, "open", false).await;
        let (devs, readers) = (team(&db, &acme, "devs", "write").await, team(&db, &acme, "readers", "read").await);
        add(&db, &devs, &bob).await;
        add(&db, &readers, &bob).await;
        for (team, id) in [(&devs, one), (&devs, open), (&readers, one), (&readers, two)] {
            give(&db, team, id).await;
        }
        let level = async |id, user: &User| {
            let row = repositories.find(&RepositoryKey::Id(id), &viewer(user)).await.unwrap().unwrap();
            row.level(&viewer(user))
        };
        use Permission::{None, Owner, Read, Write};
        for (id, levels) in [(one, [Owner, Write, None]), (two, [Owner, Read, None]), (open, [Owner, Write, Read])] {
            assert_eq!([level(id, &ada).await, level(id, &bob).await, level(id, &eve).await], levels);
        }
        let held = async |team: &Team, user: &User| {
            let before = db.statements();
            let rows = repositories.list_of_team(team, &viewer(user), all()).await.unwrap();
            (names(&rows).into_iter().map(str::to_owned).collect::<Vec<_>>(), db.statements() - before)
        };
        let list = |names: &[&str]| (names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>(), 1);
        let owners = store.list(acme.id(), Option::None, all()).await.unwrap().0.remove(0);
        assert_eq!(held(&devs, &ada).await, list(&["open", "One"]));
        assert_eq!(held(&devs, &eve).await, list(&["open"]));
        assert_eq!(held(&owners, &ada).await, list(&["open", "two", "One"]));
        assert_eq!(held(&owners, &eve).await, list(&["open"]));
        assert_eq!(store.find_repository(acme.id(), "one").await.unwrap(), Some((one, "One".to_owned())));
        assert_eq!(store.find_repository(ada.id, "one").await.unwrap(), Option::None);

        let mut tx = db.begin().await.unwrap();
        assert!(store.remove_repository(&mut tx, devs.id(), one).await.unwrap());
        assert!(!store.remove_repository(&mut tx, devs.id(), one).await.unwrap());
        tx.commit().await.unwrap();
        assert_eq!(level(one, &bob).await, Read);
        let mut tx = db.begin().await.unwrap();
        let outcome = store.add_repository(&mut tx, devs.id(), RepositoryId(999), NOW).await;
        assert!(matches!(outcome, Err(RepoError::Auth(AuthError::RepositoryNotFound))));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_concurrent_teams_of_one_name_one_is_created() {
    on_both(async |db: Db| {
        let ada = user(&db, "ada").await;
        let acme = make(&db, "acme", &ada).await;
        let life = ferrite_core::Lifecycle::new(std::time::Duration::from_secs(5));
        let tasks: Vec<_> = (0..8)
            .map(|number| {
                let (db, id) = (db.clone(), acme.id());
                let name = if number % 2 == 0 { "devs" } else { "DEVS" };
                life.spawn("create", async move { try_team(&db, id, name, "read").await })
            })
            .collect();
        let mut made = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(_) => made += 1,
                Err(RepoError::TeamExists(_)) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(made, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_renames_to_one_name_at_once_one_wins() {
    on_both(async |db: Db| {
        let ada = user(&db, "ada").await;
        let acme = make(&db, "acme", &ada).await;
        let life = ferrite_core::Lifecycle::new(std::time::Duration::from_secs(5));
        let mut tasks = Vec::new();
        for number in 0..6 {
            let (db, old) = (db.clone(), team(&db, &acme, &format!("t{number}"), "read").await);
            tasks.push(life.spawn("rename", async move {
                let mut tx = db.begin().await?;
                TeamTable::new(db.clone()).update(&mut tx, &old, &change(Some("devs"), None, None)).await?;
                Ok::<_, RepoError>(tx.commit().await?)
            }));
        }
        let mut renamed = 0;
        for task in tasks {
            match task.await.unwrap() {
                Ok(()) => renamed += 1,
                Err(RepoError::TeamExists(_)) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(renamed, 1);
    })
    .await;
}

#[tokio::test]
async fn a_deploy_key_of_an_organization_counts_for_its_user_while_a_team_gives_that_admin() {
    on_both(async |db: Db| {
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let acme = make(&db, "acme", &ada).await;
        join(&db, &acme, &bob, false).await;
        let (demo, other) = (owned(&db, &acme, "demo", true).await, owned(&db, &acme, "other", true).await);
        let add_key = "INSERT INTO deploy_keys (repository_id, fingerprint, content, title, title_key, is_read_only, created_us, user_id) \
             VALUES ($1, 'SHA256:bot', 'key', 'bot', 'bot', $2, $3, $4)";
        db.execute(add_key, &args![demo, false, NOW, ada.id]).await.unwrap();
        let added_by = async || match key_holder(&db, "SHA256:bot", NOW).await.unwrap() {
            Some(KeyHolder::Repositories(added)) => added[0].added_by,
            holder => panic!("{holder:?}"),
        };
        assert_eq!(added_by().await, Some((ada.id, false)), "an owner");
        db.execute("UPDATE deploy_keys SET user_id = $1", &args![bob.id]).await.unwrap();
        assert_eq!(added_by().await, None, "a member");
        let (writers, admins) = (team(&db, &acme, "writers", "write").await, team(&db, &acme, "admins", "admin").await);
        give(&db, &writers, demo).await;
        give(&db, &admins, other).await;
        for team in [&writers, &admins] {
            add(&db, team, &bob).await;
        }
        assert_eq!(added_by().await, None, "writes here, and administers another repository");
        give(&db, &admins, demo).await;
        assert_eq!(added_by().await, Some((bob.id, false)));
    })
    .await;
}

async fn team_with(db: &Db, organization: &Organization, request: CreateTeamRequest) -> Team {
    let mut tx = db.begin().await.unwrap();
    let new = CheckedTeam::check(&request).unwrap();
    let team = TeamTable::new(db.clone()).insert(&mut tx, organization.id(), &new, None, NOW).await.unwrap();
    tx.commit().await.unwrap();
    team
}

#[tokio::test]
async fn a_team_with_all_repositories_has_later_ones_too() {
    on_both(async |db: Db| {
        let (store, teams) = (repositories(&db).await, TeamTable::new(db.clone()));
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let acme = make(&db, "acme", &ada).await;
        join(&db, &acme, &bob, false).await;
        let first = owned(&db, &acme, "first", true).await;
        let request = CreateTeamRequest {
            name: "all".into(),
            permission: "write".into(),
            includes_all_repositories: true,
            ..Default::default()
        };
        let made = team_with(&db, &acme, request).await;
        assert_eq!((made.includes_all_repositories(), made.can_create_repositories()), (true, false));
        add(&db, &made, &bob).await;
        let second = owned(&db, &acme, "second", true).await;
        give(&db, &made, second).await;
        let level = async |id| {
            let row = store.find(&RepositoryKey::Id(id), &viewer(&bob)).await.unwrap().unwrap();
            row.level(&viewer(&bob))
        };
        assert_eq!((level(first).await, level(second).await), (Permission::Write, Permission::Write));
        let count = async |team: &Team| store.list_of_team(team, &viewer(&ada), all()).await.unwrap().1;
        assert_eq!(count(&made).await, 2);
        let search = RepositorySearch { team: Some(made.id()), ..RepositorySearch::default() };
        assert_eq!(store.search(&search, &viewer(&bob), all()).await.unwrap().total, 2);
        assert_eq!(store.list(None, &viewer(&bob), all()).await.unwrap().1, 2);

        let request = UpdateTeamRequest { includes_all_repositories: Some(false), ..Default::default() };
        let mut tx = db.begin().await.unwrap();
        let fields = teams.update(&mut tx, &made, &TeamChange::check(&request).unwrap()).await.unwrap();
        assert_eq!(fields, ["includes_all_repositories"]);
        let narrowed = teams.reload(&mut tx, made.id(), None).await.unwrap().unwrap();
        tx.commit().await.unwrap();
        // It keeps what it was given one by one.
        assert_eq!((level(first).await, level(second).await), (Permission::None, Permission::Write));
        assert_eq!(count(&narrowed).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_member_who_may_create_repositories_administers_the_new_one() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob, eve) = (user(&db, "ada").await, user(&db, "bob").await, user(&db, "eve").await);
        let acme = make(&db, "acme", &ada).await;
        let request = CreateTeamRequest { name: "makers".into(), can_create_repositories: true, ..Default::default() };
        let makers = team_with(&db, &acme, request).await;
        for user in [&bob, &eve] {
            join(&db, &acme, user, false).await;
        }
        add(&db, &makers, &bob).await;
        let organizations = OrganizationTable::new(db.clone());
        let role = async |user: &User| organizations.find("acme", &viewer(user)).await.unwrap().unwrap().role();
        use OrganizationRole::{Creator, Member, Owner};
        assert_eq!((role(&ada).await, role(&bob).await, role(&eve).await), (Owner, Creator, Member));
        let mut tx = db.begin().await.unwrap();
        for (user, creates, acts) in [(&ada, true, true), (&bob, true, false), (&eve, false, false)] {
            assert_eq!(creates_for(&mut tx, user.id, acme.id(), false).await.unwrap(), creates, "{}", user.username);
            assert_eq!(acts_for(&mut tx, user.id, acme.id(), false).await.unwrap(), acts, "{}", user.username);
        }
        drop(tx);
        for (creator, name) in [(&ada, "by-ada"), (&bob, "by-bob")] {
            let new = NewRepository { creator: creator.id, ..new(name, "", true) };
            store.insert(acme.id(), &new, OwnerLimits::default(), NOW).await.unwrap().unwrap();
        }
        let sql = "SELECT COUNT(*) FROM collaborators c JOIN repositories r ON r.id = c.repository_id \
             WHERE r.name = 'by-bob' AND c.user_id = 2 AND c.permission = 'admin'";
        assert_eq!(count(&db, sql).await, 1);
        assert_eq!(count(&db, "SELECT COUNT(*) FROM collaborators").await, 1, "an owner needs no such level");
    })
    .await;
}

#[tokio::test]
async fn the_flags_of_the_owners_team_cannot_change() {
    on_both(async |db: Db| {
        let teams = TeamTable::new(db.clone());
        let ada = user(&db, "ada").await;
        let acme = make(&db, "acme", &ada).await;
        let (listed, _) = teams.list(acme.id(), Some(ada.id), all()).await.unwrap();
        let owners = &listed[0];
        assert!(owners.includes_all_repositories() && owners.can_create_repositories());
        let mut tx = db.begin().await.unwrap();
        for (flag, is_kept) in [(true, true), (false, false)] {
            let request = UpdateTeamRequest {
                includes_all_repositories: Some(flag),
                can_create_repositories: Some(flag),
                ..Default::default()
            };
            let outcome = teams.update(&mut tx, owners, &TeamChange::check(&request).unwrap()).await;
            assert_eq!(outcome.is_ok(), is_kept, "{outcome:?}");
        }
    })
    .await;
}
