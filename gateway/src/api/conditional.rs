//! Conditional writes: a PATCH, PUT or DELETE with `If-Match` is carried out only if its resource has the tag with which the GET of the same path
//! responds.
//!
//! The gateway makes that GET with the client's credentials and compares the tags. If they are the same, the service that writes compares the
//! version of the resource once more, in its transaction: of several writers with one tag only the first succeeds. If not, the service refuses
//! the write all the same, after what else is wrong with it, so that those who may not write learn nothing about the tag.
//!
//! Where the body of a write names what it changes, as that of a file names its branch, there is no GET: the tags of files end in a version,
//! which the service compares with that of what the body names.
//!
//! Not here: the form of the headers (`http/if_match.rs`), and the check in the services (`require_version` of `ferrite_db`).

use std::collections::HashMap;

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::header::{ETAG, HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH, RANGE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use ferrite_core::version::{Precondition, Version};
use ferrite_proto::operation;
use ferrite_rpc::version::VersionedCall;
use tower::ServiceExt;

use crate::http::error::ApiError;
use crate::http::if_match::{IfMatch, is_create_only};
use crate::http::routes::Route;

/// Writes that take `If-None-Match: *`.
pub(crate) const CREATE_ONLY: [&str; 2] = [operation::PUT_CONTENTS, operation::SET_PROTECTION];
/// Reads whose tags end in the version, if the service tells one: `"TAG.VERSION"`. The JSON of a webhook does not show its secrets.
const VERSION_TAGGED: [&str; 2] = [operation::GET_CONTENTS, operation::GET_HOOK];
/// Writes whose body names what they change: the file of another branch than the GET of the path reads. Their GETs are version-tagged.
const NAMED_BY_BODY: [&str; 2] = [operation::PUT_CONTENTS, operation::DELETE_CONTENTS];
/// Headers of a write that its GET does not have: with them it might respond with something else than the whole resource.
const LEFT_OUT: [HeaderName; 3] = [IF_MODIFIED_SINCE, IF_NONE_MATCH, RANGE];

/// A write, and the GET whose tag its `If-Match` takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConditionalWrite {
    method: &'static str,
    operation: &'static str,
    /// `None` if no GET of the path has a tag: then no tag is that of the resource, and `If-Match` is never true.
    read: Option<&'static str>,
}

impl ConditionalWrite {
    /// Returns what is known of a write by its route and the others; `None` for another route.
    pub(crate) fn of(route: &Route, routes: &[Route]) -> Option<Self> {
        if !matches!(route.method, "PATCH" | "PUT" | "DELETE") {
            return None;
        }
        let read = routes.iter().find(|read| read.path == route.path && read.has_tag());
        Some(Self { method: route.method, operation: route.operation, read: read.map(|read| read.operation) })
    }

    /// Returns whether there are tags for its `If-Match`.
    #[cfg(test)]
    pub(crate) fn takes_tags(&self) -> bool {
        self.read.is_some()
    }

    /// Returns whether it takes `If-None-Match: *`.
    pub(crate) fn may_only_create(&self) -> bool {
        CREATE_ONLY.contains(&self.operation)
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
}

/// The conditions of one request.
struct Conditions {
    write: ConditionalWrite,
    if_match: Option<IfMatch>,
    is_create_only: bool,
    /// The GET of the same path; `None` if it has no tag, or reads something else than the body names.
    read: Option<Read>,
}

/// A GET for the tag of a resource.
struct Read {
    operation: &'static str,
    uri: Uri,
    headers: HeaderMap,
}

/// The result of the GET that a conditional write makes first.
enum Found {
    /// A resource with its tag, and with its version if the service tells that.
    Resource(HeaderValue, Option<Version>),
    /// No resource that has a tag, or none that the caller may read.
    Nothing,
    /// A failure by which nothing is known.
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
        Self { reads, writes, version_tagged }
    }

    /// Carries out a request by `handle`; a write with conditions with its precondition, if they are not known to be false. The response to
    /// one that is false has the tag as it is now, unless the body names the resource.
    pub(super) async fn carry_out<F>(&self, mut request: Request, handle: impl FnOnce(Request) -> F) -> Response
    where
        F: Future<Output = Response>,
    {
        let conditions = match self.conditions(&request) {
            Ok(Some(conditions)) => conditions,
            Ok(None) => {
                return match self.version_tagged(&request) {
                    Some(operation) => serve_read(operation, request, handle).await.0,
                    None => handle(request).await,
                };
            }
            Err(error) => return error.into_response(),
        };
        let precondition = match self.precondition(&conditions).await {
            Ok(precondition) => precondition,
            Err(refusal) => return *refusal,
        };
        request.extensions_mut().insert(VersionedCall::requiring(conditions.write.operation, precondition));
        let mut response = handle(request).await;
        if response.status() == StatusCode::PRECONDITION_FAILED
            && let Found::Resource(tag, _) = self.read(conditions.read.as_ref()).await
        {
            response.headers_mut().insert(ETAG, tag);
        }
        response
    }

    /// Returns the conditions of a request, if it is a write that has some.
    ///
    /// # Errors
    /// 422 for a malformed `If-Match`.
    fn conditions(&self, request: &Request) -> Result<Option<Conditions>, ApiError> {
        let Some(template) = request.extensions().get::<MatchedPath>() else { return Ok(None) };
        let mut writes = self.writes.get(template.as_str()).into_iter().flatten();
        let Some(write) = writes.find(|write| write.method == request.method().as_str()) else { return Ok(None) };
        let if_match = IfMatch::of(request.headers())?;
        let is_create_only = write.may_only_create() && is_create_only(request.headers());
        if if_match.is_none() && !is_create_only {
            return Ok(None);
        }
        let read = write.read.filter(|_| !write.is_named_by_body()).map(|operation| Read::of(request, operation));
        Ok(Some(Conditions { write: *write, if_match, is_create_only, read }))
    }

    /// Returns the operation of a read whose tag is to end in the version.
    fn version_tagged(&self, request: &Request) -> Option<&'static str> {
        let template = request.extensions().get::<MatchedPath>().filter(|_| request.method() == Method::GET)?;
        self.version_tagged.get(template.as_str()).copied()
    }

    /// Returns what the service must find when it writes.
    ///
    /// # Errors
    /// The failure of the GET. 412 or 503 if the service cannot compare versions.
    async fn precondition(&self, conditions: &Conditions) -> Result<Precondition, Box<Response>> {
        let Some(if_match) = &conditions.if_match else { return Ok(Precondition::Absent) };
        // What exists is not created, and what does not exist has no tag.
        if conditions.is_create_only {
            return Ok(Precondition::Never);
        }
        if conditions.write.is_named_by_body() {
            return Ok(of_versions(if_match));
        }
        let (tag, version) = match self.read(conditions.read.as_ref()).await {
            Found::Resource(tag, version) => (tag, version),
            Found::Nothing => return Ok(Precondition::Never),
            Found::Failed(response) => return Err(Box::new(response)),
        };
        let is_true = if_match.matches(&tag);
        match version {
            Some(_) if !is_true => Ok(Precondition::Never),
            Some(_) if *if_match == IfMatch::Any => Ok(Precondition::Exists),
            Some(version) => Ok(Precondition::Versions(vec![version])),
            // A service of the version before, which would not look at the precondition.
            None if is_true => Err(Box::new(ApiError::unavailable().into_response())),
            None => {
                let error = ApiError::new(StatusCode::PRECONDITION_FAILED, "precondition failed");
                let mut response = error.into_response();
                response.headers_mut().insert(ETAG, tag);
                Err(Box::new(response))
            }
        }
    }

    async fn read(&self, read: Option<&Read>) -> Found {
        let Some(read) = read else { return Found::Nothing };
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = read.uri.clone();
        *request.headers_mut() = read.headers.clone();
        let reads = self.reads.clone();
        let serve = |request: Request| async move {
            let Ok(response) = reads.oneshot(request).await;
            response
        };
        let (response, version) = serve_read(read.operation, request, serve).await;
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

/// Serves a read that asks for the version of its resource. Adds it to the tag if that is to end in it, and returns it.
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

/// Returns a tag with a version at its end.
fn with_version(tag: &HeaderValue, version: &Version) -> Option<HeaderValue> {
    let tag = tag.to_str().ok()?.strip_suffix('"')?;
    HeaderValue::try_from(format!("{tag}.{version}\"")).ok()
}

/// Splits a tag at the version at its end. The first part has no closing quote.
fn split_version(tag: &str) -> Option<(&str, Version)> {
    let (tag, version) = tag.trim_end().strip_suffix('"')?.rsplit_once('.')?;
    Some((tag, Version::parse(version)?))
}

/// Returns a list of tags without the versions at their ends, as the bodies have them.
fn without_versions(list: &HeaderValue) -> HeaderValue {
    let Ok(tags) = list.to_str() else { return list.clone() };
    let without = |tag: &str| split_version(tag).map_or_else(|| tag.to_owned(), |(tag, _)| format!("{tag}\""));
    let tags: Vec<_> = tags.split(',').map(without).collect();
    HeaderValue::try_from(tags.join(",")).unwrap_or_else(|_| list.clone())
}

/// Returns the precondition that a resource has one of the versions in the tags.
fn of_versions(if_match: &IfMatch) -> Precondition {
    let IfMatch::Tags(tags) = if_match else { return Precondition::Exists };
    let tags = tags.iter().filter_map(|tag| std::str::from_utf8(tag).ok());
    let versions: Vec<_> = tags.filter_map(|tag| Some(split_version(tag)?.1)).collect();
    if versions.is_empty() { Precondition::Never } else { Precondition::Versions(versions) }
}

#[cfg(test)]
mod tests {
    use axum::http::header::IF_MATCH;

    use super::*;

    const VERSION: &str = "0123456789abcdef0123456789abcdef";

    fn if_match(value: &str) -> IfMatch {
        let headers = HeaderMap::from_iter([(IF_MATCH, HeaderValue::from_str(value).unwrap())]);
        IfMatch::of(&headers).unwrap().unwrap()
    }

    #[test]
    fn a_write_is_compared_with_the_get_of_its_path_if_that_has_a_tag() {
        let routes = crate::operations();
        let write = |method: &str, path: &str| {
            let path = format!("/api/v1{path}");
            let route = routes.iter().find(|route| route.method == method && route.path == path).unwrap();
            ConditionalWrite::of(route, &routes)
        };
        let label = write("PATCH", "/repos/{owner}/{repo}/labels/{id}").unwrap();
        assert_eq!((label.operation, label.read), (operation::UPDATE_LABEL, Some(operation::GET_LABEL)));
        assert!(label.takes_tags() && !label.may_only_create() && !label.is_named_by_body());
        let file = write("PUT", "/repos/{owner}/{repo}/contents/{*file}").unwrap();
        assert!(file.takes_tags() && file.may_only_create() && file.is_named_by_body());
        // The GET of a star has no body, and that of one label of an issue does not exist.
        for path in ["/user/starred/{owner}/{repo}", "/repos/{owner}/{repo}/issues/{index}/labels/{id}"] {
            assert!(!write("DELETE", path).unwrap().takes_tags(), "{path}");
        }
        assert!(write("POST", "/repos/{owner}/{repo}/labels").is_none());
    }

    #[test]
    fn a_version_is_added_to_a_tag_and_taken_off_lists_of_tags() {
        let version = Version::parse(VERSION).unwrap();
        let tagged = format!("\"ab.{VERSION}\"");
        assert_eq!(with_version(&HeaderValue::from_static("\"ab\""), &version).unwrap(), tagged.as_str());
        for (list, expected) in [
            ("*", "*"),
            ("\"ab\"", "\"ab\""),
            ("\"a.b\"", "\"a.b\""),
            ("TAG", "\"ab\""),
            ("W/TAG", "W/\"ab\""),
            ("\"x\", TAG , TAG", "\"x\", \"ab\", \"ab\""),
        ] {
            let list = HeaderValue::try_from(list.replace("TAG", &tagged)).unwrap();
            assert_eq!(without_versions(&list), expected, "{list:?}");
        }
    }

    #[test]
    fn the_versions_of_all_tags_are_the_precondition() {
        let other = VERSION.replace('0', "f");
        for (value, expected) in [
            ("*".to_owned(), "exists".to_owned()),
            (format!("\"ab.{VERSION}\""), format!("version={VERSION}")),
            (format!("\"x\", \"ab.{VERSION}\",\"cd.{other}\""), format!("version={VERSION},{other}")),
            (format!("W/\"ab.{VERSION}\""), "never".to_owned()),
            (format!("\"{VERSION}\", \"ab.{}\"", &VERSION[1..]), "never".to_owned()),
        ] {
            assert_eq!(of_versions(&if_match(&value)).to_string(), expected, "{value}");
        }
    }
}
