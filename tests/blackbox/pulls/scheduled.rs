//! Merges that wait for the branch protection.

use serde_json::{Value, json};

use super::protection::{protect, writer};
use super::{SETTLE_TIMEOUT, Work, refused_for};
use crate::harness::{Cluster, User};
use crate::sessions::sign_in;

on_profiles! {
    both {
        a_scheduled_merge_is_done_when_its_checks_have_succeeded
        a_scheduled_merge_is_done_when_it_is_approved
        a_merge_that_is_scheduled_within_a_session_outlives_it
    }
    embedded {
        a_merge_that_lacks_nothing_is_not_scheduled
        a_scheduled_merge_is_taken_back
        a_scheduled_merge_goes_with_the_rights_of_its_user
        a_scheduled_merge_is_of_one_head_if_it_says_so
    }
}

fn later() -> Value {
    json!({"Do": "merge", "merge_when_checks_succeed": true})
}

async fn checked(cluster: &Cluster, name: &str) -> (Work, i64) {
    let work = Work::new(cluster, name).await;
    let number = work.open("topic").await;
    protect(&work, json!({"enable_status_check": true, "status_check_contexts": ["ci"]})).await;
    (work, number)
}

async fn succeed(work: &Work, number: i64) {
    let head = work.pull(number).await["head"]["sha"].as_str().unwrap().to_owned();
    let status = json!({"state": "success", "context": "ci"});
    work.owner.post(&work.path(&format!("/statuses/{head}")), &status).await.expect(201);
}

async fn actions(work: &Work, number: i64) -> Vec<(String, Value)> {
    let entries = work.owner.get(&work.path(&format!("/issues/{number}/timeline"))).await.expect(200).json();
    let entries = entries.as_array().unwrap().iter();
    entries.map(|entry| (entry["action"].as_str().unwrap().to_owned(), entry["message"].clone())).collect()
}

async fn is_cancelled(work: &Work, number: i64, why: &str) {
    work.poll(number, SETTLE_TIMEOUT, |pull| pull["scheduled_merge"].is_null()).await;
    assert!(!work.is_merged(number).await);
    let entries = actions(work, number).await;
    let message = if why.is_empty() { Value::Null } else { json!(why) };
    assert_eq!(entries.last(), Some(&("merge_cancelled".to_owned(), message)), "{entries:?}");
}

async fn schedule(work: &Work, user: &User, number: i64, body: &Value) {
    work.merge_by(user, number, body).await.empty(201);
    let shown = work.pull(number).await;
    assert_eq!((&shown["scheduled_merge"]["user"]["login"], &shown["merged"]), (&json!(user.name), &json!(false)));
    assert_eq!(shown["scheduled_merge"]["merge_style"], body["Do"]);
}

async fn a_scheduled_merge_is_done_when_its_checks_have_succeeded(cluster: &Cluster) {
    let (work, number) = checked(cluster, "checks").await;
    let bob = writer(&work, cluster, "bob").await;
    let body = json!({"Do": "squash", "MergeTitleField": "Topic", "MergeMessageField": "Waited",
                      "merge_when_checks_succeed": true, "delete_branch_after_merge": true});
    schedule(&work, &bob, number, &body).await;
    refused_for(work.merge(number, later()).await, 409, "MERGE_SCHEDULED");
    succeed(&work, number).await;
    let merged = work.poll(number, SETTLE_TIMEOUT, |pull| pull["merged"] == true).await;
    assert_eq!((&merged["scheduled_merge"], &merged["state"]), (&Value::Null, &json!("closed")));
    assert_eq!(merged["merged_by"]["login"], bob.name.as_str());
    work.poll(number, SETTLE_TIMEOUT, |pull| pull["head"]["ref"] == format!("refs/pull/{number}/head")).await;
    assert_eq!(work.tip("topic").await, "");
    work.fetch().await;
    let message = work.run(&["log", "-1", "--format=%B", "origin/main"]).await;
    assert!(message.starts_with("Topic\n\nWaited\n"), "{message}");
    let entries: Vec<_> = actions(&work, number).await.into_iter().map(|(action, _)| action).collect();
    assert!(entries.contains(&"merge_scheduled".to_owned()) && entries.contains(&"merged".to_owned()), "{entries:?}");
    assert!(!entries.contains(&"merge_cancelled".to_owned()), "{entries:?}");
}

async fn a_scheduled_merge_is_done_when_it_is_approved(cluster: &Cluster) {
    let work = Work::new(cluster, "approval").await;
    let bob = writer(&work, cluster, "bob").await;
    let number = work.open("topic").await;
    protect(&work, json!({"required_approvals": 1, "block_on_rejected_reviews": true})).await;
    let rejection = work.review(&bob, number, json!({"event": "REQUEST_CHANGES", "body": "No"})).await;
    schedule(&work, &work.owner, number, &later()).await;
    work.review(&bob, number, json!({"event": "APPROVED"})).await;
    work.poll(number, SETTLE_TIMEOUT, |pull| pull["merged"] == true).await;
    assert_eq!(work.shown(number, &rejection).await["dismissed"], false);
}

async fn a_merge_that_lacks_nothing_is_not_scheduled(cluster: &Cluster) {
    let (work, number) = checked(cluster, "nothing").await;
    let draft = json!({"title": "WIP: topic"});
    work.edit(number, draft).await;
    refused_for(work.merge(number, later()).await, 405, "IS_DRAFT");
    work.edit(number, json!({"title": "topic"})).await;
    succeed(&work, number).await;
    work.merge(number, later()).await.empty(200);
    assert!(work.is_merged(number).await);
    refused_for(work.merge(number, later()).await, 405, "ALREADY_MERGED");
}

async fn a_scheduled_merge_is_taken_back(cluster: &Cluster) {
    let (work, number) = checked(cluster, "back").await;
    let path = work.pull_path(number, "/merge");
    refused_for(work.owner.delete(&path).await, 404, "MERGE_NOT_SCHEDULED");
    schedule(&work, &work.owner, number, &later()).await;
    work.owner.delete(&path).await.expect(204);
    is_cancelled(&work, number, "").await;
    refused_for(work.owner.delete(&path).await, 404, "MERGE_NOT_SCHEDULED");
    // Closing takes it back as well, and so does another base, which may require less.
    schedule(&work, &work.owner, number, &later()).await;
    work.edit(number, json!({"state": "closed"})).await;
    work.edit(number, json!({"state": "open"})).await;
    assert_eq!(work.pull(number).await["scheduled_merge"], Value::Null);
    let cancelled = ("merge_cancelled".to_owned(), json!("the pull request was closed"));
    assert!(actions(&work, number).await.contains(&cancelled));
    work.push("main:refs/heads/open").await;
    schedule(&work, &work.owner, number, &later()).await;
    work.edit(number, json!({"base": "open"})).await;
    is_cancelled(&work, number, "the base was changed").await;
}

async fn a_scheduled_merge_goes_with_the_rights_of_its_user(cluster: &Cluster) {
    let (work, number) = checked(cluster, "rights").await;
    let bob = writer(&work, cluster, "bob").await;
    schedule(&work, &bob, number, &later()).await;
    let collaborator = work.path(&format!("/collaborators/{}", bob.name));
    work.owner.put(&collaborator, &json!({"permission": "read"})).await.expect(204);
    succeed(&work, number).await;
    is_cancelled(&work, number, "its access token can no longer merge").await;
    // A style that is not allowed any more.
    let head = work.push_commit("topic", "more", "more\n").await;
    work.head_becomes(number, &head).await;
    schedule(&work, &work.owner, number, &later()).await;
    work.owner
        .patch(&work.path(""), &json!({"allow_merge_commits": false, "default_merge_style": "squash"}))
        .await
        .expect(200);
    succeed(&work, number).await;
    is_cancelled(&work, number, "the settings no longer allow this style of merging").await;
}

async fn a_merge_that_is_scheduled_within_a_session_outlives_it(cluster: &Cluster) {
    let (work, number) = checked(cluster, "session").await;
    let bob = writer(&work, cluster, "bob").await;
    let (signed_in, session) = sign_in(cluster, &bob).await;
    schedule(&work, &signed_in, number, &later()).await;
    bob.delete(&format!("/user/sessions/{session}")).await.empty(204);
    signed_in.get("/user").await.refused(401);
    succeed(&work, number).await;
    work.poll(number, SETTLE_TIMEOUT, |pull| pull["merged"] == true).await;
    assert_eq!(work.pull(number).await["merged_by"]["login"], bob.name);

    // It does not outlive the right.
    let (work, number) = checked(cluster, "lost").await;
    let bob = writer(&work, cluster, "bob").await;
    schedule(&work, &sign_in(cluster, &bob).await.0, number, &later()).await;
    let collaborator = work.path(&format!("/collaborators/{}", bob.name));
    work.owner.put(&collaborator, &json!({"permission": "read"})).await.expect(204);
    succeed(&work, number).await;
    is_cancelled(&work, number, "its user can no longer merge").await;
}

async fn a_scheduled_merge_is_of_one_head_if_it_says_so(cluster: &Cluster) {
    let (work, number) = checked(cluster, "head").await;
    let head = work.pull(number).await["head"]["sha"].clone();
    let body = json!({"Do": "merge", "merge_when_checks_succeed": true, "head_commit_id": head});
    schedule(&work, &work.owner, number, &body).await;
    work.push_commit("topic", "more", "more\n").await;
    is_cancelled(&work, number, "the head has moved").await;
    // Without one it is of the newest.
    schedule(&work, &work.owner, number, &later()).await;
    let head = work.push_commit("topic", "last", "last\n").await;
    work.head_becomes(number, &head).await;
    succeed(&work, number).await;
    work.poll(number, SETTLE_TIMEOUT, |pull| pull["merged"] == true).await;
    assert_eq!(work.pull(number).await["head"]["sha"], json!(head));
}
