//! Clients that hold connections: idle, slowly sending, pinging, or not reading responses.
//! Connections are limited per address and closed in time, and clients of other addresses are
//! served meanwhile.

pub(crate) mod http2;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ferrite_core::net::Address;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::harness::cluster::http_get;
use crate::harness::tree::noise;
use crate::harness::{Cluster, Git, Options, Profile, Role};

/// Client addresses; all of 127.0.0.0/8 belong to this machine.
const ATTACKER: [u8; 4] = [127, 0, 0, 66];
const OTHER: [u8; 4] = [127, 0, 0, 77];
/// Time limit for the server's own work on a machine busy with other tests.
const END_TIMEOUT: Duration = Duration::from_secs(90);

/// Runs a test on a separate installation. The gateway handles connections, so one profile is
/// enough.
fn on_installation(settings: &[(&'static str, &'static str)], test: impl AsyncFnOnce(&Cluster)) {
    let cluster = Cluster::start(Profile::Embedded, &Options { settings: settings.to_vec(), ..Options::default() });
    crate::harness::run(&cluster, test(&cluster));
}

async fn connect_from(address: [u8; 4], cluster: &Cluster) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(16 << 10)?;
    socket.bind(SocketAddr::from((address, 0)))?;
    socket.connect(host(cluster).parse().unwrap()).await
}

fn host(cluster: &Cluster) -> &str {
    cluster.url.trim_start_matches("http://")
}

/// Median time of `count` requests from `address`, each over a new connection. All must succeed.
async fn median_time(address: [u8; 4], cluster: &Cluster, count: usize) -> Duration {
    let mut times = Vec::new();
    for _ in 0..count {
        let started = Instant::now();
        let exchanged = async {
            let mut stream = connect_from(address, cluster).await?;
            let head = "GET /api/v1/users/root-admin HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).await?;
            let mut response = String::new();
            stream.read_to_string(&mut response).await?;
            Ok::<_, std::io::Error>(response)
        };
        let response =
            tokio::time::timeout(Duration::from_secs(10), exchanged).await.expect("a response in time").unwrap();
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        times.push(started.elapsed());
    }
    times.sort();
    times[count / 2]
}

fn metric(cluster: &Cluster, name: &str) -> f64 {
    let address = Address::Unix(cluster.folder.join("data/run/gateway.admin.sock"));
    let response = http_get(&address, "/metrics").expect("the private listener answers");
    let values = response.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.starts_with(['{', ' ']).then(|| line.rsplit_once(' ')?.1.parse::<f64>().ok())?
    });
    values.sum()
}

fn gateway_mib(cluster: &Cluster) -> u64 {
    let id = cluster.process_id(Role::Gateway).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    resident.unwrap().trim().parse::<u64>().unwrap() / 1024
}

/// Holds a connection and reopens it shortly after it is closed. With `drip`, sends a header byte
/// by byte.
async fn hold(host: Arc<str>, drip: bool, opened: Arc<AtomicUsize>) {
    loop {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((ATTACKER, 0))).unwrap();
        if let Ok(mut stream) = socket.connect(host.parse().unwrap()).await {
            opened.fetch_add(1, Ordering::SeqCst);
            if drip {
                let begun = stream.write_all(b"GET / HTTP/1.1\r\nhost: test\r\nx-slow: ").await;
                while begun.is_ok() && stream.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            } else {
                let _ = stream.read(&mut [0]).await;
            }
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
}

#[test]
fn idle_and_dripping_connections_of_one_address_do_not_stop_another() {
    on_installation(&[], async |cluster| {
        ferrite_listener::raise_descriptor_limit();
        let gateway = cluster.process_id(Role::Gateway).unwrap();
        let gateway = rustix::process::Pid::from_raw(gateway.try_into().unwrap());
        let limit = rustix::process::Rlimit { current: Some(1024), maximum: Some(1024) };
        rustix::process::prlimit(gateway, rustix::process::Resource::Nofile, limit).unwrap();
        let before = median_time(OTHER, cluster, 30).await;

        let (opened, host): (_, Arc<str>) = (Arc::new(AtomicUsize::new(0)), host(cluster).into());
        let mut attackers = JoinSet::new();
        for number in 0..1500 {
            attackers.spawn(hold(Arc::clone(&host), number >= 1000, Arc::clone(&opened)));
        }
        let started = Instant::now();
        while opened.load(Ordering::SeqCst) < 1000 {
            assert!(started.elapsed() < END_TIMEOUT, "the attackers cannot connect");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let meanwhile = median_time(OTHER, cluster, 30).await;
        let (held, refused) =
            (metric(cluster, "ferrite_connections"), metric(cluster, "ferrite_connections_refused_total"));
        eprintln!(
            "1,000 idle and 500 dripping connections of one address, 1,024 descriptors: {held} are held, {refused} were refused; a \
             request of another address takes {meanwhile:?}, {before:?} before, {:.2} times as long",
            meanwhile.as_secs_f64() / before.as_secs_f64()
        );
        assert!((1.0..=256.0 + 8.0).contains(&held) && refused > 0.0, "{held} held, {refused} refused");
    });
}

#[test]
fn idle_connections_are_closed_though_they_ping() {
    on_installation(&[("FERRITE_GATEWAY_IDLE_CONNECTION_SECONDS", "2")], async |cluster| {
        let mut plain = connect_from(OTHER, cluster).await.unwrap();
        let started = Instant::now();
        let plain = async {
            plain.write_all(b"GET /api/v1/users/root-admin HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
            let _ = plain.read_to_end(&mut Vec::new()).await;
            started.elapsed()
        };
        let pinging = async {
            let stream = connect_from(OTHER, cluster).await.unwrap();
            let mut connection = http2::Connection::new(stream, "test", 65_535).await.unwrap();
            loop {
                let next = tokio::time::timeout(Duration::from_millis(200), connection.next()).await;
                if matches!(next, Ok(None)) || connection.ping().await.is_err() {
                    return started.elapsed();
                }
            }
        };
        let both = async { tokio::join!(plain, pinging) };
        let (plain, pinging) = tokio::time::timeout(END_TIMEOUT, both).await.expect("idle connections are closed");
        eprintln!("idle for 2 s: HTTP/1.1 closed after {plain:?}, HTTP/2 with PING after {pinging:?}");
        assert!(plain >= Duration::from_secs(1) && pinging >= Duration::from_secs(1));
    });
}

#[test]
fn streams_beyond_the_limit_of_a_connection_are_refused() {
    const STREAMS: u32 = 1024;
    on_installation(&[], async |cluster| {
        let ada = cluster.user("ada").await;
        let before = gateway_mib(cluster);
        let stream = connect_from(ATTACKER, cluster).await.unwrap();
        let mut connection = http2::Connection::new(stream, "test", 65_535).await.unwrap();
        let mut refused = 0;
        connection.posts(STREAMS, "/api/v1/user/repos", ada.token.as_deref().unwrap()).await.unwrap();
        // Refusals are immediate.
        let end = tokio::time::Instant::now() + Duration::from_secs(5);
        while let Ok(Some(frame)) = tokio::time::timeout_at(end, connection.next()).await {
            if frame.kind == http2::RST_STREAM && frame.payload == 7_u32.to_be_bytes() && frame.stream > 0 {
                refused += 1;
            }
        }
        let growth = gateway_mib(cluster).saturating_sub(before);
        eprintln!(
            "{STREAMS} streams of one connection: the server announces {:?} at once and refuses {refused}, +{growth} MiB",
            connection.max_streams
        );
        assert_eq!(connection.max_streams, Some(64));
        assert!(refused >= 100 && growth < 200, "{refused} refused, +{growth} MiB");
    });
}

#[test]
fn requests_of_one_address_are_bounded_whatever_their_connections() {
    on_installation(&[("FERRITE_GATEWAY_REQUESTS_PER_ADDRESS", "40")], async |cluster| {
        let token = cluster.user("ada").await.token.unwrap();
        let stream = connect_from(ATTACKER, cluster).await.unwrap();
        let mut connection = http2::Connection::new(stream, "test", 65_535).await.unwrap();
        // These requests remain, because their bodies never arrive.
        connection.posts(60, "/api/v1/user/repos", &token).await.unwrap();
        let mut answered = 0;
        // Well before the timeout of the missing bodies, and some time after the last expected
        // refusal.
        let mut end = tokio::time::Instant::now() + Duration::from_secs(20);
        while let Ok(Some(frame)) = tokio::time::timeout_at(end, connection.next()).await {
            answered += usize::from(frame.kind == http2::HEADERS);
            if answered == 20 {
                end = end.min(tokio::time::Instant::now() + Duration::from_secs(3));
            }
        }
        let path = "/api/v1/users/root-admin";
        let mine = begin_get(ATTACKER, cluster, path, &token).await.0;
        let other = begin_get(OTHER, cluster, path, &token).await.0;
        eprintln!(
            "60 requests of one address that stay: {answered} are refused, its next one gets {mine}, another address {other}"
        );
        assert_eq!((answered, mine, other), (20, 503, 200));
        drop(connection);
        let started = Instant::now();
        while begin_get(ATTACKER, cluster, path, &token).await.0 != 200 {
            assert!(started.elapsed() < END_TIMEOUT, "requests of a closed connection still count");
        }
    });
}

/// The base64 response is a third larger: more than the system buffers for a client that does not
/// read.
const FILE_BYTES: usize = 4 << 20;
const RESPONSE_BYTES: usize = FILE_BYTES / 3 * 4;
const SLOW_CONNECTIONS: usize = 5;

async fn begin_get(address: [u8; 4], cluster: &Cluster, path: &str, token: &str) -> (u16, TcpStream) {
    let mut stream = connect_from(address, cluster).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: test\r\nauthorization: token {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    let read = tokio::time::timeout(END_TIMEOUT, stream.read_exact(&mut status)).await;
    read.expect("a response in time").expect("an answer");
    let status = std::str::from_utf8(&status).unwrap();
    (status.strip_prefix("HTTP/1.1 ").unwrap().parse().unwrap(), stream)
}

/// Pushes a large file. Returns the path of its blob in the API, and the owner's token.
async fn large_blob(cluster: &Cluster) -> (String, String) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("large", json!({})).await;
    git.small("work").await;
    std::fs::write(git.path().join("work/noise"), noise(FILE_BYTES, 3)).unwrap();
    git.commit("work", "more", "x").await;
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, "large"), "main"]).await;
    let blob = git.run("work", &["rev-parse", "HEAD:noise"]).await;
    (format!("/api/v1/repos/{}/large/git/blobs/{blob}", ada.name), ada.token.clone().unwrap())
}

#[test]
fn responses_that_are_not_read_are_bounded_for_each_address() {
    // Room for two, which are not cut off before the last one is refused.
    const SETTINGS: &[(&str, &str)] = &[
        ("FERRITE_GATEWAY_WAITING_RESPONSE_BYTES_PER_ADDRESS", "12000000"),
        ("FERRITE_GATEWAY_RESPONSE_PAUSE_SECONDS", "600"),
    ];
    on_installation(SETTINGS, async |cluster| {
        let (path, token) = large_blob(cluster).await;
        let (before, mut held, mut refused) = (gateway_mib(cluster), Vec::new(), 0);
        for _ in 0..SLOW_CONNECTIONS {
            match begin_get(ATTACKER, cluster, &path, &token).await {
                (200, stream) => held.push(stream),
                (503, mut stream) => {
                    refused += 1;
                    let mut head = [0; 400];
                    let length = stream.read(&mut head).await.unwrap();
                    let head = String::from_utf8_lossy(&head[..length]).to_lowercase();
                    assert!(head.contains("retry-after: "), "{head}");
                }
                (status, _) => panic!("status {status}"),
            }
        }
        let growth = gateway_mib(cluster).saturating_sub(before);
        let waiting = metric(cluster, "ferrite_waiting_response_bytes");
        eprintln!(
            "{SLOW_CONNECTIONS} connections of one address that do not read {RESPONSE_BYTES} bytes each: {refused} are refused, \
             {waiting} bytes wait, +{growth} MiB"
        );
        assert_eq!((held.len(), refused), (2, SLOW_CONNECTIONS - 2));
        assert!(waiting <= 12e6, "{waiting} bytes wait");
        assert_eq!(begin_get(OTHER, cluster, &path, &token).await.0, 200, "another address is served");
        drop(held);
        let started = Instant::now();
        while metric(cluster, "ferrite_waiting_response_bytes") > 0.0 {
            assert!(started.elapsed() < END_TIMEOUT, "bytes of closed connections are still buffered");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
}

#[test]
fn clients_that_do_not_read_are_cut() {
    on_installation(&[("FERRITE_GATEWAY_RESPONSE_PAUSE_SECONDS", "3")], async |cluster| {
        let (path, token) = large_blob(cluster).await;
        // An HTTP/2 client that never opens its window: the socket stays writable.
        let stream = connect_from(OTHER, cluster).await.unwrap();
        let mut connection = http2::Connection::new(stream, "test", 1).await.unwrap();
        connection.get(&path, &token).await.unwrap();
        let started = Instant::now();
        let windowless = async {
            while connection.next().await.is_some() {}
            started.elapsed()
        };
        let windowless = tokio::time::timeout(END_TIMEOUT, windowless).await.expect("HTTP/2 is cut");

        let (status, mut stream) = begin_get(OTHER, cluster, &path, &token).await;
        assert_eq!(status, 200);
        let started = Instant::now();
        while metric(cluster, "ferrite_waiting_response_bytes") > 0.0 {
            assert!(started.elapsed() < END_TIMEOUT, "HTTP/1.1 is not cut");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let plain = started.elapsed();
        // Bytes that the system has buffered still arrive.
        let mut rest = Vec::new();
        let _ = tokio::time::timeout(END_TIMEOUT, stream.read_to_end(&mut rest)).await.expect("HTTP/1.1 is cut");
        eprintln!(
            "clients that do not read for 3 s: HTTP/2 without a window is cut after {windowless:?}, HTTP/1.1 after {plain:?} and \
             {} of {RESPONSE_BYTES} bytes",
            rest.len()
        );
        assert!(rest.len() < RESPONSE_BYTES, "the whole response arrived");
    });
}
