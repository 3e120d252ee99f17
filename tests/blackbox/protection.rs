//! Branch protection: rules set through the API apply to pushes and to commits through the API.

use serde_json::{Value, json};

use crate::harness::{Cluster, Git, User};

on_profiles! {
    both {
        only_those_on_the_list_change_a_branch
    }
    embedded {
        rules_are_kept_by_their_pattern
        a_protected_branch_loses_no_commits_and_is_not_deleted
        rules_are_for_administrators_of_the_repository
    }
}

fn rules(user: &User, name: &str, rest: &str) -> String {
    user.repo(name, &format!("/branch_protections{rest}"))
}

async fn writer(owner: &User, cluster: &Cluster, name: &str) -> User {
    let bob = cluster.user("bob").await;
    let path = owner.repo(name, &format!("/collaborators/{}", bob.name));
    owner.put(&path, &json!({"permission": "write"})).await.expect(204);
    bob
}

async fn rules_are_kept_by_their_pattern(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("kept", json!({"auto_init": true})).await;
    let bob = writer(&ada, cluster, "kept").await;
    let branch = ada.repo("kept", "/branches/main");
    assert_eq!(ada.get(&branch).await.expect(200).json()["protected"], false);
    assert_eq!(ada.get(&rules(&ada, "kept", "")).await.expect(200).json(), json!([]));
    let body = json!({"pattern": "main", "push_users": [bob.name.to_uppercase(), ada.name]});
    let made = ada.post(&rules(&ada, "kept", ""), &body).await.expect(201).json();
    assert_eq!(
        (&made["pattern"], &made["allow_force"], &made["allow_delete"]),
        (&json!("main"), &json!(false), &json!(false))
    );
    let mut users: Vec<_> = made["push_users"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    users.sort_unstable();
    let mut expected = [ada.name.as_str(), &bob.name];
    expected.sort_unstable();
    assert_eq!(users, expected);
    assert_eq!((&made["rule_name"], &made["push_whitelist_usernames"]), (&made["pattern"], &made["push_users"]));
    assert_eq!(ada.get(&branch).await.expect(200).json()["protected"], true);
    let again = json!({"pattern": "main", "allow_force": true});
    let again = ada.post(&rules(&ada, "kept", ""), &again).await.expect(200).json();
    assert_eq!((&again["allow_force"], &again["push_users"]), (&json!(true), &json!([])));
    assert_eq!(again["created_at"], made["created_at"]);
    let star = ada.put(&rules(&ada, "kept", "/release/*"), &json!({"allow_delete": true})).await.expect(201).json();
    assert_eq!((&star["pattern"], &star["allow_delete"]), (&json!("release/*"), &json!(true)));
    assert_eq!(ada.get(&rules(&ada, "kept", "")).await.expect(200).json(), json!([again, star]));
    let second = ada.get(&rules(&ada, "kept", "?limit=1&page=2")).await.expect(200);
    assert_eq!((second.json(), second.header("x-total-count").as_str()), (json!([star]), "2"));
    assert!(second.header("link").contains("limit=1&page=1>; rel=\"prev\""), "{}", second.header("link"));
    assert_eq!(ada.get(&rules(&ada, "kept", "?limit=1&page=3")).await.expect(200).json(), json!([]));
    assert_eq!(ada.get(&rules(&ada, "kept", "/release%2F%2A")).await.expect(200).json(), star);
    ada.delete(&rules(&ada, "kept", "/main")).await.empty(204);
    ada.delete(&rules(&ada, "kept", "/main")).await.refused(404);
    ada.get(&rules(&ada, "kept", "/main")).await.refused(404);
    assert_eq!(ada.get(&branch).await.expect(200).json()["protected"], false);
    let named = json!({"rule_name": "v*", "push_whitelist_usernames": [bob.name]});
    let named = ada.post(&rules(&ada, "kept", ""), &named).await.expect(201).json();
    assert_eq!((&named["pattern"], &named["push_users"]), (&json!("v*"), &json!([bob.name])));
    assert_eq!(ada.get(&rules(&ada, "kept", "/v*")).await.expect(200).json(), named);
    let none = json!({"push_whitelist_usernames": []});
    ada.patch(&rules(&ada, "kept", "/v*"), &none).await.refused_field("push_whitelist_usernames");
    let off = json!({"enable_push_whitelist": false, "push_whitelist_usernames": []});
    assert_eq!(ada.patch(&rules(&ada, "kept", "/v*"), &off).await.expect(200).json()["push_users"], json!([]));
    let twice = json!({"pattern": "v*", "rule_name": "v*"});
    ada.post(&rules(&ada, "kept", ""), &twice).await.expect(200);
    for (body, field) in [
        (json!({}), "pattern"),
        (json!({"rule_name": ""}), "pattern"),
        (json!({"pattern": "v*", "rule_name": "v"}), "rule_name"),
        (json!({"rule_name": 7}), "rule_name"),
        (json!({"pattern": "a..b"}), "pattern"),
        (json!({"pattern": "refs/heads/x"}), "pattern"),
        (json!({"pattern": "x".repeat(201)}), "pattern"),
        (json!({"pattern": "x", "push_users": ["never-was"]}), "push_users"),
        (json!({"pattern": "x", "enable_push_whitelist": true}), "push_whitelist_usernames"),
        (json!({"pattern": "x", "push_users": "ada"}), "push_users"),
        (json!({"pattern": "x", "push_users": vec!["ada"; 101]}), "push_users"),
        (json!({"pattern": "x", "allow_force": "yes"}), "allow_force"),
    ] {
        ada.post(&rules(&ada, "kept", ""), &body).await.refused_field(field);
    }
}

async fn a_protected_branch_loses_no_commits_and_is_not_deleted(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("firm", json!({})).await;
    git.small("work").await;
    let old = git.run("work", &["rev-parse", "HEAD"]).await;
    let new = git.commit("work", "x", "x").await;
    let url = ada.git_url(&ada.name, "firm");
    git.run("work", &["push", "-q", &url, "main", "main:release/1", "main:free"]).await;
    ada.put(&rules(&ada, "firm", "/release/*"), &json!({})).await.expect(201);
    let force = git.fails("work", &["push", "--force", &url, &format!("{old}:refs/heads/release/1")]).await;
    assert!(force.contains("protected branch: force pushes are not allowed"), "{force}");
    let deletion = git.fails("work", &["push", &url, ":release/1"]).await;
    assert!(deletion.contains("protected branch: it cannot be deleted"), "{deletion}");
    // A rejected ref does not affect other refs of the push.
    let both = ["push", "--force", &url, &format!("{old}:refs/heads/release/1"), &format!("{old}:refs/heads/free")];
    git.fails("work", &both).await;
    let seen = git.run("work", &["ls-remote", &url, "refs/heads/*"]).await;
    let expected = format!("{old}\trefs/heads/free\n{new}\trefs/heads/main\n{new}\trefs/heads/release/1");
    assert_eq!(seen, expected);
    let newer = git.commit("work", "y", "y").await;
    git.run("work", &["push", "-q", &url, "main:release/1"]).await;
    ada.put(&rules(&ada, "firm", "/release/*"), &json!({"allow_force": true, "allow_delete": true})).await.expect(200);
    git.run("work", &["push", "-q", "--force", &url, &format!("{old}:refs/heads/release/1")]).await;
    git.run("work", &["push", "-q", &url, ":release/1"]).await;
    git.run("work", &["push", "-q", &url, &format!("{newer}:refs/heads/release/1")]).await;
}

async fn only_those_on_the_list_change_a_branch(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("list", json!({"auto_init": true})).await;
    let bob = writer(&ada, cluster, "list").await;
    let eve = cluster.user("eve").await;
    ada.put(&ada.repo("list", &format!("/collaborators/{}", eve.name)), &json!({})).await.expect(204);
    ada.put(&rules(&ada, "list", "/main"), &json!({"push_users": [eve.name]})).await.expect(201);
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "list"), "work"]).await;
    git.commit("work", "x", "x").await;
    let refused = git.fails("work", &["push", &bob.git_url(&ada.name, "list"), "main"]).await;
    assert!(refused.contains("protected branch: you are not allowed to push to it"), "{refused}");
    git.run("work", &["push", "-q", &bob.git_url(&ada.name, "list"), "main:other"]).await;
    git.run("work", &["push", "-q", &eve.git_url(&ada.name, "list"), "main"]).await;
    let path = ada.repo("list", "/contents/by-api");
    let body = json!({"message": "m", "content": ""});
    let refused = bob.put(&path, &body).await.refused(403).json();
    assert!(refused["message"].as_str().unwrap().contains("protected branch"), "{refused}");
    let files = json!({"message": "m", "files": [{"operation": "create", "path": "z", "content": ""}]});
    bob.post(&ada.repo("list", "/contents"), &files).await.refused(403);
    let on = |branch: &str| {
        let mut body: Value = body.clone();
        body["branch"] = branch.into();
        body
    };
    bob.put(&path, &on("other")).await.expect(201);
    eve.put(&path, &body).await.expect(201);
    ada.put(&ada.repo("list", "/contents/owned"), &body).await.expect(201);
}

async fn rules_are_for_administrators_of_the_repository(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("ruled", json!({"auto_init": true})).await;
    let bob = writer(&ada, cluster, "ruled").await;
    let (list, one) = (rules(&ada, "ruled", ""), rules(&ada, "ruled", "/main"));
    bob.get(&list).await.refused(403);
    bob.get(&one).await.refused(403);
    bob.post(&list, &json!({"pattern": "main"})).await.refused(403);
    bob.put(&one, &json!({})).await.refused(403);
    bob.delete(&one).await.refused(403);
    cluster.anonymous().get(&list).await.refused(401);
    assert_eq!(bob.get(&ada.repo("ruled", "/branches/main")).await.expect(200).json()["protected"], false);
}
