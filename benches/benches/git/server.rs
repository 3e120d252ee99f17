//! The service under test: the release binary, `ferrite up` on SQLite.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferrite_benches::Failure;
use ferrite_benches::databases::Databases;
use ferrite_benches::installation::{Installation, Settings, USER, client, id_of, json_of};
use ferrite_benches::processes::{Processes, child_of};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::json;

/// Settings that make maintenance pack every change immediately.
pub(crate) const EAGER_MAINTENANCE: Settings =
    &[("FERRITE_GIT_UPKEEP_INTERVAL_SECONDS", "1"), ("FERRITE_GIT_UPKEEP_REPACK_SECONDS", "1")];
/// Time limit for packing a large repository.
const PACK_TIMEOUT: Duration = Duration::from_secs(1800);

/// A running installation. Ends on drop, and with the bench.
pub(crate) struct Ferrite {
    installation: Installation,
    data: PathBuf,
    client: Client,
    processes: Processes,
    git: u32,
}

impl Ferrite {
    /// Starts an installation on a data folder, which may be empty.
    pub(crate) async fn start(data: &Path, settings: Settings) -> Result<Self, Failure> {
        let installation = Installation::new(Databases::in_folder(data), data, 0, settings).await?;
        let launcher = installation.launcher()?;
        let git = child_of(launcher, "git-svc").ok_or("git-svc does not run")?;
        let processes = Processes::of(launcher);
        Ok(Self { installation, data: data.to_owned(), client: client()?, processes, git })
    }

    /// An API request with the token of [`USER`].
    pub(crate) fn api(&self, method: Method, path: &str) -> RequestBuilder {
        self.installation.request(&self.client, method, path)
    }

    pub(crate) fn repo(&self, name: &str, rest: &str) -> String {
        format!("/repos/{USER}/{name}{rest}")
    }

    /// Creates an empty public repository and returns its id.
    pub(crate) async fn new_repository(&self, name: &str) -> Result<i64, Failure> {
        id_of(&self.installation.create("/user/repos", &json!({ "name": name })).await?)
    }

    pub(crate) async fn id(&self, name: &str) -> Result<i64, Failure> {
        id_of(&json_of(self.api(Method::GET, &self.repo(name, "")), 200).await?)
    }

    /// Fetch URL, without credentials.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("{}/{USER}/{name}.git", self.installation.url)
    }

    /// Push URL, with the token of [`USER`].
    pub(crate) fn push_url(&self, name: &str) -> String {
        self.installation.remote(name)
    }

    pub(crate) fn authority(&self) -> &str {
        self.installation.url.trim_start_matches("http://")
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    pub(crate) fn processes(&self) -> &Processes {
        &self.processes
    }

    pub(crate) fn git_svc(&self) -> u32 {
        self.git
    }

    /// Whether git-svc is still the original process.
    pub(crate) fn is_alive(&self) -> bool {
        child_of(self.processes.root(), "git-svc") == Some(self.git)
    }

    /// The last warnings and errors in the log.
    pub(crate) fn warnings(&self) -> String {
        let log = std::fs::read_to_string(self.installation.log_path()).unwrap_or_default();
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
                return Err(format!("maintenance did not pack repository {id}").into());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        self.processes.settled().await;
        Ok(())
    }

    /// Path of a repository in the store.
    pub(crate) fn path(&self, id: i64) -> Result<PathBuf, Failure> {
        self.installation.path_in_store(id)
    }
}

fn is_packed(repository: &Path) -> bool {
    let packs = std::fs::read_dir(repository.join("objects/pack")).into_iter().flatten().flatten();
    let has_bitmap = packs.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|kind| kind == "bitmap"));
    has_bitmap && repository.join("objects/info/commit-graph").exists()
}
