//! Calls of the generated clients. All messages share one code path through tonic.

use prost::bytes::Bytes;
use tonic::{
    GrpcMethod, Request, Response, Status,
    body::Body,
    client::{Grpc, GrpcService},
    codegen::{Body as HttpBody, StdError, http::uri::PathAndQuery},
};

use crate::message::{AnyMessage, CallMessage, Encoded};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Method {
    pub(crate) service: &'static str,
    pub(crate) name: &'static str,
    /// `/SERVICE/METHOD`.
    pub(crate) path: &'static str,
}

pub(crate) async fn unary<T, M, R>(
    client: &mut Grpc<T>,
    request: Request<M>,
    method: Method,
) -> Result<Response<R>, Status>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
    M: CallMessage,
    R: CallMessage,
{
    let (metadata, bytes, extensions) = send(client, request.map(M::encoded), method).await?.into_parts();
    Ok(Response::from_parts(metadata, R::decoded(bytes)?, extensions))
}

async fn send<T>(client: &mut Grpc<T>, mut request: Request<Encoded>, method: Method) -> Result<Response<Bytes>, Status>
where
    T: GrpcService<Body>,
    T::Error: Into<StdError>,
    T::ResponseBody: HttpBody<Data = Bytes> + Send + 'static,
    <T::ResponseBody as HttpBody>::Error: Into<StdError> + Send,
{
    let ready = client.ready().await;
    ready.map_err(|error| Status::unknown(format!("Service was not ready: {}", error.into())))?;
    request.extensions_mut().insert(GrpcMethod::new(method.service, method.name));
    client.unary(request, PathAndQuery::from_static(method.path), AnyMessage).await
}
