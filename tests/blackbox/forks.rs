//! Forks: their content, who can create them and where, and who can see them.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    both {
        a_fork_has_branches_and_tags_of_its_parent_and_goes_its_own_way
    }
    production {
        a_fork_of_a_private_repository_is_lost_with_it
        a_fork_goes_where_its_maker_may_create
    }
}

async fn fork(user: &User, parent: &str, body: Value) -> Response {
    user.post(&format!("{parent}/forks"), &body).await
}

async fn names(user: &User, parent: &str) -> Vec<String> {
    user.get(&format!("{parent}/forks")).await.expect(200).each("full_name")
}

async fn a_fork_has_branches_and_tags_of_its_parent_and_goes_its_own_way(cluster: &Cluster) {
    let (ada, bob, git) = (cluster.user("ada").await, cluster.user("bob").await, Git::new());
    ada.new_repository("demo", json!({"description": "What it is"})).await;
    let (parent, parent_url) = (ada.repo("demo", ""), ada.git_url(&ada.name, "demo"));
    git.large("large.git", 120).await;
    git.run("large.git", &["push", "-q", &parent_url, "--all"]).await;
    git.run("large.git", &["push", "-q", &parent_url, "--tags"]).await;
    // A blob that is no longer reachable, which the parent keeps for some time.
    git.run("", &["clone", "-q", &parent_url, "work"]).await;
    git.commit("work", "secret", "left behind\n").await;
    let lost = git.run("work", &["rev-parse", "HEAD:secret"]).await;
    git.run("work", &["push", "-q", &parent_url, "HEAD:refs/heads/lost"]).await;
    git.run("work", &["push", "-q", &parent_url, ":refs/heads/lost"]).await;
    ada.get(&ada.repo("demo", &format!("/git/blobs/{lost}"))).await.expect(200);

    let made = fork(&bob, &parent, json!({})).await.expect(201).json();
    assert_eq!(made["full_name"], format!("{}/demo", bob.name));
    assert_eq!(
        (&made["fork"], &made["empty"], &made["description"]),
        (&json!(true), &json!(false), &json!("What it is"))
    );
    assert!(made["size"].as_i64().unwrap() > 0 && made["default_branch"] == "main", "{made}");
    assert_eq!(
        (&made["parent"]["full_name"], &made["parent"]["forks_count"]),
        (&json!(format!("{}/demo", ada.name)), &json!(1))
    );
    assert_eq!(made["parent"]["permissions"], json!({"admin": false, "push": false, "pull": true}));
    assert!(made["parent"].get("parent").is_none());
    assert_eq!(names(&ada, &parent).await, [format!("{}/demo", bob.name)]);
    assert_eq!(ada.get(&parent).await.expect(200).json()["forks_count"], 1);

    let fork_url = bob.git_url(&bob.name, "demo");
    for (url, copy) in [(&parent_url, "one.git"), (&fork_url, "two.git")] {
        git.run("", &["clone", "-q", "--mirror", url, copy]).await;
    }
    git.run("two.git", &["fsck", "--strict"]).await;
    assert_eq!(git.refs("two.git").await, git.refs("one.git").await);
    bob.get(&bob.repo("demo", &format!("/git/blobs/{lost}"))).await.refused(404);

    git.run("", &["clone", "-q", &fork_url, "mine"]).await;
    let tip = git.commit("mine", "own", "own\n").await;
    git.run("mine", &["push", "-q", &fork_url, "HEAD:main", "HEAD:refs/heads/own"]).await;
    ada.get(&ada.repo("demo", "/branches/own")).await.refused(404);
    ada.get(&ada.repo("demo", &format!("/commits/{tip}"))).await.refused(404);
    let events = format!("{parent}/events?limit=100");
    let told =
        ada.eventually(&events, |page| page["events"].as_array().unwrap().iter().any(|one| one["event"] == "fork"));
    let told = told.await["events"].as_array().unwrap().iter().find(|one| one["event"] == "fork").unwrap().clone();
    let payload = &told["payload"];
    assert_eq!(
        (&payload["forkee"]["full_name"], &payload["sender"]["username"]),
        (&made["full_name"], &json!(bob.name))
    );
    assert_eq!(
        (&payload["repository"]["full_name"], &payload["forkee"]["parent"]["id"]),
        (&made["parent"]["full_name"], &made["parent"]["id"])
    );

    // A fork of the fork; then the first parent is deleted.
    let second = fork(&ada, &bob.repo("demo", ""), json!({"name": "again"})).await.expect(201).json();
    assert_eq!(second["parent"]["full_name"], made["full_name"]);
    ada.delete(&parent).await.expect(204);
    let alone = bob.get(&bob.repo("demo", "")).await.expect(200).json();
    assert_eq!((&alone["fork"], alone.get("parent"), &alone["forks_count"]), (&json!(false), None, &json!(1)));
    git.run("", &["clone", "-q", "--mirror", &fork_url, "three.git"]).await;
    git.run("three.git", &["fsck", "--strict"]).await;
    ada.delete(&ada.repo("again", "")).await.expect(204);
    assert_eq!(bob.get(&bob.repo("demo", "")).await.expect(200).json()["forks_count"], 0);
}

async fn a_fork_of_a_private_repository_is_lost_with_it(cluster: &Cluster) {
    let (ada, bob, eve) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("eve").await);
    ada.new_repository("closed", json!({"private": true, "auto_init": true})).await;
    let parent = ada.repo("closed", "");
    fork(&bob, &parent, json!({})).await.refused(404);
    ada.share(&parent, &bob, "read").await;
    let made = fork(&bob, &parent, json!({"name": "mine"})).await.expect(201).json();
    assert_eq!((&made["private"], &made["parent"]["name"]), (&json!(true), &json!("closed")));
    let own = bob.repo("mine", "");
    bob.patch(&own, &json!({"private": false})).await.refused_field("private");
    let changed = bob.patch(&own, &json!({"description": "mine"})).await.expect(200).json();
    assert_eq!(changed["parent"]["name"], "closed");
    let ci = bob.with_new_token(json!({"repositories": [format!("{}/mine", bob.name)]})).await;
    bob.share(&own, &eve, "write").await;
    let seen = async |user: &User| {
        let found = user.get("/user/repos").await.expect(200).each("full_name");
        let status = user.get(&own).await.status.as_u16();
        let git = user.git_status("upload-pack", &bob.name, "mine", user.token.as_deref().unwrap()).await;
        assert_eq!((status, git), if found.contains(&format!("{}/mine", bob.name)) { (200, 200) } else { (404, 404) });
        status == 200
    };
    assert!(seen(&bob).await && seen(&ci).await);
    assert!(ci.get(&own).await.expect(200).json().get("parent").is_none(), "the token gives no access to the parent");
    assert!(!seen(&eve).await, "the parent is hidden from her");
    ada.share(&parent, &eve, "read").await;
    assert!(seen(&eve).await);
    assert_eq!(names(&eve, &parent).await, [format!("{}/mine", bob.name)]);
    assert_eq!(names(&ada, &parent).await, [""; 0], "no role on the fork");
    ada.delete(&format!("{parent}/collaborators/{}", bob.name)).await.expect(204);
    assert!(!seen(&bob).await && !seen(&ci).await && seen(&eve).await);
    cluster.admin().await.get(&own).await.expect(200);
    ada.delete(&parent).await.expect(204);
    assert!(seen(&bob).await && seen(&ci).await);
    bob.patch(&own, &json!({"private": false})).await.expect(200);
}

async fn a_fork_goes_where_its_maker_may_create(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let organization = bob.new_organization("acme").await;
    ada.new_repository("demo", json!({})).await;
    let parent = ada.repo("demo", "");
    let made = fork(&bob, &parent, json!({"organization": organization, "name": "other"})).await.expect(201).json();
    assert_eq!((&made["full_name"], &made["empty"]), (&json!(format!("{organization}/other")), &json!(true)));
    fork(&ada, &parent, json!({})).await.refused(422);
    fork(&ada, &parent, json!({"name": "own"})).await.expect(201);
    fork(&ada, &parent, json!({"organization": organization})).await.refused(403);
    fork(&ada, &parent, json!({"organization": "nobody-at-all"})).await.refused_fields(&[("organization", "unknown")]);
    fork(&ada, &parent, json!({"name": ".."})).await.refused_fields(&[("name", "reserved")]);
    fork(&ada, &parent, json!({"name": 1, "organization": []}))
        .await
        .refused_fields(&[("organization", "type"), ("name", "type")]);
    fork(&cluster.anonymous(), &parent, json!({})).await.refused(401);
    fork(&ada.with_scopes(&["repo:write"]).await, &parent, json!({"name": "more"})).await.refused(403);
    let seen = cluster.anonymous().get(&format!("{parent}/forks")).await.expect(200);
    assert_eq!(seen.header("x-total-count"), "2");
    let response = bob.get(&format!("{parent}/forks?limit=1")).await.expect(200);
    assert_eq!((response.header("x-total-count").as_str(), response.json().as_array().unwrap().len()), ("2", 1));
    let again = async || {
        let request = bob.request(Method::POST, &format!("{parent}/forks")).header("idempotency-key", "fork");
        Response::of(request).await.expect(201).json()["id"].clone()
    };
    assert_eq!(again().await, again().await);
}
