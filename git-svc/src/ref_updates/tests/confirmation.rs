//! Confirmations that are repeated, lost in a power failure, or of an intent that commits late.

use super::*;

#[tokio::test]
async fn an_update_that_is_confirmed_twice_sends_one_event() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (updater, one) = (test_repo.updater(), test_repo.commit("1"));
        let edits = vec![edit("main", None, Some(one))];
        let batch = record_intent(&test_repo, &updater, &edits).await;
        test_repo.refs.transact(test_repo.id, &edits).await.unwrap();
        let change = RefTransaction::new(UpdateKind::Push, 7, edits);
        let guard = WriteGuard::lock_only(&updater, test_repo.id).await;
        drop(updater.confirm(&guard, BatchOutcome::of(batch.clone(), &change)).await.unwrap());
        drop(updater.confirm(&guard, BatchOutcome::of(batch, &change)).await.unwrap());
        assert_eq!(events(&test_repo.db).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_confirmation_that_is_lost_with_the_power_is_made_again_with_the_same_events() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (updater, one, long) = (test_repo.updater(), test_repo.commit("1"), "x".repeat(200));
        let branches = (1..1200).map(|index| format!("branch-{index}")).chain([long.clone()]);
        let edits: Vec<_> = branches.map(|branch| edit(&branch, None, Some(one))).collect();
        let batch = record_intent(&test_repo, &updater, &edits).await;
        // A single file, because one per ref would take long.
        let packed: String = edits.iter().map(|edit| format!("{one} {}\n", edit.name)).collect();
        std::fs::write(test_repo.store.path(test_repo.id).join("packed-refs"), packed).unwrap();
        let change = RefTransaction::new(UpdateKind::Push, 7, edits);
        let guard = WriteGuard::lock_only(&updater, test_repo.id).await;
        drop(updater.confirm(&guard, BatchOutcome::of(batch, &change)).await.unwrap());
        drop(guard);
        let told = async || {
            let sql = "SELECT event_id FROM outbox WHERE subscriber = $1 ORDER BY id";
            let ids: Vec<(String,)> = test_repo.db.all(sql, &args![REPO_SVC]).await.unwrap();
            (ids, events(&test_repo.db).await.iter().map(names).collect::<Vec<_>>())
        };
        let before = told().await;
        assert!(before.1.len() > 1);
        for sql in [
            "UPDATE ref_journal SET state = 'open', settled_us = NULL",
            "DELETE FROM outbox",
            "DELETE FROM outbox_lanes",
            "DELETE FROM maintenance",
        ] {
            test_repo.db.execute(sql, &[]).await.unwrap();
        }
        // Other fields of the events may have changed.
        test_repo.refs.set_head(test_repo.id, BranchName::parse(long.as_bytes()).unwrap()).await.unwrap();
        recover_at_start(&test_repo.updater()).await.unwrap();
        assert_eq!(told().await, before);
        assert_eq!(events(&test_repo.db).await[0].default_branch, long.as_bytes());
        assert_eq!(states(&test_repo.db).await, ["confirmed"; 1200]);
    })
    .await;
}

#[tokio::test]
async fn an_intent_that_commits_late_is_settled_all_the_same() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (updater, one) = (test_repo.updater(), test_repo.commit("1"));
        let mut tx = test_repo.db.begin().await.unwrap();
        let change = RefTransaction::new(UpdateKind::Push, 7, vec![edit("main", None, Some(one))]);
        Journal::record_intent(&mut tx, test_repo.id, &change, None, 0).await.unwrap();
        updater.inner().set_needs_recovery(test_repo.id, true);
        let commit = async {
            // Long enough that a recovery without this wait would read the journal too early.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            tx.commit().await.unwrap();
        };
        let (locked, ()) = tokio::join!(updater.lock(test_repo.id), commit);
        drop(locked.unwrap());
        assert_eq!(states(&test_repo.db).await, ["dropped"]);
    })
    .await;
}
