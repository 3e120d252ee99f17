use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::{Cluster, Git, User};

on_profiles! {
    both {
        simultaneous_writes_all_land
    }
    embedded {
        a_file_is_written_and_read_back
        a_write_names_branch_and_blob
        a_file_is_created_only_where_there_is_none
        a_file_is_moved_by_a_write
        new_names_have_no_bidirectional_characters
        a_write_can_begin_a_branch
        the_download_url_of_a_file_leads_to_it
        dates_keep_their_offset
        the_first_write_fills_an_empty_repository
        refused_writes_name_their_field
        no_path_leaves_the_tree_or_enters_git
        only_writers_write
        directories_links_and_submodules_have_types_of_their_own
    }
}

fn file(text: &str) -> String {
    STANDARD.encode(text)
}

fn written(user: &User, repository: &str, path: &str) -> String {
    user.repo(repository, &format!("/contents/{path}"))
}

async fn a_file_is_written_and_read_back(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("files", json!({"auto_init": true})).await;
    let path = written(&ada, "files", "docs/a%20b.txt");
    let body = json!({"message": "Add it", "content": file("hello\n")});
    let response = ada.put(&path, &body).await.expect(201).json();
    let (content, commit) = (&response["content"], &response["commit"]);
    assert_eq!(content["sha"], "ce013625030ba8dba906f756967f9e9ca394464a");
    assert_eq!(
        (&content["type"], &content["encoding"], &content["size"]),
        (&json!("file"), &json!("base64"), &json!(6))
    );
    assert_eq!((&content["name"], &content["path"]), (&json!("a b.txt"), &json!("docs/a b.txt")));
    assert_eq!(content["content"], file("hello\n"));
    let api = format!("{}/api/v1/repos/{}/files", cluster.url, ada.name);
    assert_eq!(content["url"], format!("{api}/contents/docs/a%20b.txt"));
    assert_eq!(content["_links"]["self"], content["url"]);
    assert_eq!(content["git_url"], format!("{api}/git/blobs/{}", content["sha"].as_str().unwrap()));
    assert_eq!(content["download_url"], format!("{api}/raw/main/docs/a%20b.txt"));
    let sha = commit["sha"].as_str().unwrap();
    assert_eq!((&commit["url"], &commit["commit"]["url"]), (&json!(format!("{api}/commits/{sha}")), &commit["url"]));
    assert_eq!(commit["commit"]["message"], "Add it");
    assert_eq!(commit["commit"]["author"]["email"], ada.email.as_str());
    assert_eq!(commit["author"]["username"], ada.name.as_str());
    assert_eq!(commit["parents"].as_array().unwrap().len(), 1);
    assert_eq!(ada.get(&path).await.expect(200).json(), *content);
    let shown = ada.get(&ada.repo("files", &format!("/commits/{sha}"))).await.expect(200).json();
    let people = ["author", "committer"];
    for (name, value) in shown.as_object().unwrap().iter().filter(|(name, _)| !people.contains(&name.as_str())) {
        assert_eq!(&commit[name], value, "{name}");
    }
    assert_eq!(ada.get(&ada.repo("files", "/raw/main/docs/a%20b.txt")).await.expect(200).text(), "hello\n");
    let names =
        |list: Value| list.as_array().unwrap().iter().map(|entry| entry["path"].to_string()).collect::<String>();
    let root = ada.get(&ada.repo("files", "/contents")).await.expect(200).json();
    assert_eq!(names(root), "\"README.md\"\"docs\"");
    assert_eq!(names(ada.get(&written(&ada, "files", "docs/")).await.expect(200).json()), "\"docs/a b.txt\"");
    let with_ref = ada.get(&format!("{path}?ref=main")).await.expect(200).json();
    assert_eq!(with_ref["url"], format!("{api}/contents/docs/a%20b.txt?ref=main"));
}

async fn the_download_url_of_a_file_leads_to_it(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("secret", json!({"auto_init": true, "private": true})).await;
    let path = written(&ada, "secret", "a%20dir/%C3%BC%23%3F%25.txt");
    let body = json!({"message": "m", "content": file("hello\n"), "branch": "feature/one#1"});
    let made = ada.put(&path, &body).await.expect(201).json();
    let address = made["content"]["download_url"].as_str().unwrap();
    let rest = address.strip_prefix(&format!("{}/api/v1", cluster.url)).unwrap();
    assert_eq!(ada.get(rest).await.expect(200).text(), "hello\n");
    bob.get(rest).await.refused(404);
    cluster.anonymous().get(rest).await.refused(404);
    let listed = ada.get(&format!("{}?ref=feature/one%231", written(&ada, "secret", "a%20dir"))).await.expect(200);
    assert_eq!(listed.json()[0]["download_url"], *address);
    let root = ada.get(&format!("{}?ref=feature/one%231", ada.repo("secret", "/contents"))).await.expect(200).json();
    let of = |name: &str| {
        root.as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap()["download_url"].clone()
    };
    assert_eq!(of("a dir"), "", "a directory is no file");
    let readme = of("README.md");
    let rest = readme.as_str().unwrap().strip_prefix(&format!("{}/api/v1", cluster.url)).unwrap();
    assert!(ada.get(rest).await.expect(200).text().contains("secret"));
}

async fn a_write_names_branch_and_blob(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("files", json!({"auto_init": true})).await;
    let path = written(&ada, "files", "a.txt");
    let (user, target) = (&ada, &path);
    let put = |body: Value| async move { user.put(target, &body).await };
    let first = put(json!({"message": "1", "content": file("1"), "branch": "side/way"})).await;
    let first = first.expect(201).json();
    ada.get(&path).await.refused(404);
    assert_eq!(ada.get(&format!("{path}?ref=side/way")).await.expect(200).json()["content"], file("1"));
    let blob = &first["content"]["sha"];
    let second = json!({"message": "2", "content": file("2"), "branch": "side/way", "sha": blob});
    put(second.clone()).await.expect(200);
    let mut stale = second;
    stale["content"] = json!(file("3"));
    put(stale).await.refused(409);
    // Without a message, the commit names the file.
    let unnamed = put(json!({"content": file("4"), "new_branch": "unnamed", "message": ""})).await.expect(201);
    assert_eq!(unnamed.json()["commit"]["commit"]["message"], "Add a.txt");
    let branch = ada.get(&ada.repo("files", "/branches/side/way")).await.expect(200).json();
    assert_eq!(branch["commit"]["message"].as_str().unwrap().trim_end(), "2");
    let git = Git::new();
    git.run("", &["clone", "-q", "-b", "side/way", &ada.git_url(&ada.name, "files"), "work"]).await;
    assert_eq!(git.run("work", &["rev-list", "--count", "HEAD"]).await, "3");
    git.run("work", &["fsck", "--strict"]).await;
}

async fn a_file_is_created_only_where_there_is_none(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    ada.new_repository("files", json!({"auto_init": true})).await;
    let path = written(&ada, "files", "docs/a%20b.txt");
    let body = json!({"message": "Add it", "content": file("hello\n"), "branch": "side"});
    outsider.post(&path, &body).await.refused(403);
    let keyed = async || {
        let request = ada.request(reqwest::Method::POST, &path).header("idempotency-key", "once");
        crate::harness::Response::of(request.json(&body)).await.expect(201)
    };
    let created = keyed().await;
    let made = created.json();
    assert_eq!((&made["content"]["path"], &made["content"]["size"]), (&json!("docs/a b.txt"), &json!(6)));
    assert_eq!(made["content"]["content"], file("hello\n"));
    assert_eq!(made["commit"]["commit"]["message"], "Add it");
    assert_eq!(made["verification"], json!({"verified": false, "reason": "gpg.error.not_signed_commit"}));
    assert_eq!(created.header("location"), made["content"]["url"]);
    assert_eq!(keyed().await.json(), made);
    ada.post(&path, &body).await.refused_fields(&[("path", "taken")]);
    ada.post(&written(&ada, "files", "docs"), &body).await.refused_fields(&[("path", "invalid")]);
    ada.post(&path, &json!({"message": "m"})).await.refused_fields(&[("content", "required")]);
    for (name, value) in [("if-match", "*"), ("if-none-match", "*")] {
        let request = ada.request(reqwest::Method::POST, &path).header(name, value);
        crate::harness::Response::of(request.json(&body)).await.refused(422);
    }
    // On the default branch there is none yet.
    ada.post(&path, &json!({"message": "m", "content": ""})).await.expect(201);
    assert_eq!(ada.get(&format!("{path}?ref=side")).await.expect(200).json()["content"], file("hello\n"));
}

async fn a_file_is_moved_by_a_write(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("moves", json!({"auto_init": true})).await;
    let (a, b) = (written(&ada, "moves", "a"), written(&ada, "moves", "dir/b"));
    let first = ada.put(&a, &json!({"message": "m", "content": file("text")})).await.expect(201).json();
    let sha = &first["content"]["sha"];
    let body = json!({"message": "Move", "from_path": "a", "sha": sha});
    let tag = ada.get(&a).await.expect(200).header("etag");
    for (name, value) in [("if-match", tag.as_str()), ("if-match", "*")] {
        let request = ada.request(reqwest::Method::PUT, &b).header(name, value);
        // The condition is about the file at the new path.
        crate::harness::Response::of(request.json(&body)).await.refused(412);
    }
    let request = ada.request(reqwest::Method::PUT, &b).header("if-none-match", "*");
    let moved = crate::harness::Response::of(request.json(&body)).await.expect(200).json();
    assert_eq!((&moved["content"]["sha"], &moved["content"]["content"]), (sha, &json!(file("text"))));
    assert_eq!(moved["commit"]["parents"][0]["sha"], first["commit"]["sha"]);
    ada.get(&a).await.refused(404);
    let edited = json!({"message": "Move back", "from_path": "dir/b", "content": file("new"), "new_branch": "topic"});
    let edited = ada.put(&a, &edited).await.expect(200).json();
    assert_eq!(edited["content"]["content"], file("new"));
    // An empty content empties the file, and its own path moves nothing.
    let emptied = json!({"message": "m", "from_path": "dir/b", "content": ""});
    assert_eq!(ada.put(&b, &emptied).await.expect(200).json()["content"]["size"], 0);
    for (body, field, code) in [
        (json!({"message": "m", "from_path": "dir/b"}), "content", "required"),
        (json!({"message": "m", "from_path": "README.md"}), "path", "taken"),
        (json!({"message": "m", "from_path": "none"}), "from_path", "invalid"),
        (json!({"message": "m", "from_path": "../x"}), "from_path", "invalid"),
        (json!({"message": "m"}), "content", "required"),
    ] {
        ada.put(&b, &body).await.refused_fields(&[(field, code)]);
    }
    let stale = json!({"message": "m", "from_path": "README.md", "sha": sha});
    ada.put(&written(&ada, "moves", "new"), &stale).await.refused(409);
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "moves"), "work"]).await;
    assert_eq!(git.run("work", &["ls-tree", "-r", "--name-only", "origin/topic"]).await, "README.md\na");
    assert_eq!(git.run("work", &["ls-tree", "-r", "--name-only", "origin/main"]).await, "README.md\ndir/b");
    git.run("work", &["fsck", "--strict"]).await;
}

async fn new_names_have_no_bidirectional_characters(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("names", json!({"auto_init": true})).await;
    let odd = "a\u{202e}b";
    let path = written(&ada, "names", "x");
    let body = |more: Value| {
        let mut body = json!({"message": "m", "content": file("1")});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let target = written(&ada, "names", "a%E2%80%AEb");
    ada.put(&target, &body(json!({}))).await.refused_fields(&[("path", "invalid")]);
    for (field, more) in [
        ("branch", json!({"branch": odd})),
        ("new_branch", json!({"new_branch": odd})),
        ("author.name", json!({"author": {"name": odd, "email": "a@example.com"}})),
        ("committer.email", json!({"committer": {"name": "a", "email": format!("{odd}@example.com")}})),
    ] {
        let refused = ada.put(&path, &body(more)).await.refused_fields(&[(field, "invalid")]);
        assert!(refused.text().contains("must not contain control or bidirectional characters"), "{}", refused.text());
    }
    ada.post(&ada.repo("names", "/releases"), &json!({"tag_name": odd})).await.refused_field("tag_name");
    ada.put(&path, &body(json!({"message": "\u{202b}x\u{202c}"}))).await.expect(201);
    // Git takes such names, and what was pushed can be used and removed.
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "names"), "work"]).await;
    git.commit("work", odd, "pushed").await;
    git.run("work", &["push", "-q", "origin", &format!("HEAD:refs/heads/{odd}")]).await;
    ada.put(&target, &body(json!({"branch": odd}))).await.expect(200);
    let delete = ada.request(reqwest::Method::DELETE, &target).json(&json!({"message": "m", "branch": odd}));
    crate::harness::Response::of(delete).await.expect(200);
}

async fn a_write_can_begin_a_branch(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("files", json!({"auto_init": true})).await;
    let path = written(&ada, "files", "a.txt");
    let tip = async |branch: &str| {
        let branch = ada.get(&ada.repo("files", &format!("/branches/{branch}"))).await.expect(200).json();
        branch["commit"]["id"].clone()
    };
    let main = tip("main").await;
    let body = json!({"message": "m", "content": file("1"), "new_branch": "topic/one"});
    let made = ada.put(&path, &body).await.expect(201).json();
    assert_eq!(made["commit"]["parents"][0]["sha"], main);
    assert!(made["content"]["url"].as_str().unwrap().ends_with("/contents/a.txt?ref=topic%2Fone"), "{made}");
    assert_eq!(tip("topic/one").await, made["commit"]["sha"]);
    ada.get(&path).await.refused(404);
    let body = json!({"message": "m", "content": file("2"), "branch": "topic/one", "new_branch": "topic/two"});
    let made = ada.put(&path, &body).await.expect(200).json();
    assert_eq!(made["commit"]["parents"][0]["sha"], tip("topic/one").await);
    let remove =
        async |body: Value| crate::harness::Response::of(ada.request(reqwest::Method::DELETE, &path).json(&body)).await;
    let gone = json!({"message": "m", "branch": "topic/two", "new_branch": "gone"});
    let gone = remove(gone).await.expect(200).json();
    assert_eq!(gone["commit"]["parents"][0]["sha"], made["commit"]["sha"]);
    let branches = ada.get(&ada.repo("files", "/branches")).await.expect(200).json();
    let names: Vec<_> = branches.as_array().unwrap().iter().map(|branch| &branch["name"]).collect();
    assert_eq!(names, ["gone", "main", "topic/one", "topic/two"]);
    for taken in ["topic/one", "main", "topic", "main/x"] {
        let body = json!({"message": "m", "content": file("3"), "new_branch": taken});
        ada.put(&path, &body).await.refused_fields(&[("new_branch", "taken")]);
    }
    for wrong in ["topic/one", "main", "topic", "a..b", "-x", "refs/heads/x", "HEAD"] {
        let body = json!({"message": "m", "content": file("3"), "new_branch": wrong});
        ada.put(&path, &body).await.refused_field("new_branch");
        remove(json!({"message": "m", "branch": "topic/one", "new_branch": wrong})).await.refused_field("new_branch");
    }
    let absent = json!({"message": "m", "content": file("3"), "branch": "absent", "new_branch": "x"});
    ada.put(&path, &absent).await.refused(404);
    let bob = cluster.user("bob").await;
    ada.put(&ada.repo("files", &format!("/collaborators/{}", bob.name)), &json!({})).await.expect(204);
    let rule = json!({"pattern": "held/*", "push_users": [ada.name]});
    ada.post(&ada.repo("files", "/branch_protections"), &rule).await.expect(201);
    let held = json!({"message": "m", "content": file("3"), "new_branch": "held/one"});
    bob.put(&path, &held).await.refused(403);
    ada.get(&ada.repo("files", "/branches/held/one")).await.refused(404);
    assert_eq!(tip("main").await, main);
    git.run("", &["clone", "-q", "-b", "topic/two", &ada.git_url(&ada.name, "files"), "work"]).await;
    assert_eq!(git.run("work", &["rev-list", "--count", "HEAD"]).await, "3");
    git.run("work", &["fsck", "--strict"]).await;
}

async fn dates_keep_their_offset(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("files", json!({"auto_init": true})).await;
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "files"), "work"]).await;
    let person = |date: &str| json!({"name": "A", "email": "a@example.com", "date": date});
    let (author, committer) = (person("2026-01-02T03:04:05+05:30"), person("2026-01-01T18:04:05-03:30"));
    let people = json!({"message": "m", "author": author, "committer": committer});
    let with = |more: Value| {
        let mut body = people.clone();
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let path = written(&ada, "files", "a.txt");
    let made = ada.put(&path, &with(json!({"content": file("1")}))).await.expect(201).json();
    let files = json!([{"operation": "create", "path": "b.txt", "content": file("1")}]);
    let changed = ada.post(&ada.repo("files", "/contents"), &with(json!({"files": files}))).await.expect(201).json();
    let delete = ada.request(reqwest::Method::DELETE, &path).json(&with(json!({})));
    let removed = crate::harness::Response::of(delete).await.expect(200).json();
    git.run("work", &["fetch", "-q"]).await;
    for commit in [made, changed, removed].map(|response| response["commit"].clone()) {
        assert_eq!(commit["commit"]["author"]["date"], "2026-01-01T21:34:05Z");
        let stored = git.run("work", &["show", "-s", "--format=%aI %cI", commit["sha"].as_str().unwrap()]).await;
        assert_eq!(stored, "2026-01-02T03:04:05+05:30 2026-01-01T18:04:05-03:30");
    }
    for wrong in ["2026-01-02T03:04:05+24:00", "2026-01-02T03:04:05", "2026-01-02"] {
        let body = json!({"message": "m", "content": file("2"), "committer": person(wrong)});
        ada.put(&path, &body).await.refused_field("committer.date");
    }
}

async fn the_first_write_fills_an_empty_repository(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("blank", json!({})).await;
    assert_eq!(ada.get(&ada.repo("blank", "/contents")).await.expect(200).text(), "[]");
    assert_eq!(ada.get(&ada.repo("blank", "/branches")).await.expect(200).text(), "[]");
    for rest in ["/contents/x", "/branches/main", "/commits/main", "/commits/HEAD", "/raw/main/x"] {
        ada.get(&ada.repo("blank", rest)).await.refused(404);
    }
    ada.put(&written(&ada, "blank", "x"), &json!({"message": "first", "content": ""})).await.expect(201);
    let repository = ada.eventually(&ada.repo("blank", ""), |repository| repository["empty"] == false).await;
    assert_eq!(repository["default_branch"], "main");
    let empty = ada.get(&ada.repo("blank", "/raw/main/x")).await.expect(200);
    assert!(empty.body.is_empty());
    assert_eq!(ada.get(&written(&ada, "blank", "x")).await.expect(200).json()["content"], "");
}

async fn refused_writes_name_their_field(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("strict", json!({"auto_init": true})).await;
    let path = written(&ada, "strict", "new.txt");
    let good = json!({"message": "m", "content": file("x")});
    let cases = [
        ("content", json!("not base64!"), "content"),
        ("content", json!("YQ"), "content"),
        ("content", json!(5), "content"),
        ("content", Value::Null, "content"),
        ("message", json!(["x"]), "message"),
        ("branch", json!("-x"), "branch"),
        ("branch", json!("a..b"), "branch"),
        ("branch", json!("refs/heads/x"), "branch"),
        ("branch", json!("a\u{0}b"), "branch"),
        ("branch", json!("HEAD"), "branch"),
    ];
    for (name, value, field) in cases {
        let mut body = good.clone();
        body[name] = value.clone();
        let refused = ada.put(&path, &body).await.refused(422).json();
        assert_eq!(refused["errors"][0]["field"], field, "{name} = {value}: {refused}");
    }
    ada.put(&path, &good).await.expect(201);
    ada.put(&path, &good).await.refused(422);
    for wrong in ["new.txt/below", "README.md/x"] {
        ada.put(&written(&ada, "strict", wrong), &good).await.refused_fields(&[("path", "invalid")]);
    }
    ada.put(&written(&ada, "strict", "dir/x"), &good).await.expect(201);
    ada.put(&written(&ada, "strict", "dir"), &good).await.refused_fields(&[("path", "invalid")]);
    ada.put(&ada.repo("strict", "/contents"), &good).await.refused_any(&[404, 405, 422]);
    let lines = json!({"message": "m", "content": "aGVs\nbG8=\n"});
    ada.put(&written(&ada, "strict", "lines"), &lines).await.expect(201);
    assert_eq!(ada.get(&ada.repo("strict", "/raw/main/lines")).await.expect(200).text(), "hello");
}

async fn no_path_leaves_the_tree_or_enters_git(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("walls", json!({"auto_init": true})).await;
    let body = json!({"message": "m", "content": file("x")});
    for wrong in [
        ".git/config",
        ".GIT/config",
        "a/.git/hooks/x",
        ".git%20/x",
        ".git./x",
        "git~1/x",
        ".g%E2%80%8Cit/x",
        "a%00b",
        "a%5Cb",
        ".git%3A%3A$INDEX_ALLOCATION/x",
        "a%0Ab",
        "%FF",
        "%2Fetc%2Fpasswd%2F",
        "a//b",
    ] {
        let response = ada.put(&written(&ada, "walls", wrong), &body).await;
        response.refused_any(&[422, 404]);
    }
    for wrong in ["%2e%2e/x", "a/%2e%2e/%2e%2e/x", "%2e/x", "a/../../../../user"] {
        let head = format!("PUT /api/v1/repos/{}/walls/contents/{wrong} HTTP/1.1", ada.name);
        let status = crate::protocol::raw_status(cluster, &head, &ada, &body.to_string()).await;
        assert!(matches!(status, 404 | 422), "{wrong}: {status}");
    }
    let git = Git::new();
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "walls"), "work"]).await;
    assert_eq!(git.run("work", &["rev-list", "--count", "--all"]).await, "1");
    ada.put(&written(&ada, "walls", "-rf"), &body).await.expect(201);
    ada.put(&written(&ada, "walls", ".github/x"), &body).await.expect(201);
}

async fn only_writers_write(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    ada.new_repository("open", json!({"auto_init": true})).await;
    let path = written(&ada, "open", "x");
    let body = json!({"message": "m", "content": file("x")});
    outsider.put(&path, &body).await.refused(403);
    outsider.put(&path, &json!({})).await.refused(403);
    cluster.anonymous().put(&path, &body).await.refused(401);
    outsider.put(&written(&ada, "absent", "x"), &body).await.refused(404);
    ada.get(&path).await.refused(404);
}

async fn simultaneous_writes_all_land(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("busy", json!({"auto_init": true})).await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..16 {
        let ada = ada.clone();
        calls.spawn(async move {
            let body = json!({"message": format!("{number}"), "content": file(&format!("{number}"))});
            ada.put(&written(&ada, "busy", &format!("dir/{number}")), &body).await.expect(201);
        });
    }
    calls.join_all().await;
    let git = Git::new();
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "busy"), "work"]).await;
    assert_eq!(git.run("work", &["rev-list", "--count", "HEAD"]).await, "17");
    assert_eq!(std::fs::read_dir(git.path().join("work/dir")).unwrap().count(), 16);
    git.run("work", &["fsck", "--strict"]).await;
}

async fn directories_links_and_submodules_have_types_of_their_own(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("kinds", json!({})).await;
    let git = Git::new();
    let work = git.small("work").await;
    std::os::unix::fs::symlink("README.md", work.join("link")).unwrap();
    std::fs::write(work.join(".gitmodules"), "[submodule \"s\"]\n\tpath = sub\n\turl = https://example.com/s.git\n")
        .unwrap();
    let head = git.run("work", &["rev-parse", "HEAD"]).await;
    git.run("work", &["update-index", "--add", "--cacheinfo", &format!("160000,{head},sub")]).await;
    git.run("work", &["add", ".gitmodules", "link"]).await;
    git.run("work", &["commit", "-q", "-m", "Kinds"]).await;
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, "kinds"), "main"]).await;
    let link = ada.get(&written(&ada, "kinds", "link")).await.expect(200).json();
    assert_eq!((&link["type"], &link["target"], &link["size"]), (&json!("symlink"), &json!("README.md"), &json!(9)));
    assert!(link["content"].is_null() && link.get("encoding").is_none(), "{link}");
    let sub = ada.get(&written(&ada, "kinds", "sub")).await.expect(200).json();
    assert_eq!((&sub["type"], &sub["sha"], &sub["size"]), (&json!("submodule"), &json!(head), &json!(0)));
    assert_eq!(sub["submodule_git_url"], "https://example.com/s.git");
    assert_eq!(ada.get(&ada.repo("kinds", "/raw/main/link")).await.expect(200).text(), "README.md");
    let body = json!({"message": "m", "content": file("x")});
    for wrong in ["link", "link/x", "sub", "sub/x"] {
        ada.put(&written(&ada, "kinds", wrong), &body).await.refused_fields(&[("path", "invalid")]);
    }
}
