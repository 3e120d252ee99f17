//! Mirrors of a real git server on loopback: what a sync fetches and reports, and that nothing else
//! changes a mirror.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::concurrent::join_all;
use crate::harness::git_server::{Behaviour, GitServer, REACHABLE};
use crate::harness::{Cluster, Git, Options, Response, Role, User};
use crate::imports::{import, on_outward_installations, outward};

/// Time limit for a requested sync to show.
const SYNC_TIMEOUT: Duration = Duration::from_secs(60);
/// Writers at once.
const WRITERS: usize = 8;

on_outward_installations! {
    embedded Embedded {
        a_sync_brings_a_push_a_forced_push_a_deletion_and_a_tag
        only_syncs_change_a_mirror
        a_change_that_is_refused_changes_neither_interval_nor_settings
        of_changes_of_the_interval_with_one_tag_one_is_made
        a_repeated_change_leaves_a_later_interval
        a_sync_that_fails_is_told_to_administrators
    }
    production Production {
        a_sync_brings_a_push_a_forced_push_a_deletion_and_a_tag
        of_changes_of_the_interval_with_one_tag_one_is_made
    }
}

mod crashes {
    use super::*;

    on_own_installations! {
        a_sync_that_is_interrupted_is_made_again(Options { settings: REACHABLE.to_vec(), ..Options::default() })
    }
}

struct Mirror {
    git: Git,
    server: GitServer,
    user: User,
}

impl Mirror {
    async fn new(cluster: &Cluster) -> Self {
        let (user, git) = (cluster.user("ada").await, Git::new());
        git.small("work").await;
        for branch in ["old", "forced"] {
            git.run("work", &["branch", branch]).await;
        }
        git.run("", &["clone", "-q", "--bare", "work", "remote.git"]).await;
        git.run("work", &["remote", "add", "origin", "../remote.git"]).await;
        let server = GitServer::start(&git).await;
        let more = json!({"mirror": true, "mirror_interval": "30m"});
        let made = import(&user, &server.url("remote.git"), "mirror", more).await.expect(201).json();
        assert_eq!((&made["mirror"], &made["mirror_info"]["interval"]), (&json!(true), &json!("30m0s")), "{made}");
        Self { git, server, user }
    }

    fn path(&self, rest: &str) -> String {
        self.user.repo("mirror", rest)
    }

    async fn refs(&self, url: &str) -> String {
        self.git.run("", &["ls-remote", "--heads", "--tags", url]).await
    }

    /// Requests a sync and waits until the mirror matches the remote.
    async fn sync(&self) {
        self.user.put_sync(&self.path("/mirror-sync")).await.empty(202);
        self.follows().await;
    }

    /// Waits until the mirror has the refs of the remote.
    async fn follows(&self) {
        let theirs = self.refs(&self.git.path().join("remote.git").display().to_string()).await;
        let deadline = tokio::time::Instant::now() + SYNC_TIMEOUT;
        while self.refs(&self.user.git_url(&self.user.name, "mirror")).await != theirs {
            assert!(tokio::time::Instant::now() < deadline, "the mirror does not match the remote");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits for `count` ref events and returns their names and payloads.
    async fn events(&self, count: usize) -> Vec<(String, Value)> {
        let about_refs = |page: &Value| {
            let events = page["events"].as_array().cloned().unwrap_or_default().into_iter();
            let named =
                events.map(|event| (event["event"].as_str().unwrap_or_default().to_owned(), event["payload"].clone()));
            named.filter(|(name, _)| ["create", "delete", "push"].contains(&name.as_str())).collect::<Vec<_>>()
        };
        let page = self.user.eventually(&self.path("/events?limit=100"), |page| about_refs(page).len() >= count).await;
        about_refs(&page)
    }
}

impl User {
    async fn put_sync(&self, path: &str) -> Response {
        Response::of(self.request(Method::POST, path)).await
    }
}

async fn a_sync_brings_a_push_a_forced_push_a_deletion_and_a_tag(cluster: &Cluster) {
    let mirror = Mirror::new(cluster).await;
    let git = &mirror.git;
    let before = mirror.events(0).await.len();
    let first = git.run("work", &["rev-parse", "main"]).await;
    let pushed = git.commit("work", "one.txt", "1\n").await;
    git.run("work", &["checkout", "-q", "--orphan", "forced-again"]).await;
    let forced = git.commit("work", "other.txt", "2\n").await;
    git.run("work", &["tag", "-a", "-m", "One", "v1", "main"]).await;
    git.run("work", &["push", "-q", "--force", "origin", "main", "forced-again:forced", ":old", "v1"]).await;
    mirror.sync().await;
    let events = mirror.events(before + 4).await.split_off(before);
    let told = |name: &str, reference: &str| {
        let of_ref = |payload: &Value| payload["ref"].as_str().is_some_and(|text| text.ends_with(reference));
        let found: Vec<_> = events.iter().filter(|(event, payload)| event == name && of_ref(payload)).collect();
        assert_eq!(found.len(), 1, "{name} of {reference}: {events:?}");
        found[0].1.clone()
    };
    let push = told("push", "main");
    assert_eq!((&push["before"], &push["after"]), (&json!(first), &json!(pushed)), "{push}");
    assert_eq!(told("push", "forced")["after"], json!(forced));
    assert_eq!(told("delete", "old")["ref_type"], "branch");
    assert_eq!(told("create", "v1")["ref_type"], "tag");
    assert_eq!(events.len(), 4, "{events:?}");
    mirror.sync().await;
    assert_eq!(mirror.events(0).await.len(), before + 4, "an unchanged remote emits no events");
    let info = mirror.user.get(&mirror.path("")).await.expect(200).json()["mirror_info"].clone();
    assert!(info["last_sync_at"].is_string() && info["next_sync_at"].is_string() && info["last_error"] == "", "{info}");
    mirror.user.delete(&mirror.path("")).await.expect(204);
    mirror.user.put_sync(&mirror.path("/mirror-sync")).await.refused(404);
}

async fn only_syncs_change_a_mirror(cluster: &Cluster) {
    let mirror = Mirror::new(cluster).await;
    let (user, git) = (&mirror.user, &mirror.git);
    git.commit("work", "two.txt", "2\n").await;
    let url = user.git_url(&user.name, "mirror");
    assert!(git.fails("work", &["push", &url, "main"]).await.contains("mirror"));
    let file = json!({"message": "m", "content": ""});
    user.put(&mirror.path("/contents/a.txt"), &file).await.refused_with_message(403, "mirror");

    user.new_repository("plain", json!({})).await;
    let plain = user.repo("plain", "");
    user.put_sync(&format!("{plain}/mirror-sync")).await.refused(404);
    let reader = cluster.outsider().await;
    for path in [mirror.path("/mirror-sync"), format!("{plain}/mirror-sync")] {
        reader.put_sync(&path).await.refused(403);
    }
    let seen = reader.get(&mirror.path("")).await.expect(200).json()["mirror_info"].clone();
    assert_eq!(seen["interval"], "30m0s");
    assert!(seen["last_error"].is_null() && seen["next_sync_at"].is_null(), "{seen}");

    let change = async |interval: Value| user.patch(&mirror.path(""), &json!({"mirror_interval": interval})).await;
    assert_eq!(change(json!("1h0m0s")).await.expect(200).json()["mirror_info"]["interval"], "1h0m0s");
    user.eventually(&mirror.path(""), |now| now["mirror_info"]["interval"] == "1h0m0s").await;
    assert_eq!(change(json!(600)).await.expect(200).json()["mirror_info"]["interval"], "10m0s");
    for wrong in [json!("9m"), json!(0), json!("8761h"), json!(31_536_001), json!("often")] {
        change(wrong).await.refused_field("mirror_interval");
    }
    user.patch(&plain, &json!({"mirror_interval": "1h"})).await.refused_field("mirror_interval");
    let response = reader.patch(&mirror.path(""), &json!({"mirror_interval": "1h"})).await;
    response.refused(403);
}

async fn a_change_that_is_refused_changes_neither_interval_nor_settings(cluster: &Cluster) {
    let mirror = Mirror::new(cluster).await;
    mirror.follows().await;
    let (user, path) = (&mirror.user, mirror.path(""));
    let shown = async || {
        let shown = user.get(&path).await.expect(200);
        let (tag, shown) = (shown.header("etag"), shown.json());
        (tag, shown["mirror_info"]["interval"].clone(), shown["description"].clone())
    };
    let patch = async |if_match: &str, body: Value| {
        Response::of(user.request(Method::PATCH, &path).header("if-match", if_match).json(&body)).await
    };
    let (_, interval, description) = shown().await;
    let both = json!({"mirror_interval": "1h", "description": "Other"});
    patch("\"stale\"", both.clone()).await.refused(412);
    patch("*", json!({"mirror_interval": "9m", "description": "Other"})).await.refused_field("mirror_interval");
    patch("*", json!({"mirror_interval": "1h", "name": "a b"})).await.refused_field("name");
    let (mut tag, interval_after, description_after) = shown().await;
    assert_eq!((interval_after, description_after), (interval, description));
    // A sync also changes the ETag.
    let deadline = tokio::time::Instant::now() + SYNC_TIMEOUT;
    while patch(&tag, both.clone()).await.status != 200 {
        assert!(tokio::time::Instant::now() < deadline, "{tag} is not current");
        tag = shown().await.0;
    }
    assert_eq!(shown().await.2, "Other");
    user.eventually(&path, |now| now["mirror_info"]["interval"] == "1h0m0s").await;
    user.new_repository("plain", json!({})).await;
    let plain = user.repo("plain", "");
    user.patch(&plain, &json!({"mirror_interval": "1h", "description": "x"})).await.refused_field("mirror_interval");
    assert_eq!(user.get(&plain).await.expect(200).json()["description"], "");
}

async fn of_changes_of_the_interval_with_one_tag_one_is_made(cluster: &Cluster) {
    let mirror = Mirror::new(cluster).await;
    mirror.follows().await;
    let (user, path) = (&mirror.user, &mirror.path(""));
    let patch = async |if_match: &str, body: Value| {
        let request = user.reconnected().request(Method::PATCH, path).header("if-match", if_match);
        Response::of(request.json(&body)).await
    };
    let deadline = tokio::time::Instant::now() + SYNC_TIMEOUT;
    // State sent by the store during the import changes the tag too. Then all writes fail; retry.
    let (tag, made) = loop {
        let tag = user.get(path).await.expect(200).header("etag");
        let writes = (0..WRITERS).map(|number| patch(&tag, json!({"mirror_interval": format!("{}h", 100 + number)})));
        let (done, refused): (Vec<_>, Vec<_>) =
            join_all(writes).await.into_iter().partition(|response| response.status == 200);
        for response in refused {
            response.refused(412);
        }
        match done.as_slice() {
            [made] => break (tag, made.json()),
            [] => assert!(tokio::time::Instant::now() < deadline, "{tag} is not that of today"),
            _ => panic!("{} succeeded", done.len()),
        }
    };
    user.eventually(path, |now| now["mirror_info"]["interval"] == made["mirror_info"]["interval"]).await;
    assert_ne!(user.get(path).await.expect(200).header("etag"), tag);
    // It changes neither part of both.
    patch(&tag, json!({"mirror_interval": "99h", "description": "Other"})).await.refused(412);
    let after = user.get(path).await.expect(200).json();
    assert_eq!(
        (&after["mirror_info"]["interval"], &after["description"]),
        (&made["mirror_info"]["interval"], &made["description"])
    );
}

async fn a_repeated_change_leaves_a_later_interval(cluster: &Cluster) {
    let mirror = Mirror::new(cluster).await;
    mirror.follows().await;
    let (user, path) = (&mirror.user, mirror.path(""));
    let patch = async |key: &str, interval: &str| {
        let body = json!({"mirror_interval": interval});
        Response::of(user.request(Method::PATCH, &path).header("idempotency-key", key).json(&body)).await
    };
    for (key, interval) in [("first", "30h"), ("second", "40h")] {
        patch(key, interval).await.expect(200);
    }
    user.eventually(&path, |now| now["mirror_info"]["interval"] == "40h0m0s").await;
    patch("first", "30h").await.expect(200);
    patch("first", "50h").await.refused_field("Idempotency-Key");
    // Events of a store arrive in order, so the next change arrives after that of the repeat.
    user.patch(&path, &json!({"mirror_interval": "41h"})).await.expect(200);
    user.eventually(&path, |now| now["mirror_info"]["interval"] == "41h0m0s").await;
    patch("second", "40h").await.expect(200);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(user.get(&path).await.expect(200).json()["mirror_info"]["interval"], "41h0m0s");
}

async fn a_sync_that_fails_is_told_to_administrators(cluster: &Cluster) {
    let mirror = Mirror::new(cluster).await;
    let refs = mirror.refs(&mirror.user.git_url(&mirror.user.name, "mirror")).await;
    mirror.server.set(Behaviour::SignInPage);
    mirror.user.put_sync(&mirror.path("/mirror-sync")).await.empty(202);
    let is_told =
        |now: &Value| now["mirror_info"]["last_error"].as_str().is_some_and(|error| error.contains("protocol"));
    mirror.user.eventually(&mirror.path(""), is_told).await;
    assert_eq!(mirror.refs(&mirror.user.git_url(&mirror.user.name, "mirror")).await, refs, "nothing is pruned");
    mirror.server.set(Behaviour::Serve);
    mirror.sync().await;
    mirror.user.eventually(&mirror.path(""), |now| now["mirror_info"]["last_error"] == "").await;
}

async fn a_sync_that_is_interrupted_is_made_again(cluster: &Cluster) {
    let mirror = Mirror::new(cluster).await;
    let mut told = mirror.events(0).await.len();
    for role in [Role::Git, Role::Repo] {
        mirror.git.commit("work", role.name(), "x\n").await;
        mirror.git.run("work", &["push", "-q", "origin", "main"]).await;
        let packs = mirror.server.packs();
        mirror.server.set(Behaviour::HoldPacks);
        mirror.user.put_sync(&mirror.path("/mirror-sync")).await.empty(202);
        mirror.server.pack_requested(packs).await;
        cluster.crash(role);
        mirror.server.set(Behaviour::Serve);
        mirror.follows().await;
        told += 1;
        let events = mirror.events(told).await;
        assert_eq!(events.len(), told, "one event per push: {events:?}");
    }
    mirror.git.run("", &["clone", "-q", "--mirror", &mirror.user.git_url(&mirror.user.name, "mirror"), "copy"]).await;
    mirror.git.run("copy", &["fsck", "--full"]).await;
}
