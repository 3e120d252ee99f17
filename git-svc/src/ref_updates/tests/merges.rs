//! Crashes while a pull request is merged: its row and the event stay with the ref, or there are
//! none.

use ferrite_proto::{events::RefsUpdateKind, git::Merge};

use super::*;
use crate::db::MergeTable;

/// Returns the merge of a pull request that moves `main`, and its transaction.
fn merging(number: i64, old: Oid, new: Oid) -> (Merge, RefTransaction) {
    let merge = Merge {
        number,
        style: 1,
        head_id: new.to_string(),
        base_id: old.to_string(),
        merge_commit_id: new.to_string(),
        user_id: 7,
        base_branch: "main".to_owned(),
    };
    let edits = vec![edit("main", Some(old), Some(new))];
    let change = RefTransaction { merge: Some(merge.clone()), ..RefTransaction::new(UpdateKind::Merge, 7, edits) };
    (merge, change)
}

async fn found(test_repo: &TestRepo, number: i64) -> Option<Merge> {
    MergeTable::new(test_repo.db.clone()).find(test_repo.id, number).await.unwrap()
}

/// Returns the events about merges for a subscriber, with what they tell.
async fn told(db: &Db, subscriber: &str) -> Vec<Option<Merge>> {
    let all = events_for(db, subscriber).await.into_iter();
    all.filter(|event| event.kind() == RefsUpdateKind::Merge).map(|event| event.merge).collect()
}

#[tokio::test]
async fn a_merge_that_a_crash_broke_off_is_kept_only_if_the_ref_moved() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (one, two) = (test_repo.commit("1"), test_repo.commit("2"));
        apply(&test_repo, &test_repo.updater(), vec![edit("main", None, Some(one))]).await.unwrap();
        let (merge, change) = merging(3, one, two);
        for is_moved in [false, true] {
            let updater = test_repo.updater();
            let guard = WriteGuard::lock_only(&updater, test_repo.id).await;
            // The second time this fails if the row of the first is left.
            updater.record_intent::<()>(&guard, &change, None).await.unwrap();
            drop(guard);
            if is_moved {
                test_repo.refs.transact(test_repo.id, &change.edits).await.unwrap();
            }
            recover_at_start(&test_repo.updater()).await.unwrap();
            let expected = is_moved.then(|| merge.clone());
            assert_eq!(found(&test_repo, 3).await, expected);
            for subscriber in [REPO_SVC, ISSUE_SVC, HOOK_SVC] {
                let expected: Vec<_> = expected.clone().into_iter().map(Some).collect();
                assert_eq!(told(&test_repo.db, subscriber).await, expected, "{subscriber}");
            }
        }
        // Recovery again changes nothing, and a merged pull request is not merged again.
        recover_at_start(&test_repo.updater()).await.unwrap();
        assert_eq!(told(&test_repo.db, ISSUE_SVC).await.len(), 1);
        let updater = test_repo.updater();
        let guard = updater.lock(test_repo.id).await.unwrap();
        let (_, again) = merging(3, two, test_repo.commit("3"));
        assert!(updater.apply::<()>(&guard, &again, None).await.is_err());
        drop(guard);
        assert_eq!(test_repo.refs.resolve(test_repo.id, name("main")).await.unwrap(), Some(two));
        assert_eq!(found(&test_repo, 3).await, Some(merge));
    })
    .await;
}

#[tokio::test]
async fn a_refused_merge_leaves_no_row() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (one, two, three) = (test_repo.commit("1"), test_repo.commit("2"), test_repo.commit("3"));
        let updater = test_repo.updater();
        apply(&test_repo, &updater, vec![edit("main", None, Some(one))]).await.unwrap();
        let guard = updater.lock(test_repo.id).await.unwrap();
        // The base is not where the merge expects it.
        let (_, change) = merging(3, two, three);
        let refused = updater.apply::<()>(&guard, &change, None).await.err();
        assert!(matches!(refused, Some(RpcError::Git(GitError::RefConflict { .. }))), "{refused:?}");
        assert_eq!(found(&test_repo, 3).await, None);
        let (merge, change) = merging(3, one, three);
        drop(updater.apply::<()>(&guard, &change, None).await.unwrap());
        assert_eq!(found(&test_repo, 3).await, Some(merge.clone()));
        assert_eq!(told(&test_repo.db, REPO_SVC).await, [Some(merge)]);
    })
    .await;
}
