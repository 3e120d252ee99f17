//! Lists of commits and tags, compared with git's output.

use serde_json::json;

use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    embedded {
        a_page_of_commits_is_a_page_of_gits_log
        pages_of_commits_lead_from_the_first_to_the_last
        tags_show_their_commits
        a_repository_without_commits_has_no_history
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
    ada.get(&ada.repo("empty", "/git/trees/main")).await.refused(404);
    ada.get(&ada.repo("empty", "/archive/main.zip")).await.refused(404);
}
