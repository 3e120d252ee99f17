//! Records what the update of branches means for pull requests.

use std::collections::HashMap;

use ferrite_db::{DbError, Tx};
use ferrite_proto::events::{RefUpdate, RefsUpdateKind, RefsUpdated};
use ferrite_proto::id::{RepositoryId, UserId};

use super::Pulls;
use super::queue::Update;

/// Branches per statement. PostgreSQL accepts 65,535 arguments, SQLite 32,766.
const MAX_STATEMENT_BRANCHES: usize = 1000;

/// A changed branch.
struct BranchUpdate<'e> {
    name: &'e str,
    update: &'e RefUpdate,
    /// Set if the branch was renamed.
    new_name: Option<&'e str>,
}

impl Pulls {
    /// Records the updates of heads and bases of pull requests. Call
    /// [`PullQueue::wake`](super::PullQueue::wake) after the commit.
    pub(crate) async fn record(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        updated: &RefsUpdated,
        now_us: i64,
    ) -> Result<(), DbError> {
        if updated.kind() == RefsUpdateKind::PullHead {
            return Ok(());
        }
        let user = UserId(updated.user_id);
        for branches in branch_updates(updated).chunks(MAX_STATEMENT_BRANCHES) {
            let names: Vec<_> = branches.iter().map(|branch| branch.name).collect();
            let by_name: HashMap<_, _> = branches.iter().map(|branch| (branch.name, branch)).collect();
            let find = |name: &str| by_name.get(name).copied();
            let store = &self.writer.store;
            for (base_repository, number, branch) in store.open_pulls_of_heads(tx, repository, &names).await? {
                let new_name = find(&branch).and_then(|branch| branch.new_name);
                let update = match new_name.map(str::to_owned) {
                    Some(new_name) => Update::HeadRenamed { number, new_name },
                    None => Update::Head { number },
                };
                self.queue.record(tx, base_repository, &update, user, now_us).await?;
            }
            let deleted = branches.iter().filter(|branch| is_zero(&branch.update.new_id)).map(|branch| branch.name);
            let deleted: Vec<_> = deleted.collect();
            if !deleted.is_empty() {
                store.delete_heads_of_closed(tx, repository, &deleted).await?;
            }
            for name in store.bases_in_use(tx, repository, &names).await? {
                let Some(branch) = find(&name) else { continue };
                let update = match branch.new_name.map(str::to_owned) {
                    Some(new_name) => Update::BaseRenamed { branch: name, new_name },
                    // It stays open, and cannot be merged.
                    None if is_zero(&branch.update.new_id) => continue,
                    None => Update::Base {
                        branch: name,
                        old_id: branch.update.old_id.clone(),
                        new_id: branch.update.new_id.clone(),
                    },
                };
                self.queue.record(tx, repository, &update, user, now_us).await?;
            }
        }
        Ok(())
    }
}

fn branch_updates(updated: &RefsUpdated) -> Vec<BranchUpdate<'_>> {
    // A rename by the API deletes a branch and creates another with the same commit. A push that does
    // the same may mean something else.
    let may_rename = updated.kind() == RefsUpdateKind::Api && updated.updates.len() == 2;
    let branches: Vec<_> = updated.updates.iter().filter_map(|update| Some((short_name(update)?, update))).collect();
    let created = branches.iter().filter(|(_, update)| is_zero(&update.old_id));
    let created: HashMap<_, _> = created.map(|(name, update)| (update.new_id.as_str(), *name)).collect();
    let new_name = |update: &RefUpdate| match may_rename && is_zero(&update.new_id) {
        true => created.get(update.old_id.as_str()).copied(),
        false => None,
    };
    branches.iter().map(|(name, update)| BranchUpdate { name, update, new_name: new_name(update) }).collect()
}

/// Returns the short name of a branch; `None` for other refs, and for names that are not UTF-8,
/// which pull requests cannot have.
fn short_name(update: &RefUpdate) -> Option<&str> {
    std::str::from_utf8(update.name.strip_prefix(b"refs/heads/")?).ok()
}

fn is_zero(id: &str) -> bool {
    id.bytes().all(|byte| byte == b'0')
}
