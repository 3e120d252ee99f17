//! A fake of the services that sends scripted responses and records requests.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use ferrite_proto::metadata::{AUTHORIZATION, IDEMPOTENCY_KEY, PRECONDITION, VERSION};
use ferrite_proto::repo;
use ferrite_rpc::auth::AuthError;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use prost::Message;
use tonic::Status;

use super::TestGateway;

/// Compression flag and length before a gRPC message.
const PREFIX_BYTES: usize = 5;
/// Package of methods named without one.
const DEFAULT_PACKAGE: &str = "ferrite.repo.v1";

/// Adds the default package to the name of a method that has none.
fn full_name(method: &str) -> String {
    if method.starts_with("ferrite.") { method.to_owned() } else { format!("{DEFAULT_PACKAGE}.{method}") }
}

#[derive(Clone, Default)]
pub(super) struct Script(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    responses: HashMap<String, Result<Vec<u8>, Status>>,
    /// Response headers for stored files, by path.
    stored: HashMap<String, HeaderMap>,
    requests: HashMap<String, Vec<u8>>,
    /// Versions of resources, by the method that reads them.
    versions: HashMap<String, String>,
    preconditions: HashMap<String, String>,
    keyed: HashSet<String>,
    /// Called methods and paths, and whether any of their requests had the client's token.
    called: BTreeMap<String, bool>,
}

impl Script {
    /// Returns a gateway in front of a fake that permits everything to the token `good` and has no
    /// other responses yet.
    pub(super) async fn gateway() -> (TestGateway, Self) {
        let script = Self::default();
        script.respond("AccessService/CheckAccess", &repo::CheckAccessResponse::default());
        let identity = Some(repo::Identity::default());
        script.respond("AccessService/Authenticate", &repo::AuthenticateResponse { identity });
        let services = axum::Router::new().fallback(served).with_state(script.clone());
        let mut gateway = TestGateway::of(services).await;
        let channel = &gateway.state.clients.repo;
        let channel = channel.clone();
        gateway.state.clients.hook = channel.clone();
        (gateway.state.clients.git, gateway.state.clients.issue) = (channel.clone().into(), channel);
        (gateway, script)
    }

    pub(super) fn respond(&self, method: &str, message: &impl Message) {
        self.0.lock().unwrap().responses.insert(full_name(method), Ok(message.encode_to_vec()));
    }

    pub(super) fn fail(&self, method: &str, error: impl Into<Status>) {
        self.0.lock().unwrap().responses.insert(full_name(method), Err(error.into()));
    }

    /// Makes a method return this version when asked for it.
    pub(super) fn tell(&self, method: &str, version: &str) {
        self.0.lock().unwrap().versions.insert(full_name(method), version.to_owned());
    }

    pub(super) fn take_precondition(&self, method: &str) -> Option<String> {
        self.0.lock().unwrap().preconditions.remove(full_name(method).as_str())
    }

    /// Makes git-svc store the files sent to a path.
    pub(super) fn store(&self, path: &str, headers: HeaderMap) {
        self.0.lock().unwrap().stored.insert(path.to_owned(), headers);
    }

    pub(super) fn take_request<M: Message + Default>(&self, method: &str) -> Option<M> {
        let bytes = self.0.lock().unwrap().requests.remove(full_name(method).as_str())?;
        Some(M::decode(bytes.as_slice()).unwrap())
    }

    /// As [`Self::take_request`], without decoding it.
    pub(super) fn take_bytes(&self, method: &str) -> Option<Vec<u8>> {
        self.0.lock().unwrap().requests.remove(full_name(method).as_str())
    }

    /// Returns the called methods and paths, and whether any of their requests had the client's
    /// token.
    pub(super) fn called(&self) -> BTreeMap<String, bool> {
        self.0.lock().unwrap().called.clone()
    }

    /// Forgets the last request of a method. Returns whether there was one.
    pub(super) fn took_request(&self, method: &str) -> bool {
        self.0.lock().unwrap().requests.remove(full_name(method).as_str()).is_some()
    }

    pub(super) fn had_idempotency_key(&self, method: &str) -> bool {
        self.0.lock().unwrap().keyed.contains(full_name(method).as_str())
    }
}

async fn served(State(script): State<Script>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let method = parts.uri.path().trim_start_matches('/').to_owned();
    let bytes = to_bytes(body, usize::MAX).await.unwrap();
    if parts.headers.get(AUTHORIZATION).is_some_and(|value| value != "Bearer good") {
        return Status::from(AuthError::BadCredentials).into_http();
    }
    let mut inner = script.0.lock().unwrap();
    *inner.called.entry(method.clone()).or_default() |= parts.headers.contains_key(AUTHORIZATION);
    if parts.headers.contains_key(IDEMPOTENCY_KEY) {
        inner.keyed.insert(method.clone());
    } else {
        inner.keyed.remove(&method);
    }
    if let Some(precondition) = parts.headers.get(PRECONDITION) {
        inner.preconditions.insert(method.clone(), precondition.to_str().unwrap().to_owned());
    } else {
        inner.preconditions.remove(&method);
    }
    inner.requests.insert(method.clone(), bytes.get(PREFIX_BYTES..).unwrap_or_default().to_vec());
    if let Some(headers) = inner.stored.get(&method) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::CREATED;
        *response.headers_mut() = headers.clone();
        return response;
    }
    let mut response = match inner.responses.get(&method) {
        Some(Ok(message)) => framed(message),
        Some(Err(status)) => status.clone().into_http(),
        None => Status::unimplemented(&*method).into_http(),
    };
    if let Some(version) = inner.versions.get(&method).filter(|_| parts.headers.contains_key(VERSION)) {
        response.headers_mut().insert(VERSION, version.parse().unwrap());
    }
    response
}

fn framed(message: &[u8]) -> Response<Body> {
    let mut data = vec![0];
    data.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    data.extend_from_slice(message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let frames = [Ok::<_, Infallible>(Frame::data(bytes::Bytes::from(data))), Ok(Frame::trailers(trailers))];
    let mut response = Response::new(Body::new(StreamBody::new(futures_util::stream::iter(frames))));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}
