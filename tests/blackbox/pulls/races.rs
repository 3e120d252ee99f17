//! Requests at once about pull requests: each is merged once or not at all, and no commit is lost.

use serde_json::json;

use super::{SETTLE_TIMEOUT, Work, number_of};
use crate::harness::concurrent::join_all;
use crate::harness::{Cluster, Response};

on_profiles! {
    both {
        of_simultaneous_merges_of_one_exactly_one_happens
        simultaneous_merges_into_one_base_all_happen
        a_push_to_the_base_meanwhile_loses_nothing
        one_of_several_for_the_same_branches_is_opened
    }
    embedded {
        closing_against_merging_ends_in_one_of_both
        a_push_to_the_head_meanwhile_is_merged_or_not_but_never_half
    }
}

const AT_ONCE: usize = 16;
const STYLES: [&str; 4] = ["merge", "squash", "rebase", "rebase-merge"];

fn statuses(responses: &[Response]) -> Vec<u16> {
    let mut statuses: Vec<_> = responses.iter().map(|response| response.status.as_u16()).collect();
    statuses.sort_unstable();
    statuses
}

async fn of_simultaneous_merges_of_one_exactly_one_happens(cluster: &Cluster) {
    let work = Work::new(cluster, "once").await;
    for style in STYLES {
        let number = work.open(&format!("by-{style}")).await;
        let merges = (0..4).map(|_| work.merge(number, json!({ "Do": style })));
        let responses = join_all(merges).await;
        let found = statuses(&responses);
        assert_eq!(found[0], 200, "{found:?}");
        assert!(found[1..].iter().all(|status| [405, 409].contains(status)), "{found:?}");
        assert!(work.is_merged(number).await);
        let added = if ["merge", "rebase-merge"].contains(&style) { 2 } else { 1 };
        work.fetch().await;
        assert_eq!(work.count("main", "origin/main").await, added, "{style}");
        work.run(&["merge", "-q", "--ff-only", "origin/main"]).await;
    }
}

async fn simultaneous_merges_into_one_base_all_happen(cluster: &Cluster) {
    let work = Work::new(cluster, "crowd").await;
    let mut numbers = Vec::new();
    for index in 0..AT_ONCE {
        numbers.push(work.open(&format!("topic-{index}")).await);
    }
    let merge = |(index, number): (usize, &i64)| work.merge(*number, json!({"Do": STYLES[index % STYLES.len()]}));
    let responses = join_all(numbers.iter().enumerate().map(merge)).await;
    assert_eq!(statuses(&responses), [200; AT_ONCE]);
    work.fetch().await;
    let files = work.run(&["ls-tree", "--name-only", "origin/main"]).await;
    for (index, number) in numbers.iter().enumerate() {
        let name = format!("topic-{index}");
        assert!(files.lines().any(|file| file == name), "{name}: {files}");
        let pull = work.pull(*number).await;
        assert_eq!(pull["merged"], true, "{pull}");
        // Each says where it went in.
        let commit = pull["merge_commit_sha"].as_str().unwrap();
        work.run(&["merge-base", "--is-ancestor", commit, "origin/main"]).await;
        work.run(&["cat-file", "-e", &format!("{commit}:{name}")]).await;
    }
    let expected: usize = (0..AT_ONCE).map(|index| [2, 1, 1, 2][index % STYLES.len()]).sum();
    assert_eq!(work.count("main", "origin/main").await, expected);
    work.owner.eventually(&work.repo, |repository| repository["open_pr_counter"] == 0).await;
}

async fn a_push_to_the_base_meanwhile_loses_nothing(cluster: &Cluster) {
    let work = Work::new(cluster, "pushed").await;
    for round in 0..6 {
        let number = work.open(&format!("topic-{round}")).await;
        let pushed = work.commit_on("main", &format!("pushed-{round}"), "x\n").await;
        let push = work.git.attempt("work", &["push", "-q", "origin", "main"]);
        let (response, push) = tokio::join!(work.merge(number, json!({"Do": "merge"})), push);
        response.empty(200);
        work.fetch().await;
        work.run(&["cat-file", "-e", &format!("origin/main:topic-{round}")]).await;
        let arrived = work.git.attempt("work", &["merge-base", "--is-ancestor", &pushed, "origin/main"]).await;
        assert_eq!(arrived.status.success(), push.status.success(), "round {round}");
        if push.status.success() {
            work.run(&["merge", "-q", "--ff-only", "origin/main"]).await;
        } else {
            work.run(&["reset", "-q", "--hard", "origin/main"]).await;
        }
    }
    work.run(&["fsck", "--strict"]).await;
}

async fn one_of_several_for_the_same_branches_is_opened(cluster: &Cluster) {
    let work = Work::new(cluster, "opened").await;
    work.push_commit("topic", "topic", "x\n").await;
    let body = json!({"head": "topic", "base": "main", "title": "One"});
    let responses = join_all((0..8).map(|_| work.create(&work.owner, &body))).await;
    assert_eq!(statuses(&responses), [201, 409, 409, 409, 409, 409, 409, 409]);
    let made = responses.iter().find(|response| response.status == 201).unwrap().json();
    let named = format!("#{}", number_of(&made));
    for response in responses.iter().filter(|response| response.status == 409) {
        response.clone().refused_with_message(409, &named);
    }
    assert_eq!(work.owner.get(&work.path("/pulls?state=all")).await.expect(200).ids("number"), [number_of(&made)]);
}

async fn closing_against_merging_ends_in_one_of_both(cluster: &Cluster) {
    let work = Work::new(cluster, "either").await;
    for round in 0..6 {
        let number = work.open(&format!("topic-{round}")).await;
        let path = work.pull_path(number, "");
        let close = json!({"state": "closed"});
        let (merged, closed) = tokio::join!(work.merge(number, json!({})), work.owner.patch(&path, &close));
        let (merged, closed) = (merged.status.as_u16(), closed.status.as_u16());
        let pull = work.pull(number).await;
        assert_eq!((&pull["state"], &pull["merged"]), (&json!("closed"), &json!(merged == 200)), "{merged} {closed}");
        work.fetch().await;
        let file = format!("origin/main:topic-{round}");
        let is_there = work.git.attempt("work", &["cat-file", "-e", &file]).await.status.success();
        assert_eq!(is_there, merged == 200, "{merged} {closed}");
        assert!([200, 404].contains(&merged) && [201, 412].contains(&closed), "{merged} {closed}");
    }
}

async fn a_push_to_the_head_meanwhile_is_merged_or_not_but_never_half(cluster: &Cluster) {
    let work = Work::new(cluster, "moving").await;
    for round in 0..6 {
        let branch = format!("topic-{round}");
        let number = work.open(&branch).await;
        let seen = work.tip(&branch).await;
        let newer = work.commit_on(&branch, &format!("more-{round}"), "x\n").await;
        let push = work.push(&branch);
        let body = json!({"Do": "merge", "head_commit_id": seen});
        let (response, ()) = tokio::join!(work.merge(number, body), push);
        work.fetch().await;
        if response.status == 200 {
            assert_eq!(work.run(&["rev-parse", "origin/main^2"]).await, seen);
            let pull = work.pull(number).await;
            assert_eq!((&pull["merged"], &pull["head"]["sha"]), (&json!(true), &json!(seen)), "{pull}");
            work.run(&["reset", "-q", "--hard", "origin/main"]).await;
        } else {
            assert_eq!(response.status, 409, "{}", response.text());
            work.poll(number, SETTLE_TIMEOUT, |pull| pull["head"]["sha"] == newer.as_str()).await;
            work.merge(number, json!({"Do": "merge", "head_commit_id": newer})).await.empty(200);
            work.fetch().await;
            work.run(&["reset", "-q", "--hard", "origin/main"]).await;
        }
    }
}
