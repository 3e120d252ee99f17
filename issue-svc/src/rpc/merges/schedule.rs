//! ScheduleMerge and CancelMerge.

use ferrite_db::idempotency::{IdempotencyKey, once, once_or_rebuild};
use ferrite_proto::error::FieldViolation;
use ferrite_proto::git::MergeStyle;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::*;
use ferrite_rpc::auth::AuthError;
use tonic::Request;

use crate::encode;
use crate::error::IssueError;
use crate::model::{allows_style, check_commit_id};
use crate::pulls::Update;
use crate::rpc::user;
use crate::state::AppState;
use crate::writer::NewScheduledMerge;

const MAX_MESSAGE_BYTES: usize = 256 * 1024;

pub(in crate::rpc) async fn schedule_merge(
    state: &AppState,
    request: Request<ScheduleMergeRequest>,
) -> Result<ScheduleMergeResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let user = user(&grant)?;
    // Only a token can be asked about later.
    let caller = grant.user.as_ref().filter(|user| user.token_id != 0).ok_or(AuthError::CredentialsRequired)?;
    // The merge outlives a session: then the account counts.
    let token_id = if caller.is_session { 0 } else { caller.token_id };
    let key = IdempotencyKey::of(&request, user.0, "ScheduleMerge")?;
    let request = request.into_inner();
    let (repository, number) = (RepositoryId(request.repository_id), request.number);
    let schedule = async {
        let style = match MergeStyle::try_from(request.style) {
            Ok(MergeStyle::Unspecified) | Err(_) => Some(FieldViolation::new("style", "required", "is required")),
            Ok(_) => None,
        };
        let message = (request.message.len() > MAX_MESSAGE_BYTES)
            .then(|| FieldViolation::new("message", "too_long", "must not be longer than 256 KiB"));
        let head = (!request.head_id.is_empty()).then(|| check_commit_id("head_id", &request.head_id).err()).flatten();
        if style.is_some() || message.is_some() || head.is_some() {
            return Err(IssueError::invalid([style, message, head]));
        }
        let described = state.pulls.describe(repository).await?;
        let mut write = state.writer.begin_pull(repository).await?;
        let full = write
            .schedule_merge(NewScheduledMerge {
                number,
                user,
                token_id,
                style: request.style,
                is_style_allowed: allows_style(described.pulls.as_ref(), request.style),
                head_id: request.head_id.to_ascii_lowercase(),
                message: request.message,
                author: request.author,
                deletes_branch: request.deletes_branch,
            })
            .await?;
        // What was missing may have come since the merge was refused.
        let now_us = write.now_us();
        state.pulls.queue.record(write.tx(), repository, &Update::Scheduled { number }, user, now_us).await?;
        let response = ScheduleMergeResponse { pull: Some(encode::issue(full)) };
        let response = write.commit_with_subject(key.as_ref(), response, number).await?;
        state.pulls.queue.wake();
        Ok(response)
    };
    let rebuild = |number: i64| async move {
        Ok(ScheduleMergeResponse { pull: Some(encode::issue(state.full_pull(repository, number).await?)) })
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, schedule).await
}

pub(in crate::rpc) async fn cancel_merge(
    state: &AppState,
    request: Request<CancelMergeRequest>,
) -> Result<CancelMergeResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let user = user(&grant)?;
    let key = IdempotencyKey::of(&request, user.0, "CancelMerge")?;
    let CancelMergeRequest { repository_id, number } = request.into_inner();
    let cancel = async {
        let mut write = state.writer.begin_pull(RepositoryId(repository_id)).await?;
        let (issue, _) = write.pull(number).await?;
        if !write.cancel_merge(issue, user, "").await? {
            return Err(IssueError::MergeNotScheduled);
        }
        write.commit(key.as_ref(), CancelMergeResponse {}).await
    };
    once(state.store.db(), key.as_ref(), cancel).await
}
