//! Reads the commits that an update brought to a branch: those that its new end has and its old end has not.
//!
//! As in `git rev-list`, the walk goes back by commit time from both ends at once, and ends soon after it has left the new commits. So
//! a small update of a long history costs little. Commits whose clocks were far behind can show up although the old end has them.
//!
//! Not here: the meaning of the messages.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use git2::{ObjectType, Oid, Repository};

use super::{
    commit::{CommitBounds, bounded_commit, time_and_parents},
    deadline::Deadline,
};
use crate::{repo::objects, types::error::GitError};

/// Most commits of one response.
pub const MAX_PUSHED_COMMITS: usize = 1000;
/// Most bytes of one message in a response.
const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// Most bytes of all messages of a response of 2 MiB, which has up to 64 bytes of each commit besides.
const MAX_MESSAGES_BYTES: usize = (2 << 20) - 64 * MAX_PUSHED_COMMITS;
/// Bounds of a commit of which the message is read alone.
const BOUNDS: CommitBounds = CommitBounds { message_bytes: MAX_MESSAGE_BYTES, parents: 0, identity_bytes: 0 };
/// Most commits that one walk reads.
pub(super) const MAX_READ_COMMITS: usize = 100_000;
/// Most parents of all commits that one walk reads.
const MAX_READ_PARENTS: usize = 1_000_000;
/// Commits that a walk visits after it seems to be complete, for commits whose clocks were behind. As many as in git.
const SLACK_COMMITS: usize = 5;

/// A commit with the beginning of its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushedCommit {
    /// The commit's id.
    pub id: Oid,
    /// The message.
    pub message: String,
}

/// Reads the newest `limit` commits that `new` has and `old` has not, each after its parents. An `old` that is no commit has none.
///
/// A message gets at most 64 KiB, and at most an even share of what the messages before it left of the whole response.
///
/// # Errors
/// `CommitNotFound` if `new` is no commit, and those of [`Deadline::check`].
pub fn pushed_commits(
    repo: &Repository,
    old: Oid,
    new: Oid,
    limit: usize,
    deadline: &Deadline,
) -> Result<Vec<PushedCommit>, GitError> {
    if !is_commit(repo, new)? {
        return Err(GitError::CommitNotFound);
    }
    let mut walk = Walk::new(repo, deadline, limit, MAX_READ_COMMITS);
    walk.run(new, is_commit(repo, old)?.then_some(old))?;
    with_messages(repo, &walk.oldest_first())
}

/// The commits that an update brought to a branch.
#[derive(Default)]
pub(super) struct NewCommits {
    /// The newest of them, each before its parents.
    pub(super) newest: Vec<Oid>,
    /// Number of all.
    pub(super) total: usize,
    /// Number of commits that the walk read.
    pub(super) read: usize,
}

/// Returns the newest `limit` commits that `new` has and none of `old` has, and the number of all, after reading at most `max_read`
/// commits. `new` and `old` are commits.
///
/// # Errors
/// Those of [`Deadline::check`] and of libgit2.
pub(super) fn new_commits(
    repo: &Repository,
    old: impl IntoIterator<Item = Oid>,
    new: Oid,
    (limit, max_read): (usize, usize),
    deadline: &Deadline,
) -> Result<NewCommits, GitError> {
    let mut walk = Walk::new(repo, deadline, usize::MAX, max_read.clamp(1, MAX_READ_COMMITS));
    walk.run(new, old)?;
    let mut newest = walk.oldest_first();
    newest.reverse();
    newest.truncate(limit);
    Ok(NewCommits { newest, total: walk.visited_new, read: walk.seen.len() })
}

/// Returns whether a walk shows that `new` has the commit `old`. Both are commits.
///
/// # Errors
/// Those of [`Deadline::check`] and of libgit2.
pub fn has_ancestor(repo: &Repository, new: Oid, old: Oid, deadline: &Deadline) -> Result<bool, GitError> {
    Ok(new_commits(repo, [new], old, (0, MAX_READ_COMMITS), deadline)?.total == 0)
}

/// Returns whether there is a commit with this id.
fn is_commit(repo: &Repository, id: Oid) -> Result<bool, GitError> {
    match objects::read_header(repo, id) {
        Ok((kind, _)) => Ok(kind == ObjectType::Commit),
        Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Commits by time; of those with the same time, the one that was found first comes first.
type ByTime = BinaryHeap<(i64, Reverse<usize>, Oid)>;

/// A walk back from the new and the old end of a branch.
struct Walk<'a> {
    repo: &'a Repository,
    deadline: &'a Deadline,
    limit: usize,
    /// Commits that the walk reads. Those beyond count as missing.
    max_read: usize,
    /// Parents that the walk may still keep. Those beyond count as missing, too.
    parents_left: usize,
    queue: ByTime,
    /// Commits of the queue that the old end has not, as far as known.
    queued_new: usize,
    seen: HashMap<Oid, Seen>,
    /// Commits that the old end was not known to have when they were visited, newest first.
    visited: Vec<Oid>,
    /// Number of these that are not known as old since.
    visited_new: usize,
    /// Time of the commit that was visited last.
    time: i64,
    /// Time of the last of the newest `limit` of the new commits, or earlier.
    last_time: i64,
}

/// A commit that the walk has read.
struct Seen {
    time: i64,
    parents: Vec<Oid>,
    /// True if the old end has the commit.
    is_old: bool,
    is_queued: bool,
}

impl<'a> Walk<'a> {
    fn new(repo: &'a Repository, deadline: &'a Deadline, limit: usize, max_read: usize) -> Self {
        Self {
            repo,
            deadline,
            limit,
            max_read,
            parents_left: MAX_READ_PARENTS,
            queue: BinaryHeap::new(),
            queued_new: 0,
            seen: HashMap::new(),
            visited: Vec::new(),
            visited_new: 0,
            time: i64::MAX,
            last_time: i64::MAX,
        }
    }

    /// Queues a commit, unless it was queued before; then it only becomes an old one if `is_old`.
    fn push(&mut self, id: Oid, is_old: bool) -> Result<(), GitError> {
        if self.seen.contains_key(&id) {
            if is_old {
                self.mark_old(id);
            }
            return Ok(());
        }
        if self.seen.len() >= self.max_read {
            return Ok(());
        }
        self.deadline.check()?;
        let (time, mut parents) = time_and_parents(self.repo, id)?;
        parents.truncate(self.parents_left);
        self.parents_left -= parents.len();
        self.queue.push((time, Reverse(self.seen.len()), id));
        self.queued_new += usize::from(!is_old);
        self.seen.insert(id, Seen { time, parents, is_old, is_queued: true });
        Ok(())
    }

    /// Marks a commit as old, and its ancestors that were visited before it was known to be old.
    fn mark_old(&mut self, id: Oid) {
        let mut ids = vec![id];
        while let Some(id) = ids.pop() {
            let Some(seen) = self.seen.get_mut(&id).filter(|seen| !seen.is_old) else { continue };
            seen.is_old = true;
            if seen.is_queued {
                self.queued_new -= 1;
            } else {
                ids.extend(&seen.parents);
                self.visited_new -= 1;
                self.last_time = self.time;
            }
        }
    }

    /// Visits commits until the newest `limit` of those are known that `new` has and none of `old` has.
    fn run(&mut self, new: Oid, old: impl IntoIterator<Item = Oid>) -> Result<(), GitError> {
        self.push(new, false)?;
        let mut old = old.into_iter();
        let (first, second) = (old.next(), old.next());
        for id in first.into_iter().chain(second).chain(old) {
            self.push(id, true)?;
        }
        let only_old = first.filter(|_| second.is_none());
        let mut is_line = true;
        let mut slack = SLACK_COMMITS;
        while slack > 0
            && let Some((time, _, id)) = self.queue.pop()
        {
            let Some(seen) = self.seen.get_mut(&id) else { continue };
            seen.is_queued = false;
            let (is_old, parents) = (seen.is_old, seen.parents.clone());
            self.time = time;
            if !is_old {
                self.queued_new -= 1;
                self.visited_new += 1;
                self.visited.push(id);
                if self.visited_new <= self.limit {
                    self.last_time = time;
                }
                is_line &= parents.len() == 1;
                if is_line && parents.first() == only_old.as_ref() {
                    // Every new commit has the old end, which therefore has none of them, whatever their times.
                    break;
                }
            }
            for parent in parents {
                self.push(parent, is_old)?;
            }
            let is_enough = self.queued_new == 0 || self.visited_new >= self.limit;
            if is_enough && self.queue.len() == self.queued_new {
                // No old commit is left from which a visited one could be reached.
                break;
            }
            let is_beyond = self.queue.peek().is_none_or(|(time, ..)| *time < self.last_time);
            slack = if is_enough && is_beyond { slack - 1 } else { SLACK_COMMITS };
        }
        Ok(())
    }

    /// Returns the newest `limit` of the new commits, each after its parents.
    fn oldest_first(&self) -> Vec<Oid> {
        let new =
            || self.visited.iter().filter_map(|id| Some((*id, self.seen.get(id)?))).filter(|(_, seen)| !seen.is_old);
        let mut children: HashMap<Oid, usize> = new().map(|(id, _)| (id, 0)).collect();
        for parent in new().flat_map(|(_, seen)| &seen.parents) {
            if let Some(count) = children.get_mut(parent) {
                *count += 1;
            }
        }
        let mut ready: ByTime = new()
            .enumerate()
            .filter(|(_, (id, _))| children.get(id) == Some(&0))
            .map(|(index, (id, seen))| (seen.time, Reverse(index), id))
            .collect();
        let mut order = Vec::new();
        while let Some((_, _, id)) = ready.pop() {
            order.push(id);
            for parent in self.seen.get(&id).into_iter().flat_map(|seen| &seen.parents) {
                let (Some(count), Some(seen)) = (children.get_mut(parent), self.seen.get(parent)) else { continue };
                *count -= 1;
                if *count == 0 {
                    ready.push((seen.time, Reverse(children.len() + order.len()), *parent));
                }
            }
        }
        order.truncate(self.limit);
        order.reverse();
        order
    }
}

/// Reads the messages of commits.
fn with_messages(repo: &Repository, ids: &[Oid]) -> Result<Vec<PushedCommit>, GitError> {
    let mut bytes_left = MAX_MESSAGES_BYTES;
    let mut commits = Vec::with_capacity(ids.len());
    for (index, id) in ids.iter().enumerate() {
        let share = bytes_left / (ids.len() - index);
        let max_bytes = share.min(MAX_MESSAGE_BYTES);
        let message = match bounded_commit(repo, *id, &CommitBounds { message_bytes: max_bytes, ..BOUNDS }) {
            Err(error) if error.is_unreadable() => String::new(),
            commit => commit?.message,
        };
        bytes_left -= message.len();
        commits.push(PushedCommit { id: *id, message });
    }
    Ok(commits)
}

/// Returns the beginning of a text, at most `max_bytes` and no part of a character.
pub(super) fn beginning(text: &str, max_bytes: usize) -> String {
    text[..text.floor_char_boundary(max_bytes)].to_owned()
}
