//! A full disk: writes fail with an error that names the cause, no write is left half done, and
//! writes succeed again when there is room.
//!
//! The store is a small in-memory file system where the test may mount one. In the other tests a
//! resource limit keeps git-svc from writing large files, which fails in the same places with
//! another error.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use serde_json::json;

use crate::harness::ssh::client_of;
use crate::harness::tree::{fsck_all, leftovers, noise, wait_for_no_process_in};
use crate::harness::{Cluster, Git, Options, Profile, Response, Role, User, run};

const DISK_BYTES: u64 = 24 << 20;
const PUSH_BYTES: usize = 8 << 20;

mod embedded {
    #[test]
    fn a_full_disk_is_reported_and_breaks_nothing() {
        super::on_a_full_disk(super::Profile::Embedded);
    }

    #[test]
    fn files_that_cannot_grow_break_nothing() {
        super::with_small_files(super::Profile::Embedded);
    }
}

mod production {
    #[test]
    fn a_full_disk_is_reported_and_breaks_nothing() {
        super::on_a_full_disk(super::Profile::Production);
    }

    #[test]
    fn files_that_cannot_grow_break_nothing() {
        super::with_small_files(super::Profile::Production);
    }
}

fn on_disk() -> Options {
    Options { on_disk: true, ..Options::default() }
}

/// An in-memory file system, unmounted on drop.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(place: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(place).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={DISK_BYTES}"), "tmpfs"]).arg(place);
        let mounted = mount.output().map_err(|error| error.to_string())?;
        if !mounted.status.success() {
            return Err(String::from_utf8_lossy(&mounted.stderr).trim().to_owned());
        }
        Ok(Self(place.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Runs the test on an installation whose store is on a small disk. In the embedded profile,
/// git-svc's database is there, too.
fn on_a_full_disk(profile: Profile) {
    let mut disk = None;
    let cluster = Cluster::start_in(profile, &on_disk(), |cluster| {
        let store = cluster.join(if profile == Profile::Embedded { "data/git" } else { "git" });
        match SmallDisk::mount(&store) {
            Ok(mounted) => disk = Some(mounted),
            Err(reason) => eprintln!("SKIPPED: cannot mount a file system for the full disk: {reason}"),
        }
        if profile == Profile::Embedded && disk.is_some() {
            std::os::unix::fs::symlink("git/journal.db", cluster.join("data/git.db")).unwrap();
        }
    });
    if disk.is_some() {
        run(&cluster, a_full_disk_breaks_nothing(&cluster));
    }
    drop(cluster);
    drop(disk);
}

struct Fixture {
    ada: User,
    git: Git,
    url: String,
    tip: String,
}

impl Fixture {
    async fn new(cluster: &Cluster) -> Self {
        let (ada, git) = (cluster.user("ada").await, Git::new());
        ada.new_repository("tight", json!({})).await;
        git.small("work").await;
        let url = ada.git_url(&ada.name, "tight");
        git.run("work", &["push", "-q", &url, "main"]).await;
        let tip = git.run("work", &["rev-parse", "HEAD"]).await;
        Self { ada, git, url, tip }
    }

    /// Commits an incompressible file, resets the work tree, and returns the commit.
    async fn large(&self, bytes: usize) -> String {
        std::fs::write(self.git.path().join("work/noise"), noise(bytes, 3)).unwrap();
        let tip = self.git.commit("work", "more", "x").await;
        self.git.run("work", &["reset", "-q", "--hard", &self.tip]).await;
        tip
    }

    async fn put(&self, path: &str, content: &[u8]) -> Response {
        let content = base64::engine::general_purpose::STANDARD.encode(content);
        self.ada.put(&self.ada.repo("tight", path), &json!({"message": "m", "content": content})).await
    }

    /// Checks that no ref moved, no temporary file is left, and everything is readable.
    async fn is_whole(&self, cluster: &Cluster, refs: &str) {
        wait_for_no_process_in(&cluster.store().join("repos"), Duration::from_secs(10)).await;
        assert_eq!(self.git.run("", &["ls-remote", &self.url]).await, refs);
        let copy = tempfile::tempdir_in(self.git.path()).unwrap().keep();
        let copy = copy.file_name().unwrap().to_str().unwrap().to_owned();
        self.git.run(&copy, &["clone", "-q", "--mirror", &self.url, "."]).await;
        self.git.run(&copy, &["fsck", "--strict"]).await;
        self.ada.get(&self.ada.repo("tight", "/raw/main/README.md")).await.expect(200);
        fsck_all(cluster, 0, &self.git).await;
        for _ in 0..400 {
            if leftovers(&cluster.store()).is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("quarantines are left: {:?}", leftovers(&cluster.store()));
    }

    async fn refs(&self) -> String {
        self.git.run("", &["ls-remote", &self.url]).await
    }
}

async fn a_full_disk_breaks_nothing(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    let (ada, git, url) = (&fixture.ada, &fixture.git, &fixture.url);
    let ssh = client_of(cluster, ada, "ed25519").await;
    let large = fixture.large(PUSH_BYTES).await;
    let refs = fixture.refs().await;
    let ballast = cluster.store().join("ballast");
    let used = usize::try_from(DISK_BYTES).unwrap() - PUSH_BYTES / 2;
    std::fs::write(&ballast, vec![1; used]).unwrap();
    let refspec = format!("{large}:refs/heads/large");
    let stderr = git.fails("work", &["-c", "core.compression=0", "push", url, &refspec]).await;
    assert!(stderr.contains("No space left on device"), "{stderr}");
    fixture.is_whole(cluster, &refs).await;
    let url_of_ssh = ssh.url(&ada.name, "tight");
    let output = ssh.command(git, "work", &["-c", "core.compression=0", "push", &url_of_ssh, &refspec]).output().await;
    let output = output.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("No space left on device"), "{stderr}");
    fixture.is_whole(cluster, &refs).await;
    fixture.put("/contents/large", &noise(PUSH_BYTES, 5)).await.refused_with_message(507, "the store's disk is full");
    fixture.is_whole(cluster, &refs).await;
    // Now there is no room left, not even for the database.
    fill(&cluster.store().join("more-ballast"));
    fixture.put("/contents/small", b"x").await.refused_with_message(507, "disk is full");
    let stderr = git.fails("work", &["push", url, "main:refs/heads/small"]).await;
    assert!(stderr.contains("full") || stderr.contains("No space left") || stderr.contains("507"), "{stderr}");
    let another = json!({"name": "another", "auto_init": true});
    ada.post("/user/repos", &another).await.refused_with_message(507, "disk is full");
    assert_eq!(fixture.refs().await, refs);
    git.run("", &["clone", "-q", url, "while-full"]).await;
    std::fs::remove_file(cluster.store().join("more-ballast")).unwrap();
    std::fs::remove_file(&ballast).unwrap();
    fixture.is_whole(cluster, &refs).await;
    git.run("work", &["-c", "core.compression=0", "push", "-q", url, &refspec, "main:refs/heads/small"]).await;
    fixture.put("/contents/small", b"x").await.expect(201);
    // The name of the failed repository is taken until a background task has removed it.
    ada.post("/user/repos", &json!({"name": "third", "auto_init": true})).await.expect(201);
    let open = "SELECT COUNT(*) FROM ref_journal WHERE state = 'open'";
    assert_eq!(cluster.number(Role::Git, open).await, 0);
    fsck_all(cluster, 0, git).await;
}

fn fill(place: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(place).unwrap();
    for size in [1 << 20, 4096, 512, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
}

fn with_small_files(profile: Profile) {
    let cluster = Cluster::start(profile, &on_disk());
    run(&cluster, files_that_cannot_grow_break_nothing(&cluster));
}

/// Sets the largest file that git-svc and its child processes can write; `None` for no limit.
fn limit_files(cluster: &Cluster, bytes: Option<usize>) {
    let id = cluster.process_id(Role::Git).unwrap();
    let soft = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
    let set = Command::new("prlimit").arg(format!("--pid={id}")).arg(format!("--fsize={soft}:")).output().unwrap();
    assert!(set.status.success(), "{set:?}");
}

async fn files_that_cannot_grow_break_nothing(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    let large = fixture.large(PUSH_BYTES).await;
    let refs = fixture.refs().await;
    limit_files(cluster, Some(PUSH_BYTES / 2));
    let push = ["-c", "core.compression=0", "push", fixture.url.as_str(), &format!("{large}:refs/heads/large")];
    let stderr = fixture.git.fails("work", &push).await;
    assert!(stderr.contains("unpack") || stderr.contains("rejected"), "{stderr}");
    fixture.is_whole(cluster, &refs).await;
    fixture.put("/contents/large", &noise(PUSH_BYTES, 5)).await.refused_with_message(507, "the store's disk is full");
    fixture.is_whole(cluster, &refs).await;
    fixture.put("/contents/small", b"x").await.expect(201);
    limit_files(cluster, None);
    fixture.git.run("work", &push).await;
    fixture.put("/contents/large", &noise(PUSH_BYTES, 5)).await.expect(201);
    fsck_all(cluster, 0, &fixture.git).await;
}
