//! Squashes: one commit with all changes, and its co-authors.

use std::collections::HashSet;

use git2::{Oid, Repository};

use super::{Attempt, MergeDraft, MergeOutcome, three_way::ThreeWay};
use crate::{
    git::command::merge::CommitsToList,
    repo::{
        read,
        write::{Author, with_trailer},
    },
    types::error::GitError,
};

/// Maximum number of commits whose authors become co-authors of a squash: the newest.
pub const MAX_SQUASHED_COMMITS: usize = 1000;
/// Maximum number of co-authors of a squash.
pub const MAX_CO_AUTHORS: usize = 100;

impl Attempt<'_> {
    pub(super) async fn squash(&self, base: Oid, head: Oid, draft: &MergeDraft) -> Result<MergeOutcome, GitError> {
        draft.check()?;
        let (old_tree, _) = self.merger.trees(base, head).await?;
        let tree = match self.merge(base, head).await? {
            ThreeWay::Clean(tree) if tree == old_tree => return Err(GitError::NothingToMerge),
            ThreeWay::Clean(tree) => tree,
            ThreeWay::Conflicts(conflicts) => return Ok(MergeOutcome::Conflicts(conflicts)),
        };
        let commits = self.list_commits(base, head, CommitsToList::All, MAX_SQUASHED_COMMITS).await?;
        let commits = commits.into_iter().map(|(id, _)| id).collect();
        let trailers = self.co_authors(commits, &draft.author).await?;
        let message = co_authored(&draft.message, &trailers);
        let draft = MergeDraft { message, ..draft.clone() };
        draft.check()?;
        self.finish(vec![tree], vec![draft.commit(tree, &[base])?]).await
    }

    /// Returns the authors of the commits but `author`, as trailers, those of the oldest commits
    /// first.
    async fn co_authors(&self, commits: Vec<Oid>, author: &Author) -> Result<Vec<String>, GitError> {
        let own = address(&author.identity());
        let read = move |repo: &Repository| {
            let (mut seen, mut trailers) = (HashSet::from([own.clone()]), Vec::new());
            for id in &commits {
                let signature = read::commit_info(repo, *id)?.author;
                let identity = Author::new(&signature.name, &signature.email, 0).identity();
                if seen.insert(address(&identity)) {
                    trailers.push(format!("Co-authored-by: {identity}"));
                }
                if trailers.len() >= MAX_CO_AUTHORS {
                    break;
                }
            }
            Ok(trailers)
        };
        self.merger.pool.run(self.merger.repository, read).await
    }
}

/// Returns what is equal for one person: the address without regard to case.
fn address(identity: &str) -> String {
    identity.rsplit_once('<').map_or(identity, |(_, address)| address).to_lowercase()
}

/// Adds trailers to a message, except those that it has.
fn co_authored(message: &str, trailers: &[String]) -> String {
    let new = trailers.iter().filter(|trailer| !message.lines().any(|line| line.eq_ignore_ascii_case(trailer)));
    new.fold(message.to_owned(), |message, trailer| with_trailer(&message, trailer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_follow_those_of_the_message() {
        let trailers = ["Co-authored-by: A <a@x>".to_owned(), "Co-authored-by: B <b@x>".to_owned()];
        assert_eq!(co_authored("One (#1)\n", &[]), "One (#1)\n");
        let both = "Co-authored-by: A <a@x>\nCo-authored-by: B <b@x>\n";
        assert_eq!(co_authored("One (#1)", &trailers), format!("One (#1)\n\n{both}"));
        let given = "One\n\nText.\n\nFixes: #2\nCo-authored-by: b <B@x>\n";
        let expected = "One\n\nText.\n\nFixes: #2\nCo-authored-by: b <B@x>\nCo-authored-by: A <a@x>\n";
        assert_eq!(co_authored(given, &trailers), expected);
    }
}
