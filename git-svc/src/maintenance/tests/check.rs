use std::sync::atomic::Ordering;

use git_store::repo::objects;

use super::*;

/// Checks the repository now. Returns its `broken` column and the count of broken repositories.
async fn checked(maintenance: &MaintenanceService, test_repo: &TestRepo) -> (i64, i64) {
    maintenance.maintenance.mark_suspect(test_repo.id, i64::MAX).await.unwrap();
    assert!(round(maintenance).await);
    let row = row(&test_repo.db).await;
    assert!(row.checked_us > 0);
    (row.broken, maintenance.broken.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_repository_that_lacks_objects_is_counted_until_it_has_them() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let maintenance = maintenance(&test_repo, MaintenanceOptions { loose_refs: 1, ..options() });
        updates(&test_repo, None, 3).await;
        assert_eq!(checked(&maintenance, &test_repo).await, (0, 0));
        assert!(!round(&maintenance).await, "it is done once");
        let blob = Oid::hash_object(git2::ObjectType::Blob, b"0-").unwrap().to_string();
        let (object, aside) =
            (path(&test_repo).join("objects").join(&blob[..2]).join(&blob[2..]), path(&test_repo).join("aside"));
        fs::rename(&object, &aside).unwrap();
        let before = row(&test_repo.db).await;
        let writer = test_repo.updater();
        for name in ["refs/heads/a", "refs/heads/b"] {
            set(&test_repo, &writer, name, None, Some(test_repo.commit(name))).await;
        }
        assert_eq!(checked(&maintenance, &test_repo).await, (1, 1));
        assert!(path(&test_repo).join("packed-refs").is_file(), "what can be done is done");
        let after = row(&test_repo.db).await;
        assert_eq!((after.failures, after.number), (0, before.number + 2));
        fs::rename(&aside, &object).unwrap();
        assert_eq!(checked(&maintenance, &test_repo).await, (0, 0));
    })
    .await;
}

#[tokio::test]
async fn a_repack_that_fails_has_the_repository_checked() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let maintenance =
            maintenance(&test_repo, MaintenanceOptions { updates: 1, interval: Duration::ZERO, ..options() });
        updates(&test_repo, None, 2).await;
        let sql = "UPDATE maintenance SET checked_us = $1";
        test_repo.db.execute(sql, &args![maintenance.clock.now_us() - 25 * 3600 * 1_000_000]).await.unwrap();
        let blob = Oid::hash_object(git2::ObjectType::Blob, b"0-").unwrap().to_string();
        fs::remove_file(path(&test_repo).join("objects").join(&blob[..2]).join(&blob[2..])).unwrap();
        assert!(round(&maintenance).await);
        let failed = row(&test_repo.db).await;
        assert_eq!((failed.failures, failed.checked_us, failed.broken), (1, 0, 0));
        assert!(round(&maintenance).await);
        let checked = row(&test_repo.db).await;
        assert_eq!((checked.failures, checked.broken), (2, 1));
        assert!(round(&maintenance).await);
        assert_eq!(row(&test_repo.db).await.checked_us, checked.checked_us, "once a day is enough");
    })
    .await;
}

#[tokio::test]
async fn a_check_that_fails_does_not_count_the_repository_as_broken() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("git");
        script(&program, "case \"$*\" in *fsck*) kill -9 $$;; *) exec git \"$@\";; esac");
        let git = Git::find(GitOptions { program: Some(program), ..GitOptions::default() }).await.unwrap();
        let maintenance = MaintenanceService { git: Arc::new(git), ..maintenance(&test_repo, options()) };
        updates(&test_repo, None, 1).await;
        assert_eq!(checked(&maintenance, &test_repo).await, (0, 0));
        let (now, day) = (maintenance.clock.now_us(), 24 * 3600 * 1_000_000);
        let again = row(&test_repo.db).await.checked_us + 30 * day;
        assert!((now..=now + day).contains(&again), "it is tried again tomorrow");
    })
    .await;
}

#[tokio::test]
async fn dates_that_the_commit_graph_cannot_hold_are_no_damage() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let maintenance = maintenance(&test_repo, MaintenanceOptions { updates: 5, ..options() });
        let mut tip = updates(&test_repo, None, 5).await;
        for date in ["99999999999 +0000", "18446744073709551617 +0000", "-5 +0000", ""] {
            let odd = {
                let repo = git2::Repository::open_bare(path(&test_repo)).unwrap();
                let tree = objects::tree_id(&repo, tip).unwrap();
                let text = format!("tree {tree}\nparent {tip}\nauthor A <a@b> {date}\ncommitter A <a@b> {date}\n\nm\n");
                repo.odb().unwrap().write(git2::ObjectType::Commit, text.as_bytes()).unwrap()
            };
            set(&test_repo, &test_repo.updater(), "refs/heads/main", Some(tip), Some(odd)).await;
            tip = odd;
        }
        assert!(round(&maintenance).await);
        assert!(path(&test_repo).join("objects/info/commit-graph").is_file());
        assert_eq!(checked(&maintenance, &test_repo).await, (0, 0));
    })
    .await;
}
