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
        files_are_renamed_and_uploaded_as_clients_of_gitea_do
        changes_can_begin_a_branch
        authors_and_committers_are_who_the_body_says
        commits_have_the_dates_and_the_sign_off_that_the_body_asks_for
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
    remove(&ada, &path, &json!({"message": " "})).await.refused_fields(&[("message", "required")]);
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

async fn files_are_renamed_and_uploaded_as_clients_of_gitea_do(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("moved", json!({})).await;
    let contents = ada.repo("moved", "/contents");
    let change = |operation: &str, path: &str, from_path: &str, text: &str| json!({"operation": operation, "path": path, "from_path": from_path, "content": file(text), "sha": ""});
    let names = ["a", "b", "c", "d"];
    let first: Vec<_> = names.iter().map(|name| change("upload", name, "", name)).collect();
    let made = ada.post(&contents, &json!({"message": "First", "files": first})).await.expect(201).json();
    assert_eq!(made["verification"]["verified"], false);
    let files = json!([
        change("rename", "dir/a", "a", ""),
        change("update", "dir/b", "b", "new"),
        change("create", "dir/c", "c", "new"),
        change("upload", "d", "d", "new"),
    ]);
    let moved = ada.post(&contents, &json!({"message": "Second", "files": files})).await.expect(201).json();
    assert_eq!(moved["files"][0]["sha"], made["files"][0]["sha"]);
    assert_eq!(tree(&ada, "moved", "main").await, "d\ndir/a\ndir/b\ndir/c");
    for (name, expected) in [("dir/a", "a"), ("dir/b", "new"), ("dir/c", "new"), ("d", "new")] {
        let shown = ada.get(&format!("{contents}/{name}")).await.expect(200).json();
        assert_eq!(shown["content"], file(expected), "{name}");
    }
    let files = json!([change("delete", "d", "", ""), change("rename", "dir/b", "dir/a", "")]);
    let taken = ada.post(&contents, &json!({"message": "Third", "files": files})).await;
    taken.refused_fields(&[("files[1].path", "taken")]);
    let files = json!([change("delete", "d", "", "")]);
    ada.post(&contents, &json!({"message": "Third", "files": files})).await.expect(201);
    assert_eq!(tree(&ada, "moved", "main").await, "dir/a\ndir/b\ndir/c");
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
    let made = ada.put(&path, &own).await.expect(200).json();
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

async fn commits_have_the_dates_and_the_sign_off_that_the_body_asks_for(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("signed", json!({"auto_init": true})).await;
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "signed"), "work"]).await;
    let with = |more: Value| {
        let mut body = json!({
            "message": "m", "signoff": true, "committer": {"name": "Linus", "email": "linus@example.com"},
            "dates": {"author": "2001-02-03T04:05:06+02:00", "committer": "2002-02-03T04:05:06Z"},
        });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let (contents, path) = (ada.repo("signed", "/contents"), ada.repo("signed", "/contents/a"));
    let created = ada.post(&path, &with(json!({"content": file("1")}))).await.expect(201).json();
    let written = ada.put(&path, &with(json!({"content": file("2")}))).await.expect(200).json();
    let removed = remove(&ada, &path, &with(json!({}))).await.expect(200).json();
    let files = json!([{"operation": "create", "path": "b", "content": ""}]);
    let changed = ada.post(&contents, &with(json!({"files": files}))).await.expect(201).json();
    git.run("work", &["fetch", "-q"]).await;
    for response in [created, written, removed, changed] {
        assert_eq!(response["verification"]["verified"], false);
        let sha = response["commit"]["sha"].as_str().unwrap();
        let shown = git.run("work", &["show", "-s", "--format=%aI %cI %ae%n%(trailers:only)", sha]).await;
        let expected = format!(
            "2001-02-03T04:05:06+02:00 2002-02-03T04:05:06Z {}\nSigned-off-by: Linus <linus@example.com>",
            ada.email
        );
        assert_eq!(shown.trim_end().replace("+00:00", "Z"), expected);
    }
    // Go's clients send dates that are not set.
    let unset = json!({"message": "m", "content": "", "dates": {"author": "0001-01-01T00:00:00Z"}});
    ada.post(&path, &unset).await.expect(201);
    for (field, wrong) in [
        ("dates", json!({"dates": 7})),
        ("dates.author", json!({"dates": {"author": "yesterday"}})),
        ("dates.committer", json!({"dates": {"committer": "1969-12-31T23:59:59Z"}})),
        ("dates.author", json!({"author": {"date": "2001-02-03T04:05:06Z"}})),
        ("signoff", json!({"signoff": "yes"})),
    ] {
        let mut body = with(wrong);
        body["content"] = json!(file("3"));
        ada.put(&path, &body).await.refused_field(field);
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
        ("files[1].content", json!({"operation": "delete", "path": "README.md", "content": file("x")})),
        ("files[1].content", json!({"operation": "upload", "path": "README.md"})),
        ("files[1].from_path", json!({"operation": "rename", "path": "x"})),
        (
            "files[1].content",
            json!({"operation": "rename", "path": "x", "from_path": "README.md", "content": file("x")}),
        ),
        ("files[1].from_path", json!({"operation": "delete", "path": "README.md", "from_path": "x"})),
        ("files[1].sha", json!({"operation": "update", "path": "README.md", "content": "", "sha": "abc"})),
    ] {
        let response = ada.post(&contents, &json!({"message": "m", "files": [good, wrong]})).await.refused(422);
        assert_eq!(response.json()["errors"][0]["field"], field, "{wrong}: {}", response.text());
    }
    ada.post(&contents, &json!({"message": "m"})).await.refused_fields(&[("files", "required")]);
    assert_eq!(tree(&ada, "strict", "main").await, "README.md");
}
