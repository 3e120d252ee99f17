//! Edits of issues: each field, who may change it, and its side effects.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Cluster, Response, Role, User};

on_profiles! {
    both {
        patch_issues_changes_what_is_named_and_responds_with_the_whole
        patch_issues_opens_and_closes_exactly_as_given
        every_change_that_shows_moves_updated_at
    }
    embedded {
        patch_issues_leaves_what_is_blank_or_null_and_clears_what_is_empty
        patch_issues_without_a_change_is_no_event
        patch_issues_by_a_poster_below_write_takes_title_body_and_state
        patch_issues_looks_for_the_issue_then_the_right_then_the_body
        patch_issues_names_the_field_that_is_wrong_and_changes_nothing
        patch_issues_assigns_only_users_who_may_read
        an_issue_can_have_several_assignees
        patch_issues_refuses_milestones_that_are_unknown_or_of_another_repository
        patch_issues_ignores_labels
        a_repeated_edit_takes_the_right_to_edit
    }
}

/// A repository with one issue, its owner, and another user.
async fn tracked(cluster: &Cluster) -> (User, User, String) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let repo = ada.new_tracker("tracker", json!({})).await;
    ada.new_issue(&repo, "Title", json!({"body": "Body"})).await;
    (ada, bob, repo)
}

async fn patch_issues_changes_what_is_named_and_responds_with_the_whole(cluster: &Cluster) {
    let (ada, bob, repo) = tracked(cluster).await;
    ada.share(&repo, &bob, "write").await;
    let milestone = ada.new_milestone(&repo, "One").await;
    let before = ada.issue(&repo, 1).await;
    let body = json!({
        "title": "New title", "body": "New body", "assignee": bob.name.to_uppercase(), "milestone": milestone, "state": "closed",
    });
    let after = bob.edit_issue(&repo, 1, body).await;
    assert_eq!(after, ada.issue(&repo, 1).await);
    let closed_at = after["closed_at"].clone();
    assert!(closed_at.as_str().is_some_and(|time| time.ends_with('Z')), "{after}");
    let mut expected = before;
    expected["title"] = json!("New title");
    expected["body"] = json!("New body");
    expected["assignee"] = bob.profile().await;
    expected["assignees"] = json!([expected["assignee"]]);
    expected["milestone"] = ada.get(&format!("{repo}/milestones/{milestone}")).await.expect(200).json();
    expected["state"] = json!("closed");
    expected["closed_at"] = closed_at;
    expected["updated_at"] = after["updated_at"].clone();
    assert_eq!(after, expected, "the poster stays");
    for (field, value, shown) in [
        ("title", json!("Again"), "title"),
        ("body", json!("More"), "body"),
        ("state", json!("open"), "state"),
        ("assignee", json!(ada.name), "assignee"),
    ] {
        let mut body = json!({});
        body[field] = value.clone();
        let after = ada.edit_issue(&repo, 1, body).await;
        for (name, old) in expected.as_object().unwrap() {
            let follows = [shown, "updated_at", "closed_at", "milestone"].contains(&name.as_str())
                || (field == "assignee" && name == "assignees");
            if !follows {
                assert_eq!(&after[name], old, "{name} after {field}");
            }
        }
        let is_set = if field == "assignee" { after[shown]["username"] == value } else { after[shown] == value };
        assert!(is_set, "{field}: {after}");
        expected = after;
    }
    assert_eq!(expected["closed_at"], Value::Null);
}

async fn patch_issues_opens_and_closes_exactly_as_given(cluster: &Cluster) {
    let (ada, _, repo) = tracked(cluster).await;
    let state = async |word: &str| ada.edit_issue(&repo, 1, json!({ "state": word })).await;
    assert_eq!(state("open").await, ada.issue(&repo, 1).await);
    let closed = state("closed").await;
    assert_eq!(closed["state"], "closed");
    assert_eq!(closed["closed_at"], closed["updated_at"]);
    assert_eq!(state("closed").await, closed);
    let open = state("open").await;
    assert_eq!((&open["state"], &open["closed_at"]), (&json!("open"), &Value::Null));
    assert_eq!(state("open").await, open);
    assert_eq!(ada.actions(&repo, 1).await, ["closed", "reopened"]);
    // A missing, null or empty state changes nothing.
    state("closed").await;
    for body in [json!({"title": "x"}), json!({"state": null}), json!({"state": ""}), json!({"state": "", "body": "y"})]
    {
        assert_eq!(ada.edit_issue(&repo, 1, body).await["state"], "closed");
    }
    for wrong in ["done", "opened", "reopen", "CLOSED", "all"] {
        let refused = ada.patch(&format!("{repo}/issues/1"), &json!({"state": wrong, "title": "z"})).await;
        refused.refused_field("state");
    }
    let issue = ada.issue(&repo, 1).await;
    assert_eq!((&issue["state"], &issue["title"]), (&json!("closed"), &json!("x")));
}

async fn patch_issues_leaves_what_is_blank_or_null_and_clears_what_is_empty(cluster: &Cluster) {
    let (ada, bob, repo) = tracked(cluster).await;
    let milestone = ada.new_milestone(&repo, "One").await;
    let full = ada.edit_issue(&repo, 1, json!({"assignee": bob.name, "milestone": milestone})).await;
    for body in [
        json!({}),
        json!({"title": null, "body": null, "assignee": null, "milestone": null, "state": null}),
        json!({"title": "", "state": ""}),
        json!({"title": "   "}),
        json!({"title": "\t\n"}),
    ] {
        assert_eq!(ada.edit_issue(&repo, 1, body.clone()).await, full, "{body}");
    }
    for content_type in [None, Some("application/json")] {
        let mut request = ada.request(Method::PATCH, &format!("{repo}/issues/1"));
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        assert_eq!(Response::of(request).await.expect(200).json(), full);
    }
    let cleared = ada.edit_issue(&repo, 1, json!({"body": ""})).await;
    assert_eq!((&cleared["body"], &cleared["title"]), (&json!(""), &json!("Title")));
    let cleared = ada.edit_issue(&repo, 1, json!({"assignee": ""})).await;
    assert_eq!((&cleared["assignee"], &cleared["milestone"]["id"]), (&Value::Null, &json!(milestone)));
    let cleared = ada.edit_issue(&repo, 1, json!({"milestone": 0})).await;
    assert_eq!(cleared["milestone"], Value::Null);
    assert_eq!(ada.edit_issue(&repo, 1, json!({"assignee": "", "milestone": 0, "body": ""})).await, cleared);
}

async fn patch_issues_without_a_change_is_no_event(cluster: &Cluster) {
    let (ada, bob, repo) = tracked(cluster).await;
    let milestone = ada.new_milestone(&repo, "One").await;
    let label = ada.new_label(&repo, "bug").await;
    let all = json!({
        "title": "Whole", "body": "Text", "assignee": bob.name, "milestone": milestone, "state": "closed",
    });
    ada.edit_issue(&repo, 1, all.clone()).await;
    ada.post(&format!("{repo}/issues/1/labels"), &json!({"labels": [label]})).await.expect(200);
    let id = ada.get(&repo).await.expect(200).json()["id"].clone();
    let events: &'static str = format!("SELECT COUNT(*) FROM outbox WHERE repository_id = {id}").leak();
    let state = async || {
        let response = ada.get(&format!("{repo}/issues/1/timeline")).await.expect(200);
        (ada.issue(&repo, 1).await, response.text(), cluster.number(Role::Issue, events).await)
    };
    let before = state().await;
    ada.edit_issue(&repo, 1, all).await;
    ada.edit_issue(&repo, 1, json!({"title": "  Whole ", "assignee": bob.name.to_uppercase()})).await;
    ada.edit_issue(&repo, 1, json!({"state": "closed"})).await;
    ada.edit_issue(&repo, 1, json!({})).await;
    ada.post(&format!("{repo}/issues/1/labels"), &json!({"labels": [label]})).await.expect(200);
    ada.put(&format!("{repo}/issues/1/labels"), &json!({"labels": [label, label]})).await.expect(200);
    assert_eq!(state().await, before);
}

async fn patch_issues_by_a_poster_below_write_takes_title_body_and_state(cluster: &Cluster) {
    let (ada, bob, repo) = tracked(cluster).await;
    let milestone = ada.new_milestone(&repo, "One").await;
    let number = bob.new_issue(&repo, "Mine", json!({})).await["number"].as_i64().unwrap();
    let set =
        json!({"title": "Still mine", "body": "x", "state": "closed", "assignee": bob.name, "milestone": milestone});
    let after = bob.edit_issue(&repo, number, set).await;
    assert_eq!(
        (&after["title"], &after["body"], &after["state"]),
        (&json!("Still mine"), &json!("x"), &json!("closed"))
    );
    assert_eq!((&after["assignee"], &after["milestone"]), (&Value::Null, &Value::Null));
    // Invalid values are ignored as well, and nothing is cleared.
    ada.edit_issue(&repo, number, json!({"assignee": ada.name, "milestone": milestone})).await;
    for body in [
        json!({"assignee": "no-such-user", "milestone": 999_999_999}),
        json!({"assignee": "", "milestone": 0}),
        json!({"assignee": bob.name, "milestone": -1, "state": "open"}),
    ] {
        let after = bob.edit_issue(&repo, number, body).await;
        assert_eq!((&after["assignee"]["username"], &after["milestone"]["id"]), (&json!(ada.name), &json!(milestone)));
    }
    assert_eq!(ada.issue(&repo, number).await["state"], "open");
    bob.patch(&format!("{repo}/issues/{number}"), &json!({"assignee": 1}))
        .await
        .refused_fields(&[("assignee", "type")]);
    let path = format!("{repo}/issues/{number}/labels");
    bob.post(&path, &json!({"labels": []})).await.refused(403);
    // A poster who can no longer see the repository cannot change anything.
    let hidden = ada.new_tracker("hidden", json!({"private": true})).await;
    ada.share(&hidden, &bob, "read").await;
    bob.new_issue(&hidden, "Mine", json!({})).await;
    bob.edit_issue(&hidden, 1, json!({"state": "closed"})).await;
    ada.delete(&format!("{hidden}/collaborators/{}", bob.name)).await.expect(204);
    bob.patch(&format!("{hidden}/issues/1"), &json!({"state": "open"})).await.refused(404);
    assert_eq!(ada.issue(&hidden, 1).await["state"], "closed");
}

async fn patch_issues_looks_for_the_issue_then_the_right_then_the_body(cluster: &Cluster) {
    let (ada, bob, repo) = tracked(cluster).await;
    ada.new_tracker("hidden", json!({"private": true})).await;
    let before = ada.issue(&repo, 1).await;
    let anonymous = cluster.anonymous();
    let (poster, writer) = (&bob, &cluster.user("cy").await);
    ada.share(&repo, writer, "write").await;
    ada.new_issue(&repo, "Second", json!({})).await;
    let mine = bob.new_issue(&repo, "Third", json!({})).await["number"].clone();
    let mine = format!("{repo}/issues/{mine}");
    let (other, absent) = (format!("{repo}/issues/1"), format!("{repo}/issues/99"));
    let hidden = ada.repo("hidden", "/issues/1");
    for body in ["{\"title\":", "{\"title\":1}", "{\"state\":\"no\"}", "{}", "[]", "{\"title\":\"x\"}"] {
        let status = async |user: &User, path: &str| {
            let request = user.request(Method::PATCH, path).header("content-type", "application/json").body(body);
            Response::of(request).await.status.as_u16()
        };
        let own = match body {
            "{\"title\":" => 400,
            "{}" | "{\"title\":\"x\"}" => 200,
            _ => 422,
        };
        assert_eq!(status(&anonymous, &other).await, 401, "{body}");
        assert_eq!(status(&bob, &hidden).await, 404, "{body}");
        assert_eq!(status(&bob, &absent).await, 404, "{body}");
        assert_eq!(status(&ada, &absent).await, 404, "{body}");
        assert_eq!(status(&bob, &other).await, 403, "{body}");
        assert_eq!(status(poster, &mine).await, own, "{body}");
        assert_eq!(status(writer, &mine).await, own, "{body}");
    }
    let typed =
        |user: &User, path: &str| user.request(Method::PATCH, path).header("content-type", "text/xml").body("<x/>");
    Response::of(typed(&bob, &other)).await.refused(403);
    Response::of(typed(&ada, &absent)).await.refused(404);
    Response::of(typed(&ada, &other)).await.refused(415);
    assert_eq!(ada.issue(&repo, 1).await, before);
}

async fn patch_issues_names_the_field_that_is_wrong_and_changes_nothing(cluster: &Cluster) {
    let (ada, _, repo) = tracked(cluster).await;
    let (path, before) = (format!("{repo}/issues/1"), ada.issue(&repo, 1).await);
    for (body, field) in [
        (json!({"title": "t".repeat(256)}), "title"),
        (json!({"title": "a\u{1}b"}), "title"),
        (json!({"body": "\u{0}"}), "body"),
        (json!({"state": "nope"}), "state"),
        (json!({"assignee": "no-such-user"}), "assignee"),
        (json!({"milestone": 999_999_999}), "milestone"),
    ] {
        let mut with_good = json!({"title": "Good", "body": "Good", "state": "closed", "milestone": 0, "assignee": ""});
        with_good.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        ada.patch(&path, &with_good).await.refused_field(field);
    }
    let types = json!({"title": 1, "body": [], "assignee": {}, "milestone": "1", "state": true});
    let refused = ada.patch(&path, &types).await.refused(422).json();
    let mut fields: Vec<_> =
        refused["errors"].as_array().unwrap().iter().map(|error| error["field"].as_str().unwrap()).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["assignee", "body", "milestone", "state", "title"]);
    assert_eq!(ada.issue(&repo, 1).await, before);
    assert_eq!(ada.actions(&repo, 1).await, [""; 0]);
}

async fn patch_issues_assigns_only_users_who_may_read(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let organization = ada.new_organization("acme").await;
    let repo = ada.new_tracker("hidden", json!({"private": true})).await;
    ada.new_issue(&repo, "One", json!({"assignee": ada.name})).await;
    let assign = async |name: &str| ada.patch(&format!("{repo}/issues/1"), &json!({ "assignee": name })).await;
    for wrong in [bob.name.as_str(), &organization, "no-such-user", "a b", "none", "*"] {
        assign(wrong).await.refused_field("assignee");
    }
    assert_eq!(ada.issue(&repo, 1).await["assignee"]["username"], ada.name);
    ada.share(&repo, &bob, "read").await;
    assert_eq!(assign(&bob.name).await.expect(200).json()["assignee"]["username"], bob.name);
    ada.delete(&format!("{repo}/collaborators/{}", bob.name)).await.expect(204);
    assert_eq!(ada.issue(&repo, 1).await["assignee"]["username"], bob.name);
    assign("").await.expect(200);
    assign(&bob.name).await.refused_field("assignee");
    let admin = cluster.admin().await;
    assign(&admin.name).await.expect(200);
    ada.share(&repo, &bob, "write").await;
    admin.patch(&format!("/admin/users/{}", bob.name), &json!({"active": false})).await.expect(200);
    assign(&bob.name).await.refused_field("assignee");
}

async fn an_issue_can_have_several_assignees(cluster: &Cluster) {
    let (ada, bob, repo) = tracked(cluster).await;
    let names = |issue: &Value| {
        let users = issue["assignees"].as_array().unwrap().iter();
        users.map(|user| user["username"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let full_name = format!("{}/tracker", ada.name);
    let both = json!({"assignee": bob.name, "assignees": [ada.name, bob.name.to_uppercase()]});
    let made = ada.new_issue(&repo, "Shared", both).await;
    assert_eq!(
        (names(&made), &made["assignee"]["username"]),
        (vec![bob.name.clone(), ada.name.clone()], &json!(bob.name))
    );
    assert_eq!((&made["repository"]["full_name"], &made["repository"]["owner"]), (&json!(full_name), &json!(ada.name)));
    for user in [&ada, &bob] {
        assert_eq!(ada.issue_numbers(&repo, &format!("assignee={}", user.name)).await, [2]);
        assert_eq!(user.get("/user/issues").await.expect(200).json()[0], made);
    }
    assert_eq!(ada.issue_numbers(&repo, "assignee=none").await, [1]);
    let edit = async |body: Value| names(&ada.edit_issue(&repo, 2, body).await);
    assert_eq!(edit(json!({"assignees": null, "title": "Same"})).await, [bob.name.as_str(), &ada.name]);
    assert_eq!(edit(json!({"assignees": [ada.name]})).await, [ada.name.as_str()]);
    assert_eq!(bob.get("/user/issues").await.expect(200).json(), json!([]));
    assert_eq!(edit(json!({"assignees": []})).await, [""; 0]);
    let many: Vec<_> = (0..11).map(|number| format!("nobody-{number}")).collect();
    for (wrong, code) in
        [(json!(many), "too_many"), (json!([bob.name, "no-such-user"]), "unknown"), (json!("x"), "type")]
    {
        ada.patch(&format!("{repo}/issues/2"), &json!({"assignees": wrong}))
            .await
            .refused_fields(&[("assignees", code)]);
    }
}

async fn patch_issues_refuses_milestones_that_are_unknown_or_of_another_repository(cluster: &Cluster) {
    let (ada, _, repo) = tracked(cluster).await;
    let other = ada.new_tracker("other", json!({})).await;
    let (own, foreign) = (ada.new_milestone(&repo, "One").await, ada.new_milestone(&other, "One").await);
    ada.edit_issue(&repo, 1, json!({"milestone": own})).await;
    for wrong in [foreign, 999_999_999, -1, i64::MIN, i64::MAX] {
        let refused = ada.patch(&format!("{repo}/issues/1"), &json!({"milestone": wrong, "title": "x"})).await;
        refused.refused_field("milestone");
        let both = json!({"milestone": wrong, "assignee": "no-such-user", "title": "t".repeat(256)});
        let fields = [("title", "too_long"), ("assignee", "unknown"), ("milestone", "unknown")];
        ada.patch(&format!("{repo}/issues/1"), &both).await.refused_fields(&fields);
    }
    let issue = ada.issue(&repo, 1).await;
    assert_eq!((&issue["milestone"]["id"], &issue["title"]), (&json!(own), &json!("Title")));
    assert_eq!(ada.milestone_counts(&other, foreign).await, (0, 0));
    ada.patch(&format!("{repo}/milestones/{own}"), &json!({"state": "closed"})).await.expect(200);
    ada.edit_issue(&repo, 1, json!({"milestone": 0})).await;
    assert_eq!(ada.edit_issue(&repo, 1, json!({"milestone": own})).await["milestone"]["state"], "closed");
}

async fn patch_issues_ignores_labels(cluster: &Cluster) {
    let (ada, _, repo) = tracked(cluster).await;
    let label = ada.new_label(&repo, "bug").await;
    for labels in [json!([label]), json!(["bug"]), json!("bug"), json!(null), json!([999_999_999])] {
        let after = ada.edit_issue(&repo, 1, json!({"labels": labels, "title": "x"})).await;
        assert_eq!(after["labels"], json!([]));
    }
    ada.put(&format!("{repo}/issues/1/labels"), &json!({"labels": [label]})).await.expect(200);
    assert_eq!(ada.edit_issue(&repo, 1, json!({"labels": []})).await["labels"][0]["id"], label);
}

async fn every_change_that_shows_moves_updated_at(cluster: &Cluster) {
    let (ada, bob, repo) = tracked(cluster).await;
    let (label, milestone) = (ada.new_label(&repo, "bug").await, ada.new_milestone(&repo, "One").await);
    let comment = ada.new_comment(&repo, 1, "First").await;
    ada.new_issue(&repo, "Other", json!({})).await;
    let (issue, labels) = ("/issues/1".to_owned(), "/issues/1/labels".to_owned());
    let (comments, comment) = ("/issues/1/comments".to_owned(), format!("/issues/1/comments/{comment}"));
    for (method, path, body) in [
        (Method::PATCH, &issue, json!({"title": "New"})),
        (Method::PATCH, &issue, json!({"body": "New"})),
        (Method::PATCH, &issue, json!({"state": "closed"})),
        (Method::PATCH, &issue, json!({"state": "open"})),
        (Method::PATCH, &issue, json!({"assignee": bob.name})),
        (Method::PATCH, &issue, json!({"assignee": ""})),
        (Method::PATCH, &issue, json!({"milestone": milestone})),
        (Method::PATCH, &issue, json!({"milestone": 0})),
        (Method::POST, &labels, json!({"labels": [label]})),
        (Method::DELETE, &format!("{labels}/{label}"), json!({})),
        (Method::PUT, &labels, json!({"labels": [label]})),
        (Method::DELETE, &labels, json!({})),
        (Method::POST, &comments, json!({"body": "Second"})),
        (Method::PATCH, &comment, json!({"body": "Edited"})),
        (Method::DELETE, &comment, json!({})),
    ] {
        // The order by update time is exact, although responses show only seconds.
        ada.new_comment(&repo, 2, "Later").await;
        assert_eq!(ada.issue_numbers(&repo, "sort=updated&state=all").await, [2, 1]);
        let response = Response::of(ada.request(method.clone(), &format!("{repo}{path}")).json(&body)).await;
        assert!(response.status.is_success(), "{method} {path} {body}: {}", response.text());
        assert_eq!(ada.issue_numbers(&repo, "sort=updated&state=all").await, [1, 2], "{method} {path} {body}");
    }
}

async fn a_repeated_edit_takes_the_right_to_edit(cluster: &Cluster) {
    let (ada, bob, repo) = tracked(cluster).await;
    let comment = ada.post(&format!("{repo}/issues/1/comments"), &json!({"body": "Text"})).await.expect(201).json();
    let comment = format!("{repo}/issues/1/comments/{}", comment["id"]);
    ada.share(&repo, &bob, "admin").await;
    for (path, body) in [(format!("{repo}/issues/1"), json!({"title": "Other"})), (comment, json!({"body": "Other"}))] {
        let edit = async || {
            let request = bob.request(Method::PATCH, &path).header("idempotency-key", "k").json(&body);
            Response::of(request).await
        };
        let status = edit().await.status;
        assert!(status.is_success(), "{path}: {status}");
        assert_eq!(edit().await.status, status, "{path}");
        ada.delete(&format!("{repo}/collaborators/{}", bob.name)).await.empty(204);
        edit().await.refused(403);
        ada.share(&repo, &bob, "admin").await;
    }
}
