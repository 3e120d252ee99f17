//! Pushes to the branches of pull requests: the head follows, `mergeable` is about the commits of
//! now, and a base that contains the head closes it as merged.

use serde_json::json;

use super::{FILE, SETTLE_TIMEOUT, Work, is_commit, number_of, text};
use crate::harness::Cluster;

on_profiles! {
    both {
        the_head_follows_every_push
        the_first_response_after_a_push_to_the_base_is_about_it
        a_base_that_contains_the_head_closes_it_as_merged
    }
    embedded {
        renamed_branches_are_followed
        a_head_that_is_deleted_and_pushed_again_is_followed
        pushes_to_many_heads_are_all_seen
        a_base_that_contains_the_head_leaves_it_open_where_that_is_off
        a_closed_one_follows_its_head_when_it_is_opened_again
    }
}

async fn the_head_follows_every_push(cluster: &Cluster) {
    let work = Work::new(cluster, "follows").await;
    let number = work.open("topic").await;
    let first = work.tip("topic").await;
    let second = work.push_commit("topic", FILE, &text(1, "more")).await;
    let pull = work.head_becomes(number, &second).await;
    assert_eq!((&pull["mergeable"], &pull["state"]), (&json!(true), &json!("open")));
    // By the API, by force, and back.
    let change = json!({"message": "m", "content": "eA==", "branch": "topic"});
    let made = work.owner.put(&work.path("/contents/by-api"), &change).await.expect(201).json();
    work.head_becomes(number, made["commit"]["sha"].as_str().unwrap()).await;
    work.run(&["push", "-q", "--force", "origin", &format!("{first}:refs/heads/topic")]).await;
    work.head_becomes(number, &first).await;
    let actions = work.owner.actions(&work.repo, number).await;
    assert!(actions.len() >= 3, "the timeline tells of pushes: {actions:?}");
    // A branch that is the head of two, with different bases.
    work.push("main:other").await;
    let other = work.open_from("topic", "other").await;
    work.push("topic").await;
    work.head_becomes(number, &second).await;
    work.head_becomes(other, &second).await;
    // The merge takes what the pull request shows.
    work.merge(number, json!({"Do": "merge", "head_commit_id": second})).await.empty(200);
    work.fetch().await;
    work.run(&["merge-base", "--is-ancestor", &second, "origin/main"]).await;
    assert_eq!(work.pull(other).await["state"], "open");
}

async fn the_first_response_after_a_push_to_the_base_is_about_it(cluster: &Cluster) {
    let work = Work::new(cluster, "at-once").await;
    work.push_commit("topic", FILE, &text(7, "by the head")).await;
    let number = work.open_from("topic", "main").await;
    for round in 0..6 {
        let is_mergeable = round % 2 == 1;
        let line = if is_mergeable { text(15, &format!("round {round}")) } else { text(7, &format!("round {round}")) };
        let base = work.push_commit("main", FILE, &line).await;
        let pull = work.pull(number).await;
        assert_eq!(pull["mergeable"], is_mergeable, "round {round}: {pull}");
        assert!(is_commit(&pull["base"]["sha"], &base), "round {round}: {pull}");
        let listed = work.owner.get(&work.path("/pulls")).await.expect(200).json();
        assert_eq!(listed[0]["mergeable"], is_mergeable, "round {round}: {listed}");
    }
    // A push to the head that solves the conflict is seen as soon as the head is.
    work.push_commit("main", FILE, &text(7, "by the base")).await;
    assert_eq!(work.pull(number).await["mergeable"], false);
    let solved = work.push_commit("topic", FILE, &text(7, "by the base")).await;
    assert_eq!(work.head_becomes(number, &solved).await["mergeable"], true);
}

async fn a_base_that_contains_the_head_closes_it_as_merged(cluster: &Cluster) {
    let (work, bob) = (Work::new(cluster, "by-hand").await, cluster.user("bob").await);
    work.owner.share(&work.repo, &bob, "write").await;
    let (forwarded, joined, open) = (work.open("forwarded").await, work.open("joined").await, work.open("open").await);
    let head = work.tip("forwarded").await;
    let is_merged = async |number: i64| {
        work.poll(number, SETTLE_TIMEOUT, |pull| pull["merged"] == true && pull["state"] == "closed").await
    };
    let url = bob.git_url(&work.owner.name, &work.name);
    work.run(&["push", "-q", &url, "forwarded:main"]).await;
    let pull = is_merged(forwarded).await;
    assert!(is_commit(&pull["merge_commit_sha"], &head) && pull["merged_at"].is_string(), "{pull}");
    assert_eq!(pull["merged_by"]["login"], bob.name);
    work.run(&["merge", "-q", "forwarded"]).await;
    work.run(&["merge", "-q", "--no-ff", "-m", "By hand", "joined"]).await;
    work.push("main").await;
    let tip = work.tip("main").await;
    assert!(is_commit(&is_merged(joined).await["merge_commit_sha"], &tip));
    assert!(work.is_merged(joined).await);
    assert_eq!(work.pull(open).await["state"], "open");
    work.merge(joined, json!({})).await.refused(405);
}

async fn a_base_that_contains_the_head_leaves_it_open_where_that_is_off(cluster: &Cluster) {
    let work = Work::new(cluster, "left-open").await;
    let number = work.open("topic").await;
    let off = json!({"autodetect_manual_merge": false});
    assert_eq!(work.owner.patch(&work.repo, &off).await.expect(200).json()["autodetect_manual_merge"], false);
    work.push("topic:main").await;
    // A later push that is seen shows that this one was, too.
    let marker = work.open("marker").await;
    let head = work.push_commit("marker", "more", "x\n").await;
    work.poll(marker, SETTLE_TIMEOUT, |pull| pull["head"]["sha"] == head.as_str()).await;
    assert_eq!(work.pull(number).await["state"], "open");
}

async fn renamed_branches_are_followed(cluster: &Cluster) {
    let work = Work::new(cluster, "renamed").await;
    let number = work.open("topic").await;
    let head = work.tip("topic").await;
    let rename = async |old: &str, new: &str| {
        let path = work.path(&format!("/branches/{old}"));
        work.owner.patch(&path, &json!({ "name": new })).await.empty(204);
    };
    rename("topic", "feature/one").await;
    let pull = work.poll(number, SETTLE_TIMEOUT, |pull| pull["head"]["ref"] == "feature/one").await;
    assert_eq!((&pull["head"]["label"], &pull["state"]), (&json!("feature/one"), &json!("open")));
    assert!(is_commit(&pull["head"]["sha"], &head), "{pull}");
    rename("main", "trunk").await;
    let pull = work.poll(number, SETTLE_TIMEOUT, |pull| pull["base"]["ref"] == "trunk").await;
    assert_eq!(pull["mergeable"], true);
    // Pushes to the new name count.
    let head = work.commit_on("topic", "more", "x\n").await;
    work.push("topic:refs/heads/feature/one").await;
    work.head_becomes(number, &head).await;
    work.merge(number, json!({})).await.empty(200);
    assert_ne!(work.tip("trunk").await, work.run(&["rev-parse", "main"]).await);
}

async fn a_head_that_is_deleted_and_pushed_again_is_followed(cluster: &Cluster) {
    let work = Work::new(cluster, "again").await;
    let number = work.open("topic").await;
    let head = work.tip("topic").await;
    work.push(":topic").await;
    let gone = format!("refs/pull/{number}/head");
    let pull = work.poll(number, SETTLE_TIMEOUT, |pull| pull["head"]["ref"] == gone.as_str()).await;
    assert_eq!((&pull["head"]["label"], &pull["state"]), (&json!("topic"), &json!("open")));
    assert!(is_commit(&pull["head"]["sha"], &head) && pull["mergeable"] == true, "{pull}");
    let newer = work.push_commit("topic", "more", "x\n").await;
    let pull = work.poll(number, SETTLE_TIMEOUT, |pull| pull["head"]["sha"] == newer.as_str()).await;
    assert_eq!(pull["head"]["ref"], "topic");
    work.push(":topic").await;
    work.poll(number, SETTLE_TIMEOUT, |pull| pull["head"]["ref"] == gone.as_str()).await;
    work.merge(number, json!({"Do": "squash"})).await.empty(200);
    work.fetch().await;
    assert_eq!(work.tree("origin/main").await, work.tree("topic").await);
}

async fn pushes_to_many_heads_are_all_seen(cluster: &Cluster) {
    const HEADS: usize = 12;
    let work = Work::new(cluster, "many").await;
    let mut opened = Vec::new();
    for index in 0..HEADS {
        opened.push((format!("head-{index}"), work.open(&format!("head-{index}")).await));
    }
    let mut pushed = Vec::new();
    for (branch, _) in &opened {
        pushed.push(work.commit_on(branch, "more", "x\n").await);
    }
    let branches = opened.iter().map(|(branch, _)| branch.as_str());
    work.run(&["push", "-q", "origin"].into_iter().chain(branches).collect::<Vec<_>>()).await;
    for ((_, number), head) in opened.iter().zip(&pushed) {
        work.poll(*number, SETTLE_TIMEOUT, |pull| pull["head"]["sha"] == head.as_str()).await;
    }
    for ((_, number), head) in opened.iter().zip(&pushed) {
        work.ref_becomes(*number, head).await;
    }
}

async fn a_closed_one_follows_its_head_when_it_is_opened_again(cluster: &Cluster) {
    let work = Work::new(cluster, "reopened").await;
    let number = work.open("topic").await;
    work.edit(number, json!({"state": "closed"})).await;
    let head = work.push_commit("topic", "more", "x\n").await;
    assert_eq!(number_of(&work.edit(number, json!({"state": "open"})).await), number);
    work.head_becomes(number, &head).await;
    work.merge(number, json!({"head_commit_id": head})).await.empty(200);
}
