//! Reviews of pull requests: submitted, kept pending, stale, dismissed and deleted.

use reqwest::Method;
use serde_json::{Value, json};

use super::protection::writer;
use super::{FILE, Work, is_commit, number_of};
use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        a_review_is_submitted_dismissed_and_deleted
        a_push_makes_reviews_stale
    }
    embedded {
        a_pending_review_is_seen_by_its_author_alone
        additions_to_a_pending_review_are_submitted_at_once
        what_says_nothing_or_is_about_nothing_is_refused
        pull_requests_of_ones_own_and_closed_ones_are_only_commented
        reviews_need_the_scopes_of_pull_requests
    }
}

impl Work {
    /// Reviews a pull request.
    pub(super) async fn review(&self, user: &User, number: i64, body: Value) -> Value {
        user.post(&self.pull_path(number, "/reviews"), &body).await.expect(200).json()
    }

    /// Path of a review.
    pub(super) fn review_path(&self, number: i64, review: &Value, rest: &str) -> String {
        let id = review["id"].as_i64().unwrap_or_else(|| panic!("no id: {review}"));
        self.pull_path(number, &format!("/reviews/{id}{rest}"))
    }

    /// A review as the owner sees it.
    pub(super) async fn shown(&self, number: i64, review: &Value) -> Value {
        self.owner.get(&self.review_path(number, review, "")).await.expect(200).json()
    }

    /// The states of all reviews that a user sees.
    async fn states(&self, user: &User, number: i64) -> Vec<String> {
        user.get(&self.pull_path(number, "/reviews")).await.expect(200).each("state")
    }
}

/// A repository with a pull request from `topic`, and its number.
async fn opened(cluster: &Cluster, name: &str) -> (Work, i64) {
    let work = Work::new(cluster, name).await;
    let number = work.open("topic").await;
    (work, number)
}

/// A comment on the only line of the file that `topic` adds.
fn on_line(body: &str) -> Value {
    json!({"path": "topic", "body": body, "new_position": 1, "old_position": 0})
}

/// Whether a review is official, stale and dismissed.
fn flags(review: &Value) -> [bool; 3] {
    ["official", "stale", "dismissed"]
        .map(|name| review[name].as_bool().unwrap_or_else(|| panic!("no {name}: {review}")))
}

async fn a_review_is_submitted_dismissed_and_deleted(cluster: &Cluster) {
    let (work, number) = opened(cluster, "reviewed").await;
    let (bob, reader) = (writer(&work, cluster, "bob").await, cluster.outsider().await);
    let head = work.tip("topic").await;
    let approval = work.review(&bob, number, json!({"event": "APPROVED", "body": "Looks good"})).await;
    assert_eq!((&approval["state"], &approval["body"]), (&json!("APPROVED"), &json!("Looks good")));
    assert_eq!((&approval["user"]["login"], &approval["comments_count"]), (&json!(bob.name), &json!(0)));
    assert!(is_commit(&approval["commit_id"], &head) && approval["submitted_at"].is_string(), "{approval}");
    assert_eq!(flags(&approval), [true, false, false]);
    for place in ["html_url", "pull_request_url"] {
        let url = approval[place].as_str().unwrap_or_default();
        assert!(url.contains(&format!("{}/reviewed/pulls/{number}", work.owner.name)), "{place}: {url}");
    }
    // Who cannot write may review, which counts for nothing.
    let rejection = work.review(&reader, number, json!({"event": "REQUEST_CHANGES", "body": "Not yet"})).await;
    assert_eq!((&rejection["state"], flags(&rejection)), (&json!("REQUEST_CHANGES"), [false; 3]));
    let listed = reader.get(&work.pull_path(number, "/reviews?limit=1")).await.expect(200);
    assert_eq!((listed.each("state"), listed.header("x-total-count").as_str()), (vec!["APPROVED".to_owned()], "2"));
    assert!(listed.header("link").contains("rel=\"next\""), "{}", listed.header("link"));
    let shown = work.shown(number, &approval).await;
    for name in ["id", "state", "body", "commit_id", "submitted_at", "html_url"] {
        assert_eq!(shown[name], approval[name], "{name}");
    }

    let dismissal = json!({"message": "Too early"});
    let path = |rest: &str| work.review_path(number, &approval, rest);
    bob.post(&path("/dismissals"), &dismissal).await.refused(403);
    let dismissed = work.owner.post(&path("/dismissals"), &dismissal).await.expect(200).json();
    assert_eq!((&dismissed["state"], flags(&dismissed)), (&json!("APPROVED"), [true, false, true]));
    // It takes no body.
    let undismissal = work.owner.request(Method::POST, &path("/undismissals"));
    let undismissed = Response::of(undismissal).await.expect(200).json();
    assert_eq!(flags(&undismissed), [true, false, false]);
    work.owner.post(&path("/undismissals"), &json!({})).await.refused(422);
    let remark = work.review(&bob, number, json!({"event": "COMMENT", "body": "By the way"})).await;
    work.owner.post(&work.review_path(number, &remark, "/dismissals"), &dismissal).await.refused(422);

    reader.delete(&path("")).await.refused(403);
    bob.delete(&path("")).await.empty(204);
    work.owner.get(&path("")).await.refused(404);
    bob.delete(&path("")).await.refused(404);
    work.owner.delete(&work.review_path(number, &remark, "")).await.empty(204);
    assert_eq!(work.states(&reader, number).await, ["REQUEST_CHANGES"]);
    let timeline = work.owner.timeline(&work.repo, number).await;
    let actions: Vec<_> = timeline.iter().map(|entry| entry["action"].as_str().unwrap_or_default()).collect();
    assert_eq!(actions, ["reviewed", "reviewed", "review_dismissed", "review_undismissed", "reviewed"]);
    assert_eq!((&timeline[0]["user"]["login"], &timeline[0]["review_id"]), (&json!(bob.name), &approval["id"]));
}

async fn a_push_makes_reviews_stale(cluster: &Cluster) {
    let (work, number) = opened(cluster, "stale").await;
    let bob = writer(&work, cluster, "bob").await;
    let first = work.tip("topic").await;
    let approval = work.review(&bob, number, json!({"event": "APPROVED"})).await;
    let second = work.push_commit("topic", "more", "x\n").await;
    work.head_becomes(number, &second).await;
    let shown = work.shown(number, &approval).await;
    assert_eq!((flags(&shown), is_commit(&shown["commit_id"], &first)), ([true, true, false], true), "{shown}");
    // An earlier head can still be reviewed.
    let late = work.review(&bob, number, json!({"event": "COMMENT", "body": "Of before", "commit_id": first})).await;
    assert!(late["stale"] == true && is_commit(&late["commit_id"], &first), "{late}");
    let current = work.review(&bob, number, json!({"event": "COMMENT", "body": "Of now", "commit_id": second})).await;
    assert_eq!(current["stale"], false);
    work.run(&["push", "-q", "--force", "origin", &format!("{first}:refs/heads/topic")]).await;
    work.head_becomes(number, &first).await;
    let listed = work.owner.get(&work.pull_path(number, "/reviews")).await.expect(200).json();
    let stale: Vec<_> = listed.as_array().unwrap().iter().map(|review| review["stale"].clone()).collect();
    assert_eq!(stale, [false, false, true]);
}

async fn a_pending_review_is_seen_by_its_author_alone(cluster: &Cluster) {
    let (work, number) = opened(cluster, "pending").await;
    let bob = writer(&work, cluster, "bob").await;
    let pending = work.review(&bob, number, json!({"body": "Draft", "comments": [on_line("Why?")]})).await;
    assert_eq!((&pending["state"], &pending["submitted_at"]), (&json!("PENDING"), &Value::Null));
    let path = |rest: &str| work.review_path(number, &pending, rest);
    let comments = bob.get(&path("/comments")).await.expect(200);
    let comment = work.path(&format!("/pulls/comments/{}", comments.ids("id")[0]));
    bob.get(&comment).await.expect(200);
    assert_eq!(work.states(&bob, number).await, ["PENDING"]);
    for other in [&work.owner, &cluster.admin().await] {
        for hidden in [&path(""), &path("/comments"), &comment] {
            other.get(hidden).await.refused(404);
        }
        other.post(&path(""), &json!({"event": "APPROVED"})).await.refused(404);
        other.delete(&path("")).await.refused(404);
        other.patch(&comment, &json!({"body": "x"})).await.refused(404);
        assert_eq!(work.states(other, number).await, [""; 0]);
        let pull = other.get(&work.pull_path(number, "")).await.expect(200).json();
        assert_eq!((&pull["review_comments"], &pull["comments"]), (&json!(0), &json!(0)));
    }
    assert_eq!(work.owner.actions(&work.repo, number).await, [""; 0]);
    bob.delete(&path("")).await.empty(204);
    assert_eq!(work.states(&bob, number).await, [""; 0]);
    assert_eq!(work.owner.actions(&work.repo, number).await, [""; 0]);
}

async fn additions_to_a_pending_review_are_submitted_at_once(cluster: &Cluster) {
    let (work, number) = opened(cluster, "added").await;
    let bob = writer(&work, cluster, "bob").await;
    let pending = work.review(&bob, number, json!({"event": "", "comments": [on_line("One")]})).await;
    let more = json!({"event": "PENDING", "body": "Draft", "comments": [on_line("Two")]});
    let added = work.review(&bob, number, more).await;
    assert_eq!((&added["id"], &added["comments_count"]), (&pending["id"], &json!(2)));
    let path = work.review_path(number, &pending, "");
    let submitted = bob.post(&path, &json!({"event": "REQUEST_CHANGES", "body": "Please"})).await.expect(200).json();
    assert_eq!(
        (&submitted["id"], &submitted["state"], &submitted["body"]),
        (&pending["id"], &json!("REQUEST_CHANGES"), &json!("Please"))
    );
    bob.post(&path, &json!({"event": "APPROVED"})).await.refused(422);
    let comments = work.owner.get(&format!("{path}/comments")).await.expect(200);
    assert_eq!(comments.each("body"), ["One", "Two"]);
    assert_eq!(work.pull(number).await["review_comments"], 2);
    assert_eq!(work.owner.actions(&work.repo, number).await, ["reviewed"]);
    // The next is another one, and a submission takes what is pending along.
    let next = work.review(&bob, number, json!({"comments": [on_line("Three")]})).await;
    assert_ne!(next["id"], pending["id"]);
    let approved = work.review(&bob, number, json!({"event": "APPROVE", "comments": [on_line("Four")]})).await;
    assert_eq!(
        (&approved["id"], &approved["state"], &approved["comments_count"]),
        (&next["id"], &json!("APPROVED"), &json!(2))
    );
    assert_eq!(work.states(&work.owner, number).await, ["REQUEST_CHANGES", "APPROVED"]);
}

async fn what_says_nothing_or_is_about_nothing_is_refused(cluster: &Cluster) {
    let (work, number) = opened(cluster, "refused").await;
    let bob = writer(&work, cluster, "bob").await;
    let refuse = async |body: Value| {
        bob.post(&work.pull_path(number, "/reviews"), &body).await.refused(422);
    };
    refuse(json!({"event": "COMMENT"})).await;
    refuse(json!({"event": "REQUEST_CHANGES", "body": " "})).await;
    refuse(json!({"event": "LIKED", "body": "x"})).await;
    refuse(json!({"event": "REQUEST_REVIEW", "body": "x"})).await;
    refuse(json!({"event": "COMMENT", "body": "a\u{0}b"})).await;
    for commit in ["topic", "12345678", &"0".repeat(40), &work.tip("main").await] {
        refuse(json!({"event": "COMMENT", "body": "x", "commit_id": commit})).await;
    }
    for (field, value) in [
        ("path", json!("gone")),
        ("path", json!("")),
        ("path", json!("../topic")),
        ("body", json!(" ")),
        ("new_position", json!(2)),
        ("new_position", json!(0)),
        ("new_position", json!(-1)),
        ("old_position", json!(1)),
        ("line_count", json!(2)),
        ("line_count", json!(1001)),
    ] {
        let mut comment = on_line("x");
        comment[field] = value;
        refuse(json!({"event": "COMMENT", "comments": [comment]})).await;
    }
    // A line of a file that the pull request does not touch is there, but not in the diff.
    let elsewhere = json!({"path": FILE, "body": "See also", "new_position": 3});
    work.review(&bob, number, json!({"event": "COMMENT", "comments": [elsewhere]})).await;
    refuse(json!({"event": "COMMENT", "comments": vec![on_line("x"); 101]})).await;
    assert_eq!(work.states(&bob, number).await, ["COMMENT"]);
    let issue = work.owner.new_issue(&work.repo, "An issue", json!({})).await;
    let of_issue = work.pull_path(number_of(&issue), "/reviews");
    bob.post(&of_issue, &json!({"event": "APPROVED"})).await.refused(404);
    bob.get(&of_issue).await.refused(404);
    bob.get(&work.pull_path(number, "/reviews/999999999")).await.refused(404);
}

async fn pull_requests_of_ones_own_and_closed_ones_are_only_commented(cluster: &Cluster) {
    let (work, number) = opened(cluster, "own").await;
    let bob = writer(&work, cluster, "bob").await;
    let reviews = work.pull_path(number, "/reviews");
    let pending = work.review(&work.owner, number, json!({"body": "Mine"})).await;
    for event in ["APPROVED", "REQUEST_CHANGES"] {
        let judgement = json!({"event": event, "body": "Mine"});
        work.owner.post(&reviews, &judgement).await.refused(422);
        work.owner.post(&work.review_path(number, &pending, ""), &judgement).await.refused(422);
    }
    work.review(&work.owner, number, json!({"event": "COMMENT", "body": "Mine"})).await;
    work.edit(number, json!({"state": "closed"})).await;
    bob.post(&reviews, &json!({"event": "APPROVED"})).await.refused_any(&[409, 422]);
    work.review(&bob, number, json!({"event": "COMMENT", "body": "A pity"})).await;
    assert_eq!(work.states(&bob, number).await, ["COMMENT", "COMMENT"]);
    // Nobody reviews what is read-only or off.
    work.owner.patch(&work.repo, &json!({"archived": true})).await.expect(200);
    bob.post(&reviews, &json!({"event": "COMMENT", "body": "Late"})).await.refused(403);
    assert_eq!(work.states(&bob, number).await.len(), 2);
    work.owner.patch(&work.repo, &json!({"archived": false})).await.expect(200);
    work.owner.patch(&work.repo, &json!({"has_pull_requests": false})).await.expect(200);
    bob.get(&reviews).await.refused(404);
}

async fn reviews_need_the_scopes_of_pull_requests(cluster: &Cluster) {
    let (work, number) = opened(cluster, "scoped").await;
    let bob = writer(&work, cluster, "bob").await;
    let (reviews, remark) = (work.pull_path(number, "/reviews"), json!({"event": "COMMENT", "body": "x"}));
    cluster.anonymous().get(&reviews).await.expect(200);
    work.owner.patch(&work.repo, &json!({"private": true})).await.expect(200);
    for scopes in [&["issue"][..], &["repo:write"]] {
        let narrow = bob.with_scopes(scopes).await;
        narrow.get(&reviews).await.refused(403);
        narrow.post(&reviews, &remark).await.refused(403);
    }
    let enough = bob.with_scopes(&["issue", "repo:read"]).await;
    assert_eq!(work.review(&enough, number, json!({"event": "APPROVED"})).await["state"], "APPROVED");
    cluster.anonymous().get(&reviews).await.refused(404);
}
