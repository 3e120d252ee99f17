//! Pages of issues, labels and milestones.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::json;

use super::{page, shows};
use crate::harness::{Cluster, Response, User};

on_profiles! {
    embedded {
        issues_are_listed_with_what_they_have
        a_conversation_has_comments_and_changes_in_their_order
        long_conversations_have_pages
        issues_and_comments_are_written_by_forms
        labels_and_milestones_are_changed_by_writers
        issues_of_all_repositories_are_listed_for_the_visitor
        pages_of_issues_are_for_those_who_may_see_them
    }
}

const HOSTILE: &str = "<script>alert(1)</script> \"&";
const ESCAPED: &str = "&#60;script&#62;alert(1)&#60;/script&#62; &#34;&#38;";

/// A public repository with an issue that has everything; its paths in the API and on pages.
struct Tracker {
    ada: User,
    repo: String,
    path: String,
    label: i64,
    milestone: i64,
}

async fn tracker(cluster: &Cluster) -> Tracker {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let label = ada.new_label(&repo, "bug <b>").await;
    let milestone = ada.new_milestone(&repo, "v1 <b>").await;
    let more = json!({
        "body": "Some **bold** text, @eve <script>alert(2)</script>", "labels": [label], "milestone": milestone,
        "assignees": [ada.name],
    });
    ada.new_issue(&repo, HOSTILE, more).await;
    let path = format!("/{}/tracker", ada.name);
    Tracker { ada, repo, path, label, milestone }
}

/// Sends a form from a page, which has its token.
pub(super) async fn send(user: &User, path: &str, fields: &[(&str, &str)]) -> Response {
    let html = page(user, path).await.expect(200).text();
    let (_, rest) = html.split_once("name=\"form_token\" value=\"").expect("a form");
    let token = rest.split('"').next().unwrap();
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let fields = [("form_token", token)].into_iter().chain(fields.iter().copied());
    let body: Vec<_> = fields.map(|(name, value)| format!("{name}={}", encode(value))).collect();
    let request = user.raw(Method::POST, path).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    let request = request.header("cookie", format!("ferrite_session={}", user.token.as_deref().unwrap()));
    Response::of(request.body(body.join("&"))).await
}

#[track_caller]
pub(super) fn leads(response: &Response, to: &str) {
    assert_eq!((response.status.as_u16(), response.header("location").as_str()), (303, to), "{}", response.text());
}

async fn issues_are_listed_with_what_they_have(cluster: &Cluster) {
    let Tracker { ada, repo, path, label, milestone } = tracker(cluster).await;
    let second = ada.new_issue(&repo, "Second", json!({"closed": true})).await;
    let labels = format!("{path}/issues?labels={label}");
    let texts = [ESCAPED, "bug &#60;b&#62;", "v1 &#60;b&#62;", &labels, &format!("{path}/milestone/{milestone}")];
    for visitor in [&ada, &cluster.anonymous()] {
        let list = page(visitor, &format!("{path}/issues")).await.expect(200);
        shows(&list, &texts);
        shows(&list, &["Open <span class=\"count\">1", "Closed <span class=\"count\">1"]);
        assert!(!list.text().contains("Second"));
        for filter in [format!("labels={label}"), format!("milestone={milestone}"), format!("assignee={}", ada.name)] {
            shows(&page(visitor, &format!("{path}/issues?{filter}")).await.expect(200), &[ESCAPED, "Clear"]);
        }
        let closed = page(visitor, &format!("{path}/issues?state=closed&sort=oldest")).await.expect(200);
        shows(&closed, &["Second", &format!("{path}/issues/{}", second["number"])]);
        shows(&page(visitor, &format!("{path}/issues?q=nothing")).await.expect(200), &["No issue matches"]);
        shows(&page(visitor, &format!("{path}/labels")).await.expect(200), &["bug &#60;b&#62;", &labels]);
        let milestones = page(visitor, &format!("{path}/milestones")).await.expect(200);
        shows(&milestones, &["v1 &#60;b&#62;", "<progress", "1 open, 0 closed"]);
        shows(&page(visitor, &format!("{path}/milestone/{milestone}")).await.expect(200), &[ESCAPED, "<progress"]);
    }
    assert!(!page(&cluster.anonymous(), &format!("{path}/labels")).await.text().contains("New label"));
}

async fn a_conversation_has_comments_and_changes_in_their_order(cluster: &Cluster) {
    let Tracker { ada, repo, path, .. } = tracker(cluster).await;
    let first = ada.new_comment(&repo, 1, "It *works* <img src=x onerror=alert(3)>").await;
    ada.edit_issue(&repo, 1, json!({"state": "closed", "title": format!("{HOSTILE} again")})).await;
    ada.edit_issue(&repo, 1, json!({"state": "open"})).await;
    ada.new_issue(&repo, "Other", json!({"body": "See #1"})).await;
    ada.post(&format!("{repo}/issues/1/reactions"), &json!({"content": "heart"})).await.expect(201);
    let issue = ada.issue(&repo, 1).await;
    let anchor = format!("id=\"issuecomment-{first}\"");
    for visitor in [&ada, &cluster.anonymous()] {
        let shown = page(visitor, &format!("{path}/issues/1")).await.expect(200);
        let texts = [
            "<strong>bold</strong>",
            "It <em>works</em>",
            &anchor,
            &format!("id=\"issue-{}\"", issue["id"]),
            "closed this",
            "reopened this",
            "changed the title",
            "1 reaction with heart",
            "v1 &#60;b&#62;",
            &format!("{}/tracker#2", ada.name),
        ];
        shows(&shown, &texts);
        let html = shown.text();
        assert!(html.contains(ESCAPED) && !html.contains("onerror") && !html.contains(&ada.email), "{html}");
        let changes = page(visitor, &format!("{path}/issues/1/changes")).await.expect(200);
        shows(&changes, &["closed this", "changed the title"]);
        assert!(!changes.text().contains(&anchor));
    }
    let anonymous = page(&cluster.anonymous(), &format!("{path}/issues/1")).await.text();
    assert!(anonymous.contains("/user/login?") && !anonymous.contains("<textarea"), "{anonymous}");
    for none in ["issues/9", "issues/x", "issues/0", "comments/999999", "milestone/999999"] {
        page(&ada, &format!("{path}/{none}")).await.expect(404);
    }
}

async fn long_conversations_have_pages(cluster: &Cluster) {
    let Tracker { ada, repo, path, .. } = tracker(cluster).await;
    let mut ids = Vec::new();
    for at in 0..51 {
        ids.push(ada.new_comment(&repo, 1, &format!("Comment {at}")).await);
    }
    let anchor = |at: usize| format!("id=\"issuecomment-{}\"", ids[at]);
    let first = page(&ada, &format!("{path}/issues/1")).await.expect(200);
    shows(&first, &[&anchor(0), &anchor(49), "Page 1 of 2"]);
    assert!(!first.text().contains(&anchor(50)));
    let second = page(&ada, &format!("{path}/issues/1?page=2")).await.expect(200);
    shows(&second, &[&anchor(50), "Page 2 of 2"]);
    assert!(!second.text().contains(&anchor(49)));
    let made = send(&ada, &format!("{path}/issues/1"), &[("body", "The last")]).await.expect(303);
    assert!(made.header("location").starts_with(&format!("{path}/issues/1?page=2#issuecomment-")));
}

async fn issues_and_comments_are_written_by_forms(cluster: &Cluster) {
    let Tracker { ada, repo, path, label, milestone } = tracker(cluster).await;
    let eve = cluster.user("eve").await;
    let new = format!("{path}/issues/new");
    shows(&page(&eve, &format!("{new}?title=Prefilled&body=a%20b")).await.expect(200), &["value=\"Prefilled\"", "a b"]);
    let preview = send(&eve, &new, &[("title", "Mine"), ("body", "*so*"), ("preview", "1")]).await.expect(200);
    shows(&preview, &["<em>so</em>", "value=\"Mine\"", "*so*"]);
    let blank = send(&eve, &new, &[("title", " "), ("body", "kept")]).await.expect(422);
    shows(&blank, &["title", "kept"]);
    // A reader cannot choose labels.
    let fields = [("title", "Mine"), ("body", "*so*"), ("labels", &label.to_string())];
    leads(&send(&eve, &new, &fields).await, &format!("{path}/issues/2"));
    assert!(ada.labels_of(&repo, 2).await.is_empty());

    let issue = format!("{path}/issues/2");
    let preview = send(&eve, &issue, &[("body", "**b**"), ("preview", "1")]).await.expect(200);
    shows(&preview, &["<strong>b</strong>", "**b**"]);
    shows(&send(&eve, &issue, &[("body", " "), ("send", "comment")]).await.expect(422), &["Write a comment first"]);
    let closed = send(&eve, &issue, &[("body", "Done"), ("state", "closed")]).await.expect(303);
    let shown = ada.issue(&repo, 2).await;
    assert_eq!((&shown["state"], &shown["comments"]), (&json!("closed"), &json!(1)));
    let id = closed.header("location").rsplit('-').next().unwrap().to_owned();

    let comment = format!("{path}/comments/{id}/edit");
    leads(&send(&eve, &comment, &[("body", "Changed")]).await, &format!("{path}/issues/2#issuecomment-{id}"));
    let read = ada.get(&format!("{repo}/issues/comments/{id}")).await.expect(200).json();
    assert_eq!(read["body"], "Changed");
    shows(&page(&eve, &format!("{path}/comments/{id}")).await.expect(200), &["Changed"]);
    page(&cluster.outsider().await, &comment).await.expect(403);
    leads(&send(&eve, &comment, &[("delete", "1")]).await, &format!("{path}/issues/2"));

    let (milestone, label) = (milestone.to_string(), label.to_string());
    let fields = [("title", "Ours"), ("body", "new"), ("labels", &label), ("milestone", &milestone)];
    leads(&send(&ada, &format!("{issue}/edit"), &fields).await, &issue);
    let shown = ada.issue(&repo, 2).await;
    assert_eq!((&shown["title"], &shown["milestone"]["title"]), (&json!("Ours"), &json!("v1 <b>")));
    assert_eq!(ada.labels_of(&repo, 2).await, ["bug <b>"]);
    shows(&page(&ada, &format!("{issue}/edit")).await.expect(200), &["checked>bug &#60;b&#62;", "value=\"Ours\""]);
    page(&cluster.outsider().await, &format!("{issue}/edit")).await.expect(403);
}

async fn labels_and_milestones_are_changed_by_writers(cluster: &Cluster) {
    let Tracker { ada, repo, path, label, milestone } = tracker(cluster).await;
    let labels = format!("{path}/labels");
    leads(&send(&ada, &labels, &[("name", "docs"), ("color", "#00ff00"), ("description", "x")]).await, &labels);
    let taken = send(&ada, &labels, &[("name", "docs"), ("color", "#00ff00")]).await.expect(422);
    shows(&taken, &["value=\"docs\"", "flash bad"]);
    let edit = format!("{labels}/{label}/edit");
    leads(&send(&ada, &edit, &[("name", "fault"), ("color", "#123456")]).await, &labels);
    assert_eq!(ada.labels_of(&repo, 1).await, ["fault"]);
    leads(&send(&ada, &edit, &[("name", "fault"), ("delete", "1")]).await, &labels);
    assert!(ada.labels_of(&repo, 1).await.is_empty());

    let new = format!("{path}/milestones/new");
    let made = send(&ada, &new, &[("title", "v2"), ("description", "*all*"), ("due_on", "2026-03-01")]).await;
    let place = made.expect(303).header("location");
    shows(&page(&ada, &place).await.expect(200), &["v2", "<em>all</em>", "2026-03-01"]);
    shows(&send(&ada, &new, &[("title", ""), ("description", "kept")]).await.expect(422), &["kept"]);
    let edit = format!("{path}/milestones/{milestone}/edit");
    leads(&send(&ada, &edit, &[("state", "closed")]).await, &format!("{path}/milestone/{milestone}"));
    let closed = ada.get(&format!("{repo}/milestones/{milestone}")).await.expect(200).json();
    assert_eq!((&closed["state"], &closed["title"]), (&json!("closed"), &json!("v1 <b>")));
    leads(&send(&ada, &edit, &[("delete", "1")]).await, &format!("{path}/milestones"));
    let eve = cluster.outsider().await;
    for page_of_writers in [format!("{labels}/1/edit"), new, format!("{path}/milestones/1/edit")] {
        page(&eve, &page_of_writers).await.expect(403);
    }
}

async fn issues_of_all_repositories_are_listed_for_the_visitor(cluster: &Cluster) {
    let Tracker { ada, path, .. } = tracker(cluster).await;
    for kind in ["created_by", "assigned"] {
        let mine = page(&ada, &format!("/issues?type={kind}")).await.expect(200);
        shows(&mine, &[ESCAPED, &format!("{path}/issues/1"), &format!("{}/tracker", ada.name)]);
    }
    shows(&page(&ada, "/pulls").await.expect(200), &["Pull requests", "Nothing is here"]);
    assert!(page(&cluster.anonymous(), "/issues").await.expect(303).header("location").contains("/user/login"));
}

async fn pages_of_issues_are_for_those_who_may_see_them(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("secret", json!({"private": true})).await;
    ada.new_issue(&repo, "Hidden", json!({})).await;
    for place in ["issues", "issues/1", "issues/1/changes", "labels", "milestones", "issues/1/edit"] {
        let path = format!("/{}/secret/{place}", ada.name);
        page(&ada, &path).await.expect(200);
        for other in [cluster.outsider().await, cluster.anonymous()] {
            let hidden = page(&other, &path).await.expect(404);
            assert!(!hidden.text().contains("Hidden"), "{place}");
        }
    }
    // A form needs the token of the session.
    let request = ada.raw(Method::POST, &format!("/{}/secret/issues/1", ada.name));
    let request = request.header("cookie", format!("ferrite_session={}", ada.token.as_deref().unwrap()));
    let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body("state=closed");
    Response::of(request).await.expect(403);
    assert_eq!(ada.issue(&repo, 1).await["state"], "open");
}
