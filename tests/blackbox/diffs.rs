//! Comparisons, diffs and patches, compared with what git prints for the same commits.

use reqwest::Method;
use reqwest::header::IF_NONE_MATCH;
use serde_json::{Value, json};

use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    both {
        the_text_of_a_commit_is_gits_own
    }
    embedded {
        a_comparison_is_what_git_shows
        commits_show_what_they_changed
        changes_of_whitespace_can_be_ignored
        what_has_no_diff_is_refused
        differences_are_for_readers
    }
}

const IMMUTABLE: &str = "private, max-age=86400, immutable";
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

async fn pushed(cluster: &Cluster, name: &str) -> (User, Git) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository(name, json!({"private": true})).await;
    git.large("origin.git", 210).await;
    git.run("origin.git", &["push", "-q", "--mirror", &ada.git_url(&ada.name, name)]).await;
    (ada, git)
}

/// Added and deleted lines and path of each file, as `git diff --numstat` prints them.
fn numstat(files: &Value) -> Vec<String> {
    let line = |file: &Value| {
        let count = |field: &str| if file["binary"] == true { "-".to_owned() } else { file[field].to_string() };
        let path = match file["previous_filename"].as_str() {
            Some(previous) => format!("{previous} => {}", file["filename"].as_str().unwrap()),
            None => file["filename"].as_str().unwrap().to_owned(),
        };
        assert_eq!(file["changes"], file["additions"].as_i64().unwrap() + file["deletions"].as_i64().unwrap());
        format!("{}\t{}\t{path}", count("additions"), count("deletions"))
    };
    files.as_array().unwrap().iter().map(line).collect()
}

async fn a_comparison_is_what_git_shows(cluster: &Cluster) {
    let (ada, git) = pushed(cluster, "compared").await;
    git.run("", &["clone", "-q", "origin.git", "work"]).await;
    git.run("work", &["checkout", "-q", "-b", "release/1.x", "v100"]).await;
    git.run("work", &["mv", "run.sh", "moved \u{e4}.sh"]).await;
    git.run("work", &["rm", "-q", "link"]).await;
    std::fs::write(git.path().join("work/bytes.bin"), b"c\0d").unwrap();
    git.commit("work", "new.txt", "one\ntwo\n").await;
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, "compared"), "release/1.x"]).await;
    git.run("work", &["push", "-q", "origin", "release/1.x"]).await;
    let head = git.run("origin.git", &["rev-parse", "release/1.x"]).await;
    for (base, dots, head) in [
        ("main", "...", "release/1.x"),
        ("main", "..", "release/1.x"),
        ("release/1.x", "...", "main"),
        ("v100", "...", "feature/one"),
        ("feature/one", "..", "fix/other"),
        ("main", "...", head.as_str()),
        ("", "...", "release/1.x"),
        ("main", "...", "main"),
    ] {
        let name = |side: &str| if side.is_empty() { "main".to_owned() } else { side.to_owned() };
        let range = |dots: &str| format!("{}{dots}{}", name(base), name(head));
        let files = git.run("origin.git", &["-c", "core.quotePath=false", "diff", "--numstat", &range(dots)]).await;
        let commits = git.run("origin.git", &["rev-list", &range("..")]).await;
        let merge_base = git.run("origin.git", &["merge-base", &name(base), &name(head)]).await;
        for path in [format!("{base}{dots}{head}"), format!("{base}{dots}{head}").replace('/', "%2F")] {
            let shown = ada.get(&ada.repo("compared", &format!("/compare/{path}"))).await.expect(200).json();
            assert_eq!(numstat(&shown["files"]).join("\n"), files, "{path}");
            let ids: Vec<_> =
                shown["commits"].as_array().unwrap().iter().map(|one| one["sha"].as_str().unwrap()).collect();
            assert_eq!(ids.join("\n"), commits, "{path}");
            assert_eq!((&shown["total_commits"], &shown["merge_base"]), (&json!(ids.len()), &json!(merge_base)));
            assert_eq!((&shown["changed_files"], &shown["truncated"]), (&json!(files.lines().count()), &json!(false)));
        }
    }
    let page = ada.get(&ada.repo("compared", "/compare/v100...main?limit=2&page=2&stat=0")).await.expect(200);
    let commits = git.run("origin.git", &["rev-list", "--skip=2", "-2", "v100..main"]).await;
    let shown: Vec<_> = page.json()["commits"].as_array().unwrap().iter().map(|one| one["sha"].clone()).collect();
    assert_eq!(shown, commits.lines().map(|id| json!(id)).collect::<Vec<_>>());
    assert_eq!(page.header("x-total-count"), page.json()["total_commits"].to_string());
    assert!(page.header("link").contains("rel=\"next\"") && page.json()["commits"][0].get("stats").is_none());
    assert!(page.json()["commits"][0]["files"][0]["filename"].is_string());
}

/// The tip, a merge and the root of a branch, each with what it is compared with.
async fn commits(git: &Git) -> Vec<(String, String)> {
    let mut commits = Vec::new();
    for arguments in [vec!["-1", "main"], vec!["-1", "--merges", "main"], vec!["--max-parents=0", "main"]] {
        let line = git.run("origin.git", &[&["rev-list", "--parents"][..], &arguments].concat()).await;
        let mut ids = line.split(' ').map(str::to_owned);
        commits.push((ids.next().unwrap(), ids.next().unwrap_or_else(|| EMPTY_TREE.to_owned())));
    }
    commits
}

async fn the_text_of_a_commit_is_gits_own(cluster: &Cluster) {
    let (ada, git) = pushed(cluster, "texts").await;
    let text = async |name: &str| ada.get(&ada.repo("texts", &format!("/git/commits/{name}"))).await.expect(200);
    for (id, parent) in commits(&git).await {
        let diff = git.attempt("origin.git", &["diff", &parent, &id]).await.stdout;
        let range = if parent == EMPTY_TREE { vec!["--root", &id] } else { vec![] };
        let (flags, commits) = (["format-patch", "--stdout", "--no-signature"], format!("{parent}..{id}"));
        let patch = match range.is_empty() {
            true => git.attempt("origin.git", &[&flags[..], &[&commits]].concat()).await.stdout,
            false => git.attempt("origin.git", &[&flags[..], &range].concat()).await.stdout,
        };
        for (format, expected) in [("diff", diff), ("patch", patch)] {
            let shown = text(&format!("{id}.{format}")).await;
            assert!(shown.body == expected && !expected.is_empty(), "{id}.{format}: {}", shown.text());
            assert_eq!(shown.header("content-type"), "text/plain; charset=utf-8");
            assert_eq!(shown.header("content-length"), expected.len().to_string());
            assert_eq!(shown.header("cache-control"), IMMUTABLE);
        }
    }
    let by_name = text("feature/one.diff").await;
    assert_eq!(by_name.header("cache-control"), "private, no-cache");
    assert!(by_name.body == text("feature%2Fone.diff").await.body);
    let (path, tag) = (ada.repo("texts", "/git/commits/feature/one.diff"), by_name.header("etag"));
    let same = ada.get_with(&path, IF_NONE_MATCH, &tag).await.expect(304);
    assert!(same.body.is_empty() && tag.starts_with("W/\""), "{tag}");
    let head = Response::of(ada.request(Method::HEAD, &path)).await.expect(200);
    assert_eq!((head.header("etag"), head.body.len()), (tag.clone(), 0));
    git.run("", &["clone", "-q", "-b", "feature/one", "origin.git", "work"]).await;
    git.commit("work", "more.txt", "more\n").await;
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, "texts"), "feature/one"]).await;
    let moved = ada.get_with(&path, IF_NONE_MATCH, &tag).await.expect(200);
    assert!(moved.text().contains("+more\n") && moved.header("etag") != tag);
}

async fn commits_show_what_they_changed(cluster: &Cluster) {
    let (ada, git) = pushed(cluster, "changed").await;
    for (id, parent) in commits(&git).await {
        let shown = ada.get(&ada.repo("changed", &format!("/git/commits/{id}"))).await.expect(200).json();
        let lines = git.run("origin.git", &["diff", "--numstat", &parent, &id]).await;
        let sum = |column: usize| -> i64 {
            let numbers = lines.lines().filter_map(|line| line.split('\t').nth(column)?.parse::<i64>().ok());
            numbers.sum()
        };
        let stats = json!({"total": sum(0) + sum(1), "additions": sum(0), "deletions": sum(1)});
        assert_eq!((&shown["sha"], &shown["stats"]), (&json!(id), &stats));
        let listed = git.run("origin.git", &["diff", "--no-renames", "--name-only", &parent, &id]).await;
        let mut names: Vec<_> =
            shown["files"].as_array().unwrap().iter().map(|file| file["filename"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names.join("\n"), listed);
        let list = ada.get(&ada.repo("changed", &format!("/commits?sha={id}&limit=1"))).await.expect(200).json();
        assert_eq!(list[0], shown, "the list has the same");
    }
    let plain = ada.get(&ada.repo("changed", "/git/commits/v100?stat=false&files=false")).await.expect(200).json();
    assert_eq!(plain, ada.get(&ada.repo("changed", "/commits/v100")).await.expect(200).json());
    assert!(plain.get("stats").is_none() && plain.get("files").is_none());
    let page = ada.get(&ada.repo("changed", "/commits?limit=100&files=false")).await.expect(200).json();
    assert!(page.as_array().unwrap().iter().all(|one| one["stats"].is_object() && one.get("files").is_none()));
}

async fn changes_of_whitespace_can_be_ignored(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    let repo = ada.new_tracker("spaced", json!({"private": true})).await;
    git.small("work").await;
    std::fs::write(git.path().join("work/only.txt"), "one\ntwo\n").unwrap();
    git.commit("work", "both.txt", "one\ntwo\n").await;
    git.run("work", &["checkout", "-q", "-b", "topic"]).await;
    std::fs::write(git.path().join("work/only.txt"), "  one\r\ntwo \n").unwrap();
    let head = git.commit("work", "both.txt", "one \n2\n").await;
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, "spaced"), "main", "topic"]).await;
    let fields = json!({"head": "topic", "base": "main", "title": "Spaces"});
    let number = ada.post(&format!("{repo}/pulls"), &fields).await.expect(201).json()["number"].clone();
    let texts = ["/compare/main...topic", &format!("/git/commits/{head}"), &format!("/pulls/{number}")];
    let lists = [format!("{repo}/compare/main...topic"), format!("{repo}/pulls/{number}/files")];
    for (mode, flags) in [
        ("show-all", &[][..]),
        ("ignore-all", &["-w"][..]),
        ("ignore-change", &["-b"][..]),
        ("ignore-eol", &["--ignore-space-at-eol"][..]),
    ] {
        let plain = git.attempt("work", &[&["diff"][..], flags, &["main...topic"]].concat()).await.stdout;
        for text in texts {
            let shown = ada.get(&format!("{repo}{text}.diff?whitespace={mode}")).await.expect(200);
            assert!(shown.body == plain, "{text} {mode}: {}", shown.text());
        }
        let lines = git.run("work", &[&["diff", "--numstat"][..], flags, &["main...topic"]].concat()).await;
        for list in &lists {
            let shown = ada.get(&format!("{list}?whitespace={mode}")).await.expect(200).json();
            assert_eq!(numstat(shown.get("files").unwrap_or(&shown)).join("\n"), lines, "{list} {mode}");
        }
    }
    let patch = async |query: &str| ada.get(&format!("{repo}/git/commits/{head}.patch{query}")).await.expect(200).body;
    assert!(patch("?whitespace=ignore-all").await == patch("").await, "a patch has every change");
    for path in texts.map(|text| format!("{repo}{text}.diff")).iter().chain(&lists) {
        ada.get(&format!("{path}?whitespace=none")).await.refused_field("whitespace");
    }
}

async fn what_has_no_diff_is_refused(cluster: &Cluster) {
    let (ada, git) = pushed(cluster, "refused").await;
    git.run("", &["init", "-q", "other"]).await;
    git.commit("other", "a", "a\n").await;
    git.run("other", &["push", "-q", &ada.git_url(&ada.name, "refused"), "HEAD:refs/heads/alone"]).await;
    let compare = async |path: &str| ada.get(&ada.repo("refused", &format!("/compare/{path}"))).await;
    for wrong in ["none...main", "main...none", "main...--all", "main...%ff", "main...main~1", "a....b"] {
        compare(wrong).await.refused(404);
    }
    compare("main...alone").await.refused_with_message(404, "no common history");
    assert_eq!(compare("main..alone").await.expect(200).json()["merge_base"], Value::Null);
    compare(&format!("main...{}:main", ada.name)).await.refused_field("basehead");
    for wrong in ["none", "none.diff", "none.patch", ".diff", "-o.patch", "%ff.diff", "main.diff/x"] {
        ada.get(&ada.repo("refused", &format!("/git/commits/{wrong}"))).await.refused(404);
    }
}

async fn differences_are_for_readers(cluster: &Cluster) {
    let (ada, _git) = pushed(cluster, "closed").await;
    for rest in ["/compare/v100...main", "/git/commits/main", "/git/commits/main.diff", "/compare/v100...main.diff"] {
        let path = ada.repo("closed", rest);
        cluster.anonymous().get(&path).await.refused(404);
        cluster.user("bob").await.get(&path).await.refused(404);
        ada.get(&path).await.expect(200);
    }
}
