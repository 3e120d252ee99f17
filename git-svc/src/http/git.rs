//! Handlers of fetches and pushes over HTTP: `info-refs`, `upload-pack`, `receive-pack`.

use axum::{body::Body, extract::Request, response::Response};
use ferrite_proto::{
    git_transport::GitProtocol,
    operation::{RECEIVE_PACK, UPLOAD_PACK},
};
use git_store::{
    git::{
        command::{Exchange, HookSettings},
        pktline::service_header,
    },
    types::error::GitError,
};
use http::{HeaderMap, HeaderValue, header};

use super::{
    advertise_receive_pack, clone,
    error_response::ErrorResponse,
    headers::{RepositoryRequest, git_protocol},
    ls_refs, query,
};
use crate::{
    admission::limiter::ClientKey,
    rpc_error::RpcError,
    state::AppState,
    transfer::{
        fetch::Fetch,
        push::{Push, PushInspector},
        request_body::RequestBody,
    },
};

pub(super) const MAX_FETCH_REQUEST_BYTES: u64 = 32 << 20;
/// Limit on the commands before the pack of a push.
pub(super) const MAX_PUSH_COMMANDS_BYTES: u64 = 64 << 20;

fn is_version_2(headers: &HeaderMap) -> bool {
    let value = git_protocol(headers);
    value.is_some_and(|value| value.as_str().split(':').any(|part| part == "version=2"))
}

/// Returns whether the client asks for version 2 and nothing else, as current clients do.
fn is_plain_version_2(headers: &HeaderMap) -> bool {
    git_protocol(headers).is_some_and(|protocol| protocol == GitProtocol::version_2())
}

fn response(body: Body, content_type: &'static str) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, max-age=0, must-revalidate"));
    response
}

/// Returns the request body, which inflates gzip.
fn input(state: &AppState, request: Request, limit: u64) -> Result<RequestBody, RpcError> {
    let encoding = request.headers().get(header::CONTENT_ENCODING).map(|value| value.as_bytes().to_ascii_lowercase());
    match encoding.as_deref() {
        None | Some(b"identity") => Ok(RequestBody::plain(&state.transfers.limits, request.into_body(), limit)),
        Some(b"gzip" | b"x-gzip") => Ok(RequestBody::gzip(&state.transfers.limits, request.into_body(), limit)),
        Some(_) => Err(GitError::invalid("content-encoding", "unknown", "must be gzip or absent").into()),
    }
}

/// `GET /git/{id}/info-refs?service=…`: the advertisement for a fetch or a push.
pub(super) async fn info_refs(
    RepositoryRequest { state, id, caller, request }: RepositoryRequest,
) -> Result<Response, ErrorResponse> {
    let service = query::value(request.uri().query().unwrap_or_default(), "service");
    let path = state.store.path(id);
    match service.as_deref() {
        Some(b"git-upload-pack") => {
            let grant = state.authorize_as(&caller, UPLOAD_PACK, id).await?;
            if is_plain_version_2(request.headers()) {
                let said = ls_refs::capabilities(&state, id).await?;
                return Ok(response(said.into(), "application/x-git-upload-pack-advertisement"));
            }
            let client = ClientKey::of(&caller, &grant, request.headers());
            let permit = state.limiters.advertise.acquire(id, &client).await?;
            let protocol = git_protocol(request.headers());
            let child = state.git.upload_pack(&path, Exchange::Advertise, protocol.as_ref(), None)?;
            // In version 2 the response itself names the version, so it has no service header.
            let prefix = if is_version_2(request.headers()) { Vec::new() } else { service_header("git-upload-pack") };
            let body = state
                .transfers
                .run(child, RequestBody::empty(&state.transfers.limits), prefix, async move |_| drop(permit))
                .await?;
            Ok(response(body, "application/x-git-upload-pack-advertisement"))
        }
        Some(b"git-receive-pack") => {
            let grant = state.authorize_as(&caller, RECEIVE_PACK, id).await?;
            if let Some(refs) = advertise_receive_pack::try_advertise(&state, id).await? {
                return Ok(response(refs, "application/x-git-receive-pack-advertisement"));
            }
            let client = ClientKey::of(&caller, &grant, request.headers());
            let permit = state.limiters.advertise.acquire(id, &client).await?;
            let child = state.git.receive_pack(&path, Exchange::Advertise, None, None)?;
            let (input, prefix) = (RequestBody::empty(&state.transfers.limits), service_header("git-receive-pack"));
            let body = state.transfers.run(child, input, prefix, async move |_| drop(permit)).await?;
            Ok(response(body, "application/x-git-receive-pack-advertisement"))
        }
        _ => Err(GitError::invalid("service", "invalid", "must be git-upload-pack or git-receive-pack").into()),
    }
}

/// `POST /git/{id}/upload-pack`: one request of a fetch.
pub(super) async fn upload_pack(
    RepositoryRequest { state, id, caller, request }: RepositoryRequest,
) -> Result<Response, ErrorResponse> {
    let grant = state.authorize_as(&caller, UPLOAD_PACK, id).await?;
    let client = ClientKey::of(&caller, &grant, request.headers());
    let (protocol, is_plain) = (git_protocol(request.headers()), is_plain_version_2(request.headers()));
    let mut input = input(&state, request, MAX_FETCH_REQUEST_BYTES)?;
    if is_plain && let Some(refs) = ls_refs::try_answer(&state, id, &mut input).await? {
        return Ok(response(refs, "application/x-git-upload-pack-result"));
    }
    metrics::counter!("ferrite_git_fetches_total").increment(1);
    let fetch = Fetch { repository: id, epoch: grant.epoch, client };
    if is_plain && let Some(wanted) = clone::read_request(&mut input, clone::MAX_SHORT_REQUEST_BYTES).await? {
        let permit = state.limiters.clone.acquire(fetch.repository, &fetch.client).await?;
        if let Some(pack) = state.fetches.find_pack(&fetch, &wanted).await? {
            return Ok(response(clone::send(&state, pack, permit), "application/x-git-upload-pack-result"));
        }
    }
    let permit = state.limiters.fetch.acquire(fetch.repository, &fetch.client).await?;
    // A clone with many wants takes memory, so it needs one of the scarcer permits.
    if is_plain
        && input.buffered().len() > clone::MAX_SHORT_REQUEST_BYTES
        && let Some(wanted) = clone::read_request(&mut input, clone::MAX_REQUEST_BYTES).await?
        && let Some(pack) = state.fetches.find_pack(&fetch, &wanted).await?
    {
        return Ok(response(clone::send(&state, pack, permit), "application/x-git-upload-pack-result"));
    }
    let path = state.store.path(id);
    let session = state.sessions.open_fetch(fetch);
    let hook = HookSettings { path: &state.hooks.pack_objects(), env: session.env() };
    let child = state.git.upload_pack(&path, Exchange::Request, protocol.as_ref(), Some(hook))?;
    let input = input.with_few_prefixes();
    // The hook may connect as long as the process runs.
    let body = state.transfers.run(child, input, Vec::new(), async move |_| drop((permit, session))).await?;
    Ok(response(body, "application/x-git-upload-pack-result"))
}

/// `POST /git/{id}/receive-pack`: a push.
pub(super) async fn receive_pack(
    RepositoryRequest { state, id, caller, request }: RepositoryRequest,
) -> Result<Response, ErrorResponse> {
    let grant = state.authorize_as(&caller, RECEIVE_PACK, id).await?;
    let client = ClientKey::of(&caller, &grant, request.headers());
    // Before taking a permit, which other repositories need too.
    let admission = state.backlogs.admit(id).await;
    let permit = state.limiters.push.acquire(id, &client).await?;
    let input = input(&state, request, state.pushes.limits.bytes.saturating_add(MAX_PUSH_COMMANDS_BYTES))?;
    let push = Push::of(id, &grant);
    let inspector = PushInspector::new(state.pushes.limits).within(grant.limits.bytes).with_push(push.state());
    let input = input.inspected(inspector);
    let session = state.sessions.open(push);
    let hooks = HookSettings { path: state.hooks.all(), env: session.env() };
    let child = state.git.receive_pack(&state.store.path(id), Exchange::Request, None, Some(hooks))?;
    metrics::counter!("ferrite_git_pushes_total").increment(1);
    let pushes = state.pushes.clone();
    let clean_up = async move |ended_well| {
        // An aborted push leaves its objects in quarantine.
        pushes.clean_up(session, ended_well).await;
        drop((permit, admission));
    };
    let body = state.transfers.run(child, input, Vec::new(), clean_up).await?;
    Ok(response(body, "application/x-git-receive-pack-result"))
}
