//! The life of a pull request: opened, read, edited, closed, reopened.

use reqwest::Method;
use serde_json::{Value, json};

use super::{SETTLE_TIMEOUT, Work, is_commit, number_of, refused_for, text};
use crate::harness::{Cluster, Response};

on_profiles! {
    both {
        a_pull_request_is_opened_read_edited_closed_and_reopened
    }
    embedded {
        a_second_one_for_the_same_branches_is_refused_with_the_number_of_the_first
        comments_and_labels_are_those_of_the_issue_with_its_number
        what_cannot_be_opened_is_refused
        a_base_is_changed_to_a_branch_that_exists
        a_repeated_creation_opens_one
        its_commits_files_and_diff_are_those_of_git
    }
}

async fn a_pull_request_is_opened_read_edited_closed_and_reopened(cluster: &Cluster) {
    let work = Work::new(cluster, "life").await;
    let base = work.tip("main").await;
    let head = work.push_commit("feature/x", "new", "new\n").await;
    let body = json!({"head": "feature/x", "base": "main", "title": "A change", "body": "Why"});
    let made = work.create(&work.owner, &body).await.expect(201);
    let location = made.header("location");
    assert!(location.ends_with(&work.pull_path(1, "")), "{location}");
    let made = made.json();
    assert_eq!((number_of(&made), &made["state"], &made["draft"]), (1, &json!("open"), &json!(false)));
    assert_eq!((&made["title"], &made["body"]), (&json!("A change"), &json!("Why")));
    assert_eq!(made["user"]["login"], work.owner.name);
    assert_eq!((&made["merged"], &made["merged_at"], &made["closed_at"]), (&json!(false), &Value::Null, &Value::Null));
    assert_eq!((&made["mergeable"], &made["merged_by"]), (&json!(true), &Value::Null));
    assert_eq!((&made["head"]["ref"], &made["head"]["label"]), (&json!("feature/x"), &json!("feature/x")));
    assert!(is_commit(&made["head"]["sha"], &head) && is_commit(&made["base"]["sha"], &base), "{made}");
    assert!(is_commit(&made["merge_base"], &base), "{made}");
    assert_eq!((&made["base"]["ref"], &made["base"]["label"]), (&json!("main"), &json!("main")));
    let full_name = format!("{}/life", work.owner.name);
    for side in ["head", "base"] {
        assert_eq!(made[side]["repo"]["full_name"], full_name);
        assert_eq!(made[side]["repo_id"], made[side]["repo"]["id"]);
    }
    let page = made["html_url"].as_str().unwrap();
    assert!(page.ends_with(&format!("/{full_name}/pulls/1")), "{page}");
    assert_eq!(
        (&made["diff_url"], &made["patch_url"]),
        (&json!(format!("{location}.diff")), &json!(format!("{location}.patch")))
    );
    let read = work.pull(1).await;
    // The repositories may count the pull request by now.
    for field in
        ["id", "title", "mergeable", "merge_base", "updated_at", "head/sha", "head/ref", "base/sha", "base/ref"]
    {
        let pointer = format!("/{field}");
        assert_eq!(read.pointer(&pointer), made.pointer(&pointer), "{field}");
    }
    let by_branches = work.owner.get(&work.path("/pulls/main/feature/x")).await.expect(200).json();
    assert_eq!(number_of(&by_branches), 1);
    let owner = &work.owner.name;
    for head in ["feature%2Fx".to_owned(), format!("{owner}:feature/x"), format!("{owner}/life:feature/x")] {
        let found = work.owner.get(&work.path(&format!("/pulls/main/{head}"))).await.expect(200).json();
        assert_eq!(number_of(&found), 1, "{head}");
    }
    let by_commit = work.owner.get(&work.path(&format!("/commits/{head}/pull"))).await.expect(200).json();
    assert_eq!(number_of(&by_commit), 1);
    work.owner.get(&work.path(&format!("/commits/{base}/pull"))).await.refused(404);

    let edited = work.edit(1, json!({"title": "Another", "body": ""})).await;
    assert_eq!((&edited["title"], &edited["body"]), (&json!("Another"), &json!("")));
    assert_eq!(work.edit(1, json!({"title": "", "body": null, "milestone": 0})).await["title"], "Another");
    let draft = work.edit(1, json!({"title": "WIP: Another"})).await;
    assert_eq!((&draft["draft"], &draft["mergeable"]), (&json!(true), &json!(false)));
    work.edit(1, json!({"title": "Another"})).await;
    work.owner.eventually(&work.repo, |repository| repository["open_pr_counter"] == 1).await;

    let closed = work.edit(1, json!({"state": "closed"})).await;
    assert_eq!((&closed["state"], &closed["merged"]), (&json!("closed"), &json!(false)));
    assert!(closed["closed_at"].is_string() && is_commit(&closed["head"]["sha"], &head), "{closed}");
    work.owner.get(&work.path("/pulls/main/feature/x")).await.refused(404);
    work.owner.eventually(&work.repo, |repository| repository["open_pr_counter"] == 0).await;
    let open = work.edit(1, json!({"state": "open"})).await;
    assert_eq!((&open["state"], &open["closed_at"], &open["mergeable"]), (&json!("open"), &Value::Null, &json!(true)));
    // An issue of the same repository has the next number.
    assert_eq!(work.owner.new_issue(&work.repo, "An issue", json!({})).await["number"], 2);
}

async fn a_second_one_for_the_same_branches_is_refused_with_the_number_of_the_first(cluster: &Cluster) {
    let work = Work::new(cluster, "twice").await;
    work.owner.new_issue(&work.repo, "First", json!({})).await;
    let number = work.open("topic").await;
    let body = json!({"head": "topic", "base": "main", "title": "Again"});
    work.create(&work.owner, &body).await.refused_with_message(409, &format!("#{number}"));
    // To another base, and when the first is closed, there may be one.
    work.push("main:other").await;
    work.open_from("topic", "other").await;
    work.edit(number, json!({"state": "closed"})).await;
    let second = number_of(&work.create(&work.owner, &body).await.expect(201).json());
    work.owner.patch(&work.pull_path(number, ""), &json!({"state": "open"})).await.refused(409);
    assert_eq!(number_of(&work.owner.get(&work.path("/pulls/main/topic")).await.expect(200).json()), second);
}

async fn comments_and_labels_are_those_of_the_issue_with_its_number(cluster: &Cluster) {
    let work = Work::new(cluster, "shared").await;
    let number = work.open("topic").await;
    let (label, other) =
        (work.owner.new_label(&work.repo, "deps").await, work.owner.new_label(&work.repo, "bug").await);
    let milestone = work.owner.new_milestone(&work.repo, "1.0").await;
    let labels = work.path(&format!("/issues/{number}/labels"));
    work.owner.post(&labels, &json!({"labels": [label]})).await.expect(200);
    work.owner.new_comment(&work.repo, number, "Looks good").await;
    let pull = work.pull(number).await;
    assert_eq!((&pull["labels"][0]["name"], &pull["comments"]), (&json!("deps"), &json!(1)));
    let edited = work.edit(number, json!({"labels": [other], "milestone": milestone})).await;
    assert_eq!((&edited["labels"][0]["name"], &edited["milestone"]["title"]), (&json!("bug"), &json!("1.0")));
    assert_eq!(work.owner.labels_of(&work.repo, number).await, ["bug"]);
    let assigned = work.edit(number, json!({"assignees": [work.owner.name]})).await;
    assert_eq!(assigned["assignees"][0]["login"], work.owner.name);
    // What does not set labels and assignees keeps them; empty lists remove them.
    let kept = work.edit(number, json!({"labels": null, "assignees": null, "assignee": ""})).await;
    assert_eq!((kept["labels"].as_array().unwrap().len(), kept["assignees"].as_array().unwrap().len()), (1, 1));
    let cleared = work.edit(number, json!({"labels": [], "assignees": []})).await;
    assert_eq!((&cleared["labels"], &cleared["assignees"]), (&json!([]), &json!([])));
    let issue = work.owner.issue(&work.repo, number).await;
    assert_eq!((&issue["pull_request"]["merged"], &issue["comments"]), (&json!(false), &json!(1)));
    assert_eq!(work.owner.edit_issue(&work.repo, number, json!({"title": "By issue"})).await["title"], "By issue");
    assert_eq!(work.pull(number).await["title"], "By issue");
    let issue = work.owner.new_issue(&work.repo, "An issue", json!({})).await;
    work.owner.get(&work.pull_path(number_of(&issue), "")).await.refused(404);
}

async fn what_cannot_be_opened_is_refused(cluster: &Cluster) {
    let work = Work::new(cluster, "strict").await;
    work.push_commit("topic", "a", "a\n").await;
    work.push("main:same").await;
    let open = async |head: &str, base: &str| {
        work.create(&work.owner, &json!({"head": head, "base": base, "title": "x"})).await
    };
    open("gone", "main").await.refused(404);
    open("topic", "gone").await.refused(404);
    open("nobody-at-all:topic", "main").await.refused(404);
    open("main", "main").await.refused(422);
    open("same", "main").await.refused(422);
    work.run(&["tag", "v1"]).await;
    work.push("v1").await;
    open("v1", "main").await.refused_any(&[404, 422]);
    for (more, field) in [
        (json!({"title": ""}), "title"),
        (json!({"title": 7}), "title"),
        (json!({"head": ""}), "head"),
        (json!({"base": []}), "base"),
        (json!({"body": "a\u{0}b"}), "body"),
        (json!({"labels": ["deps"]}), "labels"),
        (json!({"reviewers": ["somebody"]}), "reviewers"),
        (json!({"team_reviewers": ["somebody"]}), "team_reviewers"),
    ] {
        let mut body = json!({"head": "topic", "base": "main", "title": "x"});
        body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        work.create(&work.owner, &body).await.refused_field(field);
    }
    let off = json!({"has_pull_requests": false});
    assert_eq!(work.owner.patch(&work.repo, &off).await.expect(200).json()["has_pull_requests"], false);
    open("topic", "main").await.refused(404);
    work.owner.get(&work.path("/pulls")).await.refused(404);
    work.owner.patch(&work.repo, &json!({"has_pull_requests": true, "archived": true})).await.expect(200);
    assert_eq!(work.owner.get(&work.path("/pulls")).await.expect(200).json(), json!([]));
    open("topic", "main").await.refused(403);
}

async fn a_base_is_changed_to_a_branch_that_exists(cluster: &Cluster) {
    let work = Work::new(cluster, "based").await;
    let number = work.open("topic").await;
    work.push_commit("next", "next", "next\n").await;
    let moved = work.edit(number, json!({"base": "next"})).await;
    assert_eq!((&moved["base"]["ref"], &moved["mergeable"]), (&json!("next"), &json!(true)));
    let path = work.pull_path(number, "");
    work.owner.patch(&path, &json!({"base": "gone"})).await.refused(404);
    // Another name of the same commit.
    work.push("topic:same").await;
    refused_for(work.owner.patch(&path, &json!({"base": "same"})).await, 422, "NOTHING_TO_MERGE");
    work.open_from("topic", "main").await;
    work.owner.patch(&path, &json!({"base": "main"})).await.refused(409);
    work.edit(number, json!({"state": "closed"})).await;
    work.owner.patch(&path, &json!({"base": "main"})).await.refused(422);
}

async fn a_repeated_creation_opens_one(cluster: &Cluster) {
    let work = Work::new(cluster, "keyed").await;
    work.push_commit("topic", "a", "a\n").await;
    let body = json!({"head": "topic", "base": "main", "title": "Once"});
    let send = async || {
        let request = work.owner.request(Method::POST, &work.path("/pulls")).header("idempotency-key", "one");
        number_of(&Response::of(request.json(&body)).await.expect(201).json())
    };
    assert_eq!((send().await, send().await), (1, 1));
}

async fn its_commits_files_and_diff_are_those_of_git(cluster: &Cluster) {
    let work = Work::new(cluster, "read").await;
    work.commit_on("topic", "added", "one\ntwo\n").await;
    let head = work.push_commit("topic", super::FILE, &text(3, "changed")).await;
    let number = work.open_from("topic", "main").await;
    // What is new on the base is no change of the pull request.
    work.push_commit("main", "elsewhere", "x\n").await;
    let commits = work.owner.get(&work.pull_path(number, "/commits")).await.expect(200);
    assert_eq!(commits.each("sha")[0], head);
    assert_eq!((commits.each("sha").len(), commits.header("x-total-count").as_str()), (2, "2"));
    let files = work.owner.get(&work.pull_path(number, "/files")).await.expect(200);
    assert_eq!(
        (files.each("filename"), files.each("status")),
        (vec!["added".to_owned(), super::FILE.to_owned()], vec!["added".to_owned(), "changed".to_owned()])
    );
    assert_eq!((files.ids("additions"), files.ids("deletions")), (vec![2, 1], vec![0, 1]));
    let pull = work.poll(number, SETTLE_TIMEOUT, |pull| pull["changed_files"] == 2).await;
    assert_eq!((&pull["additions"], &pull["deletions"]), (&json!(3), &json!(1)));
    let diff = work.owner.get(&work.pull_path(number, ".diff")).await.expect(200);
    let expected = work.run(&["diff", "main~1...topic"]).await;
    assert_eq!(diff.text().trim_end(), expected.trim_end());
    let patch = work.owner.get(&work.pull_path(number, ".patch")).await.expect(200).text();
    assert!(patch.contains("Change added") && patch.contains("Change text"), "{patch}");
}
