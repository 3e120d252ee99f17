//! Checks ref updates against the protection rules of their branches.

use std::{collections::HashSet, sync::Arc};

use ferrite_db::{Db, DbError};
use ferrite_proto::{git::StatusState, id::RepositoryId};
use git_store::{
    repo::{
        pool::Pool,
        read::{Deadline, deadline::READ_TIMEOUT, pushed::has_ancestor},
        refs::RefEdit,
    },
    types::{
        error::{Denial, GitError},
        merge_requirements::{Requirement, deny},
        name::BranchName,
        protection::{Actor, EffectiveRule, Rules},
        required_reviews::Reviews,
    },
};
use git2::{Oid, Repository};
use parking_lot::Mutex;

use crate::{
    db::{ProtectionTable, StatusTable},
    rpc_error::RpcError,
};

/// Branch protection with rules from the database. Clones share the pool and the database handle.
#[derive(Clone)]
pub(crate) struct BranchProtection {
    table: ProtectionTable,
    statuses: StatusTable,
    pool: Pool,
}

/// The commits of a push. Clones share what is known about them.
#[derive(Clone, Debug, Default)]
pub(crate) struct PushedCommits {
    /// Name of the quarantine directory that contains them.
    quarantine: Option<String>,
    /// Moves from the first commit to the second that remove no commit. A commit id identifies its
    /// whole history, so this stays true.
    fast_forwards: Arc<Mutex<HashSet<(Oid, Oid)>>>,
}

/// Moves the ref of the edit with this index from the first commit to the second.
type Move = (usize, Oid, Oid);

impl PushedCommits {
    /// Returns the same commits, located in this quarantine.
    pub(crate) fn in_quarantine(&self, folder: Option<String>) -> Self {
        Self { quarantine: folder, ..self.clone() }
    }
}

impl BranchProtection {
    pub(crate) fn new(db: Db, pool: Pool) -> Self {
        Self { table: ProtectionTable::new(db.clone()), statuses: StatusTable::new(db), pool }
    }

    pub(crate) async fn rules(&self, id: RepositoryId) -> Result<Rules, DbError> {
        self.table.list(id).await
    }

    /// Returns one verdict for each edit, in order: `None` if the rules allow it.
    ///
    /// An edit is judged by its `old` and `new` ids alone, not by the current value of the ref. To
    /// change refs afterwards, the caller must hold the repository's write lock, so that rules
    /// cannot change meanwhile.
    pub(crate) async fn check(
        &self,
        id: RepositoryId,
        actor: &Actor,
        edits: &[RefEdit],
        commits: &PushedCommits,
    ) -> Result<Vec<Option<Denial>>, RpcError> {
        let mut verdicts = vec![None; edits.len()];
        let rules = self.rules(id).await?;
        if rules.is_empty() {
            return Ok(verdicts);
        }
        let mut moves = Vec::new();
        for (index, edit) in edits.iter().enumerate() {
            let Some(rule) = effective_rule(&rules, actor, edit) else { continue };
            let mut verdict = rule.deny(edit.new.is_none());
            if let (None, Some(new)) = (&verdict, edit.new)
                && !rule.checks.is_empty()
            {
                verdict = rule.deny_checks(&self.newest_statuses(id, new).await?);
            }
            if let (None, false, Some(old), Some(new)) = (&verdict, rule.allow_force, edit.old, edit.new) {
                moves.push((index, old, new));
            }
            verdicts[index] = verdict;
        }
        for index in self.find_forced(id, moves, commits).await? {
            verdicts[index] = Some(Denial::Force);
        }
        Ok(verdicts)
    }

    /// Returns why the rules forbid to merge a pull request with this head and these reviews into a
    /// branch at this commit; `None` if they allow it.
    pub(crate) async fn check_merge(
        &self,
        id: RepositoryId,
        actor: &Actor,
        branch: &BranchName,
        commits: (Oid, Oid),
        reviews: &Reviews,
    ) -> Result<Option<Denial>, RpcError> {
        Ok(deny(&self.merge_requirements(id, actor, branch, commits, reviews).await?))
    }

    /// Returns what the rules require to merge a pull request with this head and these reviews into a
    /// branch at this commit.
    pub(crate) async fn merge_requirements(
        &self,
        id: RepositoryId,
        actor: &Actor,
        branch: &BranchName,
        (tip, head): (Oid, Oid),
        reviews: &Reviews,
    ) -> Result<Vec<Requirement>, RpcError> {
        let rules = self.rules(id).await?;
        let Some(rule) = rules.effective(branch.as_bytes(), actor) else { return Ok(Vec::new()) };
        let newest = if rule.checks.is_empty() { Vec::new() } else { self.newest_statuses(id, head).await? };
        let is_behind = rule.requires_current_head && self.is_behind(id, tip, head).await?;
        Ok(rule.requirements(is_behind, &newest, reviews))
    }

    /// Returns whether a branch at this commit has commits that the head has not.
    pub(crate) async fn is_behind(&self, id: RepositoryId, tip: Oid, head: Oid) -> Result<bool, GitError> {
        self.pool.run(id, move |repo| Ok(is_forced(repo, tip, head))).await
    }

    /// Returns the contexts of a commit, each with whether its newest status is a success.
    async fn newest_statuses(&self, id: RepositoryId, commit: Oid) -> Result<Vec<(String, bool)>, DbError> {
        let newest = self.statuses.newest(id, commit).await?.into_iter();
        let newest = newest.map(|row| {
            let succeeded = row.state() == StatusState::Success;
            (row.context, succeeded)
        });
        Ok(newest.collect())
    }

    /// Returns the indexes of moves that remove commits.
    async fn find_forced(
        &self,
        id: RepositoryId,
        mut moves: Vec<Move>,
        commits: &PushedCommits,
    ) -> Result<HashSet<usize>, GitError> {
        {
            let known = commits.fast_forwards.lock();
            moves.retain(|(_, old, new)| !known.contains(&(*old, *new)));
        }
        if moves.is_empty() {
            return Ok(HashSet::new());
        }
        let compared = moves.clone();
        let job = move |repo: &Repository| {
            let forced = moves.iter().filter(|(_, old, new)| is_forced(repo, *old, *new));
            Ok(forced.map(|(index, ..)| *index).collect::<HashSet<_>>())
        };
        let Some(quarantine) = &commits.quarantine else { return self.pool.run(id, job).await };
        let forced = self.pool.run_in_quarantine(id, quarantine.clone(), job).await?;
        // The same moves are checked again before the refs change.
        let forward = compared.into_iter().filter(|(index, ..)| !forced.contains(index));
        commits.fast_forwards.lock().extend(forward.map(|(_, old, new)| (old, new)));
        Ok(forced)
    }
}

/// Returns why the rules forbid a commit on top of a branch or on a new branch; `None` if they
/// allow it. Such a commit removes no commits and has no statuses, so it can be judged before it is
/// written. The caller must have held the repository's write lock since it read the rules.
pub(crate) fn check_commit(rules: &Rules, actor: &Actor, edit: &RefEdit) -> Option<Denial> {
    let rule = effective_rule(rules, actor, edit)?;
    rule.deny(false).or_else(|| rule.deny_checks(&[]))
}

/// Returns the rule that applies to a user, if the ref is a protected branch.
fn effective_rule(rules: &Rules, actor: &Actor, edit: &RefEdit) -> Option<EffectiveRule> {
    edit.name.as_bytes().strip_prefix(b"refs/heads/").and_then(|name| rules.effective(name, actor))
}

/// Returns whether moving a branch from `old` to `new` removes commits. Also true if they cannot be
/// compared, for example because one is not a commit.
fn is_forced(repo: &Repository, old: Oid, new: Oid) -> bool {
    // libgit2 fails if a commit in the history has no readable committer.
    let has_old = repo.graph_descendant_of(new, old).or_else(|_| {
        let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
        has_ancestor(repo, new, old, &deadline)
    });
    old != new && !has_old.unwrap_or(false)
}
