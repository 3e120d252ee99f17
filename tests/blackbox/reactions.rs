//! Reactions to issues, pull requests and comments.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::concurrent::join_all;
use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        a_reaction_is_added_once_and_removed_by_its_user
        reactions_at_once_are_one
    }
    embedded {
        an_unknown_reaction_is_refused_with_the_known_ones
        reactions_are_as_visible_as_what_they_are_to
        an_archived_repository_gets_no_reactions
    }
}

const CONTENTS: [&str; 8] = ["+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"];
/// The number of the pull request in [`tracked`].
const PULL: i64 = 2;

/// A repository with an issue, a pull request and comments on both, its owner, and a reader. Returns
/// the paths of their reactions: issue, pull request, comment on the first, comment on the second.
async fn tracked(cluster: &Cluster, name: &str) -> (User, User, String, [String; 4]) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let repo = ada.new_tracker(name, json!({"auto_init": true})).await;
    ada.new_issue(&repo, "Issue", json!({})).await;
    let change = json!({"message": "m", "content": "eA==", "new_branch": "topic"});
    ada.put(&format!("{repo}/contents/topic"), &change).await.expect(201);
    let pull = json!({"head": "topic", "base": "main", "title": "Pull"});
    let pull = ada.post(&format!("{repo}/pulls"), &pull).await.expect(201).json();
    assert_eq!(pull["number"], PULL);
    let comments = [ada.new_comment(&repo, 1, "One").await, ada.new_comment(&repo, PULL, "Two").await];
    let paths = [
        format!("{repo}/issues/1/reactions"),
        format!("{repo}/issues/{PULL}/reactions"),
        format!("{repo}/issues/comments/{}/reactions", comments[0]),
        format!("{repo}/issues/comments/{}/reactions", comments[1]),
    ];
    (ada, bob, repo, paths)
}

fn content(content: &str) -> Value {
    json!({ "content": content })
}

async fn remove(user: &User, path: &str, removed: &str) -> Response {
    Response::of(user.request(Method::DELETE, path).json(&content(removed))).await
}

async fn listed(user: &User, path: &str) -> Vec<(String, String)> {
    let response = user.get(path).await.expect(200);
    let list = response.json();
    assert_eq!(response.header("x-total-count"), list.as_array().unwrap().len().to_string());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(|one| (text(&one["user"]["login"]), text(&one["content"]))).collect()
}

async fn a_reaction_is_added_once_and_removed_by_its_user(cluster: &Cluster) {
    let (ada, bob, repo, paths) = tracked(cluster, "reacted").await;
    for path in &paths {
        let made = bob.post(path, &content("+1")).await.expect(201);
        assert_eq!(made.header("location"), format!("{}/api/v1{path}", cluster.url));
        let made = made.json();
        assert_eq!((&made["user"], &made["content"]), (&bob.profile().await, &json!("+1")));
        assert!(made["created_at"].as_str().is_some_and(|time| time.ends_with('Z')), "{made}");
        assert_eq!(bob.post(path, &content("+1")).await.expect(200).json(), made);
        ada.post(path, &content("+1")).await.expect(201);
        bob.post(path, &content("heart")).await.expect(201);
        let pairs = |pairs: &[(&User, &str)]| -> Vec<_> {
            pairs.iter().map(|(user, content)| (user.name.clone(), (*content).to_owned())).collect()
        };
        let all = pairs(&[(&bob, "+1"), (&ada, "+1"), (&bob, "heart")]);
        assert_eq!(listed(&ada, path).await, all, "{path}");
        let page = bob.get(&format!("{path}?limit=1&page=2")).await.expect(200);
        assert_eq!((&page.json()[0]["user"]["login"], page.json().as_array().unwrap().len()), (&json!(ada.name), 1));
        // One's own, and one that is not there.
        for removed in ["heart", "eyes"] {
            remove(&ada, path, removed).await.empty(204);
        }
        assert_eq!(listed(&bob, path).await, all, "{path}");
        for _ in 0..2 {
            remove(&bob, path, "heart").await.empty(204);
        }
        assert_eq!(listed(&bob, path).await, all[..2], "{path}");
    }
    let [_, _, on_comment, _] = &paths;
    let comment = on_comment.strip_suffix("/reactions").unwrap();
    ada.delete(comment).await.empty(204);
    ada.get(on_comment).await.refused(404);
    bob.post(on_comment, &content("+1")).await.refused(404);
    assert_eq!(ada.get(&format!("{repo}/issues/1/reactions")).await.expect(200).json().as_array().unwrap().len(), 2);
}

async fn reactions_at_once_are_one(cluster: &Cluster) {
    let (ada, bob, _, paths) = tracked(cluster, "rushed").await;
    let rocket = content("rocket");
    let mut statuses: Vec<_> = join_all((0..8).map(|_| bob.post(&paths[0], &rocket)))
        .await
        .into_iter()
        .map(|response| response.status)
        .collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 200, 201]);
    assert_eq!(listed(&ada, &paths[0]).await, [(bob.name.clone(), "rocket".to_owned())]);
}

async fn an_unknown_reaction_is_refused_with_the_known_ones(cluster: &Cluster) {
    let (ada, bob, _, paths) = tracked(cluster, "known").await;
    let settings = ada.get("/settings/ui").await.expect(200).json();
    assert_eq!(settings["allowed_reactions"], json!(CONTENTS));
    for path in &paths {
        for known in CONTENTS {
            bob.post(path, &content(known)).await.expect(201);
        }
        for unknown in ["thumbsup", "+2", "EYES", "\u{1f44d}", ""] {
            for refused in [bob.post(path, &content(unknown)).await, remove(&bob, path, unknown).await] {
                let refused = refused.refused_field("content");
                let message = refused.json()["errors"][0]["message"].to_string();
                assert!(unknown.is_empty() || CONTENTS.iter().all(|known| message.contains(known)), "{message}");
            }
        }
        bob.post(path, &json!({})).await.refused_field("content");
        bob.post(path, &json!({"content": 1})).await.refused_field("content");
        assert_eq!(listed(&ada, path).await.len(), CONTENTS.len());
    }
}

async fn reactions_are_as_visible_as_what_they_are_to(cluster: &Cluster) {
    let (ada, bob, repo, paths) = tracked(cluster, "hidden").await;
    let statuses = async |user: &User| {
        let mut statuses = Vec::new();
        for path in &paths {
            let read = user.get(path).await.status;
            let wrote = user.post(path, &content("eyes")).await.status;
            let removed = remove(user, path, "eyes").await.status;
            statuses.push([read, wrote, removed]);
        }
        statuses
    };
    let (open, hidden) = ([200, 201, 204], [404; 3]);
    assert_eq!(statuses(&bob).await, [open; 4]);
    let tracker = format!("{repo}/issue-tracker");
    ada.patch(&tracker, &json!({"enable_issues": false})).await.empty(204);
    assert_eq!(statuses(&bob).await, [hidden, open, hidden, open]);
    ada.patch(&tracker, &json!({"enable_issues": true})).await.empty(204);
    ada.patch(&repo, &json!({"has_pull_requests": false})).await.expect(200);
    assert_eq!(statuses(&bob).await, [open, hidden, open, hidden]);
    ada.patch(&repo, &json!({"private": true})).await.expect(200);
    assert_eq!(statuses(&bob).await, [hidden; 4]);
    assert_eq!(statuses(&ada).await, [open, hidden, open, hidden]);
    for missing in ["issues/9/reactions", "issues/comments/9/reactions", "issues/x/reactions"] {
        let path = format!("{repo}/{missing}");
        ada.get(&path).await.refused(404);
        ada.post(&path, &content("eyes")).await.refused(404);
        remove(&ada, &path, "eyes").await.refused(404);
    }
    cluster.anonymous().get(&paths[0]).await.refused(404);
}

async fn an_archived_repository_gets_no_reactions(cluster: &Cluster) {
    let (ada, bob, repo, paths) = tracked(cluster, "archived").await;
    bob.post(&paths[0], &content("heart")).await.expect(201);
    ada.patch(&repo, &json!({"archived": true})).await.expect(200);
    bob.post(&paths[0], &content("eyes")).await.refused(403);
    remove(&bob, &paths[0], "heart").await.refused(403);
    assert_eq!(listed(&bob, &paths[0]).await.len(), 1);
}
