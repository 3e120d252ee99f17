//! Commits, and the branches and tags that point to them. Branches have the commit in the shape of push payloads.

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

/// A branch.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Branch {
    name: String,
    commit: PayloadCommit,
    protected: bool,
}

/// A tag and its commit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Tag {
    name: String,
    commit: PayloadCommit,
}

/// A commit in the shape of branches and push payloads.
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

impl Branch {
    pub(crate) fn new(branch: git::Branch, accounts: &Accounts, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let commit = PayloadCommit::new(branch.commit, accounts, urls)?;
        Ok(Self { name: text(&branch.name), commit, protected: branch.is_protected })
    }
}

impl LongTexts for Branch {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        visit(&mut self.commit.message, &mut self.commit.truncated);
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

#[cfg(test)]
mod tests {
    use ferrite_proto::repo;

    use super::*;
    use ferrite_api_types::links::Links;

    fn signature(email: &[u8]) -> Option<git::CommitSignature> {
        let time = Some(prost_types::Timestamp { seconds: 1_767_315_845, nanos: 0 });
        Some(git::CommitSignature { name: b"Bob \xff".to_vec(), email: email.to_vec(), time })
    }

    fn commit() -> git::Commit {
        git::Commit {
            id: "c".repeat(40),
            tree_id: "7".repeat(40),
            parent_ids: vec!["a".repeat(40)],
            message: b"First line\n\nMore\n".to_vec(),
            author: signature(b"Bob@example.com"),
            committer: signature(b"unknown@example.com"),
            is_truncated: false,
        }
    }

    fn accounts(links: &Links) -> Accounts {
        let user = repo::User { id: 2, username: "bob".into(), ..Default::default() };
        let mut accounts = Accounts::default();
        let user_id_by_email = [("Bob@example.com".to_owned(), 2)].into();
        accounts.add(repo::GetUsersResponse { users: vec![user], user_id_by_email }, links);
        accounts
    }

    #[test]
    fn a_commit_has_its_own_tree_and_its_whole_message() {
        let links = Links::new("http://h", "h:22");
        let shown = Commit::new(commit(), &accounts(&links), &links.repository("bob", "demo")).unwrap();
        let value = serde_json::to_value(shown).unwrap();
        assert_eq!(value["commit"]["message"], "First line\n\nMore\n");
        assert_eq!(value["commit"]["tree"]["sha"], "7".repeat(40));
        assert_eq!(value["url"], format!("http://h/api/v1/repos/bob/demo/commits/{}", "c".repeat(40)));
        assert_eq!(value["author"]["username"], "bob");
        assert!(value["committer"].is_null());
        assert_eq!(value["commit"]["author"]["date"], "2026-01-02T01:04:05Z");
        assert_eq!(value["parents"][0]["sha"], "a".repeat(40));
        assert!(value.get("truncated").is_none());
        let cut = git::Commit { is_truncated: true, ..commit() };
        let shown = Commit::new(cut, &accounts(&links), &links.repository("bob", "demo")).unwrap();
        assert_eq!(serde_json::to_value(shown).unwrap()["truncated"], true);
    }

    #[test]
    fn a_branch_has_empty_lists_and_the_author_date() {
        let links = Links::new("http://h", "h:22");
        let branch = git::Branch { name: b"feature/one".to_vec(), commit: Some(commit()), is_protected: true };
        let value =
            serde_json::to_value(Branch::new(branch, &accounts(&links), &links.repository("bob", "demo")).unwrap())
                .unwrap();
        assert_eq!(value["name"], "feature/one");
        assert_eq!(value["protected"], true);
        assert_eq!(value["commit"]["added"], serde_json::json!([]));
        assert_eq!(value["commit"]["timestamp"], "2026-01-02T01:04:05Z");
        assert_eq!(value["commit"]["author"]["username"], "bob");
        assert_eq!(value["commit"]["committer"]["username"], "");
    }
}
