//! Fetches and pushes: `info-refs`, `upload-pack`, `receive-pack`.

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
    gates::Client,
    query,
    transfer::{Input, run},
};
use crate::{
    app::App,
    command::{Exchange, GitProtocol, ReceivePack},
    error::GitError,
    failure::Failure,
    pktline::service_header,
    protection::Actor,
    push::{Push, Watch},
};

/// A fetch's request, inflated.
pub(super) const FETCH_REQUEST: u64 = 32 << 20;
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

fn answer(body: Body, content_type: &'static str) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, max-age=0, must-revalidate"));
    response
}

/// The request's body, as git is to get it.
fn input(request: Request, limit: u64) -> Result<Input, Failure> {
    let encoding = request.headers().get(header::CONTENT_ENCODING).map(|value| value.as_bytes().to_ascii_lowercase());
    match encoding.as_deref() {
        None | Some(b"identity") => Ok(Input::plain(request.into_body(), limit)),
        Some(b"gzip" | b"x-gzip") => Ok(Input::gzip(request.into_body(), limit)),
        Some(_) => Err(GitError::invalid("content-encoding", "unknown", "must be gzip or absent").into()),
    }
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
            let client = Client::of(&caller, &grant, request.headers());
            let turn = app.gates.advertise.enter(RepositoryId(id), &client).await?;
            let child = app.git.upload_pack(&path, Exchange::Advertise, protocol(request.headers()).as_ref())?;
            // Version 2 has no header: its answer says what it is.
            let prefix = if is_version_2(request.headers()) { Vec::new() } else { service_header("git-upload-pack") };
            let body = run(&app, child, Input::empty(), prefix, turn).await?;
            Ok(answer(body, "application/x-git-upload-pack-advertisement"))
        }
        Some(b"git-receive-pack") => {
            let grant = app.authorize_as(&caller, RECEIVE_PACK, id).await?;
            let client = Client::of(&caller, &grant, request.headers());
            let turn = app.gates.advertise.enter(RepositoryId(id), &client).await?;
            let receive =
                ReceivePack { exchange: Exchange::Advertise, protocol: None, hooks: None, hook_env: Vec::new() };
            let child = app.git.receive_pack(&path, &receive)?;
            let body = run(&app, child, Input::empty(), service_header("git-receive-pack"), turn).await?;
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
    let turn = app.gates.fetch.enter(RepositoryId(id), &client).await?;
    let protocol = protocol(request.headers());
    let input = input(request, FETCH_REQUEST)?;
    let path = app.store.path(RepositoryId(id));
    let child = app.git.upload_pack(&path, Exchange::Request, protocol.as_ref())?;
    metrics::counter!("ferrite_git_fetches_total").increment(1);
    let body = run(&app, child, input, Vec::new(), turn).await?;
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
    let input = input(request, app.max_push_bytes.saturating_add(COMMANDS))?.watched(Watch::new(app.max_push_objects));
    let session = app.sessions.open(Push::new(RepositoryId(id), Actor::of(&grant)));
    let receive = ReceivePack {
        exchange: Exchange::Request,
        protocol: None,
        hooks: Some(app.hooks.clone()),
        hook_env: session.env(),
    };
    let child = app.git.receive_pack(&app.store.path(RepositoryId(id)), &receive)?;
    metrics::counter!("ferrite_git_pushes_total").increment(1);
    let body = run(&app, child, input, Vec::new(), (turn, session)).await?;
    Ok(answer(body, "application/x-git-receive-pack-result"))
}
