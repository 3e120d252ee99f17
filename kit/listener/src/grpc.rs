//! The gRPC server of a process: services with health checks, reflection, authentication,
//! deadlines, spans and panic handling. The router that it builds is served by
//! [`serve`](super::serve).

use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use ferrite_core::Lifecycle;
use ferrite_core::contain_panic;
use ferrite_core::headers::is_grpc;
use ferrite_core::telemetry::request_span;
use ferrite_core::writer;
use ferrite_rpc::auth::AuthLayer;
use ferrite_rpc::grpc::call_deadline;
use ferrite_rpc::version;
use tonic::Status;
use tonic::server::NamedService;
use tonic::service::{Routes, RoutesBuilder};

/// Largest gRPC message that a service accepts, unless it sets its own limit.
pub const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

const SERVER_DEADLINE: Duration = Duration::from_secs(60);

/// Implements a gRPC service for a type. Each RPC is handled by the function of the same name,
/// which must be in scope.
///
/// The function takes a reference to the type and the request, and returns the response or an error
/// that converts to a status: `service!(HookService for AppState { get_hook(GetHookRequest) ->
/// GetHookResponse; });`
#[macro_export]
macro_rules! service {
    ($service:ident for $type:ty { $($rpc:ident($request:ty) -> $response:ty;)* }) => {
        #[tonic::async_trait]
        impl $service for $type {
            $(async fn $rpc(
                &self,
                request: tonic::Request<$request>,
            ) -> Result<tonic::Response<$response>, tonic::Status> {
                Ok($rpc(self, request).await.map(tonic::Response::new)?)
            })*
        }
    };
}

/// Builds the router that serves the gRPC services of a process.
#[derive(Debug)]
pub struct GrpcServer {
    routes: RoutesBuilder,
    names: Vec<&'static str>,
}

impl Default for GrpcServer {
    fn default() -> Self {
        Self { routes: Routes::builder(), names: Vec::new() }
    }
}

impl GrpcServer {
    /// Adds a service. Set its message limit before:
    /// `XServer::new(x).max_decoding_message_size(MAX_MESSAGE_BYTES)`.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "the method is not arithmetic")]
    pub fn add<S>(mut self, service: S) -> Self
    where
        S: tower::Service<http::Request<tonic::body::Body>, Error = std::convert::Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Response: axum::response::IntoResponse,
        S::Future: Send + 'static,
    {
        self.routes.add_service(service);
        self.names.push(S::NAME);
        self
    }

    /// Returns the router of the services and of `extra`, plain HTTP routes on the same port behind
    /// the same authentication. The gRPC health status follows the readiness of `life`.
    ///
    /// # Panics
    /// Never: the descriptors are compiled in.
    pub fn into_router(mut self, auth: AuthLayer, extra: Router, life: &Lifecycle) -> Router {
        let (reporter, health) = tonic_health::server::health_reporter();
        let names = self.names;
        let watched = life.clone();
        life.spawn("health", async move {
            let mut last = None;
            loop {
                let ready = watched.is_ready();
                if last != Some(ready) {
                    let status = if ready {
                        tonic_health::ServingStatus::Serving
                    } else {
                        tonic_health::ServingStatus::NotServing
                    };
                    reporter.set_service_status("", status).await;
                    for name in &names {
                        reporter.set_service_status(*name, status).await;
                    }
                    last = Some(ready);
                }
                // Checked after the status is set, so that clients that watch the health receive
                // `NOT_SERVING`.
                if watched.is_stopping() {
                    return;
                }
                watched.pause(Duration::from_millis(100)).await;
            }
        });
        let descriptors = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(ferrite_proto::DESCRIPTORS)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        self.routes.add_service(health);
        self.routes.add_service(descriptors().build_v1().expect("the descriptors are compiled in"));
        // For clients that only speak the older version, such as Python's.
        self.routes.add_service(descriptors().build_v1alpha().expect("the descriptors are compiled in"));
        self.routes.routes().into_axum_router().merge(extra).layer(from_fn_with_state(auth, serve_request))
    }
}

/// Middleware of all routes. A single one, because axum clones each layer, with those inside it,
/// for every request.
async fn serve_request(State(auth): State<AuthLayer>, request: Request, next: Next) -> Response {
    let is_grpc = is_grpc(request.headers());
    let on_panic = move || {
        if is_grpc {
            Status::internal("internal error").into_http()
        } else {
            http::StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    };
    let handle = |request| contain_panic(writer::serve(serve_authenticated(auth, request, next, is_grpc)), on_panic);
    request_span(request, handle).await
}

/// Serves an authenticated request, with the versions in its metadata. A call ends at its
/// `grpc-timeout` or at [`SERVER_DEADLINE`], whichever is earlier. Calls that copy a repository may
/// take longer.
async fn serve_authenticated(auth: AuthLayer, mut request: Request, next: Next, is_grpc: bool) -> Response {
    if let Err(refusal) = auth.admit(&mut request).await {
        return refusal;
    }
    if !is_grpc {
        return next.run(request).await;
    }
    version::begin(request.headers());
    let limit = call_deadline(&request, SERVER_DEADLINE);
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(mut response) => {
            version::end(response.headers_mut());
            response
        }
        Err(_) => Status::deadline_exceeded("deadline exceeded").into_http(),
    }
}
