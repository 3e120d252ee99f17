//! The public door of Ferrite: REST v1, and git over HTTP and SSH, in front of the services.
//!
//! A handler decodes a request, makes the calls it needs, and shapes the answer. Who is calling and what they may do is decided by
//! the services; the gateway keeps no data and remembers nothing between two requests.
//!
//! Not here: rules about names, content or permissions beyond the order in which a client hears of its mistakes.

mod api;
mod auth;
mod config;
mod docs;
mod dto;
mod git;
mod http;
mod ssh;
mod state;
mod upstream;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use ferrite_kit::admin::watch_readiness;
use ferrite_kit::boot::{StartError, serve_all};
use ferrite_kit::net::Listener;
use ferrite_kit::serve::Limits;
use ferrite_kit::telemetry::http_span;
use ferrite_kit::{Clock, Lifecycle};
use tower_http::catch_panic::CatchPanicLayer;

pub use config::Config;
use state::Gateway;

pub use self::http::routes::{Capacity, Route};
use self::http::{etag, middleware};

/// Serves the API and git over HTTP on `listeners`, and git over SSH where the configuration says, until `life` stops and the requests in flight are answered.
///
/// # Errors
/// When a key file cannot be used, or the address for SSH.
pub async fn run(config: Config, listeners: Vec<Listener>, life: Lifecycle) -> Result<(), StartError> {
    let gateway = Gateway::new(&config, &Clock::system())?;
    let probed = gateway.clients.clone();
    let probe = move || {
        let clients = probed.clone();
        async move { clients.probe().await }
    };
    ssh::start(&config, &gateway, &life).await?;
    life.spawn("readiness", watch_readiness(probe, life.clone()));
    serve_all(listeners, router(gateway), Limits::default(), &life).await;
    Ok(())
}

/// Every route of the gateway: its method, and its path as the router knows it.
#[must_use]
pub fn routes() -> Vec<(&'static str, &'static str)> {
    operations().into_iter().map(|route| (route.method, route.path)).chain([("GET", docs::PATH)]).collect()
}

/// Returns the routes that carry out operations, each with its operation: all of [`routes`] but the documentation.
///
/// `info/refs` of git over HTTP stands with the operation of a fetch; a client that names `git-receive-pack` in its query needs the
/// operation of a push.
#[must_use]
pub fn operations() -> Vec<Route> {
    [api::routes(), git::routes()].concat()
}

/// Every route, inside what all requests pass.
fn router(gateway: Gateway) -> Router {
    let routes = api::router()
        .layer(from_fn(etag::conditional))
        .merge(docs::router())
        .merge(git::router())
        .fallback(middleware::unknown_path)
        .method_not_allowed_fallback(middleware::wrong_method)
        .layer(CatchPanicLayer::custom(middleware::contain_panic))
        .layer(from_fn(http_span))
        .with_state(gateway.clone());
    Router::new().fallback_service(routes).layer(from_fn_with_state(gateway, middleware::pass))
}

#[cfg(test)]
mod tests;
