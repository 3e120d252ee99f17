//! The honest client: reads, writes, clones and pushes, one request after the other, with short
//! pauses.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferrite_benches::installation::{self, Installation, USER};
use ferrite_benches::remote::Remote;
use ferrite_benches::{Failure, git};
use reqwest::Method;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::latency::Seen;

/// The client's repository.
const REPOSITORY: &str = "work";
/// Initial files of the repository.
const FIRST_FILES: usize = 200;
const REQUEST_INTERVAL: Duration = Duration::from_millis(100);

/// A client that runs every kind of request in turn.
pub(crate) struct Client {
    url: String,
    token: String,
    client: reqwest::Client,
    /// Its work tree, and the folder for clones.
    work: PathBuf,
    clones: PathBuf,
    /// The repository that it imports.
    remote: Remote,
    remote_runtime: Option<Runtime>,
    user: i64,
    turns: usize,
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(runtime) = self.remote_runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Client {
    /// Creates the client's repository and a work tree of it.
    pub(crate) async fn new(installation: &Installation, folder: &Path) -> Result<Self, Failure> {
        installation.create("/user/repos", &json!({ "name": REPOSITORY })).await?;
        let work = folder.join("work");
        let remote = installation.remote(REPOSITORY);
        std::fs::create_dir_all(&work)?;
        git::run(&work, &["init", "--quiet", "--initial-branch=main"]).await?;
        for number in 0..FIRST_FILES {
            std::fs::write(work.join(format!("{number}.txt")), format!("file {number}\n").repeat(100))?;
        }
        git::run(&work, &["add", "--all"]).await?;
        git::run(&work, &["commit", "--quiet", "--message", "First files"]).await?;
        git::run(&work, &["remote", "add", "origin", &remote]).await?;
        git::run(&work, &["push", "--quiet", "origin", "main", "main:api"]).await?;
        installation.create(&format!("/repos/{USER}/{REPOSITORY}/issues"), &json!({ "title": "An issue" })).await?;
        // Separate threads: attacks on the installation do not slow down other machines.
        let remote_runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let remote = folder.join("remote");
        let remote = remote_runtime.spawn(async move { Remote::start(&remote).await }).await??;
        Ok(Self {
            remote,
            remote_runtime: Some(remote_runtime),
            user: installation.user_id().await?,
            url: installation.url.clone(),
            token: installation.token.clone(),
            client: installation::client()?,
            work,
            clones: folder.join("clone"),
            turns: 0,
        })
    }

    /// Runs until `end` and returns the recorded requests. Continues after failures.
    pub(crate) async fn run_until(&mut self, end: tokio::time::Instant) -> Seen {
        let mut seen = Seen::default();
        while tokio::time::Instant::now() < end {
            self.turns += 1;
            let repository = format!("/repos/{USER}/{REPOSITORY}");
            let (turn, file) = (self.turns, self.turns % FIRST_FILES);
            self.read(&mut seen, "GET repository", &repository).await;
            self.read(&mut seen, "GET issues", &format!("{repository}/issues")).await;
            self.read(&mut seen, "GET raw", &format!("{repository}/raw/main/{file}.txt")).await;
            self.read(&mut seen, "GET commits", &format!("{repository}/commits")).await;
            self.visit(&mut seen, "page: home", &format!("/{USER}/{REPOSITORY}")).await;
            self.visit(&mut seen, "page: blame", &format!("/{USER}/{REPOSITORY}/blame/branch/main/{file}.txt")).await;
            let body = json!({ "message": "Add a file", "content": "b25lIGxpbmUK", "branch": "api" });
            let path = format!("{repository}/contents/{}/{turn}.txt", turn / 100);
            self.write(&mut seen, "PUT contents", Method::PUT, &path, &body).await;
            let issue = json!({ "title": format!("Issue {turn}"), "body": "Some words." });
            self.write(&mut seen, "POST issue", Method::POST, &format!("{repository}/issues"), &issue).await;
            let text = json!({ "text": "# Title\n\nSome *words* & a [link](https://example.com).", "mode": "gfm" });
            self.write(&mut seen, "POST markdown", Method::POST, "/markdown", &text).await;
            self.import(&mut seen).await;
            self.timed_git(&mut seen, "git clone").await;
            self.timed_git(&mut seen, "git push").await;
        }
        seen
    }

    async fn read(&self, seen: &mut Seen, kind: &'static str, path: &str) {
        let request = self.client.get(format!("{}/api/v1{path}", self.url));
        self.send(seen, kind, request).await;
    }

    /// Opens a web page with the token in place of a session.
    async fn visit(&self, seen: &mut Seen, kind: &'static str, path: &str) {
        let cookie = format!("ferrite_session={}", self.token);
        let request = self.client.get(format!("{}{path}", self.url)).header("cookie", cookie);
        self.send(seen, kind, request).await;
    }

    async fn write(&self, seen: &mut Seen, kind: &'static str, method: Method, path: &str, body: &serde_json::Value) {
        let request = self.client.request(method, format!("{}/api/v1{path}", self.url)).json(body);
        self.send(seen, kind, request).await;
    }

    async fn import(&self, seen: &mut Seen) {
        let name = format!("import-{}", self.turns);
        let body = json!({ "clone_addr": self.remote.url(), "uid": self.user, "repo_name": name });
        self.write(seen, "import", Method::POST, "/repos/migrate", &body).await;
        self.write(seen, "DELETE repository", Method::DELETE, &format!("/repos/{USER}/{name}"), &json!({})).await;
    }

    async fn send(&self, seen: &mut Seen, kind: &'static str, request: reqwest::RequestBuilder) {
        let begin = Instant::now();
        let answer = async {
            let answer = request.header("authorization", format!("token {}", self.token)).send().await?;
            let (status, bytes) = (answer.status(), answer.bytes().await?);
            let text = String::from_utf8_lossy(&bytes).chars().take(200).collect::<String>();
            Ok::<_, reqwest::Error>((!status.is_success()).then(|| format!("{status} {text}")))
        };
        let failure = answer.await.unwrap_or_else(|error| Some(error.to_string()));
        seen.note(kind, begin.elapsed(), failure);
        tokio::time::sleep(REQUEST_INTERVAL).await;
    }

    async fn timed_git(&self, seen: &mut Seen, kind: &'static str) {
        let prepared = if kind == "git push" { self.commit().await } else { self.remove_clone() };
        let begin = Instant::now();
        let done = match prepared {
            Err(failure) => Err(failure),
            Ok(()) if kind == "git push" => git::run(&self.work, &["push", "--quiet", "origin", "main"]).await,
            Ok(()) => {
                let url = self.url.replacen("http://", &format!("http://{USER}:{}@", self.token), 1);
                let (url, target) = (format!("{url}/{USER}/{REPOSITORY}.git"), self.clones.display().to_string());
                git::run(Path::new("/"), &["clone", "--quiet", &url, &target]).await
            }
        };
        seen.note(kind, begin.elapsed(), done.err().map(|failure| failure.to_string()));
        tokio::time::sleep(REQUEST_INTERVAL).await;
    }

    async fn commit(&self) -> Result<(), Failure> {
        std::fs::write(self.work.join("pushed.txt"), format!("turn {}\n", self.turns))?;
        git::run(&self.work, &["add", "--all"]).await?;
        git::run(&self.work, &["commit", "--quiet", "--message", "Change a line"]).await?;
        Ok(())
    }

    fn remove_clone(&self) -> Result<(), Failure> {
        if self.clones.exists() {
            std::fs::remove_dir_all(&self.clones)?;
        }
        Ok(())
    }
}
