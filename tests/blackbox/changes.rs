//! Commits through the API that delete a file, change several, or set other authors; git reads back
//! the results.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    embedded {
        a_file_is_removed_in_one_commit
        several_files_change_in_one_commit_or_none_does
        changes_can_begin_a_branch
        authors_and_committers_are_who_the_body_says
        mistakes_name_the_file_they_are_in
    }
}

fn file(text: &str) -> String {
    STANDARD.encode(text)
}

async fn remove(user: &User, path: &str, body: &Value) -> Response {
    Response::of(user.request(Method::DELETE, path).json(body)).await
}

async fn tree(user: &User, name: &str, branch: &str) -> String {
    let git = Git::new();
    git.run("", &["clone", "-q", "--bare", &user.git_url(&user.name, name), "back.git"]).await;
    git.run("back.git", &["fsck", "--strict"]).await;
    git.run("back.git", &["ls-tree", "-r", "--name-only", branch]).await
}

async fn a_file_is_removed_in_one_commit(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    ada.new_repository("less", json!({"auto_init": true})).await;
    let path = ada.repo("less", "/contents/a/b/c.txt");
    let made = ada.put(&path, &json!({"message": "Add", "content": file("x")})).await.expect(201).json();
    let stale = json!({"message": "Remove", "sha": "0".repeat(40)});
    remove(&ada, &path, &stale).await.refused(409);
    remove(&outsider, &path, &json!({"message": "Remove"})).await.refused(403);
    remove(&ada, &path, &json!({})).await.refused_fields(&[("message", "required")]);
    remove(&ada, &ada.repo("less", "/contents/a"), &json!({"message": "m"}))
        .await
        .refused_fields(&[("path", "invalid")]);
    remove(&ada, &ada.repo("less", "/contents/none"), &json!({"message": "m"})).await.refused(404);
    let body = json!({"message": "Remove", "sha": made["content"]["sha"]});
    let gone = remove(&ada, &path, &body).await.expect(200).json();
    assert_eq!((&gone["content"], &gone["commit"]["commit"]["message"]), (&Value::Null, &json!("Remove")));
    assert_eq!(gone["commit"]["parents"][0]["sha"], made["commit"]["sha"]);
    ada.get(&path).await.refused(404);
    remove(&ada, &path, &body).await.refused(404);
    assert_eq!(tree(&ada, "less", "main").await, "README.md");
}

async fn several_files_change_in_one_commit_or_none_does(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("many", json!({})).await;
    let contents = ada.repo("many", "/contents");
    let create = |path: &str| json!({"operation": "create", "path": path, "content": file(path)});
    let first = json!({"message": "First", "files": [create("a"), create("dir/b"), create("dir/c"), create("d")]});
    let made = ada.post(&contents, &first).await.expect(201).json();
    assert_eq!(made["commit"]["parents"], json!([]));
    assert_eq!(made["files"].as_array().unwrap().len(), 4);
    let shown = ada.get(&ada.repo("many", "/contents/dir/b")).await.expect(200).json();
    assert_eq!((&shown["sha"], &shown["content"]), (&made["files"][1]["sha"], &json!(file("dir/b"))));
    let body = json!({"message": "Second", "files": [
        {"operation": "update", "path": "a", "content": file("new"), "sha": made["files"][0]["sha"]},
        {"operation": "move", "path": "moved/b", "from_path": "dir/b"},
        {"operation": "delete", "path": "dir/c"},
        {"operation": "delete", "path": "d"},
        {"operation": "create", "path": "d/inside", "content": ""},
    ]});
    let changed = ada.post(&contents, &body).await.expect(201).json();
    assert_eq!(changed["commit"]["parents"][0]["sha"], made["commit"]["sha"]);
    let paths: Vec<_> =
        changed["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["a", "moved/b", "d/inside"]);
    assert_eq!(changed["files"][1]["sha"], made["files"][1]["sha"]);
    assert_eq!(tree(&ada, "many", "main").await, "a\nd/inside\nmoved/b");
    let wrong = json!({"message": "Third", "files": [create("e"), {"operation": "delete", "path": "none"}]});
    ada.post(&contents, &wrong).await.refused_any(&[404, 422]);
    let stale = json!({"message": "Third", "files": [
        create("e"), {"operation": "update", "path": "a", "content": "", "sha": made["files"][0]["sha"]},
    ]});
    ada.post(&contents, &stale).await.refused(409);
    let head = ada.get(&ada.repo("many", "/commits/main")).await.expect(200).json();
    assert_eq!(head["sha"], changed["commit"]["sha"]);
}

async fn changes_can_begin_a_branch(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let made = ada.new_repository("branching", json!({"auto_init": true})).await;
    assert_eq!(made["default_branch"], "main");
    let files = json!([{"operation": "create", "path": "x", "content": file("x")}]);
    let body = json!({"message": "m", "branch": "main", "new_branch": "topic/one", "files": files});
    let contents = ada.repo("branching", "/contents");
    let response = ada.post(&contents, &body).await.expect(201).json();
    assert!(response["files"][0]["url"].as_str().unwrap().ends_with("/contents/x?ref=topic%2Fone"), "{response}");
    let topic = ada.get(&ada.repo("branching", "/branches/topic/one")).await.expect(200).json();
    assert_eq!((&topic["commit"]["id"], &topic["protected"]), (&response["commit"]["sha"], &json!(false)));
    ada.get(&ada.repo("branching", "/contents/x")).await.refused(404);
    ada.post(&contents, &body).await.refused(422);
}

async fn authors_and_committers_are_who_the_body_says(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("names", json!({"auto_init": true})).await;
    let path = ada.repo("names", "/contents/a");
    let body = json!({
        "message": "m", "content": file("x"),
        "author": {"name": "Grace Hopper", "email": "grace@example.com", "date": "2001-02-03T04:05:06+02:00"},
        "committer": {"name": "Linus", "email": "linus@example.com"},
    });
    let made = ada.put(&path, &body).await.expect(201).json();
    let commit = &made["commit"]["commit"];
    let author = json!({"name": "Grace Hopper", "email": "grace@example.com", "date": "2001-02-03T02:05:06Z"});
    assert_eq!((&commit["author"], &commit["committer"]["name"]), (&author, &json!("Linus")));
    let git = Git::new();
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "names"), "work"]).await;
    let printed = git.run("work", &["log", "-1", "--format=%an <%ae> %at %cn <%ce>"]).await;
    assert_eq!(printed, "Grace Hopper <grace@example.com> 981165906 Linus <linus@example.com>");
    let own = json!({"message": "m", "content": file("y"), "author": {}});
    let made = ada.put(&path, &own).await.expect(201).json();
    assert_eq!(made["commit"]["commit"]["author"]["email"], ada.email.as_str());
    for (field, value) in [
        ("author.name", json!({"name": "a <b>", "email": "x@example.com"})),
        ("author.email", json!({"name": "a", "email": "x\ny"})),
        ("author.date", json!({"name": "a", "email": "x@example.com", "date": "yesterday"})),
        ("author.date", json!({"name": "a", "email": "x@example.com", "date": "1969-12-31T23:59:59Z"})),
        ("author", json!("a <x@example.com>")),
    ] {
        let mut body = json!({"message": "m", "content": file("z")});
        body["author"] = value;
        ada.put(&path, &body).await.refused_field(field);
        remove(&ada, &path, &body).await.refused_field(field);
    }
}

async fn mistakes_name_the_file_they_are_in(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("strict", json!({"auto_init": true})).await;
    let contents = ada.repo("strict", "/contents");
    let good = json!({"operation": "create", "path": "good", "content": file("x")});
    for (field, wrong) in [
        ("files[1]", json!(7)),
        ("files[1].path", json!({"operation": "create", "content": ""})),
        ("files[1].path", json!({"operation": "create", "path": "../x", "content": ""})),
        ("files[1].path", json!({"operation": "create", "path": ".git/config", "content": ""})),
        ("files[1].path", json!({"operation": "create", "path": "good", "content": ""})),
        ("files[1].path", json!({"operation": "create", "path": "README.md", "content": ""})),
        ("files[1].operation", json!({"path": "x"})),
        ("files[1].operation", json!({"operation": "chmod", "path": "x"})),
        ("files[1].content", json!({"operation": "create", "path": "x"})),
        ("files[1].content", json!({"operation": "create", "path": "x", "content": "%"})),
        ("files[1].content", json!({"operation": "delete", "path": "README.md", "content": ""})),
        ("files[1].from_path", json!({"operation": "delete", "path": "README.md", "from_path": "x"})),
        ("files[1].sha", json!({"operation": "update", "path": "README.md", "content": "", "sha": "abc"})),
    ] {
        let response = ada.post(&contents, &json!({"message": "m", "files": [good, wrong]})).await.refused(422);
        assert_eq!(response.json()["errors"][0]["field"], field, "{wrong}: {}", response.text());
    }
    ada.post(&contents, &json!({"message": "m"})).await.refused_fields(&[("files", "required")]);
    assert_eq!(tree(&ada, "strict", "main").await, "README.md");
}
