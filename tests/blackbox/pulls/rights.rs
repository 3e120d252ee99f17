//! Who may open, change and merge pull requests, and what they reveal of repositories that somebody
//! may not read.

use serde_json::{Value, json};

use super::{SETTLE_TIMEOUT, Work, is_commit, number_of};
use crate::harness::{Cluster, User};

on_profiles! {
    both {
        other_branches_of_a_private_fork_stay_private
        a_head_stays_when_its_poster_may_no_longer_write_to_it
    }
    embedded {
        a_token_needs_the_scopes_of_issues_and_of_contents
        posters_change_their_own_and_writers_all
        who_lost_access_merges_nothing
        pull_requests_of_a_private_repository_are_hidden
    }
    production {
        a_private_head_is_offered_only_by_those_who_write_to_it
    }
}

/// Pushes a branch with a commit from the work tree of the fork.
async fn push_to_fork(work: &Work, branch: &str) -> String {
    work.git.run("fork", &["checkout", "-q", "-B", branch, "origin/main"]).await;
    let head = work.git.commit("fork", branch, &format!("only in {branch}\n")).await;
    work.git.run("fork", &["push", "-q", "origin", branch]).await;
    head
}

/// A private fork of a public repository.
async fn private_fork(work: &Work, user: &User) {
    work.fork(user, "fork").await;
    user.patch(&user.repo(&work.name, ""), &json!({"private": true})).await.expect(200);
}

fn offer(owner: &User, branch: &str) -> Value {
    json!({"head": format!("{}:{branch}", owner.name), "base": "main", "title": branch})
}

async fn other_branches_of_a_private_fork_stay_private(cluster: &Cluster) {
    let (work, bob) = (Work::new(cluster, "open").await, cluster.user("bob").await);
    let outsider = cluster.outsider().await;
    private_fork(&work, &bob).await;
    let (secret, head) = (push_to_fork(&work, "secret").await, push_to_fork(&work, "topic").await);
    let blob = work.git.run("fork", &["rev-parse", &format!("{secret}:secret")]).await;
    let number = number_of(&work.create(&bob, &offer(&bob, "topic")).await.expect(201).json());
    // Readers of the base see the commits, but not the fork.
    for user in [&work.owner, &outsider] {
        let pull = user.get(&work.pull_path(number, "")).await.expect(200).json();
        assert_eq!((&pull["head"]["repo"], &pull["head"]["label"]), (&Value::Null, &json!("topic")), "{pull}");
        assert!(is_commit(&pull["head"]["sha"], &head), "{pull}");
        let listed = user.get(&work.path("/pulls")).await.expect(200).json();
        assert_eq!(listed[0]["head"]["repo"], Value::Null);
        user.get(&work.path(&format!("/git/commits/{head}"))).await.expect(200);
        user.get(&work.path(&format!("/git/commits/{secret}"))).await.refused(404);
        user.get(&work.path(&format!("/git/blobs/{blob}"))).await.refused(404);
        user.get(&bob.repo(&work.name, "")).await.refused(404);
    }
    let seen = bob.get(&work.pull_path(number, "")).await.expect(200).json();
    assert_eq!(seen["head"]["repo"]["full_name"], format!("{}/open", bob.name));
    work.ref_becomes(number, &head).await;
    work.git.fails("work", &["fetch", "-q", "origin", &secret]).await;
    // Nor is the fork asked for branches that others may not know.
    for branch in ["secret", "gone"] {
        work.create(&outsider, &offer(&bob, branch)).await.refused(404);
    }
    work.merge(number, json!({})).await.empty(200);
    work.owner.get(&work.path(&format!("/git/commits/{secret}"))).await.refused(404);
}

async fn a_private_head_is_offered_only_by_those_who_write_to_it(cluster: &Cluster) {
    let (work, bob) = (Work::new(cluster, "public").await, cluster.user("bob").await);
    let (reader, writer) = (cluster.user("reader").await, cluster.user("writer").await);
    private_fork(&work, &bob).await;
    let head = push_to_fork(&work, "topic").await;
    let fork = bob.repo(&work.name, "");
    bob.share(&fork, &reader, "read").await;
    bob.share(&fork, &writer, "write").await;
    work.create(&reader, &offer(&bob, "topic")).await.refused(403);
    work.owner.get(&work.path(&format!("/git/commits/{head}"))).await.refused(404);
    work.create(&writer, &offer(&bob, "topic")).await.expect(201);
    work.owner.get(&work.path(&format!("/git/commits/{head}"))).await.expect(200);
}

async fn a_head_stays_when_its_poster_may_no_longer_write_to_it(cluster: &Cluster) {
    let (work, carol, bob) =
        (Work::new(cluster, "stays").await, cluster.user("carol").await, cluster.user("bob").await);
    private_fork(&work, &carol).await;
    let head = push_to_fork(&work, "topic").await;
    push_to_fork(&work, "marker").await;
    let fork = carol.repo(&work.name, "");
    carol.share(&fork, &bob, "write").await;
    let number = number_of(&work.create(&bob, &offer(&carol, "topic")).await.expect(201).json());
    let marker = number_of(&work.create(&carol, &offer(&carol, "marker")).await.expect(201).json());
    carol.delete(&format!("{fork}/collaborators/{}", bob.name)).await.expect(204);
    for branch in ["topic", "marker"] {
        work.git.run("fork", &["checkout", "-q", branch]).await;
        work.git.commit("fork", "later", branch).await;
        work.git.run("fork", &["push", "-q", "origin", branch]).await;
    }
    let later = work.git.run("fork", &["rev-parse", "topic"]).await;
    let moved = work.git.run("fork", &["rev-parse", "marker"]).await;
    work.poll(marker, SETTLE_TIMEOUT, |pull| pull["head"]["sha"] == moved.as_str()).await;
    assert!(is_commit(&work.pull(number).await["head"]["sha"], &head));
    work.owner.get(&work.path(&format!("/git/commits/{later}"))).await.refused(404);
}

async fn a_token_needs_the_scopes_of_issues_and_of_contents(cluster: &Cluster) {
    let work = Work::new(cluster, "scoped").await;
    let number = work.open("topic").await;
    work.push_commit("other", "other", "x\n").await;
    let body = json!({"head": "other", "base": "main", "title": "other"});
    let public = work.owner.with_scopes(&["user"]).await;
    public.get(&work.pull_path(number, "")).await.expect(200);
    work.owner.patch(&work.repo, &json!({"private": true})).await.expect(200);
    public.get(&work.pull_path(number, "")).await.refused(404);
    for scopes in [&["issue"][..], &["repo:read"], &["repo:write"]] {
        let narrow = work.owner.with_scopes(scopes).await;
        narrow.get(&work.path("/pulls")).await.refused(403);
        narrow.get(&work.pull_path(number, "")).await.refused(403);
        work.create(&narrow, &body).await.refused(403);
        narrow.patch(&work.pull_path(number, ""), &json!({"title": "x"})).await.refused(403);
    }
    // It is an issue as well.
    let narrow = work.owner.with_scopes(&["issue"]).await;
    assert_eq!(narrow.get(&work.path("/issues?type=all")).await.expect(200).json(), json!([]));
    narrow.get(&work.path("/issues?type=pulls")).await.refused(404);
    assert_eq!(narrow.get(&work.path("/issues/comments")).await.expect(200).json(), json!([]));
    let issue = work.path(&format!("/issues/{number}"));
    for rest in ["", "/timeline", "/comments", "/reactions"] {
        narrow.get(&format!("{issue}{rest}")).await.refused(404);
    }
    narrow.patch(&issue, &json!({"title": "x"})).await.refused(404);
    narrow.post(&format!("{issue}/comments"), &json!({"body": "x"})).await.refused(404);
    let reading = work.owner.with_scopes(&["issue", "repo:read"]).await;
    reading.get(&work.pull_path(number, "")).await.expect(200);
    let second = number_of(&work.create(&reading, &body).await.expect(201).json());
    work.merge_by(&reading, second, &json!({})).await.refused(403);
    let writing = work.owner.with_scopes(&["issue", "repo:write"]).await;
    work.merge_by(&writing, second, &json!({})).await.empty(200);
    let elsewhere = work.owner.new_repository("elsewhere", json!({})).await;
    let limited = json!({"repositories": [elsewhere["full_name"]]});
    let limited = work.owner.with_new_token(limited).await;
    work.merge_by(&limited, number, &json!({})).await.refused_any(&[403, 404]);
}

async fn posters_change_their_own_and_writers_all(cluster: &Cluster) {
    let (work, bob) = (Work::new(cluster, "posted").await, cluster.user("bob").await);
    let (eve, label) = (cluster.user("eve").await, work.owner.new_label(&work.repo, "deps").await);
    work.fork(&bob, "fork").await;
    push_to_fork(&work, "topic").await;
    let mut body = offer(&bob, "topic");
    body["labels"] = json!([label]);
    body["assignees"] = json!([bob.name]);
    let made = work.create(&bob, &body).await.expect(201).json();
    assert_eq!((&made["labels"], &made["assignees"]), (&json!([]), &json!([])), "only writers set them");
    let number = number_of(&made);
    let path = work.pull_path(number, "");
    let change = json!({"title": "By the poster", "labels": [label], "state": "closed"});
    let changed = bob.patch(&path, &change).await.expect(201).json();
    assert_eq!(
        (&changed["title"], &changed["labels"], &changed["state"]),
        (&json!("By the poster"), &json!([]), &json!("closed"))
    );
    bob.patch(&path, &json!({"state": "open"})).await.expect(201);
    eve.patch(&path, &json!({"title": "By a reader"})).await.refused(403);
    work.merge_by(&bob, number, &json!({})).await.refused_any(&[403, 405]);
    work.merge_by(&eve, number, &json!({})).await.refused_any(&[403, 405]);
    let by_writer = work.edit(number, json!({"title": "By a writer", "labels": [label]})).await;
    assert_eq!((&by_writer["title"], &by_writer["labels"][0]["id"]), (&json!("By a writer"), &json!(label)));
    assert!(!work.is_merged(number).await);
    cluster.anonymous().get(&path).await.expect(200);
}

async fn who_lost_access_merges_nothing(cluster: &Cluster) {
    let (work, bob) = (Work::new(cluster, "lost").await, cluster.user("bob").await);
    work.owner.share(&work.repo, &bob, "write").await;
    let number = work.open("topic").await;
    let base = work.tip("main").await;
    let collaborator = work.path(&format!("/collaborators/{}", bob.name));
    work.owner.put(&collaborator, &json!({"permission": "read"})).await.expect(204);
    work.merge_by(&bob, number, &json!({})).await.refused_any(&[403, 405]);
    work.owner.delete(&collaborator).await.expect(204);
    work.merge_by(&bob, number, &json!({})).await.refused_any(&[403, 405]);
    work.owner.patch(&work.repo, &json!({"private": true})).await.expect(200);
    work.merge_by(&bob, number, &json!({})).await.refused(404);
    assert_eq!(work.tip("main").await, base);
    work.merge(number, json!({})).await.empty(200);
}

async fn pull_requests_of_a_private_repository_are_hidden(cluster: &Cluster) {
    let owner = cluster.user("ada").await;
    let work = Work::of(owner, "hidden", json!({"private": true})).await;
    let (number, outsider) = (work.open("topic").await, cluster.outsider().await);
    for rest in ["/pulls", "/pulls/main/topic", "/commits/main/pull"] {
        outsider.get(&work.path(rest)).await.refused(404);
    }
    for rest in ["", "/merge", "/conflicts", "/merge-requirements", "/comments", "/files", "/commits", ".diff"] {
        outsider.get(&work.pull_path(number, rest)).await.refused(404);
    }
    work.merge_by(&outsider, number, &json!({})).await.refused(404);
    outsider.patch(&work.pull_path(number, ""), &json!({"title": "x"})).await.refused(404);
    outsider.post(&work.pull_path(number, "/update"), &json!({})).await.refused(404);
    work.create(&outsider, &json!({"head": "topic", "base": "main", "title": "x"})).await.refused(404);
}
