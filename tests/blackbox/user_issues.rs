//! Issues assigned to the caller, and searches of issues, over all repositories.

use serde_json::{Value, json};

use crate::harness::{Cluster, User};

on_profiles! {
    both {
        get_user_issues_lists_what_is_assigned_to_the_caller
        get_user_issues_leaves_out_what_the_caller_may_not_see
        get_user_issues_has_full_pages_of_what_is_visible
    }
    embedded {
        get_user_issues_is_for_tokens_with_the_scope
        get_user_issues_shows_issues_as_their_repositories_do
        issues_of_all_visible_repositories_are_searched
    }
}

const PATHS: [&str; 2] = ["/user/issues", "/issues"];

async fn titles(user: &User, query: &str) -> Vec<String> {
    let [first, second] = PATHS.map(|path| format!("{path}{query}"));
    let listed = user.get(&first).await.expect(200);
    let same = user.get(&second).await.expect(200);
    assert_eq!((listed.text(), listed.header("x-total-count")), (same.text(), same.header("x-total-count")), "{query}");
    listed.each("title")
}

async fn get_user_issues_lists_what_is_assigned_to_the_caller(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let (one, two) = (ada.new_tracker("one", json!({})).await, ada.new_tracker("two", json!({"private": true})).await);
    let other = bob.new_tracker("other", json!({})).await;
    bob.share(&other, &ada, "read").await;
    assert_eq!(titles(&ada, "").await, [""; 0]);
    for (user, repo, title, more) in [
        (&ada, &one, "first", json!({"assignee": ada.name})),
        (&ada, &two, "second", json!({"assignee": ada.name, "closed": true})),
        (&bob, &other, "third", json!({"assignee": ada.name})),
        (&ada, &one, "of bob", json!({"assignee": bob.name})),
        (&ada, &one, "of no one", json!({})),
        (&ada, &two, "fourth", json!({"assignee": ada.name})),
    ] {
        user.new_issue(repo, title, more).await;
    }
    for (query, expected) in [
        ("", &["fourth", "third", "first"][..]),
        ("?state=open", &["fourth", "third", "first"]),
        ("?state=closed", &["second"]),
        ("?state=all", &["fourth", "third", "second", "first"]),
        ("?limit=2", &["fourth", "third"]),
        ("?limit=2&page=2", &["first"]),
        ("?limit=2&page=3", &[]),
        ("?limit=2&page=2&state=all", &["second", "first"]),
    ] {
        assert_eq!(titles(&ada, query).await, expected, "{query}");
    }
    assert_eq!(titles(&bob, "").await, ["of bob"]);
    assert_eq!(titles(&cluster.user("cy").await, "").await, [""; 0]);
    bob.edit_issue(&other, 1, json!({"state": "closed"})).await;
    ada.edit_issue(&one, 1, json!({"assignee": ""})).await;
    ada.edit_issue(&one, 2, json!({"assignee": ada.name})).await;
    assert_eq!(titles(&ada, "").await, ["fourth", "of bob"]);
    assert_eq!(titles(&ada, "?state=closed").await, ["third", "second"]);
    assert_eq!(titles(&bob, "?state=all").await, [""; 0]);
}

async fn get_user_issues_shows_issues_as_their_repositories_do(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let mut expected = Vec::new();
    for name in ["One", "Two"] {
        let repo = ada.new_tracker(name, json!({})).await;
        let (label, milestone) = (ada.new_label(&repo, "bug").await, ada.new_milestone(&repo, "v1").await);
        ada.new_issue(&repo, "x", json!({})).await;
        let more = json!({"labels": [label], "milestone": milestone, "assignee": bob.name, "body": "Text"});
        ada.new_issue(&repo, name, more).await;
        ada.new_comment(&repo, 2, "Comment").await;
        expected.insert(0, bob.issue(&repo, 2).await);
    }
    for path in PATHS {
        assert_eq!(bob.get(path).await.expect(200).json(), Value::Array(expected.clone()));
    }
    let urls = ["Two", "One"].map(|name| format!("{}/{}/{name}/issues/2", cluster.url, ada.name));
    assert_eq!(bob.get("/issues").await.expect(200).each("html_url"), urls);
}

async fn get_user_issues_leaves_out_what_the_caller_may_not_see(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let organization = ada.new_organization("acme").await;
    ada.new_repository_of(&organization, "crewed", true).await;
    let crewed = format!("/repos/{organization}/crewed");
    let team = ada.new_team(&organization, "crew", "read").await;
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.expect(204);
    ada.put_nothing(&format!("{team}/repos/crewed")).await.expect(204);
    let lent = ada.new_tracker("lent", json!({"private": true})).await;
    ada.share(&lent, &bob, "read").await;
    let (open, gone) = (ada.new_tracker("open", json!({})).await, ada.new_tracker("gone", json!({})).await);
    for (repo, title) in [(&crewed, "crewed"), (&lent, "lent"), (&open, "open"), (&gone, "gone")] {
        ada.new_issue(repo, title, json!({"assignee": bob.name})).await;
    }
    let count = async || bob.get("/user/issues").await.expect(200).header("x-total-count");
    assert_eq!(titles(&bob, "").await, ["gone", "open", "lent", "crewed"]);
    assert_eq!(count().await, "4");
    ada.delete(&gone).await.expect(204);
    assert_eq!(titles(&bob, "").await, ["open", "lent", "crewed"]);
    ada.delete(&format!("{lent}/collaborators/{}", bob.name)).await.expect(204);
    assert_eq!(titles(&bob, "").await, ["open", "crewed"]);
    ada.delete(&format!("{team}/members/{}", bob.name)).await.expect(204);
    assert_eq!(titles(&bob, "").await, ["open"]);
    assert_eq!(count().await, "1", "the count does not reveal it either");
    let listed = bob.get("/issues?state=all").await.expect(200).text();
    assert!(!listed.contains("lent") && !listed.contains("crewed"), "{listed}");
    ada.share(&lent, &bob, "read").await;
    assert_eq!(titles(&bob, "").await, ["open", "lent"]);
}

async fn get_user_issues_has_full_pages_of_what_is_visible(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let (open, hidden) =
        (ada.new_tracker("open", json!({})).await, ada.new_tracker("hidden", json!({"private": true})).await);
    ada.share(&hidden, &bob, "read").await;
    for number in 1..=13 {
        ada.new_issue(&open, &format!("open {number}"), json!({"assignee": bob.name})).await;
        ada.new_issue(&hidden, "hidden", json!({"assignee": bob.name})).await;
    }
    ada.delete(&format!("{hidden}/collaborators/{}", bob.name)).await.expect(204);
    let expected: Vec<_> = (1..=13).rev().map(|number| format!("open {number}")).collect();
    for (limit, size) in [("", 10), ("&limit=3", 3), ("&limit=50", 50), ("&limit=99", 50)] {
        for (index, page) in expected.chunks(size).enumerate() {
            assert_eq!(titles(&bob, &format!("?page={}{limit}", index + 1)).await, page, "{limit}");
        }
        let past = expected.len().div_ceil(size) + 1;
        assert_eq!(titles(&bob, &format!("?page={past}{limit}")).await, [""; 0]);
    }
    let response = bob.get("/user/issues?limit=5&page=2").await.expect(200);
    assert_eq!(response.header("x-total-count"), "13");
    let link = |page: u8, rel: &str| format!("<{}/api/v1/user/issues?limit=5&page={page}>; rel=\"{rel}\"", cluster.url);
    let expected = [link(3, "next"), link(3, "last"), link(1, "first"), link(1, "prev")].join(",");
    assert_eq!(response.header("link"), expected);
}

async fn get_user_issues_is_for_tokens_with_the_scope(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for name in ["one", "two"] {
        let repo = ada.new_tracker(name, json!({"private": true})).await;
        ada.new_issue(&repo, name, json!({"assignee": ada.name})).await;
    }
    let public = ada.new_tracker("public", json!({})).await;
    ada.new_issue(&public, "public", json!({"assignee": ada.name})).await;
    for path in PATHS {
        cluster.anonymous().get(path).await.refused(401);
        ada.with_token(Some(&"0".repeat(40))).get(path).await.refused(401);
        ada.with_scopes(&["repo:admin", "user", "hook"]).await.get(path).await.refused_with_message(403, "`issue`");
    }
    assert_eq!(titles(&ada.with_scopes(&["issue"]).await, "").await, ["public", "two", "one"]);
    // A token for one repository gives access to it and to public ones.
    let limits = json!({"repositories": [format!("{}/one", ada.name)], "scopes": ["issue"]});
    assert_eq!(titles(&ada.with_new_token(limits).await, "").await, ["public", "one"]);
}

async fn issues_of_all_visible_repositories_are_searched(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let (open, hidden) =
        (ada.new_tracker("open", json!({})).await, ada.new_tracker("hidden", json!({"private": true})).await);
    let label = ada.new_label(&open, "bug").await;
    ada.new_issue(&open, "Needle one", json!({"labels": [label], "assignees": [bob.name]})).await;
    ada.new_issue(&hidden, "Needle two", json!({"body": format!("Hello @{}", ada.name)})).await;
    bob.new_issue(&open, "Needle three", json!({})).await;
    // Other tests have issues of their own on the site.
    let search = async |user: &User, query: &str| {
        let path = format!("/repos/issues/search?limit=50&owner={}{query}", ada.name);
        user.get(&path).await.expect(200).each("title")
    };
    assert_eq!(search(&ada, "").await, ["Needle three", "Needle two", "Needle one"]);
    assert_eq!(search(&bob, "").await, ["Needle three", "Needle one"]);
    for (query, expected) in [
        ("&q=NEEDLE+t", &["Needle three", "Needle two"][..]),
        ("&labels=bug,none", &["Needle one"]),
        ("&created=True", &["Needle two", "Needle one"]),
        ("&mentioned=1", &["Needle two"]),
        ("&assigned=true", &[]),
        ("&state=closed", &[]),
    ] {
        assert_eq!(search(&ada, query).await, expected, "{query}");
    }
    assert_eq!(search(&bob, "&assigned=true").await, ["Needle one"]);
    bob.edit_issue(&open, 2, json!({"state": "closed"})).await;
    assert_eq!(search(&bob, "&state=all").await, ["Needle three", "Needle one"]);
    cluster.anonymous().get("/repos/issues/search").await.refused(401);
}
