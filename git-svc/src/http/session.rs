//! Handler of sessions: a git process and an SSH client that exchange frames of [`ferrite_proto::session`] over an
//! upgraded connection. Not here: the exchange itself (`transfer::session_pipe`).

use std::time::Duration;

use axum::{
    Extension,
    body::Body,
    extract::{Path, Request, State},
    response::Response,
};
use ferrite_kit::auth::Caller;
use ferrite_proto::{git_transport::GitService, id::RepositoryId, session::UPGRADE_PROTOCOL};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::{
    error_response::ErrorResponse,
    git::{MAX_FETCH_REQUEST_BYTES, MAX_PUSH_COMMANDS_BYTES},
    headers::{git_protocol, repository},
    query,
};
use crate::{
    admission::{
        idle_timer::IdleTimer,
        limiter::{ClientKey, Limiter, Permit},
        yielding_permit::YieldingPermit,
    },
    git::command::{Exchange, GitChild, ReceivePack},
    state::AppState,
    transfer::{
        fetch::Fetch,
        push::{HookSession, Push, PushInspector},
        session_pipe::{FrameWriter, SessionPipe},
    },
    types::{error::GitError, protection::Actor},
};

/// Maximum time for the upgrade of the connection.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes that a client may send in a session that is not a push.
const MAX_REQUEST_BYTES: u64 = 4 * MAX_FETCH_REQUEST_BYTES;

/// Returns the limiter of the service's processes.
fn limiter_of(service: GitService, state: &AppState) -> &Limiter {
    match service {
        GitService::UploadPack => &state.limiters.fetch,
        GitService::UploadArchive => &state.limiters.archive,
        GitService::ReceivePack => &state.limiters.push,
    }
}

/// Returns the maximum bytes that a client of the service may send in one session.
fn max_input_bytes(service: GitService, state: &AppState) -> u64 {
    match service {
        GitService::UploadPack | GitService::UploadArchive => MAX_REQUEST_BYTES,
        GitService::ReceivePack => state.pushes.limits().bytes.saturating_add(MAX_PUSH_COMMANDS_BYTES),
    }
}

/// A git process, with the permits and the registration that it holds.
struct RunningSession {
    service: GitService,
    repository: RepositoryId,
    client: ClientKey,
    child: GitChild,
    permit: Permit,
    session: Permit,
    /// Registration for the hooks of the process; `None` for `upload-archive`.
    hooked: Option<HookSession>,
}

/// `GET /git/{id}/session?service=…`: starts a process, and upgrades the connection to a session.
pub(super) async fn session(
    State(state): State<AppState>,
    Path(id): Path<String>,
    Extension(caller): Extension<Caller>,
    mut request: Request,
) -> Result<Response, ErrorResponse> {
    let id = repository(&id)?;
    let name = query::value(request.uri().query().unwrap_or_default(), "service").unwrap_or_default();
    let service = GitService::parse(&name).ok_or_else(|| {
        GitError::invalid("service", "invalid", "must be git-upload-pack, git-receive-pack or git-upload-archive")
    })?;
    let grant = state.authorize_as(&caller, service.operation(), id).await?;
    if !is_upgrade(request.headers()) {
        return Err(GitError::invalid("upgrade", "required", format!("must be {UPGRADE_PROTOCOL}")).into());
    }
    let upgrade = hyper::upgrade::on(&mut request);
    let repository = RepositoryId(id);
    let client = ClientKey::of(&caller, &grant, request.headers());
    let session = state.limiters.session.acquire(repository, &client).await?;
    let permit = limiter_of(service, &state).acquire(repository, &client).await?;
    let hooked = match service {
        GitService::ReceivePack => Some(state.sessions.open(Push::new(repository, Actor::of(&grant)))),
        GitService::UploadPack => {
            let client = client.clone();
            Some(state.sessions.open_fetch(Fetch { repository, epoch: grant.epoch, client }))
        }
        GitService::UploadArchive => None,
    };
    let child = start(&state, service, repository, request.headers(), hooked.as_ref())?;
    let started = RunningSession { service, repository, client, child, permit, session, hooked };
    let own = state.clone();
    state.life.spawn("session", async move { serve(&own, upgrade, started).await });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static(UPGRADE_PROTOCOL));
    Ok(response)
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes() == UPGRADE_PROTOCOL.as_bytes())
}

fn start(
    state: &AppState,
    service: GitService,
    repository: RepositoryId,
    headers: &HeaderMap,
    hooked: Option<&HookSession>,
) -> Result<GitChild, GitError> {
    let path = state.store.path(repository);
    let hook_env = hooked.map(HookSession::env).unwrap_or_default();
    match service {
        GitService::UploadPack => {
            metrics::counter!("ferrite_git_fetches_total").increment(1);
            state.git.serve_fetch(
                &path,
                Exchange::Session,
                git_protocol(headers).as_ref(),
                &state.hooks.pack_objects(),
                hook_env,
            )
        }
        GitService::UploadArchive => state.git.upload_archive(&path),
        GitService::ReceivePack => {
            metrics::counter!("ferrite_git_pushes_total").increment(1);
            let hooks = Some(state.hooks.all().to_owned());
            let receive = ReceivePack { exchange: Exchange::Session, protocol: git_protocol(headers), hooks, hook_env };
            state.git.receive_pack(&path, &receive)
        }
    }
}

/// Runs the process to its end, or ends it if the session fails.
async fn serve(state: &AppState, upgrade: OnUpgrade, started: RunningSession) {
    let RunningSession { service, repository, client, mut child, permit, session, hooked } = started;
    let name = child.name();
    let outcome = match tokio::time::timeout(UPGRADE_TIMEOUT, upgrade).await {
        Ok(Ok(stream)) => {
            let (reader, writer) = tokio::io::split(TokioIo::new(stream));
            let pipe = SessionPipe {
                idle: IdleTimer::new(),
                permit: YieldingPermit::new(limiter_of(service, state), repository, client, permit),
                limit: max_input_bytes(service, state),
                limits: state.transfers.limits(),
                secret: state.store.path(repository),
                writer: FrameWriter::new(writer),
            };
            let inspector =
                (service == GitService::ReceivePack).then(|| PushInspector::new(state.pushes.limits().objects));
            pipe.run(&mut child, reader, inspector).await
        }
        Ok(Err(_)) | Err(_) => Err(GitError::ClientGone),
    };
    let ended_well = outcome.is_ok();
    if let Err(error) = outcome {
        tracing::debug!(name, %error, "a session was ended");
        child.end().await;
    }
    if let Some(push) = hooked
        && service == GitService::ReceivePack
    {
        state.pushes.clean_up(push, ended_well).await;
    }
    drop(session);
}
