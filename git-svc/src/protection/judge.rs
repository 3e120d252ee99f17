//! Whether changes of refs obey the rules.

use ferrite_kit::db::{Db, DbError};
use ferrite_proto::{Permission, grant::Grant, id::RepositoryId};
use git2::{Oid, Repository};

use super::{Denial, rule::Rules};
use crate::{failure::Failure, pool::Pool, refs::Edit, store::Protections};

/// Who changes refs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Actor {
    /// The account; zero for none.
    pub(crate) user: i64,
    /// Its level on the repository.
    pub(crate) permission: Permission,
}

impl Actor {
    /// The bearer of a grant.
    pub(crate) fn of(grant: &Grant) -> Self {
        Self { user: grant.user_id().map_or(0, |user| user.0), permission: grant.permission }
    }

    /// Whether a list that names some accounts lets this one pass: owners are on every list.
    pub(super) fn is_among(&self, users: &[i64]) -> bool {
        self.permission >= Permission::Owner || (self.user != 0 && users.contains(&self.user))
    }
}

/// Judges changes by the rules in the database.
#[derive(Clone)]
pub(crate) struct Protection {
    table: Protections,
    pool: Pool,
}

impl Protection {
    pub(crate) fn new(db: Db, pool: Pool) -> Self {
        Self { table: Protections::new(db), pool }
    }

    /// The rules of a repository.
    pub(crate) async fn rules(&self, id: RepositoryId) -> Result<Rules, DbError> {
        self.table.list(id).await
    }

    /// One verdict for each change: `None` where nothing is against it. The changes are compared with nothing but themselves:
    /// `old` is where the ref is. The caller holds the repository's write lock, so that no rule changes meanwhile.
    pub(crate) async fn judge(
        &self,
        id: RepositoryId,
        actor: &Actor,
        edits: &[Edit],
    ) -> Result<Vec<Option<Denial>>, Failure> {
        let mut verdicts = vec![None; edits.len()];
        let rules = self.rules(id).await?;
        if rules.is_empty() {
            return Ok(verdicts);
        }
        let mut moves = Vec::new();
        for (index, edit) in edits.iter().enumerate() {
            let bounds = edit.name.as_bytes().strip_prefix(b"refs/heads/").and_then(|name| rules.bounds(name, actor));
            let Some(bounds) = bounds else { continue };
            verdicts[index] = bounds.deny(edit.new.is_none());
            if let (None, false, Some(old), Some(new)) = (verdicts[index], bounds.allow_force, edit.old, edit.new) {
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

/// Whether a branch loses commits. What cannot be told, because one is no commit, counts as lost.
fn is_forced(repo: &Repository, old: Oid, new: Oid) -> bool {
    old != new && !repo.graph_descendant_of(new, old).unwrap_or(false)
}
