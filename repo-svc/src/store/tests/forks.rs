//! Forks, on both databases: the fork count, and hiding forks whose parent is hidden.

use std::collections::BTreeSet;

use ferrite_rpc::auth::AuthError;

use super::*;
use crate::access::Unit;

const DONE: CreatedOnDisk = CreatedOnDisk { size_bytes: 7, is_empty: false };

/// Forks a repository and keeps its visibility.
async fn fork(db: &Db, store: &RepositoryTable, owner: &User, parent: &Repository, name: &str) -> Repository {
    let new = new(name, "", parent.is_private);
    let (id, _) = store.insert_fork(owner.id, &new, parent.id(), OwnerLimits::default(), NOW).await.unwrap().unwrap();
    let mut tx = db.begin().await.unwrap();
    let (fork, found) = store.finish_fork(&mut tx, id, parent.id(), DONE, &viewer(owner)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((found.id, fork.parent_id), (parent.id, Some(parent.id)));
    fork
}

async fn set_private(db: &Db, repository: &Repository, is_private: bool) {
    let sql = "UPDATE repositories SET is_private = $2 WHERE id = $1";
    db.execute(sql, &args![repository.id(), is_private]).await.unwrap();
}

async fn dismiss(db: &Db, repository: &Repository, user: &User) {
    let sql = "DELETE FROM collaborators WHERE repository_id = $1 AND user_id = $2";
    db.execute(sql, &args![repository.id(), user.id]).await.unwrap();
}

async fn delete(db: &Db, store: &RepositoryTable, repository: &Repository) {
    let mut tx = db.begin().await.unwrap();
    assert!(store.delete(&mut tx, repository.id()).await.unwrap());
    tx.commit().await.unwrap();
}

async fn read(store: &RepositoryTable, repository: &Repository, viewer: &Viewer) -> Repository {
    store.find(&RepositoryKey::Id(repository.id()), viewer).await.unwrap().unwrap()
}

/// The names of the repositories that a viewer sees. Checks that all ways to ask agree.
async fn seen(store: &RepositoryTable, all: &[&Repository], viewer: &Viewer) -> Vec<String> {
    let ids: BTreeSet<i64> = all.iter().map(|row| row.id).collect();
    let listed = store.names(&ids, viewer).await.unwrap();
    let keys: Vec<_> = all.iter().map(|row| RepositoryKey::Id(row.id())).collect();
    let with_issues = store.find_with_issues(keys.iter(), false, viewer).await.unwrap();
    let own: Vec<_> = store.list(None, viewer, super::all()).await.unwrap().0.into_iter().map(|row| row.id).collect();
    let mut names = Vec::new();
    for row in all {
        let found = read(store, row, viewer).await;
        let level = found.level(viewer);
        assert_eq!(level >= Permission::Read, listed.contains_key(&row.id), "{}", row.name);
        let issues = with_issues.iter().find(|found| found.id == row.id).unwrap();
        assert_eq!(level, issues.access().level(viewer, Unit::Repository), "{}", row.name);
        assert!(level >= Permission::Read || !own.contains(&row.id), "{}", row.name);
        names.extend((level >= Permission::Read).then(|| row.name.clone()));
    }
    names
}

#[tokio::test]
async fn forks_are_counted_and_listed_while_they_exist() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob) = (user(&db, "ada").await, user(&db, "bob").await);
        let parent = ready(&db, &store, &ada, &new("parent", "", false), NOW).await;
        let count = async || read(&store, &parent, &viewer(&ada)).await.fork_count;
        let unfinished =
            store.insert_fork(bob.id, &new("half", "", false), parent.id(), OwnerLimits::default(), NOW).await.unwrap();
        assert_eq!(count().await, 0);
        let one = fork(&db, &store, &bob, &parent, "one").await;
        let two = fork(&db, &store, &ada, &parent, "two").await;
        assert_eq!((count().await, one.default_branch.as_str(), one.is_private), (2, "main", false));
        set_private(&db, &one, true).await;
        assert_eq!(names(&store.list_forks(parent.id(), &viewer(&bob), all()).await.unwrap()), ["one", "two"]);
        assert_eq!(names(&store.list_forks(parent.id(), &viewer(&ada), all()).await.unwrap()), ["two"]);
        assert_eq!(store.find_many_visible(&[one.id, two.id], &Viewer::of(None)).await.unwrap().len(), 1);
        store.delete_unfinished(unfinished.unwrap().0).await.unwrap();
        delete(&db, &store, &two).await;
        assert_eq!(count().await, 1);
        delete(&db, &store, &parent).await;
        let alone = read(&store, &one, &viewer(&bob)).await;
        assert_eq!((alone.parent_id, alone.level(&viewer(&bob))), (None, Permission::Owner));
        delete(&db, &store, &one).await;
    })
    .await;
}

#[tokio::test]
async fn a_fork_is_hidden_with_its_private_parent() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob, eve) = (user(&db, "ada").await, user(&db, "bob").await, user(&db, "eve").await);
        let parent = ready(&db, &store, &ada, &new("parent", "", true), NOW).await;
        collaborate(&db, parent.id(), &bob, "read").await;
        let fork = fork(&db, &store, &bob, &parent, "fork").await;
        collaborate(&db, fork.id(), &eve, "write").await;
        let both = [&parent, &fork];
        let sees = async |viewer: &Viewer| seen(&store, &both, viewer).await;
        let limited = Viewer::of(Some(&Identity {
            user_id: bob.id.0,
            token_id: 1,
            is_limited: true,
            repository_ids: vec![fork.id],
            scopes: Scopes::all().to_proto(),
            ..Identity::default()
        }));
        let key = Viewer::deploy_key(&[(fork.id(), Permission::Write)]);
        let key_level = async || read(&store, &fork, &key).await.level(&key);

        assert!(fork.is_private);
        assert_eq!(sees(&viewer(&bob)).await, ["parent", "fork"]);
        assert_eq!(sees(&limited).await, ["fork"], "the token does not cover the parent, but its owner may read it");
        assert_eq!(key_level().await, Permission::Write);
        assert_eq!(sees(&viewer(&eve)).await, [""; 0], "she may not read the parent");
        assert_eq!(sees(&viewer(&ada)).await, ["parent"], "she has no role on the fork");
        assert_eq!(sees(&Viewer::of(None)).await, [""; 0]);
        let root = Viewer::account(UserId(999), true);
        assert_eq!(sees(&root).await, ["parent", "fork"]);

        collaborate(&db, parent.id(), &eve, "read").await;
        assert_eq!(sees(&viewer(&eve)).await, ["parent", "fork"]);
        assert_eq!(read(&store, &fork, &viewer(&eve)).await.level(&viewer(&eve)), Permission::Write);
        dismiss(&db, &parent, &bob).await;
        assert_eq!(sees(&viewer(&bob)).await, [""; 0], "its owner lost the parent");
        assert_eq!(sees(&limited).await, [""; 0]);
        assert_eq!(key_level().await, Permission::None, "the key has the roles of the owner on the parent");
        assert_eq!(read(&store, &fork, &Viewer::of(None)).await.level(&Viewer::of(None)), Permission::None);

        set_private(&db, &parent, false).await;
        assert_eq!(sees(&viewer(&bob)).await, ["parent", "fork"]);
        set_private(&db, &parent, true).await;
        delete(&db, &store, &parent).await;
        assert_eq!(seen(&store, &[&fork], &viewer(&bob)).await, ["fork"], "without a parent it stands alone");
    })
    .await;
}

#[tokio::test]
async fn a_fork_of_a_fork_needs_every_private_repository_of_its_chain() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let (ada, bob, eve) = (user(&db, "ada").await, user(&db, "bob").await, user(&db, "eve").await);
        let first = ready(&db, &store, &ada, &new("first", "", true), NOW).await;
        let second = fork(&db, &store, &bob, &first, "second").await;
        let third = fork(&db, &store, &eve, &second, "third").await;
        let chain = [&first, &second, &third];
        let sees = async || seen(&store, &chain, &viewer(&eve)).await;
        assert_eq!(sees().await, [""; 0]);
        collaborate(&db, second.id(), &eve, "read").await;
        assert_eq!(sees().await, [""; 0], "the second needs the first as well");
        collaborate(&db, first.id(), &eve, "read").await;
        assert_eq!(sees().await, ["first", "second", "third"]);
        dismiss(&db, &first, &eve).await;
        set_private(&db, &second, false).await;
        assert_eq!(sees().await, ["second", "third"], "everybody may read the parent");
    })
    .await;
}

#[tokio::test]
async fn a_fork_becomes_private_or_nothing_if_its_parent_did_while_it_was_copied() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let ada = user(&db, "ada").await;
        let parent = ready(&db, &store, &ada, &new("parent", "", false), NOW).await;
        let begin = async |name: &str| {
            let inserted =
                store.insert_fork(ada.id, &new(name, "", false), parent.id(), OwnerLimits::default(), NOW).await;
            inserted.unwrap().unwrap().0
        };
        let finish = async |id| {
            let mut tx = db.begin().await.unwrap();
            let (fork, _) = store.finish_fork(&mut tx, id, parent.id(), DONE, &viewer(&ada)).await?;
            tx.commit().await?;
            Ok::<_, RepoError>(fork)
        };
        let (one, two) = (begin("one").await, begin("two").await);
        set_private(&db, &parent, true).await;
        assert!(finish(one).await.unwrap().is_private);
        store.keep_unfinished(two, NOW + 5).await.unwrap();
        assert_eq!(store.unfinished(NOW + 5).await.unwrap(), []);
        assert_eq!(store.unfinished(NOW + 6).await.unwrap(), [(two, "default".to_owned())]);
        delete(&db, &store, &parent).await;
        assert!(matches!(finish(two).await, Err(RepoError::Auth(AuthError::RepositoryNotFound))));
        assert!(store.is_creating(two).await.unwrap());
        let gone = store.insert_fork(ada.id, &new("three", "", false), parent.id(), OwnerLimits::default(), NOW).await;
        assert!(matches!(gone, Err(RepoError::Auth(AuthError::RepositoryNotFound))), "{gone:?}");
    })
    .await;
}

#[tokio::test]
async fn a_chain_of_forks_has_an_end() {
    on_both(async |db: Db| {
        let store = repositories(&db).await;
        let ada = user(&db, "ada").await;
        let mut last = ready(&db, &store, &ada, &new("r1", "", true), NOW).await;
        for number in 2..=16 {
            last = fork(&db, &store, &ada, &last, &format!("r{number}")).await;
        }
        let more = store.insert_fork(ada.id, &new("r17", "", true), last.id(), OwnerLimits::default(), NOW).await;
        assert!(matches!(more, Err(RepoError::ForksTooDeep { limit: 16 })), "{more:?}");
        assert_eq!(seen(&store, &[&last], &viewer(&ada)).await, ["r16"]);
    })
    .await;
}
