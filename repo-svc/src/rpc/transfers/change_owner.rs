//! The change of a repository's owner: the rows, the entry in the audit log, and the event.

use ferrite_kit::auth::AuthError;
use ferrite_kit::db::Tx;
use ferrite_kit::outbox;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{RepositoryAction, RepositoryUpdated};

use super::super::{change, encode};
use crate::error::RepoError;
use crate::model::User;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Repository, Target, TransferRow};

/// Subscribers to changes of repositories. The response waits for none of them.
const SUBSCRIBERS: &[&str] = &["hook-svc"];

/// A repository that was given to another account, and the transfer that waited until then.
#[derive(Clone, Debug)]
pub(super) struct OwnerChange {
    /// Read for the caller.
    pub(super) repository: Repository,
    pub(super) pending: Option<TransferRow>,
}

/// Gives a repository to another account, in the transaction of the caller. A transfer that waits ends.
///
/// # Errors
/// [`RepoError::Interrupted`] if the repository got another owner meanwhile, or those of
/// [`RepositoryStore::set_owner`](crate::store::RepositoryStore::set_owner).
pub(super) async fn change_owner(
    state: &AppState,
    tx: &mut Tx,
    permit: &Permit,
    before: &Repository,
    new_owner: &User,
    now_us: i64,
) -> Result<OwnerChange, RepoError> {
    let (id, limits) = (before.id(), state.quotas.site());
    let to = (new_owner.id, new_owner.username.as_str());
    let former = state.repositories.set_owner(tx, id, to, limits, now_us).await?;
    if former.0 != before.owner_id {
        return Err(RepoError::Interrupted);
    }
    let pending = state.transfers.end(tx, id, now_us).await?;
    let repository = state.repositories.find_in(tx, id, permit.viewer()).await?;
    let repository = repository.ok_or(AuthError::RepositoryNotFound)?;
    let details = [("from", before.owner_name.clone()), ("to", new_owner.username.clone())];
    change::record(tx, permit, Action::RepositoryTransfer, Target::repository(&repository), &details, now_us).await?;
    let fact = Fact::RepositoryUpdated(RepositoryUpdated {
        action: RepositoryAction::Transferred.into(),
        repository: Some(encode::repository_snapshot(repository.clone())),
        user_id: permit.user()?.0,
        old_name: before.name.clone(),
        old_owner: encode::repository_snapshot(before.clone()).owner,
    });
    outbox::append(tx, &outbox::event(id, now_us, fact), SUBSCRIBERS, now_us).await?;
    Ok(OwnerChange { repository, pending })
}
