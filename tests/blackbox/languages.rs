//! The languages of repositories.

use std::collections::BTreeMap;

use reqwest::header::IF_NONE_MATCH;
use serde_json::json;

use crate::harness::{Cluster, Git, Response};

on_profiles! {
    both {
        languages_follow_the_default_branch
    }
}

async fn languages_follow_the_default_branch(cluster: &Cluster) {
    let (ada, eve, git) = (cluster.user("ada").await, cluster.outsider().await, Git::new());
    ada.new_repository("counted", json!({"private": true})).await;
    let path = ada.repo("counted", "/languages");
    assert_eq!(ada.get(&path).await.expect(200).json(), json!({}));
    eve.get(&path).await.refused(404);
    assert_eq!(ada.get(&ada.repo("counted", "")).await.expect(200).json()["language"], "");

    git.run("", &["init", "-q", "-b", "main", "work"]).await;
    let files = [
        ("src/main.rs", 2000),
        ("web/app.ts", 300),
        ("web/app.min.js", 9000),
        ("vendor/lib.c", 9000),
        ("README.md", 9000),
        ("data.json", 9000),
    ];
    for (file, size) in files {
        let file = git.path().join("work").join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, vec![b'x'; size]).unwrap();
    }
    git.run("work", &["add", "-A"]).await;
    git.run("work", &["commit", "-q", "-m", "Files"]).await;
    let url = ada.git_url(&ada.name, "counted");
    git.run("work", &["push", "-q", &url, "main"]).await;
    // Right after the push, both may be those of before.
    ada.eventually(&path, |shown| *shown == json!({"Rust": 2000, "TypeScript": 300})).await;
    ada.eventually(&ada.repo("counted", ""), |shown| shown["language"] == "Rust").await;
    let listed = ada.get(&format!("/users/{}/repos", ada.name)).await.expect(200).json();
    let by_name: BTreeMap<_, _> =
        listed.as_array().unwrap().iter().map(|repo| (repo["name"].as_str().unwrap(), &repo["language"])).collect();
    assert_eq!(by_name["counted"], "Rust");

    let tag = ada.get(&path).await.expect(200).header("etag");
    let unchanged = ada.request(reqwest::Method::GET, &path).header(IF_NONE_MATCH, &tag);
    assert_eq!(Response::of(unchanged).await.status, 304);
    git.run("work", &["rm", "-q", "-r", "src"]).await;
    git.run("work", &["commit", "-q", "-m", "Less"]).await;
    git.run("work", &["push", "-q", &url, "main"]).await;
    ada.eventually(&path, |shown| *shown == json!({"TypeScript": 300})).await;
    ada.eventually(&ada.repo("counted", ""), |shown| shown["language"] == "TypeScript").await;
}
