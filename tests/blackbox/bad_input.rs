//! Malformed and hostile input on every route that accepts it: rejected with a reason, or served
//! and harmless. `git-svc/tests` covers input that only git's own protocol can carry.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    embedded {
        files_that_look_like_options_are_files
        writes_to_odd_branches_are_refused_by_name
        commits_from_the_end_of_time_are_read_everywhere
        links_and_submodules_are_never_followed
    }
    production {
        names_that_look_like_options_are_names_of_nothing
    }
}

const ODD: &[&str] = &[
    "-x",
    "-n1",
    "--all",
    "--upload-pack=x",
    "--output=%2Ftmp%2Fferrite-odd",
    "--end-of-options",
    "main~1",
    "main%5E",
    "main%40%7B1%7D",
    "main..main",
    "main%3AREADME.md",
    "%3Afirst",
    "%40",
    "main.lock",
    "ma%00in",
    "ma%0Ain",
    "ma%1Bin",
    "ma%7Fin",
    "%FF%FE",
    "refs%2Fheads",
    "refs%2F..%2FHEAD",
    "refs%2Fferrite%2Fx",
    "..%2F..%2Fetc%2Fpasswd",
];

/// Requests every route that takes a revision. Returns the responses with their paths.
async fn by_every_route(user: &User, name: &str, revision: &str) -> Vec<(String, Response)> {
    let paths = [
        format!("/branches/{revision}"),
        format!("/commits/{revision}"),
        format!("/commits?sha={revision}"),
        format!("/contents?ref={revision}"),
        format!("/contents/README.md?ref={revision}"),
        format!("/raw/{revision}/README.md"),
        format!("/raw/README.md?ref={revision}"),
        format!("/archive/{revision}.zip"),
        format!("/archive/{revision}.tar.gz"),
        format!("/git/trees/{revision}"),
        format!("/git/trees/{revision}?recursive=1"),
        format!("/tree-commits?ref={revision}"),
        format!("/blame/README.md?ref={revision}"),
    ];
    let mut responses = Vec::new();
    for path in paths {
        let response = user.get(&user.repo(name, &path)).await;
        responses.push((path, response));
    }
    responses
}

async fn names_that_look_like_options_are_names_of_nothing(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("odd", json!({"auto_init": true})).await;
    let long = "n".repeat(5000);
    for revision in ODD.iter().copied().chain([long.as_str()]) {
        for (path, response) in by_every_route(&ada, "odd", revision).await {
            let status = response.status.as_u16();
            assert!(matches!(status, 404 | 414 | 422 | 431), "{path}: {status} {}", response.text());
        }
        for path in ["git/blobs", "git/tags", "git/refs", "git/refs/heads", "branch_protections"] {
            let response = ada.get(&ada.repo("odd", &format!("/{path}/{revision}"))).await;
            let status = response.status.as_u16();
            assert!(matches!(status, 404 | 414 | 422 | 431), "{path}/{revision}: {status} {}", response.text());
        }
        for path in ["contents", "raw/main", "blame", "tree-commits"] {
            ada.get(&ada.repo("odd", &format!("/{path}/{revision}"))).await.refused_any(&[404, 422]);
        }
        let log = ada.get(&ada.repo("odd", &format!("/commits?path={revision}"))).await;
        assert!(matches!(log.status.as_u16(), 200 | 404 | 422), "{revision}: {}", log.text());
        assert!(log.status != 200 || log.json() == json!([]), "{revision}: {}", log.text());
    }
    assert!(!std::path::Path::new("/tmp/ferrite-odd").exists());
}

async fn files_that_look_like_options_are_files(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("files", json!({"auto_init": true})).await;
    for name in ["-x", "--upload-pack=x", "--output=x", "-", "--", "$(id)", "a;b", "%3Amain", "@{1}", "*", "[a]"] {
        let body = json!({"message": format!("--{name}"), "content": "eA=="});
        let path = |route: &str| ada.repo("files", &format!("{route}/{name}"));
        let sha = ada.put(&path("/contents"), &body).await.expect(201).json()["commit"]["sha"].clone();
        assert_eq!(ada.get(&path("/contents")).await.expect(200).json()["content"], "eA==");
        assert_eq!(ada.get(&path("/raw/main")).await.expect(200).text(), "x");
        let log = ada.get(&ada.repo("files", &format!("/commits?path={name}"))).await.expect(200).json();
        assert_eq!((log.as_array().unwrap().len(), &log[0]["sha"]), (1, &sha), "{name}");
        // It may go on with another of these files, of which git takes it for a copy.
        let log = ada.get(&ada.repo("files", &format!("/commits?path={name}&follow=true"))).await.expect(200).json();
        assert_eq!(log[0]["sha"], sha, "{name}");
        assert_eq!(ada.get(&path("/blame")).await.expect(200).json()["ranges"][0]["commit"], sha, "{name}");
    }
    for format in ["zip", "tar.gz"] {
        ada.get(&ada.repo("files", &format!("/archive/main.{format}"))).await.expect(200);
    }
    let git = Git::new();
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "files"), "work"]).await;
    git.run("work", &["fsck", "--strict"]).await;
    let long = ada.repo("files", &format!("/contents/{}x", "d/".repeat(2500)));
    ada.put(&long, &json!({"message": "m", "content": "eA=="})).await.refused_fields(&[("path", "too_long")]);
    let wide = ada.repo("files", &format!("/contents/{}", "n".repeat(300)));
    let response = ada.put(&wide, &json!({"message": "m", "content": "eA=="})).await;
    assert!(matches!(response.status.as_u16(), 201 | 422), "{}", response.text());
}

async fn writes_to_odd_branches_are_refused_by_name(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("branches", json!({"auto_init": true})).await;
    let long = "n".repeat(2000);
    for branch in
        ["-x", "--upload-pack=x", "a..b", "x.lock", "a b", "a\u{7f}", "a\nb", "a~1", "HEAD", "refs/heads/x", "@", &long]
    {
        let file = ada.repo("branches", "/contents/x");
        let body = json!({"message": "m", "content": "eA==", "branch": branch});
        ada.put(&file, &body).await.refused_field("branch");
        Response::of(
            ada.request(Method::DELETE, &file).json(&json!({"message": "m", "branch": branch, "sha": "1".repeat(40)})),
        )
        .await
        .refused(422);
        let many = json!({"message": "m", "branch": branch, "files": [{"operation": "create", "path": "x", "content": "eA=="}]});
        ada.post(&ada.repo("branches", "/contents"), &many).await.refused(422);
    }
    let branches = ada.get(&ada.repo("branches", "/branches")).await.expect(200).json();
    assert_eq!(branches.as_array().unwrap().len(), 1, "{branches}");
}

async fn object(git: &Git, kind: &str, text: &str) -> String {
    std::fs::write(git.path().join("object"), text).unwrap();
    git.run("work", &["hash-object", "-w", "--literally", "-t", kind, "../object"]).await
}

async fn commits_from_the_end_of_time_are_read_everywhere(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("dates", json!({})).await;
    git.small("work").await;
    let url = ada.git_url(&ada.name, "dates");
    git.run("work", &["push", "-q", &url, "main"]).await;
    let tree = git.run("work", &["rev-parse", "HEAD^{tree}"]).await;
    let parent = git.run("work", &["rev-parse", "HEAD"]).await;
    let mut taken = 0;
    for (number, date) in [
        "253402300800 +0000",
        "8640000000000001 -1200",
        "9223372036854775807 +9999",
        "9223372036854775807 -9999",
        "0 -0000",
        "18446744073709551615 +0000",
        "31556952000000000000 +0000",
        "-1 +0000",
        "1e9 +0000",
    ]
    .into_iter()
    .enumerate()
    {
        let who = format!("\u{1b}[31m <> {date}");
        let text = format!("tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\nencoding x-odd\n\nbody\r\n");
        let commit = object(&git, "commit", &text).await;
        let tag =
            object(&git, "tag", &format!("object {commit}\ntype commit\ntag t{number}\ntagger {who}\n\nm\n")).await;
        let push = ["push", &url, &format!("{commit}:refs/heads/b{number}"), &format!("{tag}:refs/tags/t{number}")];
        let output = git.attempt("work", &push).await;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{date}: {stderr}");
        taken += 1;
        for revision in [format!("b{number}"), format!("t{number}"), commit.clone()] {
            for (path, response) in by_every_route(&ada, "dates", &revision).await {
                let is_branch = revision == format!("b{number}") || !path.starts_with("/branches/");
                response.expect(if is_branch { 200 } else { 404 });
            }
        }
        let seen = ada.get(&ada.repo("dates", &format!("/commits/{commit}"))).await.expect(200).json();
        let written = seen["commit"]["author"]["date"].as_str().unwrap();
        assert!(chrono::DateTime::parse_from_rfc3339(written).is_ok(), "{written}");
        ada.get(&ada.repo("dates", &format!("/git/tags/{tag}"))).await.expect(200);
        ada.get(&ada.repo("dates", "/tags")).await.expect(200);
        ada.get(&ada.repo("dates", "/branches")).await.expect(200);
        ada.get(&ada.repo("dates", "/git/refs")).await.expect(200);
        let body = json!({"message": "m", "content": "eA==", "branch": format!("b{number}")});
        ada.put(&ada.repo("dates", "/contents/after"), &body).await.expect(201);
    }
    git.run("", &["clone", "-q", "--mirror", &url, "copy"]).await;
    assert_eq!(git.refs("copy").await.lines().count(), 1 + 2 * taken);
}

async fn links_and_submodules_are_never_followed(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("links", json!({})).await;
    git.small("work").await;
    let outside = git.path().join("work");
    std::os::unix::fs::symlink("/etc", outside.join("etc")).unwrap();
    std::os::unix::fs::symlink("../../../../etc/passwd", outside.join("passwd")).unwrap();
    std::os::unix::fs::symlink(".git", outside.join("inside")).unwrap();
    git.run("work", &["update-index", "--add", "--cacheinfo", &format!("160000,{},sub", "1".repeat(40))]).await;
    git.run("work", &["add", "etc", "passwd", "inside"]).await;
    git.run("work", &["commit", "-q", "-m", "links"]).await;
    let url = ada.git_url(&ada.name, "links");
    git.run("work", &["push", "-q", &url, "main"]).await;
    for path in ["etc/passwd", "inside/config", "sub/x", "passwd/x"] {
        ada.get(&ada.repo("links", &format!("/contents/{path}"))).await.refused(404);
        ada.get(&ada.repo("links", &format!("/raw/main/{path}"))).await.refused(404);
        let body = json!({"message": "m", "content": "eA=="});
        ada.put(&ada.repo("links", &format!("/contents/{path}")), &body).await.refused_fields(&[("path", "invalid")]);
        let create = json!({"operation": "create", "path": path, "content": "eA=="});
        let many = json!({"message": "m", "files": [create]});
        ada.post(&ada.repo("links", "/contents"), &many).await.refused(422);
    }
    for (path, target) in [("etc", "/etc"), ("passwd", "../../../../etc/passwd"), ("inside", ".git")] {
        let seen: Value = ada.get(&ada.repo("links", &format!("/contents/{path}"))).await.expect(200).json();
        assert_eq!((&seen["type"], &seen["target"]), (&json!("symlink"), &json!(target)));
        assert_eq!(ada.get(&ada.repo("links", &format!("/raw/main/{path}"))).await.expect(200).text(), target);
    }
    // `.gitmodules` with a path outside the tree is rejected.
    let modules = "[submodule \"x\"]\n\tpath = ../x\n\turl = -u./x\n";
    let content = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, modules);
    let body = json!({"message": "m", "content": content});
    ada.put(&ada.repo("links", "/contents/.gitmodules"), &body).await.refused_field("content");
    for format in ["zip", "tar.gz"] {
        ada.get(&ada.repo("links", &format!("/archive/main.{format}"))).await.expect(200);
    }
    let tip = git.run("work", &["ls-remote", &url, "main"]).await;
    assert!(tip.starts_with(&git.run("work", &["rev-parse", "HEAD"]).await), "{tip}");
}
