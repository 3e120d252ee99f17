//! Webhooks changed and deleted with `If-Match`. Secrets are part of the ETag, although no read
//! returns them.

use reqwest::Method;
use reqwest::header::{IF_MATCH, IF_NONE_MATCH};
use serde_json::{Value, json};

use crate::conditional_contents::{send, tag, winner};
use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        a_hook_of_any_owner_is_changed_and_deleted_by_its_tag
        of_writers_with_one_tag_at_once_one_succeeds
    }
    embedded {
        a_change_of_a_secret_alone_makes_the_tag_stale
        refusals_for_other_reasons_come_first
        a_repeat_with_its_key_gets_the_first_response_with_a_stale_tag_too
    }
}

async fn new_hook(user: &User, hooks: &str) -> String {
    let config = json!({"url": "https://ada:hunter1@example.com/", "content_type": "json", "secret": "hunter2"});
    let made = user.post(hooks, &json!({"type": "native", "config": config})).await.expect(201).json();
    format!("{hooks}/{}", made["id"])
}

async fn new_hook_of_repository(user: &User, name: &str) -> String {
    user.new_repository(name, json!({})).await;
    new_hook(user, &user.repo(name, "/hooks")).await
}

async fn patch(user: &User, path: &str, if_match: &str, body: &Value) -> Response {
    send(user, Method::PATCH, path, (IF_MATCH, if_match), body).await
}

async fn delete(user: &User, path: &str, if_match: &str) -> Response {
    Response::of(user.request(Method::DELETE, path).header(IF_MATCH, if_match)).await
}

fn config(name: &str, value: &str) -> Value {
    json!({"config": { name: value }})
}

async fn a_hook_of_any_owner_is_changed_and_deleted_by_its_tag(cluster: &Cluster) {
    let (ada, admin) = (cluster.user("ada").await, cluster.admin().await);
    let organization = ada.new_organization("acme").await;
    let of_organization = new_hook(&ada, &format!("/orgs/{organization}/hooks")).await;
    for (user, path) in [
        (&ada, new_hook_of_repository(&ada, "tagged").await),
        (&ada, of_organization),
        (&admin, new_hook(&admin, "/admin/hooks").await),
    ] {
        let first = tag(user, &path).await;
        patch(user, &path, &first, &config("content_type", "form")).await.expect(200);
        let second = tag(user, &path).await;
        assert_ne!(second, first, "{path}");
        let refused = patch(user, &path, &first, &config("content_type", "json")).await.refused(412);
        assert_eq!(refused.header("etag"), second, "{path}");
        assert_eq!(delete(user, &path, &first).await.refused(412).header("etag"), second, "{path}");
        delete(user, &path, &format!("W/{second}")).await.refused(412);
        assert_eq!(user.get(&path).await.expect(200).json()["config"]["content_type"], "form", "{path}");
        patch(user, &path, "*", &config("content_type", "json")).await.expect(200);
        let list = format!("\"x\", {}", tag(user, &path).await);
        delete(user, &path, &list).await.empty(204);
        // A deleted resource gives 404, before its tag is checked.
        delete(user, &path, &second).await.refused(404);
        patch(user, &path, "*", &config("content_type", "json")).await.refused(404);
    }
}

async fn of_writers_with_one_tag_at_once_one_succeeds(cluster: &Cluster) {
    let ada = &cluster.user("ada").await;
    let path = &new_hook_of_repository(ada, "raced").await;
    let one = &tag(ada, path).await;
    let url = |number: usize| format!("https://example.com/{number}");
    let write = |number: usize| async move { patch(&ada.reconnected(), path, one, &config("url", &url(number))).await };
    let number = winner(write).await;
    assert_eq!(ada.get(path).await.expect(200).json()["config"]["url"], url(number));
}

async fn a_change_of_a_secret_alone_makes_the_tag_stale(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_hook_of_repository(&ada, "secret").await;
    for (name, value) in [("secret", "hunter3"), ("url", "https://ada:hunter4@example.com/"), ("secret", "hunter5")] {
        let shown = ada.get(&path).await.expect(200);
        patch(&ada, &path, &shown.header("etag"), &config(name, value)).await.expect(200);
        let now = ada.get(&path).await.expect(200);
        assert_eq!(now.json()["config"], shown.json()["config"], "{value}");
        // A client with the old tag gets the webhook with the new tag, not a 304.
        let read = ada.get_with(&path, IF_NONE_MATCH, &shown.header("etag")).await.expect(200);
        assert_eq!((read.header("etag"), read.text()), (now.header("etag"), now.text()), "{value}");
        ada.get_with(&path, IF_NONE_MATCH, &now.header("etag")).await.empty(304);
        // Even if both changes were made in the same second.
        assert_ne!(now.header("etag"), shown.header("etag"), "{value}");
        patch(&ada, &path, &shown.header("etag"), &config("secret", "late")).await.refused(412);
    }
    let last = tag(&ada, &path).await;
    patch(&ada, &path, &last, &config("secret", "hunter5")).await.expect(200);
    assert_eq!(tag(&ada, &path).await, last);
}

async fn refusals_for_other_reasons_come_first(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.outsider().await);
    let path = new_hook_of_repository(&ada, "strict").await;
    for if_match in ["\"stale\"", "*"] {
        patch(&cluster.anonymous(), &path, if_match, &config("secret", "x")).await.refused(401);
        patch(&bob, &path, if_match, &config("secret", "x")).await.refused(403);
        delete(&bob, &path, if_match).await.refused(403);
        patch(&ada, &path, if_match, &config("url", "ftp://example.com")).await.refused_field("config.url");
        delete(&ada, &ada.repo("strict", "/hooks/999999999"), if_match).await.refused(404);
    }
    for malformed in ["", "abc", "*, \"a\""] {
        patch(&ada, &path, malformed, &config("secret", "x")).await.refused_fields(&[("If-Match", "invalid")]);
    }
}

async fn a_repeat_with_its_key_gets_the_first_response_with_a_stale_tag_too(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_hook_of_repository(&ada, "repeated").await;
    let first = tag(&ada, &path).await;
    let send = async |if_match: &str, secret: &str| {
        let request = ada.request(Method::PATCH, &path).header(IF_MATCH, if_match).header("idempotency-key", "once");
        Response::of(request.json(&config("secret", secret))).await
    };
    let changed = send(&first, "hunter3").await.expect(200).text();
    assert_eq!(send(&first, "hunter3").await.expect(200).text(), changed);
    assert_eq!(send("\"other\"", "hunter3").await.expect(200).text(), changed);
    send(&first, "hunter4").await.refused_field("Idempotency-Key");
}
