//! Sessions of people in the web pages.

use ferrite_core::text::is_control_or_direction;
use ferrite_core::{micros, timestamp};
use ferrite_db::idempotency::{IdempotencyKey, once};
use ferrite_proto::id::TokenId;
use ferrite_proto::repo::session_service_server::SessionService;
use ferrite_proto::repo::*;
use tonic::Request;

use super::accounts::new_token;
use super::authorized::Authorized;
use super::dispatch::authorized_service;
use super::lookup::{self, TokenOwner};
use super::{change, encode};
use crate::error::RepoError;
use crate::state::AppState;
use crate::store::{Action, Entry, NewSession, SessionRow, Target, append};

authorized_service!(SessionService {
    create_session(CreateSessionRequest) -> CreateSessionResponse;
    list_sessions(ListSessionsRequest) -> ListSessionsResponse;
    delete_session(DeleteSessionRequest) -> DeleteSessionResponse;
});

const MAX_USER_AGENT_CHARS: usize = 200;

/// Signs a user in. The value of the session is in the response and stored nowhere, so the request
/// takes no idempotency key.
async fn create_session(
    state: &AppState,
    authorized: Authorized,
    request: Request<CreateSessionRequest>,
) -> Result<CreateSessionResponse, RepoError> {
    let CreateSessionRequest { credential, user_agent } = request.into_inner();
    let owner = lookup::session_owner(state, credential, authorized.client_address()).await?;
    let shared = state.clone();
    // Runs in its own task: a request cancelled after its commit must still revoke the cached
    // session that made room.
    let task = state
        .life
        .spawn_for_request("create session", async move { create(&shared, &authorized, &owner, &user_agent).await });
    task.await.unwrap_or(Err(RepoError::Interrupted))
}

async fn create(
    state: &AppState,
    authorized: &Authorized,
    owner: &TokenOwner,
    user_agent: &str,
) -> Result<CreateSessionResponse, RepoError> {
    let (value, now) = (new_token()?, state.clock.now_us());
    let new = NewSession {
        user_agent: user_agent
            .chars()
            .filter(|char| !is_control_or_direction(*char))
            .take(MAX_USER_AGENT_CHARS)
            .collect(),
        address: authorized.client_address().as_str().to_owned(),
        expire_us: now.saturating_add(micros(state.config.sessions.session_lifetime)),
    };
    let mut tx = state.db.begin().await?;
    owner.confirm(state, &mut tx).await?;
    let (row, ended) = state.sessions.insert(&mut tx, owner.id(), &new, &value, now).await?;
    let entry = Entry {
        actor: &authorized.actor_as(owner.identity()),
        action: Action::SessionCreate,
        target: Target::user(owner.id(), &owner.identity().username),
        details: &[("session", row.id.to_string())],
    };
    append(&mut tx, entry, now).await?;
    tx.commit().await?;
    change::revoke_cached(state.cache.as_ref(), &ended).await;
    let user = Some(encode::identity(owner.identity()));
    Ok(CreateSessionResponse { session: Some(shown(row, None)), value, user })
}

/// `current` is the session of the caller.
fn shown(row: SessionRow, current: Option<i64>) -> Session {
    Session {
        id: row.id,
        create_time: Some(timestamp(row.created_us)),
        last_use_time: Some(timestamp(row.last_use_us)),
        expire_time: Some(timestamp(row.expire_us)),
        address: row.address,
        user_agent: row.user_agent,
        is_current: current == Some(row.id),
    }
}

/// The session that a request was made with, if any.
fn current(authorized: &Authorized) -> Result<Option<i64>, RepoError> {
    let identity = authorized.identity()?;
    Ok(identity.is_session.then_some(identity.token_id))
}

async fn list_sessions(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListSessionsRequest>,
) -> Result<ListSessionsResponse, RepoError> {
    let ListSessionsRequest { page, page_size } = request.into_inner();
    let page = lookup::page(page, page_size);
    let (rows, total_count) = state.sessions.list(authorized.user()?, page, state.clock.now_us()).await?;
    let current = current(&authorized)?;
    let sessions = rows.into_iter().map(|row| shown(row, current)).collect();
    Ok(ListSessionsResponse { sessions, total_count })
}

async fn delete_session(
    state: &AppState,
    authorized: Authorized,
    request: Request<DeleteSessionRequest>,
) -> Result<DeleteSessionResponse, RepoError> {
    let key = IdempotencyKey::of(&request, authorized.user()?.0, "DeleteSession")?;
    let (id, shared) = (request.into_inner().session_id, state.clone());
    // Runs in its own task: a request cancelled after its commit must still revoke the cached
    // session.
    let task = state.life.spawn_for_request("delete session", async move {
        once(&shared.db, key.as_ref(), delete(&shared, id, &authorized, key.as_ref())).await
    });
    task.await.unwrap_or(Err(RepoError::Interrupted))
}

async fn delete(
    state: &AppState,
    id: i64,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteSessionResponse, RepoError> {
    let id = match id {
        0 => current(authorized)?.ok_or(RepoError::SessionNotFound)?,
        id => id,
    };
    let (user, now) = (authorized.user()?, state.clock.now_us());
    let mut tx = state.db.begin().await?;
    let hash = state.sessions.delete(&mut tx, user, TokenId(id)).await?.ok_or(RepoError::SessionNotFound)?;
    let target = Target::user(user, &authorized.identity()?.username);
    let details = [("session", id.to_string())];
    change::record(&mut tx, authorized, Action::SessionDelete, target, &details, now).await?;
    let response = change::commit(tx, key, DeleteSessionResponse {}, now).await?;
    change::revoke_cached(state.cache.as_ref(), &[hash]).await;
    Ok(response)
}
