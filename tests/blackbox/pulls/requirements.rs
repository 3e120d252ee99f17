//! The requirements of merges, which everybody reads who reads the pull request, beside the responses of the merges.

use serde_json::{Value, json};

use super::protection::{protect, writer};
use super::{FILE, Work, text};
use crate::harness::{Cluster, User};

on_profiles! {
    both {
        readers_are_told_what_a_merge_is_refused_for
    }
    embedded {
        what_git_and_the_settings_say_is_told_too
    }
}

impl Work {
    /// What a merge by a user needs.
    pub(super) async fn requirements(&self, user: &User, number: i64) -> Value {
        user.get(&self.pull_path(number, "/merge-requirements")).await.expect(200).json()
    }

    /// The kinds and reasons of what is missing.
    pub(super) async fn missing(&self, user: &User, number: i64) -> Vec<(String, String)> {
        let shown = self.requirements(user, number).await;
        let all = shown["requirements"].as_array().unwrap_or_else(|| panic!("no list: {shown}")).clone();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let missing: Vec<_> = all.iter().filter(|one| one["met"] == false).collect();
        assert_eq!(shown["can_merge"], missing.is_empty(), "{shown}");
        missing.into_iter().map(|one| (text(&one["kind"]), text(&one["reason"]))).collect()
    }
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(kind, reason)| ((*kind).to_owned(), (*reason).to_owned())).collect()
}

async fn readers_are_told_what_a_merge_is_refused_for(cluster: &Cluster) {
    let work = Work::new(cluster, "needs").await;
    let (bob, reader) = (writer(&work, cluster, "bob").await, cluster.outsider().await);
    let number = work.open("topic").await;
    assert_eq!(work.missing(&work.owner, number).await, pairs(&[]));
    assert_eq!(work.missing(&reader, number).await, pairs(&[("permission", "PERMISSION_REQUIRED")]));
    let anonymous = cluster.anonymous();
    assert_eq!(work.missing(&anonymous, number).await, pairs(&[("permission", "CREDENTIALS_REQUIRED")]));
    protect(
        &work,
        json!({
            "required_approvals": 1, "block_on_rejected_reviews": true, "block_on_official_review_requests": true,
            "enable_status_check": true, "status_check_contexts": ["ci"],
        }),
    )
    .await;
    let protected = |kinds: &[&str]| {
        kinds.iter().map(|kind| ((*kind).to_owned(), "PROTECTED_BRANCH".to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(work.missing(&bob, number).await, protected(&["check", "approvals"]));
    work.merge_by(&bob, number, &json!({})).await.refused_with_message(405, "`ci`");
    work.review(&bob, number, json!({"event": "REQUEST_CHANGES", "body": "Not yet"})).await;
    let asking = work.pull_path(number, "/requested_reviewers");
    let carol = writer(&work, cluster, "carol").await;
    work.owner.post(&asking, &json!({"reviewers": [carol.name]})).await.expect(201);
    let all = ["check", "approvals", "no_rejection", "requested_reviews"];
    assert_eq!(work.missing(&work.owner, number).await, protected(&all));
    let mut of_reader = pairs(&[("permission", "PERMISSION_REQUIRED")]);
    of_reader.extend(protected(&all));
    assert_eq!(work.missing(&reader, number).await, of_reader);
    let head = work.tip("topic").await;
    let status = json!({"state": "success", "context": "ci"});
    work.owner.post(&work.path(&format!("/statuses/{head}")), &status).await.expect(201);
    work.review(&bob, number, json!({"event": "APPROVED"})).await;
    work.review(&carol, number, json!({"event": "COMMENT", "body": "Fine"})).await;
    assert_eq!(work.missing(&work.owner, number).await, pairs(&[]));
    work.merge(number, json!({})).await.empty(200);
    assert_eq!(work.missing(&work.owner, number).await, pairs(&[("open", "ALREADY_MERGED")]));
}

async fn what_git_and_the_settings_say_is_told_too(cluster: &Cluster) {
    let work = Work::new(cluster, "fits").await;
    work.push_commit("topic", FILE, &text(9, "theirs")).await;
    let number = work.open_from("topic", "main").await;
    let only = json!({
        "allow_merge_commits": false, "allow_rebase": false, "allow_rebase_explicit": false, "allow_squash_merge": false,
        "allow_fast_forward_only_merge": true, "default_merge_style": "fast-forward-only",
    });
    work.owner.patch(&work.repo, &only).await.expect(200);
    let shown = work.requirements(&work.owner, number).await;
    assert_eq!((&shown["merge_styles"], &shown["behind"]), (&json!(["fast-forward-only"]), &json!(false)));
    assert_eq!(work.missing(&work.owner, number).await, pairs(&[]));
    work.push_commit("main", FILE, &text(9, "ours")).await;
    let expected = [("style", "NOT_FAST_FORWARD"), ("mergeable", "MERGE_CONFLICT")];
    assert_eq!(work.missing(&work.owner, number).await, pairs(&expected));
    assert_eq!(work.requirements(&work.owner, number).await["behind"], true);
    work.owner.patch(&work.repo, &json!({"allow_merge_commits": true})).await.expect(200);
    work.edit(number, json!({"title": "WIP: topic"})).await;
    let expected = [("ready", "IS_DRAFT"), ("mergeable", "MERGE_CONFLICT")];
    assert_eq!(work.missing(&work.owner, number).await, pairs(&expected));
    work.edit(number, json!({"title": "topic", "state": "closed"})).await;
    assert_eq!(work.missing(&work.owner, number).await, pairs(&[("open", "PULL_CLOSED")]));
    work.owner.get(&work.pull_path(99, "/merge-requirements")).await.refused(404);
    work.owner.patch(&work.repo, &json!({"has_pull_requests": false})).await.expect(200);
    work.owner.get(&work.pull_path(number, "/merge-requirements")).await.refused(404);
}
