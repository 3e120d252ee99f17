//! Quotas: no account can fill the disk or the tracker for others. Pushes, commits, forks, release
//! files and transfers beyond the owner's quota fail with a clear reason and leave nothing behind.
//! Administrators see and set the limits. Writes per hour are limited.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use reqwest::Method;
use serde_json::{Value, json};

use super::imports::import;
use crate::harness::git_server::{GitServer, REACHABLE};
use crate::harness::ssh::client_of;
use crate::harness::tree::noise;
use crate::harness::{Cluster, Git, Options, Response, User};

on_own_installations! {
    one_account_fills_neither_the_disk_nor_the_tracker(options())
}

const OWNER_BYTES: u64 = 3_000_000;
const FILE_BYTES: usize = 1_000_000;
const LARGE_FILE_BYTES: usize = 2_500_000;
/// Bytes of git's own files, such as folders, that a failed write may leave until the next
/// maintenance.
const SLACK_BYTES: u64 = 200_000;

fn options() -> Options {
    let settings = vec![
        ("FERRITE_REPO_OWNER_BYTES", "3000000"),
        ("FERRITE_ISSUE_ISSUES_PER_HOUR", "4"),
        ("FERRITE_ISSUE_COMMENTS_PER_HOUR", "5"),
        ("FERRITE_ISSUE_TEXT_BYTES_PER_HOUR", "100000"),
        ("FERRITE_HOOK_CREATIONS_PER_HOUR", "2"),
    ];
    Options { settings: [&REACHABLE[..], &settings].concat(), ..Options::default() }
}

fn quota_path(name: &str) -> String {
    format!("/admin/users/{name}/quota")
}

async fn used(admin: &User, name: &str) -> u64 {
    admin.get(&quota_path(name)).await.expect(200).json()["bytes"]["used"].as_u64().unwrap()
}

fn bytes_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    // A file may disappear before it is examined.
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Size of the store once two measurements agree: one alone counts a repository that is moved to
/// the trash meanwhile twice, or not at all.
async fn bytes_of_store(cluster: &Cluster) -> u64 {
    let mut bytes = bytes_in(&cluster.store());
    for _ in 0..200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let before = std::mem::replace(&mut bytes, bytes_in(&cluster.store()));
        if bytes == before {
            break;
        }
    }
    bytes
}

#[track_caller]
fn over_quota(response: Response) {
    response.refused_with_message(422, "storage quota exceeded");
}

#[track_caller]
fn limited(response: Response, what: &str) {
    let response = response.refused_with_message(429, what);
    let wait: u64 = response.header("retry-after").parse().unwrap();
    assert!((1..=3600).contains(&wait), "{wait}");
}

async fn commit_noise(git: &Git, file: &str, bytes: usize, seed: u64) {
    std::fs::write(git.path().join("work").join(file), noise(bytes, seed)).unwrap();
    git.commit("work", "note", file).await;
}

async fn one_account_fills_neither_the_disk_nor_the_tracker(cluster: &Cluster) {
    let (admin, ada, git) = (cluster.admin().await, cluster.user("ada").await, Git::new());
    ada.new_repository("demo", json!({})).await;
    let url = ada.git_url(&ada.name, "demo");
    git.small("work").await;
    commit_noise(&git, "fits", FILE_BYTES, 1).await;
    git.run("work", &["push", "-q", &url, "main"]).await;
    let has_push = |quota: &Value| quota["bytes"]["used"].as_u64().unwrap() > FILE_BYTES as u64;
    let quota = admin.eventually(&quota_path(&ada.name), has_push).await;
    assert_eq!((&quota["bytes"]["limit"], &quota["bytes"]["is_default"]), (&json!(OWNER_BYTES), &json!(true)));
    assert_eq!((&quota["repositories"]["used"], &quota["rate_percent"]), (&json!(1), &Value::Null));

    pushes_and_commits_beyond_the_quota_leave_nothing(cluster, &ada, &git).await;
    imports_receive_no_more_than_the_quota_leaves(&admin, &ada, &git).await;
    mirrors_receive_no_more_than_the_quota_leaves(cluster, &admin).await;
    forks_and_transfers_count_for_their_owners(cluster, &admin, &ada).await;
    files_of_releases_count(cluster, &admin, &ada).await;
    administrators_set_quotas(&admin, &ada, &git).await;
    nobody_fills_the_tracker_of_others(cluster, &admin, &ada).await;
    wikis_count(&admin, &ada, &git).await;
    ada.delete(&ada.repo("demo", "")).await.expect(204);
    admin.eventually(&quota_path(&ada.name), |quota| quota["bytes"]["used"] == 0).await;
}

async fn wikis_count(admin: &User, ada: &User, git: &Git) {
    git.small("pages").await;
    let before = used(admin, &ada.name).await;
    git.run("pages", &["push", "-q", &ada.git_url(&ada.name, "demo.wiki"), "main"]).await;
    admin.eventually(&quota_path(&ada.name), |quota| quota["bytes"]["used"].as_u64().unwrap() > before).await;
}

async fn pushes_and_commits_beyond_the_quota_leave_nothing(cluster: &Cluster, ada: &User, git: &Git) {
    let ssh = client_of(cluster, ada, "ed25519").await;
    let (http, over_ssh) = (ada.git_url(&ada.name, "demo"), ssh.url(&ada.name, "demo"));
    let wiki = ada.git_url(&ada.name, "demo.wiki");
    let (refs, before) = (git.run("", &["ls-remote", &http]).await, bytes_of_store(cluster).await);
    commit_noise(git, "large", LARGE_FILE_BYTES, 2).await;
    for (transport, url) in [("http", &http), ("ssh", &over_ssh), ("wiki", &wiki)] {
        let output = match transport {
            "ssh" => ssh.command(git, "work", &["push", url, "main"]).output().await.unwrap(),
            _ => git.attempt("work", &["push", url, "main"]).await,
        };
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{transport}: {text}");
        assert!(text.contains("of 3000000 bytes used"), "{transport}: {text}");
        assert!(text.contains("storage quota exceeded"), "{transport}: {text}");
    }
    let content = ada.repo("demo", "/contents/large-by-api");
    let content_in_base64 = base64::engine::general_purpose::STANDARD.encode(noise(LARGE_FILE_BYTES, 3));
    let body = json!({"message": "m", "content": content_in_base64});
    over_quota(ada.put(&content, &body).await);
    assert_eq!(git.run("", &["ls-remote", &http]).await, refs, "no ref moved");
    let growth = growth_since(cluster, before).await;
    eprintln!("4 writes of {LARGE_FILE_BYTES} bytes over the quota left {growth} bytes in the store");
    assert!(growth < SLACK_BYTES, "{growth}");
}

/// Growth of the store, in bytes. Files of an aborted write disappear when its process ends.
async fn growth_since(cluster: &Cluster, before: u64) -> u64 {
    let mut growth = u64::MAX;
    for _ in 0..200 {
        growth = bytes_in(&cluster.store()).saturating_sub(before);
        if growth < SLACK_BYTES {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    growth
}

async fn imports_receive_no_more_than_the_quota_leaves(admin: &User, ada: &User, git: &Git) {
    let (server, before) = (GitServer::start(git).await, used(admin, &ada.name).await);
    git.run("", &["clone", "-q", "--bare", "work", "remote.git"]).await;
    let response = import(ada, &server.url("remote.git"), "brought", Value::Null).await;
    response.refused_with_message(422, "of 3000000 bytes used");
    ada.get(&ada.repo("brought", "")).await.refused(404);
    assert_eq!(used(admin, &ada.name).await, before);
}

/// A remote grows beyond the quota of the mirror's owner. Data received before this is noticed is
/// not kept.
async fn mirrors_receive_no_more_than_the_quota_leaves(cluster: &Cluster, admin: &User) {
    let (owner, git) = (cluster.user("mia").await, Git::new());
    git.small("work").await;
    git.run("", &["clone", "-q", "--bare", "work", "growing.git"]).await;
    let server = GitServer::start(&git).await;
    let more = json!({"mirror": true, "mirror_interval": "8h"});
    import(&owner, &server.url("growing.git"), "followed", more).await.expect(201);
    let url = owner.git_url(&owner.name, "followed");
    let (refs, before) = (git.run("", &["ls-remote", &url]).await, bytes_of_store(cluster).await);
    commit_noise(&git, "large", 2 * LARGE_FILE_BYTES, 5).await;
    git.run("work", &["push", "-q", "../growing.git", "main"]).await;
    let path = owner.repo("followed", "");
    Response::of(owner.request(Method::POST, &owner.repo("followed", "/mirror-sync"))).await.empty(202);
    let failed = |shown: &Value| shown["mirror_info"]["last_error"].as_str().is_some_and(|error| !error.is_empty());
    let shown = owner.eventually(&path, failed).await;
    assert_eq!(git.run("", &["ls-remote", &url]).await, refs, "no ref moved");
    let (growth, taken) = (growth_since(cluster, before).await, used(admin, &owner.name).await);
    eprintln!(
        "a remote that grew by {} bytes under a quota of {OWNER_BYTES}: {}; the store grew by {growth} bytes, {taken} are used",
        2 * LARGE_FILE_BYTES,
        shown["mirror_info"]["last_error"]
    );
    assert!(growth < SLACK_BYTES && taken < OWNER_BYTES, "{growth} {taken}");
    owner.delete(&path).await.expect(204);
}

async fn forks_and_transfers_count_for_their_owners(cluster: &Cluster, admin: &User, ada: &User) {
    let bob = cluster.user("bob").await;
    let forks = ada.repo("demo", "/forks");
    for (name, fits) in [("one", true), ("two", true), ("three", false)] {
        let response = bob.post(&forks, &json!({ "name": name })).await;
        if fits {
            response.expect(201);
        } else {
            over_quota(response);
        }
    }
    let taken = used(admin, &bob.name).await;
    eprintln!("three forks of {FILE_BYTES} bytes with a quota of {OWNER_BYTES}: {taken} bytes used");
    assert!(taken > 2 * FILE_BYTES as u64 && taken <= OWNER_BYTES, "{taken}");
    bob.get(&bob.repo("three", "")).await.refused(404);

    ada.post(&ada.repo("demo", "/transfer"), &json!({ "new_owner": bob.name })).await.expect(202);
    over_quota(bob.post(&ada.repo("demo", "/transfer/accept"), &json!({})).await);
    ada.delete(&ada.repo("demo", "/transfer")).await.expect(204);
    bob.delete(&bob.repo("one", "")).await.expect(204);
    let after = used(admin, &bob.name).await;
    assert!(after < taken, "{after} of {taken}");
}

async fn files_of_releases_count(cluster: &Cluster, admin: &User, ada: &User) {
    let before = (used(admin, &ada.name).await, bytes_of_store(cluster).await);
    let release = ada.post(&ada.repo("demo", "/releases"), &json!({"tag_name": "v1"})).await.expect(201).json();
    let path = ada.repo("demo", &format!("/releases/{}", release["id"]));
    let upload = async |name: &str, bytes: usize| {
        let request = ada.request(Method::POST, &format!("{path}/assets?name={name}"));
        Response::try_of(request.header("content-type", "application/octet-stream").body(noise(bytes, 4))).await
    };
    // The connection may close before the client has sent the whole body and read the response.
    if let Ok(response) = upload("large", LARGE_FILE_BYTES).await {
        over_quota(response);
    }
    upload("fits", 300_000).await.unwrap().expect(201);
    let after = used(admin, &ada.name).await;
    // Not exact: the tag is a ref, and the size after maintenance may be reported at any time.
    assert!((before.0 + 290_000..before.0 + 310_000).contains(&after), "{after} after {}", before.0);
    ada.delete(&path).await.expect(204);
    let is_released = |quota: &Value| quota["bytes"]["used"].as_u64().unwrap() < before.0 + 10_000;
    admin.eventually(&quota_path(&ada.name), is_released).await;
    let growth = growth_since(cluster, before.1).await;
    eprintln!("a file of {LARGE_FILE_BYTES} bytes over the quota, and a removed one, left {growth} bytes");
    assert!(growth < SLACK_BYTES, "{growth}");
}

async fn administrators_set_quotas(admin: &User, ada: &User, git: &Git) {
    let (path, url) = (quota_path(&ada.name), ada.git_url(&ada.name, "demo"));
    ada.get(&path).await.refused(403);
    ada.patch(&path, &json!({"bytes": -1})).await.refused(403);
    admin.get(&quota_path("never-was")).await.refused(404);
    for field in ["repositories", "organizations", "bytes", "rate_percent"] {
        admin.patch(&path, &json!({ field: -2 })).await.refused_field(field);
        admin.patch(&path, &json!({ field: "many" })).await.refused_field(field);
    }
    let none = admin.patch(&path, &json!({"bytes": 0, "repositories": 1})).await.expect(200).json();
    assert_eq!((&none["bytes"]["limit"], &none["bytes"]["is_default"]), (&json!(0), &json!(false)));
    ada.post("/user/repos", &json!({"name": "more"})).await.refused_with_message(422, "owns 1; the limit is 1");
    admin.patch(&path, &json!({"repositories": null})).await.expect(200);
    over_quota(ada.post("/user/repos", &json!({"name": "more"})).await);
    // Writes that need no space still work, and so do reads.
    git.run("work", &["push", "-q", &url, "HEAD~1:refs/heads/topic"]).await;
    git.run("work", &["push", "-q", &url, ":refs/heads/topic"]).await;
    git.run("", &["clone", "-q", &url, "copy"]).await;

    let raised = admin.patch(&path, &json!({"bytes": -1})).await.expect(200).json();
    assert_eq!(raised["bytes"]["limit"], Value::Null);
    git.run("work", &["push", "-q", &url, "main"]).await;
    let is_stored = |quota: &Value| quota["bytes"]["used"].as_u64().unwrap() > LARGE_FILE_BYTES as u64;
    let quota = admin.eventually(&path, is_stored).await;
    assert_eq!(quota["repositories"]["is_default"], true);
    let audit = format!("/admin/audit?action=quota.update&target={}", ada.name);
    let events = admin.get(&audit).await.expect(200).json();
    let details: Vec<_> = events.as_array().unwrap().iter().map(|event| event["details"].clone()).collect();
    let expected =
        [json!({"bytes": "-1"}), json!({"repositories": "site"}), json!({"bytes": "0", "repositories": "1"})];
    assert_eq!(details, expected, "rejected changes have no effect");
    let organization = ada.new_organization("acme").await;
    let quota = admin.get(&quota_path(&organization)).await.expect(200).json();
    assert_eq!((&quota["bytes"]["used"], &quota["bytes"]["limit"]), (&json!(0), &json!(OWNER_BYTES)));
}

async fn nobody_fills_the_tracker_of_others(cluster: &Cluster, admin: &User, ada: &User) {
    let (eve, mallory) = (cluster.user("eve").await, cluster.user("mallory").await);
    let issues = ada.repo("demo", "/issues");
    let open = async |user: &User| user.post(&issues, &json!({"title": "t", "body": "b"})).await;
    for _ in 0..4 {
        open(&eve).await.expect(201);
    }
    limited(open(&eve).await, "limit reached: 4 issues per hour");
    open(ada).await.expect(201);
    let comments = ada.repo("demo", "/issues/1/comments");
    let comment = async |user: &User, text: String| user.post(&comments, &json!({ "body": text })).await;
    for _ in 0..5 {
        comment(&eve, "text".to_owned()).await.expect(201);
    }
    limited(comment(&eve, "text".to_owned()).await, "limit reached: 5 comments per hour");
    comment(&mallory, "x".repeat(60_000)).await.expect(201);
    limited(comment(&mallory, "x".repeat(60_000)).await, "limit reached: 100000 bytes of text per hour");
    let hooks = ada.repo("demo", "/hooks");
    let config = json!({"url": "https://example.com/x", "content_type": "json"});
    let hook = async || ada.post(&hooks, &json!({"type": "gogs", "config": config})).await;
    for _ in 0..2 {
        hook().await.expect(201);
    }
    limited(hook().await, "limit reached: 2 webhooks per hour");

    admin.patch(&quota_path(&eve.name), &json!({"rate_percent": 200})).await.expect(200);
    for _ in 0..4 {
        open(&eve).await.expect(201);
    }
    limited(open(&eve).await, "limit reached: 8 issues per hour");
    admin.patch(&quota_path(&eve.name), &json!({"rate_percent": -1})).await.expect(200);
    for _ in 0..3 {
        open(&eve).await.expect(201);
    }
    let total = ada.get(&format!("{issues}?state=all&limit=50")).await.expect(200).json().as_array().unwrap().len();
    eprintln!(
        "a stranger who asked 13 times has opened {} issues, eight of them before the limit was lifted",
        total - 1
    );
    assert_eq!(total, 12);
}
