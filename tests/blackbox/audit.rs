use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::accounts::{after, before};
use crate::harness::keys::ed25519;
use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        get_admin_audit_lists_changes_of_branch_protections
        get_admin_audit_filters_by_actor_target_action_and_time
    }
    production {
        get_admin_audit_lists_every_change_with_its_actor_target_and_address
        get_admin_audit_lists_changes_by_administrators
        get_admin_audit_never_contains_a_secret
        get_admin_audit_has_pages_of_at_most_a_hundred
        get_admin_audit_names_the_time_that_is_wrong
        get_admin_audit_is_for_administrators
        requests_without_effect_are_not_recorded
    }
}

async fn audit(admin: &User, query: &str) -> Vec<Value> {
    admin.get(&format!("/admin/audit?limit=100&{query}")).await.expect(200).json().as_array().unwrap().clone()
}

/// Action and target name of each event, oldest first.
fn actions_and_targets(events: &[Value]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    events.iter().rev().map(|event| (text(&event["action"]), text(&event["target"]["name"]))).collect()
}

async fn get_admin_audit_lists_every_change_with_its_actor_target_and_address(cluster: &Cluster) {
    let (admin, ada, bob) = (cluster.admin().await, cluster.user("ada").await, cluster.user("bob").await);
    let name = ada.new_organization("acme").await;
    ada.patch(&format!("/orgs/{name}"), &json!({"full_name": "Acme"})).await.expect(200);
    let team = ada.new_team(&name, "crew", "read").await;
    ada.patch(&team, &json!({"permission": "write"})).await.expect(200);
    ada.new_repository_of(&name, "tools", true).await;
    ada.put_nothing(&format!("{team}/repos/tools")).await.empty(204);
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.empty(204);
    ada.delete(&format!("{team}/members/{}", bob.name)).await.empty(204);
    ada.delete(&format!("{team}/repos/tools")).await.empty(204);
    ada.delete(&team).await.empty(204);
    ada.put(&format!("/orgs/{name}/memberships/{}", bob.name), &json!({"role": "admin"})).await.empty(204);
    ada.delete(&format!("/orgs/{name}/members/{}", bob.name)).await.empty(204);
    let repo = format!("/repos/{name}/tools");
    ada.put(&format!("{repo}/collaborators/{}", bob.name), &json!({"permission": "read"})).await.empty(204);
    ada.delete(&format!("{repo}/collaborators/{}", bob.name)).await.empty(204);
    let key = ada.post(&format!("{repo}/keys"), &json!({"title": "ci", "key": ed25519("x")})).await.expect(201).json();
    ada.delete(&format!("{repo}/keys/{}", key["id"])).await.empty(204);
    ada.delete(&repo).await.empty(204);
    ada.delete(&format!("/orgs/{name}")).await.empty(204);
    let other = format!("other-{}", ada.email);
    ada.post("/user/emails", &json!([other])).await.expect(201);
    Response::of(ada.request(Method::DELETE, "/user/emails").json(&json!([other]))).await.empty(204);
    let key = ada.post("/user/keys", &json!({"title": "mine", "key": ed25519("x")})).await.expect(201).json();
    ada.delete(&format!("/user/keys/{}", key["id"])).await.empty(204);
    Response::of(ada.tokens(Method::DELETE, "/tests")).await.empty(204);
    let events = audit(&admin, &format!("actor={}", ada.name.to_uppercase())).await;
    let (crew, tools) = (format!("{name}/crew"), format!("{name}/tools"));
    let expected = [
        ("token.create", &ada.name),
        ("organization.create", &name),
        ("organization.update", &name),
        ("team.create", &crew),
        ("team.update", &crew),
        ("repository.create", &tools),
        ("team_repository.add", &crew),
        ("member.set", &name),
        ("team_member.add", &crew),
        ("team_member.remove", &crew),
        ("team_repository.remove", &crew),
        ("team.delete", &crew),
        ("member.set", &name),
        ("member.remove", &name),
        ("collaborator.set", &tools),
        ("collaborator.remove", &tools),
        ("deploy_key.add", &tools),
        ("deploy_key.remove", &tools),
        ("repository.delete", &tools),
        ("organization.delete", &name),
        ("email.add", &ada.name),
        ("email.remove", &ada.name),
        ("key.add", &ada.name),
        ("key.remove", &ada.name),
        ("token.delete", &ada.name),
    ];
    let expected: Vec<_> = expected.into_iter().map(|(action, name)| (action.to_owned(), name.clone())).collect();
    assert_eq!(actions_and_targets(&events), expected);
    every_field_is_there(&events, &ada);
}

#[track_caller]
fn every_field_is_there(events: &[Value], actor: &User) {
    for event in events {
        let fields: Vec<_> = event.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = ["action", "actor", "address", "details", "id", "request_id", "target", "time", "token_id"];
        assert_eq!(fields, expected, "{event}");
        assert_eq!(event["actor"], json!({"id": actor.id, "username": actor.name}));
        assert_eq!(event["address"], "127.0.0.1", "{event}");
        assert!(!event["request_id"].as_str().unwrap().is_empty(), "{event}");
        assert!(event["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{event}");
        assert!(event["target"]["id"].as_i64().is_some_and(|id| id > 0), "{event}");
        let by_password = event["action"].as_str().unwrap().starts_with("token.");
        assert_eq!(event["token_id"] == 0, by_password, "{event}");
        let kind = event["target"]["kind"].as_str().unwrap();
        let expected = match event["action"].as_str().unwrap().split('.').next().unwrap() {
            "token" | "email" | "key" | "user" => "user",
            "organization" | "member" => "organization",
            "team" | "team_member" | "team_repository" => "team",
            _ => "repository",
        };
        assert_eq!(kind, expected, "{event}");
    }
    let ids: Vec<_> = events.iter().map(|event| event["id"].as_i64().unwrap()).collect();
    assert!(ids.is_sorted_by(|one, other| one > other), "newest first: {ids:?}");
    let set = events.iter().find(|event| event["action"] == "collaborator.set").unwrap();
    assert!(set["details"].as_object().unwrap().values().any(|value| value == "read"), "{set}");
}

async fn get_admin_audit_lists_changes_by_administrators(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let path = format!("/admin/users/{}", ada.name);
    admin.patch(&path, &json!({"full_name": "Other", "password": "another password"})).await.expect(200);
    admin.post(&format!("{path}/keys"), &json!({"title": "given", "key": ed25519("x")})).await.expect(201);
    admin.delete(&path).await.empty(204);
    let events = audit(&admin, &format!("target={}", ada.name)).await;
    let actions: Vec<_> = actions_and_targets(&events).into_iter().map(|(action, _)| action).collect();
    assert_eq!(actions, ["user.create", "token.create", "user.update", "key.add", "user.delete"]);
    for event in events.iter().filter(|event| event["action"] != "token.create") {
        assert_eq!(event["actor"]["username"], crate::harness::cluster::ADMIN.0, "{event}");
        assert_eq!(event["target"], json!({"kind": "user", "id": ada.id, "name": ada.name}));
    }
    let update = events.iter().find(|event| event["action"] == "user.update").unwrap().to_string();
    assert!(update.contains("full_name") && update.contains("password"), "{update}");
    assert!(!update.contains("another"), "{update}");
}

async fn get_admin_audit_lists_changes_of_branch_protections(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    ada.new_repository("ruled", json!({"auto_init": true})).await;
    let rules = ada.repo("ruled", "/branch_protections");
    ada.post(&rules, &json!({"pattern": "main", "push_users": [ada.name]})).await.expect(201);
    ada.put(&format!("{rules}/main"), &json!({"allow_force": true})).await.expect(200);
    ada.delete(&format!("{rules}/main")).await.empty(204);
    ada.delete(&format!("{rules}/main")).await.refused(404);
    let target = format!("{}/ruled", ada.name);
    // git-svc sends an event to repo-svc, which writes the log.
    let mut events = Vec::new();
    for _ in 0..200 {
        events = audit(&admin, &format!("target={target}&action=protection")).await;
        if events.len() == 3 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    let expected = ["protection.set", "protection.set", "protection.remove"];
    assert_eq!(actions_and_targets(&events), expected.map(|action| (action.to_owned(), target.clone())));
    for event in &events {
        assert_eq!(event["actor"], json!({"id": ada.id, "username": ada.name}));
        assert!(event["address"] == "127.0.0.1" && event["details"]["pattern"] == "main", "{event}");
        assert!(
            !event["request_id"].as_str().unwrap().is_empty() && event["target"]["kind"] == "repository",
            "{event}"
        );
    }
    assert_eq!(events[2]["details"]["push_user_ids"], ada.id.to_string());
    assert_eq!(events[1]["details"]["allow_force"], "true");
    assert!(events[0]["details"].get("allow_force").is_none());
}

async fn get_admin_audit_never_contains_a_secret(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let value = ada.new_token("secret one").await;
    let digest = ada.token_list().await.json()[0]["sha1"].as_str().unwrap().to_owned();
    let events = Value::Array(audit(&admin, &format!("actor={}", ada.name)).await).to_string();
    assert!(events.contains("secret one"), "{events}");
    for secret in [value.as_str(), digest.as_str(), ada.password.as_str()] {
        assert!(!events.contains(secret), "{events}");
    }
}

async fn get_admin_audit_filters_by_actor_target_action_and_time(cluster: &Cluster) {
    let (admin, ada, bob) = (cluster.admin().await, cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("audited", json!({})).await;
    let one = ada.repo("audited", &format!("/collaborators/{}", bob.name));
    ada.put_nothing(&one).await.empty(204);
    ada.delete(&one).await.empty(204);
    let name = &ada.name;
    let upper = name.to_uppercase();
    let (past, future) = (before(Duration::from_secs(3600)), after(Duration::from_secs(3600)));
    let shifted = past.replace('Z', "+00:00");
    for (query, count) in [
        (format!("actor={name}"), 4),
        (format!("actor={name}&action=collaborator"), 2),
        (format!("actor={name}&action=collaborator.set"), 1),
        (format!("actor={name}&action=collab"), 0),
        (format!("actor={name}&action=collaborator."), 0),
        (format!("actor={name}&action=%25"), 0),
        (format!("target={upper}/AUDITED"), 3),
        (format!("target={name}/audited&action=repository"), 1),
        (format!("target={name}/audited&actor={}", bob.name), 0),
        (format!("target={name}/other"), 0),
        (format!("actor={name}&since={past}&until={future}"), 4),
        (format!("actor={name}&since={shifted}"), 4),
        (format!("actor={name}&since={future}"), 0),
        (format!("actor={name}&until={past}"), 0),
        (format!("actor={name}&since=&until=&action=&target="), 4),
        ("actor=no-such-user".to_owned(), 0),
        ("actor=%00".to_owned(), 0),
    ] {
        let found = audit(&admin, &query).await;
        assert_eq!(found.len(), count, "{query}: {found:?}");
    }
}

async fn get_admin_audit_has_pages_of_at_most_a_hundred(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    for name in ["one", "two"] {
        ada.new_repository(name, json!({})).await;
    }
    let path = format!("/admin/audit?actor={}&limit=1", ada.name);
    let first = admin.get(&path).await.expect(200);
    assert_eq!(first.json()[0]["target"]["name"], format!("{}/two", ada.name));
    let link = |number: u8, relation: &str| format!("<{}/api/v1{path}&page={number}>; rel=\"{relation}\"", cluster.url);
    assert_eq!(first.header("link"), format!("{},{}", link(2, "next"), link(3, "last")));
    let last = admin.get(&format!("{path}&page=3")).await.expect(200);
    assert_eq!(last.json()[0]["action"], "token.create");
    assert_eq!(admin.get(&format!("{path}&page=4")).await.expect(200).json(), json!([]));
    let many = admin.get("/admin/audit?limit=1000").await.expect(200).json();
    assert!(many.as_array().unwrap().len() <= 100);
    let usual = admin.get("/admin/audit").await.expect(200).json();
    assert!(usual.as_array().unwrap().len() <= 50);
}

async fn get_admin_audit_names_the_time_that_is_wrong(cluster: &Cluster) {
    let (admin, outsider) = (cluster.admin().await, cluster.outsider().await);
    for wrong in ["yesterday", "2026-01-02", "2026-13-01T00:00:00Z", "1767315845", "2026-01-02T00:00:00"] {
        for field in ["since", "until"] {
            admin.get(&format!("/admin/audit?{field}={wrong}")).await.refused_field(field);
            outsider.get(&format!("/admin/audit?{field}={wrong}")).await.refused(403);
            cluster.anonymous().get(&format!("/admin/audit?{field}={wrong}")).await.refused(401);
        }
    }
    admin.get("/admin/audit?since=x&until=y").await.refused_fields(&[("since", "invalid"), ("until", "invalid")]);
}

async fn get_admin_audit_is_for_administrators(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    ada.get(&format!("/admin/audit?actor={}", ada.name)).await.refused(403);
    cluster.anonymous().get("/admin/audit").await.refused(401);
    admin.with_scopes(&["user", "org"]).await.get("/admin/audit").await.refused_with_message(403, "`admin`");
    admin.with_scopes(&["admin"]).await.get("/admin/audit").await.expect(200);
}

async fn requests_without_effect_are_not_recorded(cluster: &Cluster) {
    let (admin, ada, bob) = (cluster.admin().await, cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("quiet", json!({})).await;
    let count = async || audit(&admin, &format!("actor={}", ada.name)).await.len();
    let before = count().await;
    ada.put(&ada.repo("quiet", "/collaborators/no-such-user"), &json!({})).await.refused(422);
    ada.delete(&ada.repo("quiet", &format!("/collaborators/{}", bob.name))).await.refused(404);
    ada.post("/user/keys", &json!({"title": "bad", "key": "bad"})).await.refused(422);
    ada.post("/user/orgs", &json!({"username": bob.name})).await.refused(422);
    ada.post("/user/repos", &json!({"name": "quiet"})).await.refused(422);
    ada.post("/admin/users", &json!({"username": "x"})).await.refused(403);
    ada.make_token(&json!({"name": "tests"})).await.refused(422);
    Response::of(ada.request(Method::DELETE, "/user/emails").json(&json!(["x@example.net"]))).await.empty(204);
    assert_eq!(count().await, before);
}
