//! Finds the commits that an update added to a branch: those reachable from its new tip but not
//! from the old one.
//!
//! As in `git rev-list`, the walk goes back by commit time from both tips and stops soon after it
//! leaves the new commits, so a small update of a long history is cheap. Commits with clocks far
//! behind may be listed although the old tip has them.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
};

use git2::{ObjectType, Oid, Repository};

use super::{
    commit::{CommitBounds, bounded_commit, time_and_parents},
    deadline::Deadline,
};
use crate::{repo::objects, types::error::GitError};

/// Maximum number of commits per response.
pub const MAX_PUSHED_COMMITS: usize = 1000;
/// Longest message in a response, in bytes.
const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// Maximum size of all messages in a response of 2 MiB, which has up to 64 other bytes per commit.
const MAX_MESSAGES_BYTES: usize = (2 << 20) - 64 * MAX_PUSHED_COMMITS;
const BOUNDS: CommitBounds = CommitBounds { message_bytes: MAX_MESSAGE_BYTES, parents: 0, identity_bytes: 0 };
pub(super) const MAX_READ_COMMITS: usize = 100_000;
const MAX_READ_PARENTS: usize = 1_000_000;
/// Commits visited after a walk seems complete, in case clocks were behind. As in git.
const SLACK_COMMITS: usize = 5;

/// A commit with the start of its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushedCommit {
    /// The commit's id.
    pub id: Oid,
    /// The message.
    pub message: String,
}

/// Reads the newest `limit` commits reachable from `new` but not from `old`, each after its
/// parents. If `old` is not a commit, it excludes none.
///
/// A message gets at most 64 KiB, and at most an even share of what is left of the response.
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

#[derive(Default)]
pub(super) struct NewCommits {
    /// The newest, each before its parents.
    pub(super) newest: Vec<Oid>,
    /// Number of commits added.
    pub(super) total: usize,
    pub(super) read: usize,
}

/// Returns the newest `limit` commits reachable from `new` but from none of `old`, and their total,
/// after reading at most `max_read`. All tips must be commits.
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

/// Returns whether a walk shows that `old` is an ancestor of `new`. Both must be commits.
pub fn has_ancestor(repo: &Repository, new: Oid, old: Oid, deadline: &Deadline) -> Result<bool, GitError> {
    Ok(new_commits(repo, [new], old, (0, MAX_READ_COMMITS), deadline)?.total == 0)
}

/// Returns whether a walk shows that one of the tips is `id` or has it as an ancestor. Tips that are
/// no commits count for nothing.
pub fn is_reached(
    repo: &Repository,
    tips: impl IntoIterator<Item = Oid>,
    id: Oid,
    deadline: &Deadline,
) -> Result<bool, GitError> {
    let mut commits = Vec::new();
    for tip in tips {
        if is_commit(repo, tip)? {
            commits.push(tip);
        }
    }
    Ok(is_commit(repo, id)? && new_commits(repo, commits, id, (0, MAX_READ_COMMITS), deadline)?.total == 0)
}

/// What [`added_among`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddedCommits {
    /// Those of the wanted commits that were added.
    pub found: HashSet<Oid>,
    /// Whether a tip is gone, or more commits were added than are read.
    pub is_partial: bool,
}

/// Finds those of the wanted commits that an update of a branch added to it, in one walk over at
/// most 100,000 commits. `old` is `None` for a new branch.
pub fn added_among(
    repo: &Repository,
    old: Option<Oid>,
    new: Oid,
    wanted: &HashSet<Oid>,
    deadline: &Deadline,
) -> Result<AddedCommits, GitError> {
    let has_old = match old {
        Some(old) => is_commit(repo, old)?,
        None => true,
    };
    if !has_old || !is_commit(repo, new)? {
        return Ok(AddedCommits { is_partial: true, ..AddedCommits::default() });
    }
    let added = new_commits(repo, old, new, (usize::MAX, MAX_READ_COMMITS), deadline)?;
    let found = added.newest.into_iter().filter(|id| wanted.contains(id)).collect();
    Ok(AddedCommits { found, is_partial: added.read >= MAX_READ_COMMITS })
}

pub(super) fn is_commit(repo: &Repository, id: Oid) -> Result<bool, GitError> {
    match objects::read_header(repo, id) {
        Ok((kind, _)) => Ok(kind == ObjectType::Commit),
        Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Commits by time; with equal times, the first found comes first.
type ByTime = BinaryHeap<(i64, Reverse<usize>, Oid)>;

/// A walk back from the new and the old tip of a branch.
struct Walk<'a> {
    repo: &'a Repository,
    deadline: &'a Deadline,
    limit: usize,
    /// Commits that the walk may read. Those beyond count as missing.
    max_read: usize,
    /// Parents that the walk may still keep. Those beyond count as missing, too.
    parents_left: usize,
    queue: ByTime,
    /// Queued commits not known to be old.
    queued_new: usize,
    seen: HashMap<Oid, Seen>,
    /// Commits not known to be old when visited, newest first.
    visited: Vec<Oid>,
    /// How many of these are still not known to be old.
    visited_new: usize,
    /// Time of the last commit visited.
    time: i64,
    /// Lower bound for the times of the newest `limit` new commits.
    last_time: i64,
}

struct Seen {
    time: i64,
    parents: Vec<Oid>,
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

    /// Queues a commit once. A queued one becomes old if `is_old`.
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

    /// Marks a commit as old, with all ancestors visited before that was known.
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

    /// Visits commits until the newest `limit` that only `new` reaches are known.
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
                    // The old tip is an ancestor of every new commit, so it has none of them.
                    break;
                }
            }
            for parent in parents {
                self.push(parent, is_old)?;
            }
            let is_enough = self.queued_new == 0 || self.visited_new >= self.limit;
            if is_enough && self.queue.len() == self.queued_new {
                // No old commit is left that could lead to a visited one.
                break;
            }
            let is_beyond = self.queue.peek().is_none_or(|(time, ..)| *time < self.last_time);
            slack = if is_enough && is_beyond { slack - 1 } else { SLACK_COMMITS };
        }
        Ok(())
    }

    /// Returns the newest `limit` new commits, each after its parents.
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

/// Returns up to `max_bytes` of a text without splitting a character.
pub(super) fn beginning(text: &str, max_bytes: usize) -> String {
    text[..text.floor_char_boundary(max_bytes)].to_owned()
}
