//! The first commit of a repository: a README, and optionally a .gitignore and a licence.

use git2::{ObjectType, Oid, Repository};

use super::signature::{Author, commit_content};
use crate::{
    repo::templates::{self, ReadmeValues},
    types::error::GitError,
};

/// The contents of a first commit.
#[derive(Clone, Debug)]
pub struct InitialCommit {
    /// Author and committer.
    pub author: Author,
    /// Names of .gitignore templates, in order.
    pub gitignores: Vec<String>,
    /// The name of a licence; empty for none.
    pub license: String,
    /// The name of a README template; empty for `Default`.
    pub readme: String,
    /// Values of the README's placeholders.
    pub values: ReadmeValues,
}

impl InitialCommit {
    /// Returns names and texts of the files, in git's order.
    pub fn files(&self) -> Result<Vec<(&'static str, String)>, GitError> {
        let mut files = Vec::new();
        if self.gitignores.iter().any(|name| !name.trim().is_empty()) {
            files.push((".gitignore", templates::gitignore(&self.gitignores)?));
        }
        if !self.license.is_empty() {
            let year = templates::year(self.author.seconds());
            files.push(("LICENSE", templates::license(&self.license, year, self.author.name())?));
        }
        files.push(("README.md", templates::readme(&self.readme, &self.values)?));
        Ok(files)
    }
}

/// Writes the commit.
/// [`RepositoryStore::create`](crate::disk::repositories::RepositoryStore::create) sets the branch
/// and syncs.
pub fn initial_commit(repo: &Repository, first: &InitialCommit) -> Result<Oid, GitError> {
    let mut builder = repo.treebuilder(None)?;
    for (name, text) in first.files()? {
        let blob = repo.blob(text.as_bytes())?;
        builder.insert(name, blob, 0o100_644)?;
    }
    let tree = builder.write()?;
    let content = commit_content(tree, &[], (&first.author, &first.author), "Initial commit\n");
    Ok(repo.odb()?.write(ObjectType::Commit, content.as_bytes())?)
}
