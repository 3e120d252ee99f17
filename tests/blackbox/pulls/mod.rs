//! Pull requests from outside: their life, their reviews, their refs, how they are merged, and who
//! may do what.

mod approvals;
mod crashes;
mod events;
mod forks;
mod heads;
mod life;
mod lists;
mod merges;
mod protection;
mod races;
mod refs;
mod requirements;
mod reverts;
mod review_comments;
mod review_events;
mod review_requests;
mod reviews;
mod rights;
mod scheduled;
mod styles;
mod update;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Cluster, Git, Response, User};

/// A file of the base. Changes of different lines merge.
const FILE: &str = "text";
const LINES: usize = 20;
/// Time in which the head of a pull request follows a push.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// Time in which other facts of a push or a deletion are shown.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The file of the base, with other words in one line, counted from 0.
fn text(line: usize, words: &str) -> String {
    (0..LINES).map(|each| if each == line { format!("{words}\n") } else { format!("line {each}\n") }).collect()
}

/// A repository with a branch `main`, and its owner's work tree.
struct Work {
    owner: User,
    git: Git,
    name: String,
    /// Path below `/api/v1`.
    repo: String,
}

impl Work {
    async fn new(cluster: &Cluster, name: &str) -> Self {
        Self::of(cluster.user("ada").await, name, json!({})).await
    }

    async fn of(owner: User, name: &str, more: Value) -> Self {
        let git = Git::new();
        let repo = owner.new_tracker(name, more).await;
        git.small("work").await;
        git.commit("work", FILE, &text(LINES, "")).await;
        git.run("work", &["remote", "add", "origin", &owner.git_url(&owner.name, name)]).await;
        git.run("work", &["push", "-q", "origin", "main"]).await;
        Self { owner, git, name: name.to_owned(), repo }
    }

    fn path(&self, rest: &str) -> String {
        format!("{}{rest}", self.repo)
    }

    /// Path of a pull request.
    fn pull_path(&self, number: i64, rest: &str) -> String {
        self.path(&format!("/pulls/{number}{rest}"))
    }

    async fn run(&self, arguments: &[&str]) -> String {
        self.git.run("work", arguments).await
    }

    /// Commits a file on a branch, which begins at the local `main` if it does not exist, and
    /// returns to `main`.
    async fn commit_on(&self, branch: &str, file: &str, content: &str) -> String {
        let exists = self.git.attempt("work", &["rev-parse", "-q", "--verify", &format!("refs/heads/{branch}")]).await;
        if exists.status.success() {
            self.run(&["checkout", "-q", branch]).await;
        } else {
            self.run(&["checkout", "-q", "-b", branch, "main"]).await;
        }
        let commit = self.git.commit("work", file, content).await;
        self.run(&["checkout", "-q", "main"]).await;
        commit
    }

    async fn push(&self, refspec: &str) {
        self.run(&["push", "-q", "origin", refspec]).await;
    }

    /// Pushes a commit on a branch. Returns its id.
    async fn push_commit(&self, branch: &str, file: &str, content: &str) -> String {
        let commit = self.commit_on(branch, file, content).await;
        self.push(branch).await;
        commit
    }

    /// Pushes a branch with a commit that adds a file of its name, and opens a pull request to
    /// `main`. Returns its number.
    async fn open(&self, branch: &str) -> i64 {
        self.push_commit(branch, branch, "added\n").await;
        self.open_from(branch, "main").await
    }

    /// Opens a pull request, whose title is the name of its head.
    async fn open_from(&self, head: &str, base: &str) -> i64 {
        let body = json!({"head": head, "base": base, "title": head});
        let made = self.create(&self.owner, &body).await.expect(201).json();
        made["number"].as_i64().unwrap()
    }

    async fn create(&self, user: &User, body: &Value) -> Response {
        user.post(&self.path("/pulls"), body).await
    }

    async fn pull(&self, number: i64) -> Value {
        self.owner.get(&self.pull_path(number, "")).await.expect(200).json()
    }

    async fn edit(&self, number: i64, body: Value) -> Value {
        self.owner.patch(&self.pull_path(number, ""), &body).await.expect(201).json()
    }

    async fn merge_by(&self, user: &User, number: i64, body: &Value) -> Response {
        user.post(&self.pull_path(number, "/merge"), body).await
    }

    async fn merge(&self, number: i64, body: Value) -> Response {
        self.merge_by(&self.owner, number, &body).await
    }

    async fn is_merged(&self, number: i64) -> bool {
        self.owner.get(&self.pull_path(number, "/merge")).await.status == 204
    }

    /// The commit of a branch as the repository has it.
    async fn tip(&self, branch: &str) -> String {
        let refs = self.run(&["ls-remote", "origin", &format!("refs/heads/{branch}")]).await;
        refs.split('\t').next().unwrap_or_default().to_owned()
    }

    /// Fetches all branches into `refs/remotes/origin`.
    async fn fetch(&self) {
        self.run(&["fetch", "-q", "--prune", "origin"]).await;
    }

    async fn tree(&self, revision: &str) -> String {
        self.run(&["rev-parse", &format!("{revision}^{{tree}}")]).await
    }

    /// Commits that are in one revision and not in another.
    async fn count(&self, from: &str, to: &str) -> usize {
        self.run(&["rev-list", "--count", &format!("{from}..{to}")]).await.parse().unwrap()
    }

    /// Polls a pull request until it is as wanted. Fails after `timeout`.
    async fn poll(&self, number: i64, timeout: Duration, wanted: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let pull = self.pull(number).await;
            if wanted(&pull) {
                return pull;
            }
            assert!(start.elapsed() < timeout, "#{number} is not as wanted after {timeout:?}: {pull}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn head_becomes(&self, number: i64, commit: &str) -> Value {
        self.poll(number, HEAD_TIMEOUT, |pull| pull["head"]["sha"] == commit).await
    }

    /// Waits until `refs/pull/NUMBER/head` is at a commit.
    async fn ref_becomes(&self, number: i64, commit: &str) {
        let (start, name) = (Instant::now(), format!("refs/pull/{number}/head"));
        let expected = format!("{commit}\t{name}");
        loop {
            let found = self.run(&["ls-remote", "origin", &name]).await;
            if found == expected {
                return;
            }
            assert!(start.elapsed() < SETTLE_TIMEOUT, "{found:?}, not {expected:?}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Forks the repository for a user, who gets a work tree in this folder with the remote
    /// `origin`.
    async fn fork(&self, user: &User, folder: &str) {
        user.post(&self.path("/forks"), &json!({})).await.expect(201);
        self.git.run("", &["clone", "-q", &user.git_url(&user.name, &self.name), folder]).await;
    }
}

fn number_of(pull: &Value) -> i64 {
    pull["number"].as_i64().unwrap_or_else(|| panic!("no number: {pull}"))
}

/// Whether two texts are the same commit, which must not be empty.
fn is_commit(found: &Value, expected: &str) -> bool {
    expected.len() == 40 && found == expected
}

/// Fails unless this is an error with this status and reason.
#[track_caller]
fn refused_for(response: Response, status: u16, reason: &str) {
    let response = response.refused(status);
    assert_eq!(response.json()["reason"], reason, "{}", response.text());
}
