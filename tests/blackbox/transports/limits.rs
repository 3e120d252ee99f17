//! Large pushes with little memory, disconnecting clients, and credentials revoked during a
//! transfer.

use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Transport, over_both, transport::Target};
use crate::harness::tree::running_in;
use crate::harness::{Cluster, Options, Response, Role};

on_profiles! {
    both {
        git_ends_at_once_when_its_client_disconnects
        a_short_transfer_finishes_after_revocation_and_the_next_is_refused
    }
}

mod alone {
    use super::*;

    fn with_short_recheck() -> Options {
        Options { settings: vec![("FERRITE_GATEWAY_RECHECK_SECONDS", "1")], ..Options::default() }
    }

    on_own_installations! {
        a_large_push_takes_little_memory_and_comes_back_whole(Options::default())
        a_transfer_ends_soon_after_revocation(with_short_recheck())
    }
}

/// Above git's `http.postBuffer` of 1 MiB, a push is sent in chunks, without a length.
const FILE_BYTES: u64 = 100 << 20;
/// Memory that a process may use for a push of any size.
const MAX_GROWTH_BYTES: u64 = 64 << 20;
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

fn peak_memory(cluster: &Cluster, role: Role) -> u64 {
    let status = format!("/proc/{}/status", cluster.process_id(role).unwrap());
    let text = std::fs::read_to_string(status).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn write_noise(path: &Path, count: u64) {
    let mut random = std::fs::File::open("/dev/urandom").unwrap().take(count);
    assert_eq!(std::io::copy(&mut random, &mut std::fs::File::create(path).unwrap()).unwrap(), count);
}

async fn a_large_push_takes_little_memory_and_comes_back_whole(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let (git, target) = (transport.git(), transport.empty("large").await);
        git.run("", &["init", "-q", "work"]).await;
        write_noise(&git.path().join("work/noise"), FILE_BYTES);
        git.run("work", &["config", "core.compression", "0"]).await;
        git.commit("work", "small", "x").await;
        let roles = [Role::Git, Role::Gateway];
        let before = roles.map(|role| peak_memory(cluster, role));
        git.run("work", &["push", "-q", &target.url, "main"]).await;
        for (role, before) in roles.into_iter().zip(before) {
            let after = peak_memory(cluster, role);
            // The kernel counts pages per thread, so its sum can decrease a little.
            let growth = after.saturating_sub(before);
            eprintln!("{role:?}: {} MiB, and {} MiB more", before >> 20, growth >> 20);
            assert!(growth < MAX_GROWTH_BYTES, "{role:?}: {} MiB more", growth >> 20);
        }
        // The client verifies every object by its id.
        git.run("", &["clone", "-q", "--bare", &target.url, "copy"]).await;
        assert_eq!(git.refs("copy").await, git.refs("work").await);
    })
    .await;
}

async fn wait_until(what: &str, check: impl Fn() -> bool) {
    let start = Instant::now();
    while !check() {
        assert!(start.elapsed() < WAIT_TIMEOUT, "timeout: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A client in the middle of a transfer, which disconnects on drop.
enum OpenTransfer {
    Http(tokio::net::TcpStream),
    Ssh(Box<tokio::process::Child>),
}

impl OpenTransfer {
    /// Sends an incomplete request for `git-{service}`.
    async fn new(cluster: &Cluster, transport: &Transport, target: &Target, service: &str) -> Self {
        let (user, name) = (&transport.user, &target.name);
        if let Some(client) = transport.ssh() {
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

    /// Waits until the server closes the connection and returns its message.
    async fn end(self) -> String {
        let mut message = Vec::new();
        match self {
            Self::Http(mut stream) => drop(stream.read_to_end(&mut message).await),
            Self::Ssh(mut process) => {
                process.stderr.take().unwrap().read_to_end(&mut message).await.unwrap();
                assert!(!process.wait().await.unwrap().success());
            }
        }
        String::from_utf8_lossy(&message).into_owned()
    }

    /// Completes the request with a commit to fetch and returns the response. If the server refused
    /// it before, it may reset the connection, and the response is what arrived until then.
    async fn fetch(self, tip: &str) -> Vec<u8> {
        let mut response = Vec::new();
        match self {
            Self::Http(mut stream) => {
                // The length of this pkt-line has already been sent.
                let rest = format!("want {tip}\n00000009done\n");
                let rest = format!("{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len());
                drop(stream.write_all(rest.as_bytes()).await);
                drop(stream.read_to_end(&mut response).await);
            }
            Self::Ssh(mut process) => {
                let mut stdin = process.stdin.take().unwrap();
                drop(stdin.write_all(format!("0032want {tip}\n00000009done\n").as_bytes()).await);
                process.stdout.take().unwrap().read_to_end(&mut response).await.unwrap();
                process.wait().await.unwrap();
            }
        }
        response
    }
}

async fn git_ends_at_once_when_its_client_disconnects(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let target = transport.repository("left", json!({"auto_init": true})).await;
        let running = || running_in(&cluster.store(), target.id);
        for service in ["upload-pack", "receive-pack"] {
            let open = OpenTransfer::new(cluster, transport, &target, service).await;
            wait_until("git runs", || running() > 0).await;
            drop(open);
            wait_until("git has ended", || running() == 0).await;
        }
        let git = transport.git();
        git.run("", &["clone", "-q", &target.url, "work"]).await;
        git.commit("work", "x", "x").await;
        git.run("work", &["push", "-q", "origin", "main"]).await;
    })
    .await;
}

async fn a_short_transfer_finishes_after_revocation_and_the_next_is_refused(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let (git, user) = (transport.git(), &transport.user);
        let target = transport.repository("open", json!({"auto_init": true, "private": true})).await;
        git.run("", &["clone", "-q", &target.url, "work"]).await;
        let tip = git.run("work", &["rev-parse", "HEAD"]).await;
        let short = match transport.ssh() {
            Some(_) => None,
            None => Some(transport.with_token(&user.new_token("short").await)),
        };
        let transport = short.as_ref().unwrap_or(transport);
        let open = OpenTransfer::new(cluster, transport, &target, "upload-pack").await;
        wait_until("git runs", || running_in(&cluster.store(), target.id) > 0).await;
        revoke(transport, "short").await;
        // It finishes, unless the machine is so busy that repo-svc is asked again first.
        let response = open.fetch(&tip).await;
        let is_whole = response.windows(4).any(|window| window == b"PACK");
        let text = String::from_utf8_lossy(&response);
        assert!(is_whole || text.contains("401 Unauthorized") || text.is_empty(), "{text}");
        let stderr = git.fails("work", &["fetch", &transport.url(&target.name)]).await;
        assert!(
            stderr.contains("Permission denied (publickey)") || stderr.contains("Authentication failed"),
            "{stderr}"
        );
    })
    .await;
}

async fn revoke(transport: &Transport, token_name: &str) {
    let user = &transport.user;
    if transport.ssh().is_some() {
        let keys = user.get("/user/keys").await.expect(200).json();
        user.delete(&format!("/user/keys/{}", keys[0]["id"])).await.expect(204);
    } else {
        let revoke = user.raw(Method::DELETE, &format!("/api/v1/users/{}/tokens/{token_name}", user.name));
        Response::of(revoke.basic_auth(&user.name, Some(&user.password))).await.expect(204);
    }
}

async fn a_transfer_ends_soon_after_revocation(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let target = transport.repository("cut", json!({"auto_init": true, "private": true})).await;
        let running = || running_in(&cluster.store(), target.id);
        let staying = OpenTransfer::new(
            cluster,
            &transport.with_token(transport.user.token.as_ref().unwrap()),
            &target,
            "upload-pack",
        )
        .await;
        wait_until("git runs", || running() == 1).await;
        let short = match transport.ssh() {
            Some(_) => None,
            None => Some(transport.with_token(&transport.user.new_token("short").await)),
        };
        let leaving = short.as_ref().unwrap_or(transport);
        let open = OpenTransfer::new(cluster, leaving, &target, "receive-pack").await;
        wait_until("git runs twice", || running() == 2).await;
        revoke(transport, "short").await;
        let message = open.end().await;
        let is_refused = message.contains("401 Unauthorized") || message.contains("This key is no longer registered");
        assert!(is_refused, "{message}");
        wait_until("one git has ended", || running() == 1).await;
        drop(staying);
    })
    .await;
}
