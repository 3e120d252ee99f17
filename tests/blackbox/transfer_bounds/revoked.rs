//! Credentials revoked during a transfer: it ends, whether its client reads or not, and no ref
//! moves.

use std::process::Stdio;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferrite_proto::hook::WatchEventsRequest;
use ferrite_proto::hook::feed_service_client::FeedServiceClient;
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::{fed, packets};
use crate::harness::client::unique;
use crate::harness::grpc::{refused, with_token};
use crate::harness::ssh::{Client, client_of};
use crate::harness::{Cluster, Response, Role, User};

on_profiles! {
    both {
        readers_hear_no_more_soon_after_revocation
        streams_of_events_end_soon_after_revocation
        a_push_of_a_revoked_caller_ends_and_moves_no_ref
    }
}

/// Far more than the buffers between git-svc and a client that does not read.
const FILE_BYTES: usize = 64 << 20;
/// Maximum number of bytes that a reader still gets from buffers after its permission was revoked.
const MAX_BUFFERED_BYTES: usize = 40 << 20;
/// Time limit for everything of a revoked caller to end, with some room for a busy machine.
const REVOCATION_TIMEOUT: Duration = Duration::from_secs(12);
/// Time limit for a client to get the refusal, on a busy machine.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(12);
const READ_TIMEOUT: Duration = Duration::from_secs(120);
const RECEIVE_BUFFER_BYTES: u32 = 64 << 10;

/// Sends head and body of a request on a connection with small buffers.
async fn send(cluster: &Cluster, head: &str, body: &[u8]) -> TcpStream {
    let host = cluster.url.trim_start_matches("http://");
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES).unwrap();
    let mut stream = socket.connect(host.parse().unwrap()).await.unwrap();
    let head = format!("{head}\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
    stream
}

fn basic(user: &User) -> String {
    STANDARD.encode(format!("{}:{}", user.name, user.token.as_ref().unwrap()))
}

struct StalledReader {
    name: &'static str,
    source: Box<dyn AsyncRead + Unpin>,
}

impl StalledReader {
    async fn new(name: &'static str, mut source: impl AsyncRead + Unpin + 'static) -> Self {
        let mut start = vec![0; 64 << 10];
        let read = tokio::time::timeout(READ_TIMEOUT, source.read_exact(&mut start)).await.unwrap();
        assert!(read.is_ok(), "{name}: {read:?}");
        let text = String::from_utf8_lossy(&start[..12]).into_owned();
        assert!(!text.starts_with("HTTP/") || text == "HTTP/1.1 200", "{name}: {text}");
        Self { name, source: Box::new(source) }
    }

    async fn rest(mut self) -> usize {
        let (mut total, mut chunk) = (0, vec![0; 1 << 20]);
        let read = async {
            // A reset also ends the connection.
            while let Ok(count @ 1..) = self.source.read(&mut chunk).await {
                total += count;
            }
        };
        tokio::time::timeout(READ_TIMEOUT, read).await.unwrap();
        eprintln!("{}: {} KiB more", self.name, total >> 10);
        total
    }
}

/// Requests for the whole repository `name`, with this user's token.
async fn http_readers(cluster: &Cluster, user: &User, name: &str, tip: &str) -> Vec<StalledReader> {
    let repo = format!("/api/v1/repos/{}/{name}", user.name);
    let token = format!("authorization: token {}", user.token.as_ref().unwrap());
    let raw = send(cluster, &format!("GET {repo}/raw/main/noise HTTP/1.1\r\n{token}"), b"").await;
    let archive = send(cluster, &format!("GET {repo}/archive/main.zip HTTP/1.1\r\n{token}"), b"").await;
    let fetch = fetch_request(tip);
    let head = format!(
        "POST /{}/{name}.git/git-upload-pack HTTP/1.1\r\nauthorization: Basic {}\r\ngit-protocol: version=2\r\n\
         content-type: application/x-git-upload-pack-request\r\ncontent-length: {}",
        user.name,
        basic(user),
        fetch.len()
    );
    let clone = send(cluster, &head, &fetch).await;
    let asset = send(cluster, &format!("GET {} HTTP/1.1\r\n{token}", asset_path(user, name).await), b"").await;
    vec![
        StalledReader::new("file of a release", asset).await,
        StalledReader::new("raw file", raw).await,
        StalledReader::new("archive", archive).await,
        StalledReader::new("clone over HTTP", clone).await,
    ]
}

async fn asset_path(user: &User, name: &str) -> String {
    let releases = user.get(&user.repo(name, "/releases")).await.expect(200).json();
    let address = releases[0]["assets"][0]["browser_download_url"].as_str().unwrap().to_owned();
    address.strip_prefix(&user.url).unwrap().to_owned()
}

fn fetch_request(tip: &str) -> Vec<u8> {
    packets(["command=fetch", "0001", "ofs-delta", &format!("want {tip}"), "done", "0000"])
}

async fn revoke_token(user: &User, name: &str) {
    Response::of(user.tokens(Method::DELETE, &format!("/{name}"))).await.expect(204);
}

async fn revoke_key(user: &User) {
    let keys = user.get("/user/keys").await.expect(200).json();
    user.delete(&format!("/user/keys/{}", keys[0]["id"])).await.expect(204);
}

async fn readers_hear_no_more_soon_after_revocation(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let client = client_of(cluster, &ada, "ed25519").await;
    let (git, name) = (&client.git, unique("noisy"));
    ada.new_repository(&name, json!({"private": true})).await;
    git.run("", &["init", "-q", "work"]).await;
    git.run("work", &["config", "core.compression", "0"]).await;
    let mut noise = vec![0; FILE_BYTES];
    tokio::fs::File::open("/dev/urandom").await.unwrap().read_exact(&mut noise).await.unwrap();
    std::fs::write(git.path().join("work/noise"), &noise).unwrap();
    let tip = git.commit("work", "small", "x").await;
    git.run("work", &["push", "-q", &client.url(&ada.name, &name), "main"]).await;
    let release = ada.post(&ada.repo(&name, "/releases"), &json!({"tag_name": "v1"})).await.expect(201).json();
    let upload = ada.request(Method::POST, &ada.repo(&name, &format!("/releases/{}/assets?name=noise", release["id"])));
    Response::of(upload.header("content-type", "application/octet-stream").body(noise)).await.expect(201);

    let leaving = ada.with_token(Some(&ada.new_token("leaving").await));
    let mut readers = http_readers(cluster, &leaving, &name, &tip).await;
    let mut ssh = client.ssh(&["-o", "SendEnv=GIT_PROTOCOL"], &[&format!("git-upload-pack '{}/{name}.git'", ada.name)]);
    let mut process = ssh.stdin(Stdio::piped()).spawn().unwrap();
    process.stdin.as_mut().unwrap().write_all(&fetch_request(&tip)).await.unwrap();
    readers.push(StalledReader::new("clone over SSH", process.stdout.take().unwrap()).await);
    let staying = http_readers(cluster, &ada, &name, &tip).await;

    revoke_token(&ada, "leaving").await;
    revoke_key(&ada).await;
    tokio::time::sleep(REVOCATION_TIMEOUT).await;
    for reader in readers {
        let reader_name = reader.name;
        let total = reader.rest().await;
        assert!(total < MAX_BUFFERED_BYTES, "{reader_name}: {total} bytes after revocation");
    }
    for reader in staying {
        assert!(reader.rest().await > FILE_BYTES - (1 << 20), "others can read everything");
    }
}

async fn streams_of_events_end_soon_after_revocation(cluster: &Cluster) {
    let (ada, name) = (cluster.user("ada").await, unique("watched"));
    let made = ada.new_repository(&name, json!({"private": true, "auto_init": true})).await;
    let repository_id = made["id"].as_i64().unwrap();
    let token = ada.new_token("leaving").await;
    let leaving = ada.with_token(Some(&token));
    let head = format!(
        "GET /api/v1/repos/{}/{name}/events HTTP/1.1\r\naccept: text/event-stream\r\nauthorization: token {token}",
        leaving.name
    );
    let mut sent = send(cluster, &head, b"").await;
    let mut start = [0; 15];
    sent.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200 OK");
    let mut client = FeedServiceClient::new(cluster.channel(Role::Hook).await);
    let request = with_token(WatchEventsRequest { repository_id, after: String::new() }, &token);
    let mut watched = client.watch_events(request).await.unwrap().into_inner();
    watched.message().await.unwrap().unwrap();

    revoke_token(&ada, "leaving").await;
    let begun = Instant::now();
    let over_http = async {
        response(sent).await;
        begun.elapsed()
    };
    let over_grpc = async {
        let refusal = loop {
            match watched.message().await {
                Ok(Some(_)) => {}
                Ok(None) => break None,
                Err(status) => break Some(status),
            }
        };
        (refusal, begun.elapsed())
    };
    let (http, (refusal, grpc)) = tokio::join!(over_http, over_grpc);
    eprintln!("streams of events end {http:?} (HTTP) and {grpc:?} (gRPC, {refusal:?}) after revocation");
    assert!(http < REFUSAL_TIMEOUT && grpc < REFUSAL_TIMEOUT);
    let request = with_token(WatchEventsRequest { repository_id, after: String::new() }, &token);
    refused(client.watch_events(request).await, tonic::Code::Unauthenticated);
}

/// Commands and pack of a push of `main` to `reference`, in two halves.
async fn push_request(client: &Client, tip: &str, reference: &str) -> (Vec<u8>, Vec<u8>) {
    let pack = fed(&client.git, "work", &["pack-objects", "-q", "--stdout", "--revs"], b"main\n").await;
    let command = format!("{} {tip} {reference}\0report-status side-band-64k", "0".repeat(40));
    let mut bytes = packets([command.as_str(), "0000"]);
    let middle = bytes.len() + pack.len() / 2;
    bytes.extend(pack);
    let rest = bytes.split_off(middle);
    (bytes, rest)
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Starts a push over HTTP with the first half of its body.
async fn begin_http_push(cluster: &Cluster, user: &User, name: &str, first: &[u8]) -> TcpStream {
    let head = format!(
        "POST /{}/{name}.git/git-receive-pack HTTP/1.1\r\nauthorization: Basic {}\r\n\
         content-type: application/x-git-receive-pack-request\r\ntransfer-encoding: chunked",
        user.name,
        basic(user)
    );
    send(cluster, &head, &chunk(first)).await
}

async fn response(mut source: impl AsyncRead + Unpin) -> String {
    let mut bytes = Vec::new();
    // A reset after the response also ends the connection.
    drop(tokio::time::timeout(READ_TIMEOUT, source.read_to_end(&mut bytes)).await.unwrap());
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn a_push_of_a_revoked_caller_ends_and_moves_no_ref(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let client = client_of(cluster, &ada, "ed25519").await;
    let (git, name) = (&client.git, unique("pushed"));
    ada.new_repository(&name, json!({"private": true})).await;
    git.small("work").await;
    let tip = git.commit("work", "more", &"text\n".repeat(1000)).await;
    let with_token = async |token: &str| ada.with_token(Some(&ada.new_token(token).await));

    // The complete pack arrives right after the token was revoked.
    let leaving = with_token("late").await;
    let (first, rest) = push_request(&client, &tip, "refs/heads/late").await;
    let mut stream = begin_http_push(cluster, &leaving, &name, &first).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    revoke_token(&ada, "late").await;
    let begun = Instant::now();
    // The push may already be refused, and the connection reset.
    drop(stream.write_all(&[chunk(&rest), b"0\r\n\r\n".to_vec()].concat()).await);
    let text = response(stream).await;
    eprintln!("HTTP, rest sent: {:?} after {:?}", text.lines().last(), begun.elapsed());
    assert!(text.contains("refs/heads/late: access was revoked") || text.contains("401 Unauthorized"), "{text}");

    // The rest never arrives.
    let leaving = with_token("half").await;
    let (first, _) = push_request(&client, &tip, "refs/heads/half").await;
    let stream = begin_http_push(cluster, &leaving, &name, &first).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    revoke_token(&ada, "half").await;
    let begun = Instant::now();
    let text = response(stream).await;
    eprintln!("HTTP, half a push: {:?} after {:?}", text.lines().next(), begun.elapsed());
    assert!(text.contains("401 Unauthorized") && begun.elapsed() < REFUSAL_TIMEOUT, "{:?}: {text}", begun.elapsed());

    let (first, rest) = push_request(&client, &tip, "refs/heads/key").await;
    let mut ssh = client.ssh(&[], &[&format!("git-receive-pack '{}/{name}.git'", ada.name)]);
    let mut process = ssh.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(&first).await.unwrap();
    let mut stdout = process.stdout.take().unwrap();
    stdout.read_exact(&mut [0]).await.unwrap();
    revoke_key(&ada).await;
    // Fails if the session has already ended.
    drop(stdin.write_all(&rest).await);
    drop(stdin);
    let (report, complaint) = tokio::join!(response(stdout), response(process.stderr.take().unwrap()));
    eprintln!("SSH, rest sent: {:?} {complaint:?}", report.get(report.len().saturating_sub(60)..));
    let is_refused = report.contains("refs/heads/key: access was revoked") || complaint.contains("not registered");
    assert!(is_refused, "{report} {complaint}");

    let refs = git.run("", &["ls-remote", &ada.git_url(&ada.name, &name)]).await;
    assert_eq!(refs, "", "no ref moved");
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, &name), "main"]).await;
}
