//! The timeline of an issue: its changes, and references from other issues. `closing` covers those
//! from commits.

use serde_json::{Value, json};

use crate::harness::{Cluster, User};

on_profiles! {
    both {
        get_timeline_lists_who_changed_what
        get_timeline_lists_references_from_other_issues_once
        references_from_hidden_repositories_are_left_out
    }
    embedded {
        timeline_entries_keep_the_names_of_their_time
        changes_of_one_request_are_listed_one_by_one
        get_timeline_has_pages
        references_in_code_and_to_oneself_are_none
        get_timeline_is_for_those_who_may_read
    }
}

/// Names of Gitea, beside our own.
const OF_GITEA: [&str; 9] = [
    "type",
    "updated_at",
    "issue_url",
    "body",
    "removed_assignee",
    "old_milestone",
    "old_title",
    "new_title",
    "ref_commit_sha",
];

/// The keys of an entry, without those that all entries have and those of Gitea.
#[track_caller]
fn own_keys(entry: &Value) -> Vec<&str> {
    let (common, own): (Vec<_>, Vec<_>) = entry
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .filter(|key| !OF_GITEA.contains(key))
        .partition(|key| ["id", "action", "user", "created_at"].contains(key));
    assert_eq!(common.len(), 4, "{entry}");
    own
}

async fn get_timeline_lists_who_changed_what(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let repo = ada.new_tracker("tracker", json!({})).await;
    ada.share(&repo, &bob, "write").await;
    let (label, milestone) = (ada.new_label(&repo, "bug").await, ada.new_milestone(&repo, "One").await);
    ada.new_issue(&repo, "Before", json!({"body": "Text"})).await;
    assert_eq!(ada.actions(&repo, 1).await, [""; 0]);
    for body in [
        json!({"title": "After"}),
        json!({"body": "Other"}),
        json!({"assignee": ada.name}),
        json!({"assignee": ""}),
        json!({"milestone": milestone}),
        json!({"milestone": 0}),
        json!({"state": "closed"}),
        json!({"state": "open"}),
    ] {
        bob.edit_issue(&repo, 1, body).await;
    }
    let labels = format!("{repo}/issues/1/labels");
    bob.post(&labels, &json!({"labels": [label]})).await.expect(200);
    bob.delete(&format!("{labels}/{label}")).await.expect(204);
    bob.new_comment(&repo, 1, "Text").await;
    let timeline = ada.timeline(&repo, 1).await;
    let account = |user: &User| json!({"id": user.id, "username": user.name});
    let short = |value: &Value| json!({"id": value["id"], "username": value["username"]});
    let label = ada.get(&format!("{repo}/labels/{label}")).await.expect(200).json();
    let expected = [
        ("renamed", "rename", json!({"from": "Before", "to": "After"})),
        ("edited", "", Value::Null),
        ("assigned", "assignee", account(&ada)),
        ("unassigned", "assignee", account(&ada)),
        ("milestoned", "milestone", json!({"title": "One"})),
        ("demilestoned", "milestone", json!({"title": "One"})),
        ("closed", "", Value::Null),
        ("reopened", "", Value::Null),
        ("labeled", "label", label.clone()),
        ("unlabeled", "label", label),
    ];
    assert_eq!(timeline.len(), expected.len(), "{timeline:#?}");
    for (entry, (action, key, value)) in timeline.iter().zip(expected) {
        assert_eq!(entry["action"], action);
        assert_eq!(short(&entry["user"]), account(&bob), "{action}");
        assert!(entry["created_at"].as_str().is_some_and(|time| time.ends_with('Z')), "{entry}");
        if key.is_empty() {
            assert_eq!(own_keys(entry), [""; 0], "{entry}");
            continue;
        }
        assert_eq!(own_keys(entry), [key], "{entry}");
        assert_eq!(if key == "assignee" { short(&entry[key]) } else { entry[key].clone() }, value, "{entry}");
    }
    let kinds: Vec<_> = timeline.iter().filter_map(|entry| entry["type"].as_str()).collect();
    let expected =
        ["change_title", "assignees", "assignees", "milestone", "milestone", "close", "reopen", "label", "label"];
    assert_eq!(kinds, expected);
    let ids: Vec<_> = timeline.iter().map(|entry| entry["id"].as_i64().unwrap()).collect();
    assert!(ids.is_sorted() && ids[0] > 0, "{ids:?}");
}

async fn timeline_entries_keep_the_names_of_their_time(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let (label, milestone) = (ada.new_label(&repo, "bug").await, ada.new_milestone(&repo, "One").await);
    ada.new_issue(&repo, "Issue", json!({})).await;
    ada.put(&format!("{repo}/issues/1/labels"), &json!({"labels": [label]})).await.expect(200);
    ada.edit_issue(&repo, 1, json!({"milestone": milestone})).await;
    let before = ada.timeline(&repo, 1).await;
    ada.patch(&format!("{repo}/labels/{label}"), &json!({"name": "fault", "color": "#ffffff"})).await.expect(200);
    ada.patch(&format!("{repo}/milestones/{milestone}"), &json!({"title": "Two"})).await.expect(200);
    assert_eq!(ada.timeline(&repo, 1).await, before);
    ada.delete(&format!("{repo}/labels/{label}")).await.expect(204);
    ada.delete(&format!("{repo}/milestones/{milestone}")).await.expect(204);
    let after = ada.timeline(&repo, 1).await;
    assert_eq!(after[..2], before);
    assert_eq!((&after[0]["label"]["name"], &after[1]["milestone"]["title"]), (&json!("bug"), &json!("One")));
}

async fn changes_of_one_request_are_listed_one_by_one(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let milestone = ada.new_milestone(&repo, "One").await;
    let (bug, slow) = (ada.new_label(&repo, "bug").await, ada.new_label(&repo, "slow").await);
    ada.new_issue(&repo, "Issue", json!({})).await;
    let all = json!({"title": "New", "body": "New", "assignee": ada.name, "milestone": milestone, "state": "closed"});
    ada.edit_issue(&repo, 1, all).await;
    let mut actions = ada.actions(&repo, 1).await;
    actions.sort_unstable();
    assert_eq!(actions, ["assigned", "closed", "edited", "milestoned", "renamed"]);
    let path = format!("{repo}/issues/1/labels");
    ada.put(&path, &json!({"labels": [bug]})).await.expect(200);
    ada.put(&path, &json!({"labels": [slow]})).await.expect(200);
    ada.delete(&path).await.expect(204);
    let changes: Vec<_> = ada.timeline(&repo, 1).await.split_off(5);
    let changes = changes.iter().map(|entry| (entry["action"].clone(), entry["label"]["name"].clone()));
    let mut changes: Vec<_> = changes.collect();
    changes[1..3].sort_by_key(|(action, _)| action.to_string());
    let expected = [("labeled", "bug"), ("labeled", "slow"), ("unlabeled", "bug"), ("unlabeled", "slow")];
    assert_eq!(changes, expected.map(|(action, name)| (json!(action), json!(name))));
}

async fn get_timeline_has_pages(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    ada.new_issue(&repo, "Issue", json!({})).await;
    for number in 0..5 {
        ada.edit_issue(&repo, 1, json!({"title": format!("Title {number}")})).await;
    }
    let all = ada.timeline(&repo, 1).await;
    assert_eq!(all.len(), 5);
    let path = format!("{repo}/issues/1/timeline");
    for (index, expected) in all.chunks(2).enumerate() {
        let page = ada.get(&format!("{path}?limit=2&page={}", index + 1)).await.expect(200);
        assert_eq!(page.json().as_array().unwrap(), expected);
        assert_eq!(page.header("x-total-count"), "5");
    }
    let first = ada.get(&format!("{path}?limit=2")).await.expect(200);
    let link = |page: u8, rel: &str| format!("<{}/api/v1{path}?limit=2&page={page}>; rel=\"{rel}\"", cluster.url);
    assert_eq!(first.header("link"), [link(2, "next"), link(3, "last")].join(","));
    assert_eq!(ada.get(&format!("{path}?page=2")).await.expect(200).text(), "[]");
}

/// Numbers and repositories of the issues that refer to an issue.
async fn sources(user: &User, repo: &str, number: i64) -> Vec<(String, i64)> {
    let timeline = user.timeline(repo, number).await;
    let references = timeline.iter().filter(|entry| entry["action"] == "referenced");
    let source = |issue: &Value| (issue["repository"].as_str().unwrap().to_owned(), issue["number"].as_i64().unwrap());
    references.map(|entry| source(&entry["issue"])).collect()
}

/// Waits for a number of references from other issues, and returns them.
async fn eventual_sources(user: &User, repo: &str, number: i64, count: usize) -> Vec<(String, i64)> {
    let path = format!("{repo}/issues/{number}/timeline");
    user.eventually(&path, |timeline| {
        let references = timeline.as_array().unwrap().iter().filter(|entry| entry["action"] == "referenced");
        references.count() >= count
    })
    .await;
    sources(user, repo, number).await
}

async fn get_timeline_lists_references_from_other_issues_once(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let repo = ada.new_tracker("tracker", json!({})).await;
    let other = bob.new_tracker("other", json!({})).await;
    ada.new_issue(&repo, "Named", json!({})).await;
    // The second names it in its body and again in an edit, the third in a comment.
    bob.new_issue(&repo, "Second", json!({"body": "As in #1, and once more #1."})).await;
    bob.edit_issue(&repo, 2, json!({"body": "Still as in #1"})).await;
    ada.new_issue(&repo, "Third", json!({"body": "#99"})).await;
    ada.new_comment(&repo, 3, "That is #1").await;
    let name = format!("{}/tracker", ada.name);
    assert_eq!(eventual_sources(&ada, &repo, 1, 2).await, [(name.clone(), 2), (name.clone(), 3)]);
    // From another repository, by its full name.
    let whole = format!("See {}/TRACKER#1", ada.name.to_uppercase());
    bob.new_issue(&other, "Elsewhere", json!({ "body": whole })).await;
    let elsewhere = (format!("{}/other", bob.name), 1);
    assert_eq!(eventual_sources(&ada, &repo, 1, 3).await, [(name.clone(), 2), (name, 3), elsewhere.clone()]);
    let entry = ada.timeline(&repo, 1).await.pop().unwrap();
    assert_eq!(own_keys(&entry), ["issue"]);
    assert_eq!(entry["user"]["username"], bob.name);
    let url = format!("{}/{}/other/issues/1", cluster.url, bob.name);
    assert_eq!(entry["issue"], json!({"repository": elsewhere.0, "number": 1, "html_url": url}));
    let issue = ada.issue(&repo, 1).await;
    assert_eq!((&issue["state"], &issue["comments"]), (&json!("open"), &json!(0)));
}

async fn references_from_hidden_repositories_are_left_out(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let repo = ada.new_tracker("tracker", json!({})).await;
    let hidden = ada.new_tracker("hidden", json!({"private": true})).await;
    ada.new_issue(&repo, "Named", json!({})).await;
    ada.new_issue(&hidden, "Secret", json!({"body": format!("{}/tracker#1", ada.name)})).await;
    ada.new_issue(&repo, "Open", json!({"body": "#1"})).await;
    assert_eq!(eventual_sources(&ada, &repo, 1, 2).await.len(), 2);
    let of_bob = async || {
        let response = bob.get(&format!("{repo}/issues/1/timeline")).await.expect(200);
        assert!(!response.text().contains("hidden"), "{}", response.text());
        response.header("x-total-count")
    };
    assert_eq!(sources(&bob, &repo, 1).await, [(format!("{}/tracker", ada.name), 2)]);
    assert_eq!(of_bob().await, "1", "the count does not reveal it either");
    ada.share(&hidden, &bob, "read").await;
    assert_eq!(sources(&bob, &repo, 1).await.len(), 2);
    ada.delete(&format!("{hidden}/collaborators/{}", bob.name)).await.expect(204);
    assert_eq!(of_bob().await, "1");
    // References from a repository with disabled issues are hidden from everybody.
    ada.patch(&format!("{hidden}/issue-tracker"), &json!({"enable_issues": false})).await.expect(204);
    assert_eq!(sources(&ada, &repo, 1).await, [(format!("{}/tracker", ada.name), 2)]);
}

async fn references_in_code_and_to_oneself_are_none(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    ada.new_issue(&repo, "Named", json!({"body": "I am #1"})).await;
    for body in [
        "`#1`",
        "```\n#1\n```",
        "    #1",
        "x#1",
        "#1a",
        "#01x",
        "# 1",
        "&#1;",
        "<a href=\"#1\">x</a>",
        "[x](#1)",
        "#0 #-1 #99999999999999999999",
    ] {
        ada.new_issue(&repo, "Not a reference", json!({ "body": body })).await;
    }
    // Titles do not count either. The last issue has a reference, so when it arrives, nothing else
    // is pending.
    ada.new_issue(&repo, "Like #1", json!({})).await;
    let last = ada.new_issue(&repo, "Last", json!({"body": "(#1), [#1](http://x)"})).await["number"].as_i64().unwrap();
    assert_eq!(eventual_sources(&ada, &repo, 1, 1).await, [(format!("{}/tracker", ada.name), last)]);
}

async fn get_timeline_is_for_those_who_may_read(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    let (open, hidden) =
        (ada.new_tracker("open", json!({})).await, ada.new_tracker("hidden", json!({"private": true})).await);
    for repo in [&open, &hidden] {
        ada.new_issue(repo, "One", json!({})).await;
        ada.get(&format!("{repo}/issues/2/timeline")).await.refused(404);
    }
    for reader in [&outsider, &cluster.anonymous()] {
        reader.get(&format!("{open}/issues/1/timeline")).await.expect(200);
        reader.get(&format!("{hidden}/issues/1/timeline")).await.refused(404);
    }
}
