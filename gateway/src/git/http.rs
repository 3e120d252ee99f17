//! Handlers of git over HTTP. Each authorizes its caller with one call to repo-svc, then pipes the
//! request to git-svc and the response back.

use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::Response;
use ferrite_proto::git_transport::GitService;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::{BasicCredential, ReauthorizeAccessRequest, ResolveAccessRequest};
use ferrite_rpc::grpc::Channel;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, EXPIRES, PRAGMA, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use super::error::{GitHttpError, one_line};
use super::request::{
    advertisement_type, check_type, git_protocol, is_gzip, request_type, result_type, service_of_query,
};
use super::target;
use crate::auth::{Credential, is_cross_site};
use crate::upstream::client_headers::ClientHeaders;
use crate::upstream::git_client::{GitClientError, GitHttpClient, OVERLOADED, reason_of, set_git_protocol};
use crate::upstream::grant::Grant;
use crate::upstream::reauthorize::Reauthorizer;

/// Deadline of `info/refs`. git-svc uses up to half of it to wait until a process can start.
const ADVERTISE_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_ERROR_BODY_BYTES: usize = 4096;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(crate) struct GitHttpState {
    pub(crate) access: AccessServiceClient<Channel>,
    pub(crate) git_client: GitHttpClient,
    pub(crate) reauthorizer: Reauthorizer,
    /// Whether also fetches of what is public need an account.
    pub(crate) requires_account: bool,
}

struct Authorized {
    repository_id: i64,
    grant: Grant,
    is_anonymous: bool,
    /// For [`Reauthorizer::until_revoked`].
    reauthorization: Option<ReauthorizeAccessRequest>,
}

type PathNames = Result<Path<(String, String)>, PathRejection>;

pub(super) async fn advertise_refs(
    State(state): State<GitHttpState>,
    names: PathNames,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, GitHttpError> {
    let service = service_of_query(query.as_deref())?;
    let protocol = git_protocol(&headers)?;
    let credential = credential_for(service, &headers)?;
    let authorized = state.authorize(service, names, credential, &headers).await?;
    let path = format!("/git/{}/info-refs?service={}", authorized.repository_id, service.name());
    let mut request = authorized.request(Method::GET, &path, Body::empty(), &headers)?;
    if let Some(protocol) = protocol {
        set_git_protocol(request.headers_mut(), &protocol);
    }
    let response = tokio::time::timeout(ADVERTISE_TIMEOUT, state.send(request, authorized.is_anonymous));
    let body = response.await.map_err(|_| GitHttpError::Unavailable(None))??;
    // A list of refs can be long and its reader slow.
    let body = state.reauthorizer.guard(body, state.reauthorizer.until_revoked(authorized.reauthorization));
    Ok(uncached_response(advertisement_type(service), body))
}

pub(super) async fn upload_pack(
    State(state): State<GitHttpState>,
    names: PathNames,
    request: Request,
) -> Result<Response, GitHttpError> {
    state.exchange(GitService::UploadPack, names, request).await
}

pub(super) async fn receive_pack(
    State(state): State<GitHttpState>,
    names: PathNames,
    request: Request,
) -> Result<Response, GitHttpError> {
    state.exchange(GitService::ReceivePack, names, request).await
}

impl GitHttpState {
    /// Pipes a request body to git-svc and its response back. Does not read the body before the
    /// caller is authorized.
    async fn exchange(
        &self,
        service: GitService,
        names: PathNames,
        request: Request,
    ) -> Result<Response, GitHttpError> {
        let (parts, body) = request.into_parts();
        let credential = credential_for(service, &parts.headers)?;
        if service == GitService::ReceivePack && is_cross_site(&parts.headers) {
            return Err(GitHttpError::CrossSite);
        }
        check_type(&parts.headers, service)?;
        let is_gzip = is_gzip(&parts.headers)?;
        let protocol = git_protocol(&parts.headers)?;
        let authorized = self.authorize(service, names, credential, &parts.headers).await?;
        let path = format!("/git/{}/{}", authorized.repository_id, service.short_name());
        let mut request = authorized.request(Method::POST, &path, body, &parts.headers)?;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(request_type(service)));
        if is_gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if let Some(protocol) = protocol {
            set_git_protocol(headers, &protocol);
        }
        let mut revoked = self.reauthorizer.until_revoked(authorized.reauthorization);
        // Dropping the request to git-svc kills its git process.
        let body = tokio::select! {
            body = self.send(request, authorized.is_anonymous) => body?,
            status = &mut revoked => return Err(GitHttpError::of_status(&status, authorized.is_anonymous)),
        };
        Ok(uncached_response(result_type(service), self.reauthorizer.guard(body, revoked)))
    }

    async fn authorize(
        &self,
        service: GitService,
        names: PathNames,
        credential: Option<BasicCredential>,
        headers: &HeaderMap,
    ) -> Result<Authorized, GitHttpError> {
        let is_anonymous = credential.is_none();
        if is_anonymous && self.requires_account {
            return Err(GitHttpError::CredentialsRequired);
        }
        let target = names.ok().and_then(|Path((owner, repo))| target::parse(&owner, &repo));
        let target = target.ok_or_else(|| GitHttpError::missing(is_anonymous))?;
        let access_request = ResolveAccessRequest {
            repository: Some(target.repository),
            is_wiki: target.is_wiki,
            follow_redirect: true,
            operation: service.operation().to_owned(),
            basic: credential,
            ssh_fingerprint: None,
        };
        let request = ClientHeaders::of(headers).request(access_request);
        let response = self.access.clone().resolve_access(request).await;
        let response = response.map_err(|status| GitHttpError::of_status(&status, is_anonymous))?.into_inner();
        let grant = Grant::new(&response.grant, &response.store);
        let (Some(repository), Ok(grant)) = (response.repository, grant) else {
            tracing::error!("repo-svc authorized a git client without a repository or a grant");
            return Err(GitHttpError::Internal);
        };
        if service == GitService::ReceivePack && repository.is_mirror {
            return Err(GitHttpError::MirrorReadOnly);
        }
        let reauthorization = response.reauthorization;
        Ok(Authorized { repository_id: response.stored_id, grant, is_anonymous, reauthorization })
    }

    /// Sends a request to git-svc and returns the response body. Any status but 200 is an error.
    async fn send(&self, request: http::Request<Body>, is_anonymous: bool) -> Result<Incoming, GitHttpError> {
        let response = self.git_client.send(request).await.map_err(|error| match error {
            GitClientError::Unavailable(_) | GitClientError::NoStore(_) => GitHttpError::Unavailable(None),
            GitClientError::Interrupted(_) => GitHttpError::Interrupted,
            GitClientError::Path(_) | GitClientError::Token => GitHttpError::Internal,
        })?;
        if response.status() == StatusCode::OK {
            return Ok(response.into_body());
        }
        Err(error_of_response(response, is_anonymous).await)
    }
}

impl Authorized {
    fn request(
        &self,
        method: Method,
        path: &str,
        body: Body,
        client: &HeaderMap,
    ) -> Result<http::Request<Body>, GitHttpError> {
        let mut request =
            http::Request::builder().method(method).uri(path).body(body).map_err(|_| GitHttpError::Internal)?;
        self.grant.insert_into(request.headers_mut());
        ClientHeaders::of(client).insert_into(request.headers_mut());
        Ok(request)
    }
}

/// Reads the credential of a request: HTTP Basic only, with a password or an access token in either
/// place.
///
/// # Errors
/// [`GitHttpError::CredentialsRequired`] for a push without credentials, so that git asks its user
/// before it packs; [`GitHttpError::BadCredentials`] for another scheme or a malformed header.
fn credential_for(service: GitService, headers: &HeaderMap) -> Result<Option<BasicCredential>, GitHttpError> {
    match Credential::of(headers)? {
        Credential::Absent if service == GitService::ReceivePack => Err(GitHttpError::CredentialsRequired),
        Credential::Absent => Ok(None),
        Credential::Token(_) => Err(GitHttpError::BadCredentials),
        Credential::Basic { username, password } => {
            Ok(Some(BasicCredential { username, password: password.expose().to_owned() }))
        }
    }
}

async fn error_of_response(response: http::Response<Incoming>, is_anonymous: bool) -> GitHttpError {
    let (parts, body) = response.into_parts();
    let retry_after =
        parts.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok()).map(Duration::from_secs);
    let reason = reason_of(&parts.headers);
    match parts.status {
        StatusCode::NOT_FOUND => GitHttpError::missing(is_anonymous),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            tracing::warn!(reason, "git-svc is at a limit");
            let line = if reason == OVERLOADED { line_of(body).await } else { None };
            match line {
                Some(line) => GitHttpError::Busy(line, retry_after),
                None => GitHttpError::Unavailable(retry_after),
            }
        }
        StatusCode::INSUFFICIENT_STORAGE => {
            tracing::warn!(reason, "git-svc is out of disk space");
            GitHttpError::GitService(parts.status, line_of(body).await.unwrap_or_else(|| status_phrase(parts.status)))
        }
        // git-svc refused the gateway's grant or service credential, not the client's credentials.
        status if !status.is_client_error() || status == StatusCode::UNAUTHORIZED => {
            tracing::error!(status = status.as_u16(), reason, "git-svc failed a request");
            GitHttpError::Internal
        }
        status => GitHttpError::GitService(status, line_of(body).await.unwrap_or_else(|| status_phrase(status))),
    }
}

/// Returns the first line of an error body; `None` if it is empty or does not arrive in time.
pub(crate) async fn line_of(body: Incoming) -> Option<String> {
    let whole = tokio::time::timeout(ERROR_BODY_TIMEOUT, Limited::new(body, MAX_ERROR_BODY_BYTES).collect());
    let line = one_line(&String::from_utf8_lossy(&whole.await.ok()?.ok()?.to_bytes()));
    (!line.is_empty()).then_some(line)
}

fn status_phrase(status: StatusCode) -> String {
    status.canonical_reason().unwrap_or("refused").to_lowercase()
}

/// Builds a response that must not be cached, with the cache headers of `git http-backend`.
fn uncached_response(content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, max-age=0, must-revalidate"));
    headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    headers.insert(EXPIRES, HeaderValue::from_static("Fri, 01 Jan 1980 00:00:00 GMT"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::get;
    use ferrite_proto::metadata;

    use super::*;
    use crate::tests::git_server;

    #[tokio::test]
    async fn the_client_is_told_which_limit_has_no_room() {
        let refuse = |Path(reason): Path<String>| async move {
            let headers = [(metadata::REASON, reason), ("retry-after", "2".to_owned())];
            (StatusCode::SERVICE_UNAVAILABLE, headers, "1 per account\nand more")
        };
        let (client, life) = git_server("http-busy", Router::new().route("/git/{reason}", get(refuse))).await;
        let delay = Some(Duration::from_secs(2));
        for (reason, expected) in [
            (OVERLOADED, GitHttpError::Busy("1 per account".to_owned(), delay)),
            ("TIMED_OUT", GitHttpError::Unavailable(delay)),
        ] {
            let request = http::Request::builder().uri(format!("/git/{reason}")).body(Body::empty()).unwrap();
            let response = client.send(request).await.unwrap();
            assert_eq!(error_of_response(response, false).await, expected);
        }
        life.stop();
    }
}
