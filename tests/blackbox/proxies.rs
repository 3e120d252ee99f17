//! Gateways behind proxies: whose claim about a client's address is trusted, in headers and in the
//! PROXY protocol. Clients of one proxy do not share a limit.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::harness::client::unique;
use crate::harness::gateway::Gateway;
use crate::harness::ssh::client_of;
use crate::harness::{Cluster, Options, Profile, Response, User, run, servers};

on_profiles! {
    production {
        forged_headers_change_nothing_without_the_setting
        the_proxy_protocol_names_the_client_of_http
        the_proxy_protocol_names_the_client_of_ssh
        clients_of_one_ipv6_network_share_a_number_of_connections
    }
}

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// The trusted proxy of these tests.
const PROXY: [u8; 4] = [127, 77, 0, 1];
const STRANGER: [u8; 4] = [127, 77, 0, 2];
const PEOPLE: usize = 20;

#[test]
fn one_of_twenty_people_behind_a_trusted_proxy_stops_nobody_else() {
    let settings = vec![
        ("FERRITE_GATEWAY_TRUSTED_PROXIES", "127.0.0.0/8, 10.0.0.0/8"),
        ("FERRITE_REPO_SIGN_IN_FAILURES_ADDRESS", "10"),
    ];
    let cluster = Cluster::start(Profile::Embedded, &Options { settings, ..Options::default() });
    run(&cluster, twenty_people(&cluster));
}

/// A path that checks a password and changes nothing.
fn tokens_of(user: &User) -> String {
    format!("/api/v1/users/{}/tokens", user.name)
}

/// Signs in by password, with additional headers.
async fn sign_in(user: &User, password: &str, headers: &[(&'static str, &str)]) -> Response {
    let mut request = user.raw(Method::GET, &tokens_of(user)).basic_auth(&user.name, Some(password));
    for &(name, value) in headers {
        request = request.header(name, value);
    }
    Response::of(request).await
}

/// Creates an account that never signs in.
async fn new_person(admin: &User, number: usize) -> User {
    let mut person = admin.with_token(None);
    person.name = unique(&format!("person{number}"));
    person.password = format!("password of {}", person.name);
    let email = format!("{}@example.com", person.name);
    let body = json!({"username": person.name, "email": email, "password": person.password});
    admin.post("/admin/users", &body).await.expect(201);
    person
}

/// The address in the audit log for the user's last new token.
async fn address_of_last_token(cluster: &Cluster, user: &User) -> String {
    let admin = cluster.admin().await;
    let found = admin.get(&format!("/admin/audit?limit=1&action=token.create&actor={}", user.name)).await.expect(200);
    found.json()[0]["address"].as_str().unwrap_or_default().to_owned()
}

async fn twenty_people(cluster: &Cluster) {
    let admin = cluster.admin().await;
    let mut people = Vec::new();
    for number in 0..PEOPLE {
        people.push(new_person(&admin, number).await);
    }
    let address = |number: usize| format!("203.0.113.{}", number + 1);
    // The first one fails. The proxy appends its client's address to the header that the client
    // sent, so forging the header does not help.
    let (mut wrong, mut throttled) = (0, 0);
    for attempt in 0..16 {
        let sent = format!("198.51.100.{attempt}, {}, 10.0.0.7", address(0));
        match sign_in(&people[0], "wrong", &[("x-forwarded-for", sent.as_str())]).await.status.as_u16() {
            401 => wrong += 1,
            429 => throttled += 1,
            status => panic!("{status}"),
        }
    }
    assert_eq!((wrong, throttled), (10, 6), "the address of the failing client is counted");
    // Nor does the other header, which this proxy does not set.
    let lists = address(0);
    let forged = [("x-forwarded-for", lists.as_str()), ("forwarded", "for=198.51.100.77")];
    sign_in(&people[0], "wrong", &forged).await.refused(401);
    // The others sign in for the first time, each from a different address.
    let mut served = 0;
    for (number, person) in people.iter().enumerate().skip(1) {
        let from = address(number);
        let headers = match number % 3 {
            0 => [("x-forwarded-for", from.clone())],
            1 => [("forwarded", format!("for=198.51.100.1, for=\"{from}:4711\";proto=https"))],
            _ => [("x-forwarded-for", format!("nonsense, {from}, 10.9.9.9"))],
        };
        sign_in(person, &person.password, &[(headers[0].0, headers[0].1.as_str())]).await.expect(200);
        served += 1;
    }
    eprintln!(
        "behind one proxy: 1 person failed {wrong} times and was throttled {throttled} times, {served} others signed in"
    );
    let person = &people[5];
    let request = person.raw(Method::POST, &tokens_of(person)).basic_auth(&person.name, Some(&person.password));
    let request = request.header("x-forwarded-for", "203.0.113.77").json(&json!({"name": "x"}));
    Response::of(request).await.expect(201);
    assert_eq!(address_of_last_token(cluster, person).await, "203.0.113.77");
}

async fn forged_headers_change_nothing_without_the_setting(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    // From a separate address, so that its failures do not count in other tests.
    let client = reqwest::Client::builder().no_proxy().local_address(Some(STRANGER.into())).build().unwrap();
    let url = format!("{}{}", ada.url, tokens_of(&ada));
    let request = client.post(&url).basic_auth(&ada.name, Some(&ada.password)).json(&json!({"name": "x"}));
    Response::of(request.header("x-forwarded-for", "203.0.113.99")).await.expect(201);
    assert_eq!(address_of_last_token(cluster, &ada).await, "127.77.0.2");
    let mut statuses = Vec::new();
    for attempt in 0..22 {
        let (address, forwarded) = (format!("203.0.113.{attempt}"), format!("for=203.0.113.{attempt}"));
        let request = client.get(&url).basic_auth(&ada.name, Some("wrong")).header("x-forwarded-for", &address);
        let response = Response::of(request.header("x-real-ip", &address).header("forwarded", &forwarded)).await;
        statuses.push(response.status.as_u16());
    }
    eprintln!("each with a forged address: {statuses:?}");
    assert_eq!(statuses, [[401_u16; 20].as_slice(), &[429_u16; 2]].concat());
}

async fn connect(from: [u8; 4], to: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((std::net::IpAddr::from(from), 0).into()).unwrap();
    socket.connect(to.parse().unwrap()).await.unwrap()
}

async fn exchange(from: [u8; 4], to: &str, sent: &[u8]) -> String {
    let mut stream = connect(from, to).await;
    stream.write_all(sent).await.unwrap();
    let mut response = Vec::new();
    // A reset connection has no response.
    let _ =
        tokio::time::timeout(RESPONSE_TIMEOUT, stream.read_to_end(&mut response)).await.expect("the connection ends");
    String::from_utf8_lossy(&response).into_owned()
}

/// A request that creates a token by password and closes the connection.
fn token_request(user: &User, name: &str) -> Vec<u8> {
    let credential = STANDARD.encode(format!("{}:{}", user.name, user.password));
    let body = json!({ "name": name }).to_string();
    format!(
        "POST {} HTTP/1.1\r\nhost: test\r\nconnection: close\r\nauthorization: Basic {credential}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        tokens_of(user),
        body.len(),
    )
    .into_bytes()
}

const MAX_COUNTERS: usize = 64;

#[test]
fn failures_from_many_addresses_do_not_make_others_forgotten() {
    let settings = vec![("FERRITE_GATEWAY_TRUSTED_PROXIES", "127.0.0.0/8"), ("FERRITE_RATE_LIMIT_COUNTERS", "64")];
    let cluster = Cluster::start(Profile::Embedded, &Options { settings, ..Options::default() });
    run(&cluster, many_counters(&cluster));
}

async fn many_counters(cluster: &Cluster) {
    let admin = cluster.admin().await;
    let person = new_person(&admin, 0).await;
    let fail = async |login: &str, address: &str| {
        let request = person.raw(Method::GET, &tokens_of(&person)).basic_auth(login, Some("wrong"));
        Response::of(request.header("x-forwarded-for", address)).await.status.as_u16()
    };
    for _ in 0..15 {
        assert_eq!(fail(&person.name, "203.0.113.1").await, 401);
    }
    // Each request starts three counters: for an address, an account, and both together.
    for number in 0..2 * MAX_COUNTERS {
        fail(&format!("nobody-{number}"), &format!("198.51.100.{number}")).await;
    }
    let mut statuses = Vec::new();
    for _ in 0..7 {
        statuses.push(fail(&person.name, "203.0.113.1").await);
    }
    eprintln!("after 15 failures, and those of {} others with room for {MAX_COUNTERS}: {statuses:?}", 2 * MAX_COUNTERS);
    assert_eq!(statuses, [[401_u16; 5].as_slice(), &[429_u16; 2]].concat());
}

fn line(client: &str) -> Vec<u8> {
    format!("PROXY TCP4 {client} 192.0.2.1 40000 3000\r\n").into_bytes()
}

/// A version 2 header, with a field that Ferrite does not use.
fn binary(client: [u8; 4]) -> Vec<u8> {
    let start = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x11";
    [&start[..], &client, &[192, 0, 2, 1], &40_000_u16.to_be_bytes(), &3000_u16.to_be_bytes(), &[4, 0, 2, 0, 0]]
        .concat()
}

/// Starts a gateway whose trusted proxy must send PROXY headers.
fn gateway_with_proxy_protocol(cluster: &Cluster) -> Gateway {
    let settings = [
        ("FERRITE_GATEWAY_TRUSTED_PROXIES", "127.77.0.1"),
        ("FERRITE_GATEWAY_PROXY_PROTOCOL", "true"),
        ("FERRITE_GATEWAY_SSH_PROXY_PROTOCOL", "true"),
        ("FERRITE_GATEWAY_SSH_CONNECTIONS_PER_ADDRESS", "2"),
    ];
    Gateway::start(cluster, &servers::address(), "http", &settings)
}

async fn the_proxy_protocol_names_the_client_of_http(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let gateway = gateway_with_proxy_protocol(cluster);
    let http = gateway.http();
    let mut addresses = Vec::new();
    for (number, (from, header)) in [
        (PROXY, line("203.0.113.50")),
        (PROXY, binary([203, 0, 113, 51])),
        (PROXY, b"PROXY UNKNOWN\r\n".to_vec()),
        (STRANGER, Vec::new()),
    ]
    .into_iter()
    .enumerate()
    {
        let request = [header, token_request(&ada, &format!("token-{number}"))].concat();
        let response = exchange(from, &http, &request).await;
        assert!(response.starts_with("HTTP/1.1 201"), "{number}: {response}");
        addresses.push(address_of_last_token(cluster, &ada).await);
    }
    eprintln!("addresses in the audit log: {addresses:?}");
    assert_eq!(addresses, ["203.0.113.50", "203.0.113.51", "127.77.0.1", "127.77.0.2"]);
    // Without its header the proxy is not served; a header from anyone else is an invalid request.
    assert_eq!(exchange(PROXY, &http, &token_request(&ada, "none")).await, "");
    let forged = [line("203.0.113.52"), token_request(&ada, "forged")].concat();
    let response = exchange(STRANGER, &http, &forged).await;
    assert!(response.is_empty() || response.starts_with("HTTP/1.1 400"), "{response}");
}

/// Relays connections to `to` as the trusted proxy, with this header before each. Returns its
/// address.
async fn relay(tasks: &mut JoinSet<()>, to: String, header: Vec<u8>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let (to, header) = (to.clone(), header.clone());
            connections.spawn(async move {
                let mut far = connect(PROXY, &to).await;
                far.write_all(&header).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    address
}

/// Connects, sends `sent` and reads the start of the response; `None` if the connection ends
/// without one.
async fn ssh_banner(from: [u8; 4], to: &str, sent: &[u8]) -> Option<TcpStream> {
    let mut stream = connect(from, to).await;
    stream.write_all(sent).await.unwrap();
    let mut banner = [0; 8];
    let read =
        tokio::time::timeout(RESPONSE_TIMEOUT, stream.read_exact(&mut banner)).await.expect("a response or the end");
    (read.is_ok() && &banner == b"SSH-2.0-").then_some(stream)
}

async fn the_proxy_protocol_names_the_client_of_ssh(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("mine", json!({"auto_init": true, "private": true})).await;
    let gateway = gateway_with_proxy_protocol(cluster);
    let ssh = gateway.ssh();
    let mut client = client_of(cluster, &ada, "ed25519").await;
    let mut tasks = JoinSet::new();
    for header in [line("203.0.113.60"), binary([203, 0, 113, 60])] {
        let relay = relay(&mut tasks, ssh.clone(), header).await;
        (client.host, client.port) = (relay.ip().to_string(), relay.port().to_string());
        let command = format!("ssh {}", client.options().join(" "));
        client.git.set_ssh(command);
        let refs = client.git("", &["ls-remote", &client.url(&ada.name, "mine")]).await;
        assert!(refs.contains("refs/heads/"), "{refs}");
    }
    // The proxy's connections count for its clients' addresses, each of which may have two.
    let header = line("203.0.113.61");
    let one = ssh_banner(PROXY, &ssh, &header).await.expect("the first");
    let two = ssh_banner(PROXY, &ssh, &binary([203, 0, 113, 61])).await.expect("the second");
    assert!(ssh_banner(PROXY, &ssh, &header).await.is_none(), "a third from one address");
    let other = ssh_banner(PROXY, &ssh, &line("203.0.113.62")).await.expect("another address");
    eprintln!(
        "of one client behind the proxy 2 connections were served and the third was closed; of another client 1 was served"
    );
    drop((one, two, other));
    // Without its header the proxy is not served; everyone else is served without one.
    assert!(ssh_banner(PROXY, &ssh, b"SSH-2.0-Test\r\n").await.is_none());
    ssh_banner(STRANGER, &ssh, b"SSH-2.0-Test\r\n").await.expect("a direct client");
}

async fn clients_of_one_ipv6_network_share_a_number_of_connections(cluster: &Cluster) {
    let settings = [
        ("FERRITE_GATEWAY_TRUSTED_PROXIES", "127.77.0.1"),
        ("FERRITE_GATEWAY_PROXY_PROTOCOL", "true"),
        ("FERRITE_GATEWAY_CONNECTIONS_PER_ADDRESS", "2"),
        ("FERRITE_GATEWAY_CONNECTIONS_PER_NETWORK", "6"),
    ];
    let gateway = Gateway::start(cluster, &servers::address(), "http", &settings);
    let http = gateway.http();
    // Holds a connection open if the gateway serves it.
    let connection = async |client: &str| {
        let mut stream = connect(PROXY, &http).await;
        let header = format!("PROXY TCP6 {client} 2001:db8::1 40000 3000\r\n");
        let request = "GET /api/v1/users/root-admin HTTP/1.1\r\nhost: test\r\n\r\n";
        // Fails if the connection is already closed.
        let _ = stream.write_all(format!("{header}{request}").as_bytes()).await;
        let mut response = [0; 12];
        let read = tokio::time::timeout(RESPONSE_TIMEOUT, stream.read_exact(&mut response))
            .await
            .expect("a response or the end");
        (read.is_ok() && &response == b"HTTP/1.1 200").then_some(stream)
    };
    let mut held = Vec::new();
    // Two per /64, whatever the rest of the address. Then more /64 networks of one /48 than it may
    // have connections.
    for number in 1..=4 {
        held.extend(connection(&format!("2001:db8:7:1::{number}")).await);
    }
    assert_eq!(held.len(), 2, "of one /64");
    for number in 2..=12 {
        held.extend(connection(&format!("2001:db8:7:{number:x}::1")).await);
    }
    eprintln!("of 4 connections of one /64 2 were served, of 15 of one /48 {}", held.len());
    assert_eq!(held.len(), 6, "of one /48");
    assert!(connection("2001:db8:8::1").await.is_some(), "another /48");
}
