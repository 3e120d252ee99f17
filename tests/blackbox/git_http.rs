//! The real git program: push, clone, fetch.

use std::process::Stdio;

use reqwest::Method;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::harness::{Cluster, Git, Response};

on_profiles! {
    both {
        a_large_mirror_comes_back_identical
        simultaneous_pushes_all_land
        clients_that_disconnect_do_not_affect_others
    }
    embedded {
        compressed_requests_are_read
        the_first_pushed_branch_becomes_the_default
        a_broken_pack_changes_nothing
    }
}

async fn a_large_mirror_comes_back_identical(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    git.large("origin.git", 1200).await;
    git.run("", &["clone", "-q", "--mirror", "origin.git", "mirror.git"]).await;
    ada.new_repository("large", json!({"private": true})).await;
    let url = ada.git_url(&ada.name, "large");
    git.run("mirror.git", &["push", "-q", "--mirror", &url]).await;
    git.run("", &["clone", "-q", "--mirror", &url, "back.git"]).await;
    let refs = git.refs("mirror.git").await;
    assert_eq!(git.refs("back.git").await, refs);
    assert!(refs.lines().count() > 25, "{refs}");
    git.run("back.git", &["fsck", "--strict"]).await;
    assert!(git.run("back.git", &["rev-list", "--count", "--all"]).await.parse::<u32>().unwrap() >= 1000);

    let repository = ada.eventually(&ada.repo("large", ""), |repository| repository["empty"] == false).await;
    assert_eq!(repository["default_branch"], "main");
    assert!(repository["size"].as_i64().unwrap() > 50_000, "{repository}");
    let branches = ada.get(&ada.repo("large", "/branches")).await.expect(200).json();
    let listed: Vec<_> = branches.as_array().unwrap().iter().map(|branch| branch["name"].as_str().unwrap()).collect();
    assert_eq!(listed, ["feature/one", "fix/other", "main"]);
    for branch in branches.as_array().unwrap() {
        let tip = git.run("mirror.git", &["rev-parse", branch["name"].as_str().unwrap()]).await;
        assert_eq!(branch["commit"]["id"], tip.as_str());
    }
    let commit = git.run("mirror.git", &["rev-parse", "v500^{commit}"]).await;
    let seen = ada.get(&ada.repo("large", "/commits/v500")).await.expect(200).json();
    assert_eq!((&seen["sha"], &seen["commit"]["author"]["name"]), (&json!(commit), &json!("Ada Ex\u{e4}mple")));
    let text = git.run("mirror.git", &["show", "main:dir-3/file-3.txt"]).await;
    assert_eq!(ada.get(&ada.repo("large", "/raw/main/dir-3/file-3.txt")).await.expect(200).text().trim_end(), text);
    let root = ada.get(&ada.repo("large", "/contents?ref=v500")).await.expect(200).json();
    assert_eq!(root.as_array().unwrap().len(), 10, "{root}");

    git.run("", &["clone", "-q", &url, "work"]).await;
    let body = json!({"message": "By API", "content": "aGVsbG8K"});
    let put = ada.put(&ada.repo("large", "/contents/dir-3/new.txt"), &body).await.expect(201).json();
    git.run("work", &["pull", "-q", "--ff-only"]).await;
    assert_eq!(git.run("work", &["rev-parse", "HEAD"]).await, put["commit"]["sha"].as_str().unwrap());
    assert_eq!(std::fs::read_to_string(git.path().join("work/dir-3/new.txt")).unwrap(), "hello\n");
    git.run("work", &["fsck", "--strict"]).await;
}

fn line(text: &str) -> String {
    format!("{:04x}{text}", text.len() + 4)
}

async fn compressed_requests_are_read(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("zip", json!({"auto_init": true})).await;
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "zip"), "work"]).await;
    let tip = git.run("work", &["rev-parse", "HEAD"]).await;
    let wants = [line(&format!("want {tip} ofs-delta\n")), "0000".to_owned(), line("done\n")].concat();
    let mut gzip =
        tokio::process::Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    gzip.stdin.take().unwrap().write_all(wants.as_bytes()).await.unwrap();
    let packed = gzip.wait_with_output().await.unwrap().stdout;
    let path = format!("/{}/zip.git/git-upload-pack", ada.name);
    let post = |body: Vec<u8>| {
        let request = ada.raw(Method::POST, &path).header("content-encoding", "gzip").body(body);
        Response::of(request.header("content-type", "application/x-git-upload-pack-request"))
    };
    let response = post(packed.clone()).await.expect(200);
    assert_eq!(response.header("content-type"), "application/x-git-upload-pack-result");
    assert!(response.body.windows(4).any(|window| window == b"PACK"), "{:?}", response.text());
    let broken = post(packed[..packed.len() / 2].to_vec()).await;
    assert!(!broken.body.windows(4).any(|window| window == b"PACK"));
    // git compresses requests above 1,024 bytes, such as a fetch with many `have` lines.
    git.large("other.git", 300).await;
    git.run("other.git", &["push", "-q", &ada.git_url(&ada.name, "zip"), "main:refs/heads/long"]).await;
    git.run("other.git", &["update-ref", "refs/heads/mine", "main~3"]).await;
    git.run("other.git", &["fetch", "-q", &ada.git_url(&ada.name, "zip"), "main:refs/heads/theirs"]).await;
}

async fn the_first_pushed_branch_becomes_the_default(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("trunk", json!({})).await;
    git.small("work").await;
    let url = ada.git_url(&ada.name, "trunk");
    git.run("work", &["push", "-q", &url, "main:refs/heads/trunk"]).await;
    let repository = ada.eventually(&ada.repo("trunk", ""), |repository| repository["empty"] == false).await;
    assert_eq!(repository["default_branch"], "trunk");
    git.run("", &["clone", "-q", &url, "back"]).await;
    assert_eq!(git.run("back", &["rev-parse", "--abbrev-ref", "HEAD"]).await, "trunk");
    git.run("work", &["push", "-q", &url, "main"]).await;
    assert_eq!(ada.get(&ada.repo("trunk", "")).await.expect(200).json()["default_branch"], "trunk");
    assert!(ada.get(&ada.repo("trunk", "/contents/README.md")).await.expect(200).json()["size"].as_i64().unwrap() > 0);
}

async fn simultaneous_pushes_all_land(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("busy", json!({"auto_init": true})).await;
    let mut pushes = tokio::task::JoinSet::new();
    for number in 0..8 {
        let ada = ada.clone();
        pushes.spawn(async move {
            let git = Git::new();
            git.run("", &["clone", "-q", &ada.git_url(&ada.name, "busy"), "work"]).await;
            let tip = git.commit("work", "file", &format!("{number}")).await;
            git.run("work", &["push", "-q", "origin", &format!("HEAD:refs/heads/b{number}")]).await;
            (format!("refs/heads/b{number}"), tip)
        });
    }
    let done = pushes.join_all().await;
    let git = Git::new();
    git.run("", &["clone", "-q", "--mirror", &ada.git_url(&ada.name, "busy"), "back.git"]).await;
    git.run("back.git", &["fsck", "--strict"]).await;
    let refs = git.refs("back.git").await;
    for (name, tip) in done {
        assert!(refs.contains(&format!("{name} {tip}")), "{name}: {refs}");
    }
}

async fn a_broken_pack_changes_nothing(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("solid", json!({"auto_init": true})).await;
    let url = ada.git_url(&ada.name, "solid");
    let before = git.run("", &["ls-remote", &url]).await;
    let command = format!("{} {} refs/heads/bad\0 report-status\n", "0".repeat(40), "1".repeat(40));
    let path = format!("/{}/solid.git/git-receive-pack", ada.name);
    for pack in [&b"PACK\0\0\0\x02\0\0\0\x01nonsense"[..], b"", b"\0\0\0\0"] {
        let body = [line(&command).as_bytes(), b"0000", pack].concat();
        let request = ada.raw(Method::POST, &path).basic_auth(&ada.name, ada.token.as_ref()).body(body);
        let response = Response::of(request.header("content-type", "application/x-git-receive-pack-request")).await;
        assert!(!response.text().contains("ok refs/heads/bad"), "{}", response.text());
    }
    assert_eq!(git.run("", &["ls-remote", &url]).await, before);
    assert_eq!(ada.get(&ada.repo("solid", "/branches")).await.expect(200).json().as_array().unwrap().len(), 1);
}

async fn clients_that_disconnect_do_not_affect_others(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("left", json!({"auto_init": true})).await;
    let host = cluster.url.trim_start_matches("http://");
    let credential = base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        format!("{}:{}", ada.name, ada.token.as_ref().unwrap()),
    );
    for service in ["upload-pack", "receive-pack"] {
        for _ in 0..12 {
            let head = format!(
                "POST /{}/left.git/git-{service} HTTP/1.1\r\nhost: {host}\r\nauthorization: Basic {credential}\r\n\
                 content-type: application/x-git-{service}-request\r\ncontent-length: 100000\r\n\r\n0032want",
                ada.name,
            );
            let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
        }
    }
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "left"), "work"]).await;
    git.commit("work", "x", "x").await;
    git.run("work", &["push", "-q", "origin", "main"]).await;
}
