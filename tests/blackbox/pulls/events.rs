//! The webhook event `pull_request`.

use serde_json::{Value, json};

use super::{Work, is_commit};
use crate::harness::receiver::{LOOPBACK, Received, Receiver};
use crate::harness::{Cluster, Options};

on_own_installations! {
    every_change_of_a_pull_request_is_told_once_and_in_order(Options { settings: LOOPBACK.to_vec(), ..Options::default() })
}

/// Creates a hook for these events.
pub(super) async fn hook(work: &Work, url: &str, events: &[&str]) {
    let body = json!({
        "type": "gitea", "config": {"url": url, "content_type": "json"}, "events": events, "active": true,
    });
    work.owner.post(&work.path("/hooks"), &body).await.expect(201);
}

/// The events `pull_request` of a number, without repeats.
pub(super) fn of_number(received: &[Received], number: i64) -> Vec<Received> {
    let mut told: Vec<Received> = Vec::new();
    for one in received.iter().filter(|one| one.event() == "pull_request" && one.status == 200) {
        if one.json()["number"] == number && told.iter().all(|known| known.id() != one.id()) {
            told.push(one.clone());
        }
    }
    told
}

fn actions(told: &[Received]) -> Vec<String> {
    told.iter().map(|one| one.json()["action"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn every_change_of_a_pull_request_is_told_once_and_in_order(cluster: &Cluster) {
    let (work, receiver) = (Work::new(cluster, "told").await, Receiver::start().await);
    hook(&work, &receiver.url("/pulls"), &["pull_request"]).await;
    hook(&work, &receiver.url("/all"), &["push", "issues", "issue_comment"]).await;
    let number = work.open("topic").await;
    let opened = work.tip("topic").await;
    work.edit(number, json!({"title": "Another"})).await;
    let label = work.owner.new_label(&work.repo, "deps").await;
    work.edit(number, json!({"labels": [label]})).await;
    work.edit(number, json!({"assignees": [work.owner.name]})).await;
    let head = work.push_commit("topic", "more", "x\n").await;
    work.head_becomes(number, &head).await;
    work.edit(number, json!({"state": "closed"})).await;
    work.edit(number, json!({"state": "open"})).await;
    work.owner.new_comment(&work.repo, number, "A comment").await;
    work.merge(number, json!({"Do": "merge"})).await.empty(200);
    let expected = ["opened", "edited", "label_updated", "assigned", "synchronized", "closed", "reopened", "closed"];
    let received = receiver.until(|all| of_number(all, number).len() >= expected.len()).await;
    let told = of_number(&received, number);
    assert_eq!(actions(&told), expected);
    let payloads: Vec<Value> = told.iter().map(Received::json).collect();
    for (payload, one) in payloads.iter().zip(&told) {
        assert_eq!(one.path, "/pulls");
        assert_eq!(payload["repository"]["full_name"], format!("{}/told", work.owner.name));
        assert_eq!(
            (&payload["sender"]["login"], &payload["pull_request"]["number"]),
            (&json!(work.owner.name), &json!(number))
        );
        assert_eq!(payload["pull_request"]["base"]["ref"], "main");
        assert_eq!(payload["pull_request"]["user"]["login"], work.owner.name);
        assert_eq!(payload["pull_request"]["head"]["repo"]["full_name"], format!("{}/told", work.owner.name));
        assert!(one.header("x-gitea-event-type").starts_with("pull_request"), "{:?}", one.headers);
        assert_eq!(one.header("x-forgejo-event"), "pull_request");
    }
    assert_eq!(told[4].header("x-gitea-event-type"), "pull_request_sync");
    assert!(is_commit(&payloads[0]["pull_request"]["head"]["sha"], &opened), "{}", payloads[0]);
    assert_eq!(payloads[1]["changes"]["title"]["from"], "topic", "{}", payloads[1]);
    assert!(is_commit(&payloads[4]["pull_request"]["head"]["sha"], &head), "{}", payloads[4]);
    assert_eq!(payloads[5]["pull_request"]["merged"], false);
    let merged = &payloads[7]["pull_request"];
    assert_eq!((&merged["merged"], &merged["state"]), (&json!(true), &json!("closed")), "{merged}");
    let base = work.tip("main").await;
    assert!(is_commit(&merged["merge_commit_sha"], &base) && merged["merged_at"].is_string(), "{merged}");
    assert_eq!(merged["merged_by"]["login"], work.owner.name);
    // The merge is a push to its base, and a pull request is no issue.
    let received =
        receiver.until(|all| all.iter().any(|one| one.event() == "push" && one.json()["after"] == base.as_str())).await;
    assert!(received.iter().all(|one| one.event() != "issues"), "a pull request is no issue");
    let comment = receiver.until(|all| all.iter().any(|one| one.event() == "issue_comment")).await;
    let comment = comment.iter().find(|one| one.event() == "issue_comment").unwrap().json();
    assert_eq!((&comment["is_pull"], &comment["issue"]["number"]), (&json!(true), &json!(number)), "{comment}");
    // A push to the head of nothing, or of a merged one, is told as a push alone.
    let after = work.push_commit("topic", "later", "x\n").await;
    let received = receiver
        .until(|all| all.iter().any(|one| one.event() == "push" && one.json()["after"] == after.as_str()))
        .await;
    assert_eq!(of_number(&received, number).len(), expected.len());
}
