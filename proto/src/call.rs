//! Calls of the generated clients. All messages take one way through tonic: its client is generic in both messages of a call, and would be
//! compiled for each call of each crate.
//!
//! Not here: streams, which are few.

use prost::{
    Message,
    bytes::{Buf, Bytes},
};
use tonic::{
    GrpcMethod, Request, Response, Status,
    body::Body,
    client::{Grpc, GrpcService},
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::{Body as HttpBody, StdError, http::uri::PathAndQuery},
};

/// A method of a service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Method {
    pub(crate) service: &'static str,
    pub(crate) name: &'static str,
    /// `/SERVICE/METHOD`.
    pub(crate) path: &'static str,
}

/// Calls a method with one message, which is answered by one.
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
    M: Message + 'static,
    R: Message + Default,
{
    let request = request.map(|message| Box::new(message) as Encoded);
    let (metadata, bytes, extensions) = send(client, request, method).await?.into_parts();
    // As tonic's own decoder does.
    let message = R::decode(bytes).map_err(|error| Status::internal(error.to_string()))?;
    Ok(Response::from_parts(metadata, message, extensions))
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

/// A message of any type, to be encoded.
trait Encode {
    fn encode_to(&self, buffer: &mut EncodeBuf<'_>) -> Result<(), Status>;
}

type Encoded = Box<dyn Encode + Send + Sync>;

impl<M: Message> Encode for M {
    fn encode_to(&self, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        self.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}

/// A codec of messages of any type: they are decoded by who knows it.
struct AnyMessage;

impl Codec for AnyMessage {
    type Encode = Encoded;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for AnyMessage {
    type Item = Encoded;
    type Error = Status;

    fn encode(&mut self, item: Encoded, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode_to(buffer)
    }
}

impl Decoder for AnyMessage {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let size = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(size)))
    }
}
