//! Repositories with commits over REST and by git, and hooks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use ferrite_benches::installation::{self, Installation, USER, id_of};
use ferrite_benches::{Failure, git};
use reqwest::{Client, Method};
use serde_json::{Value, json};

/// Files per folder, so that trees stay small.
const FILES_IN_FOLDER: u32 = 100;

/// An accepted push.
#[derive(Clone, Debug)]
pub(crate) struct Push {
    pub(crate) commit: String,
    /// Time of the response, or of the end of the git program.
    pub(crate) accepted: Instant,
}

/// A repository of [`USER`] that gets commits over one connection.
pub(crate) struct Repository {
    installation: Arc<Installation>,
    name: String,
    client: Client,
    commits: u32,
}

impl Repository {
    /// Creates a repository with a first commit.
    pub(crate) async fn new(installation: &Arc<Installation>, name: &str) -> Result<Self, Failure> {
        installation.create("/user/repos", &json!({ "name": name })).await?;
        let installation = Arc::clone(installation);
        let mut new = Self { installation, name: name.to_owned(), client: installation::client()?, commits: 0 };
        new.commit().await?;
        Ok(new)
    }

    /// Path of its hooks below `/api/v1`.
    pub(crate) fn hooks(&self) -> String {
        format!("/repos/{USER}/{}/hooks", self.name)
    }

    /// Commits a new file with `PUT contents`.
    pub(crate) async fn commit(&mut self) -> Result<Push, Failure> {
        let number = self.commits;
        self.commits += 1;
        let path = format!("/repos/{USER}/{}/contents/{}/{number}.txt", self.name, number / FILES_IN_FOLDER);
        let body = json!({ "message": format!("Add file {number}"), "content": "b25lIGxpbmUK" });
        let request = self.installation.request(&self.client, Method::PUT, &path).json(&body);
        let made = installation::created(request).await?;
        let accepted = Instant::now();
        let commit = made["commit"]["sha"].as_str().ok_or("no commit in the answer")?.to_owned();
        Ok(Push { commit, accepted })
    }
}

/// A clone from which git pushes.
pub(crate) struct WorkTree {
    folder: PathBuf,
    commits: u32,
}

impl WorkTree {
    /// Clones a repository into a new folder.
    pub(crate) async fn new(repository: &Repository, folder: PathBuf) -> Result<Self, Failure> {
        let url = repository.installation.remote(&repository.name);
        let target = folder.display().to_string();
        git::run(Path::new("/"), &["clone", "--quiet", &url, &target]).await?;
        Ok(Self { folder, commits: 0 })
    }

    /// Commits a change and pushes it.
    pub(crate) async fn push(&mut self) -> Result<Push, Failure> {
        self.commits += 1;
        std::fs::write(self.folder.join("pushed.txt"), format!("line {}\n", self.commits))?;
        git::run(&self.folder, &["add", "--all"]).await?;
        git::run(&self.folder, &["commit", "--quiet", "--message", "Change a line"]).await?;
        let commit = git::text(&self.folder, &["rev-parse", "HEAD"]).await?;
        git::run(&self.folder, &["push", "--quiet", "origin", "HEAD"]).await?;
        Ok(Push { commit, accepted: Instant::now() })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Hook {
    /// Below `/api/v1`.
    path: String,
}

impl Hook {
    /// Creates a hook for one event, below the path of its owner's hooks.
    pub(crate) async fn new(installation: &Installation, hooks: &str, url: &str, event: &str) -> Result<Self, Failure> {
        let config = json!({ "url": url, "content_type": "json", "secret": "it stays between us" });
        let body = json!({ "type": "native", "config": config, "events": [event], "active": true });
        let made: Value = installation.create(hooks, &body).await?;
        Ok(Self { path: format!("{hooks}/{}", id_of(&made)?) })
    }

    pub(crate) async fn delete(self, installation: &Installation, client: &Client) -> Result<(), Failure> {
        let answer = installation.request(client, Method::DELETE, &self.path).send().await?;
        if answer.status() == 204 { Ok(()) } else { Err(format!("DELETE {}: {}", self.path, answer.status()).into()) }
    }
}
