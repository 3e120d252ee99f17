//! The gateway: REST v1, and git over HTTP and SSH, in front of the services.
//!
//! A handler decodes a request, calls services, and encodes the response. The services decide who
//! the caller is and what it is allowed to do; the gateway only checks in the right order:
//! credentials, permission, then the request body. It stores no data.
//!
//! Modules from top to bottom; each uses only those below it:
//!
//! ```text
//! lib, state, listeners,   wiring: the router, the state of each part, the transports of the listeners
//! config
//! pages                    web pages, clients of the API
//! api  docs  ssh           REST v1; its documentation; git over SSH
//! git                      git over HTTP, and repository names in git's paths
//! auth                     credentials
//! avatar                   pictures of accounts
//! blocking                 CPU-bound work
//! upstream  http           clients of the services; requests, errors and routes of the API
//! ```

mod api;
mod auth;
mod avatar;
mod blocking;
mod config;
mod docs;
mod git;
mod http;
mod listeners;
mod pages;
mod ssh;
mod state;
mod telemetry;
mod upstream;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::any;
use ferrite_core::net::Listener;
use ferrite_core::startup::{ServiceFuture, StartError};
use ferrite_core::{Clock, Lifecycle, watch_readiness};
use ferrite_listener::{ListenerLimits, ListenerOptions, serve, serve_all};
use ferrite_proto::ServiceRole;

pub use config::Config;
use listeners::Transports;
use pages::options::PageLimits;
use state::AppState;

pub use self::api::ASSIGNEE_WORDS;
pub use self::http::describe::{BodyDescription, Description, Parameter, SchemaFn, Success};
pub use self::http::routes::{Capacity, Route};
use self::http::{middleware, redirect};

/// Serves the API and git over HTTP on `listeners`, and git over SSH on the configured address,
/// until `life` stops and the requests in flight are done.
pub fn run(config: Config, listeners: Vec<Listener>, life: Lifecycle) -> ServiceFuture {
    Box::pin(start(config, listeners, life))
}

/// Checks the settings and the files that they name, before an address is bound.
pub fn check(config: &Config) -> Result<(), StartError> {
    Transports::new(config)?;
    config.pages.options()?;
    config.process.trust.load(ServiceRole::Gateway, &Clock::system()).map(drop)
}

/// Waits for Redis. The gateway has no database.
pub fn wait_for_servers(config: &Config, life: &Lifecycle) -> ServiceFuture {
    config.process.trust.wait_for_redis(life)
}

async fn start(config: Config, listeners: Vec<Listener>, life: Lifecycle) -> Result<(), StartError> {
    ferrite_core::telemetry::describe(telemetry::METRICS);
    let transports = Transports::new(&config)?;
    let state = AppState::new(&config, &Clock::system(), &life)?;
    let probed = state.clients.clone();
    let probe = move || {
        let clients = probed.clone();
        async move { clients.probe().await }
    };
    if let (Some(address), Some(key_folder)) = (&config.ssh_listen, &config.ssh_host_key_folder) {
        ssh::start(address, key_folder, state.ssh(&config, transports.ssh, &life)?).await?;
    }
    let limits = config.connections.listener_limits();
    if let Some(address) = &config.http_redirect_listen {
        let (listener, router) = (address.bind().await?, redirect::https_router(&config.site.public_url));
        tracing::info!(address = %listener.address()?, "redirecting to {}", config.site.public_url);
        // A redirect is a single request, so an eighth of the connections serves as many clients.
        let limits = ListenerLimits { connections: limits.connections.div_ceil(8), ..limits };
        let options = ListenerOptions { limits, transport: transports.redirect };
        life.spawn("redirect listener", serve(listener, router, options, life.clone()));
    }
    life.spawn("readiness", watch_readiness(probe, life.clone()));
    serve_all(listeners, router(&state), ListenerOptions { limits, transport: transports.http }, &life).await;
    Ok(())
}

#[must_use]
pub fn routes() -> Vec<(&'static str, &'static str)> {
    operations()
        .into_iter()
        .map(|route| (route.method, route.path))
        .chain(docs::paths().map(|path| ("GET", path)))
        .collect()
}

/// Returns all [`routes`] except the documentation, each with its operation.
///
/// `info/refs` of git over HTTP is listed with the operation of a fetch. It needs that of a push if
/// its query names `git-receive-pack`.
#[must_use]
pub fn operations() -> Vec<Route> {
    [api::routes(), git::routes()].concat()
}

fn router(state: &AppState) -> Router {
    let api = api::router().with_state(state.api());
    let responder = from_fn_with_state(api::Responder::new(state.api()), api::respond);
    let pages = pages::router(
        api.clone().layer(responder.clone()),
        state.clients.clone(),
        state.blocking.markdown.clone(),
        PageLimits {
            bodies: state.body_limits.clone(),
            max_response_bytes: state.max_response_bytes,
            max_asset_bytes: state.max_asset_bytes,
        },
        state.links.root(),
        &state.pages,
    );
    let routes = api
        .merge(docs::router())
        .merge(pages)
        .merge(git::router().with_state(state.git_http()))
        // Also what a page's path such as `/{owner}/{repo}` would match.
        .route("/api", any(middleware::unknown_path))
        .route("/api/{*rest}", any(middleware::unknown_path))
        .method_not_allowed_fallback(middleware::method_not_allowed)
        .layer(responder);
    Router::new().fallback_service(routes).layer(from_fn_with_state(state.middleware(), middleware::handle))
}

#[cfg(test)]
mod tests;
