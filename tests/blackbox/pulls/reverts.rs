//! Merges are undone by another pull request.

use reqwest::Method;
use serde_json::{Value, json};

use super::{Work, number_of, refused_for};
use crate::harness::{Cluster, Response};

on_profiles! {
    both {
        a_merge_is_reverted_by_a_pull_request
    }
    embedded {
        what_cannot_be_reverted_is_refused
    }
}

async fn a_merge_is_reverted_by_a_pull_request(cluster: &Cluster) {
    let work = Work::new(cluster, "undone").await;
    for style in ["merge", "squash", "rebase"] {
        let head = format!("by-{style}");
        let number = work.open(&head).await;
        let before = work.tip("main").await;
        work.merge(number, json!({"Do": style})).await.empty(200);
        let revert = work.pull_path(number, "/revert");
        let send = async || -> Value {
            let request = work.owner.request(Method::POST, &revert).header("idempotency-key", style);
            Response::of(request).await.expect(201).json()
        };
        let (made, repeated) = (send().await, send().await);
        let of_revert = number_of(&made);
        assert!(of_revert > number && number_of(&repeated) == of_revert, "{made}");
        let branch = format!("revert-{number}");
        assert_eq!(
            (&made["title"], &made["body"], &made["head"]["ref"], &made["base"]["ref"], &made["mergeable"]),
            (
                &json!(format!("Revert \"{head}\"")),
                &json!(format!("Reverts #{number}")),
                &json!(branch),
                &json!("main"),
                &json!(true)
            )
        );
        work.merge(of_revert, json!({"Do": "squash", "delete_branch_after_merge": true})).await.empty(200);
        assert_eq!(work.tip(&branch).await, "");
        work.fetch().await;
        assert_eq!(work.tree("origin/main").await, work.tree(&before).await, "{style}");
        let again = json!({"title": "Again", "branch": "again"});
        refused_for(work.owner.post(&revert, &again).await, 409, "NOTHING_TO_MERGE");
        // A revert is a pull request as any other.
        let back = json!({"title": "Bring it back", "body": "After all.", "branch": format!("back-{style}")});
        let back = work.owner.post(&work.pull_path(of_revert, "/revert"), &back).await.expect(201).json();
        assert_eq!((&back["title"], &back["body"]), (&json!("Bring it back"), &json!("After all.")));
        work.merge(number_of(&back), json!({"Do": "merge"})).await.empty(200);
        work.run(&["pull", "-q", "--ff-only", "origin", "main"]).await;
        assert_eq!(work.run(&["show", &format!("main:{head}")]).await, "added");
    }
}

async fn what_cannot_be_reverted_is_refused(cluster: &Cluster) {
    let (work, bob) = (Work::new(cluster, "kept").await, cluster.user("bob").await);
    let number = work.open("topic").await;
    let revert = work.pull_path(number, "/revert");
    refused_for(work.owner.post(&revert, &json!({})).await, 404, "MERGE_NOT_FOUND");
    work.merge(number, json!({"Do": "merge"})).await.empty(200);
    work.owner.share(&work.repo, &bob, "read").await;
    bob.post(&revert, &json!({})).await.refused(403);
    cluster.outsider().await.post(&revert, &json!({})).await.refused(403);
    work.owner.post(&revert, &json!({"title": "x".repeat(256)})).await.refused_field("title");
    work.owner.post(&revert, &json!({"branch": "a..b"})).await.refused_field("branch");
    refused_for(work.owner.post(&revert, &json!({"branch": "topic"})).await, 409, "BRANCH_EXISTS");
    work.owner.post(&work.pull_path(99, "/revert"), &json!({})).await.refused(404);
    let rule = json!({"pattern": "revert-*", "enable_push": false});
    work.owner.post(&work.path("/branch_protections"), &rule).await.expect(201);
    work.owner.post(&revert, &json!({})).await.refused(403);
    work.run(&["pull", "-q", "origin", "main"]).await;
    work.push_commit("main", "topic", "changed\n").await;
    let refused = work.owner.post(&revert, &json!({"branch": "undo"})).await;
    assert!(refused.text().contains("`topic`"), "{}", refused.text());
    refused_for(refused, 409, "MERGE_CONFLICT");
    assert_eq!((work.tip("undo").await, work.tip("revert-1").await), (String::new(), String::new()));
    let open = work.owner.get(&work.path("/pulls?state=open")).await.expect(200).json();
    assert_eq!(open, json!([]));
}
