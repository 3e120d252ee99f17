use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::repo::{UpdateIssueTrackerRequest, UpdateIssueTrackerResponse};
use tonic::Request;

use super::super::{change, repeat};
use crate::error::RepoError;
use crate::model::IssueTrackerChange;
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Target};

pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<UpdateIssueTrackerRequest>,
) -> Result<UpdateIssueTrackerResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "UpdateIssueTracker")?;
    let access = repeat::repository(state, &permit, request.get_ref().repository.clone());
    repeat::once(&state.db, key.as_ref(), access, update(state, request.into_inner(), &permit, key.as_ref())).await
}

async fn update(
    state: &AppState,
    mut request: UpdateIssueTrackerRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<UpdateIssueTrackerResponse, RepoError> {
    let repository = permit.repository(&state.repositories, request.repository.take()).await?;
    let wanted = IssueTrackerChange::check(&request)?;
    let (id, now) = (repository.id(), state.clock.now_us());
    let mut tx = state.db.begin().await?;
    let before = state.repositories.lock_issue_tracker(&mut tx, id).await?.ok_or(AuthError::RepositoryNotFound)?;
    let after = wanted.apply(&before)?;
    let fields = before.changed_fields(&after);
    if !fields.is_empty() {
        state.repositories.set_issue_tracker(&mut tx, id, &after, now).await?;
        let (target, details) = (Target::repository(&repository), [("fields", fields.join(","))]);
        change::record(&mut tx, permit, Action::RepositoryUpdate, target, &details, now).await?;
    }
    change::commit(tx, key, UpdateIssueTrackerResponse {}, now).await
}
