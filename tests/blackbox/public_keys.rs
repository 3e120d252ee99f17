//! SSH keys of users.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::keys::{self, ed25519, ed25519_blob};
use crate::harness::{Cluster, Response};

on_profiles! {
    production {
        post_user_keys_responds_with_the_key_as_it_is_stored
        post_user_keys_takes_every_kind_that_is_safe
        post_user_keys_names_the_field_that_is_wrong
        post_user_keys_refuses_a_key_or_title_that_is_taken
        post_user_keys_refuses_a_deploy_key
        get_user_keys_lists_own_keys_by_id
        get_users_keys_lists_the_keys_of_any_user
        get_user_keys_id_finds_own_keys_only
        delete_user_keys_frees_the_key
        administrators_read_and_remove_the_keys_of_others
    }
}

const PATH: &str = "/user/keys";

async fn post_user_keys_responds_with_the_key_as_it_is_stored(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let key = ed25519("ada@laptop with blanks");
    let made = ada.post(PATH, &json!({"title": "laptop", "key": format!("\n  {key}  \r\n")})).await.expect(201).json();
    let mut fields: Vec<_> = made.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["created_at", "fingerprint", "id", "key", "title", "token", "url", "user"]);
    assert_eq!(made["token"], Value::Null);
    assert_eq!(made["user"]["login"], ada.name);
    assert!(made["fingerprint"].as_str().is_some_and(|text| text.starts_with("SHA256:")), "{made}");
    assert_eq!((&made["key"], &made["title"]), (&json!(key), &json!("laptop")));
    assert_eq!(made["url"], format!("{}/api/v1/user/keys/{}", cluster.url, made["id"]));
    assert!(made["created_at"].as_str().is_some_and(|time| time.starts_with("20") && time.ends_with('Z')), "{made}");
    let blob = ed25519_blob();
    let bare = ada.post(PATH, &json!({"title": "bare", "key": blob})).await.expect(201).json();
    assert_eq!(bare["key"].as_str().unwrap().trim_end(), format!("ssh-ed25519 {blob}"));
    let plain = ed25519("");
    let plain_made = ada.post(PATH, &json!({"title": "plain", "key": plain})).await.expect(201).json();
    assert_eq!(plain_made["key"].as_str().unwrap().trim_end(), plain);
}

async fn post_user_keys_takes_every_kind_that_is_safe(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for (number, key) in keys::GOOD.into_iter().enumerate() {
        let made = ada.post(PATH, &json!({"title": number.to_string(), "key": key})).await.expect(201).json();
        let stored = made["key"].as_str().unwrap();
        if key.starts_with("----") {
            let expected: Vec<_> = keys::RFC_4716_AS_LINE.split(' ').take(2).collect();
            assert_eq!(stored.split(' ').take(2).collect::<Vec<_>>(), expected);
        } else {
            assert_eq!(stored, key.trim_end());
        }
    }
    ada.post(PATH, &json!({"title": "again", "key": keys::RFC_4716_AS_LINE})).await.refused(422);
}

async fn post_user_keys_names_the_field_that_is_wrong(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.post(PATH, &json!({})).await.refused_fields(&[("title", "required"), ("key", "required")]);
    ada.post(PATH, &json!({"title": "", "key": ""}))
        .await
        .refused_fields(&[("title", "required"), ("key", "required")]);
    ada.post(PATH, &json!({"title": 7, "key": []})).await.refused_fields(&[("title", "type"), ("key", "type")]);
    for (what, key) in keys::bad() {
        let refused = ada.post(PATH, &json!({"title": "bad", "key": key})).await.refused(422).json();
        assert_eq!(refused["errors"][0]["field"], "key", "{what}: {refused}");
    }
    for title in ["t".repeat(256), "a\nb".to_owned()] {
        ada.post(PATH, &json!({"title": title, "key": ed25519("x")})).await.refused_field("title");
    }
    ada.post(PATH, &json!({"title": "\u{e9}".repeat(255), "key": ed25519("x")})).await.expect(201);
    let broken = ada.request(Method::POST, PATH).header("content-type", "application/json").body("{");
    Response::of(broken).await.refused(400);
}

async fn post_user_keys_refuses_a_key_or_title_that_is_taken(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let key = ed25519("first");
    ada.post(PATH, &json!({"title": "laptop", "key": key})).await.expect(201);
    let same_title = ada.post(PATH, &json!({"title": "laptop", "key": ed25519("other")})).await;
    same_title.refused_fields(&[("title", "taken")]);
    let renamed = key.replace(" first", " second");
    for (user, title) in [(&ada, "again"), (&bob, "mine"), (&bob, "laptop")] {
        user.post(PATH, &json!({"title": title, "key": renamed})).await.refused_fields(&[("key", "taken")]);
    }
    bob.post(PATH, &json!({"title": "laptop", "key": ed25519("his")})).await.expect(201);
    assert_eq!(ada.get(PATH).await.each("title"), ["laptop"]);
}

async fn post_user_keys_refuses_a_deploy_key(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("deployed", json!({})).await;
    let key = ed25519("ci");
    let deploy = ada.post(&ada.repo("deployed", "/keys"), &json!({"title": "ci", "key": key})).await.expect(201).json();
    bob.post(PATH, &json!({"title": "stolen", "key": key})).await.refused(422);
    ada.post(PATH, &json!({"title": "own", "key": key})).await.refused(422);
    ada.delete(&ada.repo("deployed", &format!("/keys/{}", deploy["id"]))).await.expect(204);
    bob.post(PATH, &json!({"title": "free", "key": key})).await.expect(201);
    ada.post(&ada.repo("deployed", "/keys"), &json!({"title": "ci", "key": key})).await.refused(422);
}

async fn get_user_keys_lists_own_keys_by_id(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    assert_eq!(ada.get(PATH).await.expect(200).json(), json!([]));
    for title in ["b", "a"] {
        ada.post(PATH, &json!({"title": title, "key": ed25519(title)})).await.expect(201);
    }
    assert_eq!(ada.get(PATH).await.expect(200).each("title"), ["b", "a"]);
    let page = ada.get("/user/keys?limit=1&page=2").await.expect(200);
    assert_eq!(page.each("title"), ["a"]);
    assert!(page.header("link").ends_with("page=1>; rel=\"prev\""), "{}", page.header("link"));
    cluster.anonymous().get(PATH).await.refused(401);
}

async fn get_users_keys_lists_the_keys_of_any_user(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let mut made = ada.post(PATH, &json!({"title": "laptop", "key": ed25519("x")})).await.expect(201).json();
    assert_eq!(ada.get(PATH).await.expect(200).json(), json!([made]));
    // Only the owner sees the token that a key is bound to.
    made.as_object_mut().unwrap().remove("token");
    let path = format!("/users/{}/keys", ada.name.to_uppercase());
    assert_eq!(bob.get(&path).await.expect(200).json(), Value::Array(vec![made]));
    assert_eq!(bob.with_scopes(&["hook"]).await.get(&path).await.expect(200).each("title"), ["laptop"]);
    bob.get("/users/no-such-user/keys").await.refused(404);
    cluster.anonymous().get(&path).await.refused(401);
}

async fn get_user_keys_id_finds_own_keys_only(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    let made = ada.post(PATH, &json!({"title": "laptop", "key": ed25519("x")})).await.expect(201).json();
    let path = format!("{PATH}/{}", made["id"]);
    assert_eq!(ada.get(&path).await.expect(200).json(), made);
    outsider.get(&path).await.refused(404);
    for wrong in ["0", "-1", "x", "999999999", "99999999999999999999"] {
        ada.get(&format!("{PATH}/{wrong}")).await.refused(404);
    }
}

async fn administrators_read_and_remove_the_keys_of_others(cluster: &Cluster) {
    let (ada, bob, admin) = (cluster.user("ada").await, cluster.user("bob").await, cluster.admin().await);
    let keys = format!("/admin/users/{}/keys", ada.name);
    let made = admin.post(&keys, &json!({"title": "laptop", "key": ed25519("x")})).await.expect(201).json();
    assert_eq!(made["user"]["login"], ada.name);
    assert_eq!(admin.get(&format!("{PATH}/{}", made["id"])).await.expect(200).json(), made);
    let path = format!("{keys}/{}", made["id"]);
    ada.delete(&path).await.refused(403);
    admin.delete(&format!("/admin/users/{}/keys/{}", bob.name, made["id"])).await.refused(404);
    admin.delete(&format!("{PATH}/{}", made["id"])).await.refused(404);
    admin.delete(&path).await.empty(204);
    assert_eq!(ada.get(PATH).await.expect(200).json(), json!([]));
}

async fn delete_user_keys_frees_the_key(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let key = ed25519("x");
    let made = ada.post(PATH, &json!({"title": "laptop", "key": key})).await.expect(201).json();
    let path = format!("{PATH}/{}", made["id"]);
    bob.delete(&path).await.refused(404);
    ada.delete(&path).await.empty(204);
    ada.delete(&path).await.refused(404);
    assert_eq!(ada.get(PATH).await.expect(200).json(), json!([]));
    let again = bob.post(PATH, &json!({"title": "laptop", "key": key})).await.expect(201).json();
    assert_ne!(again["id"], made["id"], "ids are never reused");
    // The keys of a deleted user are available again.
    cluster.admin().await.delete(&format!("/admin/users/{}", bob.name)).await.expect(204);
    ada.post(PATH, &json!({"title": "laptop", "key": key})).await.expect(201);
}
