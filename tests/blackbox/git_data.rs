//! Trees, blobs, refs and annotated tags, compared with git's output.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::{Cluster, Git, User};

const FEATURE: &str = "refs/remotes/origin/feature/one:refs/heads/feature/one";

on_profiles! {
    embedded {
        trees_are_what_ls_tree_shows
        blobs_come_back_byte_by_byte
        refs_are_found_by_name_and_by_their_beginning
        annotated_tags_are_shown_as_they_are
    }
}

async fn pushed(cluster: &Cluster, name: &str) -> (User, Git) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository(name, json!({})).await;
    git.large("origin.git", 210).await;
    git.run("", &["clone", "-q", "origin.git", "work"]).await;
    let work = git.path().join("work");
    std::fs::create_dir_all(work.join("deep/er")).unwrap();
    std::fs::write(work.join("deep/er/umlaut-\u{fc} .txt"), "x").unwrap();
    let head = git.run("work", &["rev-parse", "HEAD"]).await;
    git.run("work", &["update-index", "--add", "--cacheinfo", &format!("160000,{head},deep/sub")]).await;
    git.run("work", &["add", "deep/er"]).await;
    git.run("work", &["commit", "-q", "-m", "Kinds"]).await;
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, name), "main", "--tags", FEATURE]).await;
    (ada, git)
}

/// Formats a tree like `git ls-tree -l`.
fn listed(tree: &Value) -> String {
    let entry = |entry: &Value| {
        let word = |name: &str| entry[name].as_str().unwrap().to_owned();
        let size = entry.get("size").map_or_else(|| "-".to_owned(), ToString::to_string);
        format!("{} {} {} {size}\t{}", word("mode"), word("type"), word("sha"), word("path"))
    };
    tree["tree"].as_array().unwrap().iter().map(entry).collect::<Vec<_>>().join("\n")
}

async fn trees_are_what_ls_tree_shows(cluster: &Cluster) {
    let (ada, git) = pushed(cluster, "trees").await;
    let deep = git.run("work", &["rev-parse", "HEAD:deep"]).await;
    for revision in ["main", "feature/one", "v100", "HEAD", &deep, &deep[..9]] {
        for (query, flags) in [("", vec!["-l"]), ("?recursive=1", vec!["-l", "-r", "-t"])] {
            let named = if revision == "feature/one" { "origin/feature/one" } else { revision };
            let printed =
                git.run("work", &[&["-c", "core.quotePath=false", "ls-tree"], &flags[..], &[named]].concat()).await;
            // git pads sizes with spaces.
            let line = |line: &str| {
                let (head, path) = line.split_once('\t').unwrap();
                format!("{}\t{path}", head.split_whitespace().collect::<Vec<_>>().join(" "))
            };
            let printed: Vec<_> = printed.lines().map(line).collect();
            let tree = ada.get(&ada.repo("trees", &format!("/git/trees/{revision}{query}"))).await.expect(200).json();
            assert_eq!(listed(&tree), printed.join("\n"), "{revision}{query}");
            assert_eq!(tree["sha"], git.run("work", &["rev-parse", &format!("{named}^{{tree}}")]).await);
            assert_eq!((&tree["truncated"], &tree["page"]), (&json!(false), &json!(1)));
            assert_eq!(tree["total_count"], tree["tree"].as_array().unwrap().len());
        }
    }
    let tree = ada.get(&ada.repo("trees", "/git/trees/main")).await.expect(200).json();
    for entry in tree["tree"].as_array().unwrap() {
        if let Some(url) = entry.get("url") {
            let path = url.as_str().unwrap().split_once("/api/v1").unwrap().1;
            assert_eq!(ada.get(path).await.expect(200).json()["sha"], entry["sha"], "{entry}");
        }
    }
    let total = tree["tree"].as_array().unwrap().len();
    let last =
        ada.get(&ada.repo("trees", &format!("/git/trees/main?per_page=1&page={total}"))).await.expect(200).json();
    assert_eq!((&last["tree"], &last["truncated"]), (&json!([tree["tree"][total - 1]]), &json!(false)));
    assert_eq!((&last["page"], &last["total_count"]), (&json!(total), &json!(total)));
    let first = ada.get(&ada.repo("trees", "/git/trees/main?per_page=1")).await.expect(200).json();
    assert_eq!((&first["tree"], &first["truncated"]), (&json!([tree["tree"][0]]), &json!(true)));
    let readme = git.run("work", &["rev-parse", "HEAD:run.sh"]).await;
    for wrong in ["none", "-r", "--help", &readme, &"0".repeat(40), "%ff", "a%00b"] {
        ada.get(&ada.repo("trees", &format!("/git/trees/{wrong}"))).await.refused(404);
    }
}

async fn blobs_come_back_byte_by_byte(cluster: &Cluster) {
    let (ada, git) = pushed(cluster, "blobs").await;
    let folder = git.path().join("work");
    std::fs::write(folder.join("all.bin"), (0..=255).collect::<Vec<u8>>()).unwrap();
    std::fs::write(folder.join("empty"), "").unwrap();
    git.run("work", &["add", "-A"]).await;
    git.run("work", &["commit", "-q", "-m", "Bytes"]).await;
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, "blobs"), "main"]).await;
    for file in ["all.bin", "empty", "run.sh"] {
        let sha = git.run("work", &["rev-parse", &format!("HEAD:{file}")]).await;
        for id in [&sha[..], &sha[..8]] {
            let blob = ada.get(&ada.repo("blobs", &format!("/git/blobs/{id}"))).await.expect(200).json();
            let bytes = std::fs::read(folder.join(file)).unwrap();
            assert_eq!(STANDARD.decode(blob["content"].as_str().unwrap()).unwrap(), bytes, "{file}");
            assert_eq!((&blob["sha"], &blob["size"]), (&json!(sha), &json!(bytes.len())));
            assert_eq!(blob["encoding"], "base64");
        }
    }
    let tree = git.run("work", &["rev-parse", "HEAD^{tree}"]).await;
    for wrong in [tree.as_str(), "main", "HEAD", "--all", &"0".repeat(40), "%ff"] {
        ada.get(&ada.repo("blobs", &format!("/git/blobs/{wrong}"))).await.refused(404);
    }
    std::fs::write(folder.join("large"), vec![b'x'; 9 << 20]).unwrap();
    git.run("work", &["add", "-A"]).await;
    git.run("work", &["commit", "-q", "-m", "Large"]).await;
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, "blobs"), "main"]).await;
    let sha = git.run("work", &["rev-parse", "HEAD:large"]).await;
    ada.get(&ada.repo("blobs", &format!("/git/blobs/{sha}"))).await.refused(422);
}

async fn refs_are_found_by_name_and_by_their_beginning(cluster: &Cluster) {
    let (ada, git) = pushed(cluster, "refs").await;
    git.run("", &["clone", "-q", "--mirror", &ada.git_url(&ada.name, "refs"), "back.git"]).await;
    let format = "--format=%(refname) %(objecttype) %(objectname)";
    let refs = async |path: &str| {
        let response = ada.get(&ada.repo("refs", &format!("/git/refs{path}"))).await.expect(200).json();
        let line = |found: &Value| {
            let word = |value: &Value| value.as_str().unwrap().to_owned();
            let object = &found["object"];
            format!("{} {} {}", word(&found["ref"]), word(&object["type"]), word(&object["sha"]))
        };
        response.as_array().unwrap().iter().map(line).collect::<Vec<_>>().join("\n")
    };
    let all = git.run("back.git", &["for-each-ref", format]).await;
    assert_eq!(refs("").await, all);
    let heads = git.run("back.git", &["for-each-ref", format, "refs/heads"]).await;
    assert_eq!((refs("/heads").await, refs("/heads/").await), (heads.clone(), heads));
    let v = git.run("back.git", &["for-each-ref", format, "refs/tags/v*"]).await;
    assert_eq!(refs("/tags/v").await, v);
    for name in ["heads/main", "heads/feature/one", "tags/v100", "tags/light-200"] {
        let one = git.run("back.git", &["for-each-ref", format, &format!("refs/{name}")]).await;
        assert_eq!(refs(&format!("/{name}")).await, one);
    }
    let main = ada.get(&ada.repo("refs", "/git/refs/heads/main")).await.expect(200).json();
    let path = main[0]["url"].as_str().unwrap().split_once("/api/v1").unwrap().1;
    assert_eq!(ada.get(path).await.expect(200).json(), main);
    let paged = ada.get(&ada.repo("refs", "/git/refs?limit=2&page=2")).await.expect(200);
    assert_eq!(paged.header("x-total-count"), all.lines().count().to_string());
    for wrong in ["heads/none", "refs/heads/main", "heads/-x", "%ff", "HEAD"] {
        ada.get(&ada.repo("refs", &format!("/git/refs/{wrong}"))).await.refused(404);
    }
}

async fn annotated_tags_are_shown_as_they_are(cluster: &Cluster) {
    let (ada, git) = pushed(cluster, "annotated").await;
    let reference = ada.get(&ada.repo("annotated", "/git/refs/tags/v100")).await.expect(200).json()[0].take();
    assert_eq!(reference["object"]["type"], "tag");
    let path = reference["object"]["url"].as_str().unwrap().split_once("/api/v1").unwrap().1.to_owned();
    let tag = ada.get(&path).await.expect(200).json();
    assert_eq!((&tag["tag"], &tag["sha"]), (&json!("v100"), &reference["object"]["sha"]));
    assert_eq!((&tag["message"], &tag["tagger"]["email"]), (&json!("Release\n"), &json!("bob@example.com")));
    let commit = git.run("work", &["rev-parse", "v100^{commit}"]).await;
    assert_eq!((&tag["object"]["type"], &tag["object"]["sha"]), (&json!("commit"), &json!(commit)));
    ada.get(&ada.repo("annotated", &format!("/git/tags/{commit}"))).await.refused(404);
    ada.get(&ada.repo("annotated", "/git/tags/v100")).await.refused(404);
}
