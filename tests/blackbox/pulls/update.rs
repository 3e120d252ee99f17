//! The base is brought into the head of a pull request, by a merge or a rebase.

use serde_json::json;

use super::{FILE, Work, refused_for, text};
use crate::harness::Cluster;

on_profiles! {
    both {
        a_head_takes_the_commits_of_its_base
    }
    embedded {
        what_cannot_be_updated_is_refused
    }
}

async fn a_head_takes_the_commits_of_its_base(cluster: &Cluster) {
    let work = Work::new(cluster, "updated").await;
    for (style, parents) in [("merge", 2), ("rebase", 1)] {
        let branch = format!("by-{style}");
        let number = work.open(&branch).await;
        let base = work.push_commit("main", &format!("more-{style}"), "x\n").await;
        let path = work.pull_path(number, &format!("/update?style={style}"));
        work.owner.post(&path, &json!({})).await.empty(200);
        let head = work.tip(&branch).await;
        work.head_becomes(number, &head).await;
        work.fetch().await;
        let remote = format!("origin/{branch}");
        work.run(&["merge-base", "--is-ancestor", &base, &remote]).await;
        assert_eq!(work.run(&["log", "-1", "--format=%P", &remote]).await.split(' ').count(), parents, "{style}");
        assert_eq!(work.run(&["diff", "--name-only", &format!("origin/main...{remote}")]).await, branch);
        work.run(&["ls-remote", "--exit-code", "origin", &format!("refs/pull/{number}/head")]).await;
        work.merge(number, json!({"Do": "merge", "head_commit_id": head})).await.empty(200);
        work.run(&["pull", "-q", "--ff-only", "origin", "main"]).await;
    }
}

async fn what_cannot_be_updated_is_refused(cluster: &Cluster) {
    let (work, bob) = (Work::new(cluster, "stuck").await, cluster.user("bob").await);
    work.push_commit("topic", FILE, &text(4, "by the head")).await;
    let number = work.open_from("topic", "main").await;
    let update = work.pull_path(number, "/update");
    work.push_commit("main", FILE, &text(4, "by the base")).await;
    for style in ["", "?style=merge", "?style=rebase"] {
        work.owner.post(&format!("{update}{style}"), &json!({})).await.refused(409);
    }
    work.owner.post(&format!("{update}?style=squash"), &json!({})).await.refused_field("style");
    work.owner.share(&work.repo, &bob, "read").await;
    refused_for(bob.post(&update, &json!({})).await, 403, "HEAD_FORBIDDEN");
    let off = json!({"allow_rebase_update": false});
    work.owner.patch(&work.repo, &off).await.expect(200);
    work.owner.post(&format!("{update}?style=rebase"), &json!({})).await.refused_field("style");
    work.edit(number, json!({"state": "closed"})).await;
    work.owner.post(&update, &json!({})).await.refused(422);
}
