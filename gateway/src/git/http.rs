use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRef, Path, RawQuery, Request, State};
use axum::response::Response;
use ferrite_kit::grpc::Channel;
use ferrite_proto::repo::ResolveAccessRequest;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::{metadata, operation};
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, EXPIRES, PRAGMA, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use super::error::{Refusal, one_line};
use super::request::{HEADER, Service, check_type, git_protocol, is_gzip};
use super::target;
use crate::auth::git_credentials::Credentials;
use crate::state::Gateway;
use crate::upstream::capabilities::Capabilities;
use crate::upstream::git_client::{Bulk, BulkError};
use crate::upstream::reauthorize::{Guarded, until_refused};

/// git-svc lets a request wait for a free process for half of this.
const ADVERTISE_DEADLINE: Duration = Duration::from_secs(60);
const MAX_REFUSAL_BYTES: usize = 4096;
const REFUSAL_DEADLINE: Duration = Duration::from_secs(5);
const MAX_REQUEST_ID_BYTES: usize = 128;

/// What git's three addresses need.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    /// Who is calling, and may they.
    pub(super) access: AccessServiceClient<Channel>,
    /// The way to git.
    pub(super) bulk: Bulk,
    /// After which time callers of long transfers are asked about again.
    pub(super) recheck: Duration,
    /// What fetches of version 2 begin with.
    pub(super) capabilities: Capabilities,
}

impl FromRef<Gateway> for Door {
    fn from_ref(gateway: &Gateway) -> Self {
        Self {
            access: gateway.clients.access(),
            bulk: gateway.bulk.clone(),
            recheck: gateway.recheck,
            capabilities: gateway.capabilities.clone(),
        }
    }
}

/// A caller that was let in.
struct Admitted {
    repository_id: i64,
    grant: HeaderValue,
    is_anonymous: bool,
    /// What was asked about the caller.
    question: ResolveAccessRequest,
}

type Names = Result<Path<(String, String)>, PathRejection>;

/// `GET info/refs`: the refs of a repository, which begin every fetch and push.
pub(super) async fn advertise(
    State(door): State<Door>,
    names: Names,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let service = Service::of_query(query.as_deref())?;
    let git_protocol = git_protocol(&headers)?;
    let admitted = door.admit(service, names, &headers).await?;
    // Then it names no refs: it is the same for every repository.
    let is_plain = service == Service::UploadPack && git_protocol.as_ref().is_some_and(|said| said == "version=2");
    if is_plain && let Some(said) = door.capabilities.get() {
        return Ok(fresh(service.advertisement_type(), Body::from(said)));
    }
    let path = format!("/git/{}/info-refs?service={}", admitted.repository_id, service.name());
    let mut request = admitted.request(Method::GET, &path, Body::empty(), &headers)?;
    if let Some(value) = git_protocol {
        request.headers_mut().insert(HEADER, value);
    }
    let answer = tokio::time::timeout(ADVERTISE_DEADLINE, door.send(request, admitted.is_anonymous));
    let body = answer.await.map_err(|_| Refusal::Unavailable(None))??;
    let body = if is_plain { door.capabilities.keep(body).await? } else { Body::new(body) };
    Ok(fresh(service.advertisement_type(), body))
}

/// `POST git-upload-pack`: a fetch.
pub(super) async fn upload_pack(State(door): State<Door>, names: Names, request: Request) -> Result<Response, Refusal> {
    door.exchange(Service::UploadPack, names, request).await
}

/// `POST git-receive-pack`: a push.
pub(super) async fn receive_pack(
    State(door): State<Door>,
    names: Names,
    request: Request,
) -> Result<Response, Refusal> {
    door.exchange(Service::ReceivePack, names, request).await
}

impl Door {
    /// Pipes a request body to git-svc and its answer back. Not a byte of it is read before the caller is let in.
    async fn exchange(&self, service: Service, names: Names, request: Request) -> Result<Response, Refusal> {
        let (parts, body) = request.into_parts();
        refuse_strangers(service, &Credentials::of(&parts.headers)?)?;
        check_type(&parts.headers, service)?;
        let is_gzip = is_gzip(&parts.headers)?;
        let git_protocol = git_protocol(&parts.headers)?;
        let admitted = self.admit(service, names, &parts.headers).await?;
        let path = format!("/git/{}/{}", admitted.repository_id, service.path());
        let mut upstream = admitted.request(Method::POST, &path, body, &parts.headers)?;
        let headers = upstream.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(service.request_type()));
        if is_gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if let Some(value) = git_protocol {
            headers.insert(HEADER, value);
        }
        let mut refused = until_refused(self.access.clone(), admitted.question, self.recheck);
        // To drop the request is to end git.
        let body = tokio::select! {
            body = self.send(upstream, admitted.is_anonymous) => body?,
            status = &mut refused => return Err(Refusal::of_status(&status, admitted.is_anonymous)),
        };
        Ok(fresh(service.result_type(), Body::new(Guarded::new(body, refused))))
    }

    /// Asks repo-svc who is calling and what they may, and lets them in or says why not.
    async fn admit(&self, service: Service, names: Names, headers: &HeaderMap) -> Result<Admitted, Refusal> {
        let credentials = Credentials::of(headers)?;
        refuse_strangers(service, &credentials)?;
        let is_anonymous = credentials.is_anonymous();
        let repository = names.ok().and_then(|Path((owner, repo))| target::repository(&owner, &repo));
        let repository = repository.ok_or_else(|| Refusal::missing(is_anonymous))?;
        let question = ResolveAccessRequest {
            repository: Some(repository),
            operation: operation(service).to_owned(),
            basic: credentials.into_basic(),
            ssh_fingerprint: None,
        };
        let asked = question.clone();
        let mut question = tonic::Request::new(question);
        if let Some(id) = request_id(headers)
            && let Ok(id) = id.parse()
        {
            question.metadata_mut().insert(metadata::REQUEST_ID, id);
        }
        if let Some(client) = headers.get(metadata::CLIENT)
            && let Ok(client) = client.as_bytes().try_into()
        {
            question.metadata_mut().insert(metadata::CLIENT, client);
        }
        let answer = self.access.clone().resolve_access(question).await;
        let answer = answer.map_err(|status| Refusal::of_status(&status, is_anonymous))?.into_inner();
        let (Some(repository), Ok(grant)) = (answer.repository, HeaderValue::try_from(answer.grant)) else {
            tracing::error!("repo-svc let a git client in without a repository or a grant");
            return Err(Refusal::Internal);
        };
        if service == Service::ReceivePack && repository.is_mirror {
            return Err(Refusal::Mirror);
        }
        Ok(Admitted { repository_id: repository.id, grant, is_anonymous, question: asked })
    }

    /// Sends a request to git-svc; its answer's body, if git-svc takes it on.
    async fn send(&self, request: http::Request<Body>, is_anonymous: bool) -> Result<Incoming, Refusal> {
        let response = self.bulk.send(request).await.map_err(|error| {
            tracing::warn!(error = %chain(&error), "no answer from git-svc");
            match error {
                BulkError::Unavailable(_) => Refusal::Unavailable(None),
                BulkError::Interrupted(_) => Refusal::Interrupted,
                BulkError::Path(_) => Refusal::Internal,
            }
        })?;
        if response.status() == StatusCode::OK {
            return Ok(response.into_body());
        }
        Err(refused(response, is_anonymous).await)
    }
}

impl Admitted {
    /// A request to git-svc on behalf of the caller. Of the client's headers it carries the request id, and where it comes from, as
    /// a layer before us found it.
    fn request(
        &self,
        method: Method,
        path: &str,
        body: Body,
        client: &HeaderMap,
    ) -> Result<http::Request<Body>, Refusal> {
        let mut request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(metadata::GRANT, self.grant.clone())
            .body(body)
            .map_err(|_| Refusal::Internal)?;
        if let Some(id) = request_id(client)
            && let Ok(id) = HeaderValue::from_str(id)
        {
            request.headers_mut().insert(metadata::REQUEST_ID, id);
        }
        if let Some(address) = client.get(metadata::CLIENT) {
            request.headers_mut().insert(metadata::CLIENT, address.clone());
        }
        Ok(request)
    }
}

/// A push without credentials is asked for them at once, so that git does not learn it only after packing.
fn refuse_strangers(service: Service, credentials: &Credentials) -> Result<(), Refusal> {
    match service {
        Service::ReceivePack if credentials.is_anonymous() => Err(Refusal::Challenge),
        Service::ReceivePack | Service::UploadPack => Ok(()),
    }
}

/// What repo-svc knows a service as. Whether the caller may is decided there.
fn operation(service: Service) -> &'static str {
    match service {
        Service::UploadPack => operation::UPLOAD_PACK,
        Service::ReceivePack => operation::RECEIVE_PACK,
    }
}

/// What the client hears when git-svc answers with anything but 200.
async fn refused(response: http::Response<Incoming>, is_anonymous: bool) -> Refusal {
    let (parts, body) = response.into_parts();
    let pause =
        parts.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok()).map(Duration::from_secs);
    let reason = parts.headers.get("ferrite-reason").and_then(|value| value.to_str().ok()).unwrap_or("none").to_owned();
    match parts.status {
        StatusCode::NOT_FOUND => Refusal::missing(is_anonymous),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            tracing::warn!(reason, "git-svc has no room");
            Refusal::Unavailable(pause)
        }
        StatusCode::INSUFFICIENT_STORAGE => {
            tracing::warn!(reason, "git-svc has no room on its disk");
            Refusal::Upstream(parts.status, text(body).await.unwrap_or_else(|| phrase(parts.status)))
        }
        // The grant and our role are what it refuses then, not the client's credentials.
        status if !status.is_client_error() || status == StatusCode::UNAUTHORIZED => {
            tracing::error!(status = status.as_u16(), reason, "git-svc failed a request");
            Refusal::Internal
        }
        status => Refusal::Upstream(status, text(body).await.unwrap_or_else(|| phrase(status))),
    }
}

async fn text(body: Incoming) -> Option<String> {
    let whole = tokio::time::timeout(REFUSAL_DEADLINE, Limited::new(body, MAX_REFUSAL_BYTES).collect());
    let line = one_line(&String::from_utf8_lossy(&whole.await.ok()?.ok()?.to_bytes()));
    (!line.is_empty()).then_some(line)
}

fn phrase(status: StatusCode) -> String {
    status.canonical_reason().unwrap_or("refused").to_lowercase()
}

/// An answer of git's, which nobody may keep: the next one may differ.
fn fresh(content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, max-age=0, must-revalidate"));
    headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    headers.insert(EXPIRES, HeaderValue::from_static("Fri, 01 Jan 1980 00:00:00 GMT"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The id under which this request is known; a layer before us made it, or let the client's own pass.
fn request_id(headers: &HeaderMap) -> Option<&str> {
    let id = headers.get(metadata::REQUEST_ID)?.to_str().ok()?;
    (1..=MAX_REQUEST_ID_BYTES).contains(&id.len()).then_some(id)
}

/// An error and what caused it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        line.push_str(": ");
        line.push_str(&cause.to_string());
        source = cause.source();
    }
    line
}
