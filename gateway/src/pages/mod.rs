//! Web pages, without scripts. A page is a client of the API in the same process: it reads what the
//! API responds to the visitor's session, and sends what a form says as a change.
//!
//! Modules from top to bottom: `hooks` → `accounts`, `administration` → `front`, `sign_in`, `pulls`,
//! `releases`, `wiki`, `issues`, `repositories` → `public_keys`, `markdown`, `multipart` → `form`,
//! `expensive`, `atom` → `visit` → `diff` → `error`, `client` → `layout` → `options`, `robots` →
//! `branding`, `pool`, `single_flight`, `view` → `components`.

mod accounts;
mod administration;
mod atom;
pub(crate) mod branding;
mod client;
mod components;
mod diff;
mod error;
mod expensive;
mod form;
mod front;
mod hooks;
mod issues;
mod layout;
mod markdown;
mod multipart;
pub(crate) mod options;
pub(crate) mod pool;
mod public_keys;
mod pulls;
mod releases;
mod repositories;
pub(crate) mod robots;
mod sign_in;
mod single_flight;
mod view;
mod visit;
mod wiki;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::HeaderMap;
use axum::middleware::from_fn_with_state;
use axum::routing::get;

use self::error::PageError;
use self::layout::Site;
use self::options::{PageLimits, PageOptions};
use self::pool::ExpensivePool;
use self::visit::{PagesParts, PagesState, complete};
use crate::blocking::BlockingPool;
use crate::http::embedded_file::EmbeddedFile;
use crate::upstream::clients::Clients;

const STYLE: &str = include_str!("../../assets/site.css");
static STYLE_FILE: LazyLock<EmbeddedFile> =
    LazyLock::new(|| EmbeddedFile::text("text/css; charset=utf-8", STYLE).forever());

/// Returns the routes of all pages. `api` are the routes of REST v1.
pub(crate) fn router(
    api: Router,
    clients: Clients,
    markdown: BlockingPool,
    limits: PageLimits,
    public_url: &str,
    options: &PageOptions,
) -> Router {
    let style = format!("/assets/site-{}.css", &blake3::hash(STYLE.as_bytes()).to_hex()[..16]);
    let site = Arc::new(Site::new(public_url, style.clone()).with(options));
    let robots = Arc::new(robots::file(&site.root, options.robots.as_deref()));
    let (sign_in, pool) = (options.sign_in, ExpensivePool::new(options.expensive));
    let parts = PagesParts { site, api, clients, markdown, limits, sign_in, pool };
    let state = PagesState::new(parts);
    let pages = Router::new()
        .merge(front::router())
        .merge(issues::router())
        .merge(hooks::router())
        .merge(pulls::router())
        .merge(releases::router())
        .merge(wiki::router())
        .merge(accounts::router())
        .merge(administration::router())
        .merge(sign_in::router())
        .merge(repositories::router())
        .fallback(async || PageError::not_found())
        .method_not_allowed_fallback(async || PageError::wrong_method())
        .layer(from_fn_with_state(state.clone(), complete))
        .with_state(state)
        .route(&style, get(async |headers: HeaderMap| STYLE_FILE.respond(&headers)))
        .route("/robots.txt", get(move |headers: HeaderMap| async move { robots.respond(&headers) }));
    match options.logo.clone() {
        Some(logo) => pages.route(&logo.path(), get(move |headers: HeaderMap| async move { logo.respond(&headers) })),
        None => pages,
    }
}

#[cfg(test)]
mod tests;
