//! Keys of roles, from outside: one service's key used against the others, TLS between processes,
//! and addresses without it.

use std::path::Path;
use std::time::Duration;

use ferrite_core::net::Address;
use ferrite_core::tls::ClientTls;
use ferrite_proto::ServiceRole;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::event_sink_client::EventSinkClient;
use ferrite_proto::events::{DeliverRequest, Event, RefsUpdated, RepositoryDeleted};
use ferrite_proto::git::storage_service_client::StorageServiceClient;
use ferrite_proto::git::{CreateRepositoryRequest, DeleteRepositoryRequest};
use ferrite_proto::repo::RepositoryRef;
use ferrite_proto::repo::repository_service_client::RepositoryServiceClient;
use ferrite_proto::{error, metadata, repo};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::{Code, Status};

use crate::harness::certificates::Authority;
use crate::harness::cluster::ferrite;
use crate::harness::grpc::{refused, with_service, with_token};
use crate::harness::ssh::client_of;
use crate::harness::{Cluster, Git, Options, Profile, Role, run, servers};

on_profiles! {
    both {
        the_key_of_a_service_opens_only_what_its_role_calls
        a_token_for_another_service_or_of_another_key_is_refused
    }
}

const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

#[track_caller]
fn not_permitted<T: std::fmt::Debug>(outcome: Result<T, Status>, what: &str) {
    let status = outcome.expect_err(what);
    let reason = error::reason(&status);
    assert_eq!((status.code(), reason.as_deref()), (Code::PermissionDenied, Some("SERVICE_NOT_PERMITTED")), "{what}");
}

async fn the_key_of_a_service_opens_only_what_its_role_calls(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let made = ada.new_repository("kept", json!({"auto_init": true, "private": true})).await;
    let (id, token) = (made["id"].as_i64().unwrap(), ada.token.as_deref().unwrap());
    let mut storage = StorageServiceClient::new(cluster.channel(Role::Git).await);
    let mut refusals = 0;
    for from in [ServiceRole::Gateway, ServiceRole::IssueSvc, ServiceRole::HookSvc, ServiceRole::GitSvc] {
        let proof = cluster.service_token(from, Role::Git);
        let deletion = DeleteRepositoryRequest { repository_id: id };
        not_permitted(storage.delete_repository(with_service(deletion, &proof)).await, from.as_str());
        let creation = CreateRepositoryRequest { repository_id: id + 1_000_000, ..CreateRepositoryRequest::default() };
        not_permitted(storage.create_repository(with_service(creation, &proof)).await, from.as_str());
        refusals += 2;
    }
    // The role cannot call the operation even with the token of an owner, who may delete the
    // repository.
    let mut repositories = RepositoryServiceClient::new(cluster.channel(Role::Repo).await);
    for from in [ServiceRole::IssueSvc, ServiceRole::HookSvc, ServiceRole::GitSvc] {
        let repository = Some(RepositoryRef::by_id(id));
        let mut deletion = with_token(repo::DeleteRepositoryRequest { repository }, token);
        let proof = cluster.service_token(from, Role::Repo);
        deletion.metadata_mut().insert(metadata::SERVICE, proof.parse().unwrap());
        not_permitted(repositories.delete_repository(deletion).await, from.as_str());
        refusals += 1;
    }
    let event = |fact| DeliverRequest {
        events: vec![Event {
            event_id: format!("forged-{id}"),
            repository_id: id,
            fact: Some(fact),
            ..Event::default()
        }],
        ..DeliverRequest::default()
    };
    let deleted = || Fact::RepositoryDeleted(RepositoryDeleted::default());
    for (from, to, fact) in [
        (ServiceRole::Gateway, Role::Git, deleted()),
        (ServiceRole::IssueSvc, Role::Git, deleted()),
        (ServiceRole::GitSvc, Role::Issue, deleted()),
        (ServiceRole::GitSvc, Role::Hook, deleted()),
        (ServiceRole::IssueSvc, Role::Repo, Fact::RefsUpdated(RefsUpdated::default())),
    ] {
        let mut sink = EventSinkClient::new(cluster.channel(to).await);
        let proof = cluster.service_token(from, to);
        not_permitted(sink.deliver(with_service(event(fact), &proof)).await, &format!("{from} to {to:?}"));
        refusals += 1;
    }
    ada.get(&ada.repo("kept", "/contents/README.md")).await.expect(200);
    eprintln!("{refusals} calls with keys of other roles were refused, and the repository exists");
}

async fn a_token_for_another_service_or_of_another_key_is_refused(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let id = ada.new_repository("kept", json!({"auto_init": true})).await["id"].as_i64().unwrap();
    let mut storage = StorageServiceClient::new(cluster.channel(Role::Git).await);
    // Operations of repo-svc, with a token that repo-svc issued for another service.
    for to in [Role::Repo, Role::Issue, Role::Hook] {
        let proof = cluster.service_token(ServiceRole::RepoSvc, to);
        let deletion = DeleteRepositoryRequest { repository_id: id };
        refused(storage.delete_repository(with_service(deletion, &proof)).await, Code::Unauthenticated);
    }
    // repo-svc's name, with issue-svc's key.
    let key = std::fs::read(cluster.keys().join("issue-svc.pem")).unwrap();
    let key = ferrite_rpc::service_key::ServiceKey::from_pem(&key).unwrap();
    let clock = ferrite_core::Clock::system();
    let forger = ferrite_rpc::service_key::ServiceTokenSource::new(key, ServiceRole::RepoSvc, clock);
    let deletion = DeleteRepositoryRequest { repository_id: id };
    let proof = forger.token(ServiceRole::GitSvc);
    refused(storage.delete_repository(with_service(deletion, &proof)).await, Code::Unauthenticated);
    ada.get(&ada.repo("kept", "/contents/README.md")).await.expect(200);
}

/// An installation with TLS between its processes, all using one certificate.
fn start_with_tls(authority: &Authority) -> Cluster {
    let files = [
        ("FERRITE_GRPC_CA_FILE", "tls/ca.pem"),
        ("FERRITE_GRPC_CERTIFICATE_FILE", "tls/node.pem"),
        ("FERRITE_GRPC_KEY_FILE", "tls/node.key.pem"),
    ];
    let options = Options { settings: files.to_vec(), without_redis: true, ..Options::default() };
    let write = |folder: &Path| authority.write(&folder.join("tls"), "node", &servers::possible_addresses());
    Cluster::start_in(Profile::Production, &options, write)
}

async fn ask(address: &Address, tls: Option<&ClientTls>) -> std::io::Result<String> {
    let exchange = async {
        let mut stream = match tls {
            Some(tls) => address.connect_with_tls(tls).await?,
            None => address.connect().await?,
        };
        stream.write_all(b"GET /git/1/raw HTTP/1.1\r\nhost: git-svc\r\nconnection: close\r\n\r\n").await?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await?;
        Ok(String::from_utf8_lossy(&response).into_owned())
    };
    tokio::time::timeout(CONNECTION_TIMEOUT, exchange).await.unwrap()
}

#[test]
fn a_cluster_with_mutual_tls_serves_and_refuses_connections_without_its_certificates() {
    let authority = Authority::new();
    let cluster = start_with_tls(&authority);
    run(&cluster, async {
        let ada = cluster.user("ada").await;
        ada.new_repository("demo", json!({"auto_init": true, "private": true})).await;
        ada.new_issue(&ada.repo("demo", ""), "To be closed", json!({})).await;
        let body = json!({"content": "b25l", "message": "Add one\n\nFixes #1"});
        ada.put(&ada.repo("demo", "/contents/one.txt"), &body).await.expect(201);
        // An event from git-svc to issue-svc, which then reads the commit message.
        ada.eventually(&ada.repo("demo", "/issues/1"), |issue| issue["state"] == "closed").await;
        let git = Git::new();
        git.run("", &["clone", "-q", &ada.git_url(&ada.name, "demo"), "over-http"]).await;
        assert_eq!(std::fs::read_to_string(git.path().join("over-http/one.txt")).unwrap(), "one");
        // A session is an upgraded HTTP connection.
        let client = client_of(&cluster, &ada, "ed25519").await;
        client.git("", &["clone", "-q", &client.url(&ada.name, "demo"), "over-ssh"]).await;
        client.git.commit("over-ssh", "two.txt", "two").await;
        client.git("over-ssh", &["push", "-q", "origin", "HEAD:main"]).await;
        ada.get(&ada.repo("demo", "/contents/two.txt")).await.expect(200);

        let ours = cluster.folder.join("tls");
        let load = |folder: &Path, name: &str| {
            let (certificate, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key.pem")));
            ClientTls::load(&ours.join("ca.pem"), &certificate, &key).unwrap()
        };
        let strange = cluster.folder.join("strange");
        Authority::new().write(&strange, "node", &servers::possible_addresses());
        let (known, stranger) = (load(&ours, "node"), load(&strange, "node"));
        for role in &Role::ALL[..4] {
            let address = cluster.address(*role);
            let response = ask(&address, Some(&known)).await.unwrap();
            // A certificate opens the connection, but authorizes nothing.
            assert!(response.starts_with("HTTP/1.1 401"), "{role:?}: {response}");
            for (what, tls) in [("without TLS", None), ("with the certificate of another authority", Some(&stranger))] {
                let response = ask(&address, tls).await;
                eprintln!("{role:?} {what}: {:?}", response.as_ref().map(String::len).map_err(std::io::Error::kind));
                assert!(!response.is_ok_and(|response| response.contains("HTTP/")), "{role:?} {what}");
            }
        }
    });
}

#[test]
fn grpc_does_not_leave_the_machine_without_tls() {
    let run = |role: &str, more: &[&str]| {
        let mut command = ferrite();
        command.args([role, "--service-key-file=/nonexistent/k", "--service-public-keys=/nonexistent/f"]);
        command.args(["--grant-public-key-file=/nonexistent/p"]).args(more);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let git =
        ["--database-url=sqlite:///nonexistent/db", "--secret-key-file=/nonexistent/s", "--store-path=/nonexistent/r"];
    let local = ["--repo-address=127.0.0.1:1"];
    for (role, address, flags) in [
        ("git-svc", "0.0.0.0:0", [&git[..], &local, &["--listen=0.0.0.0:0"]].concat()),
        ("git-svc", "[::]:0", [&git[..], &local, &["--listen=127.0.0.1:0,[::]:0"]].concat()),
        ("git-svc", "repo-svc:7001", [&git[..], &["--listen=127.0.0.1:0", "--repo-address=repo-svc:7001"]].concat()),
        ("gateway", "192.0.2.1:7004", vec!["--listen=127.0.0.1:0", "--git-address=192.0.2.1:7004"]),
    ] {
        let (code, text) = run(role, &flags);
        assert_eq!(code, Some(1), "{role} {address}: {text}");
        let line = text.lines().find(|line| line.contains(&format!("`{address}`"))).unwrap_or_default();
        eprintln!("{line}");
        for setting in ["FERRITE_GRPC_CA_FILE", "FERRITE_GRPC_PLAINTEXT=true"] {
            assert!(line.starts_with(&format!("ferrite {role}: ")) && line.contains(setting), "{text}");
        }
        // With plaintext allowed, it fails on the next missing setting.
        let (code, text) = run(role, &[&flags[..], &["--grpc-plaintext"]].concat());
        assert!(code == Some(1) && text.contains("/nonexistent/") && !text.contains("PLAINTEXT"), "{text}");
    }
    // The gateway's public listener does not serve gRPC.
    let (_, text) = run("gateway", &["--listen=0.0.0.0:0"]);
    assert!(!text.contains("PLAINTEXT"), "{text}");
}

#[test]
fn keys_for_roles_are_made_once() {
    let folder = tempfile::tempdir_in(servers::folder()).unwrap();
    let keys = folder.path().join("keys");
    let make = || ferrite().arg("keys").arg(&keys).output().unwrap();
    assert!(make().status.success());
    let read = || Role::ALL.map(|role| std::fs::read(keys.join(format!("{}.pem", role.command()))).unwrap());
    let first = read();
    assert!(make().status.success());
    assert_eq!(first, read());
    std::fs::write(keys.join("git-svc.pem"), "damaged").unwrap();
    let failed = make();
    assert!(!failed.status.success() && String::from_utf8_lossy(&failed.stderr).contains("git-svc.pem"), "{failed:?}");
}
