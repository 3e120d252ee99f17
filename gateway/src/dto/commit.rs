use ferrite_proto::git;
use serde::Serialize;

use ferrite_api_types::convert::{MissingField, require, text, time};
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::{Accounts, User};

/// A commit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Commit {
    url: String,
    sha: String,
    html_url: String,
    commit: CommitData,
    author: Option<User>,
    committer: Option<User>,
    parents: Vec<Reference>,
    /// Only where it is true.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Clone, Debug, Serialize)]
struct CommitData {
    url: String,
    message: String,
    author: Signature,
    committer: Signature,
    tree: Reference,
}

#[derive(Clone, Debug, Serialize)]
struct Signature {
    name: String,
    email: String,
    date: String,
}

#[derive(Clone, Debug, Serialize)]
struct Reference {
    url: String,
    sha: String,
}

impl Signature {
    fn new(signature: &git::CommitSignature) -> Result<Self, MissingField> {
        Ok(Self { name: text(&signature.name), email: text(&signature.email), date: time(signature.time, "time")? })
    }
}

impl Commit {
    pub(crate) fn new(commit: git::Commit, accounts: &Accounts, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let author = require(commit.author, "author")?;
        let committer = require(commit.committer, "committer")?;
        let url = urls.commit(&commit.id);
        let parent = |sha: String| Reference { url: urls.commit(&sha), sha };
        Ok(Self {
            url: url.clone(),
            html_url: urls.commit_html(&commit.id),
            sha: commit.id,
            author: accounts.by_email(&author.email).cloned(),
            committer: accounts.by_email(&committer.email).cloned(),
            parents: commit.parent_ids.into_iter().map(parent).collect(),
            truncated: commit.is_truncated,
            commit: CommitData {
                url,
                message: text(&commit.message),
                author: Signature::new(&author)?,
                committer: Signature::new(&committer)?,
                tree: Reference { url: urls.tree(&commit.tree_id), sha: commit.tree_id },
            },
        })
    }
}
