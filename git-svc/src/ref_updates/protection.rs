//! Checks ref updates against the protection rules of their branches.
//!
//! Not here: the rules themselves (`types::protection`) and changing them (`protection_rules`).

use ferrite_kit::db::{Db, DbError};
use ferrite_proto::id::RepositoryId;
use git2::{Oid, Repository};

use crate::{
    db::ProtectionTable,
    repo::{
        pool::Pool,
        read::{Deadline, deadline::READ_TIMEOUT, pushed::has_ancestor},
        refs::RefEdit,
    },
    types::{
        denial::Denial,
        protection::{Actor, EffectiveRule, Rules},
        rpc_error::RpcError,
    },
};

/// Branch protection by the rules in the database. Clones share the pool and the database handle.
#[derive(Clone)]
pub(crate) struct BranchProtection {
    table: ProtectionTable,
    pool: Pool,
}

impl BranchProtection {
    pub(crate) fn new(db: Db, pool: Pool) -> Self {
        Self { table: ProtectionTable::new(db), pool }
    }

    /// Returns the rules of a repository.
    pub(crate) async fn rules(&self, id: RepositoryId) -> Result<Rules, DbError> {
        self.table.list(id).await
    }

    /// Returns one verdict for each edit, in their order: `None` where the rules allow it.
    ///
    /// An edit is judged by its `old` and `new` ids alone; the ref's current value is not read. The caller holds the repository's
    /// write lock, so that no rule changes meanwhile.
    pub(crate) async fn check(
        &self,
        id: RepositoryId,
        actor: &Actor,
        edits: &[RefEdit],
    ) -> Result<Vec<Option<Denial>>, RpcError> {
        let mut verdicts = vec![None; edits.len()];
        let rules = self.rules(id).await?;
        if rules.is_empty() {
            return Ok(verdicts);
        }
        let mut moves = Vec::new();
        for (index, edit) in edits.iter().enumerate() {
            let Some(rule) = effective_rule(&rules, actor, edit) else { continue };
            verdicts[index] = rule.deny(edit.new.is_none());
            if let (None, false, Some(old), Some(new)) = (verdicts[index], rule.allow_force, edit.old, edit.new) {
                moves.push((index, old, new));
            }
        }
        if !moves.is_empty() {
            let job = move |repo: &Repository| {
                Ok(moves.iter().filter(|(_, old, new)| is_forced(repo, *old, *new)).map(|(index, ..)| *index).collect())
            };
            let forced: Vec<usize> = self.pool.run(id, job).await?;
            forced.into_iter().for_each(|index| verdicts[index] = Some(Denial::Force));
        }
        Ok(verdicts)
    }
}

/// Returns why the rules do not allow a commit that is made on top of its branch, or with a new branch; `None` if they do. It takes no
/// commits away, so it is judged before it is written. The caller has held the repository's write lock since it read the rules.
pub(crate) fn check_commit(rules: &Rules, actor: &Actor, edit: &RefEdit) -> Option<Denial> {
    effective_rule(rules, actor, edit).and_then(|rule| rule.deny(false))
}

/// Returns what the rules of a branch say to a user, if the ref is a branch with rules.
fn effective_rule(rules: &Rules, actor: &Actor, edit: &RefEdit) -> Option<EffectiveRule> {
    edit.name.as_bytes().strip_prefix(b"refs/heads/").and_then(|name| rules.effective(name, actor))
}

/// Returns whether moving a branch from `old` to `new` removes commits from it. True also if they cannot be compared, for example because
/// one is not a commit.
fn is_forced(repo: &Repository, old: Oid, new: Oid) -> bool {
    // libgit2 fails where a commit of the history has no readable committer.
    let has_old = repo.graph_descendant_of(new, old).or_else(|_| {
        let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
        has_ancestor(repo, new, old, &deadline)
    });
    old != new && !has_old.unwrap_or(false)
}
