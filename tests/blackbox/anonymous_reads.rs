//! What callers without a token read of public repositories, organizations and users.

use serde_json::{Value, json};

use crate::harness::{Cluster, User};

on_profiles! {
    embedded {
        what_is_public_is_read_without_a_token
    }
}

/// Creates a repository with an issue and a pull request. Returns its path, and those below it that a
/// signed-in stranger may read in a public one.
async fn filled(ada: &User, name: &str, private: bool) -> (String, Vec<String>) {
    let repo = ada.new_tracker(name, json!({"private": private, "auto_init": true})).await;
    let (label, milestone) = (ada.new_label(&repo, "bug").await, ada.new_milestone(&repo, "One").await);
    ada.new_issue(&repo, "Issue", json!({"labels": [label], "milestone": milestone, "assignee": ada.name})).await;
    let comment = ada.new_comment(&repo, 1, "Comment").await;
    ada.post(&format!("{repo}/issues/1/reactions"), &json!({"content": "heart"})).await.expect(201);
    ada.put_nothing(&format!("/user/starred/{}/{name}", ada.name)).await.empty(204);
    ada.put(&format!("{repo}/topics"), &json!({"topics": ["web"]})).await.empty(204);
    let change = json!({"message": "New", "content": "eA==", "new_branch": "topic"});
    ada.put(&format!("{repo}/contents/new"), &change).await.expect(201);
    let pull = json!({"head": "topic", "base": "main", "title": "Pull request"});
    let made = ada.post(&format!("{repo}/pulls"), &pull).await.expect(201).json();
    let reviews = format!("{repo}/pulls/2/reviews");
    let review = json!({"event": "COMMENT", "comments": [{"path": "new", "body": "Line", "new_position": 1}]});
    let review = ada.post(&reviews, &review).await.expect(200).json()["id"].clone();
    let line = ada.get(&format!("{reviews}/{review}/comments")).await.expect(200).json()[0]["id"].clone();
    ada.post(&reviews, &json!({"body": "Pending"})).await.expect(200);
    // The line of the comment is followed to a new head.
    let more = json!({"message": "More", "content": "eA==", "branch": "topic"});
    ada.put(&format!("{repo}/contents/more"), &more).await.expect(201);
    let has_moved = |pull: &Value| pull["head"]["sha"] != made["head"]["sha"];
    let pull = ada.eventually(&format!("{repo}/pulls/2"), has_moved).await;
    let head = pull["head"]["sha"].as_str().unwrap();
    let reads = [
        "issues?type=all&state=all".to_owned(),
        format!("issues?labels=bug&assignee={}&creator={}", ada.name, ada.name),
        "issues/1".to_owned(),
        "issues/1/timeline".to_owned(),
        "issues/1/labels".to_owned(),
        "issues/1/comments".to_owned(),
        format!("issues/1/comments/{comment}"),
        "issues/comments".to_owned(),
        format!("issues/comments/{comment}"),
        "issues/1/reactions".to_owned(),
        format!("issues/comments/{comment}/reactions"),
        "labels".to_owned(),
        format!("labels/{label}"),
        "milestones".to_owned(),
        format!("milestones/{milestone}"),
        "assignees".to_owned(),
        "reviewers".to_owned(),
        "pulls".to_owned(),
        "pulls/2".to_owned(),
        "pulls/2.diff".to_owned(),
        "pulls/2.patch".to_owned(),
        "pulls/2/files".to_owned(),
        "pulls/2/commits".to_owned(),
        "pulls/2/conflicts".to_owned(),
        "pulls/2/merge-requirements".to_owned(),
        "pulls/2/comments".to_owned(),
        "pulls/2/reviews".to_owned(),
        format!("pulls/2/reviews/{review}"),
        format!("pulls/2/reviews/{review}/comments"),
        format!("pulls/comments/{line}"),
        "pulls/main/topic".to_owned(),
        format!("commits/{head}/pull"),
        "stargazers".to_owned(),
        "subscribers".to_owned(),
        "forks".to_owned(),
        "topics".to_owned(),
        "languages".to_owned(),
        "activities/feeds".to_owned(),
        "commits/main/status".to_owned(),
    ];
    let reads = reads.map(|read| format!("{repo}/{read}"));
    (repo, reads.into())
}

async fn what_is_public_is_read_without_a_token(cluster: &Cluster) {
    let (ada, anonymous) = (cluster.user("ada").await, cluster.anonymous());
    let (open, reads) = filled(&ada, "open", false).await;
    for read in &reads {
        let shown = anonymous.get(read).await.expect(200);
        let headers = [shown.header("vary"), shown.header("cache-control")];
        assert!(headers[0].contains("authorization") && headers[1].starts_with("private"), "{read} {headers:?}");
        // Commits have the addresses that git stores.
        let is_of_git = read.ends_with(".patch") || read.ends_with("/2/commits");
        assert!(is_of_git || !shown.text().contains(&ada.email), "{read}: {}", shown.text());
    }
    anonymous.get(&format!("{open}/pulls/2/merge")).await.refused_with_message(404, "not merged");
    // A pending review is its author's alone.
    let reviews = format!("{open}/pulls/2/reviews");
    assert_eq!(ada.get(&reviews).await.expect(200).each("state"), ["COMMENT", "PENDING"]);
    assert_eq!(anonymous.get(&reviews).await.expect(200).each("state"), ["COMMENT"]);

    let (hidden, reads) = filled(&ada, "hidden", true).await;
    let absent = ada.repo("absent", "");
    for read in reads.iter().chain([&format!("{hidden}/pulls/2/merge")]) {
        let refused = anonymous.get(read).await.refused(404);
        assert_eq!(refused.body, anonymous.get(&read.replace(&hidden, &absent)).await.expect(404).body, "{read}");
    }

    let organization = ada.new_organization("acme").await;
    ada.put_nothing(&format!("/orgs/{organization}/public_members/{}", ada.name)).await.empty(204);
    ada.new_repository_of(&organization, "open", false).await;
    ada.new_repository_of(&organization, "hidden", true).await;
    for (list, field, expected) in [
        (format!("/orgs/{organization}/repos"), "name", &["open"][..]),
        (format!("/orgs/{organization}/members"), "login", &[&ada.name]),
        (format!("/orgs/{organization}/public_members"), "login", &[&ada.name]),
        (format!("/users/{}/repos", ada.name), "name", &["open"]),
        (format!("/users/{}/orgs", ada.name), "username", &[&organization]),
        (format!("/users/{}/starred", ada.name), "name", &["open"]),
        (format!("/users/{}/followers", ada.name), "login", &[]),
        (format!("/users/{}/following", ada.name), "login", &[]),
    ] {
        let shown = anonymous.get(&list).await.expect(200);
        assert_eq!(shown.each(field), expected, "{list}");
        assert!(!shown.text().contains(&ada.email), "{list}: {}", shown.text());
    }

    for rest in ["collaborators", "events", "hooks", "keys", "subscription", "branch_protections"] {
        anonymous.get(&format!("{open}/{rest}")).await.refused(401);
    }
    for path in ["/user/repos", "/user/starred", "/user/followers", "/user/issues", "/repos/issues/search"] {
        anonymous.get(path).await.refused(401);
    }
    anonymous.post(&format!("{open}/issues/1/comments"), &json!({"body": "x"})).await.refused(401);
}
