//! The service under test: the shipped binary, `ferrite up` on SQLite.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::Failure;
use crate::binary;
use crate::usage::{self, Processes};

/// The administrator, who owns all repositories.
pub(crate) const USER: &str = "bench-admin";
const PASSWORD: &str = "correct horse battery";
/// Settings with which maintenance packs every change at once.
pub(crate) const EAGER_MAINTENANCE: &[(&str, &str)] =
    &[("FERRITE_GIT_UPKEEP_INTERVAL_SECONDS", "1"), ("FERRITE_GIT_UPKEEP_REPACK_SECONDS", "1")];
/// Limit for packing a large repository.
const PACK_TIMEOUT: Duration = Duration::from_secs(1800);

/// A running installation. Ends when it is dropped, and when the bench ends.
pub(crate) struct Ferrite {
    child: Child,
    stdin: Option<ChildStdin>,
    url: String,
    data: PathBuf,
    token: String,
    client: reqwest::Client,
    processes: Processes,
    git: u32,
}

impl Ferrite {
    /// Starts an installation on a data folder, which may be empty.
    pub(crate) async fn start(data: &Path, environment: &[(&str, &str)]) -> Result<Self, Failure> {
        std::fs::create_dir_all(data)?;
        let log = data.with_extension("log");
        let mut command = binary::ferrite();
        command.envs([("FERRITE_ADMIN_USERNAME", USER), ("FERRITE_ADMIN_PASSWORD", PASSWORD)]);
        command.envs(environment.iter().copied());
        command.args(["up", "--stop-with-stdin", "--http", "127.0.0.1:0", "--ssh", "127.0.0.1:0", "--data"]).arg(data);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::options().create(true).append(true).open(&log)?);
        let mut child = command.spawn()?;
        let stdin = child.stdin.take();
        let mut lines = BufReader::new(child.stdout.take().ok_or("no standard output")?).lines().map_while(Result::ok);
        let Some(ready) = lines.find(|line| line.starts_with("ready: ")) else {
            let _ = child.wait();
            return Err(format!("`ferrite up` does not become ready:\n{}", std::fs::read_to_string(&log)?).into());
        };
        std::thread::spawn(move || lines.for_each(drop));
        let git = usage::child_of(child.id(), "git-svc").ok_or("git-svc does not run")?;
        let url = ready.trim_start_matches("ready: ").to_owned();
        let processes = Processes::of(child.id());
        let client = reqwest::Client::builder().no_proxy().build()?;
        let mut ferrite =
            Self { child, stdin, url, data: data.to_owned(), token: String::new(), client, processes, git };
        ferrite.token = ferrite.new_token().await?;
        Ok(ferrite)
    }

    async fn new_token(&self) -> Result<String, Failure> {
        let name = format!("bench-{}", hex::encode(rand::random::<[u8; 6]>()));
        let url = format!("{}/api/v1/users/{USER}/tokens", self.url);
        let request = self.client.post(url).basic_auth(USER, Some(PASSWORD)).json(&json!({ "name": name }));
        let made = json_of(request, 201).await?;
        Ok(made["sha1"].as_str().ok_or("no token in the answer")?.to_owned())
    }

    /// A request to the API with the token of [`USER`].
    pub(crate) fn api(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}/api/v1{path}", self.url);
        self.client.request(method, url).header("authorization", format!("token {}", self.token))
    }

    /// The path of a repository below the API.
    pub(crate) fn repo(&self, name: &str, rest: &str) -> String {
        format!("/repos/{USER}/{name}{rest}")
    }

    /// Makes an empty public repository and returns its id.
    pub(crate) async fn new_repository(&self, name: &str) -> Result<i64, Failure> {
        let made = json_of(self.api(Method::POST, "/user/repos").json(&json!({ "name": name })), 201).await?;
        made["id"].as_i64().ok_or_else(|| "no id in the answer".into())
    }

    /// Returns the id of a repository.
    pub(crate) async fn id(&self, name: &str) -> Result<i64, Failure> {
        let found = json_of(self.api(Method::GET, &self.repo(name, "")), 200).await?;
        found["id"].as_i64().ok_or_else(|| "no id in the answer".into())
    }

    /// The URL for fetching, without credentials.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("{}/{USER}/{name}.git", self.url)
    }

    /// The URL for pushing, with the token of [`USER`].
    pub(crate) fn push_url(&self, name: &str) -> String {
        self.url(name).replacen("http://", &format!("http://{USER}:{}@", self.token), 1)
    }

    /// `HOST:PORT`.
    pub(crate) fn authority(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// The data folder.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// All processes.
    pub(crate) fn processes(&self) -> &Processes {
        &self.processes
    }

    /// The process of git-svc.
    pub(crate) fn git_svc(&self) -> u32 {
        self.git
    }

    /// Returns whether git-svc is still the process that was started.
    pub(crate) fn is_alive(&self) -> bool {
        usage::child_of(self.child.id(), "git-svc") == Some(self.git)
    }

    /// The last warnings and errors of the log.
    pub(crate) fn warnings(&self) -> String {
        let log = std::fs::read_to_string(self.data.with_extension("log")).unwrap_or_default();
        let lines: Vec<_> =
            log.lines().filter(|line| line.contains("\"WARN\"") || line.contains("\"ERROR\"")).collect();
        lines[lines.len().saturating_sub(4)..].join("\n")
    }

    /// Waits until maintenance has packed a repository.
    pub(crate) async fn wait_until_packed(&self, id: i64) -> Result<(), Failure> {
        let path = self.path(id)?;
        let begin = Instant::now();
        while !is_packed(&path) {
            if begin.elapsed() > PACK_TIMEOUT {
                return Err(format!("maintenance does not pack repository {id}").into());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        self.processes.settled().await;
        Ok(())
    }

    /// Returns the path of a repository in the store.
    pub(crate) fn path(&self, id: i64) -> Result<PathBuf, Failure> {
        let name = format!("{id}.git");
        let below =
            |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let found = below(self.data.join("git/repos")).flat_map(below).flat_map(below);
        let mut found = found.filter(|path| path.file_name().is_some_and(|file| file == name.as_str()));
        found.next().ok_or_else(|| format!("repository {id} is not in the store").into())
    }
}

fn is_packed(repository: &Path) -> bool {
    let packs = std::fs::read_dir(repository.join("objects/pack")).into_iter().flatten().flatten();
    let has_bitmap = packs.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|kind| kind == "bitmap"));
    has_bitmap && repository.join("objects/info/commit-graph").exists()
}

impl Drop for Ferrite {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let begin = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begin.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request and returns the body; fails on another status.
pub(crate) async fn bytes_of(request: RequestBuilder, status: u16) -> Result<bytes::Bytes, Failure> {
    let answer = request.send().await?;
    let (url, got) = (answer.url().path().to_owned(), answer.status().as_u16());
    let body = answer.bytes().await?;
    if got == status {
        return Ok(body);
    }
    Err(format!("{url}: {got} instead of {status}: {}", String::from_utf8_lossy(&body)).into())
}

/// As [`bytes_of`], as JSON.
pub(crate) async fn json_of(request: RequestBuilder, status: u16) -> Result<Value, Failure> {
    Ok(serde_json::from_slice(&bytes_of(request, status).await?)?)
}
