//! The `Location` of a 201.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::client::unique;
use crate::harness::keys::ed25519;
use crate::harness::{Cluster, Response, User};

on_profiles! {
    embedded {
        what_was_created_in_a_repository_is_where_the_response_says
        accounts_keys_and_repositories_are_where_the_response_says
    }
}

async fn followed(user: &User, response: &Response) -> Value {
    let location = response.header("location");
    let path = location.strip_prefix(&format!("{}/api/v1", user.url)).unwrap_or_else(|| panic!("{location}"));
    user.get(path).await.expect(200).json()
}

/// Creates a resource and checks that `Location` leads to it: both have the same `field`.
async fn create(user: &User, path: &str, body: &Value, field: &str) -> Value {
    let response = user.post(path, body).await.expect(201);
    let (made, found) = (response.json(), followed(user, &response).await);
    assert!(!made[field].is_null() && made[field] == found[field], "{path}: {made} {found}");
    made
}

async fn what_was_created_in_a_repository_is_where_the_response_says(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    create(&ada, "/user/repos", &json!({"name": "demo", "auto_init": true}), "full_name").await;
    let demo = |rest: &str| ada.repo("demo", rest);
    create(&ada, &demo("/labels"), &json!({"name": "bug", "color": "#e11d21"}), "id").await;
    create(&ada, &demo("/milestones"), &json!({"title": "1.0"}), "id").await;
    create(&ada, &demo("/issues"), &json!({"title": "One"}), "number").await;
    create(&ada, &demo("/issues/1/comments"), &json!({"body": "Yes"}), "id").await;
    create(&ada, &demo("/keys"), &json!({"title": "ci", "key": ed25519("a")}), "id").await;
    let hook = json!({"type": "gogs", "config": {"url": "https://example.com", "content_type": "json"}});
    create(&ada, &demo("/hooks"), &hook, "id").await;
    create(&ada, &demo("/branch_protections"), &json!({"pattern": "release/*"}), "pattern").await;
    create(&ada, &demo("/branches"), &json!({"new_branch_name": "feature/one"}), "name").await;
    create(&ada, &demo("/tags"), &json!({"tag_name": "rc/1"}), "name").await;
    create(&ada, &demo("/wiki/new"), &json!({"title": "a-b c/d"}), "title").await;
    create(&bob, &demo("/forks"), &json!({}), "full_name").await;

    let release = create(&ada, &demo("/releases"), &json!({"tag_name": "v1"}), "id").await;
    let upload = ada.request(Method::POST, &demo(&format!("/releases/{}/assets?name=one", release["id"])));
    let upload = upload.header("content-type", "application/octet-stream").body("text");
    let upload = Response::of(upload).await.expect(201);
    assert_eq!(followed(&ada, &upload).await["uuid"], upload.json()["uuid"]);

    let file = json!({"message": "m", "content": "dGV4dA==", "branch": "main"});
    let written = ada.put(&demo("/contents/a%20b"), &file).await.expect(201);
    assert_eq!(followed(&ada, &written).await["sha"], written.json()["content"]["sha"]);
    let files = json!({"message": "m", "files": [{"operation": "create", "path": "two", "content": "dGV4dA=="}]});
    let changed = ada.post(&demo("/contents"), &files).await.expect(201);
    assert_eq!(followed(&ada, &changed).await["sha"], changed.json()["commit"]["sha"]);
}

async fn accounts_keys_and_repositories_are_where_the_response_says(cluster: &Cluster) {
    let (ada, admin) = (cluster.user("ada").await, cluster.admin().await);
    create(&ada, "/user/keys", &json!({"title": "laptop", "key": ed25519("b")}), "id").await;
    let organization = unique("acme");
    create(&ada, "/user/orgs", &json!({"username": organization}), "username").await;
    create(&ada, &format!("/orgs/{organization}/teams"), &json!({"name": "team"}), "id").await;
    create(&ada, &format!("/orgs/{organization}/repos"), &json!({"name": "demo"}), "full_name").await;
    let hook = json!({"type": "gogs", "config": {"url": "https://example.com", "content_type": "json"}});
    create(&ada, &format!("/orgs/{organization}/hooks"), &hook, "id").await;
    let name = unique("eva");
    let user = json!({"username": name, "email": format!("{name}@example.org"), "password": "correct horse battery"});
    create(&admin, "/admin/users", &user, "username").await;

    // For several addresses, and for tokens, it is the list.
    let address = format!("{}@example.net", ada.name);
    let added = ada.post("/user/emails", &json!([address])).await.expect(201);
    let listed = followed(&ada, &added).await;
    assert!(listed.as_array().unwrap().iter().any(|one| one["email"] == address.as_str()), "{listed}");
    let token = ada.make_token(&json!({"name": "ci"})).await.expect(201);
    assert_eq!(token.header("location"), format!("{}/api/v1/users/{}/tokens", ada.url, ada.name));

    // Also for keys added by an administrator.
    let key = json!({"title": "given", "key": ed25519("c")});
    let given = admin.post(&format!("/admin/users/{}/keys", ada.name), &key).await.expect(201);
    let listed = followed(&admin, &given).await;
    assert!(listed.as_array().unwrap().iter().any(|one| one["id"] == given.json()["id"]), "{listed}");
}
