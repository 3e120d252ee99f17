//! What decides whether a pull request is merged, and what a merge leaves behind.

use reqwest::Method;
use serde_json::json;

use super::{FILE, SETTLE_TIMEOUT, Work, is_commit, refused_for, text};
use crate::harness::{Cluster, Response};

on_profiles! {
    both {
        a_conflict_is_named_and_refused_until_it_is_solved
        only_the_head_that_was_meant_is_merged
        a_repeated_merge_with_its_key_is_one
    }
    embedded {
        what_cannot_be_merged_is_refused_with_the_reason
        only_allowed_styles_merge
        the_branch_goes_after_a_merge_where_asked_for
        a_merge_without_a_body_is_a_merge_commit
        a_merge_made_by_hand_is_marked_with_its_commit
    }
}

async fn a_conflict_is_named_and_refused_until_it_is_solved(cluster: &Cluster) {
    let work = Work::new(cluster, "conflict").await;
    work.push_commit("topic", FILE, &text(4, "by the head")).await;
    let number = work.open_from("topic", "main").await;
    let conflicts = async || work.owner.get(&work.pull_path(number, "/conflicts")).await.expect(200).json();
    assert_eq!(conflicts().await["files"], json!([]));
    let base = work.push_commit("main", FILE, &text(4, "by the base")).await;
    // The first response after the push is about the new base.
    let pull = work.pull(number).await;
    assert_eq!(pull["mergeable"], false, "{pull}");
    assert!(is_commit(&pull["base"]["sha"], &base), "{pull}");
    let found = conflicts().await;
    let file = &found["files"][0];
    assert_eq!((&file["path"], &file["kind"]), (&json!(FILE), &json!("content")), "{found}");
    assert_eq!(file["ranges"], json!([{"base": [5, 1], "ours": [5, 1], "theirs": [5, 1]}]), "{found}");
    for style in ["merge", "rebase", "rebase-merge", "squash"] {
        work.merge(number, json!({"Do": style})).await.refused_with_message(409, FILE);
    }
    assert_eq!(work.tip("main").await, base);
    assert!(!work.is_merged(number).await);
    work.run(&["checkout", "-q", "topic"]).await;
    work.git.fails("work", &["merge", "-q", "main"]).await;
    work.git.commit("work", FILE, &text(4, "by both")).await;
    let head = work.run(&["rev-parse", "HEAD"]).await;
    work.push("topic").await;
    assert_eq!(work.head_becomes(number, &head).await["mergeable"], true);
    assert_eq!(conflicts().await["files"], json!([]));
    work.merge(number, json!({})).await.empty(200);
    work.fetch().await;
    assert_eq!(work.tree("origin/main").await, work.tree("topic").await);
}

async fn only_the_head_that_was_meant_is_merged(cluster: &Cluster) {
    let work = Work::new(cluster, "guarded").await;
    let number = work.open("topic").await;
    let (seen, base) = (work.tip("topic").await, work.tip("main").await);
    let head = work.push_commit("topic", "more", "more\n").await;
    work.head_becomes(number, &head).await;
    work.merge(number, json!({"Do": "merge", "head_commit_id": seen})).await.refused(409);
    work.merge(number, json!({"Do": "merge", "head_commit_id": "main"})).await.refused_any(&[409, 422]);
    assert_eq!(work.tip("main").await, base);
    work.merge(number, json!({"Do": "merge", "head_commit_id": head})).await.empty(200);
}

async fn a_repeated_merge_with_its_key_is_one(cluster: &Cluster) {
    let work = Work::new(cluster, "keyed").await;
    let number = work.open("topic").await;
    let send = async |key: &str| {
        let request = work.owner.request(Method::POST, &work.pull_path(number, "/merge"));
        Response::of(request.header("idempotency-key", key).json(&json!({"Do": "merge"}))).await
    };
    send("merge-it").await.empty(200);
    let tip = work.tip("main").await;
    send("merge-it").await.empty(200);
    refused_for(send("another").await, 405, "ALREADY_MERGED");
    assert_eq!(work.tip("main").await, tip);
    // Of another pull request it is another request, which neither merges nor deletes anything.
    let other = work.open("other").await;
    let body = json!({"Do": "merge", "delete_branch_after_merge": true});
    let request = work.owner.request(Method::POST, &work.pull_path(other, "/merge"));
    let reused = Response::of(request.header("idempotency-key", "merge-it").json(&body)).await;
    refused_for(reused, 422, "IDEMPOTENCY_KEY_REUSED");
    assert!(!work.is_merged(other).await);
    work.owner.get(&work.path("/branches/other")).await.expect(200);
    assert_eq!(work.tip("main").await, tip);
}

async fn what_cannot_be_merged_is_refused_with_the_reason(cluster: &Cluster) {
    let work = Work::new(cluster, "refused").await;
    let number = work.open("topic").await;
    work.edit(number, json!({"title": "[WIP] topic"})).await;
    refused_for(work.merge(number, json!({})).await, 405, "IS_DRAFT");
    work.edit(number, json!({"title": "topic", "state": "closed"})).await;
    work.merge(number, json!({})).await.refused(404);
    work.edit(number, json!({"state": "open"})).await;
    for (body, field) in [
        (json!({"Do": "octopus"}), "Do"),
        (json!({"Do": 7}), "Do"),
        (json!({"Do": "merge", "merge_when_checks_succeed": "yes"}), "merge_when_checks_succeed"),
        (json!({"Do": "merge", "delete_branch_after_merge": "yes"}), "delete_branch_after_merge"),
    ] {
        work.merge(number, body).await.refused_field(field);
    }
    let base = work.tip("main").await;
    work.merge(number, json!({"Do": "manually-merged"})).await.refused_field("MergeCommitID");
    let by_hand = json!({"Do": "manually-merged", "MergeCommitID": base});
    refused_for(work.merge(number, by_hand).await, 405, "STYLE_NOT_ALLOWED");
    work.merge(number, json!({"Do": ""})).await.empty(200);
    assert_ne!(work.tip("main").await, base);
    refused_for(work.merge(number, json!({})).await, 405, "ALREADY_MERGED");
    work.owner.patch(&work.pull_path(number, ""), &json!({"state": "open"})).await.refused(412);
    work.owner.patch(&work.pull_path(number, ""), &json!({"state": "closed"})).await.refused(412);
    assert_eq!(work.edit(number, json!({"title": "Later"})).await["title"], "Later");
    work.merge(number + 1, json!({})).await.refused(404);
    // A base that is gone.
    work.push("main:gone").await;
    work.push_commit("other", "other", "x\n").await;
    let number = work.open_from("other", "gone").await;
    work.push(":gone").await;
    assert_eq!(work.pull(number).await["mergeable"], false);
    work.merge(number, json!({})).await.refused_any(&[404, 405, 409]);
}

async fn only_allowed_styles_merge(cluster: &Cluster) {
    let work = Work::new(cluster, "allowed").await;
    let number = work.open("topic").await;
    let off = json!({"allow_squash_merge": false, "allow_merge_commits": false, "default_merge_style": "rebase"});
    let shown = work.owner.patch(&work.repo, &off).await.expect(200).json();
    assert_eq!(
        (&shown["allow_squash_merge"], &shown["allow_merge_commits"], &shown["allow_rebase"]),
        (&json!(false), &json!(false), &json!(true))
    );
    assert_eq!((&shown["default_merge_style"], &shown["allow_rebase_explicit"]), (&json!("rebase"), &json!(true)));
    for style in ["squash", "merge"] {
        refused_for(work.merge(number, json!({"Do": style})).await, 405, "STYLE_NOT_ALLOWED");
    }
    work.merge(number, json!({"Do": "rebase"})).await.empty(200);
    // What is merged is refused as that, whatever the settings allow.
    for style in ["squash", "rebase", "manually-merged"] {
        let again = json!({"Do": style, "MergeCommitID": "0".repeat(40)});
        refused_for(work.merge(number, again).await, 405, "ALREADY_MERGED");
    }
    let none = json!({"allow_rebase": false, "allow_rebase_explicit": false, "allow_fast_forward_only_merge": false});
    work.owner.patch(&work.repo, &none).await.refused(422);
    let unknown = json!({"default_merge_style": "octopus"});
    work.owner.patch(&work.repo, &unknown).await.refused_field("default_merge_style");
}

async fn the_branch_goes_after_a_merge_where_asked_for(cluster: &Cluster) {
    let work = Work::new(cluster, "cleaned").await;
    let branch = async |name: &str| work.owner.get(&work.path(&format!("/branches/{name}"))).await.status.as_u16();
    let (asked, kept) = (work.open("asked").await, work.open("kept").await);
    let head = work.tip("asked").await;
    work.merge(asked, json!({"Do": "merge", "delete_branch_after_merge": true})).await.empty(200);
    work.merge(kept, json!({"Do": "merge"})).await.empty(200);
    assert_eq!((branch("asked").await, branch("kept").await), (404, 200));
    let pull = work.poll(asked, SETTLE_TIMEOUT, |pull| pull["head"]["ref"] == format!("refs/pull/{asked}/head")).await;
    assert_eq!(pull["head"]["label"], "asked");
    assert!(is_commit(&pull["head"]["sha"], &head), "{pull}");
    let setting = json!({"default_delete_branch_after_merge": true});
    let shown = work.owner.patch(&work.repo, &setting).await.expect(200).json();
    assert_eq!(shown["default_delete_branch_after_merge"], true);
    let (by_default, spared) = (work.open("by-default").await, work.open("spared").await);
    work.merge(by_default, json!({})).await.empty(200);
    work.merge(spared, json!({"delete_branch_after_merge": false})).await.empty(200);
    assert_eq!((branch("by-default").await, branch("spared").await), (404, 200));
    // A branch that another open pull request has stays.
    let shared = work.open("shared").await;
    work.push_commit("next", "next", "x\n").await;
    let other = work.open_from("shared", "next").await;
    assert_eq!(work.requirements(&work.owner, shared).await["head_shared"], true);
    work.merge(shared, json!({"delete_branch_after_merge": true})).await.empty(200);
    assert_eq!(branch("shared").await, 200);
    work.poll(shared, SETTLE_TIMEOUT, |pull| pull["merged"] == true).await;
    assert_eq!(work.requirements(&work.owner, other).await["head_shared"], false);
    work.merge(other, json!({})).await.empty(200);
    assert_eq!(branch("shared").await, 404);
    // A protected branch stays, and the merge succeeds all the same.
    let safe = work.open("safe").await;
    work.owner.put(&work.path("/branch_protections/safe"), &json!({})).await.expect(201);
    work.merge(safe, json!({"delete_branch_after_merge": true})).await.empty(200);
    assert_eq!(branch("safe").await, 200);
}

async fn a_merge_without_a_body_is_a_merge_commit(cluster: &Cluster) {
    let work = Work::new(cluster, "bare").await;
    let number = work.open("topic").await;
    let request = work.owner.request(Method::POST, &work.pull_path(number, "/merge"));
    Response::of(request).await.empty(200);
    work.fetch().await;
    assert_eq!(work.run(&["log", "-1", "--format=%P", "origin/main"]).await.split(' ').count(), 2);
}

async fn a_merge_made_by_hand_is_marked_with_its_commit(cluster: &Cluster) {
    let (work, bob) = (Work::new(cluster, "marked").await, cluster.user("bob").await);
    work.owner.share(&work.repo, &bob, "write").await;
    work.owner.new_issue(&work.repo, "Broken", json!({})).await;
    let number = work.open("topic").await;
    work.edit(number, json!({"body": "Closes #1"})).await;
    let head = work.tip("topic").await;
    // Rebased by hand: the base has the change, but not the commit of the head.
    work.run(&["commit", "-q", "--allow-empty", "-m", "Before"]).await;
    work.run(&["cherry-pick", "topic"]).await;
    let commit = work.run(&["rev-parse", "HEAD"]).await;
    let by_hand = |commit: &str| json!({"Do": "manually-merged", "MergeCommitID": commit, "head_commit_id": head});
    refused_for(work.merge_by(&bob, number, &by_hand(&commit)).await, 405, "STYLE_NOT_ALLOWED");
    let on = json!({"allow_manual_merge": true});
    assert_eq!(work.owner.patch(&work.repo, &on).await.expect(200).json()["allow_manual_merge"], true);
    for missing in [commit.as_str(), head.as_str(), "", "main", &"0".repeat(40)] {
        work.merge_by(&bob, number, &by_hand(missing)).await.refused_field("MergeCommitID");
    }
    work.push("main").await;
    let other = json!({"Do": "manually-merged", "MergeCommitID": commit, "head_commit_id": commit});
    refused_for(work.merge_by(&bob, number, &other).await, 409, "HEAD_MOVED");
    assert!(!work.is_merged(number).await);
    let reader = cluster.user("eve").await;
    work.merge_by(&reader, number, &by_hand(&commit)).await.refused(403);

    let base = work.tip("main").await;
    work.merge_by(&bob, number, &by_hand(&commit)).await.empty(200);
    let pull = work.pull(number).await;
    let found = (&pull["state"], &pull["merged"], &pull["merged_by"]["login"]);
    assert_eq!(found, (&json!("closed"), &json!(true), &json!(bob.name)));
    assert!(is_commit(&pull["merge_commit_sha"], &commit) && is_commit(&pull["head"]["sha"], &head), "{pull}");
    assert!(work.is_merged(number).await);
    refused_for(work.merge_by(&bob, number, &by_hand(&commit)).await, 405, "ALREADY_MERGED");
    assert_eq!(work.tip("main").await, base);
    let issue = format!("{}/issues/1", work.repo);
    work.owner.eventually(&issue, |issue| issue["state"] == "closed").await;
    // A closed one, and one whose base is gone.
    let closed = work.open("other").await;
    work.edit(closed, json!({"state": "closed"})).await;
    let body = json!({"Do": "manually-merged", "MergeCommitID": commit});
    work.merge(closed, body.clone()).await.refused(404);
    work.push("main:gone").await;
    let based = work.open_from("other", "gone").await;
    work.push(":gone").await;
    work.merge(based, body).await.refused_any(&[404, 422]);
}
