//! Every write with conditions in the OpenAPI document, with a wrong ETag in `If-Match`, and with
//! the current one or `*` in `If-None-Match`: it fails and changes nothing.

use std::collections::BTreeMap;

use reqwest::Method;
use reqwest::header::{IF_MATCH, IF_NONE_MATCH};
use serde_json::{Value, json};

use crate::harness::client::unique;
use crate::harness::keys::ed25519;
use crate::harness::{Cluster, Response, User};

on_profiles! {
    embedded {
        every_write_with_a_condition_that_is_not_true_is_412
    }
}

const DOCUMENT: &str = include_str!("../../docs/openapi.json");
const STALE: &str = "\"0123456789abcdef\"";
/// Bodies for the writes that need one, by method and path in the document. Each is valid except
/// for its tag.
const BODIES: [(&str, &str, &str); 16] = [
    ("patch", "/hooks/{id}", r#"{"config":{},"active":false}"#),
    ("patch", "/quota", r#"{"repositories":7}"#),
    ("patch", "/comments/{id}", r#"{"body":"Other"}"#),
    ("put", "/memberships/{username}", r#"{"role":"admin"}"#),
    ("patch", "/branches/{branch}", r#"{"name":"other"}"#),
    ("put", "/branch_protections/{pattern}", r#"{"allow_force":true}"#),
    ("put", "/contents/{file}", r#"{"message":"m","content":"eA=="}"#),
    ("delete", "/contents/{file}", r#"{"message":"m"}"#),
    ("put", "/issues/{index}/labels", r#"{"labels":[]}"#),
    ("delete", "/reactions", r#"{"content":"eyes"}"#),
    ("put", "/topics", r#"{"topics":["git"]}"#),
    ("patch", "/milestones/{id}", r#"{"title":"v2"}"#),
    ("patch", "/wiki/page/{name}", r#"{"title":"Other"}"#),
    ("delete", "/user/emails", r#"{"emails":["nobody@example.org"]}"#),
    ("patch", "/user/emails", r#"{"email":"nobody@example.org"}"#),
    ("patch", "/user/settings", r#"{"location":"There"}"#),
];

/// One resource of each kind, by its path in the document: who may change it, and its actual path.
struct World(BTreeMap<&'static str, (User, String)>);

impl World {
    async fn of(cluster: &Cluster) -> Self {
        let (ada, bob, admin) = (cluster.user("ada").await, cluster.user("bob").await, cluster.admin().await);
        let repo = ada.new_tracker("walked", json!({"auto_init": true})).await;
        let (label, milestone) = (ada.new_label(&repo, "bug").await, ada.new_milestone(&repo, "v1").await);
        ada.new_issue(&repo, "Title", json!({})).await;
        let comment = ada.new_comment(&repo, 1, "Text").await;
        let organization = ada.new_organization("acme").await;
        let membership = format!("/orgs/{organization}/memberships/{}", bob.name);
        ada.put(&membership, &json!({})).await.empty(204);
        let team = ada.new_team(&organization, "crew", "read").await;
        ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.empty(204);
        ada.new_repository_of(&organization, "held", false).await;
        ada.put_nothing(&format!("{team}/repos/held")).await.empty(204);
        let post = async |user: &User, path: &str, body: Value| {
            let made = user.post(path, &body).await.expect(201).json();
            format!("{path}/{}", made["id"])
        };
        let hook = json!({"type": "gogs", "config": {"url": "https://example.com/", "content_type": "json"}});
        let of_repo = post(&ada, &format!("{repo}/hooks"), hook.clone()).await;
        let of_organization = post(&ada, &format!("/orgs/{organization}/hooks"), hook.clone()).await;
        let shared = json!({"name": "shared", "color": "#e11d21"});
        let label_of_organization = post(&ada, &format!("/orgs/{organization}/labels"), shared).await;
        let of_site = post(&admin, "/admin/hooks", hook).await;
        let key = || json!({"title": unique("key"), "key": ed25519(&unique("k"))});
        let deploy_key = post(&ada, &format!("{repo}/keys"), key()).await;
        let public_key = post(&ada, "/user/keys", key()).await;
        let release = post(&ada, &format!("{repo}/releases"), json!({"tag_name": "v1"})).await;
        let upload = ada.request(Method::POST, &format!("{release}/assets?name=a.txt"));
        let upload = upload.header("content-type", "application/octet-stream").body("content");
        let asset = Response::of(upload).await.expect(201).json();
        ada.post(&format!("{repo}/branch_protections"), &json!({"pattern": "main"})).await.expect(201);
        ada.post(&format!("{repo}/branches"), &json!({"new_branch_name": "topic"})).await.expect(201);
        ada.post(&format!("{repo}/tags"), &json!({"tag_name": "v2"})).await.expect(201);
        let new = json!({"branch": "main", "new_branch": "work", "message": "m", "content": "eA=="});
        ada.put(&format!("{repo}/contents/work"), &new).await.expect(201);
        let pull = json!({"title": "Work", "head": "work", "base": "main"});
        let pull = ada.post(&format!("{repo}/pulls"), &pull).await.expect(201).json();
        let reviews = format!("{repo}/pulls/{}/reviews", pull["number"]);
        let review = json!({"event": "COMMENT", "comments": [{"path": "work", "body": "Line", "new_position": 1}]});
        let review = ada.post(&reviews, &review).await.expect(200).json();
        let review_comment = ada.get(&format!("{reviews}/{}/comments", review["id"])).await.expect(200).ids("id")[0];
        ada.post(&format!("{repo}/wiki/new"), &json!({"title": "Home"})).await.expect(201);
        let transfer = format!("{repo}/transfer");
        ada.post(&transfer, &json!({"new_owner": bob.name})).await.expect(202);
        let of_ada = [
            ("/repos/{owner}/{repo}", repo.clone()),
            ("/repos/{owner}/{repo}/branches/{branch}", format!("{repo}/branches/topic")),
            ("/repos/{owner}/{repo}/tags/{tag}", format!("{repo}/tags/v2")),
            ("/repos/{owner}/{repo}/branch_protections/{pattern}", format!("{repo}/branch_protections/main")),
            ("/repos/{owner}/{repo}/contents/{file}", format!("{repo}/contents/README.md")),
            ("/repos/{owner}/{repo}/hooks/{id}", of_repo),
            ("/repos/{owner}/{repo}/issues/comments/{id}", format!("{repo}/issues/comments/{comment}")),
            (
                "/repos/{owner}/{repo}/issues/comments/{id}/reactions",
                format!("{repo}/issues/comments/{comment}/reactions"),
            ),
            ("/repos/{owner}/{repo}/issues/{index}", format!("{repo}/issues/1")),
            ("/repos/{owner}/{repo}/issues/{index}/comments/{id}", format!("{repo}/issues/1/comments/{comment}")),
            ("/repos/{owner}/{repo}/issues/{index}/labels", format!("{repo}/issues/1/labels")),
            ("/repos/{owner}/{repo}/issues/{index}/reactions", format!("{repo}/issues/1/reactions")),
            ("/repos/{owner}/{repo}/keys/{id}", deploy_key),
            ("/repos/{owner}/{repo}/labels/{id}", format!("{repo}/labels/{label}")),
            ("/repos/{owner}/{repo}/milestones/{id}", format!("{repo}/milestones/{milestone}")),
            ("/repos/{owner}/{repo}/pulls/{index}", format!("{repo}/pulls/{}", pull["number"])),
            ("/repos/{owner}/{repo}/pulls/{index}/reviews/{id}", format!("{reviews}/{}", review["id"])),
            ("/repos/{owner}/{repo}/pulls/comments/{id}", format!("{repo}/pulls/comments/{review_comment}")),
            ("/repos/{owner}/{repo}/releases/{id}", release.clone()),
            ("/repos/{owner}/{repo}/releases/{id}/assets/{asset}", format!("{release}/assets/{}", asset["id"])),
            ("/repos/{owner}/{repo}/releases/tags/{tag}", format!("{repo}/releases/tags/v1")),
            ("/repos/{owner}/{repo}/subscription", format!("{repo}/subscription")),
            ("/repos/{owner}/{repo}/topics", format!("{repo}/topics")),
            ("/repos/{owner}/{repo}/transfer", transfer),
            ("/repos/{owner}/{repo}/wiki/page/{name}", format!("{repo}/wiki/page/Home")),
            ("/orgs/{org}", format!("/orgs/{organization}")),
            ("/orgs/{org}/hooks/{id}", of_organization),
            ("/orgs/{org}/labels/{id}", label_of_organization),
            ("/orgs/{org}/memberships/{username}", membership),
            ("/teams/{id}/members/{username}", format!("{team}/members/{}", bob.name)),
            ("/teams/{id}/repos/{org}/{repo}", format!("{team}/repos/{organization}/held")),
            ("/repos/{owner}/{repo}/teams/{team}", format!("/repos/{organization}/held/teams/crew")),
            ("/teams/{id}", team),
            ("/user/emails", "/user/emails".to_owned()),
            ("/user/keys/{id}", public_key),
            ("/user/settings", "/user/settings".to_owned()),
        ];
        let quota = format!("/admin/users/{}/quota", bob.name);
        let of_admin = [("/admin/hooks/{id}", of_site), ("/admin/users/{username}/quota", quota)];
        let of = |user: &User, path: String| (user.clone(), path);
        let of_ada = of_ada.map(|(template, path)| (template, of(&ada, path)));
        let of_admin = of_admin.map(|(template, path)| (template, of(&admin, path)));
        Self(of_ada.into_iter().chain(of_admin).collect())
    }
}

/// Methods and paths of the writes with conditions, without the common prefix.
fn writes() -> Vec<(String, String)> {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let mut writes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().unwrap();
            let takes = |name: &str| {
                let reference = format!("#/components/parameters/{name}");
                parameters.iter().any(|one| one["$ref"] == reference.as_str())
            };
            assert_eq!(takes("If-Match"), takes("If-None-Match-Write"), "{method} {path}");
            if takes("If-Match") {
                writes.push((method.clone(), path.strip_prefix("/api/v1").unwrap().to_owned()));
            }
        }
    }
    writes
}

/// The current ETag, once pending events have arrived.
async fn settled_tag(user: &User, path: &str) -> String {
    let mut tag = String::new();
    for _ in 0..50 {
        let shown = user.get(path).await.expect(200).header("etag");
        if shown == tag {
            return tag;
        }
        tag = shown;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    panic!("{path} does not settle");
}

async fn every_write_with_a_condition_that_is_not_true_is_412(cluster: &Cluster) {
    let World(world) = World::of(cluster).await;
    let writes = writes();
    assert!(writes.len() > 30, "{}", writes.len());
    for (method, template) in writes {
        // The root is not a file.
        if template.ends_with("/contents") {
            continue;
        }
        let (user, path) = world.get(template.as_str()).unwrap_or_else(|| panic!("add {template} to the world"));
        let body = BODIES.iter().find(|row| row.0 == method && template.ends_with(row.1));
        let body = body.map_or("{}", |row| row.2);
        let today = settled_tag(user, path).await;
        let weak = format!("W/{today}");
        let conditions =
            [(IF_MATCH, STALE), (IF_NONE_MATCH, today.as_str()), (IF_NONE_MATCH, weak.as_str()), (IF_NONE_MATCH, "*")];
        for (name, value) in conditions {
            let request = user.request(method.to_uppercase().parse().unwrap(), path).header(name.clone(), value);
            let request = request.header("content-type", "application/json").body(body);
            let refused = Response::of(request).await;
            assert_eq!(refused.status, 412, "{method} {path} {name}: {value}: {}", refused.text());
            let refused = refused.refused(412);
            // The body may name another branch than a GET of the path reads.
            let expected = if template.contains("/contents/") { "" } else { today.as_str() };
            assert_eq!(refused.header("etag"), expected, "{method} {path} {name}");
            assert_eq!(refused.header("cache-control"), "no-store");
            assert_eq!(user.get(path).await.expect(200).header("etag"), today, "{method} {path} {name}");
        }
    }
}
