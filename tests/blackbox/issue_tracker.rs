//! Settings of a repository's issue tracker, and what they hide.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        issues_that_are_off_or_elsewhere_are_hidden_and_come_back
        user_issues_leave_out_trackers_that_are_off_or_elsewhere
    }
    embedded {
        patch_issue_tracker_takes_any_of_its_fields
        patch_issue_tracker_names_the_field_that_is_wrong_and_changes_nothing
        patch_issue_tracker_is_for_administrators_of_the_repository
        patch_issue_tracker_is_recorded_with_the_names_of_its_fields
        labels_and_milestones_stay_usable_while_issues_are_off
    }
}

async fn set(user: &User, repo: &str, body: Value) {
    user.patch(&format!("{repo}/issue-tracker"), &body).await.empty(204);
}

fn external() -> Value {
    json!({
        "enable_external_tracker": true, "external_tracker_url": "https://bugs.example.com",
        "tracker_url_format": "https://bugs.example.com/{user}/{repo}/{index}", "tracker_issue_style": "alphanumeric",
    })
}

async fn patch_issue_tracker_takes_any_of_its_fields(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    for body in [
        json!({}),
        json!({"enable_issues": null, "enable_external_tracker": null, "external_tracker_url": null,
               "tracker_url_format": null, "tracker_issue_style": null}),
        json!({"tracker_issue_style": "numeric"}),
        json!({"tracker_issue_style": "alphanumeric"}),
        json!({"external_tracker_url": "http://example.com:8080/bugs?x=1"}),
        json!({"tracker_url_format": "https://example.com/{index}"}),
        json!({"enable_issues": true, "enable_external_tracker": false, "unknown": 1}),
        json!({"external_tracker_url": "", "tracker_url_format": ""}),
    ] {
        set(&ada, &repo, body).await;
        assert_eq!(ada.get(&format!("{repo}/issues")).await.expect(200).text(), "[]");
    }
    let empty = ada.request(Method::PATCH, &format!("{repo}/issue-tracker"));
    Response::of(empty).await.empty(204);
}

async fn patch_issue_tracker_names_the_field_that_is_wrong_and_changes_nothing(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let path = format!("{repo}/issue-tracker");
    for (field, wrong) in [
        ("tracker_issue_style", json!("words")),
        ("tracker_issue_style", json!("NUMERIC")),
        ("tracker_issue_style", json!("")),
        ("external_tracker_url", json!("bugs.example.com")),
        ("external_tracker_url", json!("/bugs")),
        ("external_tracker_url", json!("ftp://example.com")),
        ("external_tracker_url", json!("javascript:alert(1)")),
        ("external_tracker_url", json!("https://")),
        ("external_tracker_url", json!("https://exa mple.com")),
        ("external_tracker_url", json!("https://example.com/\n")),
        ("external_tracker_url", json!(format!("https://example.com/{}", "x".repeat(2_048)))),
        ("tracker_url_format", json!("https://example.com/{user}/{repo}")),
        ("tracker_url_format", json!("example.com/{index}")),
        ("tracker_url_format", json!("https://example.com/{index")),
        ("tracker_url_format", json!("{index}")),
    ] {
        let mut body = json!({"enable_issues": false});
        body[field] = wrong.clone();
        ada.patch(&path, &body).await.refused_field(field);
    }
    for (field, wrong) in [
        ("enable_issues", json!("no")),
        ("enable_issues", json!(0)),
        ("enable_external_tracker", json!("yes")),
        ("external_tracker_url", json!(1)),
        ("tracker_url_format", json!([])),
        ("tracker_issue_style", json!(true)),
    ] {
        let mut body = json!({"enable_issues": false});
        body[field] = wrong;
        ada.patch(&path, &body).await.refused_fields(&[(field, "type")]);
    }
    let broken =
        ada.request(Method::PATCH, &path).header("content-type", "application/json").body("{\"enable_issues\":");
    Response::of(broken).await.refused(400);
    ada.patch(&path, &json!({"enable_external_tracker": true})).await.refused(422);
    assert_eq!(ada.get(&format!("{repo}/issues")).await.expect(200).text(), "[]");
}

async fn patch_issue_tracker_is_for_administrators_of_the_repository(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let open = ada.new_tracker("open", json!({})).await;
    let hidden = ada.new_tracker("hidden", json!({"private": true})).await;
    let off = json!({"enable_issues": false});
    for body in ["{\"enable_issues\":false}", "{\"enable_issues\":", "{\"tracker_issue_style\":\"no\"}", "{}"] {
        let status = async |user: &User, repo: &str| {
            let request = user.request(Method::PATCH, &format!("{repo}/issue-tracker"));
            let request = request.header("content-type", "application/json").body(body);
            Response::of(request).await.status.as_u16()
        };
        assert_eq!(status(&cluster.anonymous(), &open).await, 401, "{body}");
        assert_eq!(status(&bob, &open).await, 403, "{body}");
        assert_eq!(status(&bob, &hidden).await, 404, "{body}");
        assert_eq!(status(&bob, &ada.repo("absent", "")).await, 404, "{body}");
    }
    ada.share(&open, &bob, "write").await;
    bob.patch(&format!("{open}/issue-tracker"), &off).await.refused(403);
    ada.with_scopes(&["repo:write", "issue", "hook"])
        .await
        .patch(&format!("{open}/issue-tracker"), &off)
        .await
        .refused(403);
    ada.get(&format!("{open}/issues")).await.expect(200);
    ada.share(&open, &bob, "admin").await;
    set(&bob, &open, off.clone()).await;
    ada.get(&format!("{open}/issues")).await.refused(404);
    set(&cluster.admin().await, &hidden, off).await;
    ada.get(&format!("{hidden}/issues")).await.refused(404);
}

async fn patch_issue_tracker_is_recorded_with_the_names_of_its_fields(cluster: &Cluster) {
    let (ada, admin) = (cluster.user("ada").await, cluster.admin().await);
    let repo = ada.new_tracker("tracker", json!({})).await;
    set(&ada, &repo, json!({})).await;
    set(&ada, &repo, json!({"enable_issues": true, "tracker_issue_style": "numeric"})).await;
    set(&ada, &repo, json!({"enable_issues": false})).await;
    set(&ada, &repo, json!({"enable_issues": false})).await;
    set(&ada, &repo, external()).await;
    let events =
        admin.get(&format!("/admin/audit?actor={}&action=repository.update", ada.name)).await.expect(200).json();
    let events = events.as_array().unwrap();
    assert_eq!(events.len(), 2, "only changes are recorded: {events:?}");
    assert!(events.iter().all(|event| event["target"]["name"] == format!("{}/tracker", ada.name)), "{events:?}");
    let details = |event: &Value| event["details"].to_string();
    assert!(details(&events[1]).contains("enable_issues"), "{events:?}");
    for field in ["enable_external_tracker", "external_tracker_url", "tracker_url_format", "tracker_issue_style"] {
        assert!(details(&events[0]).contains(field), "{field}: {events:?}");
    }
    assert!(!details(&events[0]).contains("bugs.example.com"), "{events:?}");
}

/// Sends every request that disabled issues hide, and returns the statuses.
async fn statuses(user: &User, repo: &str, label: i64, comment: i64) -> Vec<u16> {
    let text = json!({"title": "x", "body": "x", "labels": [label]});
    let mut statuses = Vec::new();
    for (method, rest) in [
        (Method::GET, "/issues".to_owned()),
        (Method::GET, "/issues?q=x".to_owned()),
        (Method::POST, "/issues".to_owned()),
        (Method::GET, "/issues/1".to_owned()),
        (Method::PATCH, "/issues/1".to_owned()),
        (Method::GET, "/issues/1/timeline".to_owned()),
        (Method::GET, "/issues/comments".to_owned()),
        (Method::GET, "/issues/1/comments".to_owned()),
        (Method::POST, "/issues/1/comments".to_owned()),
        (Method::GET, format!("/issues/1/comments/{comment}")),
        (Method::PATCH, format!("/issues/1/comments/{comment}")),
        (Method::GET, format!("/issues/comments/{comment}")),
        (Method::PATCH, format!("/issues/comments/{comment}")),
        (Method::GET, "/issues/1/labels".to_owned()),
        (Method::POST, "/issues/1/labels".to_owned()),
        (Method::PUT, "/issues/1/labels".to_owned()),
        (Method::DELETE, format!("/issues/1/labels/{label}")),
        (Method::DELETE, "/issues/1/labels".to_owned()),
        (Method::DELETE, format!("/issues/comments/{comment}")),
    ] {
        let response = Response::of(user.request(method, &format!("{repo}{rest}")).json(&text)).await;
        statuses.push(response.status.as_u16());
    }
    statuses
}

async fn issues_that_are_off_or_elsewhere_are_hidden_and_come_back(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let repo = ada.new_tracker("tracker", json!({})).await;
    let (label, milestone) = (ada.new_label(&repo, "bug").await, ada.new_milestone(&repo, "One").await);
    ada.new_issue(&repo, "Kept", json!({"labels": [label], "milestone": milestone, "assignee": bob.name})).await;
    let comment = ada.new_comment(&repo, 1, "Kept too").await;
    let state = async || {
        let comments = ada.get(&format!("{repo}/issues/comments")).await.expect(200).json();
        (ada.issue(&repo, 1).await, comments, ada.open_issues(&repo).await)
    };
    let before = state().await;
    for (hide, show) in [
        (json!({"enable_issues": false}), json!({"enable_issues": true})),
        (external(), json!({"enable_external_tracker": false})),
    ] {
        set(&ada, &repo, hide).await;
        for user in [&ada, &bob] {
            let statuses = statuses(user, &repo, label, comment).await;
            // The access level is checked before the setting, so readers may get either error for
            // what they could not do anyway.
            let is_hidden = |status: &u16| *status == 404 || (user.name == bob.name && *status == 403);
            assert!(statuses.iter().all(is_hidden), "{statuses:?}");
        }
        ada.get(&format!("{repo}/issues")).await.refused(404);
        // Field errors are not reported for a hidden tracker.
        ada.post(&format!("{repo}/issues"), &json!({"title": ""})).await.refused(404);
        ada.get(&format!("{repo}/issues?sort=nonsense")).await.refused(404);
        cluster.anonymous().get(&format!("{repo}/issues")).await.refused(404);
        ada.get(&repo).await.expect(200);
        set(&ada, &repo, show).await;
        assert_eq!(state().await, before);
    }
    // Both settings at once; either is enough.
    set(&ada, &repo, external()).await;
    set(&ada, &repo, json!({"enable_issues": false})).await;
    set(&ada, &repo, json!({"enable_external_tracker": false})).await;
    ada.get(&format!("{repo}/issues")).await.refused(404);
    set(&ada, &repo, json!({"enable_issues": true})).await;
    let statuses = statuses(&ada, &repo, label, comment).await;
    assert!(statuses.iter().all(|status| (200..300).contains(status)), "{statuses:?}");
}

async fn labels_and_milestones_stay_usable_while_issues_are_off(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    for hide in [json!({"enable_issues": false}), external()] {
        set(&ada, &repo, hide).await;
        let label = format!("{repo}/labels/{}", ada.new_label(&repo, "bug").await);
        ada.get(&label).await.expect(200);
        assert_eq!(ada.get(&format!("{repo}/labels")).await.expect(200).each("name"), ["bug"]);
        ada.patch(&label, &json!({"name": "fault"})).await.expect(200);
        ada.delete(&label).await.empty(204);
        let milestone = format!("{repo}/milestones/{}", ada.new_milestone(&repo, "One").await);
        ada.get(&milestone).await.expect(200);
        assert_eq!(ada.get(&format!("{repo}/milestones")).await.expect(200).each("title"), ["One"]);
        ada.patch(&milestone, &json!({"state": "closed"})).await.expect(200);
        ada.delete(&milestone).await.empty(204);
        ada.get(&format!("{repo}/issues")).await.refused(404);
    }
}

async fn user_issues_leave_out_trackers_that_are_off_or_elsewhere(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for name in ["here", "off", "elsewhere"] {
        let repo = ada.new_tracker(name, json!({})).await;
        ada.new_issue(&repo, name, json!({"assignee": ada.name})).await;
    }
    let titles = async |path: &str| ada.get(path).await.expect(200).each("title");
    assert_eq!(titles("/user/issues").await, ["elsewhere", "off", "here"]);
    set(&ada, &ada.repo("off", ""), json!({"enable_issues": false})).await;
    set(&ada, &ada.repo("elsewhere", ""), external()).await;
    for path in ["/user/issues", "/issues", "/user/issues?state=all"] {
        assert_eq!(titles(path).await, ["here"], "{path}");
    }
    assert_eq!(ada.get("/user/issues").await.header("x-total-count"), "1");
    set(&ada, &ada.repo("off", ""), json!({"enable_issues": true})).await;
    set(&ada, &ada.repo("elsewhere", ""), json!({"enable_external_tracker": false})).await;
    assert_eq!(titles("/issues").await, ["elsewhere", "off", "here"]);
}
