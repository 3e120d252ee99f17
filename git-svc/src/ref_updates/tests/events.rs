//! What the events of an update carry, also after a crash.

use super::*;

#[tokio::test]
async fn push_options_outlive_a_crash() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (one, updater) = (test_repo.commit("1"), test_repo.updater());
        let lines = ["", "ci.skip", " spaced \u{e9}=\u{4e16} ", "x"];
        let mut options = PushOptions::default();
        lines.iter().for_each(|line| options.add(line.as_bytes()).unwrap());
        let edits = vec![edit("dropped", None, Some(one)), edit("main", None, Some(one))];
        let change = RefTransaction { options, ..RefTransaction::new(UpdateKind::Push, 7, edits) };
        let guard = WriteGuard::lock_only(&updater, test_repo.id).await;
        updater.record_intent::<PutContentsResponse>(&guard, &change, None).await.unwrap();
        drop(guard);
        // The row with the options belongs to the edit that is not applied.
        test_repo.refs.transact(test_repo.id, &change.edits[1..]).await.unwrap();
        recover_at_start(&updater).await.unwrap();
        let more = RefTransaction { edits: vec![edit("late", None, Some(one))], ..change };
        drop(updater.apply::<()>(&updater.lock(test_repo.id).await.unwrap(), &more, None).await.unwrap());
        apply(&test_repo, &updater, vec![edit("without-options", None, Some(one))]).await.unwrap();
        let sent: Vec<_> = events(&test_repo.db).await.into_iter().map(|event| event.push_options).collect();
        assert_eq!(sent, [lines.map(str::to_owned).to_vec(), lines.map(str::to_owned).to_vec(), Vec::new()]);
    })
    .await;
}

#[tokio::test]
async fn the_issue_reach_outlives_a_crash() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (one, updater) = (test_repo.commit("1"), test_repo.updater());
        for (branch, issue_reach) in
            [("main", IssueReach::Repository), ("all", IssueReach::All), ("none", IssueReach::None)]
        {
            // The first row belongs to the edit that is not applied.
            let edits = vec![edit(&format!("dropped-{branch}"), None, Some(one)), edit(branch, None, Some(one))];
            let change = RefTransaction { issue_reach, ..RefTransaction::new(UpdateKind::Push, 7, edits) };
            let guard = WriteGuard::lock_only(&updater, test_repo.id).await;
            updater.record_intent::<PutContentsResponse>(&guard, &change, None).await.unwrap();
            test_repo.refs.transact(test_repo.id, &change.edits[1..]).await.unwrap();
        }
        recover_at_start(&test_repo.updater()).await.unwrap();
        let reaches: Vec<_> = events(&test_repo.db).await.iter().map(RefsUpdated::issue_reach).collect();
        assert_eq!(reaches, [Reach::Repository, Reach::All, Reach::None]);
        // Recovery notifies the same services as an update without a crash.
        assert_eq!(events_for(&test_repo.db, ISSUE_SVC).await, events(&test_repo.db).await);
    })
    .await;
}

#[tokio::test]
async fn every_event_with_a_branch_goes_to_issue_svc() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (updater, one) = (test_repo.updater(), test_repo.commit("1"));
        apply(&test_repo, &updater, vec![edit("main", None, Some(one))]).await.unwrap();
        let name = RefName::parse(b"refs/tags/v1").unwrap();
        apply(&test_repo, &updater, vec![RefEdit { name, old: None, new: Some(one) }]).await.unwrap();
        apply(&test_repo, &updater, vec![edit("topic", None, Some(one))]).await.unwrap();
        let of_issues = events_for(&test_repo.db, ISSUE_SVC).await;
        let named: Vec<_> = of_issues.iter().flat_map(names).collect();
        assert_eq!(named, ["refs/heads/main", "refs/heads/topic"]);
        assert_eq!(events(&test_repo.db).await.len(), 3);
    })
    .await;
}

#[tokio::test]
async fn an_update_of_very_many_refs_is_split_into_several_events() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let one = test_repo.commit("1");
        let edits: Vec<_> = (0..1200).map(|index| edit(&format!("branch-{index}"), None, Some(one))).collect();
        let updater = test_repo.updater();
        record_intent(&test_repo, &updater, &edits).await;
        // Packed, because one file per ref would take long.
        let packed: String = edits.iter().map(|edit| format!("{one} {}\n", edit.name)).collect();
        std::fs::write(test_repo.store.path(test_repo.id).join("packed-refs"), packed).unwrap();
        recover_at_start(&test_repo.updater()).await.unwrap();
        let events = events(&test_repo.db).await;
        assert!(events.len() > 1);
        assert_eq!(events.iter().map(|event| event.updates.len()).sum::<usize>(), 1200);
        assert!(events.iter().all(|event| event.number == 1 && event.encoded_len() < 64 << 10));
    })
    .await;
}

#[tokio::test]
async fn of_a_wiki_repo_svc_is_told_the_size_also_after_a_crash() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        test_repo.db.execute("UPDATE repositories SET is_wiki = $1", &args![true]).await.unwrap();
        let (updater, one) = (test_repo.updater(), test_repo.commit("1"));
        apply(&test_repo, &updater, vec![edit("main", None, Some(one))]).await.unwrap();
        updater.publish_size(&updater.lock(test_repo.id).await.unwrap()).await.unwrap();
        let edits = [edit("other", None, Some(one))];
        record_intent(&test_repo, &test_repo.updater(), &edits).await;
        test_repo.refs.transact(test_repo.id, &edits).await.unwrap();
        recover_at_start(&test_repo.updater()).await.unwrap();
        assert_eq!(states(&test_repo.db).await, ["confirmed", "confirmed"]);
        let told = "SELECT subscriber, kind, COUNT(*) FROM outbox GROUP BY subscriber, kind";
        let told: Vec<(String, String, i64)> = test_repo.db.all(told, &[]).await.unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!((told[0].0.as_str(), told[0].2), (REPO_SVC, 3), "{told:?}");
        let (number,): (i64,) = test_repo.db.one("SELECT number FROM maintenance", &[]).await.unwrap();
        assert_eq!(number, 2, "it is maintained like any other");
    })
    .await;
}
