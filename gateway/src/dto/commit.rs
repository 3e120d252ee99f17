//! Commits, and the tags that point to them. Tags have the commit in the shape of push payloads.

use ferrite_proto::git;
use serde::Serialize;

use ferrite_api_types::convert::{MissingField, require, text, time};
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::{Accounts, LongTexts, User};

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
pub(super) struct Signature {
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
    pub(super) fn new(signature: &git::CommitSignature) -> Result<Self, MissingField> {
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

impl LongTexts for Commit {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        visit(&mut self.commit.message, &mut self.truncated);
    }
}

/// A tag and its commit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Tag {
    name: String,
    commit: PayloadCommit,
}

/// A commit in the shape of push payloads.
#[derive(Clone, Debug, Serialize)]
struct PayloadCommit {
    id: String,
    message: String,
    url: String,
    author: PayloadUser,
    committer: PayloadUser,
    added: [String; 0],
    removed: [String; 0],
    modified: [String; 0],
    timestamp: String,
    /// Only where it is true.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Clone, Debug, Serialize)]
struct PayloadUser {
    name: String,
    email: String,
    username: String,
}

impl PayloadUser {
    fn new(signature: &git::CommitSignature, accounts: &Accounts) -> Self {
        let username = accounts.by_email(&signature.email).map(|user| user.username.clone()).unwrap_or_default();
        Self { name: text(&signature.name), email: text(&signature.email), username }
    }
}

impl PayloadCommit {
    fn new(commit: Option<git::Commit>, accounts: &Accounts, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let commit = require(commit, "commit")?;
        let author = require(commit.author, "author")?;
        let committer = require(commit.committer, "committer")?;
        Ok(Self {
            url: urls.commit_html(&commit.id),
            id: commit.id,
            message: text(&commit.message),
            author: PayloadUser::new(&author, accounts),
            committer: PayloadUser::new(&committer, accounts),
            added: [],
            removed: [],
            modified: [],
            timestamp: time(author.time, "time")?,
            truncated: commit.is_truncated,
        })
    }
}

impl LongTexts for Tag {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        visit(&mut self.commit.message, &mut self.commit.truncated);
    }
}

impl Tag {
    pub(crate) fn new(tag: git::Tag, accounts: &Accounts, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        Ok(Self { name: text(&tag.name), commit: PayloadCommit::new(tag.commit, accounts, urls)? })
    }
}
