//! Request and response bodies that need much memory or time are bounded, and other clients are
//! served meanwhile.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::connections::http2::{Connection, HEADERS, RST_STREAM};
use crate::harness::{Cluster, Options, Profile, Response, Role, User};

const MIB: usize = 1 << 20;
const MAX_RESPONSE_BYTES: usize = 16 * MIB;
const MAX_LISTED_TEXT_BYTES: usize = 64 << 10;
const NO_TOKEN: &str = "00000000000000000000000000000000000000aa";
/// Time limit for the server's own work on a machine busy with other tests. Shorter than the 30
/// seconds that a body may pause.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(25);

/// Runs a test on a separate installation, because it measures memory. The gateway handles bodies,
/// so one profile is enough.
fn on_installation(settings: &[(&'static str, &'static str)], test: impl AsyncFnOnce(&Cluster)) {
    let cluster = Cluster::start(Profile::Embedded, &Options { settings: settings.to_vec(), ..Options::default() });
    crate::harness::run(&cluster, test(&cluster));
}

/// Memory of a process: resident now, and the peak since the last measurement.
struct Memory {
    status: String,
    before: usize,
}

impl Memory {
    fn of(cluster: &Cluster, role: Role) -> Self {
        let folder = format!("/proc/{}", cluster.process_id(role).unwrap());
        // Resets the peak.
        std::fs::write(format!("{folder}/clear_refs"), "5").unwrap();
        let status = format!("{folder}/status");
        Self { before: bytes_of(&status, "VmRSS:"), status }
    }

    fn growth_mib(&self) -> usize {
        bytes_of(&self.status, "VmHWM:").saturating_sub(self.before) / MIB
    }
}

fn bytes_of(status: &str, name: &str) -> usize {
    let text = std::fs::read_to_string(status).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

fn host(cluster: &Cluster) -> &str {
    cluster.url.trim_start_matches("http://")
}

/// Connects from an address in 127.0.0.0/8; all of them belong to this machine.
async fn connect_from(cluster: &Cluster, address: [u8; 4]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from((address, 0))).unwrap();
    socket.connect(host(cluster).parse().unwrap()).await.unwrap()
}

fn head(cluster: &Cluster, request: &str, token: &str, declared: usize) -> Vec<u8> {
    let host = host(cluster);
    let head = format!(
        "{request} HTTP/1.1\r\nhost: {host}\r\nauthorization: token {token}\r\ncontent-type: application/json\r\n\
         content-length: {declared}\r\n\r\n"
    );
    head.into_bytes()
}

/// Sends a request with part of its body. The response must arrive without the rest.
async fn response_to_part(mut stream: TcpStream, head: Vec<u8>, sent: usize) -> String {
    let mut response = Vec::new();
    let exchange = async {
        stream.write_all(&head).await.unwrap();
        let (mut from, mut to) = stream.split();
        let body = vec![b' '; sent];
        // If the connection is closed while the body is sent, there may still be a response.
        let (_, read) = tokio::join!(to.write_all(&body), from.read_to_end(&mut response));
        read
    };
    let ended = tokio::time::timeout(RESPONSE_TIMEOUT, exchange).await.expect("a response before the rest of the body");
    let response = String::from_utf8_lossy(&response).into_owned();
    assert!(ended.is_ok() || !response.is_empty(), "the response was lost: {ended:?}");
    response
}

#[test]
fn bodies_without_a_valid_credential_are_not_read() {
    on_installation(&[], async |cluster| {
        let memory = Memory::of(cluster, Role::Gateway);
        let mut clients = JoinSet::new();
        for number in 0..300_u16 {
            // From two addresses, each within its connection limit.
            let stream = connect_from(cluster, [127, 0, 1, if number % 2 == 0 { 1 } else { 2 }]).await;
            let head = head(cluster, "POST /api/v1/user/repos", NO_TOKEN, 3 * MIB);
            clients.spawn(response_to_part(stream, head, 2 * MIB));
        }
        let responses = clients.join_all().await;
        let refused = responses.iter().filter(|response| response.starts_with("HTTP/1.1 401")).count();
        let closed = responses.iter().filter(|response| response.contains("\r\nconnection: close\r\n")).count();
        let growth = memory.growth_mib();
        eprintln!("300 bodies of 2 MiB without credentials: {refused} refused, {closed} closed, gateway +{growth} MiB");
        assert_eq!((refused, closed), (300, 300), "{:?}", responses.first());
        assert!(growth < 128, "{growth} MiB");
    });
}

#[test]
fn streams_without_a_valid_credential_are_answered_before_their_bodies() {
    const STREAMS: u32 = 1024;
    on_installation(&[], async |cluster| {
        let memory = Memory::of(cluster, Role::Gateway);
        let stream = connect_from(cluster, [127, 0, 1, 3]).await;
        let mut connection = Connection::new(stream, host(cluster), 65_535).await.unwrap();
        let (mut answered, mut refused) = (HashSet::new(), HashSet::new());
        let exchange = async {
            connection.posts(STREAMS, "/api/v1/user/repos", NO_TOKEN).await.unwrap();
            while answered.len() + refused.len() < usize::try_from(STREAMS).unwrap() {
                let Some(frame) = connection.next().await else { break };
                match frame.kind {
                    HEADERS => answered.insert(frame.stream),
                    // A stream whose response came before its body is also reset.
                    RST_STREAM if !answered.contains(&frame.stream) => refused.insert(frame.stream),
                    _ => false,
                };
            }
        };
        let is_in_time = tokio::time::timeout(RESPONSE_TIMEOUT, exchange).await.is_ok();
        let (answered, refused, growth) = (answered.len(), refused.len(), memory.growth_mib());
        eprintln!(
            "{STREAMS} streams without credentials: {answered} answered, {refused} refused, gateway +{growth} MiB"
        );
        assert!(is_in_time, "streams wait for their bodies; {answered} responses");
        assert!(answered > 0 && growth < 128, "{answered} answered, {growth} MiB");
    });
}

#[test]
fn a_response_before_the_body_is_seen_by_a_client_that_still_sends() {
    on_installation(&[], async |cluster| {
        let ada = cluster.user("ada").await;
        ada.new_repository("demo", json!({})).await;
        let path = ada.repo("demo", "/contents/large");
        let token = ada.token.as_deref().unwrap();
        let head = head(cluster, &format!("PUT /api/v1{path}"), token, 200 * MIB);
        let stream = connect_from(cluster, [127, 0, 1, 4]).await;
        let response = response_to_part(stream, head, 12 * MIB).await;
        eprintln!("200 MiB declared, 12 MiB sent: {:?}", response.lines().next());
        assert!(response.starts_with("HTTP/1.1 413"), "{response}");
        assert!(response.contains("\r\nconnection: close\r\n") && response.contains("\"message\""), "{response}");
    });
}

/// Slowly sent bodies above 4 MiB, and their responses.
struct Trickled {
    tasks: JoinSet<()>,
    refused: Arc<AtomicUsize>,
    too_slow: Arc<AtomicUsize>,
}

impl Trickled {
    async fn start(cluster: &Cluster, user: &User, count: usize) -> Self {
        const DECLARED_BYTES: usize = 6 * MIB;
        let (refused, too_slow) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for number in 0..count {
            let path = user.repo("demo", &format!("/contents/trickled-{number}"));
            let head = head(cluster, &format!("PUT /api/v1{path}"), user.token.as_deref().unwrap(), DECLARED_BYTES);
            let mut stream = TcpStream::connect(host(cluster)).await.unwrap();
            let (refused, too_slow) = (Arc::clone(&refused), Arc::clone(&too_slow));
            tasks.spawn(async move {
                let (mut from, mut to) = stream.split();
                let trickle = async {
                    let _ = to.write_all(&head).await;
                    // Larger than an ordinary body, so it occupies a place.
                    let _ = to.write_all(&vec![b' '; 4 * MIB + (64 << 10)]).await;
                    while to.write_all(b" ").await.is_ok() {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                    }
                    std::future::pending::<()>().await;
                };
                let mut response = String::new();
                tokio::select! {
                    () = trickle => {}
                    _ = from.read_to_string(&mut response) => {}
                }
                match response.get(9..12) {
                    Some("503") => refused.fetch_add(1, Ordering::SeqCst),
                    Some("408") => too_slow.fetch_add(1, Ordering::SeqCst),
                    _ => panic!("another response: {response:?}"),
                };
            });
        }
        Self { tasks, refused, too_slow }
    }
}

#[test]
fn trickled_uploads_of_one_user_do_not_stop_another() {
    const UPLOADS: usize = 16;
    on_installation(&[("FERRITE_GATEWAY_BODY_PAUSE_SECONDS", "8")], async |cluster| {
        let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
        for user in [&ada, &bob] {
            user.new_repository("demo", json!({})).await;
        }
        let mut trickled = Trickled::start(cluster, &ada, UPLOADS).await;
        // At least half of them find no place.
        let started = Instant::now();
        while trickled.refused.load(Ordering::SeqCst) < UPLOADS / 2 {
            assert!(started.elapsed() < RESPONSE_TIMEOUT, "the uploads do not occupy their places");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let body = json!({"message": "m", "content": "QUFB".repeat(6 * MIB / 4)});
        let started = Instant::now();
        let response = bob.put(&bob.repo("demo", "/contents/large"), &body).await;
        let (status, took) = (response.status, started.elapsed());
        assert_eq!(status, 201, "{}", response.text());
        // Slow bodies lose their places.
        let ends = async { while trickled.tasks.join_next().await.is_some() {} };
        tokio::time::timeout(Duration::from_secs(120), ends).await.expect("the slow uploads were not cut off");
        let [refused, too_slow] = [&trickled.refused, &trickled.too_slow].map(|count| count.load(Ordering::SeqCst));
        eprintln!(
            "{UPLOADS} trickled uploads: {refused} refused, {too_slow} too slow; 6 MiB of another user: {status} in {took:?}"
        );
        assert!(too_slow > 0 && refused + too_slow == UPLOADS, "{refused} refused, {too_slow} too slow");
    });
}

async fn check_list(user: &User, path: &str, field: &str, text: &str, count: usize) -> usize {
    let response = user.get(path).await.expect(200);
    let list = response.json();
    let entries = list.as_array().unwrap();
    assert_eq!(entries.len(), count, "{path}");
    for entry in entries {
        let shown = entry[field].as_str().unwrap();
        assert!(shown.len() <= MAX_LISTED_TEXT_BYTES && shown.len() > 1000 && text.starts_with(shown), "{path}");
        assert_eq!(entry["truncated"], true, "{path}");
    }
    assert!(response.body.len() <= MAX_RESPONSE_BYTES, "{path}: {} bytes", response.body.len());
    response.body.len()
}

#[test]
fn lists_of_the_longest_texts_are_bounded() {
    const ISSUES: usize = 50;
    const OTHERS: usize = 4;
    // Texts can have 1 MiB. An eighth shows the same in less time: escaped, 50 of them have 37 MiB.
    const TEXT_BYTES: usize = MIB / 8;
    on_installation(&[], async |cluster| {
        let ada = cluster.user("ada").await;
        let repo = ada.new_tracker("long", json!({"auto_init": true})).await;
        let text = "<".repeat(TEXT_BYTES);
        for _ in 0..ISSUES {
            let made = ada.new_issue(&repo, "Long", json!({ "body": text, "assignee": ada.name })).await;
            assert!(made.get("truncated").is_none() && made["body"].as_str().unwrap().len() == TEXT_BYTES);
        }
        for number in 0..OTHERS {
            ada.new_comment(&repo, 1, &text).await;
            let release = json!({"tag_name": format!("v{number}"), "body": text, "draft": true});
            ada.post(&format!("{repo}/releases"), &release).await.expect(201);
        }
        let roles = [Role::Gateway, Role::Issue, Role::Repo];
        let memory = roles.map(|role| Memory::of(cluster, role));
        let mut bytes = Vec::new();
        for (path, count) in [
            (format!("{repo}/issues?limit=50"), ISSUES),
            (format!("{repo}/issues?limit=50&q=long"), ISSUES),
            ("/user/issues?limit=50".to_owned(), ISSUES),
            (format!("{repo}/issues/1/comments"), OTHERS),
            (format!("{repo}/issues/comments"), OTHERS),
            (format!("{repo}/releases"), OTHERS),
        ] {
            bytes.push(check_list(&ada, &path, "body", &text, count).await);
        }
        let growth = memory.map(|memory| memory.growth_mib());
        eprintln!(
            "lists of {ISSUES} issues and {OTHERS} comments of {TEXT_BYTES} bytes: {bytes:?} bytes, {roles:?} +{growth:?} MiB"
        );
        assert!(growth.iter().all(|growth| *growth < 160), "{growth:?}");
        let whole = ada.get(&format!("{repo}/issues/1")).await.expect(200).json();
        assert!(whole["body"] == text && whole.get("truncated").is_none());
    });
}

#[test]
fn a_repeated_write_of_a_file_is_answered_without_a_copy_of_the_file() {
    on_installation(&[], async |cluster| {
        let ada = cluster.user("ada").await;
        ada.new_repository("demo", json!({})).await;
        let path = ada.repo("demo", "/contents/file");
        let body = json!({"message": "m", "content": "QUFB".repeat(MIB / 4)});
        let put = async || {
            let request = ada.request(Method::PUT, &path).header("idempotency-key", "once").json(&body);
            Response::of(request).await.expect(201).json()
        };
        let (first, second): (Value, Value) = (put().await, put().await);
        assert_eq!(first["content"]["content"], body["content"]);
        assert!(first == second, "the repeated response differs");
        let stored = cluster.number(Role::Git, "SELECT MAX(LENGTH(answer)) FROM idempotency").await;
        eprintln!("a file of {} bytes written with an idempotency key: {stored} bytes stored", 3 * MIB / 4);
        assert!(stored < 64 << 10, "{stored}");
    });
}
