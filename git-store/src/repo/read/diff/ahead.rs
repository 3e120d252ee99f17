//! Finds what one commit has that another has not, and where the two parted.
//!
//! This is git's own walk (`paint_down_to_common`), in the order of commit times. Every commit that
//! only one side reaches is visited, so a single candidate is the merge base. Of several, only git
//! says which is the first.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    path::Path,
};

use git2::{Oid, Repository};

use super::DIFF_TIMEOUT;
use crate::{
    git::command::{Git, GitChild},
    repo::{
        objects::full_id,
        read::{Deadline, commit::time_and_parents, log::skipped},
        refs::Page,
    },
    types::error::GitError,
};

/// Commits visited before git processes take over, which use the commit-graph.
pub const MAX_AHEAD_STEPS: usize = 5000;
/// Commits found per visited one. Ordinary histories have fewer parents.
const MAX_FOUND_PER_STEP: usize = 4;

/// Reached from the base.
const BASE: u8 = 1;
/// Reached from the head.
const HEAD: u8 = 2;
const BOTH: u8 = BASE | HEAD;
/// An ancestor of a candidate.
const STALE: u8 = 4;
/// A candidate, unless stale.
const CANDIDATE: u8 = 8;

/// What a head has that a base has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The merge base; `None` without common history.
    pub merge_base: Option<Oid>,
    /// Number of commits that only the head has.
    pub total: usize,
    /// A page of them, newest first, and one more if there are more.
    pub commits: Vec<Oid>,
}

/// Walks from both commits. Returns `None` if the walk is too long, or if there are several merge
/// bases: then call [`ahead_by_git`].
pub fn ahead(
    repo: &Repository,
    base: Oid,
    head: Oid,
    page: Page,
    steps: usize,
    deadline: &Deadline,
) -> Result<Option<Ahead>, GitError> {
    let mut walk = Walk { repo, deadline, seen: HashMap::new(), queue: BinaryHeap::new(), found: 0, fresh: 0 };
    walk.paint(base, BASE)?;
    walk.paint(head, HEAD)?;
    let (mut candidates, mut only_head) = (Vec::new(), Vec::new());
    let mut oldest = i64::MAX;
    for _ in 0..steps {
        let Some((id, time, flags)) = walk.next(oldest) else {
            return Ok(walk.outcome(&candidates, &only_head, page));
        };
        let mut paint = flags & (BOTH | STALE);
        match paint {
            BOTH => {
                if flags & CANDIDATE == 0 {
                    walk.mark(id, CANDIDATE);
                    candidates.push(id);
                }
                paint |= STALE;
            }
            HEAD => {
                only_head.push(id);
                oldest = oldest.min(time);
            }
            _ => {}
        }
        for parent in walk.parents(id) {
            if walk.seen.len() > steps.saturating_mul(MAX_FOUND_PER_STEP) {
                return Ok(None);
            }
            walk.paint(parent, paint)?;
        }
    }
    Ok(None)
}

/// As [`ahead`], for histories of any shape, with three processes.
pub async fn ahead_by_git(git: &Git, repository: &Path, base: Oid, head: Oid, page: Page) -> Result<Ahead, GitError> {
    let range = format!("{head}\n^{base}\n").into_bytes();
    let list = git.rev_list(repository, skipped(page), page.size.saturating_add(1))?;
    let (merge_base, count, list) = tokio::join!(
        merge_base(git, repository, base, head),
        git.count_commits(repository)?.finish(&range, DIFF_TIMEOUT),
        list.finish(&range, DIFF_TIMEOUT),
    );
    let count = String::from_utf8_lossy(&count?).trim_end().parse();
    let list = list?;
    let commits = list.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(id_of);
    Ok(Ahead {
        merge_base: merge_base?,
        total: count.map_err(|_| GitError::Internal("git printed no number of commits".to_owned()))?,
        commits: commits.collect::<Result<_, _>>()?,
    })
}

/// Returns git's first merge base; `None` without common history.
pub async fn merge_base(git: &Git, repository: &Path, one: Oid, other: Oid) -> Result<Option<Oid>, GitError> {
    first_base(git.merge_base(repository, one, other)?).await
}

/// Returns git's first merge base of commits whose objects may also be in `other_store`; `None`
/// without common history.
pub async fn merge_base_across(
    git: &Git,
    repository: &Path,
    other_store: &Path,
    commits: (Oid, Oid),
) -> Result<Option<Oid>, GitError> {
    first_base(git.merge_base_across(repository, other_store, commits)?).await
}

async fn first_base(child: GitChild) -> Result<Option<Oid>, GitError> {
    match child.finish(&[], DIFF_TIMEOUT).await {
        Ok(output) => id_of(output.trim_ascii()).map(Some),
        // Status 1 without a message.
        Err(GitError::Command { stderr, .. }) if stderr.is_empty() => Ok(None),
        Err(error) => Err(error),
    }
}

fn id_of(text: &[u8]) -> Result<Oid, GitError> {
    full_id(text).ok_or_else(|| GitError::Internal("git printed no object id".to_owned()))
}

struct Seen {
    flags: u8,
    time: i64,
    parents: Vec<Oid>,
    is_queued: bool,
}

struct Walk<'a> {
    repo: &'a Repository,
    deadline: &'a Deadline,
    seen: HashMap<Oid, Seen>,
    /// Newest first, then in the order in which they were found.
    queue: BinaryHeap<(i64, Reverse<usize>, Oid)>,
    found: usize,
    /// Queued commits that are not stale.
    fresh: usize,
}

impl Walk<'_> {
    /// Adds flags to a commit, and queues it if it had not all of them.
    fn paint(&mut self, id: Oid, flags: u8) -> Result<(), GitError> {
        if !self.seen.contains_key(&id) {
            self.deadline.check()?;
            let (time, parents) = time_and_parents(self.repo, id)?;
            self.seen.insert(id, Seen { flags: 0, time, parents, is_queued: false });
        }
        let Some(seen) = self.seen.get_mut(&id) else { return Ok(()) };
        if seen.flags & flags == flags {
            return Ok(());
        }
        let was_fresh = seen.is_queued && seen.flags & STALE == 0;
        seen.flags |= flags;
        let is_fresh = seen.flags & STALE == 0;
        match (was_fresh, is_fresh) {
            (false, true) => self.fresh += 1,
            (true, false) => self.fresh -= 1,
            _ => {}
        }
        if !std::mem::replace(&mut seen.is_queued, true) {
            self.found += 1;
            self.queue.push((seen.time, Reverse(self.found), id));
        }
        Ok(())
    }

    /// Returns the next commit with its time and flags; `None` at the end. Goes on while a queued
    /// commit may be a descendant of one that is as old as `oldest`: clocks differ.
    fn next(&mut self, oldest: i64) -> Option<(Oid, i64, u8)> {
        let (newest, ..) = self.queue.peek()?;
        if self.fresh == 0 && *newest < oldest {
            return None;
        }
        let (time, _, id) = self.queue.pop()?;
        let seen = self.seen.get_mut(&id)?;
        seen.is_queued = false;
        self.fresh -= usize::from(seen.flags & STALE == 0);
        Some((id, time, seen.flags))
    }

    fn mark(&mut self, id: Oid, flag: u8) {
        if let Some(seen) = self.seen.get_mut(&id) {
            seen.flags |= flag;
        }
    }

    fn parents(&self, id: Oid) -> Vec<Oid> {
        self.seen.get(&id).map(|seen| seen.parents.clone()).unwrap_or_default()
    }

    fn flags(&self, id: Oid) -> u8 {
        self.seen.get(&id).map_or(0, |seen| seen.flags)
    }

    fn outcome(&self, candidates: &[Oid], only_head: &[Oid], page: Page) -> Option<Ahead> {
        let mut bases = candidates.iter().filter(|id| self.flags(**id) & STALE == 0);
        let merge_base = bases.next().copied();
        if bases.next().is_some() {
            return None;
        }
        // Some were found to be older than the base only later.
        let ahead: Vec<_> = only_head.iter().copied().filter(|id| self.flags(*id) & BASE == 0).collect();
        let commits = ahead.iter().copied().skip(skipped(page)).take(page.size.saturating_add(1)).collect();
        Some(Ahead { merge_base, total: ahead.len(), commits })
    }
}
