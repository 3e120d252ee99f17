//! Clients that never finish because they read too slowly or send without end. Each is
//! disconnected, with a git protocol error if it still reads, and its resources are released.
//! Meanwhile other clients are served as usual.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::harness::ssh::{Client, client_of};
use crate::harness::tree::running_in;
use crate::harness::tree::{fsck_all, leftovers, noise, wait_for_no_process_in};
use crate::harness::{Cluster, Git, Options, User};

on_own_installations! {
    clients_that_read_too_slowly_are_cut_off(with(SLOW))
    a_push_without_end_meets_the_limit_of_its_size(with(SMALL))
    a_push_without_end_meets_the_limit_of_its_time(with(SHORT))
}

/// A client must read two megabytes per second.
const SLOW: &[(&str, &str)] = &[("FERRITE_GIT_IDLE_SECONDS", "5"), ("FERRITE_GIT_SLOWEST_BYTES", "2000000")];
const SMALL: &[(&str, &str)] = &[("FERRITE_GIT_MAX_PUSH_BYTES", "4000000")];
const SHORT: &[(&str, &str)] = &[("FERRITE_GIT_TRANSFER_SECONDS", "10")];
const END_TIMEOUT: Duration = Duration::from_secs(90);
/// Larger than all buffers on the way: one TCP receive buffer alone can grow to 32 MiB.
const FILE_BYTES: usize = 64 << 20;
const BLOCK_BYTES: usize = 60_000;

fn with(settings: &[(&'static str, &'static str)]) -> Options {
    Options { settings: settings.to_vec(), ..Options::default() }
}

struct Fixture {
    ada: User,
    ssh: Client,
    git: Git,
    tip: String,
    other: OtherClient,
}

struct OtherClient {
    is_over: Arc<AtomicBool>,
    rounds: Arc<AtomicUsize>,
    task: JoinSet<()>,
}

impl OtherClient {
    async fn start(cluster: &Cluster) -> Self {
        let bob = cluster.user("bob").await;
        bob.new_repository("busy", json!({"auto_init": true})).await;
        let (is_over, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (over, count) = (Arc::clone(&is_over), Arc::clone(&rounds));
        let mut task = JoinSet::new();
        task.spawn(async move {
            let git = Git::new();
            let url = bob.git_url(&bob.name, "busy");
            for round in 0.. {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                let folder = format!("round-{round}");
                git.run("", &["clone", "-q", &url, &folder]).await;
                git.commit(&folder, &format!("file-{round}"), "x").await;
                git.run(&folder, &["push", "-q", "origin", "main"]).await;
                let path = bob.repo("busy", &format!("/contents/by-api-{round}"));
                bob.put(&path, &json!({"message": "m", "content": ""})).await.expect(201);
                bob.get(&bob.repo("busy", "/branches")).await.expect(200);
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { is_over, rounds, task }
    }

    async fn finish(mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.task.join_next().await.unwrap().unwrap();
        assert!(self.rounds.load(Ordering::SeqCst) > 0, "the other client was not served");
    }
}

impl Fixture {
    async fn new(cluster: &Cluster, noisy: usize) -> Self {
        let (ada, git) = (cluster.user("ada").await, Git::new());
        ada.new_repository("slow", json!({})).await;
        git.small("work").await;
        std::fs::write(git.path().join("work/noise"), noise(noisy, 1)).unwrap();
        let tip = git.commit("work", "more", "x").await;
        let url = ada.git_url(&ada.name, "slow");
        git.run("work", &["-c", "core.compression=0", "push", "-q", &url, "main"]).await;
        let ssh = client_of(cluster, &ada, "ed25519").await;
        Self { ada, ssh, git, tip, other: OtherClient::start(cluster).await }
    }

    fn head(&self, service: &str, framing: &str) -> String {
        let credentials = format!("{}:{}", self.ada.name, self.ada.token.as_deref().unwrap());
        let credentials = base64::engine::general_purpose::STANDARD.encode(credentials);
        format!(
            "POST /{}/slow.git/{service} HTTP/1.1\r\nhost: {}\r\nauthorization: Basic {credentials}\r\n\
             content-type: application/x-{service}-request\r\n{framing}\r\n\r\n",
            self.ada.name,
            self.ada.url.trim_start_matches("http://"),
        )
    }

    /// With a small receive buffer.
    async fn connect(&self) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 << 10).unwrap();
        socket.connect(self.ada.url.trim_start_matches("http://").parse().unwrap()).await.unwrap()
    }

    async fn fetch(&self) -> TcpStream {
        let body = self.want();
        let mut stream = self.connect().await;
        let head = self.head("git-upload-pack", &format!("content-length: {}", body.len()));
        stream.write_all((head + &body).as_bytes()).await.unwrap();
        stream
    }

    fn want(&self) -> String {
        format!("0032want {}\n00000009done\n", self.tip)
    }

    fn over_ssh(&self, command: &str) -> tokio::process::Child {
        let mut ssh = self.ssh.ssh(&[], &[&format!("{command} '{}/slow.git'", self.ada.name)]);
        ssh.stdin(Stdio::piped()).spawn().unwrap()
    }

    /// Checks that the repository is unchanged and that the transfers left nothing behind.
    async fn finish(self, cluster: &Cluster) {
        self.other.finish().await;
        wait_for_no_process_in(&cluster.store(), END_TIMEOUT).await;
        let start = Instant::now();
        while !leftovers(&cluster.store()).is_empty() {
            assert!(start.elapsed() < Duration::from_secs(10), "left: {:?}", leftovers(&cluster.store()));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let listed = self.git.run("", &["ls-remote", &self.ada.git_url(&self.ada.name, "slow")]).await;
        assert_eq!(listed, format!("{}\tHEAD\n{}\trefs/heads/main", self.tip, self.tip));
        assert_eq!(fsck_all(cluster, 0, &self.git).await, 2);
    }
}

async fn clients_that_read_too_slowly_are_cut_off(cluster: &Cluster) {
    let fixture = Fixture::new(cluster, FILE_BYTES).await;
    let repository = fixture.ada.get(&fixture.ada.repo("slow", "")).await.expect(200).json();
    let (begun, id) = (AtomicUsize::new(0), repository["id"].as_i64().unwrap());
    let (cut, is_cut) = tokio::sync::watch::channel(false);
    // git's exit shows that the clients were cut off. They still receive bytes in flight.
    let watch = async {
        let start = Instant::now();
        while begun.load(Ordering::SeqCst) < 3 || running_in(&cluster.store(), id) > 0 {
            assert!(start.elapsed() < END_TIMEOUT, "git still runs");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        cut.send(true).unwrap();
    };
    let stalled = async {
        let mut stream = fixture.fetch().await;
        stream.read_exact(&mut [0; 1000]).await.unwrap();
        begun.fetch_add(1, Ordering::SeqCst);
        is_cut.clone().wait_for(|is_cut| *is_cut).await.unwrap();
        rest_of(&mut stream).await
    };
    // Reads a little now and then, so that the transfer is never idle.
    let dripping = async {
        let (mut stream, mut piece) = (fixture.fetch().await, vec![0; 20_000]);
        stream.read_exact(&mut piece).await.unwrap();
        begun.fetch_add(1, Ordering::SeqCst);
        while !*is_cut.borrow() && stream.read(&mut piece).await.is_ok_and(|count| count > 0) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        rest_of(&mut stream).await
    };
    let over_ssh = async {
        let mut ssh = fixture.over_ssh("git-upload-pack");
        let (mut stdin, mut stdout) = (ssh.stdin.take().unwrap(), ssh.stdout.take().unwrap());
        stdin.write_all(fixture.want().as_bytes()).await.unwrap();
        stdout.read_exact(&mut [0; 1000]).await.unwrap();
        begun.fetch_add(1, Ordering::SeqCst);
        is_cut.clone().wait_for(|is_cut| *is_cut).await.unwrap();
        let rest = rest_of(&mut stdout).await;
        assert!(!tokio::time::timeout(END_TIMEOUT, ssh.wait()).await.unwrap().unwrap().success());
        rest
    };
    let ((), stalled, dripping, over_ssh) = tokio::join!(watch, stalled, dripping, over_ssh);
    for (who, rest) in [("stalled", stalled), ("dripping", dripping), ("over ssh", over_ssh)] {
        let end = String::from_utf8_lossy(&rest[rest.len().saturating_sub(200)..]);
        let is_whole = rest.len() >= FILE_BYTES || rest.ends_with(b"\r\n0\r\n\r\n");
        assert!(!is_whole, "{who}: the response is complete with {} bytes and ends in {end:?}", rest.len());
    }
    fixture.finish(cluster).await;
}

async fn rest_of<R: AsyncRead + Unpin>(from: &mut R) -> Vec<u8> {
    let mut rest = Vec::new();
    // A reset also ends the connection.
    let _ = tokio::time::timeout(END_TIMEOUT, from.read_to_end(&mut rest)).await.expect("an end");
    rest
}

fn endless_head(tip: &str) -> Vec<u8> {
    let features = "report-status side-band-64k";
    let line = format!("{} {tip} refs/heads/endless\0{features}", "0".repeat(40));
    let mut bytes = format!("{:04x}{line}0000", line.len() + 4).into_bytes();
    bytes.extend_from_slice(b"PACK\0\0\0\x02\0\0\0\x01");
    // A blob of 2 GiB, which is within the limit: four bits of the size with the type, then seven
    // bits at a time.
    let mut size: u64 = 1 << 31;
    let mut byte = 0x30 | u8::try_from(size & 15).unwrap();
    size >>= 4;
    while size > 0 {
        bytes.push(byte | 0x80);
        byte = u8::try_from(size & 127).unwrap();
        size >>= 7;
    }
    // The last byte of the size, then the header of a zlib stream.
    bytes.extend_from_slice(&[byte, 0x78, 0x01]);
    bytes
}

fn block() -> Vec<u8> {
    let length = u16::try_from(BLOCK_BYTES).unwrap();
    let mut bytes = vec![0];
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&(!length).to_le_bytes());
    bytes.extend_from_slice(&noise(BLOCK_BYTES, 9));
    bytes
}

async fn send<W: AsyncWrite + Unpin>(to: &mut W, tip: &str, is_chunked: bool, pause: Duration) {
    let block = block();
    let mut next = endless_head(tip);
    loop {
        if is_chunked {
            next = [format!("{:x}\r\n", next.len()).as_bytes(), &next, b"\r\n"].concat();
        }
        if to.write_all(&next).await.is_err() || to.flush().await.is_err() {
            return;
        }
        next.clone_from(&block);
        tokio::time::sleep(pause).await;
    }
}

async fn over_http(fixture: &Fixture, pause: Duration) -> String {
    let mut stream = fixture.connect().await;
    stream.write_all(fixture.head("git-receive-pack", "transfer-encoding: chunked").as_bytes()).await.unwrap();
    let (mut from, mut to) = stream.split();
    let mut response = Vec::new();
    let read = async {
        let _ = from.read_to_end(&mut response).await;
    };
    // The response may arrive while the client is still sending.
    let both = async {
        tokio::select! {
            () = read => {}
            never = async { send(&mut to, &fixture.tip, true, pause).await; std::future::pending::<()>().await } => never,
        }
    };
    tokio::time::timeout(END_TIMEOUT, both).await.expect("an endless push was not cut off");
    String::from_utf8_lossy(&response).into_owned()
}

async fn over_ssh(fixture: &Fixture, pause: Duration) -> String {
    let mut ssh = fixture.over_ssh("git-receive-pack");
    let (mut stdin, mut stdout, mut stderr) =
        (ssh.stdin.take().unwrap(), ssh.stdout.take().unwrap(), ssh.stderr.take().unwrap());
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let both = async {
        let read = async { tokio::join!(stdout.read_to_end(&mut output), stderr.read_to_end(&mut errors)) };
        tokio::select! {
            _ = read => {}
            never = async { send(&mut stdin, &fixture.tip, false, pause).await; std::future::pending::<()>().await } => never,
        }
    };
    tokio::time::timeout(END_TIMEOUT, both).await.expect("an endless push was not cut off");
    drop(stdin);
    ssh.wait().await.unwrap();
    format!("{}{}", String::from_utf8_lossy(&output), String::from_utf8_lossy(&errors))
}

async fn a_push_without_end_meets_the_limit_of_its_size(cluster: &Cluster) {
    let fixture = Fixture::new(cluster, 1000).await;
    let (http, ssh) = tokio::join!(over_http(&fixture, Duration::ZERO), over_ssh(&fixture, Duration::ZERO));
    for (transport, response) in [("http", http), ("ssh", ssh)] {
        assert!(response.contains("pack exceeds maximum allowed size"), "{transport}: {response}");
        assert!(response.contains("unpack ") && response.contains("ng refs/heads/endless"), "{transport}: {response}");
    }
    fixture.finish(cluster).await;
}

async fn a_push_without_end_meets_the_limit_of_its_time(cluster: &Cluster) {
    let fixture = Fixture::new(cluster, 1000).await;
    let pause = Duration::from_millis(100);
    let (http, ssh) = tokio::join!(over_http(&fixture, pause), over_ssh(&fixture, pause));
    assert!(http.contains("unpack the transfer took too long\n"), "{http}");
    assert!(http.contains("ng refs/heads/endless not done\n"), "{http}");
    assert!(ssh.contains("Ferrite: the session took too long\n"), "{ssh}");
    fixture.finish(cluster).await;
}
