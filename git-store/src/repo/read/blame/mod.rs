//! Finds the commit that last changed each line of a file, with `git blame`.

mod parse;

use std::{collections::BTreeSet, path::Path};

use git2::{Oid, Repository};

use self::parse::BlameParser;
pub use self::parse::{BlameRange, Previous};
use super::{
    commit_paths::Kept,
    commit_summary::CommitSummary,
    contents::find,
    diff::process::{DEFAULT_LIMITS, End, Stop, read},
    entry::{EntryKind, is_binary, read_blob},
};
use crate::{
    git::command::Git,
    repo::{deltas::LoadCheck, objects, revision::Revision},
    types::{error::GitError, path::TreePath},
};

/// Largest file, in bytes.
pub const MAX_BLAMED_BYTES: u64 = 1 << 20;
/// Maximum number of lines.
pub const MAX_BLAMED_LINES: usize = 20_000;
/// Maximum number of commits that the lines are from.
pub const MAX_BLAMED_COMMITS: usize = 5000;

/// A file to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlamedFile {
    /// The commit that has it.
    pub commit: Oid,
    /// The number of its lines.
    pub lines: u32,
}

/// The lines of a file with the commits that last changed them.
#[derive(Debug)]
pub struct Blame {
    /// The lines, in order.
    pub ranges: Vec<BlameRange>,
    /// The commits of the ranges, each once.
    pub commits: Vec<CommitSummary>,
}

impl Kept for Blame {
    fn bytes(&self) -> usize {
        self.ranges.iter().map(BlameRange::bytes).sum::<usize>()
            + self.commits.iter().map(CommitSummary::bytes).sum::<usize>()
    }
}

/// Looks for a file to blame.
///
/// # Errors
/// `RevisionNotFound`, `PathNotFound`, and `Invalid` for `file` if it is no text or too large.
pub fn blamed_file(repo: &Repository, revision: &Revision, path: &TreePath) -> Result<BlamedFile, GitError> {
    let commit = revision.resolve(repo)?.commit;
    let found = find(repo, &objects::tree_of(repo, commit)?, path)?;
    let (mode, id) = found.ok_or(GitError::PathNotFound)?;
    let invalid = |message: &str| Err(GitError::invalid("file", "invalid", message));
    if EntryKind::of(mode) != EntryKind::File {
        return invalid("must be a file");
    }
    let (_, content) = read_blob(&LoadCheck::new(repo), id, MAX_BLAMED_BYTES)?;
    let too_large = |message: &str| GitError::invalid("file", "too_large", message);
    let content = content.ok_or_else(|| too_large("must have at most 1 MiB"))?;
    if is_binary(&content) {
        return invalid("must be a text, not a binary file");
    }
    let lines = content.split_inclusive(|byte| *byte == b'\n').count();
    let lines = u32::try_from(lines).ok().filter(|_| lines <= MAX_BLAMED_LINES);
    Ok(BlamedFile { commit, lines: lines.ok_or_else(|| too_large("must have at most 20,000 lines"))? })
}

/// Blames the lines of a file, in order.
///
/// # Errors
/// `RepositoryNotFound`, `TimedOut`, `TooLarge` for too long paths, `Command` if git fails, and
/// `Internal` if the output is malformed.
pub async fn read_blame(
    git: &Git,
    repository: &Path,
    file: BlamedFile,
    path: &TreePath,
) -> Result<Vec<BlameRange>, GitError> {
    if file.lines == 0 {
        return Ok(Vec::new());
    }
    let child = git.blame(repository, file.commit, path)?;
    let mut parser = BlameParser::default();
    let end = read(child, &[], DEFAULT_LIMITS, |bytes| parser.feed(bytes).map_err(Stop::Error)).await?;
    match end {
        End::Complete => parser.finish(file.lines),
        End::Cut => Err(GitError::TimedOut { what: "the blame" }),
        End::Failed(error) => Err(error),
    }
}

/// Reads the commits of a blame.
///
/// # Errors
/// `TooLarge` above [`MAX_BLAMED_COMMITS`].
pub fn blamed_commits(repo: &Repository, ids: &BTreeSet<Oid>) -> Result<Vec<CommitSummary>, GitError> {
    if ids.len() > MAX_BLAMED_COMMITS {
        let what = "the number of commits that the lines are from";
        return Err(GitError::TooLarge { what, limit: MAX_BLAMED_COMMITS as u64 });
    }
    CommitSummary::read_all(repo, ids)
}
