//! Lists of commits and tags, last commits of files and lines, compared with git's output.

use serde_json::json;

use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    embedded {
        a_page_of_commits_is_a_page_of_gits_log
        pages_of_commits_lead_from_the_first_to_the_last
        tags_show_their_commits
        a_repository_without_commits_has_no_history
        entries_and_lines_have_the_last_commit_that_git_finds
        a_file_is_followed_to_its_former_names
    }
}

async fn pushed(cluster: &Cluster, name: &str, commits: u32) -> (User, Git) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository(name, json!({})).await;
    git.large("origin.git", commits).await;
    git.run("origin.git", &["push", "-q", "--mirror", &ada.git_url(&ada.name, name)]).await;
    (ada, git)
}

async fn a_page_of_commits_is_a_page_of_gits_log(cluster: &Cluster) {
    let (ada, git) = pushed(cluster, "log", 300).await;
    let merge = git.run("origin.git", &["rev-list", "-1", "--merges", "main"]).await;
    for (query, arguments) in [
        ("", vec!["-30", "main"]),
        ("?limit=100&page=2", vec!["-100", "--skip=100", "main"]),
        ("?pageSize=7", vec!["-7", "main"]),
        ("?sha=feature/one", vec!["-30", "feature/one"]),
        ("?sha=v200&limit=5", vec!["-5", "v200"]),
        (&format!("?sha={merge}&limit=50"), vec!["-50", &merge]),
        ("?path=dir-3&limit=100", vec!["-100", "main", "--", "dir-3"]),
        ("?path=/dir-3/file-3.txt/&limit=100", vec!["-100", "main", "--", "dir-3/file-3.txt"]),
        ("?path=run.sh", vec!["-30", "main", "--", "run.sh"]),
        ("?path=not/there", vec!["-30", "main", "--", "not/there"]),
        ("?page=1000", vec!["-30", "--skip=29970", "main"]),
    ] {
        let log = git.run("origin.git", &[&["log", "--format=%H"][..], &arguments].concat()).await;
        let seen = ada.get(&ada.repo("log", &format!("/commits{query}"))).await.expect(200);
        assert_eq!(seen.each("sha").join("\n"), log, "{query}");
    }
    let seen = ada.get(&ada.repo("log", "/commits?limit=1&stat=false&files=false")).await.expect(200).json();
    let one = ada.get(&ada.repo("log", "/commits/main")).await.expect(200).json();
    assert_eq!(seen[0], one);
    for wrong in ["none", "-n", "--all", "%ff"] {
        ada.get(&ada.repo("log", &format!("/commits?sha={wrong}"))).await.refused(404);
    }
    // Paths are cleaned before use, like those of `contents`.
    for path in ["../none", "%ff", "-n", "--all"] {
        let seen = ada.get(&ada.repo("log", &format!("/commits?path={path}"))).await.expect(200);
        assert_eq!(seen.json(), json!([]), "{path}");
    }
}

/// The page that a `Link` header names.
fn page(response: &Response, relation: &str) -> Option<String> {
    let link = response.header("link");
    let entry = link.split(',').find(|entry| entry.ends_with(&format!("; rel=\"{relation}\"")))?;
    let url = entry.split_once("/api/v1")?.1.split_once('>')?.0;
    Some(url.to_owned())
}

async fn pages_of_commits_lead_from_the_first_to_the_last(cluster: &Cluster) {
    let (ada, git) = pushed(cluster, "pages", 130).await;
    for (query, arguments) in [("?limit=20", vec!["main"]), ("?path=dir-1&limit=3", vec!["main", "--", "dir-1"])] {
        let log = git.run("origin.git", &[&["log", "--format=%H"][..], &arguments].concat()).await;
        let mut path = ada.repo("pages", &format!("/commits{query}"));
        let (mut seen, mut last) = (Vec::new(), None);
        for number in 1.. {
            let response = ada.get(&path).await.expect(200);
            seen.extend(response.each("sha"));
            assert_eq!(page(&response, "first").is_some(), number > 1);
            assert_eq!(page(&response, "prev"), last);
            last = Some(format!("{}{query}&page={number}", ada.repo("pages", "/commits")));
            let Some(next) = page(&response, "next") else {
                assert_eq!(
                    response.header("x-total-count"),
                    log.lines().count().to_string(),
                    "the total is known at the end"
                );
                break;
            };
            path = next;
        }
        assert_eq!(seen.join("\n"), log, "{query}");
    }
}

async fn tags_show_their_commits(cluster: &Cluster) {
    let (ada, git) = pushed(cluster, "tags", 220).await;
    let tree = git.run("origin.git", &["rev-parse", "main^{tree}"]).await;
    git.run("origin.git", &["tag", "of-a-tree", &tree]).await;
    git.run("origin.git", &["push", "-q", "--tags", &ada.git_url(&ada.name, "tags")]).await;
    let tags = ada.get(&ada.repo("tags", "/tags")).await.expect(200);
    assert_eq!(tags.each("name"), ["light-100", "light-200", "v100", "v200"]);
    assert_eq!(tags.header("x-total-count"), "4");
    for tag in tags.json().as_array().unwrap() {
        let name = tag["name"].as_str().unwrap();
        let commit = git.run("origin.git", &["rev-parse", &format!("{name}^{{commit}}")]).await;
        assert_eq!(tag["commit"]["id"], commit, "{name}");
        assert_eq!(tag["commit"]["sha"], commit, "{name}");
        assert!(tag["commit"]["message"].as_str().unwrap().starts_with("Commit "), "{tag}");
    }
    let second = ada.get(&ada.repo("tags", "/tags?limit=3&page=2")).await.expect(200);
    assert_eq!(second.each("name"), ["v200"]);
    assert!(second.header("link").contains("rel=\"prev\""));
}

async fn a_repository_without_commits_has_no_history(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("empty", json!({})).await;
    for list in ["/commits", "/tags", "/git/refs"] {
        assert_eq!(ada.get(&ada.repo("empty", list)).await.expect(200).json(), json!([]), "{list}");
    }
    let root = ada.get(&ada.repo("empty", "/tree-commits")).await.expect(200).json();
    assert_eq!((&root["commit"], &root["entries"], &root["is_complete"]), (&json!(null), &json!([]), &json!(true)));
    for path in ["/git/trees/main", "/tree-commits/src", "/blame/README.md"] {
        ada.get(&ada.repo("empty", path)).await.refused(404);
    }
    ada.get(&ada.repo("empty", "/archive/main.zip")).await.refused(404);
}

async fn entries_and_lines_have_the_last_commit_that_git_finds(cluster: &Cluster) {
    let (ada, git) = pushed(cluster, "last", 150).await;
    let tip = git.run("origin.git", &["rev-parse", "main"]).await;
    for (query, folder) in [("?ref=main", ""), ("", "/dir-3"), ("?ref=v100", "/dir-1/")] {
        let revision = if query.contains("v100") { "v100" } else { "main" };
        let found = ada.get(&ada.repo("last", &format!("/tree-commits{folder}{query}"))).await.expect(200).json();
        assert_eq!((&found["is_complete"], &found["truncated"]), (&json!(true), &json!(false)), "{folder}");
        for entry in found["entries"].as_array().unwrap() {
            let path = format!("{folder}/{}", entry["name"].as_str().unwrap()).replace("//", "/");
            let path = path.trim_start_matches('/');
            let wanted = git.run("origin.git", &["log", "-1", "--format=%H %s", revision, "--", path]).await;
            let (id, subject) = wanted.split_once(' ').unwrap();
            assert_eq!(
                (&entry["last_commit"], &found["commits"][id]["subject"]),
                (&json!(id), &json!(subject)),
                "{path}"
            );
        }
    }
    let path = ada.repo("last", "/blame/dir-3/file-3.txt");
    let blame = ada.get(&path).await.expect(200).json();
    assert_eq!((&blame["commit"], &blame["path"]), (&json!(tip), &json!("dir-3/file-3.txt")));
    let wanted = git.run("origin.git", &["blame", "-l", "--root", "main", "--", "dir-3/file-3.txt"]).await;
    let mut lines = Vec::new();
    for range in blame["ranges"].as_array().unwrap() {
        assert_eq!(range["start"], json!(lines.len() + 1));
        assert!(blame["commits"][range["commit"].as_str().unwrap()].is_object());
        lines.extend((0..range["count"].as_u64().unwrap()).map(|_| range["commit"].as_str().unwrap().to_owned()));
    }
    let wanted: Vec<_> = wanted.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!((&lines, &blame["lines"]), (&wanted, &json!(wanted.len())));
    ada.get(&ada.repo("last", "/blame/dir-3")).await.refused_field("file");
    for path in ["/blame/none", "/blame/run.sh?ref=none", "/tree-commits/run.sh", "/tree-commits?ref=--all"] {
        ada.get(&ada.repo("last", path)).await.refused(404);
    }
    for path in ["/tree-commits", "/blame/run.sh"] {
        cluster.anonymous().get(&ada.repo("last", path)).await.expect(200);
    }
}

async fn a_file_is_followed_to_its_former_names(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("moved", json!({})).await;
    git.run("", &["init", "-q", "-b", "main", "work"]).await;
    for content in ["one\ntwo\nthree\n", "one\ntwo\n3\n"] {
        git.commit("work", "old.txt", content).await;
    }
    git.run("work", &["mv", "--", "old.txt", "-new.txt"]).await;
    git.run("work", &["commit", "-q", "-m", "Move"]).await;
    git.commit("work", "other.txt", "x\n").await;
    git.commit("work", "-new.txt", "1\ntwo\n3\n").await;
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, "moved"), "main"]).await;
    let log = git.run("work", &["log", "--follow", "--format=%H", "--", "-new.txt"]).await;
    assert_eq!(log.lines().count(), 4);
    let list = async |query: &str| {
        let found = ada.get(&ada.repo("moved", &format!("/commits?path=-new.txt&limit=3{query}"))).await.expect(200);
        (found.each("sha"), page(&found, "next").is_some())
    };
    let ids: Vec<_> = log.lines().map(str::to_owned).collect();
    assert_eq!(list("&follow=true").await, (ids[..3].to_vec(), true));
    assert_eq!(list("&follow=true&page=2").await, (ids[3..].to_vec(), false));
    assert_eq!(list("").await, (ids[..2].to_vec(), false));
}
