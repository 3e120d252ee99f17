//! The RPCs of commit statuses.

use ferrite_core::{text::check_line, timestamp};
use ferrite_db::idempotency::{IdempotencyError, IdempotencyKey, once_or_rebuild};
use ferrite_listener::service;
use ferrite_proto::{
    error::FieldViolation,
    events::{StatusCreated, event::Fact},
    git::{
        CommitStatus, CreateStatusRequest, CreateStatusResponse, GetCombinedStatusRequest, GetCombinedStatusResponse,
        ListStatusesRequest, ListStatusesResponse, StatusState, status_service_server::StatusService,
    },
    id::RepositoryId,
};
use ferrite_rpc::auth::Caller;
use git_store::repo::{read, revision::Revision};
use tonic::Request;
use url::Url;

use super::{authorize, decode, encode, finish, ref_writes::WriteAccess};
use crate::{
    db::{NewStatus, StatusRow, StatusTable},
    rpc_error::RpcError,
    state::AppState,
};

const MAX_CONTEXT_BYTES: usize = 255;
const MAX_URL_BYTES: usize = 2000;
const MAX_DESCRIPTION_CHARS: usize = 1000;
/// The context of a status without one.
const DEFAULT_CONTEXT: &str = "default";

service!(StatusService for AppState {
    create_status(CreateStatusRequest) -> CreateStatusResponse;
    list_statuses(ListStatusesRequest) -> ListStatusesResponse;
    get_combined_status(GetCombinedStatusRequest) -> GetCombinedStatusResponse;
});

async fn create_status(
    state: &AppState,
    request: Request<CreateStatusRequest>,
) -> Result<CreateStatusResponse, RpcError> {
    let caller = Caller::of(&request);
    let id = RepositoryId(request.get_ref().repository_id);
    let access = WriteAccess::of(state, &caller, id).await?;
    let user = user_of(&access);
    let key = IdempotencyKey::of(&request, user, "CreateStatus")?;
    let request = request.into_inner();
    finish(state, async move |state| {
        let state = &state;
        let create = async { create(state, id, &access, request, key.as_ref()).await };
        let rebuild = |status: i64| async move {
            let found = state.statuses.find(id, status).await?.ok_or(IdempotencyError::NotKept)?;
            Ok(CreateStatusResponse { status: Some(encode_status(found)) })
        };
        once_or_rebuild(&state.db, key.as_ref(), rebuild, create).await
    })
    .await
}

async fn create(
    state: &AppState,
    id: RepositoryId,
    access: &WriteAccess,
    request: CreateStatusRequest,
    key: Option<&IdempotencyKey>,
) -> Result<CreateStatusResponse, RpcError> {
    let CreateStatusRequest { revision, state: outcome, context, target_url, description, .. } = request;
    let context = if context.is_empty() { DEFAULT_CONTEXT.to_owned() } else { context };
    let description = description.trim().replace(['\t', '\r', '\n'], " ");
    let outcome = StatusState::try_from(outcome).unwrap_or_default();
    let checks =
        [check_state(outcome), check_context(&context), check_url(&target_url), check_description(&description)];
    let violations: Vec<_> = checks.into_iter().flatten().collect();
    if !violations.is_empty() {
        return Err(RpcError::Fields(violations));
    }
    let commit = find(state, id, &revision).await?;
    let user = user_of(access);
    let status = NewStatus { commit: commit.id, context, state: outcome, target_url, description, user };
    access.confirm(state).await?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    let status = encode_status(StatusTable::add(&mut tx, id, status, now).await??);
    let commit = encode::commit(read::CommitInfo { message: first_lines(commit.message), ..commit });
    let fact = StatusCreated { status: Some(status.clone()), commit: Some(commit) };
    state.updater.announce(&mut tx, id, Fact::StatusCreated(fact)).await?;
    let status_id = status.id;
    let response = CreateStatusResponse { status: Some(status) };
    if let Some(key) = key {
        key.store_with_subject(&mut tx, &response, &status_id, now).await?;
    }
    tx.commit().await?;
    state.updater.wake_relay();
    Ok(response)
}

fn user_of(access: &WriteAccess) -> i64 {
    access.grant.user_id().map_or(0, |user| user.0)
}

/// Cuts a commit message for the event of a status.
fn first_lines(mut message: String) -> String {
    const MAX_BYTES: usize = 4096;
    message.truncate(message.floor_char_boundary(MAX_BYTES));
    message
}

async fn find(state: &AppState, id: RepositoryId, revision: &[u8]) -> Result<read::CommitInfo, RpcError> {
    let revision = Revision::parse(revision)?;
    Ok(state.pool.run(id, move |repo| read::commit(repo, &revision)).await?)
}

async fn list_statuses(
    state: &AppState,
    request: Request<ListStatusesRequest>,
) -> Result<ListStatusesResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let page = decode::parse_page(request.page, request.page_size)?;
    let commit = find(state, id, &request.revision).await?.id;
    let only = Some(request.state()).filter(|state| *state != StatusState::Unspecified);
    let (rows, total_count) = state.statuses.list(id, commit, only, request.is_oldest_first, page).await?;
    Ok(ListStatusesResponse { statuses: rows.into_iter().map(encode_status).collect(), total_count })
}

async fn get_combined_status(
    state: &AppState,
    request: Request<GetCombinedStatusRequest>,
) -> Result<GetCombinedStatusResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let page = decode::parse_page(request.page, request.page_size)?;
    let commit = find(state, id, &request.revision).await?.id;
    let newest = state.statuses.newest(id, commit).await?;
    let total_count = encode::total_count(newest.len());
    let worst = StatusState::worst(newest.iter().map(StatusRow::state));
    let shown = newest.into_iter().skip((page.number - 1).saturating_mul(page.size)).take(page.size);
    Ok(GetCombinedStatusResponse {
        commit_id: commit.to_string(),
        state: worst.into(),
        statuses: shown.map(encode_status).collect(),
        total_count,
    })
}

fn encode_status(row: StatusRow) -> CommitStatus {
    CommitStatus {
        state: row.state().into(),
        id: row.id,
        commit_id: row.commit_id,
        context: row.context,
        target_url: row.target_url,
        description: row.description,
        user_id: row.user_id,
        created_time: Some(timestamp(row.created_us)),
    }
}

fn check_state(state: StatusState) -> Option<FieldViolation> {
    (state == StatusState::Unspecified).then(|| FieldViolation::new("state", "required", "is required"))
}

/// Checks the context of a status or of a protection rule, in `field`.
pub(super) fn check_context_of(field: &str, context: &str) -> Option<FieldViolation> {
    if context.len() > MAX_CONTEXT_BYTES {
        let message = format!("must have at most {MAX_CONTEXT_BYTES} bytes");
        return Some(FieldViolation::new(field, "too_long", message));
    }
    check_line(context, field).err()
}

fn check_context(context: &str) -> Option<FieldViolation> {
    if context.trim().is_empty() {
        return Some(FieldViolation::new("context", "invalid", "must not be blank"));
    }
    check_context_of("context", context)
}

fn check_url(url: &str) -> Option<FieldViolation> {
    if url.is_empty() {
        return None;
    }
    if url.len() > MAX_URL_BYTES {
        let message = format!("must have at most {MAX_URL_BYTES} bytes");
        return Some(FieldViolation::new("target_url", "too_long", message));
    }
    let is_page = Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if !is_page {
        return Some(FieldViolation::new("target_url", "invalid", "must be an absolute http or https URL"));
    }
    check_line(url, "target_url").err()
}

fn check_description(text: &str) -> Option<FieldViolation> {
    if text.chars().nth(MAX_DESCRIPTION_CHARS).is_some() {
        let message = format!("must have at most {MAX_DESCRIPTION_CHARS} characters");
        return Some(FieldViolation::new("description", "too_long", message));
    }
    check_line(text, "description").err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_pages_on_the_web() {
        for wrong in ["javascript:alert(1)", "/relative", "ftp://h/x", "http://", "https://h/\u{202e}x"] {
            assert_eq!(check_url(wrong).unwrap().field, "target_url", "{wrong}");
        }
        for right in ["", "http://ci", "https://ci.example/builds/1?x=y#log"] {
            assert!(check_url(right).is_none(), "{right}");
        }
    }
}
