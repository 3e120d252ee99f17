//! Responses of operations to different callers, and the order of checks.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    both {
        site_administrators_read_over_git_and_push_nowhere
    }
    embedded {
        every_operation_responds_to_each_caller_by_the_matrix
        rights_are_checked_before_the_body
        paths_may_end_with_a_slash
        every_read_responds_to_head
        options_need_no_credentials
        one_token_is_deleted_by_its_name
        binary_files_are_plain_text_to_save
    }
}

const OPERATIONS: [(Method, &str, u16); 32] = [
    (Method::GET, "", 200),
    (Method::GET, "/branches", 200),
    (Method::GET, "/branches/main", 200),
    (Method::GET, "/commits/main", 200),
    (Method::GET, "/raw/main/README.md", 200),
    (Method::GET, "/contents", 200),
    (Method::GET, "/contents/README.md", 200),
    (Method::GET, "/issues", 200),
    (Method::PUT, "/contents/new", 403),
    (Method::GET, "/hooks", 403),
    (Method::POST, "/hooks", 403),
    (Method::POST, "/issues", 400),
    (Method::GET, "/issues/1", 200),
    (Method::PATCH, "/issues/1", 403),
    (Method::GET, "/issues/1/timeline", 200),
    (Method::GET, "/issues/comments", 200),
    (Method::GET, "/issues/1/comments", 200),
    (Method::POST, "/issues/1/comments", 400),
    (Method::PATCH, "/issues/1/comments/999999999", 400),
    (Method::DELETE, "/issues/1/comments/999999999", 404),
    (Method::GET, "/issues/1/labels", 200),
    (Method::POST, "/issues/1/labels", 403),
    (Method::PUT, "/issues/1/labels", 403),
    (Method::DELETE, "/issues/1/labels", 403),
    (Method::GET, "/labels", 200),
    (Method::POST, "/labels", 403),
    (Method::PATCH, "/labels/1", 403),
    (Method::GET, "/milestones", 200),
    (Method::POST, "/milestones", 403),
    (Method::DELETE, "/milestones/1", 403),
    (Method::PATCH, "/issue-tracker", 403),
    (Method::DELETE, "", 403),
];

fn broken(caller: &User, method: &Method, path: &str) -> reqwest::RequestBuilder {
    caller.request(method.clone(), path).header("content-type", "application/json").body("{\"title\":")
}

async fn every_operation_responds_to_each_caller_by_the_matrix(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    ada.new_repository("open", json!({"auto_init": true})).await;
    ada.new_repository("hidden", json!({"auto_init": true, "private": true})).await;
    for name in ["open", "hidden"] {
        ada.new_issue(&ada.repo(name, ""), "One", json!({})).await;
    }
    let (anonymous, invalid) = (cluster.anonymous(), outsider.with_token(Some(&"0".repeat(40))));
    for (method, rest, reader) in OPERATIONS {
        // Permission is checked before the body is read.
        let ask = async |caller: &User, name: &str| Response::of(broken(caller, &method, &ada.repo(name, rest))).await;
        // What a stranger reads in a public repository is open without a token.
        let expected = if method == Method::GET && reader == 200 { 200 } else { 401 };
        for (caller, name, status) in [
            (&anonymous, "open", expected),
            (&anonymous, "hidden", if expected == 200 { 404 } else { 401 }),
            (&anonymous, "absent", if expected == 200 { 404 } else { 401 }),
            (&invalid, "open", 401),
            (&invalid, "absent", 401),
            (&outsider, "open", reader),
            (&outsider, "hidden", 404),
            (&outsider, "absent", 404),
        ] {
            let response = ask(caller, name).await;
            assert_eq!(response.status, status, "{method} {name}{rest} as {:?}: {}", caller.name, response.text());
            if status >= 400 {
                response.refused(status);
            }
        }
    }
}

async fn rights_are_checked_before_the_body(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    let (anonymous, invalid) = (cluster.anonymous(), ada.with_token(Some(&"0".repeat(40))));
    for (caller, path, status) in [
        (&anonymous, "/user/repos", 401),
        (&invalid, "/user/repos", 401),
        (&ada, "/user/repos", 400),
        (&anonymous, "/admin/users", 401),
        (&invalid, "/admin/users", 401),
        (&outsider, "/admin/users", 403),
    ] {
        Response::of(broken(caller, &Method::POST, path)).await.refused(status);
        let typed = caller.request(Method::POST, path).header("content-type", "text/xml").body("<x/>");
        Response::of(typed).await.refused(if status == 400 { 415 } else { status });
    }
    for (name, status) in [(ada.name.as_str(), 400), (&outsider.name, 403), ("anonymous-at-all", 404)] {
        let post = broken(&ada.with_token(None), &Method::POST, &format!("/users/{name}/tokens"));
        Response::of(post.basic_auth(&ada.name, Some(&ada.password))).await.refused(status);
    }
}

async fn paths_may_end_with_a_slash(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let made = ada.post("/user/repos/", &json!({"name": "slash", "auto_init": true})).await.expect(201).json();
    assert_eq!(made["name"], "slash");
    ada.post(&ada.repo("slash", "/issues/"), &json!({"title": "x"})).await.expect(201);
    let hook = json!({"type": "gogs", "config": {"url": "https://example.com", "content_type": "json"}});
    ada.post(&ada.repo("slash", "/hooks/"), &hook).await.expect(201);
    for path in reads(&ada, "slash") {
        let with = ada.get(&format!("{path}/")).await.expect(200);
        assert_eq!(with.body, ada.get(&path).await.expect(200).body, "{path}");
    }
    ada.delete(&ada.repo("slash", "/")).await.expect(204);
}

/// Paths that read something of a repository with one issue, or of its owner.
fn reads(user: &User, name: &str) -> Vec<String> {
    let mut paths = vec!["/user".to_owned(), "/user/repos".to_owned(), "/repos/search".to_owned()];
    paths.extend([format!("/users/{}", user.name), format!("/users/{}/repos", user.name)]);
    let below =
        OPERATIONS.iter().filter(|(method, _, _)| method == Method::GET).map(|(_, rest, _)| user.repo(name, rest));
    paths.extend(below);
    paths.extend(["/user/issues".to_owned(), "/issues".to_owned()]);
    paths
}

async fn every_read_responds_to_head(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("head", json!({"auto_init": true})).await;
    ada.post(&ada.repo("head", "/issues"), &json!({"title": "x"})).await.expect(201);
    for path in reads(&ada, "head") {
        let get = ada.get(&path).await.expect(200);
        let head = Response::of(ada.request(Method::HEAD, &path)).await.expect(200);
        assert!(head.body.is_empty(), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
    }
    let refused = Response::of(cluster.anonymous().request(Method::HEAD, "/user")).await.expect(401);
    assert!(refused.body.is_empty());
}

async fn options_need_no_credentials(cluster: &Cluster) {
    let anonymous = cluster.anonymous();
    for path in ["/user", "/nope", "/repos/search", "/users/x/tokens", "/repos/a/b/contents/x", "/admin/users"] {
        let response = Response::of(anonymous.request(Method::OPTIONS, path)).await.expect(200);
        assert!(
            response.body.is_empty() && response.header("content-type").is_empty(),
            "{path}: {:?}",
            response.headers
        );
        assert!(response.header("access-control-allow-origin").is_empty() && response.header("set-cookie").is_empty());
    }
}

async fn one_token_is_deleted_by_its_name(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    let value = ada.new_token("my/laptop \u{e9}").await;
    let path = format!("/api/v1/users/{}/tokens", ada.name);
    let delete = |user: &User, name: &str| {
        let request = user.raw(Method::DELETE, &format!("{path}/{name}"));
        Response::of(request.basic_auth(&user.name, Some(&user.password)))
    };
    delete(&outsider, "my%2Flaptop%20%C3%A9").await.refused(403);
    delete(&ada, "other").await.refused(404);
    ada.delete(&format!("/users/{}/tokens/tests", ada.name)).await.refused(401);
    assert!(delete(&ada, "my%2Flaptop%20%C3%A9").await.expect(204).body.is_empty());
    delete(&ada, "my%2Flaptop%20%C3%A9").await.refused(404);
    ada.with_token(Some(&value)).get("/user").await.refused(401);
    ada.get("/user").await.expect(200);
}

async fn site_administrators_read_over_git_and_push_nowhere(cluster: &Cluster) {
    let (ada, admin) = (cluster.user("ada").await, cluster.admin().await);
    for (name, private) in [("open", false), ("hidden", true)] {
        ada.new_repository(name, json!({"auto_init": true, "private": private})).await;
        let token = admin.token.as_deref().unwrap();
        for (user, password) in [(admin.name.as_str(), admin.password.as_str()), (&admin.name, token), (token, "")] {
            for (service, status) in [("upload-pack", 200), ("receive-pack", 403)] {
                let path = format!("/{}/{name}.git/info/refs?service=git-{service}", ada.name);
                let request = admin.raw(Method::GET, &path).basic_auth(user, Some(password));
                assert_eq!(Response::of(request).await.status, status, "{name} {service}");
            }
        }
        let git = Git::new();
        git.run("", &["clone", "-q", &admin.git_url(&ada.name, name), "work"]).await;
        git.commit("work", "x", "x").await;
        git.fails("work", &["push", "-q", "origin", "main"]).await;
        let body = json!({"message": "By the administrator", "content": ""});
        admin.put(&ada.repo(name, "/contents/x"), &body).await.expect(201);
    }
}

async fn binary_files_are_plain_text_to_save(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("bytes", json!({})).await;
    let git = Git::new();
    let work = git.small("work").await;
    let late = [vec![b'a'; 1024], vec![0]].concat();
    let files: [(&str, &[u8], bool); 7] = [
        ("image.png", b"\x89PNG\r\n\x1a\n\0\0", false),
        ("bin.dat", &[0, 1, 2, 255], false),
        ("late.dat", &late, true),
        ("empty", b"", true),
        ("page.html", b"<script>alert(1)</script>", true),
        ("image.svg", b"<svg onload=\"x\"/>", true),
        ("latin.txt", b"caf\xe9\n", true),
    ];
    for (name, bytes, _) in files {
        std::fs::write(work.join(name), bytes).unwrap();
    }
    git.run("work", &["add", "-A"]).await;
    git.run("work", &["commit", "-q", "-m", "Files"]).await;
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, "bytes"), "main"]).await;
    for (name, bytes, is_text) in files {
        let raw = ada.get(&ada.repo("bytes", &format!("/raw/main/{name}"))).await.expect(200);
        assert_eq!(raw.body, bytes, "{name}");
        assert_eq!(raw.header("content-length"), bytes.len().to_string(), "{name}");
        assert_eq!(raw.header("x-content-type-options"), "nosniff", "{name}");
        let (kind, disposition, transfer) = if is_text {
            ("text/plain; charset=utf-8", String::new(), "")
        } else {
            ("text/plain", format!("attachment; filename=\"{name}\""), "binary")
        };
        assert_eq!(raw.header("content-type"), kind, "{name}");
        assert_eq!(raw.header("content-disposition"), disposition, "{name}");
        assert_eq!(raw.header("content-transfer-encoding"), transfer, "{name}");
    }
}
