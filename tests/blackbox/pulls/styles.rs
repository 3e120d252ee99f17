//! The styles of merges, compared with what git makes of the same branches.

use serde_json::{Value, json};

use super::{FILE, Work, is_commit, text};
use crate::harness::Cluster;

on_profiles! {
    both {
        every_style_gives_the_tree_of_git
    }
    embedded {
        messages_are_those_of_the_request_or_say_what_was_merged
        a_squash_is_by_the_poster_and_names_the_other_authors
        commits_that_the_base_has_already_are_not_repeated
        files_that_one_side_renamed_take_the_changes_of_the_other
    }
}

/// The styles, and the git commands that do the same on a branch `expected` at `main`.
const STYLES: [(&str, &[&[&str]]); 4] = [
    ("merge", &[&["merge", "-q", "--no-ff", "-m", "m", "topic"]]),
    ("squash", &[&["merge", "-q", "--squash", "topic"], &["commit", "-q", "-m", "m"]]),
    ("rebase", &[&["reset", "-q", "--hard", "topic"], &["rebase", "-q", "main"]]),
    (
        "rebase-merge",
        &[
            &["reset", "-q", "--hard", "topic"],
            &["rebase", "-q", "main"],
            &["branch", "-q", "-f", "rebased"],
            &["reset", "-q", "--hard", "main"],
            &["merge", "-q", "--no-ff", "-m", "m", "rebased"],
        ],
    ),
];

/// Runs the commands of a style in the work tree. Returns the tree that they lead to.
async fn expected_tree(work: &Work, commands: &[&[&str]]) -> String {
    work.run(&["checkout", "-q", "-B", "expected", "main"]).await;
    for command in commands {
        work.run(command).await;
    }
    let tree = work.tree("HEAD").await;
    work.run(&["checkout", "-q", "main"]).await;
    tree
}

/// A base that went on after the head began: both change other lines of the same file, and the head
/// also adds, moves and deletes files.
async fn diverged(cluster: &Cluster, name: &str) -> Work {
    let work = Work::new(cluster, name).await;
    work.commit_on("main", "docs/old.md", "one\ntwo\nthree\nfour\n").await;
    work.commit_on("main", "gone", "gone\n").await;
    work.push("main").await;
    work.commit_on("topic", FILE, &text(2, "by the head")).await;
    work.run(&["checkout", "-q", "topic"]).await;
    work.run(&["mv", "docs/old.md", "docs/new.md"]).await;
    work.run(&["rm", "-q", "gone"]).await;
    work.git.commit("work", "docs/more.md", "more\n").await;
    work.run(&["checkout", "-q", "main"]).await;
    work.push("topic").await;
    work.push_commit("main", FILE, &text(17, "by the base")).await;
    work
}

async fn every_style_gives_the_tree_of_git(cluster: &Cluster) {
    let work = diverged(cluster, "styles").await;
    let (base, head) = (work.tip("main").await, work.tip("topic").await);
    for (style, commands) in STYLES {
        let branch = format!("base-{style}");
        work.push(&format!("main:refs/heads/{branch}")).await;
        let number = work.open_from("topic", &branch).await;
        assert_eq!(work.pull(number).await["mergeable"], true, "{style}");
        work.merge(number, json!({"Do": style})).await.empty(200);
        work.fetch().await;
        let merged = format!("origin/{branch}");
        assert_eq!(work.tree(&merged).await, expected_tree(&work, commands).await, "{style}");
        let tip = work.tip(&branch).await;
        let parents = work.run(&["log", "-1", "--format=%P", &merged]).await;
        match style {
            "merge" => assert_eq!(parents, format!("{base} {head}")),
            "squash" => assert_eq!((parents.as_str(), work.count("main", &merged).await), (base.as_str(), 1)),
            "rebase" => {
                assert_eq!(work.run(&["rev-parse", &format!("{merged}~2")]).await, base);
                let subjects = work.run(&["log", "--format=%s %an %ae", &format!("main..{merged}")]).await;
                assert_eq!(subjects, work.run(&["log", "--format=%s %an %ae", "main..topic"]).await);
            }
            _ => {
                let (first, second) = parents.split_once(' ').unwrap();
                assert_eq!((first, work.count("main", second).await), (base.as_str(), 2));
                assert_eq!(work.run(&["rev-parse", &format!("{second}~2")]).await, base);
            }
        }
        let pull = work.pull(number).await;
        assert_eq!((&pull["state"], &pull["merged"]), (&json!("closed"), &json!(true)), "{style}");
        assert_eq!(pull["merged_by"]["login"], work.owner.name);
        assert!(is_commit(&pull["merge_commit_sha"], &tip) && pull["merged_at"].is_string(), "{pull}");
        assert!(is_commit(&pull["base"]["sha"], &base) && is_commit(&pull["head"]["sha"], &head), "{pull}");
        assert!(work.is_merged(number).await);
        let found = work.owner.get(&work.path(&format!("/commits/{tip}/pull"))).await.expect(200).json();
        assert_eq!(found["number"], number, "{style}");
    }
    // Only a base without commits of its own can be moved forward.
    work.push("main:refs/heads/base-behind").await;
    let behind = work.open_from("topic", "base-behind").await;
    work.merge(behind, json!({"Do": "fast-forward-only"})).await.refused(409);
    assert_eq!(work.tip("base-behind").await, base);
    work.push("main~1:refs/heads/base-forward").await;
    let forward = work.open_from("topic", "base-forward").await;
    work.merge(forward, json!({"Do": "fast-forward-only"})).await.empty(200);
    assert_eq!(work.tip("base-forward").await, head);
    assert_eq!(work.pull(forward).await["merge_commit_sha"], head);
    work.fetch().await;
    work.run(&["fsck", "--strict"]).await;
}

async fn messages_are_those_of_the_request_or_say_what_was_merged(cluster: &Cluster) {
    let work = Work::new(cluster, "messages").await;
    let message = async |number: i64, body: Value| {
        work.merge(number, body).await.empty(200);
        work.fetch().await;
        work.run(&["log", "-1", "--format=%B", "origin/main"]).await.trim_end().to_owned()
    };
    let plain = work.open("plain").await;
    assert_eq!(
        message(plain, json!({})).await.lines().next().unwrap(),
        format!("Merge pull request 'plain' (#{plain}) from plain into main")
    );
    let named = work.open("named").await;
    let body = json!({"Do": "merge", "MergeTitleField": "My title", "MergeMessageField": "My text\n\nCloses nothing"});
    assert_eq!(message(named, body).await, "My title\n\nMy text\n\nCloses nothing");
    let squashed = work.open("squashed").await;
    work.edit(squashed, json!({"body": "The reason"})).await;
    let found = message(squashed, json!({"do": "squash", "merge_title_field": ""})).await;
    assert_eq!(found.lines().next().unwrap(), format!("squashed (#{squashed})"));
    assert!(found.contains("\n\nThe reason"), "{found}");
    let long = work.open("long").await;
    work.merge(long, json!({"MergeTitleField": "a\u{0}b"})).await.refused(422);
    // A closing word in the message closes an issue.
    let issue = work.owner.new_issue(&work.repo, "It breaks", json!({})).await["number"].as_i64().unwrap();
    message(long, json!({"MergeMessageField": format!("Closes #{issue}")})).await;
    work.owner.eventually(&format!("{}/issues/{issue}", work.repo), |issue| issue["state"] == "closed").await;
}

async fn a_squash_is_by_the_poster_and_names_the_other_authors(cluster: &Cluster) {
    let (work, bob) = (Work::new(cluster, "authors").await, cluster.user("bob").await);
    work.owner.share(&work.repo, &bob, "write").await;
    work.push_commit("topic", "a", "a\n").await;
    let body = json!({"head": "topic", "base": "main", "title": "By two"});
    let number = super::number_of(&work.create(&bob, &body).await.expect(201).json());
    work.merge(number, json!({"Do": "squash"})).await.empty(200);
    work.fetch().await;
    let (author, committer) = (
        work.run(&["log", "-1", "--format=%an <%ae>", "origin/main"]).await,
        work.run(&["log", "-1", "--format=%cn <%ce>", "origin/main"]).await,
    );
    assert!(author.contains(&bob.name), "{author}");
    assert!(committer.contains(&work.owner.name), "{committer}");
    let message = work.run(&["log", "-1", "--format=%B", "origin/main"]).await;
    assert!(message.contains("\nCo-authored-by: Tester <tester@example.com>"), "{message}");
}

async fn commits_that_the_base_has_already_are_not_repeated(cluster: &Cluster) {
    let work = Work::new(cluster, "picked").await;
    let first = work.commit_on("topic", "a", "a\n").await;
    work.push_commit("topic", "b", "b\n").await;
    work.push_commit("main", "c", "c\n").await;
    work.run(&["cherry-pick", &first]).await;
    work.push("main").await;
    let number = work.open_from("topic", "main").await;
    work.merge(number, json!({"Do": "rebase"})).await.empty(200);
    work.fetch().await;
    let subjects = work.run(&["log", "--format=%s", "main..origin/main"]).await;
    assert_eq!(subjects, "Change b");
}

async fn files_that_one_side_renamed_take_the_changes_of_the_other(cluster: &Cluster) {
    let work = Work::new(cluster, "renames").await;
    work.run(&["checkout", "-q", "-b", "topic"]).await;
    work.run(&["mv", FILE, "moved"]).await;
    work.run(&["commit", "-q", "-m", "Move it"]).await;
    work.run(&["checkout", "-q", "main"]).await;
    work.push("topic").await;
    work.push_commit("main", FILE, &text(5, "changed")).await;
    let number = work.open_from("topic", "main").await;
    work.merge(number, json!({})).await.empty(200);
    work.fetch().await;
    assert_eq!(work.run(&["show", "origin/main:moved"]).await, text(5, "changed").trim_end());
    assert_eq!(work.tree("origin/main").await, expected_tree(&work, STYLES[0].1).await);
}
