//! Redis users and TLS: which cached data an installation trusts, and which commands each role may
//! use. The production profile has these users and TLS in all tests, made by `ferrite secrets`.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use ferrite_core::net::Address;
use ferrite_proto::repo::Identity;
use ferrite_rpc::auth::TokenHash;
use prost::Message;
use reqwest::Method;
use serde_json::json;
use tonic::Code;

use crate::direct::{Proof, list};
use crate::harness::cluster::http_get;
use crate::harness::grpc::refused;
use crate::harness::ssh::Client;
use crate::harness::{Cluster, Options, Response, Role};

on_own_installations! {
    @profile production Production
    a_forged_identity_is_believed_by_no_process(Options {
        settings: vec![("FERRITE_TOKEN_CACHE_SECONDS", "60")],
        ..Options::default()
    })
    each_role_is_signed_in_as_its_own_user_and_does_nothing_that_it_may_not(Options::default())
    a_role_may_use_its_own_keys_and_no_others(Options::default())
    the_operator_looks_at_redis_and_loads_its_users(Options::default())
}

/// Sends Redis commands as the user of the URL and returns one line per response.
fn send(url: &str, commands: &[String]) -> Vec<String> {
    let (user, address) = url.split_once("://").unwrap().1.split_once('@').unwrap();
    let (name, password) = user.split_once(':').unwrap();
    // Roles use the TLS port, tests the other one.
    let mut stream = TcpStream::connect(address.replace(":6380", ":6379")).unwrap();
    let lines: String = commands.iter().map(|command| format!("{command}\r\n")).collect();
    stream.write_all(format!("AUTH {name} {password}\r\n{lines}QUIT\r\n").as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut responses = Vec::new();
    stream.read_to_end(&mut responses).unwrap();
    let responses = String::from_utf8_lossy(&responses).into_owned();
    let lines: Vec<_> = responses.lines().map(str::to_owned).collect();
    assert_eq!(lines[0], "+OK", "{name} signs in");
    lines[1..].to_vec()
}

fn url_of(cluster: &Cluster, role: Role) -> String {
    let file = cluster.folder.join(format!("redis-secrets/{}-redis-url", role.name()));
    std::fs::read_to_string(file).unwrap().trim().to_owned()
}

fn token_key(token: &str) -> String {
    format!("ferrite:token:{}", TokenHash::of(token).to_hex())
}

/// A command that sets a key to any bytes, for a while.
fn set(key: &str, value: &[u8]) -> String {
    let value: String = value.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("SET {key} \"{value}\" PX 60000")
}

fn forged(cluster: &Cluster, role: Role) -> f64 {
    let Address::Tcp(authority) = cluster.address(role) else { panic!("the production profile uses TCP") };
    let (host, port) = authority.rsplit_once(':').unwrap();
    let private = Address::Tcp(format!("{host}:{}", port.parse::<u16>().unwrap() + 2000));
    let text = http_get(&private, "/metrics").expect("the private listener answers");
    let is_meant = |line: &&str| line.starts_with("ferrite_token_cache_lookups_total") && line.contains("\"forged\"");
    let line = text.lines().find(is_meant);
    line.map_or(0.0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
}

async fn a_forged_identity_is_believed_by_no_process(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let id = ada.new_repository("guarded", json!({"private": true})).await["id"].as_i64().unwrap();
    let root = admin.get("/user").await.expect(200).json()["id"].as_i64().unwrap();
    let scopes = (1..10).collect();
    let identity =
        Identity { user_id: root, username: admin.name.clone(), is_admin: true, scopes, ..Identity::default() };
    let tests = cluster.redis_url().unwrap();
    let genuine = ada.token.clone().unwrap();
    // Tokens that were never issued: an unsigned administrator identity, and ada's entry under
    // another key.
    let (unsigned, copied) = ("0".repeat(40), "1".repeat(40));
    assert_eq!(send(&tests, &[set(&token_key(&unsigned), &identity.encode_to_vec())]), ["+OK"; 2]);
    ada.get("/user").await.expect(200);
    let copy = format!("COPY {} {} REPLACE", token_key(&genuine), token_key(&copied));
    assert_eq!(send(&tests, &[copy, format!("PERSIST {}", token_key(&copied))])[..2], [":1", ":1"]);
    for token in [&unsigned, &copied] {
        for role in &Role::ALL[..4] {
            refused(list(cluster, *role, id, &Proof::Token(token)).await, Code::Unauthenticated);
        }
        let forger = admin.with_token(Some(token));
        for path in ["/user", "/admin/audit", &ada.repo("guarded", "")] {
            forger.get(path).await.refused(401);
        }
        let refs = ada.raw(Method::GET, &format!("/{}/guarded.git/info/refs?service=git-upload-pack", ada.name));
        Response::of(refs.basic_auth(&admin.name, Some(token))).await.expect(401);
    }
    for role in &Role::ALL[..4] {
        assert!(forged(cluster, *role) >= 2.0, "{role:?} counts forged entries");
    }
    // The forged entry replaces that of a valid token: the service asks repo-svc, which knows the
    // owner.
    assert_eq!(send(&tests, &[set(&token_key(&genuine), &identity.encode_to_vec())]), ["+OK"; 2]);
    assert_eq!(ada.get("/user").await.expect(200).json()["username"], ada.name);
    ada.get("/admin/audit").await.refused(403);
}

async fn each_role_is_signed_in_as_its_own_user_and_does_nothing_that_it_may_not(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let id = ada.new_repository("mine", json!({"auto_init": true, "private": true})).await["id"].as_i64().unwrap();
    for role in &Role::ALL[..4] {
        list(cluster, *role, id, &Proof::Token(ada.token.as_deref().unwrap())).await.unwrap();
    }
    ada.post(&ada.repo("mine", "/issues"), &json!({"title": "one"})).await.expect(201);
    for password in ["wrong", &ada.password] {
        ada.git_status("upload-pack", &ada.name, "mine", password).await;
    }
    let (status, ..) = Client::new(cluster, "ed25519").await.run(&[], &["whoami"]).await;
    assert_ne!(status, Some(0), "an unknown key");
    Response::of(ada.tokens(Method::DELETE, "/tests")).await.empty(204);
    let tests = cluster.redis_url().unwrap();
    let clients = send(&tests, &["CLIENT LIST".to_owned()]);
    for role in Role::ALL {
        let is_connected =
            |line: &String| line.contains(&format!(" user={} ", role.command())) && line.contains(":6380 ");
        assert!(clients.iter().any(is_connected), "{role:?}: {clients:#?}");
    }
    assert_eq!(send(&tests, &["ACL LOG".to_owned()])[0], "*0", "nothing was refused");
}

async fn a_role_may_use_its_own_keys_and_no_others(cluster: &Cluster) {
    let own = |role: Role| format!("ferrite:limit:{}:x", role.command());
    let is_refused = |response: &String| response.starts_with("-NOPERM");
    for role in Role::ALL {
        let url = url_of(cluster, role);
        let may = |command: &str| !is_refused(&send(&url, &[command.to_owned()])[0]);
        let (is_gateway, is_repo) = (role == Role::Gateway, role == Role::Repo);
        assert_eq!(may("GETRANGE ferrite:token:x 0 9"), !is_gateway, "{role:?} reads tokens");
        assert_eq!(may("SET ferrite:token:x y"), is_repo, "{role:?} writes tokens");
        assert_eq!(may("DEL ferrite:token:x"), is_repo, "{role:?} removes tokens");
        assert_eq!(may("INCRBY ferrite:count:x 1"), !is_gateway, "{role:?} counts with all services");
        for other in Role::ALL {
            for command in ["INCRBY KEY 1", "DEL KEY", "GETRANGE KEY 0 9", "PTTL KEY"] {
                let command = command.replace("KEY", &own(other));
                assert_eq!(may(&command), role == other, "{role:?}: {command}");
            }
        }
        for command in [
            "FLUSHALL",
            "CONFIG GET *",
            "KEYS *",
            "SCAN 0",
            "EVAL \"return 1\" 0",
            "ACL LIST",
            "CLIENT LIST",
            "SHUTDOWN NOSAVE",
            "MONITOR",
            "PUBLISH x y",
            "GET other",
        ] {
            assert!(!may(command), "{role:?}: {command}");
        }
    }
    let mut stranger = TcpStream::connect(cluster.redis_url().unwrap().rsplit_once('@').unwrap().1).unwrap();
    stranger.write_all(b"PING\r\nQUIT\r\n").unwrap();
    let mut responses = String::new();
    stranger.read_to_string(&mut responses).unwrap();
    assert!(responses.starts_with("-NOAUTH"), "{responses}");
}

async fn the_operator_looks_at_redis_and_loads_its_users(cluster: &Cluster) {
    let password = std::fs::read_to_string(cluster.folder.join("redis-secrets/redis-operator-password")).unwrap();
    let tests = cluster.redis_url().unwrap();
    let url = format!("redis://operator:{}@{}", password.trim(), tests.rsplit_once('@').unwrap().1);
    let first = |command: &str| send(&url, &[command.to_owned()])[0].clone();
    for command in ["ACL LOG", "INFO server", "CONFIG GET maxmemory", "CLIENT LIST", "LATENCY LATEST", "SLOWLOG GET"] {
        assert!(!first(command).starts_with('-'), "{command}: {}", first(command));
    }
    for command in ["GETRANGE ferrite:token:x 0 9", "SET x y", "FLUSHALL", "CONFIG SET maxmemory 0", "KEYS *"] {
        assert!(first(command).starts_with("-NOPERM"), "{command}: {}", first(command));
    }
    assert_eq!(first("ACL LOAD"), "+OK");
}
