//! Labels on issues: added, replaced, removed and cleared.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        post_issue_labels_adds_and_responds_with_all_of_them
        put_issue_labels_replaces_all_of_them
        delete_issue_labels_removes_one_or_all
    }
    embedded {
        put_issue_labels_with_nothing_clears_all
        issue_labels_of_an_unknown_issue_are_not_found
        issue_labels_refuse_labels_that_the_repository_has_not
        issue_labels_are_ids_or_names
        an_issue_has_at_most_a_hundred_labels
        issue_labels_are_changed_by_writers_alone
    }
}

/// A repository with one issue without labels, and the ids of four labels.
async fn labeled(cluster: &Cluster) -> (User, String, [i64; 4]) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let mut ids = [0; 4];
    for (id, name) in ids.iter_mut().zip(["d", "c", "b", "a"]) {
        *id = ada.new_label(&repo, name).await;
    }
    ada.new_issue(&repo, "Labeled", json!({})).await;
    (ada, repo, ids)
}

/// Fails unless the issue has these labels everywhere it is shown.
async fn has(user: &User, repo: &str, names: &[&str]) {
    assert_eq!(user.labels_of(repo, 1).await, names);
    let all = user.get(&format!("{repo}/labels")).await.expect(200).json();
    let of = |name: &str| all.as_array().unwrap().iter().find(|label| label["name"] == name).cloned().unwrap();
    let expected: Value = names.iter().map(|name| of(name)).collect();
    assert_eq!(user.issue(repo, 1).await["labels"], expected);
    assert_eq!(user.get(&format!("{repo}/issues")).await.expect(200).json()[0]["labels"], expected);
    for label in ["a", "b", "c", "d"] {
        let listed = user.issue_numbers(repo, &format!("labels={label}")).await;
        assert_eq!(listed.len(), usize::from(names.contains(&label)), "{label}");
    }
}

async fn post_issue_labels_adds_and_responds_with_all_of_them(cluster: &Cluster) {
    let (ada, repo, [d, c, b, a]) = labeled(cluster).await;
    let path = format!("{repo}/issues/1/labels");
    assert_eq!(ada.get(&path).await.expect(200).text(), "[]");
    for (labels, names) in [
        (json!([c]), &["c"][..]),
        (json!([a, c]), &["a", "c"]),
        (json!([]), &["a", "c"]),
        (json!(null), &["a", "c"]),
        (json!([b, b, d]), &["a", "b", "c", "d"]),
        (json!([a, b, c, d]), &["a", "b", "c", "d"]),
    ] {
        let response = ada.post(&path, &json!({ "labels": labels })).await.expect(200);
        assert_eq!(response.each("name"), names, "{labels}");
        assert_eq!(response.json(), ada.get(&path).await.expect(200).json());
        has(&ada, &repo, names).await;
    }
    assert_eq!(ada.post(&path, &json!({})).await.expect(200).each("name").len(), 4);
}

async fn put_issue_labels_replaces_all_of_them(cluster: &Cluster) {
    let (ada, repo, [d, c, b, a]) = labeled(cluster).await;
    let path = format!("{repo}/issues/1/labels");
    for (labels, names) in [
        (json!([c, a]), &["a", "c"][..]),
        (json!([b]), &["b"]),
        (json!([b]), &["b"]),
        (json!([d, b, d]), &["b", "d"]),
        (json!([]), &[]),
        (json!([a]), &["a"]),
    ] {
        let response = ada.put(&path, &json!({ "labels": labels })).await.expect(200);
        assert_eq!(response.each("name"), names, "{labels}");
        assert_eq!(response.json(), ada.get(&path).await.expect(200).json());
        has(&ada, &repo, names).await;
    }
}

async fn put_issue_labels_with_nothing_clears_all(cluster: &Cluster) {
    let (ada, repo, [_, _, b, a]) = labeled(cluster).await;
    let path = format!("{repo}/issues/1/labels");
    for body in [Some(json!({"labels": null})), Some(json!({})), Some(json!({"labels": []})), Some(Value::Null), None] {
        ada.put(&path, &json!({"labels": [a, b]})).await.expect(200);
        let response = match &body {
            Some(body) => ada.put(&path, body).await,
            None => ada.put_nothing(&path).await,
        };
        assert_eq!(response.expect(200).text(), "[]", "{body:?}");
        has(&ada, &repo, &[]).await;
    }
}

async fn delete_issue_labels_removes_one_or_all(cluster: &Cluster) {
    let (ada, repo, [d, c, b, a]) = labeled(cluster).await;
    let path = format!("{repo}/issues/1/labels");
    ada.put(&path, &json!({"labels": [a, b, c]})).await.expect(200);
    ada.delete(&format!("{path}/{b}")).await.empty(204);
    has(&ada, &repo, &["a", "c"]).await;
    // Removing a label that is not set succeeds; a label that does not exist is not found.
    for label in [b, d] {
        ada.delete(&format!("{path}/{label}")).await.empty(204);
    }
    for label in ["999999999", "0", "-1", "abc", "99999999999999999999"] {
        ada.delete(&format!("{path}/{label}")).await.refused(404);
    }
    has(&ada, &repo, &["a", "c"]).await;
    ada.delete(&path).await.empty(204);
    has(&ada, &repo, &[]).await;
    ada.delete(&path).await.empty(204);
    assert_eq!(ada.get(&format!("{repo}/labels")).await.expect(200).ids("id").len(), 4, "the labels themselves stay");
}

async fn issue_labels_of_an_unknown_issue_are_not_found(cluster: &Cluster) {
    let (ada, repo, [_, _, _, a]) = labeled(cluster).await;
    for number in ["2", "0", "abc", "99999999999999999999"] {
        let path = format!("{repo}/issues/{number}/labels");
        ada.get(&path).await.refused(404);
        ada.post(&path, &json!({"labels": [a]})).await.refused(404);
        ada.put(&path, &json!({"labels": [a]})).await.refused(404);
        ada.put(&path, &json!({"labels": []})).await.refused(404);
        ada.delete(&path).await.refused(404);
        ada.delete(&format!("{path}/{a}")).await.refused(404);
    }
}

async fn issue_labels_refuse_labels_that_the_repository_has_not(cluster: &Cluster) {
    let (ada, repo, [_, _, b, a]) = labeled(cluster).await;
    let path = format!("{repo}/issues/1/labels");
    let other = ada.new_tracker("other", json!({})).await;
    let foreign = ada.new_label(&other, "a").await;
    ada.put(&path, &json!({"labels": [a]})).await.expect(200);
    for wrong in
        [json!([999_999_999]), json!([b, 999_999_999]), json!([b, foreign]), json!([0]), json!([-1]), json!([i64::MAX])]
    {
        ada.post(&path, &json!({ "labels": wrong })).await.refused_field("labels");
        ada.put(&path, &json!({ "labels": wrong })).await.refused_field("labels");
    }
    has(&ada, &repo, &["a"]).await;
}

async fn issue_labels_are_ids_or_names(cluster: &Cluster) {
    let (ada, repo, [_, _, b, a]) = labeled(cluster).await;
    let path = format!("{repo}/issues/1/labels");
    for (labels, names) in [(json!(["A"]), &["a"][..]), (json!([b, "b", "c"]), &["b", "c"]), (json!(["a"]), &["a"])] {
        let response = ada.put(&path, &json!({ "labels": labels })).await;
        assert_eq!(response.expect(200).each("name"), names, "{labels}");
        has(&ada, &repo, names).await;
    }
    ada.put(&path, &json!(["a"])).await.expect(200);
    // An id in quotes is a name.
    for unknown in [json!(["nope"]), json!([b, "nope"]), json!([""]), json!([b.to_string()])] {
        ada.post(&path, &json!({ "labels": unknown })).await.refused_fields(&[("labels", "unknown")]);
    }
    for wrong in [json!("a"), json!(a), json!({"id": a}), json!([null]), json!([1.5]), json!([[a]])] {
        ada.post(&path, &json!({ "labels": wrong })).await.refused_fields(&[("labels", "type")]);
        ada.put(&path, &json!({ "labels": wrong })).await.refused_fields(&[("labels", "type")]);
    }
    for method in [Method::POST, Method::PUT] {
        let broken = ada.request(method, &path).header("content-type", "application/json").body("{\"labels\":");
        Response::of(broken).await.refused(400);
    }
    has(&ada, &repo, &["a"]).await;
}

async fn an_issue_has_at_most_a_hundred_labels(cluster: &Cluster) {
    const MAX_LABELS: usize = 100;
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let mut ids = Vec::new();
    for number in 0..=MAX_LABELS {
        ids.push(ada.new_label(&repo, &format!("label {number:03}")).await);
    }
    let too_many = &ids;
    let (hundred, last) = ids.split_at(MAX_LABELS);
    ada.post(&format!("{repo}/issues"), &json!({"title": "x", "labels": too_many})).await.refused_field("labels");
    let made = ada.new_issue(&repo, "Full", json!({"labels": hundred})).await;
    assert_eq!(made["labels"].as_array().unwrap().len(), MAX_LABELS);
    let path = format!("{repo}/issues/1/labels");
    ada.post(&path, &json!({"labels": last})).await.refused_field("labels");
    ada.put(&path, &json!({"labels": too_many})).await.refused_field("labels");
    ada.post(&path, &json!({"labels": hundred})).await.expect(200);
    assert_eq!(ada.labels_of(&repo, 1).await.len(), MAX_LABELS);
    ada.delete(&format!("{path}/{}", ids[0])).await.empty(204);
    assert_eq!(ada.post(&path, &json!({"labels": last})).await.expect(200).each("name").len(), MAX_LABELS);
    assert_eq!(ada.get(&format!("{repo}/issues")).await.expect(200).json()[0]["labels"].as_array().unwrap().len(), 100);
}

async fn issue_labels_are_changed_by_writers_alone(cluster: &Cluster) {
    let (ada, repo, [_, _, _, a]) = labeled(cluster).await;
    let bob = cluster.user("bob").await;
    bob.new_issue(&repo, "By bob", json!({})).await;
    let hidden = ada.new_tracker("hidden", json!({"private": true})).await;
    ada.new_issue(&hidden, "One", json!({})).await;
    let anonymous = cluster.anonymous();
    for body in [json!({"labels": [a]}), json!({"labels": ["a"]}), json!({})] {
        for (repo, number, status) in [(&repo, 1, 403), (&repo, 2, 403), (&repo, 99, 403), (&hidden, 1, 404)] {
            let path = format!("{repo}/issues/{number}/labels");
            for (method, path) in [
                (Method::POST, path.clone()),
                (Method::PUT, path.clone()),
                (Method::DELETE, path.clone()),
                (Method::DELETE, format!("{path}/{a}")),
            ] {
                Response::of(bob.request(method.clone(), &path).json(&body)).await.refused(status);
                Response::of(anonymous.request(method, &path).json(&body)).await.refused(401);
            }
        }
    }
    assert_eq!(bob.labels_of(&repo, 2).await, [""; 0]);
    anonymous.get(&format!("{repo}/issues/1/labels")).await.expect(200);
    for reader in [&anonymous, &bob] {
        reader.get(&format!("{hidden}/issues/1/labels")).await.refused(404);
    }
    ada.share(&repo, &bob, "write").await;
    bob.post(&format!("{repo}/issues/1/labels"), &json!({"labels": [a]})).await.expect(200);
}
