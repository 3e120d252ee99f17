//! Updates that fail in part before the refs change, and the sizes in events.

use git_store::disk::{loose_objects::NewObject, usage::DiskUsageCache};
use git2::ObjectType;

use super::*;

/// Returns whether a lock or a prepared value is left beside the refs.
fn has_leftovers(test_repo: &TestRepo) -> bool {
    let lock = test_repo.store.path(test_repo.id).join("refs/heads/main.lock");
    lock.exists() || std::fs::read_dir(test_repo.store.root().join("incoming")).unwrap().next().is_some()
}

#[tokio::test]
async fn an_update_whose_intent_fails_leaves_the_ref_unlocked_where_it_is() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (updater, one, two) = (test_repo.updater(), test_repo.commit("1"), test_repo.commit("2"));
        let guard = updater.lock(test_repo.id).await.unwrap();
        let (message, keys) = (PutContentsResponse::default(), [key(b"a"), key(b"b")]);
        let subject = CommitSubject::default;
        let response =
            |index: usize| Some(IdempotentResponse { key: &keys[index], message: &message, subject: subject() });
        let first = RefTransaction::new(UpdateKind::Api, 7, vec![edit("main", None, Some(one))]);
        drop(updater.apply(&guard, &first, response(0)).await.unwrap());
        let second = RefTransaction::new(UpdateKind::Api, 7, vec![edit("main", Some(one), Some(two))]);
        let refused = updater.apply(&guard, &second, response(1)).await.err();
        assert!(matches!(refused, Some(RpcError::Idempotency(IdempotencyError::Reused))), "{refused:?}");
        assert!(!has_leftovers(&test_repo));
        assert_eq!(test_repo.refs.resolve(test_repo.id, name("main")).await.unwrap(), Some(one));
        drop(updater.apply::<()>(&guard, &second, None).await.unwrap());
        assert_eq!(test_repo.refs.resolve(test_repo.id, name("main")).await.unwrap(), Some(two));
    })
    .await;
}

#[tokio::test]
async fn an_update_whose_value_or_objects_cannot_be_written_is_dropped() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (updater, one, two) = (test_repo.updater(), test_repo.commit("1"), test_repo.commit("2"));
        apply(&test_repo, &updater, vec![edit("main", None, Some(one))]).await.unwrap();
        let edits = vec![edit("main", Some(one), Some(two))];
        let incoming = test_repo.store.root().join("incoming");
        std::fs::remove_dir(&incoming).unwrap();
        apply(&test_repo, &updater, edits.clone()).await.unwrap_err();
        std::fs::create_dir(&incoming).unwrap();
        let new = test_repo.objects(&[two]);
        let change = RefTransaction { objects: new, ..RefTransaction::new(UpdateKind::Api, 7, edits.clone()) };
        let objects = test_repo.store.path(test_repo.id).join("objects");
        // A file where a directory is expected.
        let (folder, aside) = (objects.join(&two.to_string()[..2]), objects.join("aside"));
        std::fs::rename(&folder, &aside).unwrap();
        std::fs::write(&folder, "").unwrap();
        let guard = updater.lock(test_repo.id).await.unwrap();
        assert!(updater.apply::<()>(&guard, &change, None).await.is_err());
        drop(guard);
        std::fs::remove_file(&folder).unwrap();
        std::fs::rename(&aside, &folder).unwrap();
        assert!(!has_leftovers(&test_repo) && updater.inner().needing_recovery().is_empty());
        apply(&test_repo, &updater, edits).await.unwrap();
        assert_eq!(states(&test_repo.db).await, ["confirmed", "dropped", "dropped", "confirmed"]);
    })
    .await;
}

#[tokio::test]
async fn the_size_in_events_is_that_on_disk_after_each_write() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (updater, mut tip) = (test_repo.updater(), None);
        let commits: Vec<_> = (0..20).map(|index| test_repo.commit(&index.to_string())).collect();
        for (index, next) in commits.into_iter().enumerate() {
            let branch = format!("b{index}");
            let edits = vec![edit("main", tip, Some(next)), edit(&branch, None, Some(next))];
            let edits = if index % 2 == 0 { edits[..1].to_vec() } else { edits };
            // The commits exist already, and so do the last files.
            let file = NewObject::new(ObjectType::Blob, format!("{}", index % 15)).unwrap();
            let objects = [test_repo.objects(&[next]), vec![file]].concat();
            let change = RefTransaction { objects, ..RefTransaction::new(UpdateKind::Api, 7, edits) };
            let guard = updater.lock(test_repo.id).await.unwrap();
            drop(updater.apply::<()>(&guard, &change, None).await.unwrap());
            tip = Some(next);
            let known = test_repo.store.usage(test_repo.id).unwrap();
            let measured = DiskUsageCache::default().get(test_repo.id, &test_repo.store.path(test_repo.id));
            assert_eq!(known, measured);
            let told = events(&test_repo.db).await.pop().unwrap().size_bytes;
            assert_eq!(told, i64::try_from(measured.bytes).unwrap());
        }
        assert_eq!(test_repo.store.usage(test_repo.id).unwrap().loose, 20 + 1 + 15);
    })
    .await;
}
