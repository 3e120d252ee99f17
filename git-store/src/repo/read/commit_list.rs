//! Reads the commits of a page. Each is limited, and so is the page: if it is too large, the
//! longest messages are cut further.

use git2::{Oid, Repository};

use super::commit::{CommitBounds, CommitInfo, bounded_commit, unreadable_commit};
use crate::{repo::text::json_bytes, types::error::GitError};

/// Longest message, in bytes.
pub const MAX_LISTED_MESSAGE_BYTES: usize = 64 << 10;
/// Maximum number of parents per commit.
pub const MAX_LISTED_PARENTS: usize = 100;
/// Longest name or address, in bytes.
const MAX_IDENTITY_BYTES: usize = 256;
/// Maximum size of the texts of a page, in bytes of JSON.
pub(super) const MAX_TEXT_BYTES: usize = 8 << 20;
/// Message bytes that every commit gets however long the others are. 1,000 of these fit on a page.
const MIN_MESSAGE_BYTES: usize = 256;

pub(super) struct CommitList {
    commits: Vec<CommitInfo>,
    bounds: CommitBounds,
    bytes: usize,
}

impl CommitList {
    fn new() -> Self {
        let bounds = CommitBounds {
            message_bytes: MAX_LISTED_MESSAGE_BYTES,
            parents: MAX_LISTED_PARENTS,
            identity_bytes: MAX_IDENTITY_BYTES,
        };
        Self { commits: Vec::new(), bounds, bytes: 0 }
    }

    /// Reads commits. For an oversized one with unreadable fields, only the id is known.
    pub(super) fn read(repo: &Repository, ids: impl IntoIterator<Item = Oid>) -> Result<Vec<CommitInfo>, GitError> {
        let mut list = Self::new();
        for id in ids {
            let commit = match bounded_commit(repo, id, &list.bounds) {
                Err(error) if error.is_unreadable() => unreadable_commit(id),
                commit => commit?,
            };
            list.push(commit);
        }
        Ok(list.commits)
    }

    fn push(&mut self, mut commit: CommitInfo) {
        commit.truncate(&self.bounds);
        self.bytes += text_bytes(&commit);
        self.commits.push(commit);
        while self.bytes > MAX_TEXT_BYTES && self.bounds.message_bytes > MIN_MESSAGE_BYTES {
            self.bounds.message_bytes /= 2;
            self.commits.iter_mut().for_each(|commit| commit.truncate(&self.bounds));
            self.bytes = self.commits.iter().map(text_bytes).sum();
        }
    }
}

fn text_bytes(commit: &CommitInfo) -> usize {
    let people = [&commit.author, &commit.committer]
        .map(|person| json_bytes(person.name.as_bytes()) + json_bytes(person.email.as_bytes()));
    json_bytes(commit.message.as_bytes()) + people.into_iter().sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(messages: impl IntoIterator<Item = String>) -> CommitList {
        let mut list = CommitList::new();
        for message in messages {
            list.push(CommitInfo { message, is_truncated: false, ..unreadable_commit(Oid::ZERO_SHA1) });
        }
        list
    }

    #[test]
    fn messages_are_whole_as_long_as_the_page_has_room() {
        let page = list((0..100).map(|_| "m".repeat(60_000)));
        assert!(page.commits.iter().all(|commit| !commit.is_truncated && commit.message.len() == 60_000));
    }

    #[test]
    fn the_longest_messages_are_cut_when_a_page_is_full() {
        let page =
            list((0..100).map(|index| if index < 50 { "<" } else { "m" }.repeat(60_000)).chain(["short".to_owned()]));
        assert!(page.bytes <= MAX_TEXT_BYTES, "{}", page.bytes);
        let last = page.commits.last().unwrap();
        assert_eq!((last.message.as_str(), last.is_truncated), ("short", false));
        assert!(page.commits[0].is_truncated && page.commits[0].message.len() > 10_000);
        let page = list((0..1000).map(|_| "<".repeat(60_000)));
        assert!(page.bytes <= MAX_TEXT_BYTES, "{}", page.bytes);
    }
}
