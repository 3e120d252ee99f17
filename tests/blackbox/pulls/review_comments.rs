//! Comments of reviews on lines: they follow their lines until these change.

use serde_json::{Value, json};

use super::protection::writer;
use super::{FILE, Work, text};
use crate::harness::{Cluster, User};

on_profiles! {
    both {
        comments_follow_their_lines_until_these_change
    }
    embedded {
        a_comment_on_several_lines_follows_all_of_them
        comments_follow_a_base_that_moves
        a_comment_is_edited_resolved_and_deleted
    }
}

/// The comments of a review, as the owner sees them.
async fn comments(work: &Work, number: i64, review: &Value) -> Vec<Value> {
    let shown = work.owner.get(&work.review_path(number, review, "/comments")).await.expect(200).json();
    shown.as_array().unwrap_or_else(|| panic!("not a list: {shown}")).clone()
}

/// Where a comment is: its line now, its line when it was written, and whether its lines changed.
fn place(comment: &Value) -> (i64, i64, bool) {
    let number = |name: &str| comment[name].as_i64().unwrap_or_else(|| panic!("no {name}: {comment}"));
    (number("position"), number("original_position"), comment["outdated"] == true)
}

fn places(comments: &[Value]) -> Vec<(i64, i64, bool)> {
    comments.iter().map(place).collect()
}

/// The file of the base with other words in its tenth line, below two more lines.
fn moved(words: &str) -> String {
    format!("one\ntwo\n{}", text(9, words))
}

/// Reviews a pull request with comments.
async fn comment_on(work: &Work, user: &User, number: i64, comments: Value) -> Value {
    work.review(user, number, json!({"event": "COMMENT", "comments": comments})).await
}

async fn comments_follow_their_lines_until_these_change(cluster: &Cluster) {
    let work = Work::new(cluster, "followed").await;
    let bob = writer(&work, cluster, "bob").await;
    let first = work.push_commit("topic", FILE, &text(9, "changed")).await;
    let number = work.open_from("topic", "main").await;
    let review = json!([
        {"path": FILE, "body": "Why this?", "new_position": 10, "old_position": 0},
        {"path": FILE, "body": "Why not this?", "new_position": 0, "old_position": 10},
        {"path": FILE, "body": "And here?", "new_position": 3},
    ]);
    let review = comment_on(&work, &bob, number, review).await;
    assert_eq!(review["comments_count"], 3);
    let shown = comments(&work, number, &review).await;
    assert_eq!(places(&shown), [(10, 10, false), (0, 10, false), (3, 3, false)]);
    for (comment, (side, body)) in
        shown.iter().zip([("new", "Why this?"), ("old", "Why not this?"), ("new", "And here?")])
    {
        assert_eq!(
            (&comment["side"], &comment["body"], &comment["line_count"]),
            (&json!(side), &json!(body), &json!(1))
        );
        assert_eq!((&comment["path"], &comment["user"]["login"]), (&json!(FILE), &json!(bob.name)));
        assert_eq!((&comment["pull_request_review_id"], &comment["resolver"]), (&review["id"], &Value::Null));
        assert_eq!(comment["original_commit_id"], first);
        assert!(comment["html_url"].as_str().is_some_and(|url| url.contains(&format!("/pulls/{number}"))), "{comment}");
    }
    let hunk = shown[0]["diff_hunk"].as_str().unwrap_or_default();
    assert!(hunk.starts_with("@@") && hunk.contains("-line 9") && hunk.contains("+changed"), "{hunk}");
    let alone = work.owner.get(&work.path(&format!("/pulls/comments/{}", shown[0]["id"]))).await.expect(200).json();
    assert_eq!((place(&alone), &alone["diff_hunk"]), (place(&shown[0]), &shown[0]["diff_hunk"]));

    let shifted = work.push_commit("topic", FILE, &moved("changed")).await;
    work.head_becomes(number, &shifted).await;
    assert_eq!(places(&comments(&work, number, &review).await), [(12, 10, false), (0, 10, false), (5, 3, false)]);
    let changed = work.push_commit("topic", FILE, &moved("changed again")).await;
    work.head_becomes(number, &changed).await;
    let outdated = comments(&work, number, &review).await;
    assert_eq!(places(&outdated), [(0, 10, true), (0, 10, false), (5, 3, false)]);
    assert_eq!(outdated[0]["diff_hunk"], shown[0]["diff_hunk"]);
    // A comment of now counts from now.
    let later = json!([{"path": FILE, "body": "Now?", "new_position": 12}]);
    let later = comment_on(&work, &bob, number, later).await;
    assert_eq!(places(&comments(&work, number, &later).await), [(12, 12, false)]);
    let all = work.owner.get(&work.pull_path(number, "/comments?direction=desc")).await.expect(200).json();
    let newest_first = [(12, 12, false), (5, 3, false), (0, 10, false), (0, 10, true)];
    assert_eq!(places(all.as_array().unwrap()), newest_first);
    // A file that is gone has no lines; a head that is back has those that it had.
    work.run(&["checkout", "-q", "topic"]).await;
    work.run(&["rm", "-q", FILE]).await;
    work.run(&["commit", "-q", "-m", "Remove"]).await;
    let removed = work.run(&["rev-parse", "HEAD"]).await;
    work.run(&["checkout", "-q", "main"]).await;
    work.push("topic").await;
    work.head_becomes(number, &removed).await;
    assert_eq!(places(&comments(&work, number, &review).await), [(0, 10, true), (0, 10, false), (0, 3, true)]);
    work.run(&["push", "-q", "--force", "origin", &format!("{first}:refs/heads/topic")]).await;
    work.head_becomes(number, &first).await;
    assert_eq!(places(&comments(&work, number, &review).await), [(10, 10, false), (0, 10, false), (3, 3, false)]);
    assert_eq!(work.pull(number).await["review_comments"], 4);
}

async fn a_comment_on_several_lines_follows_all_of_them(cluster: &Cluster) {
    let work = Work::new(cluster, "several").await;
    let bob = writer(&work, cluster, "bob").await;
    work.push_commit("topic", FILE, &text(9, "changed")).await;
    let number = work.open_from("topic", "main").await;
    let review = json!([{"path": FILE, "body": "These three", "new_position": 11, "line_count": 3}]);
    let review = comment_on(&work, &bob, number, review).await;
    let shown = comments(&work, number, &review).await;
    assert_eq!((places(&shown), &shown[0]["line_count"]), (vec![(11, 11, false)], &json!(3)));
    let shifted = work.push_commit("topic", FILE, &moved("changed")).await;
    work.head_becomes(number, &shifted).await;
    assert_eq!(places(&comments(&work, number, &review).await), [(13, 11, false)]);
    // The first of them changes.
    let words = moved("changed").replace("line 8\n", "other\n");
    let changed = work.push_commit("topic", FILE, &words).await;
    work.head_becomes(number, &changed).await;
    assert_eq!(places(&comments(&work, number, &review).await), [(0, 11, true)]);
}

async fn comments_follow_a_base_that_moves(cluster: &Cluster) {
    let work = Work::new(cluster, "base").await;
    let bob = writer(&work, cluster, "bob").await;
    work.push_commit("topic", FILE, &text(9, "changed")).await;
    let number = work.open_from("topic", "main").await;
    let review = json!([
        {"path": FILE, "body": "On the base", "old_position": 10},
        {"path": FILE, "body": "On a line of both", "old_position": 19},
    ]);
    let review = comment_on(&work, &bob, number, review).await;
    work.push_commit("main", FILE, &text(18, "of the base")).await;
    // Lines of the base stay until the head has them.
    assert_eq!(places(&comments(&work, number, &review).await), [(0, 10, false), (0, 19, false)]);
    work.owner.post(&work.pull_path(number, "/update"), &json!({})).await.empty(200);
    let head = work.tip("topic").await;
    work.head_becomes(number, &head).await;
    assert_eq!(places(&comments(&work, number, &review).await), [(0, 10, false), (0, 19, true)]);
}

async fn a_comment_is_edited_resolved_and_deleted(cluster: &Cluster) {
    let work = Work::new(cluster, "settled").await;
    let (bob, outsider) = (writer(&work, cluster, "bob").await, cluster.outsider().await);
    let number = work.open("topic").await;
    let review = ["Why?", "x"].map(|body| json!({"path": "topic", "body": body, "new_position": 1}));
    let review = comment_on(&work, &outsider, number, json!(review)).await;
    let id = comments(&work, number, &review).await[0]["id"].clone();
    let path = |rest: &str| work.path(&format!("/pulls/comments/{id}{rest}"));
    for refused in [&bob, &cluster.user("eve").await] {
        refused.patch(&path(""), &json!({"body": "By another"})).await.refused(403);
        refused.delete(&path("")).await.refused(403);
    }
    outsider.patch(&path(""), &json!({"body": " "})).await.refused_field("body");
    let edited = outsider.patch(&path(""), &json!({"body": "Why, then?"})).await.expect(200).json();
    assert_eq!((&edited["body"], place(&edited)), (&json!("Why, then?"), (1, 1, false)));

    let resolver = async || work.owner.get(&path("")).await.expect(200).json()["resolver"]["login"].clone();
    cluster.user("mallory").await.post(&path("/resolve"), &json!({})).await.refused(403);
    for user in [&bob, &outsider, &work.owner] {
        user.post(&path("/resolve"), &json!({})).await.empty(204);
        assert_eq!(resolver().await, user.name);
        user.post(&path("/unresolve"), &json!({})).await.empty(204);
        assert_eq!(resolver().await, Value::Null);
    }

    // It is no comment of the issue, and those are none of reviews.
    work.owner.get(&work.path(&format!("/issues/comments/{id}"))).await.refused(404);
    let plain = work.owner.new_comment(&work.repo, number, "Plain").await;
    work.owner.get(&work.path(&format!("/pulls/comments/{plain}"))).await.refused(404);
    outsider.delete(&path("")).await.empty(204);
    work.owner.get(&path("")).await.refused(404);
    outsider.delete(&path("")).await.refused(404);
    assert_eq!(work.shown(number, &review).await["comments_count"], 1);
    let pull = work.pull(number).await;
    assert_eq!((&pull["review_comments"], &pull["comments"]), (&json!(1), &json!(1)));
}
