use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::id::UserId;
use ferrite_proto::repo::{self, StartTransferRequest, StartTransferResponse};
use tonic::Request;

use super::super::{change, encode, repeat};
use super::change_owner::change_owner;
use super::pending::may_act_for;
use crate::error::RepoError;
use crate::model::User;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Repository, Target};

const FIELD: &str = "new_owner";

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<StartTransferRequest>,
) -> Result<StartTransferResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "StartTransfer")?;
    let permit = &permit;
    let access = repeat::repository(state, permit, request.get_ref().repository.clone());
    let rebuild = |stored: StartTransferResponse| async move {
        let id = stored.repository.map_or(0, |repository| repository.id);
        let repository = Some(repeat::read_repository(state, permit, id).await?);
        Ok(StartTransferResponse { repository, ..stored })
    };
    let work = start(state, request.into_inner(), permit, key.as_ref());
    repeat::once_or_rebuild(&state.db, key.as_ref(), access, rebuild, work).await
}

async fn start(
    state: &AppState,
    request: StartTransferRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<StartTransferResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.repository).await?;
    let new_owner = new_owner(state, &repository, &request.new_owner).await?;
    let now = state.clock.now_us();
    if may_act_for(state, permit, new_owner.id).await? {
        let mut tx = state.db.begin().await?;
        let changed = change_owner(state, &mut tx, permit, &repository, &new_owner, now).await?;
        let encoded = Some(encode::repository(changed.repository, permit.viewer()));
        let answer = StartTransferResponse { repository: encoded, is_pending: false };
        let subject = subject_of(&repository, false);
        let answer = change::commit_with_subject(tx, key, answer, &subject, now).await?;
        state.relay.wake();
        return Ok(answer);
    }
    let id = repository.id();
    if state.repositories.is_name_taken(new_owner.id, &repository.name.to_ascii_lowercase(), id).await? {
        return Err(RepoError::RepositoryExists { owner: new_owner.username, name: repository.name });
    }
    let mut tx = state.db.begin().await?;
    let owner = state.repositories.lock(&mut tx, id).await?.ok_or(AuthError::RepositoryNotFound)?;
    if owner.0 != repository.owner_id {
        return Err(RepoError::Interrupted);
    }
    state.transfers.insert(&mut tx, id, new_owner.id, permit.user()?, now).await?;
    let details = [("to", new_owner.username)];
    change::record(&mut tx, permit, Action::TransferStart, Target::repository(&repository), &details, now).await?;
    let subject = subject_of(&repository, true);
    let encoded = Some(encode::repository(repository, permit.viewer()));
    let answer = StartTransferResponse { repository: encoded, is_pending: true };
    change::commit_with_subject(tx, key, answer, &subject, now).await
}

/// Returns what is stored of a response that is too large: the id of the repository.
fn subject_of(repository: &Repository, is_pending: bool) -> StartTransferResponse {
    let repository = Some(repo::Repository { id: repository.id, ..repo::Repository::default() });
    StartTransferResponse { repository, is_pending }
}

/// Returns the account that a request names, which must not own the repository already.
async fn new_owner(state: &AppState, repository: &Repository, name: &str) -> Result<User, RepoError> {
    if name.is_empty() {
        return Err(RepoError::field(FIELD, "required", "is required"));
    }
    let found = match state.accounts.find(name).await? {
        Some(user) => state.accounts.find_active(user.id).await?,
        None => None,
    };
    let found = found.ok_or_else(|| RepoError::field(FIELD, "unknown", "there is no such user or organization"))?;
    match found.id == UserId(repository.owner_id) {
        true => Err(RepoError::field(FIELD, "invalid", "owns the repository already")),
        false => Ok(found),
    }
}
