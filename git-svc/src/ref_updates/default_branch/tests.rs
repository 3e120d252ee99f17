use ferrite_db::{Db, args};
use ferrite_proto::error::{Kind, ServiceError as _};
use ferrite_proto::events::{Event, RefsUpdated, event::Fact};
use git_store::{
    repo::refs::RefEdit,
    types::{error::GitError, name::BranchName},
};
use prost::Message as _;

use crate::{
    db::{RefTransaction, RepositoryTable, UpdateKind},
    ref_updates::{HOOK_SVC, REPO_SVC, recover_at_start},
    rpc_error::RpcError,
    testing::{TestRepo, on_each},
};

fn branch(name: &str) -> BranchName {
    BranchName::parse(name.as_bytes()).unwrap()
}

async fn with_branches(db: Db) -> TestRepo {
    let test_repo = TestRepo::new(db).await;
    let (updater, tip) = (test_repo.updater(), Some(test_repo.commit("1")));
    let edits = ["main", "dev"].map(|name| RefEdit { name: branch(name).to_ref(), old: None, new: tip });
    let guard = updater.lock(test_repo.id).await.unwrap();
    let change = RefTransaction::new(UpdateKind::Push, 7, edits.to_vec());
    drop(updater.apply::<()>(&guard, &change, None).await.unwrap());
    drop(guard);
    test_repo
}

/// Returns the events for a subscriber in the outbox, oldest first.
async fn events(db: &Db, subscriber: &str) -> Vec<RefsUpdated> {
    let rows: Vec<(Vec<u8>,)> =
        db.all("SELECT payload FROM outbox WHERE subscriber = $1 ORDER BY id", &args![subscriber]).await.unwrap();
    let fact = |payload: Vec<u8>| match Event::decode(payload.as_slice()).unwrap().fact {
        Some(Fact::RefsUpdated(fact)) => fact,
        other => panic!("{other:?}"),
    };
    rows.into_iter().map(|(payload,)| fact(payload)).collect()
}

async fn head(test_repo: &TestRepo) -> BranchName {
    test_repo.refs.head(test_repo.id).await.unwrap().branch
}

#[tokio::test]
async fn a_default_branch_exists_and_its_change_is_told_once_to_repo_svc_alone() {
    on_each(async |db| {
        let test_repo = with_branches(db).await;
        let updater = test_repo.updater();
        let guard = updater.lock(test_repo.id).await.unwrap();
        let refused = updater.set_default_branch(&guard, branch("absent")).await.unwrap_err();
        let RpcError::Git(GitError::Invalid(violation)) = refused else { panic!("{refused:?}") };
        assert_eq!((violation.field.as_str(), violation.code), ("default_branch", "unknown"));
        assert_eq!(updater.set_default_branch(&guard, branch("main")).await.unwrap(), None);
        assert_eq!((events(&test_repo.db, REPO_SVC).await.len(), head(&test_repo).await), (1, branch("main")));

        let change = updater.set_default_branch(&guard, branch("dev")).await.unwrap().unwrap();
        assert_eq!(updater.set_default_branch(&guard, branch("dev")).await.unwrap(), None);
        assert_eq!(head(&test_repo).await, branch("dev"));
        let told = events(&test_repo.db, REPO_SVC).await;
        assert_eq!(told.len(), 2);
        assert_eq!((told[1].default_branch.as_slice(), told[1].updates.len()), (&b"dev"[..], 0));
        assert_eq!((told[1].number, told[1].is_empty), (change.number, false));
        assert!(change.number > told[0].number);
        assert_eq!(events(&test_repo.db, HOOK_SVC).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_check_of_a_default_branch_changes_nothing() {
    on_each(async |db| {
        let test_repo = with_branches(db).await;
        let updater = test_repo.updater();
        let guard = updater.lock(test_repo.id).await.unwrap();
        for (name, is_new) in [("main", false), ("dev", true)] {
            assert_eq!(updater.is_new_default_branch(&guard, &branch(name)).await.unwrap(), is_new);
        }
        let refused = updater.is_new_default_branch(&guard, &branch("absent")).await.unwrap_err();
        assert_eq!(refused.classify(), (Kind::InvalidArgument, "INVALID_FIELDS"));
        assert_eq!((events(&test_repo.db, REPO_SVC).await.len(), head(&test_repo).await), (1, branch("main")));
    })
    .await;
}

#[tokio::test]
async fn a_change_of_head_that_a_crash_broke_off_is_finished_and_told_once() {
    on_each(async |db| {
        let test_repo = with_branches(db).await;
        let table = RepositoryTable::new(test_repo.db.clone());
        for (number, has_head_moved) in [(2, false), (3, true)] {
            let wanted = branch(if has_head_moved { "main" } else { "dev" });
            assert!(table.begin_head(test_repo.id, &wanted).await.unwrap());
            if has_head_moved {
                test_repo.refs.set_head(test_repo.id, wanted.clone()).await.unwrap();
            }
            recover_at_start(&test_repo.updater()).await.unwrap();
            recover_at_start(&test_repo.updater()).await.unwrap();
            assert_eq!(head(&test_repo).await, wanted);
            let told = events(&test_repo.db, REPO_SVC).await;
            assert_eq!(told.len(), number);
            assert_eq!(told[number - 1].default_branch, wanted.as_bytes());
        }
    })
    .await;
}
