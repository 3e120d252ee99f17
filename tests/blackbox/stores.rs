//! Several git stores: new repositories are spread over them, each is served from its own store
//! through every interface, a store that is down affects only its own repositories, and a new store
//! gets repositories without a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use base64::Engine;
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::task::block_in_place;

use crate::harness::ssh::client_of;
use crate::harness::{Cluster, Git, Options, Profile, Role, User, replicated, run};

mod production {
    #[test]
    fn repositories_spread_and_each_is_served_from_its_store() {
        let cluster = super::replicated();
        super::run(&cluster, super::each_is_served_from_its_store(&cluster));
    }

    #[test]
    fn a_store_that_is_gone_and_one_that_is_added_change_nothing_for_the_others() {
        let settings = vec![("FERRITE_REPO_STORE_POLL_SECONDS", "1")];
        let options = super::Options { stores: 3, settings, ..super::Options::default() };
        let cluster = super::Cluster::start(super::Profile::Production, &options);
        super::run(&cluster, super::stores_come_and_go(&cluster));
    }
}

/// Maximum number of repositories to create until one is on a store. With equal weights, the chance
/// of missing it is below one in a million.
const MAX_ATTEMPTS: usize = 48;

fn folder(cluster: &Cluster, store: usize, id: i64) -> PathBuf {
    let hash = Sha256::digest(id.to_string());
    let parents = format!("repos/{:02x}/{:02x}", hash[0], hash[1]);
    cluster.store_folder(store).join(parents).join(format!("{id}.git"))
}

fn store_of(cluster: &Cluster, id: i64) -> usize {
    let found: Vec<_> = (0..4).filter(|store| folder(cluster, *store, id).join("HEAD").exists()).collect();
    assert_eq!(found.len(), 1, "repository {id} is on the stores {found:?}");
    found[0]
}

struct Placed {
    name: String,
    id: i64,
    store: usize,
}

async fn place(cluster: &Cluster, user: &User, name: String) -> Placed {
    let id = user.new_repository(&name, json!({"auto_init": true})).await["id"].as_i64().unwrap();
    Placed { store: store_of(cluster, id), name, id }
}

/// Creates repositories until each of the stores has one. Returns the first of each.
async fn one_on_each(cluster: &Cluster, user: &User, stores: &[usize]) -> BTreeMap<usize, Placed> {
    let mut first = BTreeMap::new();
    for number in 0..MAX_ATTEMPTS {
        let placed = place(cluster, user, format!("on-{}-{number}", stores.len())).await;
        first.entry(placed.store).or_insert(placed);
        if stores.iter().all(|store| first.contains_key(store)) {
            return first;
        }
    }
    panic!("{MAX_ATTEMPTS} repositories do not cover the stores {stores:?}: {:?}", first.keys());
}

async fn put_file(user: &User, name: &str, path: &str, content: &[u8]) -> u16 {
    let content = base64::engine::general_purpose::STANDARD.encode(content);
    let body = json!({"content": content, "message": "test"});
    user.put(&user.repo(name, &format!("/contents/{path}")), &body).await.status.as_u16()
}

async fn stores(admin: &User) -> Vec<Value> {
    admin.get("/admin/stores").await.expect(200).json().as_array().unwrap().clone()
}

async fn store_named(admin: &User, name: &str) -> Value {
    stores(admin).await.into_iter().find(|store| store["name"] == name).unwrap()
}

async fn until_reachable(admin: &User, name: &str, is_reachable: bool) -> Duration {
    let begin = Instant::now();
    while store_named(admin, name).await["reachable"] != is_reachable {
        assert!(begin.elapsed() < Duration::from_secs(30), "{name} is still reachable: {}", !is_reachable);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    begin.elapsed()
}

async fn each_is_served_from_its_store(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repositories = one_on_each(cluster, &ada, &[0, 1, 2]).await;
    let ssh = client_of(cluster, &ada, "ed25519").await;
    for (store, placed) in &repositories {
        let git = Git::new();
        let name = placed.name.as_str();
        contents_and_git(&ada, &git, name).await;
        let url = ssh.url(&ada.name, name);
        ssh.git("", &["clone", "-q", &url, &format!("over-ssh-{store}")]).await;
        let archive = ada.get(&ada.repo(name, "/archive/main.zip")).await.expect(200);
        assert!(archive.body.starts_with(b"PK"));
        release_with_a_file(&ada, name).await;
        let wiki = ada.git_url(&ada.name, &format!("{name}.wiki"));
        git.small("wiki").await;
        git.run("wiki", &["push", "-q", &wiki, "HEAD:main"]).await;
        git.run("", &["clone", "-q", &wiki, "wiki-again"]).await;
        let bob = cluster.user("bob").await;
        let fork = bob.post(&ada.repo(name, "/forks"), &json!({})).await.expect(201).json();
        assert_eq!(store_of(cluster, fork["id"].as_i64().unwrap()), *store, "a fork is on the store of its parent");
        let branch = json!({"default_branch": "other"});
        git.run("work", &["push", "-q", "origin", "HEAD:other"]).await;
        ada.patch(&ada.repo(name, ""), &branch).await.expect(200);
        bob.delete(&bob.repo(name, "")).await.expect(204);
        ada.delete(&ada.repo(name, "")).await.expect(204);
        until_gone(cluster, *store, placed.id).await;
    }
    let listed = stores(&cluster.admin().await).await;
    let names: BTreeSet<_> = listed.iter().map(|store| store["name"].as_str().unwrap().to_owned()).collect();
    assert!(["git-0", "git-1", "git-2"].iter().all(|name| names.contains(*name)), "{listed:?}");
    assert!(listed.iter().all(|store| store["free_bytes"].as_i64() <= store["total_bytes"].as_i64()), "{listed:?}");
}

async fn contents_and_git(ada: &User, git: &Git, name: &str) {
    assert_eq!(put_file(ada, name, "by-api.txt", b"one").await, 201);
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, name), "work"]).await;
    assert_eq!(std::fs::read_to_string(git.path().join("work/by-api.txt")).unwrap(), "one");
    git.commit("work", "by-push.txt", "two").await;
    git.run("work", &["push", "-q"]).await;
    let raw = ada.get(&ada.repo(name, "/raw/main/by-push.txt")).await.expect(200);
    assert_eq!(raw.text(), "two");
    assert_eq!(ada.get(&ada.repo(name, "/commits")).await.expect(200).json().as_array().unwrap().len(), 3);
}

async fn release_with_a_file(ada: &User, name: &str) {
    let release = ada.post(&ada.repo(name, "/releases"), &json!({"tag_name": "v1"})).await.expect(201).json();
    let path = ada.repo(name, &format!("/releases/{}/assets?name=file.bin", release["id"]));
    let upload = ada.request(Method::POST, &path).header("content-type", "application/octet-stream");
    let asset = crate::harness::Response::of(upload.body(b"bytes of a file".to_vec())).await.expect(201).json();
    let address = asset["browser_download_url"].as_str().unwrap();
    let path = &address[address.find(&format!("/{}/", ada.name)).unwrap()..];
    let download = ada.raw(Method::GET, path).header("authorization", format!("token {}", ada.token.as_ref().unwrap()));
    assert_eq!(crate::harness::Response::of(download).await.expect(200).text(), "bytes of a file");
    ada.delete(&ada.repo(name, &format!("/releases/{}", release["id"]))).await.expect(204);
}

async fn until_gone(cluster: &Cluster, store: usize, id: i64) {
    let begin = Instant::now();
    while folder(cluster, store, id).exists() {
        assert!(begin.elapsed() < Duration::from_secs(30), "repository {id} is still on store {store}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn stores_come_and_go(cluster: &Cluster) {
    let (ada, admin) = (cluster.user("ada").await, cluster.admin().await);
    for store in ["git-0", "git-1", "git-2"] {
        until_reachable(&admin, store, true).await;
    }
    let repositories = one_on_each(cluster, &ada, &[0, 1, 2]).await;
    a_store_is_gone_and_comes_back(cluster, &ada, &admin, &repositories).await;
    a_store_is_drained(cluster, &ada, &admin).await;
    a_store_is_added(cluster, &ada, &admin).await;
}

async fn a_store_is_gone_and_comes_back(
    cluster: &Cluster,
    ada: &User,
    admin: &User,
    repositories: &BTreeMap<usize, Placed>,
) {
    let doomed = {
        let mut number = 0;
        loop {
            let placed = place(cluster, ada, format!("doomed-{number}")).await;
            if placed.store == 1 {
                break placed;
            }
            number += 1;
            assert!(number < MAX_ATTEMPTS);
        }
    };
    block_in_place(|| cluster.end_replica(Role::Git, 1, Signal::KILL));
    let noticed = until_reachable(admin, "git-1", false).await;
    let shown = store_named(admin, "git-1").await;
    assert!(shown["last_seen_at"].is_string() && shown["free_bytes"].is_i64(), "{shown}");
    let git = Git::new();
    for (store, placed) in repositories {
        let is_served = *store != 1;
        let begin = Instant::now();
        let response = ada.get(&ada.repo(&placed.name, "/contents/README.md")).await;
        assert_eq!(response.status.as_u16(), if is_served { 200 } else { 503 }, "{}: {}", placed.name, response.text());
        assert_eq!(put_file(ada, &placed.name, "more.txt", b"x").await, if is_served { 201 } else { 503 });
        let cloned = git.attempt("", &["clone", "-q", &ada.git_url(&ada.name, &placed.name), &placed.name]).await;
        assert_eq!(cloned.status.success(), is_served, "{}", placed.name);
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
        // repo-svc and issue-svc still know it.
        ada.get(&ada.repo(&placed.name, "")).await.expect(200);
        ada.post(&ada.repo(&placed.name, "/issues"), &json!({"title": "still here"})).await.expect(201);
    }
    for number in 0..12 {
        assert_ne!(place(cluster, ada, format!("elsewhere-{number}")).await.store, 1);
    }
    ada.delete(&ada.repo(&doomed.name, "")).await.expect(204);
    assert!(folder(cluster, 1, doomed.id).exists());

    block_in_place(|| {
        cluster.start_replica(Role::Git, 1);
        cluster.wait_replica_ready(Role::Git, 1);
    });
    let back = until_reachable(admin, "git-1", true).await;
    eprintln!("a killed store was detected after {noticed:?}, and its return after {back:?}");
    let on_it = &repositories[&1].name;
    ada.eventually(&ada.repo(on_it, "/contents/README.md"), |response| response["type"] == "file").await;
    assert_eq!(put_file(ada, on_it, "more.txt", b"x").await, 201);
    until_gone(cluster, 1, doomed.id).await;
}

async fn a_store_is_drained(cluster: &Cluster, ada: &User, admin: &User) {
    let shown = admin.patch("/admin/stores/git-0", &json!({"weight": 0})).await.expect(200).json();
    assert_eq!(shown["weight"], 0);
    for number in 0..12 {
        assert_ne!(place(cluster, ada, format!("drained-{number}")).await.store, 0);
    }
    admin.delete("/admin/stores/git-0").await.refused_with_message(422, "still has repositories");
    admin.patch("/admin/stores/git-0", &json!({"weight": -1})).await.refused_field("weight");
    admin.patch("/admin/stores/git-9", &json!({"weight": 1})).await.refused_with_message(404, "store does not exist");
    admin.put("/admin/stores/Git_9", &json!({})).await.refused_field("name");
    let list = block_in_place(|| cluster.administer(&["store", "list"]));
    let lines: Vec<Vec<_>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "WEIGHT", "REPOSITORIES"]);
    let weights: Vec<_> = lines[1..].iter().map(|line| (line[0], line[1])).collect();
    assert_eq!(weights, [("git-0", "0"), ("git-1", "100"), ("git-2", "100")]);
    block_in_place(|| cluster.administer(&["store", "weight", "git-0", "100"]));
    assert_eq!(store_named(admin, "git-0").await["weight"], 100);
}

async fn a_store_is_added(cluster: &Cluster, ada: &User, admin: &User) {
    admin.put("/admin/stores/nowhere", &json!({"weight": 10_000})).await.expect(201);
    until_reachable(admin, "nowhere", false).await;
    block_in_place(|| {
        cluster.start_replica(Role::Git, 3);
        cluster.wait_replica_ready(Role::Git, 3);
    });
    let added = admin.put("/admin/stores/git-3", &json!({"weight": 10_000})).await.expect(201);
    assert_eq!(added.header("location"), format!("{}/api/v1/admin/stores", admin.url));
    let added = added.json();
    assert_eq!((&added["name"], &added["repositories"]), (&json!("git-3"), &json!(0)));
    admin.put("/admin/stores/git-3", &json!({})).await.expect(200);
    until_reachable(admin, "git-3", true).await;
    let mut on_it = Vec::new();
    for number in 0..12 {
        let placed = place(cluster, ada, format!("added-{number}")).await;
        if placed.store == 3 {
            on_it.push(placed);
        }
    }
    assert!(on_it.len() > 6, "{} of 12 repositories are on the store with the highest weight", on_it.len());
    contents_and_git(ada, &Git::new(), &on_it[0].name).await;
    assert_eq!(store_named(admin, "git-3").await["repositories"], on_it.len());
    admin.delete("/admin/stores/nowhere").await.empty(204);
    for placed in &on_it {
        ada.delete(&ada.repo(&placed.name, "")).await.expect(204);
    }
    admin.delete("/admin/stores/git-3").await.empty(204);
    let audit = admin.get("/admin/audit?action=store&target=git-3").await.expect(200).json();
    let actions: Vec<_> = audit.as_array().unwrap().iter().map(|event| event["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["store.remove", "store.add"]);
    ada.new_repository("after", json!({})).await;
}
