//! Fetches and pushes: `info-refs`, `upload-pack`, `receive-pack`.

use std::time::Duration;

use axum::{
    Extension,
    body::Body,
    extract::{Path, Request, State},
    response::Response,
};
use ferrite_kit::auth::Caller;
use ferrite_proto::{
    id::RepositoryId,
    operation::{RECEIVE_PACK, UPLOAD_PACK},
};
use http::{HeaderMap, HeaderValue, header};

use super::{
    answer::Refusal,
    clones,
    gates::Client,
    ls_refs, push_refs, query,
    transfer::{Fetching, Input, run},
};
use crate::{
    app::App,
    command::{Exchange, GitProtocol, ReceivePack},
    error::GitError,
    failure::Failure,
    packs::Fetch,
    pktline::service_header,
    protection::Actor,
    push::{Push, Watch},
};

/// A fetch's request, inflated.
pub(super) const FETCH_REQUEST: u64 = 32 << 20;
/// How much of a push is looked at before git is started, and how long that is waited for. One that shows less is no small one.
const PEEKED: usize = 64 << 10;
const MOMENT: Duration = Duration::from_millis(500);
/// A push is a pack and the commands before it.
pub(super) const COMMANDS: u64 = 64 << 20;

/// The id in the path.
pub(super) fn repository(id: &str) -> Result<i64, Failure> {
    id.parse().map_err(|_| GitError::RepositoryNotFound.into())
}

/// The protocol that the client asks for.
pub(super) fn protocol(headers: &HeaderMap) -> Option<GitProtocol> {
    GitProtocol::parse(headers.get("git-protocol")?.as_bytes())
}

fn is_version_2(headers: &HeaderMap) -> bool {
    let value = headers.get("git-protocol").filter(|value| GitProtocol::parse(value.as_bytes()).is_some());
    value.is_some_and(|value| value.as_bytes().split(|byte| *byte == b':').any(|part| part == b"version=2"))
}

/// What clients of today send, and nothing beside it.
fn is_plain_version_2(headers: &HeaderMap) -> bool {
    protocol(headers).is_some_and(|protocol| protocol == GitProtocol::version_2())
}

fn answer(body: Body, content_type: &'static str) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, max-age=0, must-revalidate"));
    response
}

/// The request's body, as git is to get it.
fn input(app: &App, request: Request, limit: u64) -> Result<Input, Failure> {
    let encoding = request.headers().get(header::CONTENT_ENCODING).map(|value| value.as_bytes().to_ascii_lowercase());
    match encoding.as_deref() {
        None | Some(b"identity") => Ok(Input::plain(&app.limits, request.into_body(), limit)),
        Some(b"gzip" | b"x-gzip") => Ok(Input::gzip(&app.limits, request.into_body(), limit)),
        Some(_) => Err(GitError::invalid("content-encoding", "unknown", "must be gzip or absent").into()),
    }
}

/// Whether the beginning of a push shows that it is a small one, as [`Watch::is_small`] says.
async fn is_small(input: &mut Input, max_refs: usize) -> Result<bool, GitError> {
    let (mut watch, mut seen) = (Watch::new(u64::MAX), 0);
    while !watch.is_done() && seen < PEEKED && input.peek().await? {
        if watch.see(&input.front()[seen..]).is_some() {
            // git-svc refuses it, as soon as there is somebody to do so.
            return Ok(false);
        }
        seen = input.front().len();
    }
    Ok(watch.is_small(max_refs))
}

/// `GET /git/{id}/info-refs?service=…`: what there is to fetch, or what a push starts from.
pub(super) async fn info_refs(
    State(app): State<App>,
    Path(id): Path<String>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Refusal> {
    let id = repository(&id)?;
    let service = query::value(request.uri().query().unwrap_or_default(), "service");
    let path = app.store.path(RepositoryId(id));
    match service.as_deref() {
        Some(b"git-upload-pack") => {
            let grant = app.authorize_as(&caller, UPLOAD_PACK, id).await?;
            if is_plain_version_2(request.headers()) {
                let said = ls_refs::capabilities(&app, RepositoryId(id)).await?;
                return Ok(answer(said.into(), "application/x-git-upload-pack-advertisement"));
            }
            let client = Client::of(&caller, &grant, request.headers());
            let turn = app.gates.advertise.enter(RepositoryId(id), &client).await?;
            let child = app.git.upload_pack(&path, Exchange::Advertise, protocol(request.headers()).as_ref())?;
            // Version 2 has no header: its answer says what it is.
            let prefix = if is_version_2(request.headers()) { Vec::new() } else { service_header("git-upload-pack") };
            let body = run(&app, child, Input::empty(&app.limits), prefix, turn).await?;
            Ok(answer(body, "application/x-git-upload-pack-advertisement"))
        }
        Some(b"git-receive-pack") => {
            let grant = app.authorize_as(&caller, RECEIVE_PACK, id).await?;
            if let Some(refs) = push_refs::try_advertise(&app, RepositoryId(id)).await? {
                return Ok(answer(refs, "application/x-git-receive-pack-advertisement"));
            }
            let client = Client::of(&caller, &grant, request.headers());
            let turn = app.gates.advertise.enter(RepositoryId(id), &client).await?;
            let receive =
                ReceivePack { exchange: Exchange::Advertise, protocol: None, hooks: None, hook_env: Vec::new() };
            let child = app.git.receive_pack(&path, &receive)?;
            let body = run(&app, child, Input::empty(&app.limits), service_header("git-receive-pack"), turn).await?;
            Ok(answer(body, "application/x-git-receive-pack-advertisement"))
        }
        _ => Err(GitError::invalid("service", "invalid", "must be git-upload-pack or git-receive-pack").into()),
    }
}

/// `POST /git/{id}/upload-pack`: one exchange of a fetch.
pub(super) async fn upload_pack(
    State(app): State<App>,
    Path(id): Path<String>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Refusal> {
    let id = repository(&id)?;
    let grant = app.authorize_as(&caller, UPLOAD_PACK, id).await?;
    let client = Client::of(&caller, &grant, request.headers());
    let (protocol, is_plain) = (protocol(request.headers()), is_plain_version_2(request.headers()));
    let mut input = input(&app, request, FETCH_REQUEST)?;
    if is_plain && let Some(refs) = ls_refs::try_answer(&app, RepositoryId(id), &mut input).await? {
        return Ok(answer(refs, "application/x-git-upload-pack-result"));
    }
    let turn = app.gates.fetch.enter(RepositoryId(id), &client).await?;
    let path = app.store.path(RepositoryId(id));
    metrics::counter!("ferrite_git_fetches_total").increment(1);
    let fetch = Fetch { repository: RepositoryId(id), epoch: grant.epoch, client };
    if is_plain && let Some(pack) = clones::find(&app, &fetch, &mut input).await? {
        return Ok(answer(clones::send(&app, pack, turn), "application/x-git-upload-pack-result"));
    }
    let session = app.sessions.open_fetch(fetch);
    let child = app.git.serve_fetch(&path, Exchange::Request, protocol.as_ref(), app.hooks.all(), session.env())?;
    let body = run(&app, child, input, Vec::new(), Fetching { _turn: turn, _session: session }).await?;
    Ok(answer(body, "application/x-git-upload-pack-result"))
}

/// `POST /git/{id}/receive-pack`: a push.
pub(super) async fn receive_pack(
    State(app): State<App>,
    Path(id): Path<String>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Refusal> {
    let id = repository(&id)?;
    let grant = app.authorize_as(&caller, RECEIVE_PACK, id).await?;
    let client = Client::of(&caller, &grant, request.headers());
    let turn = app.gates.push.enter(RepositoryId(id), &client).await?;
    let mut input = input(&app, request, app.max_push_bytes.saturating_add(COMMANDS))?;
    let is_small = tokio::time::timeout(MOMENT, is_small(&mut input, app.max_push_refs)).await.unwrap_or(Ok(false))?;
    let input = input.watched(Watch::new(app.max_push_objects));
    let session = app.sessions.open(Push::new(RepositoryId(id), Actor::of(&grant)));
    let receive = ReceivePack {
        exchange: Exchange::Request,
        protocol: None,
        hooks: Some(if is_small { app.hooks.of_small_pushes() } else { app.hooks.all().to_owned() }),
        hook_env: session.env(),
    };
    let child = app.git.receive_pack(&app.store.path(RepositoryId(id)), &receive)?;
    metrics::counter!("ferrite_git_pushes_total").increment(1);
    let body = run(&app, child, input, Vec::new(), (turn, session)).await?;
    Ok(answer(body, "application/x-git-receive-pack-result"))
}
