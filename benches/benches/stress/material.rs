//! Material for the attackers: their account, repositories with hostile trees, commits and
//! messages, and issues.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use ferrite_benches::installation::{self, Installation, PASSWORD};
use ferrite_benches::receiver::{Arrivals, Receiver};
use ferrite_benches::{Failure, git};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::attacks::{ATTACKER_ADDRESS, Attacker, SlowSource};

/// The attackers' account.
pub(crate) const ATTACKER: &str = "mallory";
/// The repository whose pages are crawled, and its files.
pub(crate) const CRAWLED: &str = "crawled";
pub(crate) const CRAWLED_FILES: usize = 40;
/// Lines of each of these files.
const CRAWLED_LINES: usize = 200;

struct Sizes {
    /// Placeholders in the file that archives expand, and commits with a long message.
    placeholders: usize,
    long_commits: usize,
    long_message: usize,
    /// Entries of a folder, and of one with long paths.
    entries: usize,
    long_paths: usize,
    /// Levels of a tree with ten subtrees each.
    levels: usize,
    patterns: usize,
    issues: usize,
    body: usize,
    crawled_commits: usize,
}

const SIZES: Sizes = Sizes {
    placeholders: 20_000,
    long_commits: 100,
    long_message: 256 << 10,
    entries: 100_000,
    long_paths: 4_000,
    levels: 6,
    patterns: 60_000,
    issues: 50,
    body: 1 << 20,
    crawled_commits: 400,
};

const TEST_SIZES: Sizes = Sizes {
    placeholders: 100,
    long_commits: 3,
    long_message: 1 << 10,
    entries: 100,
    long_paths: 10,
    levels: 2,
    patterns: 10,
    issues: 3,
    body: 1 << 10,
    crawled_commits: 3,
};

/// Creates the account, its SSH key, its repositories and issues. A rejected push leaves its
/// repository unchanged, so the attacks get nothing from it.
pub(crate) async fn prepare(installation: &Installation, folder: &Path, is_full: bool) -> Result<Attacker, Failure> {
    let sizes = if is_full { SIZES } else { TEST_SIZES };
    let account = json!({ "username": ATTACKER, "email": "mallory@example.com", "password": PASSWORD });
    installation.create("/admin/users", &account).await?;
    let client = reqwest::Client::builder().no_proxy().local_address(Some(ATTACKER_ADDRESS)).build()?;
    let token = installation::create_token(&client, &installation.url, ATTACKER, PASSWORD).await?;
    let folder = folder.join("attacker");
    std::fs::create_dir_all(&folder)?;
    let key = make_key(&folder).await?;
    let launcher = installation.launcher()?;
    let mut attacker = Attacker::new(installation.url.clone(), token, client, folder, key.clone(), launcher);
    let public = std::fs::read_to_string(key.with_extension("pub"))?;
    attacker.post("/user/keys", &json!({ "title": "stress", "key": public.trim() })).await?;
    for (name, stream) in repositories(&sizes) {
        let made = attacker.post("/user/repos", &json!({ "name": name })).await?;
        if attacker.ssh.is_empty() {
            made["ssh_url"].as_str().unwrap_or_default().clone_into(&mut attacker.ssh);
        }
        if let Err(refused) = import_and_push(&attacker, name, &stream).await {
            println!("the push of {name} failed: {}", last_line(&refused));
        }
    }
    let crawled = attacker.folder.join(CRAWLED);
    let commits = git::text(&crawled, &["rev-list", "main"]).await?;
    attacker.commits = Arc::new(commits.lines().map(str::to_owned).collect());
    wide_tree(&attacker, sizes.levels).await?;
    attacker.post("/user/repos", &json!({ "name": "issues" })).await?;
    let body = "<".repeat(sizes.body);
    for number in 0..sizes.issues {
        let issue = json!({ "title": format!("Issue {number}"), "body": body });
        attacker.post(&format!("/repos/{ATTACKER}/issues/issues"), &issue).await?;
    }
    prepare_writes(&mut attacker).await?;
    Ok(attacker)
}

/// Creates what the writing attacks need: a release, a webhook with a delivery, and a slow remote.
async fn prepare_writes(attacker: &mut Attacker) -> Result<(), Failure> {
    let repository = format!("/repos/{ATTACKER}/issues");
    let me = attacker.request(Method::GET, "/user").send().await?.bytes().await?;
    attacker.user = installation::id_of(&serde_json::from_slice(&me)?)?;
    let receiver = Receiver::start(&Arrivals::default(), false).await?;
    let config = json!({ "url": receiver.url(), "content_type": "json" });
    let hook = json!({ "type": "native", "config": config, "events": ["push", "create"], "active": true });
    attacker.receiver = Some(receiver);
    attacker.hook = installation::id_of(&attacker.post(&format!("{repository}/hooks"), &hook).await?)?;
    let content = json!({ "message": "First file", "content": "b25lIGxpbmUK" });
    let request = attacker.request(Method::PUT, &format!("{repository}/contents/first.txt")).json(&content);
    installation::created(request).await?;
    let release = json!({ "tag_name": "v1", "target_commitish": "main", "name": "First" });
    attacker.release = installation::id_of(&attacker.post(&format!("{repository}/releases"), &release).await?)?;
    attacker.slow_source = Some(SlowSource::start().await?);
    Ok(())
}

fn last_line(failure: &Failure) -> String {
    let text = failure.to_string();
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
}

async fn make_key(folder: &Path) -> Result<PathBuf, Failure> {
    let path = folder.join("id");
    let mut command = tokio::process::Command::new("ssh-keygen");
    command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path).stdin(Stdio::null());
    let made = command.output().await?;
    if made.status.success() { Ok(path) } else { Err(String::from_utf8_lossy(&made.stderr).into()) }
}

/// Names and `git fast-import` streams.
fn repositories(sizes: &Sizes) -> [(&'static str, Vec<u8>); 5] {
    let placeholder = "$Format:%B$\n".repeat(sizes.placeholders);
    let mut subst = Stream::default();
    for number in 0..10 {
        let message = format!("{number} {}", "m".repeat(16 << 10));
        subst.commit(&message, &[(".gitattributes".into(), "* export-subst\n"), ("trap.txt".into(), &placeholder)]);
    }
    let mut log = Stream::default();
    for number in 0..sizes.long_commits {
        log.commit(&format!("{number} {}", "<".repeat(sizes.long_message)), &[(format!("{number}.txt"), "x")]);
    }
    let mut folders = Stream::default();
    let flat: Vec<_> = (0..sizes.entries).map(|number| (format!("flat/{number}.txt"), "x")).collect();
    folders.commit("A folder with many entries", &flat);
    let long = "p".repeat(250);
    let prefix = [long.as_str(); 8].join("/");
    let deep: Vec<_> = (0..sizes.long_paths).map(|number| (format!("deep/{prefix}/{long}{number}"), "x")).collect();
    folders.commit("Long paths", &deep);
    let mut patterns = String::new();
    for number in 0..sizes.patterns {
        let _ = writeln!(patterns, "*{number}*a*b*c*");
    }
    let mut sparse = Stream::default();
    sparse.commit("Patterns", &[("patterns".into(), &patterns)]);
    let many: Vec<_> = (0..sizes.entries / 20).map(|number| (format!("{number}aabbcc.txt"), "x")).collect();
    sparse.commit("Files", &many);
    let mut crawled = Stream::default();
    for commit in 0..sizes.crawled_commits {
        // The first commit makes all files, the others change three each.
        let files = (0..CRAWLED_FILES).filter(|file| commit == 0 || (file + commit) % CRAWLED_FILES < 3);
        let content = |file: usize| {
            let line =
                |line: usize| format!("line {line} of {file}, {}\n", if line % 20 == commit % 20 { commit } else { 0 });
            (0..CRAWLED_LINES).map(line).collect::<String>()
        };
        let files: Vec<_> = files.map(|file| (format!("file-{file}.txt"), content(file))).collect();
        let files: Vec<_> = files.iter().map(|(name, text)| (name.clone(), text.as_str())).collect();
        crawled.commit(&format!("Change {commit}"), &files);
    }
    [("subst", subst.0), ("log", log.0), ("folders", folders.0), ("sparse", sparse.0), (CRAWLED, crawled.0)]
}

/// Commits on `main` in the format of `git fast-import`.
#[derive(Default)]
struct Stream(Vec<u8>);

impl Stream {
    fn commit(&mut self, message: &str, files: &[(String, &str)]) {
        let who = "Mallory <mallory@example.com> 1700000000 +0000";
        let head = format!("commit refs/heads/main\ncommitter {who}\ndata {}\n{message}\n", message.len());
        self.0.extend_from_slice(head.as_bytes());
        for (path, content) in files {
            let file = format!("M 100644 inline {path}\ndata {}\n{content}\n", content.len());
            self.0.extend_from_slice(file.as_bytes());
        }
        self.0.push(b'\n');
    }
}

async fn import_and_push(attacker: &Attacker, name: &str, stream: &[u8]) -> Result<(), Failure> {
    let folder = attacker.folder.join(name);
    std::fs::create_dir_all(&folder)?;
    git::run(&folder, &["init", "--quiet", "--bare", "--initial-branch=main"]).await?;
    feed(git::git(&folder, &["fast-import", "--quiet"]), stream).await?;
    git::run(&folder, &["push", "--quiet", &attacker.remote(name), "main"]).await?;
    Ok(())
}

/// Runs a git command with `input`, and returns its output.
pub(crate) async fn feed(mut command: tokio::process::Command, input: &[u8]) -> Result<String, Failure> {
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().ok_or("no standard input")?;
    stdin.write_all(input).await?;
    drop(stdin);
    let output = child.wait_with_output().await?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).into())
}

/// Pushes a commit of a few kilobytes that represents ten files to the power of `levels`.
async fn wide_tree(attacker: &Attacker, levels: usize) -> Result<(), Failure> {
    attacker.post("/user/repos", &json!({ "name": "wide" })).await?;
    let folder = attacker.folder.join("wide");
    std::fs::create_dir_all(&folder)?;
    git::run(&folder, &["init", "--quiet", "--bare", "--initial-branch=main"]).await?;
    let mut object = feed(git::git(&folder, &["hash-object", "-w", "--stdin"]), b"x").await?;
    let mut kind = "100644 blob";
    for _ in 0..levels {
        let entries: String = (0..10).map(|number| format!("{kind} {object}\t{number}\n")).collect();
        object = feed(git::git(&folder, &["mktree"]), entries.as_bytes()).await?;
        kind = "040000 tree";
    }
    let commit = git::text(&folder, &["commit-tree", "-m", "Wide", &object]).await?;
    git::run(&folder, &["update-ref", "refs/heads/main", &commit]).await?;
    if let Err(refused) = git::run(&folder, &["push", "--quiet", &attacker.remote("wide"), "main"]).await {
        println!("the push of wide failed: {}", last_line(&refused));
    }
    Ok(())
}

impl Attacker {
    /// Sends a POST with the attackers' token. Fails unless the status is 201.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        installation::created(self.request(Method::POST, path).json(body)).await
    }
}
