//! Consolidation of real repositories: packs and loose objects stay few, nothing is lost, and the
//! base does not change.

use ferrite_core::Lifecycle;
use git_store::disk::{
    packs::{PackRole, list_packs},
    usage::DiskUsageCache,
};

use super::*;
use crate::{
    admission::backlog::{Backlogs, ConsolidationLimits},
    maintenance::{job::JobError, reservations::Reservation},
};

/// Writes a pack with one commit on top of `parent`, as a push does, and moves `main` to it.
async fn push(test_repo: &TestRepo, updater: &RefUpdater, parent: Option<Oid>, text: &str) -> Oid {
    let path = path(test_repo);
    let next = commit(&path, parent, text);
    let id = next.to_string();
    let tree = git(&path, &["rev-parse", &format!("{id}^{{tree}}"), &format!("{id}:f{text}")]).stdout;
    let objects = format!("{id}\n{}", String::from_utf8(tree).unwrap());
    let mut pack = Command::new("git");
    pack.arg("-C").arg(&path).args(["pack-objects", "-q", "objects/pack/pack"]);
    let mut child = pack.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), objects.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    for object in objects.lines() {
        fs::remove_file(path.join("objects").join(&object[..2]).join(&object[2..])).unwrap();
    }
    test_repo.store.sync_packs(test_repo.id).unwrap();
    set(test_repo, updater, "refs/heads/main", parent, Some(next)).await;
    next
}

/// Writes a commit as loose objects, as the API does, and moves `main` to it.
async fn put(test_repo: &TestRepo, updater: &RefUpdater, parent: Option<Oid>, text: &str) -> Oid {
    let path = path(test_repo);
    let next = commit(&path, parent, text);
    let objects = ["", "^{tree}", &format!(":f{text}")].map(|end| {
        let id = git(&path, &["rev-parse", &format!("{next}{end}")]).stdout;
        Oid::from_str(String::from_utf8(id).unwrap().trim()).unwrap()
    });
    test_repo.store.write_objects(test_repo.id, &test_repo.objects(&objects)).unwrap();
    set(test_repo, updater, "refs/heads/main", parent, Some(next)).await;
    next
}

fn recent(path: &Path) -> (u64, u64) {
    let packs = list_packs(path).unwrap();
    let recent: Vec<_> = packs.iter().filter(|pack| pack.role == PackRole::Recent).collect();
    (recent.len() as u64, recent.iter().map(|pack| pack.objects).sum())
}

fn all_objects(path: &Path) -> String {
    let listed = git(path, &["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
    assert!(listed.status.success());
    String::from_utf8(listed.stdout).unwrap()
}

/// Consolidates a repository now. Returns whether it was stopped.
async fn consolidate(maintenance: &MaintenanceService, test_repo: &TestRepo) -> bool {
    let job = maintenance.running.begin(test_repo.id).unwrap();
    match maintenance.consolidate_in_job(&job).await {
        Ok(()) => false,
        Err(JobError::Stopped) => true,
        Err(JobError::Failed(failure)) => panic!("{failure}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn packs_and_loose_objects_stay_few_while_a_repository_is_written_to() {
    on_each(async |db| {
        let limits = ConsolidationLimits { packs: 6, loose: 40 };
        let test_repo = TestRepo::new(db).await.with_backlogs(Backlogs::new(limits));
        let (maintenance, life) = (maintenance(&test_repo, options()), Lifecycle::new(Duration::from_secs(5)));
        let writes = async {
            let (updater, path, mut tip, mut most) = (test_repo.updater(), path(&test_repo), None, (0, 0));
            for index in 0..150 {
                let admission = test_repo.backlogs.admit(test_repo.id).await;
                let name = format!("w{index}");
                tip = Some(if index % 2 == 0 {
                    push(&test_repo, &updater, tip, &name).await
                } else {
                    put(&test_repo, &updater, tip, &name).await
                });
                drop(admission);
                let usage = DiskUsageCache::default().get(test_repo.id, &path);
                most = (most.0.max(usage.recent.packs + usage.base.packs), most.1.max(usage.loose));
            }
            life.stop();
            (tip.unwrap(), most)
        };
        let ((tip, (packs, loose)), (), ()) = tokio::join!(
            writes,
            maintenance.consolidate_in_background(life.clone()),
            maintenance.renew_bases_in_background(life.clone())
        );
        assert!(packs <= 40 && loose <= 400, "{packs} packs, {loose} loose objects");
        let path = path(&test_repo);
        assert!(recent(&path).0 < 30);
        let history = git(&path, &["rev-list", "--count", &tip.to_string()]).stdout;
        assert_eq!(String::from_utf8(history).unwrap().trim(), "150");
        is_whole(&path);
    })
    .await;
}

#[tokio::test]
async fn a_consolidation_leaves_the_base_and_keeps_every_object() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (maintenance, updater, path) = (
            maintenance(&test_repo, MaintenanceOptions { updates: 3, ..options() }),
            test_repo.updater(),
            path(&test_repo),
        );
        let mut tip = updates(&test_repo, None, 3).await;
        assert!(round(&maintenance).await);
        let midx = fs::read(path.join("objects/pack/multi-pack-index")).unwrap();
        assert!(!consolidate(&maintenance, &test_repo).await);
        assert_eq!((files(&path, ".pack"), recent(&path)), (1, (0, 0)), "there is nothing to combine");
        for index in 0..6 {
            tip = push(&test_repo, &updater, Some(tip), &format!("p{index}")).await;
        }
        let unused = commit(&path, Some(tip), "unused");
        // No write has counted these objects; a measurement once a minute finds them.
        test_repo.store.measure(test_repo.id).unwrap();
        let before = all_objects(&path);
        assert!(!consolidate(&maintenance, &test_repo).await);
        assert_eq!(recent(&path), (1, 6 * 3 + 3));
        assert_eq!(test_repo.store.measure(test_repo.id).unwrap().loose, 0);
        assert_eq!(fs::read(path.join("objects/pack/multi-pack-index")).unwrap(), midx);
        assert!(before == all_objects(&path) && has(&path, unused));
        // A pack that was already combined, as a crash between the two steps leaves it.
        let only = list_packs(&path).unwrap().into_iter().find(|pack| pack.role == PackRole::Recent).unwrap().name;
        push(&test_repo, &updater, Some(tip), "again").await;
        assert!(!consolidate(&maintenance, &test_repo).await);
        assert_eq!(recent(&path).0, 2, "{only} stays as it is: it is large enough");
        is_whole(&path);
    })
    .await;
}

#[tokio::test]
async fn packs_of_a_long_job_are_left_alone_and_later_ones_combined() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (maintenance, updater, path) = (maintenance(&test_repo, options()), test_repo.updater(), path(&test_repo));
        let mut tip = push(&test_repo, &updater, None, "0").await;
        for index in 1..5 {
            tip = push(&test_repo, &updater, Some(tip), &format!("{index}")).await;
        }
        let old = list_packs(&path).unwrap();
        let job = maintenance.running.begin(test_repo.id).unwrap();
        let reservation = Reservation::begin(maintenance.reservations.of(test_repo.id));
        assert_eq!(maintenance.reserve_all(&job, &reservation).await.ok().unwrap(), old);
        for index in 5..9 {
            tip = push(&test_repo, &updater, Some(tip), &format!("{index}")).await;
        }
        maintenance.consolidate_in_job(&job).await.ok().unwrap();
        let now = list_packs(&path).unwrap();
        assert!(old.iter().all(|pack| now.contains(pack)));
        assert_eq!(recent(&path).0, 5 + 1);
        drop(reservation);
        maintenance.consolidate_in_job(&job).await.ok().unwrap();
        assert_eq!(recent(&path).0, 1);
        is_whole(&path);
    })
    .await;
}

#[tokio::test]
async fn nothing_is_touched_while_a_git_process_of_an_earlier_service_works() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (maintenance, updater, path) = (maintenance(&test_repo, options()), test_repo.updater(), path(&test_repo));
        let tip = push(&test_repo, &updater, None, "0").await;
        push(&test_repo, &updater, Some(tip), "1").await;
        let lock = fs::File::create(path.join("upkeep")).unwrap();
        lock.lock().unwrap();
        assert!(!consolidate(&maintenance, &test_repo).await);
        assert_eq!(recent(&path).0, 2);
        drop(lock);
        assert!(!consolidate(&maintenance, &test_repo).await);
        assert_eq!(recent(&path).0, 1);
    })
    .await;
}

/// Stops consolidations at random moments, which leaves unfinished work like a kill.
#[tokio::test]
async fn a_consolidation_that_ends_at_any_moment_loses_nothing() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (maintenance, updater, path) = (maintenance(&test_repo, options()), test_repo.updater(), path(&test_repo));
        let (mut tip, mut ended, mut longest) = (None, 0, Duration::from_millis(40));
        for index in 0..60 {
            tip = Some(push(&test_repo, &updater, tip, &format!("p{index}")).await);
            let loose = commit(&path, tip, &format!("l{index}"));
            set(&test_repo, &updater, "refs/heads/main", tip, Some(loose)).await;
            tip = Some(loose);
            let before = all_objects(&path);
            let pause = longest.mul_f64(rand::rng().random_range(0.0..1.0));
            if tokio::time::timeout(pause, consolidate(&maintenance, &test_repo)).await.is_err() {
                ended += 1;
                longest = longest.mul_f64(1.1);
            } else {
                longest = longest.mul_f64(0.8);
            }
            assert_eq!(before, all_objects(&path));
        }
        assert!(ended > 6, "{ended}");
        // Workers of the pool may still be at the last step.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!consolidate(&maintenance, &test_repo).await);
        assert!(recent(&path).0 < 8);
        assert_eq!(
            fs::read_dir(path.join("objects"))
                .unwrap()
                .filter(|entry| { entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with("tmp_upkeep") })
                .count(),
            0
        );
        is_whole(&path);
    })
    .await;
}

#[tokio::test]
async fn unused_objects_expire_although_they_were_consolidated() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let eager = MaintenanceOptions {
            full_after: Duration::from_secs(1),
            expire_after: Duration::from_secs(3),
            ..options()
        };
        // The objects must not expire in the first round, however long it takes.
        let patient = MaintenanceOptions { expire_after: Duration::from_secs(3600), ..eager };
        let (eager, patient, path) =
            (maintenance(&test_repo, eager), maintenance(&test_repo, patient), path(&test_repo));
        let tip = updates(&test_repo, None, 2).await;
        let unused = commit(&path, None, "unused");
        assert!(!consolidate(&patient, &test_repo).await);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(round(&patient).await);
        assert!(has(&path, unused) && files(&path, ".mtimes") == 1);
        // Cruft is not consolidated.
        let tip = updates(&test_repo, Some(tip), 1).await;
        assert!(!consolidate(&eager, &test_repo).await);
        assert_eq!(files(&path, ".mtimes"), 1);
        tokio::time::sleep(Duration::from_secs(4)).await;
        updates(&test_repo, Some(tip), 1).await;
        assert!(round(&eager).await);
        assert!(!has(&path, unused));
        is_whole(&path);
    })
    .await;
}

#[tokio::test]
async fn deleting_ends_a_consolidation() {
    on_each(async |db| {
        let limits = ConsolidationLimits { packs: 2, loose: 0 };
        let test_repo = TestRepo::new(db).await.with_backlogs(Backlogs::new(limits));
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("git");
        script(&program, "case \"$*\" in *stdin-packs*) sleep 60;; *) exec git \"$@\";; esac");
        let git = Git::find(GitOptions { program: Some(program), ..GitOptions::default() }).await.unwrap();
        let maintenance = MaintenanceService { git: Arc::new(git), ..maintenance(&test_repo, options()) };
        let (updater, life) = (test_repo.updater(), Lifecycle::new(Duration::from_secs(5)));
        let tip = push(&test_repo, &updater, None, "0").await;
        push(&test_repo, &updater, Some(tip), "1").await;
        let start = Instant::now();
        let meanwhile = async {
            while !maintenance.consolidating.has(test_repo.id) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            maintenance.stop(test_repo.id).await;
            life.stop();
        };
        tokio::join!(maintenance.consolidate_in_background(life.clone()), meanwhile);
        assert!(start.elapsed() < Duration::from_secs(20));
        assert_eq!(recent(&path(&test_repo)).0, 2);
    })
    .await;
}
