//! Maintenance of a running service: requests still work meanwhile.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use ferrite_core::testing::script;
use ferrite_proto::git::DeleteRepositoryRequest;

use crate::{
    harness::Service,
    push::{Gateway, find_repository, git, running_in, wait_until, work_tree},
};

/// Settings that make maintenance always due.
const EAGER: &[&str] = &["--upkeep-interval-seconds=0.02", "--upkeep-repack-seconds=0.2"];

/// Starts a service that rebuilds a base immediately, with an index that takes a minute.
async fn start_slow() -> Service {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("git");
    script(&program, "case \"$*\" in *' multi-pack-index '*) exec sleep 60;; *) exec git \"$@\";; esac");
    let program = format!("--git-program={}", program.display());
    Service::start_with(folder, &["--upkeep-interval-seconds=0.05", "--upkeep-repack-seconds=0.05", &program]).await
}

async fn is_whole(path: &Path) {
    let findings = git(path, &["fsck", "--strict", "--full", "--no-dangling"]).await;
    assert_eq!(findings, "");
}

fn files(repository: &Path, ending: &str) -> usize {
    let entries = std::fs::read_dir(repository.join("objects/pack")).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().ends_with(ending)).count()
}

fn bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| match entry.metadata().unwrap() {
            data if data.is_dir() => bytes(&entry.path()),
            data => data.len(),
        })
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn clones_and_writes_during_repacks_are_right_and_the_size_is_published() {
    let gateway = Gateway::over(Service::start_with(tempfile::tempdir().unwrap(), EAGER).await).await;
    let id = gateway.service.create().await;
    let folder = tempfile::tempdir().unwrap();
    let (work, remote) = (folder.path().join("work"), gateway.remote(id));
    work_tree(&work).await;
    git(&work, &["push", "-q", &remote, "main"]).await;
    let writes = async {
        for index in 0..10 {
            std::fs::write(work.join(format!("g{index}")), "x".repeat(1000 * index)).unwrap();
            git(&work, &["add", "."]).await;
            git(&work, &["commit", "-q", "-m", "more"]).await;
            git(&work, &["push", "-q", &remote, &format!("main:b{index}")]).await;
            gateway.service.put(id, &format!("api{index}"), b"api\n").await;
        }
    };
    let clones = async {
        for index in 0..8 {
            let name = format!("copy{index}");
            git(folder.path(), &["clone", "-q", "--mirror", &remote, &name]).await;
            is_whole(&folder.path().join(&name)).await;
        }
    };
    tokio::join!(writes, clones);
    gateway.service.updates(id, 21).await;
    let path = find_repository(&gateway.service.store());
    let is_done = || {
        let published = gateway.service.told_size(id).and_then(|size| u64::try_from(size).ok());
        files(&path, ".pack") == 1 && files(&path, ".bitmap") > 0 && published == Some(bytes(&path.join("objects")))
    };
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < Duration::from_secs(40), "everything packed and the size published");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(path.join("objects/info/commit-graph").is_file());
    is_whole(&path).await;
    git(folder.path(), &["clone", "-q", "--mirror", &remote, "last"]).await;
    let all = ["for-each-ref", "--format=%(objectname) %(refname)"];
    assert_eq!(git(&folder.path().join("last"), &all).await, git(&path, &all).await);
}

#[tokio::test]
async fn a_repack_blocks_neither_pushes_nor_deleting() {
    let gateway = Gateway::over(start_slow().await).await;
    let id = gateway.service.create().await;
    let folder = tempfile::tempdir().unwrap();
    let (work, remote) = (folder.path().join("work"), gateway.remote(id));
    work_tree(&work).await;
    git(&work, &["push", "-q", &remote, "main"]).await;
    let store = gateway.service.store();
    wait_until("a repack runs", || running_in(&store) == 1).await;
    let start = Instant::now();
    git(&work, &["push", "-q", &remote, "main:other"]).await;
    gateway.service.put(id, "f", b"x").await;
    git(folder.path(), &["clone", "-q", &remote, "copy"]).await;
    wait_until("only the repack runs", || running_in(&store) == 1).await;
    let request = DeleteRepositoryRequest { repository_id: id };
    gateway.service.storage().delete_repository(request).await.unwrap();
    assert_eq!(running_in(&store), 0);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[tokio::test]
async fn stopping_ends_a_repack() {
    let mut service = start_slow().await;
    let id = service.create().await;
    service.put(id, "f", b"x").await;
    let store = service.store();
    wait_until("a repack runs", || running_in(&store) == 1).await;
    assert!(service.stop().await < Duration::from_secs(15));
    assert_eq!(running_in(&store), 0);
}

#[tokio::test]
async fn leftovers_of_killed_processes_are_removed_at_the_start() {
    let mut service = Service::start().await;
    let id = service.create().await;
    service.put(id, "f", b"x").await;
    service.stop().await;
    let path = find_repository(&service.store());
    let left =
        ["packed-refs.lock", "objects/pack/tmp_pack_x", "objects/pack/.tmp-1-pack-x.pack", "objects/pack/x.keep"];
    let fresh = path.join("objects/pack/tmp_pack_y");
    for file in left.iter().map(|file| path.join(file)) {
        let old = std::time::SystemTime::now() - Duration::from_secs(3700);
        std::fs::File::create(file).unwrap().set_modified(old).unwrap();
    }
    std::fs::write(&fresh, b"x").unwrap();
    service.launch().await;
    wait_until("they are gone", || !left.iter().any(|file| path.join(file).exists())).await;
    assert!(fresh.exists());
    service.put(id, "g", b"y").await;
}
