//! Calls that the generated servers serve. All messages share one code path through tonic; only the
//! call itself is compiled for each method.

use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use prost::bytes::Bytes;
use tonic::{
    Code, Request, Response, Status,
    body::Body,
    codegen::{
        BoxFuture, BoxStream, http,
        tokio_stream::{Stream, StreamExt},
    },
    metadata::GRPC_CONTENT_TYPE,
    server::{Grpc, ServerStreamingService, UnaryService},
};

use crate::message::{AnyMessage, CallMessage, Encoded};

/// A method of the service `T`, from the request message to a response: a message or a stream.
type Method<T, M, A> =
    for<'a> fn(&'a T, Request<M>) -> Pin<Box<dyn Future<Output = Result<Response<A>, Status>> + Send + 'a>>;

type Served = BoxFuture<http::Response<Body>, Infallible>;

pub(crate) fn unary<T, M, R>(
    service: &Arc<T>,
    limit: Option<usize>,
    request: http::Request<Body>,
    method: Method<T, M, R>,
) -> Served
where
    T: Send + Sync + 'static,
    M: CallMessage,
    R: CallMessage,
{
    Unary(call(service, method, R::encoded)).serve(limit, request)
}

/// Serves a call of a method with a stream of responses.
pub(crate) fn stream<T, M, S, R>(
    service: &Arc<T>,
    limit: Option<usize>,
    request: http::Request<Body>,
    method: Method<T, M, S>,
) -> Served
where
    T: Send + Sync + 'static,
    M: CallMessage,
    S: Stream<Item = Result<R, Status>> + Send + 'static,
    R: CallMessage,
{
    let encode = |responses: S| -> BoxStream<Encoded> { Box::pin(responses.map(|response| response.map(R::encoded))) };
    Streaming(call(service, method, encode)).serve(limit, request)
}

pub(crate) fn unknown() -> Served {
    let mut response = http::Response::new(Body::default());
    let headers = response.headers_mut();
    headers.insert(Status::GRPC_STATUS, (Code::Unimplemented as i32).into());
    headers.insert(http::header::CONTENT_TYPE, GRPC_CONTENT_TYPE);
    Box::pin(ready(Ok(response)))
}

/// A call of any method: it takes an encoded request, and its response is still to be encoded.
type Call<E> = Box<dyn Fn(Request<Bytes>) -> BoxFuture<Response<E>, Status> + Send>;

fn call<T, M, A, E>(service: &Arc<T>, method: Method<T, M, A>, encode: fn(A) -> E) -> Call<E>
where
    T: Send + Sync + 'static,
    M: CallMessage,
    A: 'static,
    E: 'static,
{
    let service = Arc::clone(service);
    Box::new(move |request| {
        let service = Arc::clone(&service);
        Box::pin(async move {
            let (metadata, extensions, bytes) = request.into_parts();
            let request = Request::from_parts(metadata, extensions, M::decoded(bytes)?);
            Ok(method(&service, request).await?.map(encode))
        })
    })
}

struct Unary(Call<Encoded>);

impl Unary {
    fn serve(self, limit: Option<usize>, request: http::Request<Body>) -> Served {
        Box::pin(async move { Ok(grpc(limit).unary(self, request).await) })
    }
}

impl UnaryService<Bytes> for Unary {
    type Response = Encoded;
    type Future = BoxFuture<Response<Encoded>, Status>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        (self.0)(request)
    }
}

struct Streaming(Call<BoxStream<Encoded>>);

impl Streaming {
    fn serve(self, limit: Option<usize>, request: http::Request<Body>) -> Served {
        Box::pin(async move { Ok(grpc(limit).server_streaming(self, request).await) })
    }
}

impl ServerStreamingService<Bytes> for Streaming {
    type Response = Encoded;
    type ResponseStream = BoxStream<Encoded>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        (self.0)(request)
    }
}

fn grpc(limit: Option<usize>) -> Grpc<AnyMessage> {
    let grpc = Grpc::new(AnyMessage);
    match limit {
        Some(limit) => grpc.max_decoding_message_size(limit),
        None => grpc,
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use prost::Message;
    use tonic::codegen::Service;

    use super::*;
    use crate::events::event_sink_server::{EventSink, EventSinkServer};
    use crate::events::{DeliverRequest, DeliverResponse};

    #[derive(Clone)]
    struct Marker;

    struct Sink;

    #[tonic::async_trait]
    impl EventSink for Sink {
        async fn deliver(&self, mut request: Request<DeliverRequest>) -> Result<Response<DeliverResponse>, Status> {
            let marker = request.extensions_mut().remove::<Marker>().ok_or_else(|| Status::aborted("no marker"))?;
            let mut response = Response::new(DeliverResponse::default());
            response.metadata_mut().clone_from(request.metadata());
            response.extensions_mut().insert(marker);
            Ok(response)
        }
    }

    /// Returns the response to a request that has `message`.
    fn call(method: &str, message: &str) -> http::Response<Body> {
        let length = char::from(u8::try_from(message.len()).unwrap());
        let body = Body::new(format!("\0\0\0\0{length}{message}"));
        let request = http::Request::post(format!("/ferrite.events.v1.EventSink/{method}"));
        let request = request.header("x-of-client", "kept").extension(Marker).body(body).unwrap();
        let mut responding = EventSinkServer::new(Sink).call(request);
        match responding.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(response)) => response,
            Poll::Pending => panic!("nothing is waited for"),
        }
    }

    #[test]
    fn metadata_and_extensions_reach_the_method_and_the_client() {
        let response = call("Deliver", "");
        assert!(Status::from_header_map(response.headers()).is_none());
        assert_eq!(response.headers()["x-of-client"], "kept");
        assert!(response.extensions().get::<Marker>().is_some());
    }

    #[test]
    fn a_request_of_another_type_is_an_internal_error() {
        // A number for the first field.
        let message = "\x08\x01";
        let error = DeliverRequest::decode(message.as_bytes()).unwrap_err();
        let status = Status::from_header_map(call("Deliver", message).headers()).unwrap();
        assert_eq!((status.code(), status.message()), (Code::Internal, error.to_string().as_str()));
    }

    #[test]
    fn an_unknown_method_is_unimplemented() {
        let status = Status::from_header_map(call("Undo", "").headers()).unwrap();
        assert_eq!((status.code(), status.message()), (Code::Unimplemented, ""));
    }
}
