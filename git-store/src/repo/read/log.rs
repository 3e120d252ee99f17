//! Reads history: the commits of a revision in git's order, all of them or those that changed a path.
//!
//! Not here: histories of a path that a git process lists ([`PathLog::TooLong`]).

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
};

use git2::{Oid, Repository, Sort};

use super::{
    commit::{CommitInfo, time_and_parents},
    commit_list::CommitList,
    contents::is_unborn,
    deadline::Deadline,
};
use crate::{
    repo::{objects, refs::Page, revision::Revision},
    types::{error::GitError, limits::MAX_COMMIT_BYTES, path::TreePath},
};

/// Commits that the walk along a path visits before a git process takes over, which can use changed-path filters.
pub const MAX_PATH_STEPS: usize = 10_000;
/// Commits that a walk visits with a look at the size of each. If none of them is oversized, the others are taken for such, too.
const MAX_CHECKED_STEPS: usize = 2000;
/// Commits that a walk may have found: those that it has visited, and their parents.
const MAX_FOUND_COMMITS: usize = 1_000_000;
/// Objects on the way to the path, of all commits that a walk along it has found.
const MAX_TRAIL_OBJECTS: usize = 1_000_000;

/// A page of history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPage {
    /// The commits, newest first.
    pub commits: Vec<CommitInfo>,
    /// True if there are commits after these.
    pub has_more: bool,
    /// Commits on all pages; `None` if the walk did not reach the end.
    pub total: Option<usize>,
}

/// The result of a walk along a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathLog {
    /// The requested page.
    Page(LogPage),
    /// The walk reached its limit of commits. A git process has to list the history from this commit.
    TooLong(Oid),
}

/// Resolves the commit at which a history starts; `None` for the default branch of a repository without commits.
///
/// # Errors
/// `RevisionNotFound`.
pub fn start(repo: &Repository, revision: &Revision) -> Result<Option<Oid>, GitError> {
    match revision.resolve(repo) {
        Ok(resolved) => Ok(Some(resolved.commit)),
        Err(GitError::RevisionNotFound) if is_unborn(repo, revision)? => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a page of the history of `revision`.
///
/// # Errors
/// `RevisionNotFound`, and those of [`Deadline::check`].
pub fn log(repo: &Repository, revision: &Revision, page: Page, deadline: &Deadline) -> Result<LogPage, GitError> {
    let Some(tip) = start(repo, revision)? else { return Ok(empty()) };
    let mut walk = TimeWalk::new(repo, deadline);
    walk.push(tip)?;
    let mut collected = PageCollector::new(page);
    for steps in 0_usize.. {
        if steps == MAX_CHECKED_STEPS && !walk.has_oversized {
            match long_log(repo, tip, page, deadline) {
                // libgit2 cannot parse a commit, or misses one, as this walk then does, too.
                Err(GitError::Git(_)) => {}
                page => return page,
            }
        }
        if !walk.next()?.is_some_and(|id| collected.take(id)) {
            break;
        }
    }
    collected.finish(repo)
}

/// Reads a page of a long history with libgit2's walk, which takes parents from the commit-graph where there is one, and loads the others
/// whatever their size.
///
/// # Errors
/// Those of libgit2, and of [`Deadline::check`].
pub fn long_log(repo: &Repository, tip: Oid, page: Page, deadline: &Deadline) -> Result<LogPage, GitError> {
    let mut walk = repo.revwalk()?;
    // Any other order loads the whole history first.
    walk.set_sorting(Sort::NONE)?;
    walk.push(tip)?;
    let mut collected = PageCollector::new(page);
    for id in walk {
        deadline.check()?;
        if !collected.take(id?) {
            break;
        }
    }
    collected.finish(repo)
}

/// Reads a page of the commits of `revision` that changed `path`, with the history simplification of `git log -- path`: if
/// a merge has the same entry as one of its parents, only that parent is followed.
///
/// # Errors
/// `RevisionNotFound`, and those of [`Deadline::check`].
pub fn log_of_path(
    repo: &Repository,
    revision: &Revision,
    path: &TreePath,
    page: Page,
    steps: usize,
    deadline: &Deadline,
) -> Result<PathLog, GitError> {
    let Some(tip) = start(repo, revision)? else { return Ok(PathLog::Page(empty())) };
    let mut walk = PathWalk::new(repo, path, deadline);
    walk.push(tip, None)?;
    let mut collected = PageCollector::new(page);
    for _ in 0..steps {
        if walk.trail_objects > MAX_TRAIL_OBJECTS {
            break;
        }
        let Some((id, is_change)) = walk.step()? else { return Ok(PathLog::Page(collected.finish(repo)?)) };
        if is_change && !collected.take(id) {
            return Ok(PathLog::Page(collected.finish(repo)?));
        }
    }
    Ok(PathLog::TooLong(tip))
}

/// Reads the commits with these ids. `ids` may hold one id more than fits on the page, which only shows that there are
/// more.
///
/// # Errors
/// Those of libgit2.
pub fn page_of(repo: &Repository, ids: &[Oid], page: Page) -> Result<LogPage, GitError> {
    let shown = &ids[..ids.len().min(page.size)];
    let has_more = ids.len() > page.size;
    let commits = CommitList::read(repo, shown.iter().copied())?;
    let is_end = !has_more && (!commits.is_empty() || page.number <= 1);
    let total = is_end.then(|| skipped(page).saturating_add(commits.len()));
    Ok(LogPage { commits, has_more, total })
}

fn empty() -> LogPage {
    LogPage { commits: Vec::new(), has_more: false, total: Some(0) }
}

/// Returns the number of commits on the pages before this one.
pub fn skipped(page: Page) -> usize {
    page.number.saturating_sub(1).saturating_mul(page.size)
}

/// Collects the ids of one page, and one more to know whether the history goes on.
struct PageCollector {
    page: Page,
    seen: usize,
    ids: Vec<Oid>,
}

impl PageCollector {
    fn new(page: Page) -> Self {
        Self { page, seen: 0, ids: Vec::new() }
    }

    /// Counts a commit, and keeps it if it is on the page; false once the page is complete.
    fn take(&mut self, id: Oid) -> bool {
        self.seen += 1;
        if self.seen > skipped(self.page) {
            self.ids.push(id);
        }
        self.ids.len() <= self.page.size
    }

    fn finish(self, repo: &Repository) -> Result<LogPage, GitError> {
        let page = page_of(repo, &self.ids, self.page)?;
        // The walk has counted all commits, so the total is known even for a page beyond the end.
        let total = (!page.has_more).then_some(self.seen);
        Ok(LogPage { total, ..page })
    }
}

/// A walk through history by commit time, newest first, as libgit2's own, which loads a commit whatever its size.
struct TimeWalk<'a> {
    repo: &'a Repository,
    deadline: &'a Deadline,
    queue: BinaryHeap<(i64, Reverse<usize>, Oid)>,
    seen: HashSet<Oid>,
    /// True if a commit is beyond the limits of today.
    has_oversized: bool,
}

impl<'a> TimeWalk<'a> {
    fn new(repo: &'a Repository, deadline: &'a Deadline) -> Self {
        Self { repo, deadline, queue: BinaryHeap::new(), seen: HashSet::new(), has_oversized: false }
    }

    /// Queues a commit unless it was queued before.
    fn push(&mut self, id: Oid) -> Result<(), GitError> {
        if !self.seen.insert(id) {
            return Ok(());
        }
        self.deadline.check()?;
        self.has_oversized |= objects::header(self.repo, id)?.1 > MAX_COMMIT_BYTES as u64;
        let (time, _) = time_and_parents(self.repo, id)?;
        self.queue.push((time, Reverse(self.seen.len()), id));
        if self.seen.len() > MAX_FOUND_COMMITS { Err(GitError::TimedOut { what: "the log" }) } else { Ok(()) }
    }

    /// Returns the next commit; `None` at the end.
    fn next(&mut self) -> Result<Option<Oid>, GitError> {
        let Some((_, _, id)) = self.queue.pop() else { return Ok(None) };
        for parent in time_and_parents(self.repo, id)?.1 {
            self.push(parent)?;
        }
        Ok(Some(id))
    }
}

/// Mode and id of each object from the root tree to the entry at the path; shorter if the path does not exist.
type Trail = Vec<(i32, Oid)>;

/// A walk through history by commit time, newest first, as in git; of commits with the same time, the one queued first
/// comes first.
struct PathWalk<'repo> {
    repo: &'repo Repository,
    parts: Vec<Vec<u8>>,
    queue: BinaryHeap<(i64, Reverse<u64>, Queued)>,
    seen: HashSet<Oid>,
    found: u64,
    /// Objects of all trails so far.
    trail_objects: usize,
    deadline: &'repo Deadline,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Queued {
    id: Oid,
    trail: Trail,
}

impl<'repo> PathWalk<'repo> {
    fn new(repo: &'repo Repository, path: &TreePath, deadline: &'repo Deadline) -> Self {
        let parts = path.components().map(<[u8]>::to_vec).collect();
        Self { repo, parts, queue: BinaryHeap::new(), seen: HashSet::new(), found: 0, trail_objects: 0, deadline }
    }

    /// Queues a commit unless it was queued before.
    fn push(&mut self, id: Oid, trail: Option<Trail>) -> Result<(), GitError> {
        if !self.seen.insert(id) {
            return Ok(());
        }
        let trail = match trail {
            Some(trail) => trail,
            None => self.trail(id, &Trail::new())?,
        };
        self.found += 1;
        self.trail_objects += trail.len();
        let (time, _) = time_and_parents(self.repo, id)?;
        self.queue.push((time, Reverse(self.found), Queued { id, trail }));
        Ok(())
    }

    /// Returns the next commit and whether it changed the path; `None` at the end.
    fn step(&mut self) -> Result<Option<(Oid, bool)>, GitError> {
        let Some((_, _, Queued { id, trail })) = self.queue.pop() else { return Ok(None) };
        let own = self.target(&trail);
        let (_, ids) = time_and_parents(self.repo, id)?;
        let mut parents = Vec::with_capacity(ids.len());
        let mut held = 0;
        for parent in ids {
            let before = self.trail(parent, &trail)?;
            held += before.len();
            if held > MAX_TRAIL_OBJECTS {
                return Err(GitError::TimedOut { what: "the log" });
            }
            if self.target(&before) == own {
                self.push(parent, Some(before))?;
                return Ok(Some((id, false)));
            }
            parents.push((parent, before));
        }
        let is_change = !parents.is_empty() || own.is_some();
        for (parent, before) in parents {
            self.push(parent, Some(before))?;
        }
        Ok(Some((id, is_change)))
    }

    /// Returns the entry at the path, `None` if the path does not exist.
    fn target(&self, trail: &Trail) -> Option<(i32, Oid)> {
        // Index zero is the root tree.
        trail.get(self.parts.len()).copied()
    }

    /// Returns the trail of a commit. From the first object that is the same as in `known`, the trail of a neighbouring
    /// commit, the rest is copied from there. A tree that cannot be read ends it.
    fn trail(&self, commit: Oid, known: &Trail) -> Result<Trail, GitError> {
        self.deadline.check()?;
        let root = match objects::tree_id(self.repo, commit) {
            Err(error) if error.is_unreadable() => return Ok(Trail::new()),
            root => root?,
        };
        let mut trail = vec![(0o040_000, root)];
        for (depth, part) in self.parts.iter().enumerate() {
            if trail.last() == known.get(depth) {
                trail.extend_from_slice(&known[depth + 1..]);
                return Ok(trail);
            }
            let (mode, id) = trail[depth];
            if mode != 0o040_000 {
                break;
            }
            let tree = match objects::find_tree(self.repo, id) {
                Err(error) if error.is_unreadable() => break,
                tree => tree?,
            };
            let Some(entry) = tree.get_name_bytes(part) else { break };
            trail.push((objects::entry_mode(&entry), entry.id()));
        }
        Ok(trail)
    }
}
