//! Maintenance of real repositories by real git: the files it writes and removes, and the state
//! after a kill at any moment.

mod check;
mod consolidation;
mod graph;

use std::{
    fs,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Arc, atomic::AtomicI64},
    time::{Duration, Instant, SystemTime},
};

use clap::Parser as _;
use ferrite_core::{
    Clock,
    testing::{eventually, script},
};
use ferrite_db::{Db, args};
use ferrite_proto::events::{Event, SizeChanged, event::Fact};
use git_store::{
    disk::delta_mark,
    git::command::{Git, GitOptions, maintenance_task::MaintenanceTask},
    repo::refs::RefEdit,
    types::name::RefName,
};
use git2::Oid;
use prost::Message as _;
use rand::Rng as _;
use rustix::process::{Signal, kill_process_group};

use super::{
    MaintenanceService, PackReservations, RunningJobs,
    job::{Cause, JobOutcome, remove_leftovers},
    options::MaintenanceOptions,
};
use crate::{
    config::maintenance::MaintenanceArgs,
    db::{MaintenanceRow, MaintenanceTable, RefTransaction, RepositoryTable, UpdateKind},
    ref_updates::RefUpdater,
    testing::{TestRepo, on_each},
};

#[derive(clap::Parser)]
struct Settings {
    #[command(flatten)]
    maintenance: MaintenanceArgs,
}

fn options() -> MaintenanceOptions {
    Settings::parse_from(["x"]).maintenance.options()
}

fn maintenance(test_repo: &TestRepo, options: MaintenanceOptions) -> MaintenanceService {
    MaintenanceService {
        clock: Clock::system(),
        store: Arc::clone(&test_repo.store),
        pool: test_repo.pool.clone(),
        git: Arc::clone(&test_repo.git),
        updater: test_repo.updater(),
        sessions: test_repo.sessions(),
        repositories: RepositoryTable::new(test_repo.db.clone()),
        maintenance: MaintenanceTable::new(test_repo.db.clone()),
        running: RunningJobs::default(),
        consolidating: RunningJobs::default(),
        reservations: PackReservations::default(),
        backlogs: test_repo.backlogs.clone(),
        options,
        transfer_timeout: Duration::from_secs(3600),
        leftover_age: Duration::from_secs(7200),
        broken: AtomicI64::new(-1),
    }
}

/// Runs one round of maintenance. Returns whether any repository was due.
async fn round(maintenance: &MaintenanceService) -> bool {
    let due = maintenance.due().await;
    for row in &due {
        maintenance.maintain(*row).await;
    }
    !due.is_empty()
}

async fn row(db: &Db) -> MaintenanceRow {
    let sql = "SELECT repository_id, number, packed_number, packed_us, full_number, full_us, graph_number, loose_left, failures, checked_us, broken \
         FROM maintenance";
    db.one(sql, &[]).await.unwrap()
}

/// Writes a commit on top of `parent` that adds one file.
fn commit(path: &Path, parent: Option<Oid>, text: &str) -> Oid {
    let repo = git2::Repository::open_bare(path).unwrap();
    let parent = parent.map(|id| repo.find_commit(id).unwrap());
    let base = parent.as_ref().map(|parent| parent.tree().unwrap());
    let mut tree = repo.treebuilder(base.as_ref()).unwrap();
    tree.insert(format!("f{text}"), repo.blob(text.as_bytes()).unwrap(), 0o100_644).unwrap();
    let tree = repo.find_tree(tree.write().unwrap()).unwrap();
    let who = git2::Signature::new("Ada", "ada@example.com", &git2::Time::new(0, 0)).unwrap();
    repo.commit(None, &who, &who, text, &tree, &parent.iter().collect::<Vec<_>>()).unwrap()
}

async fn set(test_repo: &TestRepo, updater: &RefUpdater, name: &str, old: Option<Oid>, new: Option<Oid>) {
    let guard = updater.lock(test_repo.id).await.unwrap();
    let edits = vec![RefEdit { name: RefName::parse(name.as_bytes()).unwrap(), old, new }];
    drop(updater.apply::<()>(&guard, &RefTransaction::new(UpdateKind::Push, 7, edits), None).await.unwrap());
}

/// Adds `count` commits to `main`, one update each. Returns the last one.
async fn updates(test_repo: &TestRepo, from: Option<Oid>, count: usize) -> Oid {
    let (updater, mut tip) = (test_repo.updater(), from);
    for index in 0..count {
        let next =
            commit(&path(test_repo), tip, &format!("{index}-{}", tip.map_or_else(String::new, |id| id.to_string())));
        set(test_repo, &updater, "refs/heads/main", tip, Some(next)).await;
        tip = Some(next);
    }
    tip.unwrap()
}

fn path(test_repo: &TestRepo) -> PathBuf {
    test_repo.store.path(test_repo.id)
}

fn git(path: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("git");
    command.arg("-C").arg(path).args(args).env("GIT_CONFIG_GLOBAL", "/dev/null").env("LC_ALL", "C");
    command.output().unwrap()
}

fn is_whole(path: &Path) {
    let fsck = git(path, &["fsck", "--strict", "--full", "--no-dangling"]);
    assert!(fsck.status.success() && fsck.stderr.is_empty(), "{fsck:?}");
}

fn has(path: &Path, id: Oid) -> bool {
    git(path, &["cat-file", "-e", &id.to_string()]).status.success()
}

fn files(path: &Path, suffix: &str) -> usize {
    let entries = fs::read_dir(path.join("objects/pack")).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().ends_with(suffix)).count()
}

/// Returns the sizes published by separate events, oldest first.
async fn sizes(db: &Db) -> Vec<SizeChanged> {
    let sql = "SELECT payload FROM outbox WHERE kind = $1 ORDER BY id";
    let rows: Vec<(Vec<u8>,)> = db.all(sql, &args!["size.changed"]).await.unwrap();
    let facts = rows.into_iter().filter_map(|(bytes,)| Event::decode(bytes.as_slice()).unwrap().fact);
    facts.filter_map(|fact| if let Fact::SizeChanged(size) = fact { Some(size) } else { None }).collect()
}

#[tokio::test]
async fn enough_updates_trigger_a_repack_with_index_bitmap_and_commit_graph() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let maintenance = maintenance(&test_repo, MaintenanceOptions { updates: 5, ..options() });
        assert!(!round(&maintenance).await, "nothing changed");
        let tip = updates(&test_repo, None, 4).await;
        assert!(round(&maintenance).await);
        assert_eq!(files(&path(&test_repo), ".pack"), 0, "four updates need nothing");
        assert!(!round(&maintenance).await);
        updates(&test_repo, Some(tip), 1).await;
        assert!(round(&maintenance).await);
        let path = path(&test_repo);
        assert_eq!((files(&path, ".pack"), files(&path, ".bitmap"), files(&path, "multi-pack-index")), (1, 1, 1));
        let graph = fs::read(path.join("objects/info/commit-graph")).unwrap();
        let has_chunk = |name: &[u8]| graph[..200].windows(4).any(|bytes| bytes == name);
        // libgit2 ignores files with generation numbers of version 2.
        assert!(has_chunk(b"CDAT") && has_chunk(b"BIDX") && !has_chunk(b"GDA2"));
        assert!(git(&path, &["count-objects"]).stdout.starts_with(b"0 objects"));
        is_whole(&path);
        let size = i64::try_from(test_repo.store.size(test_repo.id).unwrap()).unwrap();
        assert_eq!(sizes(&test_repo.db).await, [SizeChanged { size_bytes: size, number: 5 }]);
        let row = row(&test_repo.db).await;
        assert_eq!((row.number, row.packed_number, row.graph_number, row.loose_left, row.failures), (5, 5, 5, 0, 0));
        assert!(!round(&maintenance).await, "it is done once");
    })
    .await;
}

#[tokio::test]
async fn many_refs_are_packed_and_stay_readable_and_writable() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (maintenance, updater) =
            (maintenance(&test_repo, MaintenanceOptions { loose_refs: 4, ..options() }), test_repo.updater());
        let (one, two) = (commit(&path(&test_repo), None, "1"), commit(&path(&test_repo), None, "2"));
        let names: Vec<_> = (0..6).map(|index| format!("refs/heads/a/b{index}")).collect();
        for name in &names {
            set(&test_repo, &updater, name, None, Some(one)).await;
        }
        let find = async |name: &str| {
            test_repo.refs.resolve(test_repo.id, RefName::parse(name.as_bytes()).unwrap()).await.unwrap()
        };
        assert_eq!(find(&names[0]).await, Some(one));
        let lock = fs::File::create(path(&test_repo).join("packed-refs.lock")).unwrap();
        lock.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
        round(&maintenance).await;
        assert_eq!(
            fs::read_to_string(path(&test_repo).join("packed-refs")).unwrap().matches("refs/heads/a/b").count(),
            6
        );
        assert!(!path(&test_repo).join("refs/heads/a/b0").exists());
        for name in &names {
            assert_eq!(find(name).await, Some(one));
        }
        set(&test_repo, &updater, &names[0], Some(one), Some(two)).await;
        set(&test_repo, &updater, &names[1], Some(one), None).await;
        assert_eq!((find(&names[0]).await, find(&names[1]).await, find(&names[2]).await), (Some(two), None, Some(one)));
    })
    .await;
}

#[tokio::test]
async fn unused_objects_stay_until_they_expire_however_old_they_are() {
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
        // As in a repository from an earlier version.
        delta_mark::remove(&path).unwrap();
        let (tip, updater) = (updates(&test_repo, None, 2).await, test_repo.updater());
        let unused = commit(&path, Some(tip), "unused");
        set(&test_repo, &updater, "refs/heads/other", None, Some(unused)).await;
        assert!(git(&path, &["repack", "-adq"]).status.success());
        let old = SystemTime::now() - Duration::from_secs(90 * 24 * 3600);
        for entry in fs::read_dir(path.join("objects/pack")).unwrap() {
            fs::File::open(entry.unwrap().path()).unwrap().set_modified(old).unwrap();
        }
        set(&test_repo, &updater, "refs/heads/other", Some(unused), None).await;
        tokio::time::sleep(Duration::from_millis(1100)).await;
        assert!(round(&patient).await);
        assert_eq!((files(&path, ".mtimes"), files(&path, ".bitmap"), row(&test_repo.db).await.full_number), (1, 1, 4));
        assert!(delta_mark::is_set(&path), "there is no large delta");
        assert!(has(&path, unused), "it is unused since a moment ago");
        let mut usage = test_repo.store.usage(test_repo.id).unwrap();
        usage.date_cruft(&path, 1);
        let age_us = patient.clock.now_us() - usage.oldest_cruft_us.unwrap();
        assert!(usage.cruft > 0 && age_us < 60_000_000, "{usage:?}");
        tokio::time::sleep(Duration::from_secs(4)).await;
        let tip = updates(&test_repo, Some(tip), 1).await;
        assert!(round(&eager).await);
        assert!(!has(&path, unused) && has(&path, tip));
        is_whole(&path);
        let trash = fs::read_dir(test_repo.store.root().join("trash")).unwrap().count();
        assert_eq!(trash, 1, "what expired can be brought back by hand for a while");
    })
    .await;
}

#[tokio::test]
async fn expired_objects_are_put_back_when_refs_changed_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.git");
    git2::Repository::init_bare(&path).unwrap();
    let (used, unused) = (commit(&path, None, "used"), commit(&path, None, "unused"));
    assert!(git(&path, &["update-ref", "refs/heads/main", &used.to_string()]).status.success());
    // Loose objects do not expire.
    assert!(git(&path, &["repack", "--geometric=2", "-dq"]).status.success());
    let trash = folder.path().join("trash");
    fs::create_dir(&trash).unwrap();
    let expired = format!("--expire-to={}/pack", trash.display());
    let expire = || {
        fs::create_dir_all(&trash).unwrap();
        assert!(git(&path, &["repack", "--cruft", "-dq", "--cruft-expiration=now", &expired]).status.success());
        assert!(!has(&path, unused));
    };
    expire();
    super::job::restore_if_changed(&trash, &path, true).unwrap();
    assert!(has(&path, unused) && !trash.exists());
    expire();
    super::job::restore_if_changed(&trash, &path, false).unwrap();
    assert!(!has(&path, unused) && trash.exists());
}

#[tokio::test]
async fn open_handles_find_objects_after_repacks() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let tip = updates(&test_repo, None, 3).await;
        let lock = fs::File::create(path(&test_repo).join("upkeep")).unwrap();
        let trash = test_repo.store.make_trash(test_repo.id).unwrap();
        for expire in [Duration::from_secs(60), Duration::ZERO] {
            // Enough reads for each worker of the pool to open a handle before the repack.
            let reads =
                (0..8).map(|_| test_repo.pool.run(test_repo.id, move |repo| Ok(repo.find_commit(tip)?.tree()?.len())));
            for count in futures_util::future::join_all(reads).await {
                assert_eq!(count.unwrap(), 3);
            }
            let task = MaintenanceTask::Full { expire, expired: &trash };
            let child = test_repo.git.run_task(&path(&test_repo), task, &lock, 0).unwrap();
            child.finish(&[], Duration::from_secs(30)).await.unwrap();
        }
        assert_eq!(
            test_repo.pool.run(test_repo.id, move |repo| Ok(repo.find_commit(tip)?.tree()?.len())).await.unwrap(),
            3
        );
    })
    .await;
}

/// Kills maintenance commands at random moments. After each kill the repository is intact and the
/// next job succeeds.
#[tokio::test]
async fn a_kill_at_any_moment_leaves_a_whole_repository() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let maintenance =
            maintenance(&test_repo, MaintenanceOptions { updates: 1, full_after: Duration::from_secs(1), ..options() });
        // A pack without its index is deleted once it is a second old.
        let (maintenance, path) =
            (MaintenanceService { leftover_age: Duration::from_secs(1), ..maintenance }, path(&test_repo));
        let mut tip = updates(&test_repo, None, 10).await;
        let (mut killed, mut longest) = (0, Duration::from_millis(60));
        for index in 0..100 {
            let next = (0..20).fold(tip, |parent, number| commit(&path, Some(parent), &format!("{index}-{number}")));
            set(&test_repo, &test_repo.updater(), "refs/heads/main", Some(tip), Some(next)).await;
            tip = next;
            let lock = fs::File::create(path.join("upkeep")).unwrap();
            let trash = test_repo.store.make_trash(test_repo.id).unwrap();
            let full = MaintenanceTask::Full { expire: Duration::from_secs(60), expired: &trash };
            let task = if index % 3 == 0 { MaintenanceTask::CommitGraph } else { full };
            let mut child = test_repo.git.run_task(&path, task, &lock, 0).unwrap();
            let leader = child.id().unwrap();
            let pause = longest.mul_f64(rand::rng().random_range(0.0..1.0));
            tokio::time::sleep(pause).await;
            // The process may have ended before.
            let _ = kill_process_group(leader, Signal::KILL);
            if child.wait().await.unwrap().signal().is_some() {
                killed += 1;
            } else {
                longest = longest.mul_f64(0.8);
            }
            is_whole(&path);
            remove_leftovers(&path);
            is_whole(&path);
            if index > 12 && killed > 6 {
                break;
            }
        }
        assert!(killed > 6, "{killed}");
        fs::write(path.join("objects/pack/multi-pack-index.lock"), b"").unwrap();
        fs::write(path.join("objects/pack/.tmp-1-pack-1.pack"), b"x").unwrap();
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let (due, job) = (maintenance.due().await, maintenance.running.begin(test_repo.id).unwrap());
        assert_eq!(maintenance.run_job(&job, due[0], Cause::Due).await.unwrap(), JobOutcome::Done);
        let row = row(&test_repo.db).await;
        assert_eq!((row.failures, row.full_number), (0, row.number));
        assert_eq!((files(&path, ".pack"), files(&path, ".bitmap"), files(&path, ".lock")), (1, 1, 0));
        is_whole(&path);
    })
    .await;
}

/// A git program that takes a minute to index. It creates the file `begun` in `folder` first.
async fn slow_git(folder: &Path) -> Arc<Git> {
    let (program, begun) = (folder.join("git"), folder.join("begun"));
    let index = format!(": > '{}'; sleep 60", begun.display());
    script(&program, &format!("case \"$*\" in *multi-pack-index*) {index};; *) exec git \"$@\";; esac"));
    Arc::new(Git::find(GitOptions { program: Some(program), ..GitOptions::default() }).await.unwrap())
}

#[tokio::test]
async fn a_job_ends_when_it_must_and_never_blocks_writers() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let folder = tempfile::tempdir().unwrap();
        let eager = MaintenanceOptions { updates: 1, ..options() };
        let slow = MaintenanceService { git: slow_git(folder.path()).await, ..maintenance(&test_repo, eager) };
        let tip = updates(&test_repo, None, 2).await;
        let before = row(&test_repo.db).await;
        let running = slow.running.clone();
        let start = Instant::now();
        let meanwhile = async {
            eventually("the index is being written", || async { folder.path().join("begun").exists() }).await;
            // Another service process finds the maintenance lock taken, which does not count as a
            // failure.
            let other = maintenance(&test_repo, eager);
            other.maintain(before).await;
            assert_eq!(files(&path(&test_repo), "multi-pack-index"), 0);
            updates(&test_repo, Some(tip), 1).await;
            assert!(running.begin(test_repo.id).is_none());
            running.stop(test_repo.id).await;
        };
        tokio::join!(slow.maintain(before), meanwhile);
        assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
        assert!(!running.has(test_repo.id));
        let after = row(&test_repo.db).await;
        assert_eq!((after.failures, after.packed_number, after.number), (0, 0, 3));

        let short = MaintenanceService {
            git: Arc::clone(&slow.git),
            ..maintenance(&test_repo, MaintenanceOptions { updates: 1, deadline: Duration::from_secs(1), ..options() })
        };
        // The processes of the stopped job hold the maintenance lock until the system has ended
        // them.
        let start = Instant::now();
        while row(&test_repo.db).await.failures == 0 {
            assert!(start.elapsed() < Duration::from_secs(60), "the job never failed");
            short.maintain(after).await;
        }
        assert_eq!(row(&test_repo.db).await.failures, 1);
        assert!(short.due().await.is_empty(), "a failure is not repeated at once");
    })
    .await;
}

#[tokio::test]
async fn a_repository_that_is_gone_needs_nothing() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let maintenance = maintenance(&test_repo, MaintenanceOptions { updates: 1, ..options() });
        updates(&test_repo, None, 1).await;
        let row = row(&test_repo.db).await;
        let mut tx = test_repo.db.begin().await.unwrap();
        RepositoryTable::delete(&mut tx, test_repo.id, "s", 0).await.unwrap();
        tx.commit().await.unwrap();
        assert!(maintenance.due().await.is_empty());
        maintenance.maintain(row).await;
        assert_eq!(files(&path(&test_repo), ".pack"), 0);
    })
    .await;
}
