//! The exact shape of branches, commits and contents.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::shaped;
use crate::harness::{Cluster, Git, User};

on_profiles! {
    embedded {
        branches_and_commits_have_every_field
        every_kind_of_content_has_its_own_fields
        a_written_file_is_shown_as_it_is_read
        dates_that_cannot_be_written_become_the_nearest
    }
}

/// Creates a repository of `ada` with a merge. Its author has no account; its committer is `ada`,
/// with her address in capitals.
async fn merged(ada: &User) -> Git {
    let git = Git::new();
    ada.new_repository("Shape", json!({})).await;
    git.small("work").await;
    git.run("work", &["checkout", "-q", "-b", "side/way"]).await;
    git.commit("work", "side", "side").await;
    git.run("work", &["checkout", "-q", "main"]).await;
    git.commit("work", "more", "more").await;
    let mut merge = git.command("work", &["merge", "-q", "--no-ff", "-m", "Merge <it>\n\nAll of it.", "side/way"]);
    merge.env("GIT_COMMITTER_EMAIL", ada.email.to_uppercase()).env("GIT_COMMITTER_DATE", "2026-01-02T06:34:05+05:30");
    merge.env("GIT_AUTHOR_DATE", "2026-01-03T01:04:05-01:00");
    assert!(merge.status().await.unwrap().success());
    git.run("work", &["tag", "-a", "-m", "one", "v1"]).await;
    git.run("work", &["tag", "-a", "-m", "of a tag", "v1-again", "v1"]).await;
    let url = ada.git_url(&ada.name, "shape");
    git.run("work", &["push", "-q", &url, "main", "side/way", "v1", "v1-again"]).await;
    git
}

async fn branches_and_commits_have_every_field(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let git = merged(&ada).await;
    let id = async |name: &str| git.run("work", &["rev-parse", name]).await;
    let (head, tree) = (id("main").await, id("main^{tree}").await);
    let (first, second) = (id("main^1").await, id("main^2").await);
    let (site, api) =
        (format!("{}/{}/Shape", cluster.url, ada.name), format!("{}/api/v1/repos/{}/Shape", cluster.url, ada.name));
    let account = ada.profile().await;
    let (author, committer) = (("Tester", "tester@example.com"), ("Tester", ada.email.to_uppercase()));
    let message = "Merge <it>\n\nAll of it.\n";
    let commit = json!({
        "url": format!("{api}/commits/{head}"),
        "sha": head,
        "created": "2026-01-02T01:04:05Z",
        "html_url": format!("{site}/commits/{head}"),
        "commit": {
            "url": format!("{api}/commits/{head}"),
            "message": message,
            "author": {"name": author.0, "email": author.1, "date": "2026-01-03T02:04:05Z"},
            "committer": {"name": committer.0, "email": committer.1, "date": "2026-01-02T01:04:05Z"},
            "tree": {"url": format!("{api}/git/trees/{tree}"), "sha": tree},
        },
        "author": null,
        "committer": account,
        "parents": [
            {"url": format!("{api}/commits/{first}"), "sha": first},
            {"url": format!("{api}/commits/{second}"), "sha": second},
        ],
    });
    for name in ["main", "v1", "v1-again", "main/", &head[..7], &head.to_uppercase(), &head] {
        assert_eq!(ada.get(&ada.repo("shape", &format!("/commits/{name}"))).await.expect(200).json(), commit, "{name}");
    }
    let branch = json!({
        "name": "main",
        "commit": {
            "id": head, "sha": head, "message": message, "url": format!("{site}/commit/{head}"),
            "timestamp": "2026-01-03T02:04:05Z", "created": "2026-01-02T01:04:05Z",
            "author": {"name": author.0, "email": author.1, "username": ""},
            "committer": {"name": committer.0, "email": committer.1, "username": ada.name},
            "added": [], "removed": [], "modified": [],
        },
        "protected": false,
    });
    assert_eq!(ada.get(&ada.repo("shape", "/branches/main/")).await.expect(200).json(), branch);
    assert_eq!(ada.get(&ada.repo("shape", "/branches")).await.expect(200).json()[0], branch);
}

async fn every_kind_of_content_has_its_own_fields(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("kinds", json!({})).await;
    let git = Git::new();
    let work = git.small("work").await;
    std::fs::create_dir(work.join("a dir")).unwrap();
    std::fs::write(work.join("a dir/\u{fc}#?.txt"), "text\n").unwrap();
    std::os::unix::fs::symlink("a dir", work.join("link")).unwrap();
    git.run("work", &["add", "-A"]).await;
    git.run("work", &["update-index", "--add", "--cacheinfo", &format!("160000,{},sub", "1".repeat(40))]).await;
    git.run("work", &["commit", "-q", "-m", "Kinds"]).await;
    git.run("work", &["branch", "feature/one"]).await;
    git.run("work", &["push", "-q", "--all", &ada.git_url(&ada.name, "kinds")]).await;
    let common = [
        ("type", "str"),
        ("size", "int"),
        ("name", "str"),
        ("path", "str"),
        ("sha", "sha"),
        ("url", "url"),
        ("git_url", "str"),
        ("html_url", "url"),
        ("download_url", "str"),
        ("_links", "map"),
    ];
    let list = ada.get(&ada.repo("kinds", "/contents?ref=feature%2Fone")).await.expect(200).json();
    let found: Vec<_> = list.as_array().unwrap().iter().map(|entry| entry["type"].as_str().unwrap()).collect();
    assert_eq!(found, ["file", "dir", "symlink", "submodule"]);
    for (entry, own) in list.as_array().unwrap().iter().zip([
        &[("encoding", "str"), ("content", "str")][..],
        &[("content", "null")],
        &[("content", "null"), ("target", "str")],
        &[("content", "null"), ("submodule_git_url", "str")],
    ]) {
        shaped(entry, &[&common[..], own].concat());
        shaped(&entry["_links"], &[("git", "str"), ("self", "url"), ("html", "url")]);
        assert_eq!(
            [&entry["_links"]["git"], &entry["_links"]["self"], &entry["_links"]["html"]],
            [&entry["git_url"], &entry["url"], &entry["html_url"]]
        );
    }
    let path = ada.repo("kinds", "/contents/a%20dir/%C3%BC%23%3F.txt?ref=feature/one");
    let file = ada.get(&path).await.expect(200).json();
    let site = format!("{}/{}/kinds", cluster.url, ada.name);
    let api = format!("{}/api/v1{}", cluster.url, ada.repo("kinds", ""));
    for (field, value) in [
        ("name", "\u{fc}#?.txt".to_owned()),
        ("path", "a dir/\u{fc}#?.txt".to_owned()),
        ("content", "dGV4dAo=".to_owned()),
        ("url", format!("{}/api/v1{}", cluster.url, path.replace("feature/one", "feature%2Fone"))),
        ("html_url", format!("{site}/src/feature/one/a%20dir/%C3%BC%23%3F.txt")),
        ("download_url", format!("{api}/raw/feature/one/a%20dir/%C3%BC%23%3F.txt")),
    ] {
        assert_eq!(file[field], value, "{field}");
    }
}

async fn a_written_file_is_shown_as_it_is_read(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("written", json!({"auto_init": true})).await;
    let path = ada.repo("written", "/contents/run.sh");
    let git = Git::new();
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "written"), "work"]).await;
    std::fs::write(git.path().join("work/run.sh"), "old").unwrap();
    git.run("work", &["add", "-A"]).await;
    git.run("work", &["update-index", "--chmod=+x", "run.sh"]).await;
    git.run("work", &["commit", "-q", "-m", "A program"]).await;
    git.run("work", &["push", "-q", "origin", "main"]).await;
    let body = json!({"message": "Newer", "content": STANDARD.encode("new"), "branch": "brand/new"});
    let written = ada.put(&path, &body).await.expect(200).json();
    shaped(&written, &[("content", "map"), ("commit", "map"), ("verification", "map")]);
    assert_eq!(written["content"], ada.get(&format!("{path}?ref=brand/new")).await.expect(200).json());
    let sha = written["commit"]["sha"].as_str().unwrap();
    let read = ada.get(&ada.repo("written", &format!("/commits/{sha}"))).await.expect(200).json();
    let people = ["author", "committer"];
    for (field, value) in read.as_object().unwrap().iter().filter(|(field, _)| !people.contains(&field.as_str())) {
        assert_eq!(written["commit"][field], *value, "{field}");
    }
    assert_eq!(written["commit"]["message"], read["commit"]["message"]);
    assert_eq!(written["commit"]["tree"], read["commit"]["tree"]);
    let author = &written["commit"]["commit"]["author"];
    assert_eq!((&author["name"], &author["email"]), (&json!("The ada"), &json!(ada.email)));
    let mut person = ada.profile().await;
    (person["name"], person["date"]) = (author["name"].clone(), author["date"].clone());
    assert_eq!(written["commit"]["author"], person);
    assert_eq!(written["commit"]["committer"], written["commit"]["author"]);
    let parent = git.run("work", &["rev-parse", "main"]).await;
    assert_eq!(written["commit"]["parents"][0]["sha"], parent, "a new branch starts at the default one");
    git.run("work", &["fetch", "-q", "origin", "brand/new"]).await;
    let listed = git.run("work", &["ls-tree", "FETCH_HEAD", "run.sh"]).await;
    assert!(listed.starts_with("100755 "), "the mode was lost: {listed}");
}

async fn dates_that_cannot_be_written_become_the_nearest(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("future", json!({})).await;
    let git = Git::new();
    git.small("work").await;
    let tree = git.run("work", &["rev-parse", "main^{tree}"]).await;
    for (branch, seconds) in [("late", "253402300800"), ("latest", "9223372036854775807")] {
        let signature = format!("A <a@example.com> {seconds} +0000");
        let text = format!("tree {tree}\nauthor {signature}\ncommitter {signature}\n\nFar away\n");
        std::fs::write(git.path().join("commit"), text).unwrap();
        let id = git.run("work", &["hash-object", "-t", "commit", "-w", "--literally", "../commit"]).await;
        git.run("work", &["push", "-q", &ada.git_url(&ada.name, "future"), &format!("{id}:refs/heads/{branch}")]).await;
        let commit = ada.get(&ada.repo("future", &format!("/commits/{branch}"))).await.expect(200).json();
        assert_eq!(commit["commit"]["author"]["date"], "9999-12-31T23:59:59Z");
    }
    let branches = ada.get(&ada.repo("future", "/branches")).await.expect(200).json();
    assert_eq!(branches[1]["commit"]["timestamp"], "9999-12-31T23:59:59Z");
}
