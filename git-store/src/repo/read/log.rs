//! Reads history in git's order: all commits of a revision, or those that changed a path.

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
    trail::{Trail, TrailReader},
};
use crate::{
    repo::{objects, refs::Page, revision::Revision},
    types::{error::GitError, limits::MAX_COMMIT_BYTES, path::TreePath},
};

/// Commits visited for a path before a git process takes over, which can use changed-path filters.
pub const MAX_PATH_STEPS: usize = 10_000;
/// Commits whose sizes a walk checks. If none is oversized, the rest are assumed not to be.
const MAX_CHECKED_STEPS: usize = 2000;
/// Maximum number of commits found by a walk: those visited, and their parents.
const MAX_FOUND_COMMITS: usize = 1_000_000;
/// Maximum number of objects on the way to the path, over all commits found.
const MAX_TRAIL_OBJECTS: usize = 1_000_000;

/// A page of history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPage {
    /// The commits, newest first.
    pub commits: Vec<CommitInfo>,
    /// Whether there are more.
    pub has_more: bool,
    /// Commits on all pages; `None` if the walk stopped early.
    pub total: Option<usize>,
}

/// The result of a walk along a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathLog {
    /// The requested page.
    Page(LogPage),
    /// The walk reached its limit. A git process must list the history from this commit.
    TooLong(Oid),
}

/// Resolves the first commit of a history; `None` for an empty repository's default branch.
pub fn start(repo: &Repository, revision: &Revision) -> Result<Option<Oid>, GitError> {
    match revision.resolve(repo) {
        Ok(resolved) => Ok(Some(resolved.commit)),
        Err(GitError::RevisionNotFound) if is_unborn(repo, revision)? => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a page of the history of `revision`.
pub fn log(repo: &Repository, revision: &Revision, page: Page, deadline: &Deadline) -> Result<LogPage, GitError> {
    let Some(tip) = start(repo, revision)? else { return Ok(empty()) };
    let mut walk = TimeWalk::new(repo, deadline);
    walk.push(tip)?;
    let mut collected = PageCollector::new(page);
    for steps in 0_usize.. {
        if steps == MAX_CHECKED_STEPS && !walk.has_oversized {
            match long_log(repo, tip, page, deadline) {
                // libgit2 cannot parse a commit, or one is missing, as this walk will notice, too.
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

/// Reads a page of a long history with libgit2's walk. It takes parents from the commit-graph where
/// possible and loads other commits regardless of size.
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

/// Reads a page of the commits of `revision` that changed `path`, simplified as in `git log --
/// path`: if a merge has the same entry as a parent, only that parent is followed.
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

/// Reads a page of the commits that changed `path`, and counts all of them. Looks at `steps` commits of
/// the history at most, and leaves out the rest.
pub fn counted_log_of_path(
    repo: &Repository,
    tip: Oid,
    path: &TreePath,
    page: Page,
    steps: usize,
    deadline: &Deadline,
) -> Result<(Vec<CommitInfo>, usize), GitError> {
    let mut walk = PathWalk::new(repo, path, deadline);
    walk.push(tip, None)?;
    let (mut ids, mut count) = (Vec::new(), 0);
    for _ in 0..steps {
        if walk.trail_objects > MAX_TRAIL_OBJECTS {
            break;
        }
        let Some((id, is_change)) = walk.step()? else { break };
        if is_change {
            count += 1;
            if count > skipped(page) && ids.len() < page.size {
                ids.push(id);
            }
        }
    }
    Ok((CommitList::read(repo, ids)?, count))
}

/// Reads these commits. One id more than the page size only shows that there are more.
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

/// Returns the number of commits on earlier pages.
pub fn skipped(page: Page) -> usize {
    page.number.saturating_sub(1).saturating_mul(page.size)
}

/// Collects the ids of a page, and one more to know whether there is a next page.
struct PageCollector {
    page: Page,
    seen: usize,
    ids: Vec<Oid>,
}

impl PageCollector {
    fn new(page: Page) -> Self {
        Self { page, seen: 0, ids: Vec::new() }
    }

    /// Counts a commit, and keeps it if it is on the page. Returns false once the page is complete.
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

/// Walks history by commit time, newest first. libgit2's own walk would load commits of any size.
struct TimeWalk<'a> {
    repo: &'a Repository,
    deadline: &'a Deadline,
    queue: BinaryHeap<(i64, Reverse<usize>, Oid)>,
    seen: HashSet<Oid>,
    /// Whether a commit exceeds today's limits.
    has_oversized: bool,
}

impl<'a> TimeWalk<'a> {
    fn new(repo: &'a Repository, deadline: &'a Deadline) -> Self {
        Self { repo, deadline, queue: BinaryHeap::new(), seen: HashSet::new(), has_oversized: false }
    }

    fn push(&mut self, id: Oid) -> Result<(), GitError> {
        if !self.seen.insert(id) {
            return Ok(());
        }
        self.deadline.check()?;
        self.has_oversized |= objects::header(self.repo, id)?.1 > MAX_COMMIT_BYTES as u64;
        let (time, _) = time_and_parents(self.repo, id)?;
        self.queue.push((time, Reverse(self.seen.len()), id));
        if self.seen.len() > MAX_FOUND_COMMITS {
            Err(GitError::TimedOut { what: "reading the history" })
        } else {
            Ok(())
        }
    }

    fn next(&mut self) -> Result<Option<Oid>, GitError> {
        let Some((_, _, id)) = self.queue.pop() else { return Ok(None) };
        for parent in time_and_parents(self.repo, id)?.1 {
            self.push(parent)?;
        }
        Ok(Some(id))
    }
}

/// Walks history by commit time, newest first, then in queue order, as git does.
struct PathWalk<'repo> {
    repo: &'repo Repository,
    trails: TrailReader<'repo>,
    queue: BinaryHeap<(i64, Reverse<u64>, Queued)>,
    seen: HashSet<Oid>,
    found: u64,
    trail_objects: usize,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Queued {
    id: Oid,
    trail: Trail,
}

impl<'repo> PathWalk<'repo> {
    fn new(repo: &'repo Repository, path: &TreePath, deadline: &'repo Deadline) -> Self {
        let trails = TrailReader::new(repo, path, deadline);
        Self { repo, trails, queue: BinaryHeap::new(), seen: HashSet::new(), found: 0, trail_objects: 0 }
    }

    fn push(&mut self, id: Oid, trail: Option<Trail>) -> Result<(), GitError> {
        if !self.seen.insert(id) {
            return Ok(());
        }
        let trail = match trail {
            Some(trail) => trail,
            None => self.trails.read(id, &Trail::new())?,
        };
        self.found += 1;
        self.trail_objects += trail.len();
        let (time, _) = time_and_parents(self.repo, id)?;
        self.queue.push((time, Reverse(self.found), Queued { id, trail }));
        Ok(())
    }

    /// Returns the next commit and whether it changed the path.
    fn step(&mut self) -> Result<Option<(Oid, bool)>, GitError> {
        let Some((_, _, Queued { id, trail })) = self.queue.pop() else { return Ok(None) };
        let own = self.trails.target(&trail);
        let (_, ids) = time_and_parents(self.repo, id)?;
        let mut parents = Vec::with_capacity(ids.len());
        let mut held = 0;
        for parent in ids {
            let before = self.trails.read(parent, &trail)?;
            held += before.len();
            if held > MAX_TRAIL_OBJECTS {
                return Err(GitError::TimedOut { what: "reading the history" });
            }
            if self.trails.target(&before) == own {
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
}
