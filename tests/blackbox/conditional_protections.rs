//! Branch protection rules replaced and deleted with `If-Match`, and created with `If-None-Match:
//! *`.

use reqwest::Method;
use reqwest::header::{IF_MATCH, IF_NONE_MATCH};
use serde_json::{Value, json};

use crate::conditional_contents::{send, tag, winner};
use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        a_rule_is_replaced_and_deleted_by_its_tag
        of_writers_and_of_creators_at_once_one_succeeds
    }
    embedded {
        a_rule_that_exists_is_not_created
        refusals_for_other_reasons_come_first
    }
}

async fn new_path(user: &User, name: &str, pattern: &str) -> String {
    user.new_repository(name, json!({})).await;
    user.repo(name, &format!("/branch_protections/{pattern}"))
}

async fn put(user: &User, path: &str, if_match: &str, body: &Value) -> Response {
    send(user, Method::PUT, path, (IF_MATCH, if_match), body).await
}

async fn create(user: &User, path: &str, body: &Value) -> Response {
    send(user, Method::PUT, path, (IF_NONE_MATCH, "*"), body).await
}

async fn delete(user: &User, path: &str, if_match: &str) -> Response {
    Response::of(user.request(Method::DELETE, path).header(IF_MATCH, if_match)).await
}

async fn a_rule_is_replaced_and_deleted_by_its_tag(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_path(&ada, "tagged", "release/*").await;
    for if_match in ["*", "\"x\""] {
        let refused = put(&ada, &path, if_match, &json!({})).await.refused(412);
        assert_eq!(refused.header("etag"), "");
        delete(&ada, &path, if_match).await.refused(404);
    }
    ada.get(&path).await.refused(404);
    create(&ada, &path, &json!({"push_users": [ada.name]})).await.expect(201);
    let first = tag(&ada, &path).await;
    put(&ada, &path, &first, &json!({"allow_force": true})).await.expect(200);
    let shown = ada.get(&path).await.expect(200);
    let second = shown.header("etag");
    assert_eq!((&shown.json()["allow_force"], &shown.json()["push_users"]), (&json!(true), &json!([])));
    let refused = put(&ada, &path, &first, &json!({"allow_delete": true})).await.refused(412);
    assert_eq!(refused.header("etag"), second);
    assert_eq!(delete(&ada, &path, &first).await.refused(412).header("etag"), second);
    assert_eq!(ada.get(&path).await.expect(200).text(), shown.text());
    put(&ada, &path, "*", &json!({"allow_delete": true})).await.expect(200);
    delete(&ada, &path, &second).await.refused(412);
    delete(&ada, &path, &format!("\"x\", {}", tag(&ada, &path).await)).await.empty(204);
    ada.get(&path).await.refused(404);
}

async fn of_writers_and_of_creators_at_once_one_succeeds(cluster: &Cluster) {
    let ada = &cluster.user("ada").await;
    let path = &new_path(ada, "raced", "main").await;
    let creator =
        winner(
            |number: usize| async move { create(&ada.reconnected(), path, &json!({"allow_force": number > 3})).await },
        );
    let number = creator.await;
    assert_eq!(ada.get(path).await.expect(200).json()["allow_force"], number > 3);
    let one = &tag(ada, path).await;
    let change = json!({"allow_force": number <= 3});
    let change = &change;
    winner(|_| async move { put(&ada.reconnected(), path, one, change).await }).await;
    assert_eq!(ada.get(path).await.expect(200).json()["allow_force"], change["allow_force"]);
}

async fn a_rule_that_exists_is_not_created(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_path(&ada, "kept", "main").await;
    create(&ada, &path, &json!({})).await.expect(201);
    let shown = ada.get(&path).await.expect(200);
    for body in [json!({}), json!({"allow_force": true})] {
        let refused = create(&ada, &path, &body).await.refused(412);
        assert_eq!(refused.header("etag"), shown.header("etag"));
    }
    assert_eq!(ada.get(&path).await.expect(200).text(), shown.text());
    ada.put(&path, &json!({"allow_force": true})).await.expect(200);
}

async fn refusals_for_other_reasons_come_first(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.outsider().await);
    let path = new_path(&ada, "strict", "main").await;
    create(&ada, &path, &json!({})).await.expect(201);
    let wrong = ada.repo("strict", "/branch_protections/a..b");
    for if_match in ["\"stale\"", "*"] {
        put(&cluster.anonymous(), &path, if_match, &json!({})).await.refused(401);
        put(&bob, &path, if_match, &json!({})).await.refused(403);
        delete(&bob, &path, if_match).await.refused(403);
        put(&ada, &path, if_match, &json!({"allow_force": "yes"})).await.refused_field("allow_force");
        put(&ada, &path, if_match, &json!({"push_users": ["never-was"]})).await.refused_field("push_users");
        put(&ada, &wrong, if_match, &json!({})).await.refused_field("pattern");
        delete(&ada, &ada.repo("strict", "/branch_protections/none"), if_match).await.refused(404);
    }
    assert_eq!(ada.get(&path).await.expect(200).json()["allow_force"], false);
}
