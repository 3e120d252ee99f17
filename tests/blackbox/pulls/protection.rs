//! Branch protection and merges: who merges into a protected branch, and what has to be there
//! before.

use serde_json::{Value, json};

use super::{Work, refused_for};
use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        a_branch_that_takes_no_pushes_takes_merges
        required_checks_of_the_head_hold_a_merge_back
    }
    embedded {
        only_those_on_the_list_merge
        a_head_that_is_behind_waits_for_its_update
        approvals_are_for_merges_and_not_for_pushes
        settings_of_merges_are_shown_as_they_were_set
        settings_of_reviews_are_shown_as_they_were_set
    }
}

pub(super) async fn protect(work: &Work, rule: Value) {
    let mut body = json!({"rule_name": "main"});
    body.as_object_mut().unwrap().extend(rule.as_object().cloned().unwrap());
    work.owner.post(&work.path("/branch_protections"), &body).await.expect(201);
}

/// Fails unless the protection of the branch refused a merge.
#[track_caller]
pub(super) fn held_back(response: Response) {
    let response = response.refused(405);
    let reason = response.json()["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains("PROTECTED"), "{}", response.text());
}

pub(super) async fn writer(work: &Work, cluster: &Cluster, stem: &str) -> User {
    let user = cluster.user(stem).await;
    work.owner.share(&work.repo, &user, "write").await;
    user
}

async fn a_branch_that_takes_no_pushes_takes_merges(cluster: &Cluster) {
    let work = Work::new(cluster, "closed").await;
    let bob = writer(&work, cluster, "bob").await;
    let (first, second) = (work.open("first").await, work.open("second").await);
    protect(&work, json!({"enable_push": false})).await;
    work.run(&["checkout", "-q", "-b", "direct"]).await;
    work.git.commit("work", "direct", "x").await;
    let refused = work.git.fails("work", &["push", "origin", "direct:main"]).await;
    assert!(refused.contains("protected branch"), "{refused}");
    work.owner.put(&work.path("/contents/x"), &json!({"message": "m", "content": "eA=="})).await.refused(403);
    // A pull request is the way in, also for those who could not push if pushes were on.
    work.merge_by(&bob, first, &json!({"Do": "squash"})).await.empty(200);
    work.owner
        .patch(
            &work.path("/branch_protections/main"),
            &json!({
                "enable_push": true, "enable_push_whitelist": true, "push_whitelist_usernames": [work.owner.name],
            }),
        )
        .await
        .expect(200);
    work.merge_by(&bob, second, &json!({"Do": "rebase"})).await.empty(200);
    work.fetch().await;
    assert_eq!(work.count("main", "origin/main").await, 2);
}

async fn required_checks_of_the_head_hold_a_merge_back(cluster: &Cluster) {
    let work = Work::new(cluster, "checked").await;
    let number = work.open("topic").await;
    let head = work.tip("topic").await;
    protect(&work, json!({"enable_status_check": true, "status_check_contexts": ["ci/*"]})).await;
    let report = async |commit: &str, state: &str| {
        let path = work.path(&format!("/statuses/{commit}"));
        work.owner.post(&path, &json!({"state": state, "context": "ci/build"})).await.expect(201);
    };
    let base = work.tip("main").await;
    held_back(work.merge(number, json!({})).await);
    for state in ["pending", "failure"] {
        report(&head, state).await;
        held_back(work.merge(number, json!({})).await);
    }
    report(&head, "success").await;
    // A new head has no checks yet.
    let newer = work.push_commit("topic", "more", "x\n").await;
    work.head_becomes(number, &newer).await;
    held_back(work.merge(number, json!({})).await);
    assert_eq!(work.tip("main").await, base);
    report(&newer, "success").await;
    work.merge(number, json!({"Do": "merge"})).await.empty(200);
}

async fn only_those_on_the_list_merge(cluster: &Cluster) {
    let work = Work::new(cluster, "listed").await;
    let (bob, carol) = (writer(&work, cluster, "bob").await, writer(&work, cluster, "carol").await);
    let (first, second) = (work.open("first").await, work.open("second").await);
    protect(&work, json!({"enable_merge_whitelist": true, "merge_whitelist_usernames": [carol.name]})).await;
    for later in [false, true] {
        let body = json!({"merge_when_checks_succeed": later});
        refused_for(work.merge_by(&bob, first, &body).await, 405, "MERGE_FORBIDDEN");
    }
    work.merge_by(&carol, first, &json!({})).await.empty(200);
    // Owners always may.
    work.merge(second, json!({})).await.empty(200);
    assert!(work.is_merged(first).await && work.is_merged(second).await);
}

async fn a_head_that_is_behind_waits_for_its_update(cluster: &Cluster) {
    let work = Work::new(cluster, "behind").await;
    let number = work.open("topic").await;
    protect(&work, json!({"block_on_outdated_branch": true})).await;
    work.push_commit("main", "newer", "x\n").await;
    held_back(work.merge(number, json!({})).await);
    work.owner.post(&work.pull_path(number, "/update"), &json!({})).await.empty(200);
    let head = work.tip("topic").await;
    work.head_becomes(number, &head).await;
    work.merge(number, json!({"head_commit_id": head})).await.empty(200);
}

async fn approvals_are_for_merges_and_not_for_pushes(cluster: &Cluster) {
    let work = Work::new(cluster, "approved").await;
    let number = work.open("topic").await;
    protect(&work, json!({"required_approvals": 2, "block_on_rejected_reviews": true})).await;
    let refused = work.merge(number, json!({})).await;
    assert!(refused.text().contains("0 of 2 required approvals"), "{}", refused.text());
    held_back(refused);
    work.push_commit("main", "direct", "x\n").await;
    let none = json!({"required_approvals": 0});
    work.owner.patch(&work.path("/branch_protections/main"), &none).await.expect(200);
    work.merge(number, json!({})).await.empty(200);
}

async fn settings_of_merges_are_shown_as_they_were_set(cluster: &Cluster) {
    let work = Work::new(cluster, "shown").await;
    let bob = writer(&work, cluster, "bob").await;
    let rule = work.path("/branch_protections/main");
    protect(
        &work,
        json!({
            "enable_merge_whitelist": true, "merge_whitelist_usernames": [bob.name], "block_on_outdated_branch": true,
        }),
    )
    .await;
    let shown = work.owner.get(&rule).await.expect(200).json();
    assert_eq!(
        (&shown["enable_merge_whitelist"], &shown["merge_whitelist_usernames"]),
        (&json!(true), &json!([bob.name]))
    );
    assert_eq!((&shown["block_on_outdated_branch"], &shown["enable_push"]), (&json!(true), &json!(true)));
    // A change keeps what it does not name.
    let changed = work.owner.patch(&rule, &json!({"enable_push": false})).await.expect(200).json();
    assert_eq!(changed["merge_whitelist_usernames"], json!([bob.name]));
    let off = json!({"enable_merge_whitelist": false, "merge_whitelist_usernames": []});
    let changed = work.owner.patch(&rule, &off).await.expect(200).json();
    assert_eq!(
        (&changed["enable_merge_whitelist"], &changed["merge_whitelist_usernames"]),
        (&json!(false), &json!([]))
    );
    let unknown = json!({"enable_merge_whitelist": true, "merge_whitelist_usernames": ["never-was"]});
    work.owner.patch(&rule, &unknown).await.refused_field("merge_whitelist_usernames");
    work.owner.patch(&rule, &json!({"merge_whitelist_teams": ["x"]})).await.refused_field("merge_whitelist_teams");
}

async fn settings_of_reviews_are_shown_as_they_were_set(cluster: &Cluster) {
    let work = Work::new(cluster, "reviewed").await;
    let bob = writer(&work, cluster, "bob").await;
    let rule = work.path("/branch_protections/main");
    protect(&work, json!({"enable_push": false})).await;
    let list = "approvals_whitelist_username";
    let reviews = json!({
        "required_approvals": 2, "enable_approvals_whitelist": true, list: [bob.name],
        "block_on_rejected_reviews": true, "block_on_official_review_requests": true,
        "dismiss_stale_approvals": true, "ignore_stale_approvals": true,
    });
    work.owner.patch(&rule, &reviews).await.expect(200);
    let shown = work.owner.get(&rule).await.expect(200).json();
    for (name, value) in reviews.as_object().unwrap() {
        assert_eq!(&shown[name], value, "{name}");
    }
    assert_eq!(shown["enable_push"], json!(false));
    for (body, field) in [
        (json!({list: []}), list),
        (json!({"enable_approvals_whitelist": true, list: ["never-was"]}), list),
        (json!({"required_approvals": 51}), "required_approvals"),
        (json!({"required_approvals": -1}), "required_approvals"),
        (json!({"approvals_whitelist_teams": ["x"]}), "approvals_whitelist_teams"),
    ] {
        work.owner.patch(&rule, &body).await.refused_field(field);
    }
    let off = json!({"enable_approvals_whitelist": false});
    assert_eq!(work.owner.patch(&rule, &off).await.expect(200).json()[list], json!([]));
}
