//! Branches created, renamed and deleted through the API.

use reqwest::Method;
use reqwest::header::IF_MATCH;
use serde_json::{Value, json};

use crate::conditional_contents::{send, tag};
use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    both {
        a_branch_is_created_renamed_and_deleted
        a_renamed_default_branch_stays_the_default_with_its_rule
        a_former_name_of_a_branch_redirects_to_its_present_one
    }
    embedded {
        branches_that_cannot_be_changed_are_refused
        a_branch_that_moved_is_not_deleted
    }
}

async fn repository(user: &User, name: &str) -> String {
    user.new_repository(name, json!({"auto_init": true})).await;
    user.repo(name, "")
}

async fn names(user: &User, repo: &str) -> Vec<String> {
    let branches = user.get(&format!("{repo}/branches")).await.expect(200).json();
    branches.as_array().unwrap().iter().map(|branch| branch["name"].as_str().unwrap().to_owned()).collect()
}

/// Commits a file to a branch.
async fn commit(user: &User, repo: &str, branch: &str, file: &str) -> Value {
    let body = json!({"message": "m", "content": "eA==", "branch": branch});
    user.put(&format!("{repo}/contents/{file}"), &body).await.expect(201).json()["commit"]["sha"].clone()
}

async fn a_branch_is_created_renamed_and_deleted(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = repository(&ada, "branched").await;
    let branches = format!("{repo}/branches");
    let main = ada.get(&format!("{branches}/main")).await.expect(200).json();
    let made = ada.post(&branches, &json!({"new_branch_name": "feature/one"})).await.expect(201).json();
    assert_eq!((&made["name"], &made["commit"]), (&json!("feature/one"), &main["commit"]));
    let tip = commit(&ada, &repo, "feature/one", "a").await;
    let from = |field: &str, value: &Value| json!({"new_branch_name": "second", field: value});
    for (field, value, expected) in [
        ("old_branch_name", &json!("feature/one"), &tip),
        ("old_ref_name", &json!("feature/one"), &tip),
        ("old_ref_name", &tip, &tip),
        ("old_ref_name", &json!(""), &main["commit"]["id"]),
    ] {
        let made = ada.post(&branches, &from(field, value)).await.expect(201).json();
        assert_eq!(made["commit"]["id"], *expected, "{field} {value}");
        ada.delete(&format!("{branches}/second")).await.empty(204);
    }
    for (old, new) in [("feature/one", "feature/two"), ("feature%2Ftwo", "three")] {
        ada.patch(&format!("{branches}/{old}"), &json!({"name": new})).await.empty(204);
    }
    assert_eq!(names(&ada, &repo).await, ["main", "three"]);
    assert_eq!(ada.get(&format!("{branches}/three")).await.expect(200).json()["commit"]["id"], tip);
    ada.delete(&format!("{branches}/three")).await.empty(204);
    ada.get(&format!("{branches}/feature/two")).await.refused(404);
    assert_eq!(names(&ada, &repo).await, ["main"]);
}

async fn a_former_name_of_a_branch_redirects_to_its_present_one(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = repository(&ada, "renaming").await;
    let branches = format!("{repo}/branches");
    let rename = async |old: &str, new: &str| {
        ada.patch(&format!("{branches}/{old}"), &json!({"name": new})).await.empty(204);
    };
    let follow = async |old: &str| {
        let moved = ada.get(&format!("{branches}/{old}")).await.expect(301);
        assert_eq!(moved.json()["reason"], "BRANCH_RENAMED");
        let location = moved.header("location");
        let path = location.strip_prefix(&format!("{}/api/v1", ada.url)).unwrap_or_else(|| panic!("{location}"));
        ada.get(path).await.expect(200).json()["name"].clone()
    };
    rename("main", "trunk/one").await;
    assert_eq!(follow("main").await, "trunk/one");
    rename("trunk/one", "stem").await;
    assert_eq!((follow("main").await, follow("trunk%2Fone").await), (json!("stem"), json!("stem")));
    ada.delete(&format!("{branches}/main")).await.refused(404);
    ada.get(&format!("{repo}/commits/main")).await.refused(404);
    ada.post(&branches, &json!({"new_branch_name": "main"})).await.expect(201);
    let tip = commit(&ada, &repo, "main", "a").await;
    let shown = ada.get(&format!("{branches}/main")).await.expect(200).json();
    assert_eq!((&shown["name"], &shown["commit"]["id"]), (&json!("main"), &tip));
    let admin = cluster.admin().await;
    let log = format!("/admin/audit?target={}/renaming&action=repository.update", ada.name);
    let entries = admin.eventually(&log, |entries| entries.as_array().is_some_and(|list| list.len() == 2)).await;
    let details = |from: &str, to: &str| json!({"fields": "default_branch", "from": from, "to": to});
    assert_eq!(entries[0]["details"], details("trunk/one", "stem"));
    assert_eq!(entries[1]["details"], details("main", "trunk/one"));
    assert_eq!(entries[1]["actor"]["username"], ada.name);
}

async fn a_renamed_default_branch_stays_the_default_with_its_rule(cluster: &Cluster) {
    let (ada, bob, git) = (cluster.user("ada").await, cluster.user("bob").await, Git::new());
    let repo = repository(&ada, "trunk").await;
    ada.share(&repo, &bob, "write").await;
    ada.put(&format!("{repo}/branch_protections/main"), &json!({"push_users": [ada.name]})).await.expect(201);
    let (old, new) = (format!("{repo}/branches/main"), json!({"name": "trunk/one"}));
    bob.patch(&old, &new).await.refused(403);
    ada.patch(&old, &new).await.empty(204);
    assert_eq!(names(&ada, &repo).await, ["trunk/one"]);
    assert_eq!(ada.get(&repo).await.expect(200).json()["default_branch"], "trunk/one");
    assert_eq!(ada.get(&format!("{repo}/branches/trunk/one")).await.expect(200).json()["protected"], true);
    let rules = ada.get(&format!("{repo}/branch_protections")).await.expect(200).json();
    assert_eq!((&rules[0]["pattern"], &rules[0]["push_users"]), (&json!("trunk/one"), &json!([ada.name])));
    assert_eq!(rules.as_array().unwrap().len(), 1);
    git.run("", &["clone", "-q", &bob.git_url(&ada.name, "trunk"), "work"]).await;
    assert_eq!(git.run("work", &["branch", "--show-current"]).await, "trunk/one");
    git.commit("work", "x", "x").await;
    let refused = git.fails("work", &["push", "origin", "trunk/one"]).await;
    assert!(refused.contains("protected branch"), "{refused}");
}

async fn branches_that_cannot_be_changed_are_refused(cluster: &Cluster) {
    let (ada, bob, eve) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("eve").await);
    let repo = repository(&ada, "firm").await;
    ada.share(&repo, &bob, "write").await;
    ada.share(&repo, &eve, "read").await;
    let (branches, new) = (format!("{repo}/branches"), json!({"new_branch_name": "topic"}));
    let topic = format!("{branches}/topic");
    ada.post(&branches, &new).await.expect(201);
    ada.post(&branches, &new).await.refused(409);
    ada.patch(&topic, &json!({"name": "main"})).await.refused_field("name");
    ada.patch(&topic, &json!({"name": "topic/below"})).await.refused_field("name");
    for (body, field) in [
        (json!({}), "new_branch_name"),
        (json!({"new_branch_name": "a..b"}), "new_branch_name"),
        (json!({"new_branch_name": "topic/below"}), "new_branch_name"),
        (json!({"new_branch_name": "x", "old_ref_name": 7}), "old_ref_name"),
    ] {
        ada.post(&branches, &body).await.refused_field(field);
    }
    for (field, value) in [("old_ref_name", "none"), ("old_branch_name", "none"), ("old_ref_name", "-x")] {
        ada.post(&branches, &json!({"new_branch_name": "x", field: value})).await.refused(404);
    }
    for name in ["none", "-x", "%ff"] {
        ada.delete(&format!("{branches}/{name}")).await.refused(404);
        ada.patch(&format!("{branches}/{name}"), &json!({"name": "x"})).await.refused(404);
    }
    ada.delete(&format!("{branches}/main")).await.refused(403);
    eve.post(&branches, &json!({"new_branch_name": "x"})).await.refused(403);
    eve.delete(&topic).await.refused(403);
    ada.put(&format!("{repo}/branch_protections/held/*"), &json!({"push_users": [ada.name]})).await.expect(201);
    ada.put(&format!("{repo}/branch_protections/topic"), &json!({})).await.expect(201);
    bob.post(&branches, &json!({"new_branch_name": "held/one"})).await.refused(403);
    bob.patch(&topic, &json!({"name": "x"})).await.refused(403);
    bob.delete(&topic).await.refused(403);
    assert_eq!(names(&ada, &repo).await, ["main", "topic"]);
    ada.patch(&repo, &json!({"archived": true})).await.expect(200);
    ada.post(&branches, &json!({"new_branch_name": "x"})).await.refused(403);
    ada.delete(&topic).await.refused(403);
}

async fn a_branch_that_moved_is_not_deleted(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = repository(&ada, "moving").await;
    ada.post(&format!("{repo}/branches"), &json!({"new_branch_name": "topic"})).await.expect(201);
    let topic = format!("{repo}/branches/topic");
    let stale = tag(&ada, &topic).await;
    commit(&ada, &repo, "topic", "a").await;
    let current = tag(&ada, &topic).await;
    let delete =
        async |if_match: &str| Response::of(ada.request(Method::DELETE, &topic).header(IF_MATCH, if_match)).await;
    assert_eq!(delete(&stale).await.refused(412).header("etag"), current);
    send(&ada, Method::PATCH, &topic, (IF_MATCH, &stale), &json!({"name": "x"})).await.refused(412);
    delete(&current).await.empty(204);
    delete(&current).await.refused(404);
}
