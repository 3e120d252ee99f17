//! Clients that continue as soon as they get a response: writers through the API, pushers, cloners,
//! readers, and creators of repositories.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferrite_benches::history::{MAIN, Random};
use ferrite_benches::installation::USER;
use ferrite_benches::{Failure, git};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::record::{Kind, Record};
use crate::site::{Account, REQUEST_TIMEOUT, Site};
use crate::{material, plain};

/// One in this many API writes goes to a path of the client, new at first.
const WRITES_PER_NEW_PATH: u64 = 8;
/// Paths per client and repository, so that trees do not keep growing.
const NEW_PATHS: u64 = 50;
/// Maximum number of files in a pushed commit.
const MAX_PUSHED_FILES: u64 = 5;
/// Pushes after which a client packs its own repository, which is not measured.
const PUSHES_PER_PACK: u64 = 100;
/// Characters of a response shown in a failure.
const MAX_ANSWER_CHARACTERS: usize = 200;

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) site: Arc<Site>,
    pub(crate) record: Arc<Record>,
    pub(crate) account: Account,
    /// Distinguishes the clients.
    pub(crate) number: u64,
}

/// Sends a request, which must succeed, and returns the body.
async fn send(request: RequestBuilder) -> Result<bytes::Bytes, Failure> {
    let answer = request.send().await?;
    let (path, status) = (answer.url().path().to_owned(), answer.status());
    let body = answer.bytes().await?;
    if status.is_success() {
        return Ok(body);
    }
    let text: String = String::from_utf8_lossy(&body).chars().take(MAX_ANSWER_CHARACTERS).collect();
    Err(format!("{path}: {status} {text}").into())
}

/// Runs git, which must succeed within the time limit of a request.
async fn git(folder: &Path, arguments: &[&str]) -> Result<Vec<u8>, Failure> {
    match tokio::time::timeout(REQUEST_TIMEOUT, git::run(folder, arguments)).await {
        Ok(result) => result,
        Err(_) => Err(format!("git {}: no end", arguments.first().unwrap_or(&"")).into()),
    }
}

impl Client {
    fn is_over(&self) -> bool {
        self.record.is_over()
    }

    fn random(&self) -> Random {
        Random::new(1_000 + self.number)
    }

    fn api(&self, repository: usize, rest: &str) -> String {
        format!("/repos/{USER}/{}{rest}", self.site.repositories[repository].name)
    }

    async fn timed<T>(&self, kind: Kind, request: impl Future<Output = Result<T, Failure>>) -> Option<T> {
        let begin = Instant::now();
        let result = request.await;
        self.record.note(kind, begin, result)
    }

    /// Writes a file to the main branch through the API.
    pub(crate) async fn put(&self, repository: usize, random: &mut Random, change: u64) {
        let file = random.below(self.site.files);
        let path = if change.is_multiple_of(WRITES_PER_NEW_PATH) {
            format!("new/client-{}/{}", self.number, material::path(change / WRITES_PER_NEW_PATH % NEW_PATHS))
        } else {
            material::path(file)
        };
        let content = STANDARD.encode(material::text(file, random.number()));
        let body = json!({ "message": format!("Change {path}"), "content": content, "branch": MAIN });
        let request =
            self.account.request(Method::PUT, &self.api(repository, &format!("/contents/{path}"))).json(&body);
        let answered = self.timed(Kind::Put, async {
            let answer: Value = serde_json::from_slice(&send(request).await?)?;
            Ok(answer["commit"]["sha"].as_str().ok_or("no commit in the answer")?.to_owned())
        });
        if let Some(commit) = answered.await {
            self.record.acknowledge((repository, MAIN.to_owned()), commit);
        }
    }

    /// Commits in a work tree and pushes the branch of the same name. A failed push is recorded,
    /// other failures are returned.
    pub(crate) async fn push(
        &self,
        repository: usize,
        tree: &Path,
        branch: &str,
        random: &mut Random,
    ) -> Result<(), Failure> {
        for _ in 0..1 + random.below(MAX_PUSHED_FILES) {
            let file = random.below(self.site.files);
            std::fs::write(tree.join(material::path(file)), material::text(file, random.number()))?;
        }
        git::run(tree, &["commit", "--quiet", "--all", "--message", "Change some files"]).await?;
        let commit = git::text(tree, &["rev-parse", "HEAD"]).await?;
        let remote = self.account.remote(&self.site.repositories[repository].name);
        let arguments = ["push", "--quiet", &remote, branch];
        if self.timed(Kind::Push, git(tree, &arguments)).await.is_some() {
            self.record.acknowledge((repository, branch.to_owned()), commit);
        }
        Ok(())
    }

    /// Writes files through the API.
    pub(crate) async fn write(self) -> Result<(), Failure> {
        let (mut random, mut change) = (self.random(), 0);
        while !self.is_over() {
            change += 1;
            let repository = random.index(self.site.repositories.len());
            self.put(repository, &mut random, change).await;
        }
        Ok(())
    }

    /// Pushes from these work trees to the client's branch in each repository.
    pub(crate) async fn push_all(self, branch: String, trees: Vec<PathBuf>) -> Result<(), Failure> {
        let (mut random, mut turn) = (self.random(), 0_u64);
        while !self.is_over() {
            turn += 1;
            let repository = random.index(trees.len());
            self.push(repository, &trees[repository], &branch, &mut random).await?;
            if turn.is_multiple_of(PUSHES_PER_PACK) {
                for tree in &trees {
                    git::run(tree, &["repack", "-adlq"]).await?;
                }
            }
        }
        Ok(())
    }

    /// Clones into a new folder each time, with plain git once there are copies.
    pub(crate) async fn clone_all(self) -> Result<(), Failure> {
        let (mut random, folder) = (self.random(), self.site.work.join(format!("clone-{}", self.number)));
        let target = folder.display().to_string();
        while !self.is_over() {
            let repository = random.index(self.site.repositories.len());
            if let Some(copy) = self.site.copy(repository) {
                self.record.note_plain(Kind::Clone, plain::clone(copy, &folder).await?);
                continue;
            }
            let remote = self.account.remote(&self.site.repositories[repository].name);
            self.timed(Kind::Clone, git(&self.site.work, &["clone", "--quiet", &remote, &target])).await;
            if folder.exists() {
                tokio::fs::remove_dir_all(&folder).await?;
            }
        }
        Ok(())
    }

    /// Reads everything in turn, including the archive of the newest commit: that one with plain
    /// git once there are copies.
    pub(crate) async fn read(self) -> Result<(), Failure> {
        let (mut random, archive) = (self.random(), self.site.work.join(format!("archive-{}", self.number)));
        while !self.is_over() {
            let repository = random.index(self.site.repositories.len());
            let file = material::path(random.below(self.site.files));
            let small = [
                String::new(),
                format!("/contents/{file}"),
                format!("/raw/{MAIN}/{file}"),
                "/commits?limit=50".to_owned(),
                format!("/git/trees/{MAIN}?recursive=1"),
            ];
            for rest in small {
                let request = self.account.request(Method::GET, &self.api(repository, &rest));
                self.timed(Kind::Read, send(request)).await;
            }
            if let Some(copy) = self.site.copy(repository) {
                self.record.note_plain(Kind::Archive, plain::archive(copy, &archive).await?);
                continue;
            }
            let path = self.api(repository, &format!("/archive/{MAIN}.tar.gz"));
            self.timed(Kind::Archive, send(self.account.request(Method::GET, &path))).await;
        }
        Ok(())
    }

    /// Creates a repository, writes its first file and deletes it.
    pub(crate) async fn create_and_delete(self) -> Result<(), Failure> {
        let mut turn = 0_u64;
        while !self.is_over() {
            turn += 1;
            let name = format!("short-lived-{turn}");
            let request = self.account.request(Method::POST, "/user/repos").json(&json!({ "name": name }));
            if self.timed(Kind::CreateDelete, send(request)).await.is_none() {
                continue;
            }
            let path = format!("/repos/{}/{name}", self.account.name);
            let body = json!({ "message": "First file", "content": STANDARD.encode(material::text(turn, 0)) });
            let request = self.account.request(Method::PUT, &format!("{path}/contents/README.md")).json(&body);
            self.timed(Kind::CreateDelete, send(request)).await;
            self.timed(Kind::CreateDelete, send(self.account.request(Method::DELETE, &path))).await;
        }
        Ok(())
    }
}
