use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::keys::{self, ed25519};
use crate::harness::{Cluster, Response, User};

on_profiles! {
    production {
        post_repos_keys_responds_with_the_key_as_it_is_stored
        post_repos_keys_may_let_a_key_write
        post_repos_keys_names_the_field_that_is_wrong
        post_repos_keys_refuses_a_key_or_title_that_is_taken
        one_key_may_open_several_repositories
        get_repos_keys_lists_them_by_id
        get_repos_keys_id_finds_those_of_this_repository
        delete_repos_keys_removes_from_this_repository_alone
        deploy_keys_are_managed_by_administrators_of_the_repository
        a_deleted_repository_frees_its_keys
    }
}

fn path(owner: &User) -> String {
    owner.repo("deployed", "/keys")
}

async fn post_repos_keys_responds_with_the_key_as_it_is_stored(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("deployed", json!({})).await;
    let key = ed25519("ci@example.com");
    let made = ada.post(&path(&ada), &json!({"title": "ci", "key": key})).await.expect(201).json();
    let id = made["id"].as_i64().unwrap();
    let url = format!("{}/api/v1/repos/{}/deployed/keys/{id}", cluster.url, ada.name);
    let expected = json!({
        "id": id, "key": key, "url": url, "title": "ci", "fingerprint": made["fingerprint"], "created_at": made["created_at"], "read_only": true,
    });
    assert_eq!(made, expected);
    assert!(made["created_at"].as_str().is_some_and(|time| time.starts_with("20") && time.ends_with('Z')), "{made}");
    let upper = ada.repo("DEPLOYED", &format!("/keys/{id}"));
    assert_eq!(ada.get(&upper).await.expect(200).json(), expected, "addresses have the stored spelling");
}

async fn post_repos_keys_may_let_a_key_write(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("deployed", json!({})).await;
    for (number, (given, expected)) in
        [(json!(null), true), (json!(true), true), (json!(false), false)].into_iter().enumerate()
    {
        let body = json!({"title": number.to_string(), "key": ed25519("x"), "read_only": given});
        let made = ada.post(&path(&ada), &body).await.expect(201).json();
        assert_eq!(made["read_only"], expected, "{given}");
        assert_eq!(ada.get(&format!("{}/{}", path(&ada), made["id"])).await.expect(200).json(), made);
    }
    let body = json!({"title": "x", "key": ed25519("x"), "read_only": "no"});
    ada.post(&path(&ada), &body).await.refused_fields(&[("read_only", "type")]);
}

async fn post_repos_keys_names_the_field_that_is_wrong(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("deployed", json!({})).await;
    let both = [("title", "required"), ("key", "required")];
    for body in [json!({}), json!({"title": "", "key": ""}), json!({"title": null, "key": null})] {
        ada.post(&path(&ada), &body).await.refused_fields(&both);
    }
    for (what, key) in keys::bad() {
        let refused = ada.post(&path(&ada), &json!({"title": "bad", "key": key})).await.refused(422).json();
        assert_eq!(refused["errors"][0]["field"], "key", "{what}: {refused}");
    }
    ada.post(&path(&ada), &json!({"title": "t".repeat(256), "key": ed25519("x")})).await.refused_field("title");
    assert_eq!(ada.get(&path(&ada)).await.expect(200).json(), json!([]));
}

async fn post_repos_keys_refuses_a_key_or_title_that_is_taken(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("deployed", json!({})).await;
    let key = ed25519("ci");
    ada.post(&path(&ada), &json!({"title": "ci", "key": key})).await.expect(201);
    ada.post(&path(&ada), &json!({"title": "other", "key": key.replace(" ci", " x")})).await.refused(422);
    let same_title = ada.post(&path(&ada), &json!({"title": "ci", "key": ed25519("x")})).await;
    same_title.refused_fields(&[("title", "taken")]);
    let his = ed25519("bob");
    bob.post("/user/keys", &json!({"title": "laptop", "key": his})).await.expect(201);
    ada.post(&path(&ada), &json!({"title": "his", "key": his})).await.refused(422);
    assert_eq!(ada.get(&path(&ada)).await.expect(200).each("title"), ["ci"]);
}

async fn one_key_may_open_several_repositories(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let key = ed25519("ci");
    let mut ids = Vec::new();
    for owner in [&ada, &bob] {
        owner.new_repository("deployed", json!({})).await;
        let made = owner.post(&path(owner), &json!({"title": "ci", "key": key})).await.expect(201).json();
        ids.push(made["id"].as_i64().unwrap());
    }
    assert_ne!(ids[0], ids[1]);
    ada.delete(&format!("{}/{}", path(&ada), ids[0])).await.empty(204);
    bob.get(&format!("{}/{}", path(&bob), ids[1])).await.expect(200);
    ada.post("/user/keys", &json!({"title": "mine", "key": key})).await.refused(422);
    bob.delete(&format!("{}/{}", path(&bob), ids[1])).await.empty(204);
    ada.post("/user/keys", &json!({"title": "mine", "key": key})).await.expect(201);
}

async fn get_repos_keys_lists_them_by_id(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("deployed", json!({})).await;
    assert_eq!(ada.get(&path(&ada)).await.expect(200).json(), json!([]));
    for title in ["b", "a"] {
        ada.post(&path(&ada), &json!({"title": title, "key": ed25519(title)})).await.expect(201);
    }
    assert_eq!(ada.get(&path(&ada)).await.expect(200).each("title"), ["b", "a"]);
    let page = ada.get(&format!("{}?limit=1", path(&ada))).await.expect(200);
    assert_eq!(page.each("title"), ["b"]);
    assert!(page.header("link").ends_with("keys?limit=1&page=2>; rel=\"last\""), "{}", page.header("link"));
}

async fn get_repos_keys_id_finds_those_of_this_repository(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("deployed", json!({})).await;
    ada.new_repository("other", json!({})).await;
    let made = ada.post(&path(&ada), &json!({"title": "ci", "key": ed25519("x")})).await.expect(201).json();
    assert_eq!(ada.get(&format!("{}/{}", path(&ada), made["id"])).await.expect(200).json(), made);
    ada.get(&ada.repo("other", &format!("/keys/{}", made["id"]))).await.refused(404);
    for wrong in ["0", "-1", "x", "987654321", "99999999999999999999"] {
        ada.get(&format!("{}/{wrong}", path(&ada))).await.refused(404);
        ada.delete(&format!("{}/{wrong}", path(&ada))).await.refused(404);
    }
}

async fn delete_repos_keys_removes_from_this_repository_alone(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    for owner in [&ada, &bob] {
        owner.new_repository("deployed", json!({})).await;
    }
    ada.new_repository("other", json!({})).await;
    let made = ada.post(&path(&ada), &json!({"title": "ci", "key": ed25519("x")})).await.expect(201).json();
    ada.delete(&ada.repo("other", &format!("/keys/{}", made["id"]))).await.refused(404);
    bob.delete(&format!("{}/{}", path(&bob), made["id"])).await.refused(404);
    let one = format!("{}/{}", path(&ada), made["id"]);
    ada.get(&one).await.expect(200);
    ada.delete(&one).await.empty(204);
    ada.delete(&one).await.refused(404);
    ada.get(&one).await.refused(404);
}

async fn deploy_keys_are_managed_by_administrators_of_the_repository(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("deployed", json!({})).await;
    let made = ada.post(&path(&ada), &json!({"title": "ci", "key": ed25519("x")})).await.expect(201).json();
    let one = format!("{}/{}", path(&ada), made["id"]);
    let all = async |caller: &User, status: u16| {
        caller.get(&path(&ada)).await.refused(status);
        caller.get(&one).await.refused(status);
        caller.post(&path(&ada), &json!({"title": 7})).await.refused(status);
        let broken = caller.request(Method::POST, &path(&ada)).header("content-type", "application/json").body("{");
        Response::of(broken).await.refused(status);
        caller.delete(&one).await.refused(status);
        caller.delete(&format!("{}/x", path(&ada))).await.refused(status);
    };
    all(&cluster.anonymous(), 401).await;
    all(&bob, 403).await;
    let collaborator = ada.repo("deployed", &format!("/collaborators/{}", bob.name));
    ada.put(&collaborator, &json!({"permission": "write"})).await.empty(204);
    all(&bob, 403).await;
    all(&ada.with_scopes(&["repo:write", "user"]).await, 403).await;
    ada.put(&collaborator, &json!({"permission": "admin"})).await.empty(204);
    bob.post(&path(&ada), &json!({"title": "second", "key": ed25519("x")})).await.expect(201);
    bob.delete(&one).await.empty(204);
    ada.delete(&ada.repo("deployed", "")).await.empty(204);
    ada.new_repository("deployed", json!({"private": true})).await;
    all(&bob, 404).await;
}

async fn a_deleted_repository_frees_its_keys(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("deployed", json!({})).await;
    let key = ed25519("ci");
    ada.post(&path(&ada), &json!({"title": "ci", "key": key})).await.expect(201);
    ada.post("/user/keys", &json!({"title": "mine", "key": key})).await.refused(422);
    ada.delete(&ada.repo("deployed", "")).await.empty(204);
    ada.post("/user/keys", &json!({"title": "mine", "key": key})).await.expect(201);
    ada.new_repository("deployed", json!({})).await;
    assert_eq!(ada.get(&path(&ada)).await.expect(200).json(), Value::Array(Vec::new()));
}
