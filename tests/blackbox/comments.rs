//! Comments on issues: created, listed by issue and by repository, read, edited and deleted.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::accounts::{after, before};
use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        post_comments_responds_with_the_comment_as_it_is_read
        get_comments_lists_those_of_an_issue_oldest_first
        get_comments_of_a_repository_lists_those_of_all_issues
        get_comments_since_is_by_the_last_change
        patch_comments_changes_the_text_alone
        delete_comments_removes_and_then_does_not_find
        get_comments_has_pages
    }
    embedded {
        post_comments_names_the_field_that_is_wrong
        post_comments_is_open_to_readers_also_on_closed_issues
        get_comments_refuses_times_that_are_none
        comments_of_an_unknown_issue_are_not_found
        comments_are_found_in_their_repository_and_issue_alone
        comments_of_another_repository_are_never_changed
        comments_are_changed_by_their_poster_and_by_administrators
        patch_comments_looks_at_the_right_then_the_body_then_the_comment
        lists_have_the_beginnings_of_long_comments
    }
}

/// A repository with two issues, its owner, and another user.
async fn tracked(cluster: &Cluster) -> (User, User, String) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let repo = ada.new_tracker("tracker", json!({})).await;
    ada.new_issue(&repo, "First", json!({})).await;
    ada.new_issue(&repo, "Second", json!({})).await;
    (ada, bob, repo)
}

async fn send(user: &User, method: Method, path: &str, body: &str) -> Response {
    let request = user.request(method, path).header("content-type", "application/json");
    Response::of(request.body(body.to_owned())).await
}

async fn post_comments_responds_with_the_comment_as_it_is_read(cluster: &Cluster) {
    let (ada, bob, repo) = tracked(cluster).await;
    let text = "Hello *you* <b>\n\n\u{e4}\u{1f600}\r\n";
    let made = bob.post(&format!("{repo}/issues/1/comments"), &json!({"body": text, "id": 7})).await.expect(201).json();
    let id = &made["id"];
    let expected = json!({
        "id": id, "html_url": format!("{}/{}/tracker/issues/1#issuecomment-{id}", cluster.url, ada.name),
        "user": bob.profile().await, "body": text,
        "created_at": made["created_at"], "updated_at": made["created_at"],
    });
    assert_eq!(made, expected);
    assert!(made["created_at"].as_str().is_some_and(|time| time.starts_with("20") && time.ends_with('Z')), "{made}");
    for path in [format!("issues/1/comments/{id}"), format!("issues/comments/{id}")] {
        assert_eq!(ada.get(&format!("{repo}/{path}")).await.expect(200).json(), made, "{path}");
    }
    for path in ["issues/1/comments", "issues/comments"] {
        assert_eq!(ada.get(&format!("{repo}/{path}")).await.expect(200).json(), json!([made]), "{path}");
    }
    assert_eq!(
        (&ada.issue(&repo, 1).await["comments"], &ada.issue(&repo, 2).await["comments"]),
        (&json!(1), &json!(0))
    );
}

async fn get_comments_lists_those_of_an_issue_oldest_first(cluster: &Cluster) {
    let (ada, bob, repo) = tracked(cluster).await;
    let mut ids = Vec::new();
    for (user, number) in [(&ada, 1), (&bob, 2), (&bob, 1), (&ada, 1), (&ada, 2)] {
        ids.push(user.new_comment(&repo, number, "Text").await);
    }
    let list = async |number: i64| ada.get(&format!("{repo}/issues/{number}/comments")).await.expect(200);
    assert_eq!(list(1).await.ids("id"), [ids[0], ids[2], ids[3]]);
    assert_eq!(list(2).await.ids("id"), [ids[1], ids[4]]);
    assert_eq!((list(1).await.header("x-total-count"), list(1).await.header("link")), ("3".to_owned(), String::new()));
    ada.edit_issue(&repo, 1, json!({"state": "closed", "title": "Other"})).await;
    assert_eq!(list(1).await.ids("id").len(), 3);
    assert_eq!(ada.issue(&repo, 1).await["comments"], 3);
}

async fn get_comments_of_a_repository_lists_those_of_all_issues(cluster: &Cluster) {
    let (ada, bob, repo) = tracked(cluster).await;
    let other = ada.new_tracker("other", json!({})).await;
    ada.new_issue(&other, "Other", json!({})).await;
    assert_eq!(ada.get(&format!("{repo}/issues/comments")).await.expect(200).text(), "[]");
    let mut ids = Vec::new();
    for (repo, number) in [(&repo, 2), (&other, 1), (&repo, 1), (&repo, 2)] {
        ids.push(bob.new_comment(repo, number, "Text").await);
    }
    let listed = ada.get(&format!("{repo}/issues/comments")).await.expect(200);
    assert_eq!(listed.ids("id"), [ids[0], ids[2], ids[3]]);
    assert_eq!(listed.header("x-total-count"), "3");
    let url = format!("{}/{}/tracker/issues", cluster.url, ada.name);
    let expected =
        [(2, ids[0]), (1, ids[2]), (2, ids[3])].map(|(number, id)| format!("{url}/{number}#issuecomment-{id}"));
    assert_eq!(listed.each("html_url"), expected);
}

async fn get_comments_since_is_by_the_last_change(cluster: &Cluster) {
    let (ada, _, repo) = tracked(cluster).await;
    let first = ada.new_comment(&repo, 1, "First").await;
    // Times in responses have a resolution of one second.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let second = ada.new_comment(&repo, 1, "Second").await;
    let since = ada.get(&format!("{repo}/issues/comments/{second}")).await.expect(200).json()["updated_at"].clone();
    let since = since.as_str().unwrap();
    let local = chrono::DateTime::parse_from_rfc3339(since).unwrap();
    let local = local.with_timezone(&chrono::FixedOffset::east_opt(7200).unwrap()).to_rfc3339();
    for list in ["issues/1/comments", "issues/comments"] {
        let ids = async |since: &str| ada.get(&format!("{repo}/{list}?since={since}")).await.expect(200).ids("id");
        assert_eq!(ids(since).await, [second], "{list}");
        assert_eq!(ids(&local).await, [second], "a plus that was not encoded");
        assert_eq!(ids(&local.replace('+', "%2B")).await, [second]);
        assert_eq!(ids("").await, [first, second]);
        assert_eq!(ids(&before(Duration::from_secs(3600))).await, [first, second]);
        assert_eq!(ids(&after(Duration::from_secs(3600))).await, [0; 0]);
        assert_eq!(ids("0001-01-01T00:00:00Z").await, [first, second]);
        assert_eq!(ids("9999-12-31T23:59:59Z").await, [0; 0]);
    }
    let changed = json!({"body": "Changed"});
    ada.patch(&format!("{repo}/issues/comments/{first}"), &changed).await.expect(200);
    for list in ["issues/1/comments", "issues/comments"] {
        let listed = ada.get(&format!("{repo}/{list}?since={since}")).await.expect(200);
        assert_eq!(listed.ids("id"), [first, second], "{list}: still oldest first");
        assert_eq!(listed.header("x-total-count"), "2");
    }
}

async fn get_comments_refuses_times_that_are_none(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    let repo = ada.new_tracker("hidden", json!({"private": true})).await;
    ada.new_issue(&repo, "One", json!({})).await;
    for wrong in ["yesterday", "2026-01-02", "2026-01-02T03:04:05", "2026-02-30T00:00:00Z", "1767315845", "%00", "-1"] {
        for list in ["issues/1/comments", "issues/comments"] {
            ada.get(&format!("{repo}/{list}?since={wrong}")).await.refused_field("since");
            outsider.get(&format!("{repo}/{list}?since={wrong}")).await.refused(404);
        }
    }
}

async fn post_comments_names_the_field_that_is_wrong(cluster: &Cluster) {
    let (ada, _, repo) = tracked(cluster).await;
    let path = format!("{repo}/issues/1/comments");
    for body in [json!({}), json!({"body": ""}), json!({"body": null})] {
        ada.post(&path, &body).await.refused_fields(&[("body", "required")]);
    }
    for blank in ["   ", "\n\t\r\n", "\u{a0}\u{2003}", "a\u{0}"] {
        ada.post(&path, &json!({ "body": blank })).await.refused_field("body");
    }
    ada.post(&path, &json!({"body": 1})).await.refused_fields(&[("body", "type")]);
    ada.post(&path, &json!({"body": ["x"]})).await.refused_fields(&[("body", "type")]);
    send(&ada, Method::POST, &path, "{\"body\":").await.refused(400);
    let typed = ada.request(Method::POST, &path).header("content-type", "text/plain").body("Text");
    Response::of(typed).await.refused(415);
    assert_eq!(ada.get(&path).await.expect(200).text(), "[]");
    assert_eq!(ada.issue(&repo, 1).await["comments"], 0);
}

async fn post_comments_is_open_to_readers_also_on_closed_issues(cluster: &Cluster) {
    let (ada, bob, repo) = tracked(cluster).await;
    ada.edit_issue(&repo, 1, json!({"state": "closed"})).await;
    bob.new_comment(&repo, 1, "Still wrong").await;
    let issue = ada.issue(&repo, 1).await;
    assert_eq!((&issue["state"], &issue["comments"]), (&json!("closed"), &json!(1)));
    let body = json!({"body": "x"});
    cluster.anonymous().post(&format!("{repo}/issues/1/comments"), &body).await.refused(401);
    cluster.anonymous().get(&format!("{repo}/issues/1/comments")).await.expect(200);
    let hidden = ada.new_tracker("hidden", json!({"private": true})).await;
    ada.new_issue(&hidden, "One", json!({})).await;
    bob.post(&format!("{hidden}/issues/1/comments"), &body).await.refused(404);
    bob.get(&format!("{hidden}/issues/comments")).await.refused(404);
    ada.share(&hidden, &bob, "read").await;
    bob.new_comment(&hidden, 1, "I see it").await;
}

async fn comments_of_an_unknown_issue_are_not_found(cluster: &Cluster) {
    let (ada, bob, repo) = tracked(cluster).await;
    for number in ["3", "0", "abc", "99999999999999999999"] {
        let path = format!("{repo}/issues/{number}/comments");
        for user in [&ada, &bob] {
            user.get(&path).await.refused(404);
            user.get(&format!("{path}?since=2026-01-01T00:00:00Z")).await.refused(404);
            user.post(&path, &json!({"body": "x"})).await.refused(404);
        }
    }
    assert_eq!(ada.get(&format!("{repo}/issues/comments")).await.expect(200).text(), "[]");
}

fn paths(repo: &str, number: i64, id: &str) -> [String; 2] {
    [format!("{repo}/issues/{number}/comments/{id}"), format!("{repo}/issues/comments/{id}")]
}

async fn patch_comments_changes_the_text_alone(cluster: &Cluster) {
    let (ada, _, repo) = tracked(cluster).await;
    let id = ada.new_comment(&repo, 1, "Before").await.to_string();
    let [path, short] = paths(&repo, 1, &id);
    let before = ada.get(&path).await.expect(200).json();
    for (path, text) in [(&path, "After"), (&short, "And again")] {
        let after = ada.patch(path, &json!({"body": text, "user": "x", "created_at": null})).await.expect(200).json();
        let mut expected = before.clone();
        expected["body"] = json!(text);
        expected["updated_at"] = after["updated_at"].clone();
        assert_eq!(after, expected);
        assert_eq!(ada.get(path).await.expect(200).json(), after);
    }
    assert_eq!(ada.issue(&repo, 1).await["comments"], 1);
    // The same text again changes nothing.
    let now = ada.get(&path).await.expect(200).json();
    assert_eq!(ada.patch(&path, &json!({"body": "And again"})).await.expect(200).json(), now);
}

async fn delete_comments_removes_and_then_does_not_find(cluster: &Cluster) {
    let (ada, _, repo) = tracked(cluster).await;
    let mut ids = Vec::new();
    for text in ["One", "Two", "Three"] {
        ids.push(ada.new_comment(&repo, 1, text).await);
    }
    let [second, _] = paths(&repo, 1, &ids[1].to_string());
    let [_, third] = paths(&repo, 1, &ids[2].to_string());
    for (path, left) in [(second, vec![ids[0], ids[2]]), (third, vec![ids[0]])] {
        ada.delete(&path).await.empty(204);
        ada.delete(&path).await.refused(404);
        ada.get(&path).await.refused(404);
        ada.patch(&path, &json!({"body": "x"})).await.refused(404);
        for list in ["issues/1/comments", "issues/comments"] {
            assert_eq!(ada.get(&format!("{repo}/{list}")).await.expect(200).ids("id"), left, "{list}");
        }
        assert_eq!(ada.issue(&repo, 1).await["comments"], left.len());
    }
    assert!(ada.new_comment(&repo, 1, "Four").await > ids[2], "ids are not reused");
}

async fn get_comments_has_pages(cluster: &Cluster) {
    let (ada, _, repo) = tracked(cluster).await;
    let mut ids = Vec::new();
    for number in 0..12 {
        ids.push(ada.new_comment(&repo, number % 2 + 1, &format!("Comment {number}")).await);
    }
    ada.delete(&format!("{repo}/issues/comments/{}", ids.remove(4))).await.empty(204);
    let of_issue = ada.get(&format!("{repo}/issues/1/comments")).await.expect(200).ids("id");
    for (list, all) in [("issues/comments", &ids), ("issues/1/comments", &of_issue)] {
        let path = format!("{repo}/{list}");
        assert_eq!(&ada.get(&path).await.expect(200).ids("id"), all);
        let link =
            |page: usize, rel: &str| format!("<{}/api/v1{path}?limit=2&page={page}>; rel=\"{rel}\"", cluster.url);
        let last = all.len().div_ceil(2);
        for (index, expected) in all.chunks(2).enumerate() {
            let page = ada.get(&format!("{path}?limit=2&page={}", index + 1)).await.expect(200);
            assert_eq!(page.ids("id"), expected, "{list}");
            assert_eq!(page.header("x-total-count"), all.len().to_string());
            let mut links = Vec::new();
            if index + 1 < last {
                links.extend([link(index + 2, "next"), link(last, "last")]);
            }
            if index > 0 {
                links.extend([link(1, "first"), link(index, "prev")]);
            }
            assert_eq!(page.header("link"), links.join(","));
        }
        let past = ada.get(&format!("{path}?limit=2&page=99")).await.expect(200);
        assert_eq!(past.text(), "[]");
    }
    let since = before(Duration::from_secs(3600));
    let page = ada.get(&format!("{repo}/issues/comments?limit=5&page=3&since={since}")).await.expect(200);
    assert_eq!((page.ids("id"), page.header("x-total-count")), (vec![ids[10]], "11".to_owned()));
}

async fn comments_are_found_in_their_repository_and_issue_alone(cluster: &Cluster) {
    let (ada, _, repo) = tracked(cluster).await;
    let other = ada.new_tracker("other", json!({})).await;
    ada.new_issue(&other, "One", json!({})).await;
    let id = ada.new_comment(&repo, 1, "Here").await.to_string();
    let text = json!({"body": "x"});
    let wrong = [
        format!("{repo}/issues/2/comments/{id}"),
        format!("{repo}/issues/9/comments/{id}"),
        format!("{repo}/issues/0/comments/{id}"),
        format!("{repo}/issues/abc/comments/{id}"),
        format!("{other}/issues/1/comments/{id}"),
        format!("{other}/issues/comments/{id}"),
        format!("{repo}/issues/1/comments/999999999"),
        format!("{repo}/issues/comments/999999999"),
        format!("{repo}/issues/comments/0"),
        format!("{repo}/issues/comments/-1"),
        format!("{repo}/issues/comments/{id}x"),
        format!("{repo}/issues/comments/99999999999999999999"),
    ];
    for path in wrong {
        ada.get(&path).await.refused(404);
        ada.patch(&path, &text).await.refused(404);
        ada.delete(&path).await.refused(404);
    }
    let [path, _] = paths(&repo, 1, &id);
    assert_eq!(ada.get(&path).await.expect(200).json()["body"], "Here");
    assert_eq!(ada.issue(&repo, 1).await["comments"], 1);
}

async fn comments_of_another_repository_are_never_changed(cluster: &Cluster) {
    let (ada, bob, repo) = tracked(cluster).await;
    let id = ada.new_comment(&repo, 1, "Mine").await.to_string();
    // An administrator of another repository, who can even read the first one.
    let own = bob.new_tracker("own", json!({})).await;
    bob.new_issue(&own, "One", json!({})).await;
    for path in paths(&own, 1, &id) {
        bob.get(&path).await.refused(404);
        bob.patch(&path, &json!({"body": "Stolen"})).await.refused(404);
        bob.delete(&path).await.refused(404);
    }
    for path in paths(&repo, 1, &id) {
        bob.patch(&path, &json!({"body": "Stolen"})).await.refused(403);
        bob.delete(&path).await.refused(403);
        assert_eq!(ada.get(&path).await.expect(200).json()["body"], "Mine");
    }
}

async fn comments_are_changed_by_their_poster_and_by_administrators(cluster: &Cluster) {
    let (ada, bob, repo) = tracked(cluster).await;
    let cy = cluster.user("cy").await;
    let hers = ada.new_comment(&repo, 1, "By ada").await.to_string();
    let his = bob.new_comment(&repo, 1, "By bob").await.to_string();
    let body = &json!({"body": "Edited"});
    for permission in [None, Some("read"), Some("write")] {
        if let Some(permission) = permission {
            ada.share(&repo, &cy, permission).await;
        }
        for id in [&hers, &his] {
            for path in paths(&repo, 1, id) {
                cy.patch(&path, body).await.refused(403);
                cy.delete(&path).await.refused(403);
            }
        }
    }
    let number = cy.new_issue(&repo, "By cy", json!({})).await["number"].as_i64().unwrap();
    let on_it = bob.new_comment(&repo, number, "By bob").await;
    cy.delete(&format!("{repo}/issues/comments/{on_it}")).await.refused(403);
    let [his_path, _] = paths(&repo, 1, &his);
    assert_eq!(bob.patch(&his_path, body).await.expect(200).json()["user"]["username"], bob.name);
    ada.share(&repo, &cy, "admin").await;
    let by_admin = cy.patch(&his_path, &json!({"body": "By an administrator"})).await.expect(200).json();
    assert_eq!((&by_admin["user"]["username"], &by_admin["body"]), (&json!(bob.name), &json!("By an administrator")));
    cy.delete(&his_path).await.empty(204);
    let [hers_path, _] = paths(&repo, 1, &hers);
    cluster.admin().await.patch(&hers_path, body).await.expect(200);
    cluster.anonymous().patch(&hers_path, body).await.refused(401);
    cluster.anonymous().delete(&hers_path).await.refused(401);
    ada.delete(&hers_path).await.empty(204);
    // A poster who can no longer see the repository cannot change anything.
    let hidden = ada.new_tracker("hidden", json!({"private": true})).await;
    ada.new_issue(&hidden, "One", json!({})).await;
    ada.share(&hidden, &bob, "read").await;
    let kept = bob.new_comment(&hidden, 1, "Mine").await;
    ada.delete(&format!("{hidden}/collaborators/{}", bob.name)).await.expect(204);
    bob.delete(&format!("{hidden}/issues/comments/{kept}")).await.refused(404);
    assert_eq!(ada.issue(&hidden, 1).await["comments"], 1);
}

async fn patch_comments_looks_at_the_right_then_the_body_then_the_comment(cluster: &Cluster) {
    let (ada, bob, repo) = tracked(cluster).await;
    let id = ada.new_comment(&repo, 1, "Mine").await.to_string();
    let hidden = ada.new_tracker("hidden", json!({"private": true})).await;
    let anonymous = cluster.anonymous();
    for body in ["{\"body\":", "{}", "{\"body\":\"\"}", "{\"body\":\" \"}", "{\"body\":7}", "[]"] {
        let wrong = if body == "{\"body\":" { 400 } else { 422 };
        for ([mine, absent], status) in [(paths(&repo, 1, &id), 403), (paths(&repo, 1, "999999999"), wrong)] {
            for path in [mine, absent] {
                send(&bob, Method::PATCH, &path, body).await.refused(status);
                send(&ada, Method::PATCH, &path, body).await.refused(wrong);
                send(&anonymous, Method::PATCH, &path, body).await.refused(401);
            }
        }
        for path in paths(&hidden, 1, &id) {
            send(&bob, Method::PATCH, &path, body).await.refused(404);
        }
    }
    for path in paths(&repo, 1, "999999999") {
        bob.patch(&path, &json!({"body": "x"})).await.refused(404);
        ada.patch(&path, &json!({"body": "x"})).await.refused(404);
    }
    assert_eq!(ada.get(&format!("{repo}/issues/comments/{id}")).await.expect(200).json()["body"], "Mine");
}

async fn lists_have_the_beginnings_of_long_comments(cluster: &Cluster) {
    const COMMENTS: usize = 8;
    let (ada, _, repo) = tracked(cluster).await;
    let text = "c".repeat(1 << 20);
    for _ in 0..COMMENTS {
        ada.new_comment(&repo, 1, &text).await;
    }
    let listed: Value = ada.get(&format!("{repo}/issues/1/comments")).await.expect(200).json();
    assert_eq!(listed.as_array().unwrap().len(), COMMENTS);
    for comment in listed.as_array().unwrap() {
        assert_eq!((comment["body"].as_str().unwrap().len(), &comment["truncated"]), (64 << 10, &json!(true)));
        let whole = ada.get(&format!("{repo}/issues/comments/{}", comment["id"])).await.expect(200).json();
        assert!(whole["body"] == text.as_str() && whole.get("truncated").is_none());
    }
}
