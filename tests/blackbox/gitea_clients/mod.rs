//! Replays what programs for Gitea send, with the fields as they write them, and decodes the
//! responses as they do. `tests/tools/` runs the programs that can be installed; these cannot: they
//! are services, or need a toolchain of their own.
//!
//! Each program has tables of requests, read from its source. A row holds a request, the statuses
//! that the program accepts, the types it decodes, and the places that it needs.

mod argo_flux;
mod atlantis;
mod drone;
mod go_sdk;
mod go_sdk_git;
mod go_sdk_git_types;
mod go_sdk_issues;
mod go_sdk_pulls;
mod go_sdk_reviews;
mod go_sdk_types;
mod jenkins;
mod releases;
mod renovate;
mod replay;
mod row;
mod shape;
mod terraform;
mod terraform_accounts;
mod woodpecker;

use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::sync::OnceCell;

use self::replay::{Program, Replay};
use crate::harness::client::unique;
use crate::harness::git_server::GitServer;
use crate::harness::keys::ed25519;
use crate::harness::{Cluster, Git, User};
use crate::imports::{on_outward_installations, outward};

on_outward_installations! {
    embedded Embedded {
        argo_and_flux_read_what_they_need
        atlantis_reads_what_it_needs
        drone_reads_what_it_needs
        programs_with_the_go_client_read_what_they_need
        jenkins_reads_what_it_needs
        release_tools_read_what_they_need
        renovate_reads_what_it_needs
        terraform_reads_what_it_needs
        woodpecker_reads_what_it_needs
    }
}

/// Those who send requests, shared by all programs: making an account takes two password hashes.
struct Accounts {
    owner: User,
    reader: User,
    administrator: User,
}

async fn accounts(cluster: &Cluster) -> &'static Accounts {
    static ACCOUNTS: OnceCell<Accounts> = OnceCell::const_new();
    let make = || async {
        let (owner, reader) = (cluster.user("owner").await, cluster.user("reader").await);
        Accounts { owner, reader, administrator: cluster.admin().await }
    };
    ACCOUNTS.get_or_init(make).await
}

/// The fields of every commit through the Go client: nobody sets them.
const BLANK_COMMIT: &str = r#""author":{"name":"","email":""},"committer":{"name":"","email":""},
    "dates":{"author":"0001-01-01T00:00:00Z","committer":"0001-01-01T00:00:00Z"},"signoff":false"#;

/// A public repository of the owner with two commits, two branches and two tags, to which the
/// reader has access.
async fn prepare(cluster: &Cluster, stem: &str) -> Replay {
    let accounts = accounts(cluster).await;
    let (owner, reader) = (accounts.owner.reconnected(), accounts.reader.reconnected());
    let name = unique(stem);
    let made = owner.new_repository(&name, json!({"auto_init": true, "default_branch": "main"})).await;
    let path = |rest: &str| owner.repo(&name, rest);
    let files = json!([
        {"operation": "create", "path": "src/main.rs", "content": "Zm4gbWFpbigpIHt9Cg=="},
        {"operation": "create", "path": "docs/a b.md", "content": "IyBBCg=="},
    ]);
    let written = owner.post(&path("/contents"), &json!({"message": "Add files", "files": files})).await;
    let head = text(&written.expect(201).json(), "/commit/sha");
    for branch in ["feature/x", "old"] {
        owner.post(&path("/branches"), &json!({"new_branch_name": branch})).await.expect(201);
    }
    let tag = json!({"tag_name": "v1.0.0", "message": "One"});
    let tag = owner.post(&path("/tags"), &tag).await.expect(201).json();
    owner.post(&path("/tags"), &json!({"tag_name": "v0.9.0"})).await.expect(201);
    owner.share(&path(""), &reader, "read").await;
    // Its own: some programs change the members of the organization.
    let organization = owner.new_organization("group").await;
    let mut replay =
        Replay { administrator: accounts.administrator.reconnected(), owner, reader, kept: HashMap::new() };
    for (name, value) in [
        ("url", cluster.url.clone()),
        ("repo", name),
        ("repo_id", made["id"].to_string()),
        ("org", organization),
        ("owner", replay.owner.name.clone()),
        ("owner_id", replay.owner.id.to_string()),
        ("owner_email", replay.owner.email.clone()),
        ("reader", replay.reader.name.clone()),
        ("head", head),
        ("tag_object", text(&tag, "/id")),
        ("unique", unique("made")),
        ("blank_commit", BLANK_COMMIT.to_owned()),
        ("user_key", ed25519("owner")),
        ("deploy_key", ed25519("deploys")),
    ] {
        replay.keep(name, value);
    }
    replay
}

fn text(json: &Value, pointer: &str) -> String {
    json.pointer(pointer).and_then(Value::as_str).unwrap().to_owned()
}

async fn argo_and_flux_read_what_they_need(cluster: &Cluster) {
    let mut replay = prepare(cluster, "flux").await;
    replay.run(&argo_flux::PROGRAM).await;
}

async fn atlantis_reads_what_it_needs(cluster: &Cluster) {
    let mut replay = prepare(cluster, "plans").await;
    replay.run(&atlantis::PROGRAM).await;
}

async fn drone_reads_what_it_needs(cluster: &Cluster) {
    let mut replay = prepare(cluster, "drone").await;
    replay.run(&drone::PROGRAM).await;
}

async fn programs_with_the_go_client_read_what_they_need(cluster: &Cluster) {
    let mut replay = prepare(cluster, "tea").await;
    with_source(&mut replay, &go_sdk::PROGRAM).await;
}

async fn jenkins_reads_what_it_needs(cluster: &Cluster) {
    let mut replay = prepare(cluster, "jenkins").await;
    replay.run(&jenkins::PROGRAM).await;
}

async fn release_tools_read_what_they_need(cluster: &Cluster) {
    let mut replay = prepare(cluster, "released").await;
    replay.run(&releases::GORELEASER).await;
    replay.run(&releases::OTHERS).await;
}

async fn renovate_reads_what_it_needs(cluster: &Cluster) {
    let mut replay = prepare(cluster, "renovated").await;
    replay.run(&renovate::PROGRAM).await;
}

async fn terraform_reads_what_it_needs(cluster: &Cluster) {
    let mut replay = prepare(cluster, "planned").await;
    with_source(&mut replay, &terraform::PROGRAM).await;
}

async fn woodpecker_reads_what_it_needs(cluster: &Cluster) {
    let mut replay = prepare(cluster, "built").await;
    replay.run(&woodpecker::GITEA).await;
    replay.run(&woodpecker::FORGEJO).await;
}

/// Runs a program that imports a repository, from a git server on loopback.
async fn with_source(replay: &mut Replay, program: &Program) {
    let git = Git::new();
    git.small("work").await;
    git.run("", &["clone", "-q", "--bare", "work", "demo.git"]).await;
    let server = GitServer::start(&git).await;
    replay.keep("source", server.url("demo.git"));
    replay.run(program).await;
}
