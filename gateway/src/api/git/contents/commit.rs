//! The commit in responses to changes of files, for clients of Gogs and of Gitea. Both have
//! `author` and `committer`: of Gogs they are accounts, of Gitea the people in git.

use ferrite_api_types::{Time, User, Visibility, shape};
use serde::Serialize;

use crate::api::git::commits::{Commit, CommitData, Reference, Signature};

shape! {
    /// The commit of a change of files.
    #[derive(Clone, Debug, Serialize)]
    pub(super) struct FileCommit {
        url: String,
        sha: String,
        /// The commit time, under Gitea's name.
        created: Time,
        html_url: String,
        message: String,
        tree: Reference,
        commit: CommitData,
        author: Person,
        committer: Person,
        parents: Vec<Reference>,
        /// Whether the message is cut. Present only if true.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
    }
}

shape! {
    /// The author or committer in git, with the account that has the address.
    #[derive(Clone, Debug, Serialize)]
    struct Person {
        name: String,
        email: String,
        date: Time,
        #[serde(flatten)]
        account: Option<PersonAccount>,
    }
}

shape! {
    /// What a user has besides the address. Absent if no account has the address.
    #[derive(Clone, Debug, Serialize)]
    struct PersonAccount {
        id: i64,
        username: String,
        login: String,
        full_name: String,
        avatar_url: String,
        visibility: Visibility,
    }
}

impl Person {
    fn new(signature: &Signature, account: Option<User>) -> Self {
        let Signature { name, email, date } = signature.clone();
        Self { name, email, date, account: account.map(PersonAccount::from) }
    }
}

impl From<User> for PersonAccount {
    fn from(user: User) -> Self {
        let User { id, username, login, full_name, email: _, avatar_url, visibility } = user;
        Self { id, username, login, full_name, avatar_url, visibility }
    }
}

impl From<Commit> for FileCommit {
    fn from(commit: Commit) -> Self {
        Self {
            url: commit.url,
            sha: commit.sha,
            created: commit.created,
            html_url: commit.html_url,
            message: commit.commit.message.clone(),
            tree: commit.commit.tree.clone(),
            author: Person::new(&commit.commit.author, commit.author),
            committer: Person::new(&commit.commit.committer, commit.committer),
            commit: commit.commit,
            parents: commit.parents,
            truncated: commit.truncated,
        }
    }
}
