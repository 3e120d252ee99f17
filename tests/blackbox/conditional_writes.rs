use reqwest::header::{HeaderName, IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::harness::concurrent::join_all;
use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        a_change_is_made_if_the_tag_is_that_of_today
        a_stale_tag_changes_nothing_and_the_response_has_the_one_of_today
        a_resource_is_deleted_only_if_the_tag_is_that_of_today
        of_writers_with_one_tag_at_once_one_succeeds
        a_repeat_with_its_key_gets_the_first_response_with_a_stale_tag_too
    }
    embedded {
        a_star_and_lists_match_and_weak_tags_never_do
        a_change_of_what_shows_in_an_issue_makes_its_tag_stale
        refusals_for_other_reasons_come_first
        a_malformed_condition_names_its_header
        a_malformed_condition_is_found_after_what_else_is_wrong
        nothing_matches_where_nothing_is_read
        a_resource_with_a_tag_of_if_none_match_is_left_alone
        what_exists_is_not_created_with_a_star
        a_post_with_a_condition_creates_nothing
    }
}

const WRITERS: usize = 8;

/// Resources of one repository: path, a change, and the JSON field that it changes.
struct Nouns {
    repo: String,
    label: i64,
    changes: Vec<(String, Method, Value, &'static str)>,
}

impl Nouns {
    async fn of(user: &User) -> Self {
        let repo = user.new_tracker("conditional", json!({})).await;
        let (label, milestone) = (user.new_label(&repo, "bug").await, user.new_milestone(&repo, "v1").await);
        user.new_issue(&repo, "Title", json!({"milestone": milestone})).await;
        let comment = user.new_comment(&repo, 1, "Text").await;
        let patch = |path: String, body: Value, field| (path, Method::PATCH, body, field);
        let changes = vec![
            patch(format!("{repo}/labels/{label}"), json!({"name": "fault"}), "name"),
            patch(format!("{repo}/milestones/{milestone}"), json!({"title": "v2"}), "title"),
            patch(format!("{repo}/issues/1/comments/{comment}"), json!({"body": "Other"}), "body"),
            patch(format!("{repo}/issues/comments/{comment}"), json!({"body": "Third"}), "body"),
            patch(format!("{repo}/issues/1"), json!({"title": "Other title"}), "title"),
            (format!("{repo}/issues/1/labels"), Method::PUT, json!({"labels": [label]}), ""),
        ];
        Self { repo, label, changes }
    }
}

async fn hidden_label(user: &User) -> String {
    let repo = user.new_tracker("hidden", json!({"private": true})).await;
    let label = user.new_label(&repo, "bug").await;
    format!("{repo}/labels/{label}")
}

async fn tag(user: &User, path: &str) -> String {
    let tag = user.get(path).await.expect(200).header("etag");
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 2, "{path}: {tag}");
    tag
}

async fn send(user: &User, method: Method, path: &str, if_match: &str, body: &Value) -> Response {
    Response::of(user.request(method, path).header(IF_MATCH, if_match).json(body)).await
}

async fn patch(user: &User, path: &str, if_match: &str, body: &Value) -> Response {
    send(user, Method::PATCH, path, if_match, body).await
}

async fn delete(user: &User, path: &str, if_match: &str) -> Response {
    Response::of(user.request(Method::DELETE, path).header(IF_MATCH, if_match)).await
}

async fn a_change_is_made_if_the_tag_is_that_of_today(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for (path, method, body, field) in Nouns::of(&ada).await.changes {
        let before = tag(&ada, &path).await;
        send(&ada, method, &path, &before, &body).await.expect(200);
        let shown = ada.get(&path).await.expect(200);
        assert_ne!(shown.header("etag"), before, "{path}");
        match field {
            "" => assert_eq!(shown.each("name").len(), 1),
            field => assert_eq!(shown.json()[field], body[field], "{path}"),
        }
    }
}

async fn a_stale_tag_changes_nothing_and_the_response_has_the_one_of_today(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for (path, method, body, _) in Nouns::of(&ada).await.changes {
        let before = ada.get(&path).await.expect(200);
        let refused = send(&ada, method.clone(), &path, "\"0123456789abcdef\"", &body).await.refused(412);
        assert!(refused.json().get("errors").is_none(), "{}", refused.text());
        let today = refused.header("etag");
        assert_eq!(today, before.header("etag"), "{path}");
        assert_eq!(ada.get(&path).await.expect(200).text(), before.text(), "{path}");
        send(&ada, method, &path, &today, &body).await.expect(200);
    }
}

async fn a_resource_is_deleted_only_if_the_tag_is_that_of_today(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let nouns = Nouns::of(&ada).await;
    let labels = format!("{}/issues/1/labels", nouns.repo);
    ada.put(&labels, &json!({"labels": [nouns.label]})).await.expect(200);
    let milestone = nouns.changes[1].0.clone();
    let comment = nouns.changes[2].0.clone();
    let second = ada.new_comment(&nouns.repo, 1, "Second").await;
    let second = format!("{}/issues/comments/{second}", nouns.repo);
    let label = nouns.changes[0].0.clone();
    for path in [labels.clone(), milestone, comment, second, label] {
        let refused = delete(&ada, &path, "\"stale\"").await.refused(412);
        let today = tag(&ada, &path).await;
        assert_eq!(refused.header("etag"), today, "{path}");
        delete(&ada, &path, &today).await.empty(204);
        if path == labels {
            assert_eq!(ada.get(&path).await.expect(200).text(), "[]");
        } else {
            ada.get(&path).await.refused(404);
            // A deleted resource gives 404, before its tag is checked.
            delete(&ada, &path, &today).await.refused(404);
        }
    }
}

async fn of_writers_with_one_tag_at_once_one_succeeds(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let nouns = Nouns::of(&ada).await;
    let issue = format!("{}/issues/1", nouns.repo);
    for (path, field) in [
        (&issue, "title"),
        (&nouns.changes[0].0, "name"),
        (&nouns.changes[1].0, "title"),
        (&nouns.changes[2].0, "body"),
    ] {
        let one = &tag(&ada, path).await;
        let write = async |number: usize| {
            let body = json!({ field: format!("By {number}") });
            (number, patch(&ada.reconnected(), path, one, &body).await)
        };
        let responses = join_all((0..WRITERS).map(write)).await;
        let (done, refused): (Vec<_>, Vec<_>) = responses.into_iter().partition(|(_, response)| response.status == 200);
        assert_eq!((done.len(), refused.len()), (1, WRITERS - 1), "{path}");
        for (_, response) in refused {
            response.refused(412);
        }
        let shown = ada.get(path).await.expect(200).json();
        assert_eq!(shown[field], format!("By {}", done[0].0), "{path}");
    }
}

async fn a_repeat_with_its_key_gets_the_first_response_with_a_stale_tag_too(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let nouns = Nouns::of(&ada).await;
    let path = &nouns.changes[0].0;
    let before = tag(&ada, path).await;
    let send = async |if_match: &str, body: &Value| {
        let request = ada.request(Method::PATCH, path).header(IF_MATCH, if_match).header("idempotency-key", "once");
        Response::of(request.json(body)).await
    };
    let body = json!({"name": "fault"});
    let first = send(&before, &body).await.expect(200).text();
    assert_eq!(send(&before, &body).await.expect(200).text(), first);
    // The condition is not part of the request that the idempotency key identifies.
    assert_eq!(send("\"other\"", &body).await.expect(200).text(), first);
    send(&before, &json!({"name": "third"})).await.refused_field("Idempotency-Key");
    assert_eq!(ada.get(path).await.expect(200).text(), first);
}

async fn a_star_and_lists_match_and_weak_tags_never_do(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let nouns = Nouns::of(&ada).await;
    let path = &nouns.changes[0].0;
    for (number, form) in ["*", "\"x\", TAG", "W/\"x\",TAG", "TAG"].iter().enumerate() {
        let if_match = form.replace("TAG", &tag(&ada, path).await);
        patch(&ada, path, &if_match, &json!({"name": format!("name {number}")})).await.expect(200);
    }
    let before = ada.get(path).await.expect(200).text();
    for form in ["W/TAG", "\"x\"", "\"x\", W/TAG"] {
        let if_match = form.replace("TAG", &tag(&ada, path).await);
        patch(&ada, path, &if_match, &json!({"name": "never"})).await.refused(412);
    }
    assert_eq!(ada.get(path).await.expect(200).text(), before);
}

async fn a_change_of_what_shows_in_an_issue_makes_its_tag_stale(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let nouns = Nouns::of(&ada).await;
    let path = format!("{}/issues/1", nouns.repo);
    let first = tag(&ada, &path).await;
    ada.put(&format!("{path}/labels"), &json!({"labels": [nouns.label]})).await.expect(200);
    patch(&ada, &path, &first, &json!({"title": "By tag"})).await.refused(412);
    let second = tag(&ada, &path).await;
    ada.new_comment(&nouns.repo, 1, "More").await;
    patch(&ada, &path, &second, &json!({"title": "By tag"})).await.refused(412);
    let third = tag(&ada, &path).await;
    patch(&ada, &path, &third, &json!({"title": "By tag"})).await.expect(200);
}

async fn refusals_for_other_reasons_come_first(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.outsider().await);
    let nouns = Nouns::of(&ada).await;
    let (label, comment, issue) = (&nouns.changes[0].0, &nouns.changes[2].0, &nouns.changes[4].0);
    for if_match in ["\"stale\"", "*"] {
        patch(&cluster.anonymous(), label, if_match, &json!({"name": "x"})).await.refused(401);
        patch(&bob, label, if_match, &json!({"name": "x"})).await.refused(403);
        patch(&bob, comment, if_match, &json!({"body": "x"})).await.refused(403);
        patch(&bob, issue, if_match, &json!({"title": "x"})).await.refused(403);
        patch(&ada, &format!("{}/labels/999999999", nouns.repo), if_match, &json!({"name": "x"})).await.refused(404);
        patch(&ada, &format!("{}/issues/99", nouns.repo), if_match, &json!({"title": "x"})).await.refused(404);
        patch(&ada, label, if_match, &json!({"name": 7})).await.refused_field("name");
        patch(&ada, label, if_match, &json!({"color": "red"})).await.refused_field("color");
    }
    ada.new_label(&nouns.repo, "taken").await;
    patch(&ada, label, "\"stale\"", &json!({"name": "taken"})).await.refused(412);
    patch(&ada, label, "*", &json!({"name": "taken"})).await.refused_field("name");
    let hidden = hidden_label(&ada).await;
    let refused = patch(&bob, &hidden, "*", &json!({"name": "x"})).await.refused(404);
    assert_eq!(refused.header("etag"), "");
}

async fn a_malformed_condition_names_its_header(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let nouns = Nouns::of(&ada).await;
    let path = &nouns.changes[0].0;
    let before = ada.get(path).await.expect(200).text();
    for malformed in ["", "abc", "\"abc", "*, \"a\"", "\"a\" \"b\""] {
        patch(&ada, path, malformed, &json!({"name": "x"})).await.refused_fields(&[("If-Match", "invalid")]);
    }
    assert_eq!(ada.get(path).await.expect(200).text(), before);
}

async fn a_malformed_condition_is_found_after_what_else_is_wrong(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.outsider().await);
    let nouns = Nouns::of(&ada).await;
    let (path, body) = (&nouns.changes[0].0, json!({"name": "x"}));
    let mut revoked = ada.clone();
    revoked.token = Some("0".repeat(40));
    for user in [&cluster.anonymous(), &revoked] {
        patch(user, path, "x", &body).await.refused(401);
    }
    patch(&bob, path, "x", &body).await.refused(403);
    patch(&bob, &hidden_label(&ada).await, "x", &body).await.refused(404);
    patch(&ada, &format!("{}/labels/999999999", nouns.repo), "x", &body).await.refused(404);
    patch(&ada, path, "x", &json!({"name": 7})).await.refused_field("name");
    let send = async |if_match: &str| {
        let request = ada.request(Method::PATCH, path).header(IF_MATCH, if_match).header("idempotency-key", "once");
        Response::of(request.json(&body)).await
    };
    let first = send("*").await.expect(200).text();
    assert_eq!(send("x").await.expect(200).text(), first);
}

async fn nothing_matches_where_nothing_is_read(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let nouns = Nouns::of(&ada).await;
    let labels = format!("{}/issues/1/labels", nouns.repo);
    ada.put(&labels, &json!({"labels": [nouns.label]})).await.expect(200);
    // The path of one label of an issue has no GET.
    let refused = delete(&ada, &format!("{labels}/{}", nouns.label), "*").await.refused(412);
    assert_eq!(refused.header("etag"), "");
    assert_eq!(ada.labels_of(&nouns.repo, 1).await, ["bug"]);
    // The GET of a star has no body and no ETag. repo-svc ignores conditions here and commits
    // nothing for a failed one.
    let starred = nouns.repo.replace("/repos/", "/user/starred/");
    for if_match in ["*", "\"x\""] {
        Response::of(ada.request(Method::PUT, &starred).header(IF_MATCH, if_match)).await.refused(412);
        ada.get(&starred).await.refused(404);
    }
}

async fn a_resource_with_a_tag_of_if_none_match_is_left_alone(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for (path, method, body, _) in Nouns::of(&ada).await.changes {
        let shown = ada.get(&path).await.expect(200);
        let today = shown.header("etag");
        let send = async |headers: &[(HeaderName, &str)]| {
            let request = ada.request(method.clone(), &path).json(&body);
            let add =
                |request: RequestBuilder, (name, value): &(HeaderName, &str)| request.header(name.clone(), *value);
            Response::of(headers.iter().fold(request, add)).await
        };
        for form in ["TAG", "W/TAG", "\"x\", TAG", "*"] {
            let if_none_match = form.replace("TAG", &today);
            let refused = send(&[(IF_NONE_MATCH, &if_none_match)]).await.refused(412);
            assert_eq!(refused.header("etag"), today, "{path} {form}");
            send(&[(IF_NONE_MATCH, &if_none_match), (IF_MATCH, &today)]).await.refused(412);
        }
        send(&[(IF_NONE_MATCH, "x")]).await.refused_fields(&[("If-None-Match", "invalid")]);
        assert_eq!(ada.get(&path).await.expect(200).text(), shown.text(), "{path}");
        send(&[(IF_NONE_MATCH, "\"x\""), (IF_MATCH, &today)]).await.expect(200);
        // No resource has a date to compare with.
        let dated = [(IF_NONE_MATCH, "\"x\""), (IF_UNMODIFIED_SINCE, "Thu, 01 Jan 1970 00:00:00 GMT")];
        send(&dated).await.expect(200);
    }
}

async fn what_exists_is_not_created_with_a_star(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let nouns = Nouns::of(&ada).await;
    let subscription = &format!("{}/subscription", nouns.repo);
    let watch = async |user: User| {
        Response::of(user.request(Method::PUT, subscription).header(IF_NONE_MATCH, "*").json(&json!({}))).await
    };
    watch(ada.clone()).await.refused(412);
    ada.delete(subscription).await.empty(204);
    let responses = join_all((0..WRITERS).map(|_| watch(ada.reconnected()))).await;
    let (done, refused): (Vec<_>, Vec<_>) = responses.into_iter().partition(|response| response.status == 200);
    assert_eq!((done.len(), refused.len()), (1, WRITERS - 1));
    for response in refused {
        response.refused(412);
    }
    // The GET of a star has no ETag.
    let starred = nouns.repo.replace("/repos/", "/user/starred/");
    let star = async |if_none_match: &str| {
        Response::of(ada.request(Method::PUT, &starred).header(IF_NONE_MATCH, if_none_match)).await
    };
    star("*").await.refused_fields(&[("If-None-Match", "invalid")]);
    ada.get(&starred).await.refused(404);
    star("\"x\"").await.empty(204);
    ada.get(&starred).await.empty(204);
}

async fn a_post_with_a_condition_creates_nothing(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("posted", json!({})).await;
    let path = format!("{repo}/labels");
    let post = |key: &str, conditions: &[(HeaderName, &str)]| {
        let mut request = ada.request(Method::POST, &path).header("idempotency-key", key);
        for (name, value) in conditions {
            request = request.header(name.clone(), *value);
        }
        Response::of(request.json(&json!({"name": "bug", "color": "#e11d21"})))
    };
    let today = &tag(&ada, &path).await;
    for (conditions, fields) in [
        (&[(IF_MATCH, today.as_str())][..], &[("If-Match", "invalid")][..]),
        (&[(IF_MATCH, "*")], &[("If-Match", "invalid")]),
        (&[(IF_NONE_MATCH, "*")], &[("If-None-Match", "invalid")]),
        (&[(IF_MATCH, "*"), (IF_NONE_MATCH, "*")], &[("If-Match", "invalid"), ("If-None-Match", "invalid")]),
    ] {
        post("one", conditions).await.refused_fields(fields);
    }
    assert_eq!(ada.get(&path).await.expect(200).text(), "[]");
    // The key is free still, and a repeat gets the first response. Tags say nothing of what is created.
    let made = post("one", &[(IF_NONE_MATCH, today.as_str())]).await.expect(201).text();
    assert_eq!(post("one", &[]).await.expect(201).text(), made);
    assert_eq!(ada.get(&path).await.expect(200).each("name"), ["bug"]);
}
