//! A thousand clients disconnect in the middle of a clone or push, dozens at a time (a hundred in
//! `make test`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::harness::tree::{Random, fsck_all, leftovers, noise, wait_for_no_process_in};
use crate::harness::{Cluster, Git, Options, User, rounds};

on_own_installations! {
    clients_that_disconnect_leave_nothing_behind(Options { settings: SETTINGS.to_vec(), ..Options::default() })
}

const SETTINGS: &[(&str, &str)] = &[("FERRITE_GIT_LIGHT", "160"), ("FERRITE_GIT_PUSHES", "160")];

const CLIENTS: usize = 500;
const CONCURRENT_CLIENTS: usize = 24;
/// Larger than all buffers on the way, so that a client disconnects in the middle.
const FILE_BYTES: usize = 24 << 20;
/// Time limit for git to end after its client: designed to be two seconds, more on a machine busy
/// with other tests. Far less than the idle timeout of a transfer.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest part of a pack that a client sends.
const MAX_SENT_BYTES: u64 = 6 << 20;

struct Fixture {
    host: String,
    path: String,
    credentials: String,
    tip: String,
    pack: Vec<u8>,
    /// Clients that disconnected before and after data was transferred.
    early: AtomicUsize,
    late: AtomicUsize,
}

impl Fixture {
    fn new(user: &User, name: &str, tip: String, pack: Vec<u8>) -> Self {
        let credentials = format!("{}:{}", user.name, user.token.as_deref().unwrap());
        let credentials = base64::engine::general_purpose::STANDARD.encode(credentials);
        let (host, path) = (user.url.trim_start_matches("http://").to_owned(), format!("/{}/{name}.git", user.name));
        Self { host, path, credentials, tip, pack, early: AtomicUsize::new(0), late: AtomicUsize::new(0) }
    }

    fn head(&self, service: &str, length: usize) -> String {
        format!(
            "POST {}/{service} HTTP/1.1\r\nhost: {}\r\nauthorization: Basic {}\r\n\
             content-type: application/x-{service}-request\r\ncontent-length: {length}\r\n\r\n",
            self.path, self.host, self.credentials
        )
    }

    async fn fetch(&self, mut random: Random) -> std::io::Result<()> {
        let body = format!("0032want {}\n00000009done\n", self.tip);
        let mut stream = TcpStream::connect(&self.host).await?;
        stream.write_all((self.head("git-upload-pack", body.len()) + &body).as_bytes()).await?;
        if random.below(8) == 0 {
            // At this point git has just started, or not yet.
            tokio::time::sleep(Duration::from_millis(random.below(30))).await;
            self.early.fetch_add(1, Ordering::SeqCst);
            return Ok(());
        }
        let mut taken = vec![0; 1 + usize::try_from(random.below(1 << 20)).unwrap()];
        stream.read_exact(&mut taken).await?;
        self.late.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn push(&self, mut random: Random, number: usize) -> std::io::Result<()> {
        let line = format!("{} {} refs/heads/cut-{number}\0report-status", "0".repeat(40), self.tip);
        let commands = format!("{:04x}{line}0000", line.len() + 4);
        let mut stream = TcpStream::connect(&self.host).await?;
        let head = self.head("git-receive-pack", commands.len() + self.pack.len());
        stream.write_all((head + &commands).as_bytes()).await?;
        let most = MAX_SENT_BYTES.min(self.pack.len() as u64 - 1);
        let part = random.below(most).min(random.below(most)).min(random.below(most));
        stream.write_all(&self.pack[..usize::try_from(part).unwrap()]).await?;
        tokio::time::sleep(Duration::from_millis(random.below(60))).await;
        self.late.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Creates a repository with a large file, and a pack of everything.
async fn fixture(user: &User, git: &Git) -> Fixture {
    user.new_repository("cut", json!({})).await;
    git.small("work").await;
    std::fs::write(git.path().join("work/noise"), noise(FILE_BYTES, 7)).unwrap();
    let tip = git.commit("work", "more", "x").await;
    let url = user.git_url(&user.name, "cut");
    git.run("work", &["-c", "core.compression=0", "push", "-q", &url, "main"]).await;
    git.run("work", &["-c", "core.compression=0", "repack", "-a", "-d", "-q"]).await;
    let packs = std::fs::read_dir(git.path().join("work/.git/objects/pack")).unwrap().flatten();
    let pack = packs.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|end| end == "pack"));
    Fixture::new(user, "cut", tip, std::fs::read(pack.unwrap()).unwrap())
}

async fn clients_that_disconnect_leave_nothing_behind(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    let fixture = Arc::new(fixture(&ada, &git).await);
    let (mut random, mut clients, mut next) = (Random::seeded(), JoinSet::new(), 0..rounds(CLIENTS));
    let mut broken = Vec::new();
    loop {
        while clients.len() < CONCURRENT_CLIENTS
            && let Some(number) = next.next()
        {
            let (fixture, own) = (Arc::clone(&fixture), Random(random.next()));
            clients.spawn(async move {
                let work =
                    async { if number % 2 == 0 { fixture.fetch(own).await } else { fixture.push(own, number).await } };
                tokio::time::timeout(Duration::from_secs(100), work).await.map_err(std::io::Error::from)?
            });
        }
        let Some(outcome) = clients.join_next().await else { break };
        if let Err(error) = outcome.unwrap() {
            broken.push(error.to_string());
        }
    }
    let (early, late) = (fixture.early.load(Ordering::SeqCst), fixture.late.load(Ordering::SeqCst));
    eprintln!("{late} clients disconnected in the middle, {early} before any data; {} refused", broken.len());
    // A rejected client gets a complete response, shorter than the part it wants to read.
    assert!(broken.len() * 10 < rounds(CLIENTS), "{:?}", &broken[..broken.len().min(5)]);
    let start = Instant::now();
    wait_for_no_process_in(&cluster.store(), END_TIMEOUT).await;
    eprintln!("no git process is left after {:?}", start.elapsed());
    let left = || leftovers(&cluster.store());
    for _ in 0..400 {
        if left().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(left(), [""; 0].map(std::path::PathBuf::from), "quarantines are left behind");
    repository_is_intact(&ada, &git).await;
    assert_eq!(fsck_all(cluster, 0, &git).await, 1);
}

async fn repository_is_intact(user: &User, git: &Git) {
    let url = user.git_url(&user.name, "cut");
    assert_eq!(git.run("", &["ls-remote", &url]).await.lines().count(), 2, "HEAD and main");
    git.run("", &["clone", "-q", &url, "copy"]).await;
    git.run("copy", &["fsck", "--strict"]).await;
    git.commit("copy", "after", "x").await;
    git.run("copy", &["push", "-q", "origin", "main"]).await;
    let body = json!({"message": "After", "content": ""});
    user.put(&user.repo("cut", "/contents/by-api"), &body).await.expect(201);
}
