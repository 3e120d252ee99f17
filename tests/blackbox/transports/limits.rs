//! Large pushes in little memory, clients that go away, and credentials that end in the middle.

use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Door, door::Target, through_both};
use crate::harness::tree::running_in;
use crate::harness::{Answer, Cluster, Options, Role};

on_profiles! {
    both {
        a_client_that_leaves_takes_git_along_at_once
        a_transfer_that_began_ends_and_the_next_one_is_refused
    }
}

mod alone {
    use super::*;

    fn with_short_recheck() -> Options {
        Options { settings: vec![("FERRITE_GATEWAY_RECHECK_SECONDS", "1")], ..Options::default() }
    }

    on_own_installations! {
        a_large_push_takes_little_memory_and_comes_back_whole(Options::default())
        who_may_not_go_on_is_cut_off(with_short_recheck())
    }
}

/// A hundred of git's own buffers for a push over HTTP: it is sent in chunks, without a length.
const LARGE: u64 = 100 << 20;
/// More than a process may need for a push, however large that is.
const ROOM: u64 = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// The most memory that a process has had so far.
fn most_memory(cluster: &Cluster, role: Role) -> u64 {
    let status = format!("/proc/{}/status", cluster.process_id(role).unwrap());
    let text = std::fs::read_to_string(status).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Writes bytes that no compression makes smaller.
fn write_noise(path: &Path, count: u64) {
    let mut random = std::fs::File::open("/dev/urandom").unwrap().take(count);
    assert_eq!(std::io::copy(&mut random, &mut std::fs::File::create(path).unwrap()).unwrap(), count);
}

async fn a_large_push_takes_little_memory_and_comes_back_whole(cluster: &Cluster) {
    through_both(cluster, async |door: &Door| {
        let (git, target) = (door.git(), door.empty("large").await);
        git.run("", &["init", "-q", "work"]).await;
        write_noise(&git.path().join("work/noise"), LARGE);
        git.run("work", &["config", "core.compression", "0"]).await;
        git.commit("work", "small", "x").await;
        let roles = [Role::Git, Role::Gateway];
        let before = roles.map(|role| most_memory(cluster, role));
        git.run("work", &["push", "-q", &target.url, "main"]).await;
        for (role, before) in roles.into_iter().zip(before) {
            let after = most_memory(cluster, role);
            eprintln!("{role:?}: {} MiB, and {} MiB more", before >> 20, (after - before) >> 20);
            assert!(after < before + ROOM, "{role:?}: {} MiB more", (after - before) >> 20);
        }
        // The client checks every byte against its id.
        git.run("", &["clone", "-q", "--bare", &target.url, "copy"]).await;
        assert_eq!(git.refs("copy").await, git.refs("work").await);
    })
    .await;
}

async fn wait_until(what: &str, check: impl Fn() -> bool) {
    let start = Instant::now();
    while !check() {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A client that has begun to talk to git and waits; dropped, it is gone.
enum Begun {
    Http(tokio::net::TcpStream),
    Ssh(Box<tokio::process::Child>),
}

impl Begun {
    /// A request for `git-{service}` that is not whole.
    async fn new(cluster: &Cluster, door: &Door, target: &Target, service: &str) -> Self {
        let (user, name) = (&door.user, &target.name);
        if let Some(client) = door.ssh() {
            let mut ssh = client.ssh(&[], &[&format!("git-{service} '{}/{name}.git'", user.name)]);
            let mut process = ssh.stdin(Stdio::piped()).spawn().unwrap();
            process.stdout.as_mut().unwrap().read_exact(&mut [0]).await.unwrap();
            return Self::Ssh(Box::new(process));
        }
        let host = cluster.url.trim_start_matches("http://");
        let credential = STANDARD.encode(format!("{}:{}", user.name, user.token.as_ref().unwrap()));
        let head = format!(
            "POST /{}/{name}.git/git-{service} HTTP/1.1\r\nhost: {host}\r\nauthorization: Basic {credential}\r\n\
             content-type: application/x-git-{service}-request\r\nconnection: close\r\n\
             transfer-encoding: chunked\r\n\r\n4\r\n0032\r\n",
            user.name,
        );
        let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        Self::Http(stream)
    }

    /// Waits until the other side ends it; what that said.
    async fn end(self) -> String {
        let mut told = Vec::new();
        match self {
            Self::Http(mut stream) => drop(stream.read_to_end(&mut told).await),
            Self::Ssh(mut process) => {
                process.stderr.take().unwrap().read_to_end(&mut told).await.unwrap();
                assert!(!process.wait().await.unwrap().success());
            }
        }
        String::from_utf8_lossy(&told).into_owned()
    }

    /// Asks for this commit and all before it; all that is answered.
    async fn fetch(self, tip: &str) -> Vec<u8> {
        let mut answer = Vec::new();
        match self {
            Self::Http(mut stream) => {
                // The length of the first line went ahead.
                let rest = format!("want {tip}\n00000009done\n");
                let rest = format!("{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len());
                stream.write_all(rest.as_bytes()).await.unwrap();
                stream.read_to_end(&mut answer).await.unwrap();
            }
            Self::Ssh(mut process) => {
                let mut stdin = process.stdin.take().unwrap();
                stdin.write_all(format!("0032want {tip}\n00000009done\n").as_bytes()).await.unwrap();
                process.stdout.take().unwrap().read_to_end(&mut answer).await.unwrap();
                assert!(process.wait().await.unwrap().success());
            }
        }
        answer
    }
}

async fn a_client_that_leaves_takes_git_along_at_once(cluster: &Cluster) {
    through_both(cluster, async |door: &Door| {
        let target = door.repository("left", json!({"auto_init": true})).await;
        let running = || running_in(&cluster.store(), target.id);
        for service in ["upload-pack", "receive-pack"] {
            let begun = Begun::new(cluster, door, &target, service).await;
            wait_until("git runs", || running() > 0).await;
            drop(begun);
            wait_until("git has ended", || running() == 0).await;
        }
        let git = door.git();
        git.run("", &["clone", "-q", &target.url, "work"]).await;
        git.commit("work", "x", "x").await;
        git.run("work", &["push", "-q", "origin", "main"]).await;
    })
    .await;
}

async fn a_transfer_that_began_ends_and_the_next_one_is_refused(cluster: &Cluster) {
    through_both(cluster, async |door: &Door| {
        let (git, user) = (door.git(), &door.user);
        let target = door.repository("begun", json!({"auto_init": true, "private": true})).await;
        git.run("", &["clone", "-q", &target.url, "work"]).await;
        let tip = git.run("work", &["rev-parse", "HEAD"]).await;
        let short = match door.ssh() {
            Some(_) => None,
            None => Some(door.with_token(&user.new_token("short").await)),
        };
        let door = short.as_ref().unwrap_or(door);
        let begun = Begun::new(cluster, door, &target, "upload-pack").await;
        wait_until("git runs", || running_in(&cluster.store(), target.id) > 0).await;
        revoke(door, "short").await;
        let answer = begun.fetch(&tip).await;
        assert!(answer.windows(4).any(|window| window == b"PACK"), "{}", String::from_utf8_lossy(&answer));
        let told = git.fails("work", &["fetch", &door.url(&target.name)]).await;
        assert!(told.contains("Permission denied (publickey)") || told.contains("Authentication failed"), "{told}");
    })
    .await;
}

/// Takes away what a door was opened with.
async fn revoke(door: &Door, token_name: &str) {
    let user = &door.user;
    if door.ssh().is_some() {
        let keys = user.get("/user/keys").await.expect(200).json();
        user.delete(&format!("/user/keys/{}", keys[0]["id"])).await.expect(204);
    } else {
        let revoke = user.raw(Method::DELETE, &format!("/api/v1/users/{}/tokens/{token_name}", user.name));
        Answer::of(revoke.basic_auth(&user.name, Some(&user.password))).await.expect(204);
    }
}

async fn who_may_not_go_on_is_cut_off(cluster: &Cluster) {
    through_both(cluster, async |door: &Door| {
        let target = door.repository("cut", json!({"auto_init": true, "private": true})).await;
        let running = || running_in(&cluster.store(), target.id);
        let staying =
            Begun::new(cluster, &door.with_token(door.user.token.as_ref().unwrap()), &target, "upload-pack").await;
        wait_until("git runs", || running() == 1).await;
        let short = match door.ssh() {
            Some(_) => None,
            None => Some(door.with_token(&door.user.new_token("short").await)),
        };
        let leaving = short.as_ref().unwrap_or(door);
        let begun = Begun::new(cluster, leaving, &target, "receive-pack").await;
        wait_until("git runs twice", || running() == 2).await;
        revoke(door, "short").await;
        let told = begun.end().await;
        let is_told = told.contains("401 Unauthorized") || told.contains("This key is not registered any more");
        assert!(is_told, "{told}");
        wait_until("one git has ended", || running() == 1).await;
        drop(staying);
    })
    .await;
}
