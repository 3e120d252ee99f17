//! Branch protection by reviews: required approvals, rejections and open requests.

use serde_json::{Value, json};

use super::Work;
use super::protection::{held_back, protect, writer};
use crate::harness::{Cluster, User};

on_profiles! {
    both {
        required_approvals_hold_a_merge_back
        a_push_to_the_head_can_cost_its_approvals
    }
    embedded {
        only_the_latest_judgement_of_those_who_write_counts
        only_those_on_the_list_approve
        a_rejection_holds_a_merge_back
        an_open_request_holds_a_merge_back
        the_rule_of_the_base_counts_when_it_is_merged
        a_change_of_the_base_costs_the_approvals
        a_deleted_verdict_brings_no_earlier_one_back
    }
}

/// A repository whose `main` is protected, with a pull request, and two users who can write.
async fn protected(cluster: &Cluster, name: &str, rule: Value) -> (Work, i64, User, User) {
    let work = Work::new(cluster, name).await;
    let (bob, carol) = (writer(&work, cluster, "bob").await, writer(&work, cluster, "carol").await);
    let number = work.open("topic").await;
    protect(&work, rule).await;
    (work, number, bob, carol)
}

async fn approve(work: &Work, user: &User, number: i64) -> Value {
    work.review(user, number, json!({"event": "APPROVED"})).await
}

async fn reject(work: &Work, user: &User, number: i64) -> Value {
    work.review(user, number, json!({"event": "REQUEST_CHANGES", "body": "Not yet"})).await
}

async fn dismiss(work: &Work, number: i64, review: &Value) {
    let path = work.review_path(number, review, "/dismissals");
    work.owner.post(&path, &json!({"message": "Too early"})).await.expect(200);
}

async fn is_held_back(work: &Work, number: i64) {
    let missing = work.missing(&work.owner, number).await;
    assert!(missing.iter().any(|(_, reason)| reason == "PROTECTED_BRANCH"), "{missing:?}");
    held_back(work.merge(number, json!({"Do": "merge"})).await);
}

async fn merges(work: &Work, number: i64) {
    let missing = work.missing(&work.owner, number).await;
    assert!(missing.is_empty(), "{missing:?}");
    work.merge(number, json!({"Do": "merge"})).await.empty(200);
}

async fn required_approvals_hold_a_merge_back(cluster: &Cluster) {
    let (work, number, bob, carol) = protected(cluster, "approved", json!({"required_approvals": 2})).await;
    let base = work.tip("main").await;
    let is_missing = async |message: &str| {
        work.merge(number, json!({})).await.refused_with_message(405, message);
    };
    is_missing("0 of 2 required approvals").await;
    approve(&work, &bob, number).await;
    is_missing("1 of 2 required approvals").await;
    // The same user does not count twice, a reader does not count, and what is pending is not said.
    approve(&work, &bob, number).await;
    let outsider = cluster.outsider().await;
    let approval = approve(&work, &outsider, number).await;
    work.review(&carol, number, json!({"body": "Draft"})).await;
    work.review(&carol, number, json!({"event": "COMMENT", "body": "Hm"})).await;
    is_missing("1 of 2 required approvals").await;
    // It counts once its author can write, and as long as that holds.
    for (permission, names) in [("write", vec![&bob.name, &outsider.name]), ("read", vec![&bob.name])] {
        work.owner.share(&work.repo, &outsider, permission).await;
        let needed = work.requirements(&work.owner, number).await;
        let counted = needed["counted_reviewers"].as_array().unwrap().iter();
        let mut counted: Vec<_> = counted.map(|user| user["login"].as_str().unwrap()).collect();
        counted.sort_unstable_by_key(|name| *name != bob.name);
        assert_eq!(counted, names, "{permission}");
        assert_eq!(work.shown(number, &approval).await["official"], false);
    }
    is_missing("1 of 2 required approvals").await;
    assert_eq!(work.tip("main").await, base);
    approve(&work, &carol, number).await;
    merges(&work, number).await;
    assert!(work.is_merged(number).await);
}

async fn a_push_to_the_head_can_cost_its_approvals(cluster: &Cluster) {
    let rule = json!({"required_approvals": 1, "dismiss_stale_approvals": true});
    let (work, number, bob, carol) = protected(cluster, "stale", rule).await;
    let approval = approve(&work, &bob, number).await;
    reject(&work, &carol, number).await;
    let push = async |file: &str| {
        let head = work.push_commit("topic", file, "x\n").await;
        work.head_becomes(number, &head).await;
    };
    push("one").await;
    let shown = work.shown(number, &approval).await;
    assert_eq!((&shown["dismissed"], &shown["stale"]), (&json!(true), &json!(true)), "{shown}");
    let reviews = work.owner.get(&work.pull_path(number, "/reviews")).await.expect(200).json();
    assert_eq!(reviews[1]["dismissed"], false, "a rejection stays");
    is_held_back(&work, number).await;
    // Approvals that are ignored are kept.
    let rule = work.path("/branch_protections/main");
    let ignoring = json!({"dismiss_stale_approvals": false, "ignore_stale_approvals": true});
    work.owner.patch(&rule, &ignoring).await.expect(200);
    let approval = approve(&work, &bob, number).await;
    push("two").await;
    let shown = work.shown(number, &approval).await;
    assert_eq!((&shown["dismissed"], &shown["stale"]), (&json!(false), &json!(true)), "{shown}");
    is_held_back(&work, number).await;
    // Without either they count.
    work.owner.patch(&rule, &json!({"ignore_stale_approvals": false})).await.expect(200);
    merges(&work, number).await;
}

async fn only_the_latest_judgement_of_those_who_write_counts(cluster: &Cluster) {
    let (work, number, bob, carol) = protected(cluster, "latest", json!({"required_approvals": 1})).await;
    approve(&work, &bob, number).await;
    let rejection = reject(&work, &bob, number).await;
    is_held_back(&work, number).await;
    // A dismissal does not bring an earlier one back.
    dismiss(&work, number, &rejection).await;
    is_held_back(&work, number).await;
    let approval = approve(&work, &bob, number).await;
    work.review(&bob, number, json!({"event": "COMMENT", "body": "One more thing"})).await;
    dismiss(&work, number, &approval).await;
    is_held_back(&work, number).await;
    let undismissals = work.review_path(number, &approval, "/undismissals");
    work.owner.post(&undismissals, &json!({})).await.expect(200);
    // Who may no longer write counts no longer, from that moment on.
    let collaborator = work.path(&format!("/collaborators/{}", bob.name));
    work.owner.put(&collaborator, &json!({"permission": "read"})).await.expect(204);
    is_held_back(&work, number).await;
    work.owner.put(&collaborator, &json!({"permission": "write"})).await.expect(204);
    work.merge_by(&carol, number, &json!({})).await.empty(200);
}

async fn only_those_on_the_list_approve(cluster: &Cluster) {
    let (work, number, bob, carol) = protected(cluster, "listed", json!({})).await;
    let rule = work.path("/branch_protections/main");
    let listed = json!({
        "required_approvals": 1, "enable_approvals_whitelist": true, "approvals_whitelist_username": [carol.name],
    });
    let shown = work.owner.patch(&rule, &listed).await.expect(200).json();
    for name in ["required_approvals", "enable_approvals_whitelist", "approvals_whitelist_username"] {
        assert_eq!(shown[name], listed[name], "{name}");
    }
    work.owner
        .patch(&rule, &json!({"approvals_whitelist_teams": ["x"]}))
        .await
        .refused_field("approvals_whitelist_teams");
    work.owner.patch(&rule, &json!({"required_approvals": -1})).await.refused_field("required_approvals");
    approve(&work, &bob, number).await;
    is_held_back(&work, number).await;
    approve(&work, &carol, number).await;
    merges(&work, number).await;
}

async fn a_rejection_holds_a_merge_back(cluster: &Cluster) {
    let (work, number, bob, carol) = protected(cluster, "rejected", json!({"block_on_rejected_reviews": true})).await;
    // That of a reader does not.
    reject(&work, &cluster.outsider().await, number).await;
    let (first, second) = (reject(&work, &bob, number).await, reject(&work, &carol, number).await);
    is_held_back(&work, number).await;
    dismiss(&work, number, &first).await;
    is_held_back(&work, number).await;
    // It is about the pull request, not only about a commit of it.
    let head = work.push_commit("topic", "more", "x\n").await;
    work.head_becomes(number, &head).await;
    assert_eq!(work.shown(number, &second).await["stale"], true);
    is_held_back(&work, number).await;
    approve(&work, &carol, number).await;
    merges(&work, number).await;
}

async fn an_open_request_holds_a_merge_back(cluster: &Cluster) {
    let (work, number, bob, _) =
        protected(cluster, "requested", json!({"block_on_official_review_requests": true})).await;
    let asking = work.pull_path(number, "/requested_reviewers");
    let reader = cluster.outsider().await;
    work.owner.post(&asking, &json!({"reviewers": [reader.name, bob.name]})).await.expect(201);
    is_held_back(&work, number).await;
    work.review(&bob, number, json!({"event": "COMMENT", "body": "Fine"})).await;
    // The reader may take their time.
    merges(&work, number).await;
}

async fn the_rule_of_the_base_counts_when_it_is_merged(cluster: &Cluster) {
    let (work, number, bob, _) = protected(cluster, "based", json!({})).await;
    work.push("main:other").await;
    let other = work.open_from("topic", "other").await;
    let rule = work.path("/branch_protections/main");
    work.owner.patch(&rule, &json!({"required_approvals": 1})).await.expect(200);
    is_held_back(&work, number).await;
    merges(&work, other).await;
    let second = work.open("second").await;
    approve(&work, &bob, second).await;
    work.owner.patch(&rule, &json!({"required_approvals": 2})).await.expect(200);
    is_held_back(&work, second).await;
    work.owner.patch(&rule, &json!({"required_approvals": 0})).await.expect(200);
    merges(&work, second).await;
}

async fn a_change_of_the_base_costs_the_approvals(cluster: &Cluster) {
    let (work, _, bob, _) = protected(cluster, "moved", json!({"required_approvals": 1})).await;
    // What `side` has is not among the changes that are approved.
    work.push_commit("side", "unreviewed", "x\n").await;
    let number = work.open_from("topic", "side").await;
    let approval = approve(&work, &bob, number).await;
    work.edit(number, json!({"base": "side", "title": "same base"})).await;
    assert_eq!(work.shown(number, &approval).await["dismissed"], false);
    work.owner.patch(&work.pull_path(1, ""), &json!({"state": "closed"})).await.expect(201);
    work.edit(number, json!({"base": "main"})).await;
    assert_eq!(work.shown(number, &approval).await["dismissed"], true);
    is_held_back(&work, number).await;
    approve(&work, &bob, number).await;
    merges(&work, number).await;
}

async fn a_deleted_verdict_brings_no_earlier_one_back(cluster: &Cluster) {
    let (work, number, bob, _) = protected(cluster, "deleted", json!({"required_approvals": 1})).await;
    approve(&work, &bob, number).await;
    let second = approve(&work, &bob, number).await;
    dismiss(&work, number, &second).await;
    is_held_back(&work, number).await;
    bob.delete(&work.review_path(number, &second, "")).await.expect(204);
    is_held_back(&work, number).await;
}
