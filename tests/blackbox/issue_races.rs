//! Concurrent requests about the same issue, label or milestone: none is lost, and afterwards all
//! views agree. Each test can be repeated any number of times.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::harness::concurrent::{for_each, join_all};
use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        simultaneous_issues_get_consecutive_numbers
        replacing_labels_against_removing_one_ends_in_one_of_their_orders
        label_changes_of_all_kinds_at_once_leave_a_true_history
        closing_against_reopening_leaves_a_true_history
        edits_at_once_are_never_mixed
        edits_of_different_fields_at_once_are_all_kept
        simultaneous_comments_are_all_counted
        milestone_counts_are_true_after_simultaneous_changes
        deleting_a_label_against_setting_it_leaves_none
        deleting_a_milestone_against_setting_it_leaves_none
        one_of_several_labels_of_the_same_name_is_made
    }
    embedded {
        a_repository_has_at_most_a_thousand_labels_whoever_makes_them
    }
}

const AT_ONCE: usize = 16;
const ROUNDS: usize = 6;

/// The timeline actions that are one of these two.
fn of_either<'a>(timeline: &'a [Value], words: [&str; 2]) -> Vec<&'a str> {
    timeline.iter().filter_map(|entry| entry["action"].as_str()).filter(|action| words.contains(action)).collect()
}

/// Fails unless the timeline alternates between two actions, beginning with `first`. Returns
/// whether it also ends with `first`.
#[track_caller]
fn alternates(timeline: &[Value], first: &str, second: &str) -> bool {
    let actions = of_either(timeline, [first, second]);
    for (place, action) in actions.iter().enumerate() {
        assert_eq!(*action, if place % 2 == 0 { first } else { second }, "{actions:?}");
    }
    actions.len() % 2 == 1
}

async fn count(user: &User, repo: &str, query: &str) -> usize {
    let response = user.get(&format!("{repo}/issues?limit=50&{query}")).await.expect(200);
    let total: usize = response.header("x-total-count").parse().unwrap();
    assert_eq!(response.ids("number").len(), total.min(50), "{query}");
    total
}

async fn simultaneous_issues_get_consecutive_numbers(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let repo = &ada.new_tracker("busy", json!({})).await;
    let path = &format!("{repo}/issues");
    let label = ada.new_label(repo, "bug").await;
    let create = async |index: usize| {
        let user = if index.is_multiple_of(2) { &ada } else { &bob };
        let wrong = json!({"title": "x", "body": "\u{0}"});
        let body = json!({"title": format!("Issue {index}"), "closed": index.is_multiple_of(3), "labels": [label]});
        let (refused, made) = tokio::join!(user.post(path, &wrong), user.post(path, &body));
        refused.refused(422);
        (index, made.expect(201).json())
    };
    let made = join_all((0..AT_ONCE).map(create)).await;
    let mut numbers: Vec<_> = made.iter().map(|(_, issue)| issue["number"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=AT_ONCE as u64).collect::<Vec<_>>());
    for (index, issue) in &made {
        assert_eq!(issue["title"], format!("Issue {index}"));
        assert_eq!(ada.issue(repo, issue["number"].as_i64().unwrap()).await["id"], issue["id"]);
    }
    let closed = AT_ONCE.div_ceil(3);
    assert_eq!(ada.open_issues(repo).await, i64::try_from(AT_ONCE - closed).unwrap());
    assert_eq!((count(&ada, repo, "state=closed").await, count(&ada, repo, "state=all").await), (closed, AT_ONCE));
    assert_eq!(count(&ada, repo, "state=all&labels=bug").await, AT_ONCE / 2, "only writers set labels");
    let newest_first = ada.issue_numbers(repo, "state=all&limit=50").await;
    assert!(newest_first.iter().rev().eq(&(1..=AT_ONCE as i64).collect::<Vec<_>>()), "{newest_first:?}");
    let again = ada.new_issue(repo, "Next", json!({})).await;
    assert_eq!(again["number"], AT_ONCE as u64 + 1);
}

async fn replacing_labels_against_removing_one_ends_in_one_of_their_orders(cluster: &Cluster) {
    let ada = &cluster.user("ada").await;
    let repo = &ada.new_tracker("busy", json!({})).await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        ids.push(ada.new_label(repo, name).await);
    }
    let (a, b, c) = (ids[0], ids[1], ids[2]);
    ada.new_issue(repo, "Labeled", json!({})).await;
    let path = &format!("{repo}/issues/1/labels");
    for round in 0..ROUNDS {
        ada.put(path, &json!({"labels": [a, c]})).await.expect(200);
        let replace = async || ada.put(path, &json!({"labels": [a, b]})).await.expect(200).each("name");
        let remove = async || drop(ada.delete(&format!("{path}/{a}")).await.empty(204));
        let (replaced, ()) = tokio::join!(replace(), remove());
        assert_eq!(replaced, ["a", "b"], "{round}: the response matches its request");
        let left = ada.labels_of(repo, 1).await;
        assert!(left == ["b"] || left == ["a", "b"], "{round}: {left:?}");
        agree_on_labels(ada, repo, &left).await;
    }
}

/// Fails unless the issue, the label lists and the timeline agree on the labels of issue 1.
async fn agree_on_labels(user: &User, repo: &str, names: &[String]) {
    let issue = user.issue(repo, 1).await;
    let shown: Vec<_> = issue["labels"].as_array().unwrap().iter().map(|label| label["name"].clone()).collect();
    assert_eq!(shown, names);
    let mut by_timeline = BTreeMap::new();
    for entry in user.timeline(repo, 1).await {
        let is_labeled = entry["action"] == "labeled";
        if let Some(name) = entry["label"]["name"].as_str() {
            let before = by_timeline.insert(name.to_owned(), is_labeled).unwrap_or_default();
            assert_ne!(before, is_labeled, "{name} changed to what it was: {entry}");
        }
    }
    let set: BTreeSet<_> = by_timeline.into_iter().filter_map(|(name, is_set)| is_set.then_some(name)).collect();
    assert_eq!(set, names.iter().cloned().collect());
    for label in user.get(&format!("{repo}/labels")).await.expect(200).each("name") {
        let expected = usize::from(names.contains(&label));
        assert_eq!(count(user, repo, &format!("labels={label}")).await, expected, "{label}");
    }
}

async fn label_changes_of_all_kinds_at_once_leave_a_true_history(cluster: &Cluster) {
    let ada = &cluster.user("ada").await;
    let repo = &ada.new_tracker("busy", json!({})).await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        ids.push(ada.new_label(repo, name).await);
    }
    let ids = &ids;
    ada.new_issue(repo, "Labeled", json!({})).await;
    let path = &format!("{repo}/issues/1/labels");
    for_each(AT_ONCE, 0..AT_ONCE * 3, async |index| {
        let label = ids[index % 3];
        match index % 4 {
            0 => drop(ada.post(path, &json!({"labels": [label]})).await.expect(200)),
            1 => drop(ada.put(path, &json!({"labels": [label, ids[(index + 1) % 3]]})).await.expect(200)),
            2 => drop(ada.delete(&format!("{path}/{label}")).await.empty(204)),
            _ => drop(ada.delete(path).await.empty(204)),
        }
    })
    .await;
    let left = ada.labels_of(repo, 1).await;
    agree_on_labels(ada, repo, &left).await;
    ada.delete(path).await.empty(204);
    agree_on_labels(ada, repo, &[]).await;
}

async fn closing_against_reopening_leaves_a_true_history(cluster: &Cluster) {
    let ada = &cluster.user("ada").await;
    let repo = &ada.new_tracker("busy", json!({})).await;
    let (label, milestone) = (ada.new_label(repo, "bug").await, ada.new_milestone(repo, "One").await);
    let more = json!({"labels": [label], "milestone": milestone, "assignee": ada.name});
    ada.new_issue(repo, "Contested", more.clone()).await;
    ada.new_issue(repo, "Always open", more).await;
    for round in 0..ROUNDS {
        for_each(AT_ONCE, 0..AT_ONCE, async |index| {
            let word = if index % 2 == 0 { "closed" } else { "open" };
            let after = ada.edit_issue(repo, 1, json!({ "state": word })).await;
            assert_eq!(after["state"], word, "{round}: the response matches its request");
            assert_eq!(after["closed_at"].is_null(), word == "open", "{after}");
        })
        .await;
        let is_closed = alternates(&ada.timeline(repo, 1).await, "closed", "reopened");
        let issue = ada.issue(repo, 1).await;
        assert_eq!(issue["state"], if is_closed { "closed" } else { "open" });
        assert_eq!(issue["closed_at"].is_null(), !is_closed);
        let closed = usize::from(is_closed);
        assert_eq!(ada.open_issues(repo).await, if is_closed { 1 } else { 2 });
        let of_milestone = ada.milestone_counts(repo, milestone).await;
        assert_eq!(of_milestone, if is_closed { (1, 1) } else { (2, 0) });
        for filter in
            [String::new(), "labels=bug".to_owned(), "milestone=One".to_owned(), format!("assignee={}", ada.name)]
        {
            let open = count(ada, repo, &format!("state=open&{filter}")).await;
            assert_eq!(
                (open, count(ada, repo, &format!("state=closed&{filter}")).await),
                (2 - closed, closed),
                "{filter}"
            );
        }
    }
}

async fn edits_at_once_are_never_mixed(cluster: &Cluster) {
    let ada = &cluster.user("ada").await;
    let repo = &ada.new_tracker("busy", json!({})).await;
    ada.new_issue(repo, "Title 0", json!({"body": "Body 0"})).await;
    for round in 0..ROUNDS {
        for_each(AT_ONCE, 0..AT_ONCE, async |index| {
            let (title, body) = (format!("Title {round}-{index}"), format!("Body {round}-{index}"));
            let after = ada.edit_issue(repo, 1, json!({"title": title, "body": body})).await;
            assert_eq!((after["title"].as_str(), after["body"].as_str()), (Some(title.as_str()), Some(body.as_str())));
        })
        .await;
        let issue = ada.issue(repo, 1).await;
        let title = issue["title"].as_str().unwrap();
        assert_eq!(issue["body"], title.replace("Title", "Body"));
        let mut renames = ada.timeline(repo, 1).await;
        renames.retain(|entry| entry["action"] == "renamed");
        assert_eq!(renames.len(), AT_ONCE * (round + 1), "all titles differ");
        let mut now = json!("Title 0");
        for entry in &renames {
            assert_eq!(entry["rename"]["from"], now, "{entry}");
            now = entry["rename"]["to"].clone();
        }
        assert_eq!(now, title);
        assert_eq!(ada.issue_numbers(repo, &format!("q={}", title.replace(' ', "+"))).await, [1]);
    }
}

async fn edits_of_different_fields_at_once_are_all_kept(cluster: &Cluster) {
    let ada = &cluster.user("ada").await;
    let repo = &ada.new_tracker("busy", json!({})).await;
    let milestone = ada.new_milestone(repo, "One").await;
    let label = ada.new_label(repo, "bug").await;
    ada.new_issue(repo, "Title", json!({})).await;
    for round in 0..ROUNDS {
        let is_set = round % 2 == 0;
        let name = if is_set { ada.name.as_str() } else { "" };
        let labels = if is_set { json!([label]) } else { json!([]) };
        let edit = async |body: Value| ada.edit_issue(repo, 1, body).await;
        tokio::join!(
            edit(json!({"title": format!("Title {round}")})),
            edit(json!({"body": format!("Body {round}")})),
            edit(json!({"state": if is_set { "closed" } else { "open" }})),
            edit(json!({ "assignee": name })),
            edit(json!({"milestone": if is_set { milestone } else { 0 }})),
            async { ada.put(&format!("{repo}/issues/1/labels"), &json!({ "labels": labels })).await.expect(200) },
            ada.new_comment(repo, 1, "One more"),
        );
        let issue = ada.issue(repo, 1).await;
        assert_eq!(issue["title"], format!("Title {round}"));
        assert_eq!(issue["body"], format!("Body {round}"));
        assert_eq!(issue["state"], if is_set { "closed" } else { "open" });
        assert_eq!(issue["assignee"]["username"], if is_set { json!(ada.name) } else { Value::Null });
        assert_eq!(issue["milestone"]["id"], if is_set { json!(milestone) } else { Value::Null });
        assert_eq!(issue["labels"].as_array().unwrap().len(), usize::from(is_set));
        assert_eq!(issue["comments"], round + 1);
        assert_eq!(ada.milestone_counts(repo, milestone).await, (0, i64::from(is_set)));
        assert_eq!(ada.open_issues(repo).await, i64::from(!is_set));
    }
}

async fn simultaneous_comments_are_all_counted(cluster: &Cluster) {
    let (ada, bob) = (&cluster.user("ada").await, &cluster.user("bob").await);
    let repo = &ada.new_tracker("busy", json!({})).await;
    ada.new_issue(repo, "One", json!({})).await;
    ada.new_issue(repo, "Two", json!({})).await;
    let comment = async |index: usize| {
        let user = if index.is_multiple_of(2) { ada } else { bob };
        let number = i64::from(!index.is_multiple_of(4)) + 1;
        (number, user.new_comment(repo, number, &format!("Comment {index}")).await)
    };
    let made = join_all((0..AT_ONCE * 2).map(comment)).await;
    let distinct: BTreeSet<_> = made.iter().map(|(_, id)| *id).collect();
    assert_eq!(distinct.len(), AT_ONCE * 2);
    for number in [1, 2] {
        let expected: BTreeSet<_> = made.iter().filter(|(of, _)| *of == number).map(|(_, id)| *id).collect();
        let listed = ada.get(&format!("{repo}/issues/{number}/comments")).await.expect(200).ids("id");
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), expected);
        assert_eq!(ada.issue(repo, number).await["comments"], expected.len());
        for_each(AT_ONCE, expected, async |id| {
            ada.delete(&format!("{repo}/issues/comments/{id}")).await.empty(204);
        })
        .await;
        assert_eq!(ada.issue(repo, number).await["comments"], 0);
    }
}

async fn milestone_counts_are_true_after_simultaneous_changes(cluster: &Cluster) {
    let ada = &cluster.user("ada").await;
    let repo = &ada.new_tracker("busy", json!({})).await;
    let milestones = [ada.new_milestone(repo, "One").await, ada.new_milestone(repo, "Two").await];
    for number in 0..8 {
        ada.new_issue(repo, &format!("Issue {number}"), json!({"milestone": milestones[number % 2]})).await;
    }
    for _ in 0..ROUNDS {
        for_each(AT_ONCE, 0..AT_ONCE * 2, async |index: usize| {
            let number = i64::try_from(index % 8 + 1).unwrap();
            let body = match index % 5 {
                0 => json!({"state": "closed"}),
                1 => json!({"milestone": milestones[0]}),
                2 => json!({"state": "open", "milestone": 0}),
                3 => json!({"state": "closed", "milestone": milestones[1]}),
                _ => json!({"state": "open"}),
            };
            ada.edit_issue(repo, number, body).await;
        })
        .await;
        let issues = ada.get(&format!("{repo}/issues?state=all&limit=50")).await.expect(200).json();
        let issues = issues.as_array().unwrap();
        let with = |state: &str, id: i64| {
            issues.iter().filter(|issue| issue["state"] == state && issue["milestone"]["id"] == id).count()
        };
        for (id, title) in milestones.into_iter().zip(["One", "Two"]) {
            let (open, closed) = (with("open", id), with("closed", id));
            let expected = (i64::try_from(open).unwrap(), i64::try_from(closed).unwrap());
            assert_eq!(ada.milestone_counts(repo, id).await, expected);
            assert_eq!(count(ada, repo, &format!("state=open&milestone={title}")).await, open);
            assert_eq!(count(ada, repo, &format!("state=closed&milestone={title}")).await, closed);
        }
        let open = issues.iter().filter(|issue| issue["state"] == "open").count();
        assert_eq!(ada.open_issues(repo).await, i64::try_from(open).unwrap());
    }
}

async fn deleting_a_label_against_setting_it_leaves_none(cluster: &Cluster) {
    let ada = &cluster.user("ada").await;
    let repo = &ada.new_tracker("busy", json!({})).await;
    ada.new_issue(repo, "One", json!({})).await;
    for round in 0..ROUNDS {
        let label = ada.new_label(repo, "bug").await;
        let body = &json!({ "labels": [label] });
        let path = &format!("{repo}/issues/1/labels");
        let create = json!({"title": "New", "labels": [label]});
        let (issues, gone) = (format!("{repo}/issues"), format!("{repo}/labels/{label}"));
        let (set, made, deleted) = tokio::join!(ada.post(path, body), ada.post(&issues, &create), ada.delete(&gone));
        deleted.empty(204);
        either(&set, 200, "labels");
        either(&made, 201, "labels");
        let labels = ada.get(&format!("{repo}/issues?limit=50")).await.expect(200).json();
        assert!(labels.as_array().unwrap().iter().all(|issue| issue["labels"] == json!([])), "{round}: {labels}");
        assert_eq!(count(ada, repo, &format!("labels={label}")).await, 0);
        assert_eq!(ada.get(&format!("{repo}/labels")).await.expect(200).text(), "[]");
    }
}

async fn deleting_a_milestone_against_setting_it_leaves_none(cluster: &Cluster) {
    let ada = &cluster.user("ada").await;
    let repo = &ada.new_tracker("busy", json!({})).await;
    ada.new_issue(repo, "One", json!({})).await;
    for round in 0..ROUNDS {
        let milestone = ada.new_milestone(repo, "One").await;
        let path = format!("{repo}/issues/1");
        let body = json!({ "milestone": milestone });
        let create = json!({"title": "New", "milestone": milestone});
        let (issues, gone) = (format!("{repo}/issues"), format!("{repo}/milestones/{milestone}"));
        let (set, made, deleted) = tokio::join!(ada.patch(&path, &body), ada.post(&issues, &create), ada.delete(&gone));
        deleted.empty(204);
        either(&set, 200, "milestone");
        either(&made, 201, "milestone");
        let issues = ada.get(&format!("{repo}/issues?limit=50")).await.expect(200).json();
        let issues = issues.as_array().unwrap();
        assert!(issues.iter().all(|issue| issue["milestone"].is_null()), "{round}: {issues:?}");
        assert_eq!(count(ada, repo, "milestone=none").await, issues.len());
        assert_eq!(count(ada, repo, "milestone=*").await, 0);
    }
}

/// Fails unless a request succeeded with this status or was rejected because of this field.
#[track_caller]
fn either(response: &Response, success: u16, field: &str) {
    if response.status != success {
        response.clone().refused_field(field);
    }
}

async fn one_of_several_labels_of_the_same_name_is_made(cluster: &Cluster) {
    let ada = &cluster.user("ada").await;
    let repo = &ada.new_tracker("busy", json!({})).await;
    for round in 0..ROUNDS {
        let create = async |index: usize| {
            let name = if index.is_multiple_of(2) { format!("Same {round}") } else { format!("SAME {round}") };
            ada.post(&format!("{repo}/labels"), &json!({"name": name, "color": "#000000"})).await.status.as_u16()
        };
        let mut statuses = join_all((0..8).map(create)).await;
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 422, 422, 422, 422, 422, 422, 422]);
    }
    assert_eq!(ada.get(&format!("{repo}/labels")).await.expect(200).ids("id").len(), ROUNDS);
}

async fn a_repository_has_at_most_a_thousand_labels_whoever_makes_them(cluster: &Cluster) {
    const MAX_LABELS: usize = 1_000;
    let ada = &cluster.user("ada").await;
    let repo = &ada.new_tracker("full", json!({})).await;
    let path = &format!("{repo}/labels");
    let create = async |index: usize| {
        let body = json!({"name": format!("label {index:04}"), "color": "#00ff00"});
        ada.post(path, &body).await
    };
    let refused = std::cell::Cell::new(0);
    for_each(AT_ONCE, 0..MAX_LABELS + AT_ONCE, async |index| {
        let response = create(index).await;
        if response.status != 201 {
            response.refused(422);
            refused.set(refused.get() + 1);
        }
    })
    .await;
    assert_eq!(refused.get(), AT_ONCE);
    let listed = ada.get(path).await.expect(200);
    assert_eq!((listed.ids("id").len(), listed.header("x-total-count").as_str()), (MAX_LABELS, "1000"));
    let names = listed.each("name");
    assert!(names.is_sorted(), "{names:?}");
    // At the limit a rename is still possible, and a deletion makes room for one more.
    let id = listed.ids("id")[0];
    ada.patch(&format!("{path}/{id}"), &json!({"name": "renamed"})).await.expect(200);
    create(2_000).await.refused(422);
    ada.delete(&format!("{path}/{id}")).await.empty(204);
    create(2_000).await.expect(201);
    create(2_001).await.refused(422);
}
