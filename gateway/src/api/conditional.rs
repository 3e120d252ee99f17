//! Conditional writes: a PATCH, PUT or DELETE with `If-Match` succeeds only if a GET of the same
//! path would return that tag, and one with `If-None-Match` only if it would not.
//!
//! The gateway makes that GET with the client's credentials and compares the tags. If they match,
//! the writing service compares the version of the resource again in its transaction, so that only
//! the first of several writers with one tag succeeds. If they differ, the gateway still calls the
//! service, which refuses the write after all other checks. So clients that are not allowed to
//! write learn nothing about the tag. A malformed header is handled the same way: the gateway
//! replaces that refusal with an error about the header.
//!
//! For `If-None-Match: *` the service checks in its transaction that the resource does not exist.
//! Other tags are compared with that of the GET, or for files with the version in the service. If
//! none matches, the write goes ahead, even if the resource changes in between.
//!
//! If the body of a write names its resource, such as the branch of a file, there is no GET: the
//! tags of files end in a version, which the service compares.
//!
//! A POST has no resource yet, so `If-Match` and `If-None-Match: *` on it are refused, as a mistake in
//! its body is: after the checks of credentials and permissions.

use std::collections::{HashMap, HashSet};

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::header::{ETAG, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, RANGE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use ferrite_core::version::{Precondition, Version};
use ferrite_proto::operation;
use ferrite_rpc::version::VersionedCall;
use tower::ServiceExt;

use crate::http::body::RefusedBody;
use crate::http::error::{ApiError, FieldError};
use crate::http::if_match::{IfMatch, IfNoneMatch};
use crate::http::routes::Route;

/// Reads whose tags end in the version, `"TAG.VERSION"`, if the service returns one. The JSON of a
/// webhook does not show its secrets, so a hash of it is not enough.
const VERSION_TAGGED: [&str; 2] = [operation::GET_CONTENTS, operation::GET_HOOK];
/// Writes whose body names what they change, such as a file on another branch than the GET of the
/// path reads. The tags of their GETs have versions.
const NAMED_BY_BODY: [&str; 2] = [operation::PUT_CONTENTS, operation::DELETE_CONTENTS];
/// Headers of a write that its GET omits, because they could make it return something other than
/// the whole resource.
const LEFT_OUT: [HeaderName; 3] = [IF_MODIFIED_SINCE, IF_NONE_MATCH, RANGE];

/// A write, and the GET whose tag its conditions use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConditionalWrite {
    method: &'static str,
    operation: &'static str,
    /// `None` if no GET of the path has a tag. Then `If-Match` never matches.
    read: Option<&'static str>,
}

impl ConditionalWrite {
    /// Describes the write of a route; `None` for another kind of route.
    pub(crate) fn of(route: &Route, routes: &[Route]) -> Option<Self> {
        if !matches!(route.method, "PATCH" | "PUT" | "DELETE") {
            return None;
        }
        let read = routes.iter().find(|read| read.path == route.path && read.has_tag());
        Some(Self { method: route.method, operation: route.operation, read: read.map(|read| read.operation) })
    }

    /// Whether its conditions can use tags.
    #[cfg(test)]
    pub(crate) fn takes_tags(&self) -> bool {
        self.read.is_some()
    }

    /// Returns the error if the service cannot check these conditions.
    fn mistake(&self, if_match: Option<&IfMatch>, if_none_match: Option<&IfNoneMatch>) -> Option<FieldError> {
        let message = match if_none_match? {
            // Their services need not check preconditions.
            IfNoneMatch::Any if self.read.is_none() => "must not be `*`: a GET of this path returns no tag",
            IfNoneMatch::Tags(_) if self.is_named_by_body() && if_match == Some(&IfMatch::Any) => {
                "must not have tags if `If-Match` is `*`"
            }
            IfNoneMatch::Any | IfNoneMatch::Tags(_) => return None,
        };
        Some(FieldError::new("If-None-Match", "invalid", message))
    }

    fn is_named_by_body(&self) -> bool {
        NAMED_BY_BODY.contains(&self.operation)
    }
}

/// Carries out writes with preconditions.
pub(super) struct ConditionalWrites {
    /// The routes of the API without the layers that count requests of clients.
    reads: Router,
    /// The writes by the paths of their routes.
    writes: HashMap<&'static str, Vec<ConditionalWrite>>,
    /// The reads whose tags end in the version, by the paths of their routes.
    version_tagged: HashMap<&'static str, &'static str>,
    /// The paths of routes that take a POST.
    posts: HashSet<&'static str>,
}

struct Conditions {
    write: ConditionalWrite,
    if_match: Option<IfMatch>,
    if_none_match: Option<IfNoneMatch>,
    /// Errors in the headers. With errors, no condition is true.
    mistakes: Vec<FieldError>,
    /// The GET of the same path; `None` if it has no tag, or if it reads something other than what
    /// the body names.
    read: Option<Read>,
}

struct Read {
    operation: &'static str,
    uri: Uri,
    headers: HeaderMap,
}

/// The result of the GET before a conditional write.
enum Found {
    /// A resource with its tag, and its version if the service returns one.
    Resource(HeaderValue, Option<Version>),
    /// No resource with a tag, or none that the caller may read.
    Nothing,
    /// The GET failed, so nothing is known.
    Failed(Response),
}

impl Read {
    fn of(request: &Request, operation: &'static str) -> Self {
        let mut headers = request.headers().clone();
        for name in LEFT_OUT {
            headers.remove(name);
        }
        Self { operation, uri: request.uri().clone(), headers }
    }
}

impl ConditionalWrites {
    /// Returns one whose GETs are served by `reads`, which has `routes`.
    pub(super) fn new(reads: Router, routes: &[Route]) -> Self {
        let mut writes: HashMap<_, Vec<_>> = HashMap::new();
        for route in routes {
            if let Some(write) = ConditionalWrite::of(route, routes) {
                writes.entry(route.path).or_default().push(write);
            }
        }
        let version_tagged = routes.iter().filter(|route| VERSION_TAGGED.contains(&route.operation));
        let version_tagged = version_tagged.map(|route| (route.path, route.operation)).collect();
        let posts = routes.iter().filter(|route| route.method == "POST").map(|route| route.path).collect();
        Self { reads, writes, version_tagged, posts }
    }

    /// Handles a request. A write with conditions runs with its precondition, unless the conditions
    /// are known to be false. The response to a failed condition has the current tag, unless the
    /// body names the resource. The body of a POST with conditions is refused.
    pub(super) async fn carry_out<F>(&self, mut request: Request, handle: impl FnOnce(Request) -> F) -> Response
    where
        F: Future<Output = Response>,
    {
        if let Some(error) = self.error_of_post(&request) {
            request.extensions_mut().insert(RefusedBody(error));
        }
        let Some(conditions) = self.conditions(&request) else {
            return match self.version_tagged(&request) {
                Some(operation) => self.serve_version_tagged(operation, request, handle).await,
                None => handle(request).await,
            };
        };
        let precondition = match self.precondition(&conditions).await {
            Ok(precondition) => precondition,
            Err(refusal) => return *refusal,
        };
        if let Some(precondition) = precondition {
            request.extensions_mut().insert(VersionedCall::requiring(conditions.write.operation, precondition));
        }
        let mut response = handle(request).await;
        if response.status() != StatusCode::PRECONDITION_FAILED {
            return response;
        }
        if !conditions.mistakes.is_empty() {
            return ApiError::invalid(conditions.mistakes).into_response();
        }
        if let Found::Resource(tag, _) = self.read(conditions.read.as_ref()).await {
            response.headers_mut().insert(ETAG, tag);
        }
        response
    }

    /// Returns the conditions of a write, if it has any.
    fn conditions(&self, request: &Request) -> Option<Conditions> {
        let template = request.extensions().get::<MatchedPath>()?;
        let mut writes = self.writes.get(template.as_str())?.iter();
        let write = writes.find(|write| write.method == request.method().as_str())?;
        let (if_match, if_none_match) = (IfMatch::of(request.headers()), IfNoneMatch::of(request.headers()));
        let mut mistakes: Vec<_> =
            if_match.as_ref().err().into_iter().chain(if_none_match.as_ref().err()).cloned().collect();
        let (if_match, if_none_match) = (if_match.ok().flatten(), if_none_match.ok().flatten());
        mistakes.extend(write.mistake(if_match.as_ref(), if_none_match.as_ref()));
        if if_match.is_none() && if_none_match.is_none() && mistakes.is_empty() {
            return None;
        }
        let read = write.read.filter(|_| !write.is_named_by_body()).map(|operation| Read::of(request, operation));
        Some(Conditions { write: *write, if_match, if_none_match, mistakes, read })
    }

    /// Returns the error for a POST with conditions. Tags in `If-None-Match` are fine: a new
    /// resource has no tag yet.
    fn error_of_post(&self, request: &Request) -> Option<ApiError> {
        let template = request.extensions().get::<MatchedPath>().filter(|_| request.method() == Method::POST)?;
        if !self.posts.contains(template.as_str()) {
            return None;
        }
        let headers = request.headers();
        let message = "is not supported for POST, only for PATCH, PUT and DELETE";
        let if_match = headers.contains_key(IF_MATCH).then(|| FieldError::new("If-Match", "invalid", message));
        let if_none_match = match IfNoneMatch::of(headers) {
            Ok(Some(IfNoneMatch::Any)) => Some(FieldError::new("If-None-Match", "invalid", message)),
            Ok(Some(IfNoneMatch::Tags(_)) | None) => None,
            Err(malformed) => Some(malformed),
        };
        let mistakes: Vec<_> = if_match.into_iter().chain(if_none_match).collect();
        (!mistakes.is_empty()).then(|| ApiError::invalid(mistakes))
    }

    /// Returns the operation of a read whose tag ends in the version.
    fn version_tagged(&self, request: &Request) -> Option<&'static str> {
        let template = request.extensions().get::<MatchedPath>().filter(|_| request.method() == Method::GET)?;
        self.version_tagged.get(template.as_str()).copied()
    }

    /// Returns what the service must find when it writes; `None` for no requirement.
    ///
    /// # Errors
    /// The failure of the GET. 412 or 503 if the service cannot compare versions.
    async fn precondition(&self, conditions: &Conditions) -> Result<Option<Precondition>, Box<Response>> {
        if !conditions.mistakes.is_empty() {
            return Ok(Some(Precondition::Never));
        }
        let (if_match, if_none_match) = (conditions.if_match.as_ref(), conditions.if_none_match.as_ref());
        if conditions.write.is_named_by_body() {
            return Ok(of_versions(if_match, if_none_match));
        }
        let (tag, version) = match self.read(conditions.read.as_ref()).await {
            Found::Resource(tag, version) => (tag, version),
            Found::Nothing => return Ok(of_nothing(if_match, if_none_match)),
            Found::Failed(response) => return Err(Box::new(response)),
        };
        let is_true = if_match.is_none_or(|condition| condition.matches(&tag))
            && if_none_match.is_none_or(|condition| !condition.names(&tag));
        match (if_match, version) {
            (_, Some(_)) if !is_true => Ok(Some(Precondition::Never)),
            // A service of the previous version, which would ignore the precondition.
            (_, None) if !is_true => {
                let error = ApiError::new(StatusCode::PRECONDITION_FAILED, "precondition failed");
                let mut response = error.because("PRECONDITION_FAILED").into_response();
                response.headers_mut().insert(ETAG, tag);
                Err(Box::new(response))
            }
            (None, _) => Ok(None),
            (Some(_), None) => Err(Box::new(ApiError::unavailable().into_response())),
            (Some(IfMatch::Any), Some(_)) => Ok(Some(Precondition::Exists)),
            (Some(IfMatch::Tags(_)), Some(version)) => Ok(Some(Precondition::Versions(vec![version]))),
        }
    }

    /// Serves a read whose tag ends in the version. Its handler compares tags without versions, so
    /// a resource that it finds unmodified is read again if its version differs from the client's.
    async fn serve_version_tagged<F>(
        &self,
        operation: &'static str,
        request: Request,
        handle: impl FnOnce(Request) -> F,
    ) -> Response
    where
        F: Future<Output = Response>,
    {
        let (read, condition) = (Read::of(&request, operation), IfNoneMatch::of(request.headers()));
        let (response, _) = serve_read(operation, request, handle).await;
        let tag = response.headers().get(ETAG).filter(|_| response.status() == StatusCode::NOT_MODIFIED);
        let is_another = condition.ok().flatten().zip(tag).is_some_and(|(condition, tag)| !condition.names(tag));
        if is_another { self.serve(&read).await.0 } else { response }
    }

    /// Serves a read without conditions. Also returns the version, if the service reports one.
    async fn serve(&self, read: &Read) -> (Response, Option<Version>) {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = read.uri.clone();
        *request.headers_mut() = read.headers.clone();
        let reads = self.reads.clone();
        let serve = |request: Request| async move {
            let Ok(response) = reads.oneshot(request).await;
            response
        };
        serve_read(read.operation, request, serve).await
    }

    async fn read(&self, read: Option<&Read>) -> Found {
        let Some(read) = read else { return Found::Nothing };
        let (response, version) = self.serve(read).await;
        let status = response.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Found::Failed(response);
        }
        match response.headers().get(ETAG) {
            Some(tag) if status == StatusCode::OK => Found::Resource(tag.clone(), version),
            Some(_) | None => Found::Nothing,
        }
    }
}

/// Serves a read that asks for the version of its resource, and returns the version. Appends it to
/// the tag if tags of this read end in it.
async fn serve_read<F>(
    operation: &'static str,
    mut request: Request,
    serve: impl FnOnce(Request) -> F,
) -> (Response, Option<Version>)
where
    F: Future<Output = Response>,
{
    let versioned = VersionedCall::asking(operation);
    request.extensions_mut().insert(versioned.clone());
    for (name, value) in request.headers_mut() {
        if name == IF_NONE_MATCH {
            *value = without_versions(value);
        }
    }
    let mut response = serve(request).await;
    let version = versioned.told();
    let told = version.as_ref().filter(|_| VERSION_TAGGED.contains(&operation));
    let tag = response.headers().get(ETAG).zip(told).and_then(|(tag, version)| with_version(tag, version));
    if let Some(tag) = tag {
        response.headers_mut().insert(ETAG, tag);
    }
    (response, version)
}

fn with_version(tag: &HeaderValue, version: &Version) -> Option<HeaderValue> {
    let tag = tag.to_str().ok()?.strip_suffix('"')?;
    HeaderValue::try_from(format!("{tag}.{version}\"")).ok()
}

/// Splits off the version at the end of a tag. The first part has no closing quote.
fn split_version(tag: &str) -> Option<(&str, Version)> {
    let (tag, version) = tag.trim_end().strip_suffix('"')?.rsplit_once('.')?;
    Some((tag, Version::parse(version)?))
}

/// Removes the versions from a list of tags, which gives the tags of the bodies.
fn without_versions(list: &HeaderValue) -> HeaderValue {
    let Ok(tags) = list.to_str() else { return list.clone() };
    let without = |tag: &str| split_version(tag).map_or_else(|| tag.to_owned(), |(tag, _)| format!("{tag}\""));
    let tags: Vec<_> = tags.split(',').map(without).collect();
    HeaderValue::try_from(tags.join(",")).unwrap_or_else(|_| list.clone())
}

/// Returns the precondition of a write whose resource has no tag or cannot be read.
fn of_nothing(if_match: Option<&IfMatch>, if_none_match: Option<&IfNoneMatch>) -> Option<Precondition> {
    match (if_match, if_none_match) {
        (Some(_), _) => Some(Precondition::Never),
        (None, Some(IfNoneMatch::Any)) => Some(Precondition::Absent),
        (None, Some(IfNoneMatch::Tags(_)) | None) => None,
    }
}

/// Returns the precondition of a write whose tags end in the version.
fn of_versions(if_match: Option<&IfMatch>, if_none_match: Option<&IfNoneMatch>) -> Option<Precondition> {
    let others = match if_none_match {
        // Cannot hold: an existing resource is not created, and a missing one has no tag.
        Some(IfNoneMatch::Any) if if_match.is_some() => return Some(Precondition::Never),
        Some(IfNoneMatch::Any) => return Some(Precondition::Absent),
        Some(IfNoneMatch::Tags(tags)) => versions(tags),
        None => Vec::new(),
    };
    match if_match {
        Some(IfMatch::Any) => Some(Precondition::Exists),
        Some(IfMatch::Tags(tags)) => {
            let mut versions = versions(tags);
            versions.retain(|version| !others.contains(version));
            Some(if versions.is_empty() { Precondition::Never } else { Precondition::Versions(versions) })
        }
        None if others.is_empty() => None,
        None => Some(Precondition::NotVersions(others)),
    }
}

/// Returns the versions of tags. A tag without one matches nothing.
fn versions(tags: &[Vec<u8>]) -> Vec<Version> {
    let tags = tags.iter().filter_map(|tag| std::str::from_utf8(tag).ok());
    tags.filter_map(|tag| Some(split_version(tag)?.1)).collect()
}

#[cfg(test)]
mod tests;
