//! Commits in short, as lists of files and blames show them.

use std::collections::BTreeSet;

use git2::{Oid, Repository};

use super::commit::{CommitBounds, Signature, bounded_commit, unreadable_commit};
use crate::{repo::text, types::error::GitError};

/// Longest subject, in bytes.
const MAX_SUBJECT_BYTES: usize = 256;
/// Bytes of a message in which the subject is looked for: blank lines may precede it.
const MAX_MESSAGE_BYTES: usize = 1024;
/// Longest name or address, in bytes.
const MAX_IDENTITY_BYTES: usize = 256;

/// A commit in short. All but the id is empty if it cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitSummary {
    /// The commit's id.
    pub id: Oid,
    /// The first line of the message.
    pub subject: String,
    /// The author.
    pub author: Signature,
    /// The commit time in seconds since 1970.
    pub commit_seconds: i64,
}

impl CommitSummary {
    /// Reads a commit.
    pub(super) fn read(repo: &Repository, id: Oid) -> Result<Self, GitError> {
        let bounds = CommitBounds { message_bytes: MAX_MESSAGE_BYTES, parents: 0, identity_bytes: MAX_IDENTITY_BYTES };
        let commit = match bounded_commit(repo, id, &bounds) {
            Err(error) if error.is_unreadable() => unreadable_commit(id),
            commit => commit?,
        };
        let mut subject = commit.message.trim_start().lines().next().unwrap_or_default().trim_end().to_owned();
        text::truncate(&mut subject, MAX_SUBJECT_BYTES);
        Ok(Self { id, subject, author: commit.author, commit_seconds: commit.committer.seconds })
    }

    /// Reads commits.
    pub(super) fn read_all(repo: &Repository, ids: &BTreeSet<Oid>) -> Result<Vec<Self>, GitError> {
        ids.iter().map(|id| Self::read(repo, *id)).collect()
    }

    /// The memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.subject.len() + self.author.name.len() + self.author.email.len()
    }
}
