//! Settings of repositories, former names, archived repositories and transfers, over REST and git.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::ssh::client_of;
use crate::harness::{Cluster, Git, Options, Response, Role, User, rounds};
use crate::issue_durability::write;

on_profiles! {
    both {
        a_former_name_serves_git_and_leads_clients_of_the_api_on
        an_archived_repository_refuses_changes_over_every_interface
        a_default_branch_is_changed_on_the_store_and_in_the_api
    }
    embedded {
        settings_name_the_field_that_is_wrong_and_change_nothing
        parts_of_a_repository_are_switched_with_its_settings
        pull_requests_are_merged_as_the_settings_say
    }
    production {
        a_transfer_waits_for_its_receiver_or_happens_at_once
    }
}

mod crashes {
    use super::*;

    on_own_installations! {
        a_rename_is_whole_when_repo_svc_is_killed(Options { on_disk: true, ..Options::default() })
    }
}

const CRASHES: usize = 30;
/// Time limit for two renames, including a start of repo-svc.
const RENAME_TIMEOUT: Duration = Duration::from_secs(60);

async fn set(user: &User, name: &str, body: Value) -> Value {
    user.patch(&user.repo(name, ""), &body).await.expect(200).json()
}

fn encode(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// Checks that a request is redirected to a path below `/api/v1`.
async fn leads_to(user: &User, method: Method, from: &str, status: u16, to: &str) {
    let request = user.request(method.clone(), from).json(&json!({"title": "x"}));
    let response = Response::of(request).await.expect(status);
    assert_eq!(response.header("location"), format!("{}/api/v1{to}", user.url), "{method} {from}");
}

async fn a_former_name_serves_git_and_leads_clients_of_the_api_on(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    let made = ada.new_repository("old", json!({"auto_init": true, "private": true})).await;
    let changed = set(&ada, "old", json!({"name": "New"})).await;
    assert_eq!((&changed["id"], &changed["name"]), (&made["id"], &json!("New")));
    assert_eq!(changed["full_name"], format!("{}/New", ada.name));
    let (old, new) = (ada.repo("old", ""), ada.repo("New", ""));
    for rest in ["", "/branches/main", "/raw/main/old/x%20y?a=b%2Fc&d", "/issues?page=2"] {
        for method in [Method::GET, Method::HEAD] {
            leads_to(&ada, method, &format!("{old}{rest}"), 301, &format!("{new}{rest}")).await;
        }
    }
    leads_to(&ada, Method::POST, &format!("{old}/issues"), 307, &format!("{new}/issues")).await;
    leads_to(&ada, Method::PATCH, &old, 307, &new).await;
    leads_to(&ada, Method::DELETE, &old, 307, &new).await;
    for rest in ["", "/issues", "/raw/main/README.md"] {
        let hidden = outsider.get(&format!("{old}{rest}")).await.refused(404);
        let missing = outsider.get(&format!("{}{rest}", ada.repo("never", ""))).await.refused(404);
        assert_eq!(hidden.body, missing.body, "{rest}");
    }

    let git = Git::new();
    let url = ada.git_url(&ada.name, "old");
    git.run("", &["clone", "-q", &url, "work"]).await;
    git.commit("work", "by-http", "x").await;
    git.run("work", &["push", "-q", "origin", "HEAD:main"]).await;
    assert!(git.fails("", &["ls-remote", &outsider.git_url(&ada.name, "old")]).await.contains("not found"));
    let client = client_of(cluster, &ada, "ed25519").await;
    client.git("", &["clone", "-q", &client.url(&ada.name, "old"), "work"]).await;
    let tip = client.git.commit("work", "by-ssh", "x").await;
    client.git("work", &["push", "-q", "origin", "HEAD:main"]).await;
    assert_eq!(ada.get(&format!("{new}/branches/main")).await.expect(200).json()["commit"]["id"], tip.as_str());

    let second = ada.new_repository("OLD", json!({})).await;
    assert_eq!(ada.get(&old).await.expect(200).json()["id"], second["id"]);
    assert!(git.run("", &["ls-remote", &url]).await.is_empty());
    ada.delete(&old).await.expect(204);
    ada.get(&old).await.refused(404);
    set(&ada, "New", json!({"private": false})).await;
    assert_eq!(outsider.get(&new).await.expect(200).json()["id"], made["id"]);
    set(&ada, "New", json!({"private": true})).await;
    outsider.get(&new).await.refused(404);
}

async fn settings_name_the_field_that_is_wrong_and_change_nothing(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("demo", json!({"auto_init": true, "description": "one"})).await;
    ada.new_repository("taken", json!({})).await;
    let path = ada.repo("demo", "");
    for (field, wrong, code) in [
        ("name", json!("x.git"), "reserved"),
        ("name", json!("a b"), "invalid"),
        ("description", json!("d".repeat(256)), "too_long"),
        ("website", json!("example.com"), "invalid"),
        ("website", json!(format!("http://{}", "w".repeat(1_018))), "too_long"),
        ("default_branch", json!("absent"), "unknown"),
        ("default_branch", json!("a..b"), "invalid"),
        ("private", json!("yes"), "type"),
        ("archived", json!(1), "type"),
        ("has_wiki", json!("no"), "type"),
        ("template", json!(true), "invalid"),
    ] {
        let mut body = json!({"description": "two", "archived": true});
        body[field] = wrong;
        ada.patch(&path, &body).await.refused_fields(&[(field, code)]);
    }
    ada.patch(&path, &json!({"name": "TAKEN", "description": "two"})).await.refused_with_message(422, "exists");
    let kept = json!({"name": "", "description": null, "default_branch": "", "unknown": 1});
    let same = ada.patch(&path, &kept).await.expect(200).json();
    assert_eq!((&same["name"], &same["description"]), (&json!("demo"), &json!("one")));
    ada.share(&path, &bob, "write").await;
    for body in [json!({"description": "two"}), json!({"description": 2}), json!({})] {
        bob.patch(&path, &body).await.refused(403);
        cluster.anonymous().patch(&path, &body).await.refused(401);
        cluster.outsider().await.patch(&path, &body).await.refused(403);
    }
    ada.share(&path, &bob, "admin").await;
    assert_eq!(bob.patch(&path, &json!({"description": ""})).await.expect(200).json()["description"], "");
    let logged = cluster.admin().await.get(&format!("/admin/audit?target={}/demo", ada.name)).await.expect(200).json();
    let updates = logged.as_array().unwrap().iter().filter(|entry| entry["action"] == "repository.update").count();
    assert_eq!(updates, 1, "{logged}");
}

async fn parts_of_a_repository_are_switched_with_its_settings(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("demo", json!({"auto_init": true})).await;
    let of_gitea = json!({
        "has_issues": false, "has_wiki": false, "template": false, "website": "http://example.com", "private": true,
        "has_pull_requests": true, "allow_merge_commits": true,
    });
    let shown = set(&ada, "demo", of_gitea).await;
    let seen = ["has_issues", "has_wiki", "has_pull_requests", "private", "website"].map(|field| shown[field].clone());
    assert_eq!(json!(seen), json!([false, false, true, true, "http://example.com"]));
    ada.post(&format!("{repo}/issues"), &json!({"title": "One"})).await.refused(404);
    let shown = set(&ada, "demo", json!({"has_issues": true, "archived": true})).await;
    assert_eq!((&shown["has_issues"], &shown["has_wiki"]), (&json!(true), &json!(false)));
    assert!(shown["archived_at"].is_string(), "{shown}");
    assert_eq!(set(&ada, "demo", json!({"archived": false})).await.get("archived_at"), None);
    ada.new_issue(&repo, "One", json!({})).await;
}

async fn pull_requests_are_merged_as_the_settings_say(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_tracker("demo", json!({"auto_init": true})).await;
    let styles = json!({
        "allow_merge_commits": false, "allow_rebase": false, "allow_rebase_explicit": false, "allow_squash_merge": true,
        "allow_fast_forward_only_merge": false, "default_merge_style": "squash", "allow_rebase_update": false,
        "default_delete_branch_after_merge": true, "autodetect_manual_merge": false,
        "allow_manual_merge": true,
    });
    let shown = set(&ada, "demo", styles.clone()).await;
    for (field, value) in styles.as_object().unwrap() {
        assert_eq!(&shown[field], value, "{field}");
    }
    assert_eq!((&shown["has_pull_requests"], &shown["open_pr_counter"]), (&json!(true), &json!(0)));
    for nothing in [json!({"allow_squash_merge": false}), json!({"default_merge_style": "rebase"})] {
        ada.patch(&format!("/repos/{}/demo", ada.name), &nothing).await.refused(422);
    }
    // Without pull requests, nothing is allowed, and the styles are kept for later.
    let off = json!({"has_pull_requests": false, "allow_merge_commits": false, "allow_squash_merge": false});
    let shown = set(&ada, "demo", off).await;
    assert_eq!((&shown["has_pull_requests"], &shown["allow_squash_merge"]), (&json!(false), &json!(false)));
    let shown = set(&ada, "demo", json!({"has_pull_requests": true})).await;
    assert_eq!((&shown["allow_squash_merge"], &shown["default_merge_style"]), (&json!(true), &json!("squash")));
}

async fn a_default_branch_is_changed_on_the_store_and_in_the_api(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("demo", json!({"auto_init": true})).await;
    let file = json!({"message": "m", "content": encode("x"), "branch": "dev"});
    ada.put(&ada.repo("demo", "/contents/x"), &file).await.expect(201);
    assert_eq!(set(&ada, "demo", json!({"default_branch": "dev"})).await["default_branch"], "dev");
    assert_eq!(ada.get(&ada.repo("demo", "")).await.expect(200).json()["default_branch"], "dev");
    let git = Git::new();
    let heads = git.run("", &["ls-remote", "--symref", &ada.git_url(&ada.name, "demo"), "HEAD"]).await;
    assert!(heads.starts_with("ref: refs/heads/dev\tHEAD"), "{heads}");
    assert_eq!(set(&ada, "demo", json!({"default_branch": "dev", "name": "demo2"})).await["default_branch"], "dev");
    ada.new_repository("empty", json!({})).await;
    assert_eq!(set(&ada, "empty", json!({"default_branch": "main"})).await["default_branch"], "main");
    ada.patch(&ada.repo("empty", ""), &json!({"default_branch": "dev"})).await.refused_field("default_branch");
}

async fn an_archived_repository_refuses_changes_over_every_interface(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("attic", json!({"auto_init": true})).await;
    let issue = ada.new_issue(&repo, "One", json!({})).await["number"].as_i64().unwrap();
    let comment = ada.new_comment(&repo, issue, "text").await;
    let (git, url) = (Git::new(), ada.git_url(&ada.name, "attic"));
    git.run("", &["clone", "-q", &url, "work"]).await;
    git.commit("work", "y", "y").await;
    let client = client_of(cluster, &ada, "ed25519").await;
    set(&ada, "attic", json!({"archived": true})).await;
    let hook = json!({"type": "gogs", "config": {"url": "https://example.com", "content_type": "json"}});
    let file = json!({"message": "m", "content": encode("x")});
    for (method, rest, body) in [
        (Method::POST, "/issues".to_owned(), json!({"title": "Two"})),
        (Method::PATCH, format!("/issues/{issue}"), json!({"state": "closed"})),
        (Method::POST, format!("/issues/{issue}/comments"), json!({"body": "more"})),
        (Method::PATCH, format!("/issues/{issue}/comments/{comment}"), json!({"body": "more"})),
        (Method::DELETE, format!("/issues/{issue}/comments/{comment}"), json!(null)),
        (Method::POST, "/labels".to_owned(), json!({"name": "bug", "color": "#ff0000"})),
        (Method::POST, "/milestones".to_owned(), json!({"title": "One"})),
        (Method::PUT, "/contents/x".to_owned(), file),
        (Method::POST, "/hooks".to_owned(), hook),
        (Method::POST, "/branch_protections".to_owned(), json!({"pattern": "main"})),
        (Method::PUT, "/contents/x".to_owned(), json!({"message": 1})),
    ] {
        for user in [&ada, &cluster.admin().await] {
            let request = user.request(method.clone(), &format!("{repo}{rest}")).json(&body);
            Response::of(request).await.refused_with_message(403, "archived");
        }
    }
    let stderr = git.fails("work", &["push", "origin", "HEAD:main"]).await;
    assert!(stderr.contains("repository is archived and cannot be changed"), "{stderr}");
    client.git("", &["clone", "-q", &client.url(&ada.name, "attic"), "work"]).await;
    let stderr = client.fails("work", &["push", "origin", "HEAD:refs/heads/x"]).await;
    assert!(stderr.starts_with("Ferrite: Repository is archived and cannot be changed\n"), "{stderr}");
    for rest in ["", "/issues", "/labels", "/hooks", "/branch_protections", "/contents/README.md", "/collaborators"] {
        ada.get(&format!("{repo}{rest}")).await.expect(200);
    }
    git.run("work", &["fetch", "-q", "origin"]).await;
    set(&ada, "attic", json!({"description": "closed", "archived": false})).await;
    git.run("work", &["push", "-q", "origin", "HEAD:main"]).await;
    ada.new_issue(&repo, "Two", json!({})).await;
    set(&ada, "attic", json!({"archived": true})).await;
    ada.delete(&repo).await.expect(204);
}

async fn a_transfer_waits_for_its_receiver_or_happens_at_once(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("gift", json!({"auto_init": true, "private": true})).await;
    let (path, id) = (ada.repo("gift", "/transfer"), |value: &Value| value["id"].as_i64());
    for (body, code) in [(json!({}), "required"), (json!({"new_owner": "no-such-user"}), "unknown")] {
        ada.post(&path, &body).await.refused_fields(&[("new_owner", code)]);
    }
    ada.get(&path).await.refused(404);
    let to_bob = json!({"new_owner": bob.name});
    assert_eq!(ada.post(&path, &to_bob).await.expect(202).json()["owner"]["username"], ada.name.as_str());
    ada.post(&path, &to_bob).await.refused(422);
    let seen = bob.get(&path).await.expect(200).json();
    assert_eq!((&seen["recipient"]["username"], &seen["doer"]["username"]), (&json!(bob.name), &json!(ada.name)));
    assert_eq!(seen["repository"]["name"], "gift");
    for user in [&ada, &bob] {
        assert_eq!(
            user.get("/user/transfers").await.expect(200).json(),
            json!([user.get(&path).await.expect(200).json()])
        );
    }
    assert!(seen["expires_at"].as_str() > seen["created_at"].as_str());
    bob.get(&ada.repo("gift", "")).await.refused(404);
    let outsider = cluster.outsider().await;
    let hidden = outsider.get(&path).await.refused(404);
    assert_eq!(hidden.body, outsider.get(&ada.repo("never", "/transfer")).await.refused(404).body);
    ada.post(&format!("{path}/accept"), &Value::Null).await.refused(403);
    bob.post(&format!("{path}/reject"), &Value::Null).await.empty(204);
    ada.post(&path, &to_bob).await.expect(202);
    ada.delete(&path).await.empty(204);
    ada.delete(&path).await.refused(404);
    ada.post(&path, &to_bob).await.expect(202);
    let accepted = bob.post(&format!("{path}/accept"), &Value::Null).await.expect(202).json();
    assert_eq!(accepted["full_name"], format!("{}/gift", bob.name));
    ada.get(&ada.repo("gift", "")).await.refused(404);
    leads_to(&bob, Method::GET, &ada.repo("gift", ""), 301, &bob.repo("gift", "")).await;
    Git::new().run("", &["clone", "-q", &bob.git_url(&ada.name, "gift"), "copy"]).await;

    assert_eq!(bob.get("/user/transfers").await.expect(200).json(), json!([]));
    let organization = bob.new_organization("org").await;
    let path = bob.repo("gift", "/transfer");
    let moved = bob.post(&path, &json!({"new_owner": organization})).await.expect(202).json();
    assert_eq!((id(&moved), &moved["owner"]["username"]), (id(&accepted), &json!(organization)));
    bob.get(&format!("/repos/{organization}/gift")).await.expect(200);
}

#[derive(Default)]
struct Progress {
    is_over: AtomicBool,
    renames: AtomicUsize,
}

impl Progress {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Waits for two more renames: the second one starts after this call.
    async fn next_renames(&self) {
        let wanted = self.renames.load(Ordering::SeqCst) + 2;
        let deadline = Instant::now() + RENAME_TIMEOUT;
        while self.renames.load(Ordering::SeqCst) < wanted {
            assert!(Instant::now() < deadline, "renames stopped");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn rename(user: User, progress: Arc<Progress>) -> String {
    let mut name = "n-0".to_owned();
    for number in 1.. {
        if progress.is_over() {
            break;
        }
        let next = format!("n-{number}");
        let (path, key) = (user.repo(&name, ""), format!("rename-{number}"));
        let response = write(&user, Method::PATCH, &path, &key, &json!({ "name": next })).await;
        assert_eq!(response.json()["name"], next.as_str());
        name = next;
        progress.renames.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    name
}

/// Checks continuously that there is one repository, under one name.
async fn observe(user: User, progress: Arc<Progress>) {
    while !progress.is_over() {
        let request = user.request(Method::GET, "/user/repos").timeout(Duration::from_secs(20));
        if let Ok(response) = Response::try_of(request).await
            && response.status.as_u16() < 500
        {
            let all = response.expect(200).json();
            assert_eq!(all.as_array().map(Vec::len), Some(1), "{all}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn a_rename_is_whole_when_repo_svc_is_killed(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let made = ada.new_repository("n-0", json!({"auto_init": true})).await;
    let progress = Arc::new(Progress::default());
    let (mut renames, mut observers) = (JoinSet::new(), JoinSet::new());
    renames.spawn(rename(ada.reconnected(), Arc::clone(&progress)));
    observers.spawn(observe(ada.reconnected(), Arc::clone(&progress)));
    for round in 0..rounds(CRASHES) {
        progress.next_renames().await;
        // Kills at a different point of a rename each round.
        tokio::time::sleep(Duration::from_millis(7 * (round as u64 % 10))).await;
        tokio::task::block_in_place(|| cluster.crash(Role::Repo));
    }
    progress.next_renames().await;
    progress.is_over.store(true, Ordering::SeqCst);
    let name = renames.join_all().await.pop().unwrap();
    observers.join_all().await;
    let last: usize = name.trim_start_matches("n-").parse().unwrap();
    assert_eq!(ada.get(&ada.repo(&name, "")).await.expect(200).json()["id"], made["id"]);
    for number in last.saturating_sub(20)..last {
        leads_to(&ada, Method::GET, &ada.repo(&format!("n-{number}"), ""), 301, &ada.repo(&name, "")).await;
    }
    Git::new().run("", &["clone", "-q", &ada.git_url(&ada.name, &format!("n-{}", last - 1)), "copy"]).await;
}
