use std::time::Duration;

use serde_json::json;

use crate::harness::{Cluster, Git, Role};

on_profiles! {
    both {
        a_push_is_recorded_once_and_delivered
        a_deletion_reaches_every_service
    }
}

/// Polls before a test gives up, at intervals of 50 ms.
const MAX_POLLS: u32 = 200;
const TRACKER_TABLES: [&str; 5] = ["issues", "comments", "labels", "milestones", "mentions"];

async fn wait_for(cluster: &Cluster, role: Role, query: String, wanted: i64) {
    let query: &'static str = query.leak();
    let mut found = 0;
    for _ in 0..MAX_POLLS {
        found = cluster.number(role, query).await;
        if found == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{role:?}: {query}: {found}, not {wanted}");
}

async fn a_push_is_recorded_once_and_delivered(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    let id = ada.new_repository("recorded", json!({})).await["id"].as_i64().unwrap();
    git.small("work").await;
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, "recorded"), "main", "main:side", "main:refs/tags/t"])
        .await;
    let naming_an_issue = json!({"message": "see #1", "content": ""});
    ada.put(&ada.repo("recorded", "/contents/x"), &naming_an_issue).await.expect(201);
    let events = format!("FROM outbox WHERE repository_id = {id} AND kind = 'refs.updated'");
    // Both move branches, which repo-svc, hook-svc and issue-svc learn of.
    wait_for(cluster, Role::Git, format!("SELECT COUNT(*) {events} AND delivered_us IS NOT NULL"), 6).await;
    wait_for(cluster, Role::Git, format!("SELECT COUNT(*) {events}"), 6).await;
    wait_for(cluster, Role::Git, format!("SELECT COUNT(DISTINCT event_id) {events}"), 2).await;
    let journal = format!("FROM ref_journal WHERE repository_id = {id} AND state");
    wait_for(cluster, Role::Git, format!("SELECT COUNT(*) {journal} = 'confirmed'"), 4).await;
    wait_for(cluster, Role::Git, format!("SELECT COUNT(*) {journal} <> 'confirmed'"), 0).await;
    let delivered = format!("SELECT COUNT(*) FROM inbox WHERE repository_id = {id} AND kind = 'refs.updated'");
    wait_for(cluster, Role::Repo, delivered.clone(), 2).await;
    wait_for(cluster, Role::Issue, delivered.clone(), 2).await;
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, "recorded"), "main:other"]).await;
    wait_for(cluster, Role::Repo, delivered.clone(), 3).await;
    wait_for(cluster, Role::Git, format!("SELECT COUNT(*) {events}"), 9).await;
    wait_for(cluster, Role::Hook, delivered.clone(), 3).await;
    ada.put(&ada.repo("recorded", "/contents/y"), &json!({"message": "m", "content": ""})).await.expect(201);
    wait_for(cluster, Role::Git, format!("SELECT COUNT(*) {events}"), 12).await;
    wait_for(cluster, Role::Hook, delivered.clone(), 4).await;
    wait_for(cluster, Role::Issue, delivered.clone(), 4).await;
    // Tags are nothing to issue-svc.
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, "recorded"), "main:refs/tags/u"]).await;
    wait_for(cluster, Role::Git, format!("SELECT COUNT(*) {events}"), 14).await;
    wait_for(cluster, Role::Hook, delivered.clone(), 5).await;
    wait_for(cluster, Role::Issue, delivered, 4).await;
}

async fn a_deletion_reaches_every_service(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let id = ada.new_repository("gone", json!({"auto_init": true})).await["id"].as_i64().unwrap();
    let repo = ada.repo("gone", "");
    ada.new_issue(&repo, "one", json!({"body": format!("@{}", ada.name)})).await;
    ada.new_comment(&repo, 1, "Text").await;
    ada.new_label(&repo, "bug").await;
    ada.new_milestone(&repo, "One").await;
    let hook = json!({"type": "gogs", "config": {"url": "https://example.com", "content_type": "json"}});
    ada.post(&ada.repo("gone", "/hooks"), &hook).await.expect(201);
    let rows = |table: &str| format!("SELECT COUNT(*) FROM {table} WHERE repository_id = {id}");
    for table in TRACKER_TABLES {
        wait_for(cluster, Role::Issue, rows(table), 1).await;
    }
    wait_for(cluster, Role::Hook, format!("SELECT COUNT(*) FROM hooks WHERE owner_kind = 2 AND owner_id = {id}"), 1)
        .await;
    ada.delete(&ada.repo("gone", "")).await.expect(204);
    for role in [Role::Issue, Role::Hook, Role::Git] {
        let query = format!("SELECT COUNT(*) FROM inbox WHERE repository_id = {id} AND kind = 'repository.deleted'");
        wait_for(cluster, role, query, 1).await;
    }
    for table in TRACKER_TABLES {
        wait_for(cluster, Role::Issue, rows(table), 0).await;
    }
    wait_for(cluster, Role::Hook, format!("SELECT COUNT(*) FROM hooks WHERE owner_kind = 2 AND owner_id = {id}"), 0)
        .await;
    let name = format!("{id}.git");
    let repos = cluster.store().join("repos");
    // The event is recorded before the folder is moved.
    let is_there = || folders_below(&repos).iter().any(|path| path.ends_with(&name));
    for _ in 0..MAX_POLLS {
        if !is_there() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{name} is still below {}", repos.display());
}

fn folders_below(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let below = |folder: &std::path::Path| -> Vec<_> {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let first = below(folder);
    let second: Vec<_> = first.iter().flat_map(|path| below(path)).collect();
    let third: Vec<_> = second.iter().flat_map(|path| below(path)).collect();
    [first, second, third].concat()
}
