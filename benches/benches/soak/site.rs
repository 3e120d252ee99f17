//! The installation under load: its repositories with their history, and an account for each
//! client.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use ferrite_benches::databases::Databases;
use ferrite_benches::history::MAIN;
use ferrite_benches::installation::{self, Installation, PASSWORD, Settings, USER};
use ferrite_benches::{Failure, git};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::json;

use crate::shape::Load;

/// One account creates and deletes repositories and writes during the whole load.
const SETTINGS: Settings = &[
    ("FERRITE_REPO_CREATIONS_PER_HOUR", "0"),
    ("FERRITE_WRITES_PER_HOUR", "0"),
    ("FERRITE_WRITE_BYTES_PER_HOUR", "0"),
];
/// Maximum number of repositories copied for plain git.
const MAX_COPIES: usize = 4;
/// Time limit for a request over HTTP or by git. A longer one has failed.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Clone, Debug)]
pub(crate) struct Repository {
    pub(crate) name: String,
    /// In the store.
    pub(crate) path: PathBuf,
}

/// The account of a client, with its own address over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) name: String,
    token: String,
    url: String,
    client: Client,
}

impl Account {
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}/api/v1{path}", self.url);
        self.client.request(method, url).header("authorization", format!("token {}", self.token))
    }

    /// Git URL of a repository.
    pub(crate) fn remote(&self, repository: &str) -> String {
        let url = self.url.replacen("http://", &format!("http://{}:{}@", self.name, self.token), 1);
        format!("{url}/{USER}/{repository}.git")
    }
}

pub(crate) struct Site {
    pub(crate) installation: Installation,
    pub(crate) repositories: Vec<Repository>,
    /// The repository pushed to each of them.
    pub(crate) history: PathBuf,
    /// Files in that history.
    pub(crate) files: u64,
    /// For the clients' files.
    pub(crate) work: PathBuf,
    accounts: u8,
    copies: OnceLock<Vec<PathBuf>>,
}

impl Site {
    /// Starts an installation and pushes the history to each repository.
    pub(crate) async fn new(work: &Path, history: PathBuf, load: &Load) -> Result<Self, Failure> {
        let data = work.join("data");
        let installation = Installation::new(Databases::in_folder(&data), &data, 0, SETTINGS).await?;
        let (work, files) = (work.to_owned(), load.files);
        let mut site =
            Self { installation, repositories: Vec::new(), history, files, work, accounts: 0, copies: OnceLock::new() };
        for number in 0..load.repositories {
            let name = format!("repository-{number}");
            let made = site.installation.create("/user/repos", &json!({ "name": name })).await?;
            git::run(&site.history, &["push", "--quiet", &site.installation.remote(&name), MAIN]).await?;
            let path = site.installation.path_in_store(installation::id_of(&made)?)?;
            site.repositories.push(Repository { name, path });
        }
        Ok(site)
    }

    /// Creates an account with write access to the repositories `writes_to`.
    pub(crate) async fn account(&mut self, name: &str, writes_to: &[usize]) -> Result<Account, Failure> {
        self.accounts += 1;
        let address = IpAddr::V4(Ipv4Addr::new(127, 3, 0, self.accounts));
        let body = json!({ "username": name, "email": format!("{name}@example.com"), "password": PASSWORD });
        self.installation.create("/admin/users", &body).await?;
        let client = Client::builder().no_proxy().local_address(address).timeout(REQUEST_TIMEOUT).build()?;
        let url = self.installation.url.clone();
        let token = installation::create_token(&client, &url, name, PASSWORD).await?;
        let administrator = installation::client()?;
        for index in writes_to {
            let path = format!("/repos/{USER}/{}/collaborators/{name}", self.repositories[*index].name);
            let request = self.installation.request(&administrator, Method::PUT, &path);
            let answer = request.json(&json!({ "permission": "write" })).send().await?;
            if !answer.status().is_success() {
                return Err(format!("{path}: {}", answer.status()).into());
            }
        }
        Ok(Account { name: name.to_owned(), token, url, client })
    }

    /// A work tree with the history and a new branch.
    pub(crate) async fn work_tree(&self, branch: &str, repository: usize) -> Result<PathBuf, Failure> {
        let folder = self.work.join(format!("tree-{branch}-{repository}"));
        let (history, target) = (self.history.display().to_string(), folder.display().to_string());
        git::run(&self.work, &["clone", "--quiet", "--shared", &history, &target]).await?;
        git::run(&folder, &["checkout", "--quiet", "-b", branch]).await?;
        Ok(folder)
    }

    /// Creates packed copies of some repositories, which [`Self::copy`] returns afterwards.
    pub(crate) async fn make_copies(&self) -> Result<(), Failure> {
        let mut copies = Vec::new();
        for repository in self.repositories.iter().take(MAX_COPIES) {
            copies.push(self.packed_copy(&repository.path, &repository.name).await?);
        }
        self.copies.set(copies).map_err(|_| "the copies already exist".into())
    }

    /// Creates a packed copy of the initial history.
    pub(crate) async fn copy_of_history(&self) -> Result<PathBuf, Failure> {
        self.packed_copy(&self.history, "history").await
    }

    async fn packed_copy(&self, repository: &Path, name: &str) -> Result<PathBuf, Failure> {
        let copy = self.work.join(format!("copy-{name}.git"));
        let (from, to) = (format!("file://{}", repository.display()), copy.display().to_string());
        git::run(&self.work, &["clone", "--quiet", "--bare", &from, &to]).await?;
        git::run(&copy, &["repack", "-adbq"]).await?;
        git::run(&copy, &["commit-graph", "write", "--reachable", "--no-progress"]).await?;
        Ok(copy)
    }

    /// The copies of repositories, once they exist.
    pub(crate) fn copies(&self) -> &[PathBuf] {
        self.copies.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// The copy of a repository, once copies exist.
    pub(crate) fn copy(&self, repository: usize) -> Option<&Path> {
        let copies = self.copies();
        copies.get(repository % copies.len().max(1)).map(PathBuf::as_path)
    }
}
