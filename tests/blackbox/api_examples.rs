//! The examples of the guides in `docs/`, extracted from the pages and run as a reader would.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

use crate::harness::{Cluster, User, servers};

/// A page: its path and its text.
type Page = (&'static str, &'static str);

const GUIDE: Page = ("docs/api.md", include_str!("../../docs/api.md"));
const PULLS: Page = ("docs/pull-requests.md", include_str!("../../docs/pull-requests.md"));
/// Go's build cache: the first run compiles the standard library.
const GO_FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/go");

on_profiles! {
    embedded {
        the_first_steps_with_curl_make_and_close_an_issue
        the_example_in_python_makes_a_label_and_reads_all_pages
        the_example_in_go_keeps_what_others_changed
        the_first_steps_with_pull_requests_merge_one
        the_example_of_a_review_rejects_and_approves
        the_example_of_rules_protects_the_base
    }
}

/// The only code block of a page in a language.
fn block((page, text): Page, language: &str) -> &'static str {
    let (fence, mut blocks) = (format!("\n```{language}\n"), text.split("\n```"));
    let is_of_language = |block: &&str| block.split('\n').next() == Some(language);
    let found = blocks.find(is_of_language).unwrap_or_else(|| panic!("{page} has no block in {language}"));
    assert_eq!(text.matches(&*fence).count(), 1, "{page} has several blocks in {language}");
    &found[language.len() + 1..]
}

/// An example in its own file and folder.
struct Example {
    folder: TempDir,
    file: PathBuf,
}

impl Example {
    fn of(page: Page, language: &str, name: &str) -> Self {
        let folder = tempfile::tempdir_in(servers::folder()).unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, block(page, language)).unwrap();
        Self { folder, file }
    }

    /// Runs a program with the file after its first arguments. Returns whether it succeeded, and
    /// its standard output and standard error.
    async fn run(&self, user: &User, program: &[&str], arguments: &[&str]) -> (bool, String, String) {
        let output = Command::new(program[0])
            .args(&program[1..])
            .arg(&self.file)
            .args(arguments)
            .current_dir(self.folder.path())
            .env("FERRITE_URL", &user.url)
            .env("FERRITE_USER", &user.name)
            .env("FERRITE_PASSWORD", &user.password)
            .env("FERRITE_TOKEN", user.token.as_deref().unwrap_or_default())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // Go caches everything in this folder, needs no C compiler, and downloads nothing.
            .env("GOCACHE", format!("{GO_FOLDER}/cache"))
            .env("GOPATH", format!("{GO_FOLDER}/path"))
            .envs([("GOENV", "off"), ("GOPROXY", "off"), ("GOTOOLCHAIN", "local"), ("CGO_ENABLED", "0")])
            .envs([("no_proxy", "*"), ("NO_PROXY", "*")])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = output.await.unwrap_or_else(|error| panic!("{} (see tests/needs.sh): {error}", program[0]));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    }
}

async fn the_first_steps_with_curl_make_and_close_an_issue(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    // The second time makes a token and a repository with other names.
    for count in 1..=2 {
        let (is_done, printed, complaint) = Example::of(GUIDE, "sh", "steps.sh").run(&ada, &["bash", "-eu"], &[]).await;
        assert!(is_done, "{printed}\n{complaint}");
        let names = ada.get("/user/repos").await.expect(200).each("name");
        assert_eq!(names.len(), count, "{names:?}");
        for name in names {
            let repo = ada.repo(&name, "");
            assert_eq!(ada.issue_numbers(&repo, "state=all").await, [1], "{name}");
            let issue = ada.issue(&repo, 1).await;
            assert_eq!((&issue["title"], &issue["state"]), (&json!("It breaks"), &json!("closed")));
        }
    }
}

async fn the_example_in_python_makes_a_label_and_reads_all_pages(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("demo", json!({"private": true})).await;
    for name in ["bug", "fast", "question", "wontfix"] {
        ada.new_label(&repo, name).await;
    }
    let (example, full_name) = (Example::of(GUIDE, "python", "labels.py"), format!("{}/demo", ada.name));
    // The second time the label is there already.
    for _ in 0..2 {
        let (is_done, printed, complaint) = example.run(&ada, &["python3"], &[&full_name]).await;
        assert!(is_done, "{complaint}");
        assert_eq!(printed.lines().collect::<Vec<_>>(), ["bug", "fast", "question", "slow", "wontfix"]);
    }
    let outsider = cluster.outsider().await;
    let (is_done, _, complaint) = example.run(&outsider, &["python3"], &[&full_name]).await;
    assert!(!is_done && complaint.starts_with("404 "), "{complaint}");
    assert!(complaint.ends_with(&format!("{}/docs/api#ListLabels", cluster.url)), "{complaint}");
}

async fn the_example_in_go_keeps_what_others_changed(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("demo", json!({})).await;
    ada.new_issue(&repo, "It breaks", json!({"body": "Badly."})).await;
    let (example, full_name) = (Example::of(GUIDE, "go", "seen.go"), format!("{}/demo", ada.name));
    // The second time the title has its prefix already.
    for _ in 0..2 {
        let (is_done, _, complaint) = example.run(&ada, &["go", "run"], &[&full_name, "1"]).await;
        assert!(is_done && complaint.ends_with("200 [seen] It breaks"), "{complaint}");
    }
    let issue = ada.issue(&repo, 1).await;
    assert_eq!((&issue["title"], &issue["body"]), (&json!("[seen] It breaks"), &json!("Badly.")));
}

async fn the_first_steps_with_pull_requests_merge_one(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (is_done, printed, complaint) = Example::of(PULLS, "sh", "pulls.sh").run(&ada, &["bash", "-eu"], &[]).await;
    assert!(is_done, "{printed}\n{complaint}");
    let names = ada.get("/user/repos").await.expect(200).each("name");
    let repo = ada.repo(&names[0], "");
    let pull = ada.get(&format!("{repo}/pulls/1")).await.expect(200).json();
    assert_eq!((&pull["merged"], &pull["state"]), (&json!(true), &json!("closed")));
    ada.get(&format!("{repo}/branches/hello")).await.refused(404);
    ada.get(&format!("{repo}/contents/hello.txt")).await.expect(200);
}

/// Opens a pull request in a new repository `demo`.
async fn open_pull(user: &User) -> String {
    let repo = user.new_tracker("demo", json!({"auto_init": true})).await;
    let file = json!({"message": "Say hello", "content": "aGVsbG8K", "branch": "main", "new_branch": "hello"});
    user.put(&format!("{repo}/contents/hello.txt"), &file).await.expect(201);
    let pull = json!({"head": "hello", "base": "main", "title": "Say hello"});
    user.post(&format!("{repo}/pulls"), &pull).await.expect(201);
    repo
}

async fn the_example_of_rules_protects_the_base(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = open_pull(&ada).await;
    let example = Example::of(PULLS, "shell", "rules.sh");
    let (is_done, printed, complaint) =
        example.run(&ada, &["bash", "-eu"], &[&format!("{}/demo", ada.name), "1"]).await;
    assert!(is_done, "{printed}\n{complaint}");
    let needed = ada.get(&format!("{repo}/pulls/1/merge-requirements")).await.expect(200).json();
    let missing = needed["requirements"].as_array().unwrap().iter().filter(|one| one["met"] == false);
    let missing: Vec<_> = missing.map(|one| (one["kind"].as_str().unwrap(), one["context"].as_str())).collect();
    assert_eq!(missing, [("check", Some("test")), ("approvals", None)]);
}

async fn the_example_of_a_review_rejects_and_approves(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let repo = open_pull(&ada).await;
    ada.put(&format!("{repo}/collaborators/{}", bob.name), &json!({"permission": "write"})).await.empty(204);
    let example = Example::of(PULLS, "bash", "review.sh");
    let (is_done, printed, complaint) =
        example.run(&bob, &["bash", "-eu"], &[&format!("{}/demo", ada.name), "1"]).await;
    assert!(is_done, "{printed}\n{complaint}");
    let reviews = ada.get(&format!("{repo}/pulls/1/reviews")).await.expect(200);
    assert_eq!(reviews.each("state"), ["REQUEST_CHANGES", "APPROVED"]);
    let reviews = reviews.json();
    assert_eq!((&reviews[0]["comments_count"], &reviews[0]["body"]), (&json!(1), &json!("Please say whom.")));
    for review in reviews.as_array().unwrap() {
        assert_eq!((&review["official"], &review["stale"]), (&json!(true), &json!(false)));
        assert_eq!(review["user"]["login"], bob.name.as_str());
    }
}
