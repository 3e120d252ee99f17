//! A stand-in for repo-svc and git-svc that answers what a test says, and keeps what it was asked.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use ferrite_kit::auth::AuthError;
use ferrite_proto::metadata::AUTHORIZATION;
use ferrite_proto::repo;
use http::{HeaderMap, HeaderValue, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use prost::Message;
use tonic::Status;

use super::World;

/// Bytes in front of a message: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// Most methods are repo-svc's.
const PACKAGE: &str = "ferrite.repo.v1";

/// A method's full name; one of another service's comes with its package.
fn full(method: &str) -> String {
    if method.starts_with("ferrite.") { method.to_owned() } else { format!("{PACKAGE}.{method}") }
}

/// What to say, and what was asked; by method.
#[derive(Clone, Default)]
pub(super) struct Script(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    answers: HashMap<String, Result<Vec<u8>, Status>>,
    asked: HashMap<String, Vec<u8>>,
}

impl Script {
    /// A gateway in front of a stand-in that lets the token `good` do everything, and nothing else is known about.
    pub(super) async fn world() -> (World, Self) {
        let script = Self::default();
        script.answer("AccessService/CheckAccess", &repo::CheckAccessResponse {});
        let stand_in = axum::Router::new().fallback(served).with_state(script.clone());
        let mut world = World::of(stand_in).await;
        world.gateway.clients.git = world.gateway.clients.repo.clone();
        (world, script)
    }

    pub(super) fn answer(&self, method: &str, message: &impl Message) {
        self.0.lock().unwrap().answers.insert(full(method), Ok(message.encode_to_vec()));
    }

    pub(super) fn refuse(&self, method: &str, error: impl Into<Status>) {
        self.0.lock().unwrap().answers.insert(full(method), Err(error.into()));
    }

    /// What a method was asked last; takes it out.
    pub(super) fn asked<M: Message + Default>(&self, method: &str) -> Option<M> {
        let bytes = self.0.lock().unwrap().asked.remove(full(method).as_str())?;
        Some(M::decode(bytes.as_slice()).unwrap())
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
    inner.asked.insert(method.clone(), bytes[PREFIX..].to_vec());
    match inner.answers.get(&method) {
        Some(Ok(message)) => framed(message),
        Some(Err(status)) => status.clone().into_http(),
        None => Status::unimplemented(method).into_http(),
    }
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
