//! Pull requests from forks, and from a parent into its fork.

use serde_json::json;

use super::{FILE, SETTLE_TIMEOUT, Work, is_commit, number_of, refused_for, text};
use crate::harness::{Cluster, User};

on_profiles! {
    both {
        a_fork_offers_its_branch_and_the_head_follows
    }
    embedded {
        a_fork_is_found_by_its_owner_whatever_its_name
        a_parent_is_the_head_of_a_pull_request_of_its_fork
        a_branch_of_a_fork_is_updated_from_the_base_by_its_owner
    }
}

/// Commits on a new branch of the fork and pushes it.
async fn push_to_fork(work: &Work, branch: &str, file: &str, content: &str) -> String {
    work.git.run("fork", &["checkout", "-q", "-B", branch]).await;
    let head = work.git.commit("fork", file, content).await;
    work.git.run("fork", &["push", "-q", "origin", branch]).await;
    head
}

async fn open(work: &Work, user: &User, head: &str) -> i64 {
    let body = json!({"head": head, "base": "main", "title": head});
    number_of(&work.create(user, &body).await.expect(201).json())
}

async fn a_fork_offers_its_branch_and_the_head_follows(cluster: &Cluster) {
    let (work, bob) = (Work::new(cluster, "parent").await, cluster.user("bob").await);
    work.fork(&bob, "fork").await;
    let first = push_to_fork(&work, "feature/x", "new", "x\n").await;
    let number = open(&work, &bob, &format!("{}:feature/x", bob.name)).await;
    let pull = work.pull(number).await;
    assert_eq!(
        (&pull["head"]["ref"], &pull["head"]["label"], &pull["user"]["login"]),
        (&json!("feature/x"), &json!("feature/x"), &json!(bob.name))
    );
    assert_eq!(pull["head"]["repo"]["full_name"], format!("{}/parent", bob.name));
    assert_eq!(pull["base"]["repo"]["full_name"], format!("{}/parent", work.owner.name));
    assert!(is_commit(&pull["head"]["sha"], &first) && pull["mergeable"] == true, "{pull}");
    let found = work.owner.get(&work.path(&format!("/pulls/main/{}:feature/x", bob.name))).await.expect(200).json();
    assert_eq!(number_of(&found), number);
    let twice = json!({"head": format!("{}:feature/x", bob.name), "base": "main", "title": "Again"});
    work.create(&work.owner, &twice).await.refused_with_message(409, &format!("#{number}"));
    let second = push_to_fork(&work, "feature/x", "more", "x\n").await;
    work.head_becomes(number, &second).await;
    // The base went on meanwhile, where the fork does not know it.
    work.push_commit("main", FILE, &text(9, "by the base")).await;
    work.merge(number, json!({"Do": "merge", "delete_branch_after_merge": true})).await.empty(200);
    work.fetch().await;
    work.run(&["merge-base", "--is-ancestor", &second, "origin/main"]).await;
    // The merger may not delete branches of the fork.
    bob.get(&bob.repo("parent", "/branches/feature/x")).await.expect(200);
    assert_eq!(work.pull(number).await["merged"], true);
}

async fn a_fork_is_found_by_its_owner_whatever_its_name(cluster: &Cluster) {
    let (work, bob) = (Work::new(cluster, "named").await, cluster.user("bob").await);
    bob.post(&work.path("/forks"), &json!({"name": "mine"})).await.expect(201);
    work.git.run("", &["clone", "-q", &bob.git_url(&bob.name, "mine"), "fork"]).await;
    push_to_fork(&work, "topic", "new", "x\n").await;
    // One of the same name that is no fork does not count.
    bob.new_repository("named", json!({"auto_init": true})).await;
    let number = open(&work, &bob, &format!("{}:topic", bob.name.to_uppercase())).await;
    assert_eq!(work.pull(number).await["head"]["repo"]["full_name"], format!("{}/mine", bob.name));
    let path = work.path(&format!("/pulls/main/{}/mine:topic", bob.name));
    assert_eq!(number_of(&work.owner.get(&path).await.expect(200).json()), number);
    // The fork gets another name, and leads on.
    bob.patch(&bob.repo("mine", ""), &json!({"name": "other"})).await.expect(200);
    let wanted = format!("{}/other", bob.name);
    work.poll(number, SETTLE_TIMEOUT, |pull| pull["head"]["repo"]["full_name"] == wanted.as_str()).await;
    work.merge(number, json!({"Do": "squash"})).await.empty(200);
}

async fn a_parent_is_the_head_of_a_pull_request_of_its_fork(cluster: &Cluster) {
    let (work, bob) = (Work::new(cluster, "upstream").await, cluster.user("bob").await);
    work.fork(&bob, "fork").await;
    let head = work.push_commit("main", "new", "x\n").await;
    let pulls = bob.repo("upstream", "/pulls");
    let body = json!({"head": format!("{}:main", work.owner.name), "base": "main", "title": "Sync"});
    let made = bob.post(&pulls, &body).await.expect(201).json();
    assert_eq!(made["head"]["repo"]["full_name"], format!("{}/upstream", work.owner.name));
    assert!(is_commit(&made["head"]["sha"], &head), "{made}");
    let merge = format!("{pulls}/{}/merge", number_of(&made));
    bob.post(&merge, &json!({"Do": "fast-forward-only"})).await.empty(200);
    let branch = bob.get(&bob.repo("upstream", "/branches/main")).await.expect(200).json();
    assert_eq!(branch["commit"]["id"], head);
}

async fn a_branch_of_a_fork_is_updated_from_the_base_by_its_owner(cluster: &Cluster) {
    let (work, bob) = (Work::new(cluster, "base").await, cluster.user("bob").await);
    work.fork(&bob, "fork").await;
    push_to_fork(&work, "topic", "new", "x\n").await;
    let number = open(&work, &bob, &format!("{}:topic", bob.name)).await;
    let base = work.push_commit("main", "newer", "x\n").await;
    let update = work.pull_path(number, "/update");
    // The owner of the base may not write to the fork.
    refused_for(work.owner.post(&update, &json!({})).await, 403, "HEAD_FORBIDDEN");
    bob.post(&update, &json!({})).await.empty(200);
    work.git.run("fork", &["fetch", "-q", "origin"]).await;
    work.git.run("fork", &["merge-base", "--is-ancestor", &base, "origin/topic"]).await;
    let head = work.git.run("fork", &["rev-parse", "origin/topic"]).await;
    work.head_becomes(number, &head).await;
    work.merge(number, json!({})).await.empty(200);
}
