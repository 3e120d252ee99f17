//! Handler of sessions: connects a git process and an SSH client that exchange frames of
//! [`ferrite_proto::session`] over an upgraded connection.

use std::{sync::atomic::AtomicBool, time::Duration};

use axum::{body::Body, response::Response};
use ferrite_proto::{git_transport::GitService, id::RepositoryId, session::UPGRADE_PROTOCOL};
use git_store::{
    git::command::{Exchange, GitChild, HookSettings},
    types::error::GitError,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    error_response::ErrorResponse,
    git::{MAX_FETCH_REQUEST_BYTES, MAX_PUSH_COMMANDS_BYTES},
    headers::{RepositoryRequest, git_protocol},
    query,
};
use crate::{
    admission::{
        backlog::WriteAdmission,
        limiter::{ClientKey, Limiter, Permit},
        throughput::IdleTimer,
        yielding_permit::YieldingPermit,
    },
    state::AppState,
    transfer::{
        archive::{MAX_REQUEST_BYTES as MAX_ARCHIVE_REQUEST_BYTES, refusal, request_length},
        fetch::Fetch,
        push::{HookSession, Push, PushInspection, PushInspector},
        session_pipe::{FrameWriter, SessionPipe, read_message},
    },
};

const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit on the bytes from a client in a session that is not a push.
const MAX_REQUEST_BYTES: u64 = 4 * MAX_FETCH_REQUEST_BYTES;

fn limiter_of(service: GitService, state: &AppState) -> &Limiter {
    match service {
        GitService::UploadPack => &state.limiters.fetch,
        GitService::UploadArchive => &state.limiters.archive,
        GitService::ReceivePack => &state.limiters.push,
    }
}

/// Limit on the bytes from a client in one session.
fn max_input_bytes(service: GitService, state: &AppState) -> u64 {
    match service {
        GitService::UploadPack | GitService::UploadArchive => MAX_REQUEST_BYTES,
        GitService::ReceivePack => state.pushes.limits.bytes.saturating_add(MAX_PUSH_COMMANDS_BYTES),
    }
}

fn max_output_bytes(service: GitService, state: &AppState) -> u64 {
    match service {
        GitService::UploadPack | GitService::ReceivePack => u64::MAX,
        GitService::UploadArchive => state.archives.max_output_bytes(),
    }
}

/// A git process, with its permits and its registration.
struct RunningSession {
    service: GitService,
    repository: RepositoryId,
    client: ClientKey,
    /// `None` for `upload-archive`, whose process starts after its request was checked.
    child: Option<GitChild>,
    permit: Permit,
    session: Permit,
    /// Registration for the hooks of the process; `None` for `upload-archive`.
    hooked: Option<HookSession>,
    /// Inspects what the client sends; `None` unless the session is a push.
    inspector: Option<PushInspector>,
    /// `None` unless the session is a push.
    admission: Option<WriteAdmission>,
}

/// `GET /git/{id}/session?service=…`: starts a process, and upgrades the connection to a session.
pub(super) async fn session(
    RepositoryRequest { state, id: repository, caller, mut request }: RepositoryRequest,
) -> Result<Response, ErrorResponse> {
    let name = query::value(request.uri().query().unwrap_or_default(), "service").unwrap_or_default();
    let service = GitService::parse(&name).ok_or_else(|| {
        GitError::invalid("service", "invalid", "must be git-upload-pack, git-receive-pack or git-upload-archive")
    })?;
    let grant = state.authorize_as(&caller, service.operation(), repository).await?;
    if !is_upgrade(request.headers()) {
        return Err(GitError::invalid("upgrade", "required", format!("must be {UPGRADE_PROTOCOL}")).into());
    }
    let upgrade = hyper::upgrade::on(&mut request);
    let client = ClientKey::of(&caller, &grant, request.headers());
    // Before taking permits, which other repositories need too.
    let admission = match service {
        GitService::ReceivePack => Some(state.backlogs.admit(repository).await),
        GitService::UploadPack | GitService::UploadArchive => None,
    };
    let session = state.limiters.session.acquire(repository, &client).await?;
    let permit = limiter_of(service, &state).acquire(repository, &client).await?;
    let mut inspector = None;
    let hooked = match service {
        GitService::ReceivePack => {
            let push = Push::of(repository, &grant);
            let limited = PushInspector::new(state.pushes.limits).within(grant.limits.bytes);
            inspector = Some(limited.with_push(push.state()));
            Some(state.sessions.open(push))
        }
        GitService::UploadPack => {
            let client = client.clone();
            Some(state.sessions.open_fetch(Fetch { repository, epoch: grant.epoch, client }))
        }
        GitService::UploadArchive => None,
    };
    let child = start(&state, service, repository, request.headers(), hooked.as_ref())?;
    let started = RunningSession { service, repository, client, child, permit, session, hooked, inspector, admission };
    let own = state.clone();
    state.life.spawn_for_request("session", async move { serve(&own, upgrade, started).await });
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
) -> Result<Option<GitChild>, GitError> {
    let (path, protocol) = (state.store.path(repository), git_protocol(headers));
    let env = hooked.map(HookSession::env).unwrap_or_default();
    let child = match service {
        GitService::UploadPack => {
            metrics::counter!("ferrite_git_fetches_total").increment(1);
            let hook = HookSettings { path: &state.hooks.pack_objects(), env };
            state.git.upload_pack(&path, Exchange::Session, protocol.as_ref(), Some(hook))
        }
        GitService::UploadArchive => return Ok(None),
        GitService::ReceivePack => {
            metrics::counter!("ferrite_git_pushes_total").increment(1);
            let hooks = HookSettings { path: state.hooks.all(), env };
            state.git.receive_pack(&path, Exchange::Session, protocol.as_ref(), Some(hooks))
        }
    };
    child.map(Some)
}

/// Reads the request for an archive and starts its process; `None` if the request was rejected,
/// which the client was told.
async fn start_archive<R, W>(
    state: &AppState,
    repository: RepositoryId,
    pipe: &SessionPipe<'_, W>,
    reader: &mut R,
) -> Result<Option<GitChild>, GitError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let request = read_message(reader, MAX_ARCHIVE_REQUEST_BYTES, request_length);
    let request = tokio::time::timeout(state.transfers.limits.pause, request).await;
    let request = request.map_err(|_| GitError::TimedOut { what: "the request" })??;
    match state.archives.start_remote(repository, &request).await? {
        Ok(child) => Ok(Some(child)),
        Err(reason) => pipe.refuse(&refusal(&reason)).await.map(|()| None),
    }
}

/// Runs the process to its end, or kills it if the session fails.
async fn serve(state: &AppState, upgrade: OnUpgrade, started: RunningSession) {
    let RunningSession { service, repository, client, mut child, permit, session, hooked, inspector, admission } =
        started;
    let outcome = match tokio::time::timeout(UPGRADE_TIMEOUT, upgrade).await {
        Ok(Ok(stream)) => {
            let (mut reader, writer) = tokio::io::split(TokioIo::new(stream));
            let pipe = SessionPipe {
                idle: IdleTimer::new(),
                permit: YieldingPermit::new(limiter_of(service, state), repository, client, permit),
                limit: max_input_bytes(service, state),
                output_limit: max_output_bytes(service, state),
                // The request for an archive is read before its process starts.
                has_all_input: AtomicBool::new(service == GitService::UploadArchive),
                filters_prefixes: service == GitService::UploadPack,
                limits: &state.transfers.limits,
                secret: state.store.path(repository),
                writer: FrameWriter::new(writer),
            };
            let inspection = inspector.map(PushInspection::new);
            if child.is_none() {
                match start_archive(state, repository, &pipe, &mut reader).await {
                    Ok(started) => child = started,
                    Err(error) => pipe.close_with(&error).await,
                }
            }
            match &mut child {
                Some(child) => pipe.run(child, reader, inspection).await,
                None => Ok(()),
            }
        }
        Ok(Err(_)) | Err(_) => Err(GitError::ClientGone),
    };
    let ended_well = outcome.is_ok();
    if let Err(error) = outcome {
        tracing::debug!(service = service.name(), %error, "a session failed");
        if let Some(child) = child {
            child.end().await;
        }
    }
    if let Some(push) = hooked
        && service == GitService::ReceivePack
    {
        state.pushes.clean_up(push, ended_well).await;
    }
    drop((session, admission));
}
