//! The extractor of all pages: the visitor's session, account, and client of the API.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use ferrite_core::Secret;

use super::client::Client;
use super::error::{PageError, PageResult};
use super::layout::{Content, Shell, Site, page};
use super::view::Account;
use crate::blocking::BlockingPool;
use crate::http::embedded_file::accepts_gzip;
use crate::http::error::ApiError;
use crate::upstream::clients::Clients;

/// Under TLS the cookie has a prefix, with which browsers take it from this host alone.
const COOKIE_NAME: &str = "ferrite_session";
const SECURE_COOKIE_NAME: &str = "__Host-ferrite_session";
/// The length of a session's value, in hexadecimal digits.
const SESSION_DIGITS: usize = 40;

#[derive(Clone)]
pub(super) struct PagesState(Arc<PagesParts>);

pub(super) struct PagesParts {
    pub(super) site: Arc<Site>,
    /// The routes of the API.
    pub(super) api: Router,
    pub(super) clients: Clients,
    /// Where Markdown is rendered.
    pub(super) markdown: BlockingPool,
    pub(super) max_response_bytes: usize,
}

impl PagesState {
    pub(super) fn new(parts: PagesParts) -> Self {
        Self(Arc::new(parts))
    }
}

/// A visit of a page.
pub(super) struct Visit {
    pub(super) api: Client,
    pub(super) shell: Shell,
    pub(super) state: PagesState,
    /// The headers of the request.
    pub(super) headers: HeaderMap,
}

impl std::ops::Deref for PagesState {
    type Target = PagesParts;

    fn deref(&self) -> &PagesParts {
        &self.0
    }
}

impl Visit {
    /// Responds with a page.
    pub(super) fn page(&self, content: &impl Content) -> PageResult {
        Ok(page(&self.shell, content))
    }

    /// The account of the visitor, who is sent to the sign-in without one.
    pub(super) fn signed_in(&self) -> PageResult<&Account> {
        self.shell.viewer.as_ref().ok_or(PageError::SignIn)
    }

    /// Sends the browser to a path of this site, after a form or in place of a page.
    pub(super) fn redirect(&self, path: &str) -> Response {
        Redirect::to(&format!("{}{path}", self.shell.site.root)).into_response()
    }

    /// Returns a segment of the page's path, encoded; empty without one.
    pub(super) fn segment(&self, place: usize) -> &str {
        let path = self.shell.here.split('?').next().unwrap_or_default();
        path.split('/').skip(1).nth(place).unwrap_or_default()
    }

    /// The query of the page, without a question mark.
    pub(super) fn query(&self) -> &str {
        self.shell.here.split_once('?').map_or("", |(_, query)| query)
    }
}

impl FromRequestParts<PagesState> for Visit {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &PagesState) -> PageResult<Self> {
        let session = session(&parts.headers, &state.site);
        let api = Client::new(state.api.clone(), session, &parts.headers, state.max_response_bytes);
        let (api, viewer) = match api.session() {
            None => (api, None),
            Some(_) => match api.get::<Account>("user").await {
                Ok(viewer) => (api, Some(viewer)),
                // It has ended: the visitor is as one without a session.
                Err(error) if error.status() == StatusCode::UNAUTHORIZED => (api.signed_out(), None),
                Err(error) => return Err(error),
            },
        };
        Ok(Self { api, shell: shell(parts, state, viewer), state: state.clone(), headers: parts.headers.clone() })
    }
}

fn shell(parts: &Parts, state: &PagesState, viewer: Option<Account>) -> Shell {
    let here = parts.uri.path_and_query().map_or("/", |here| here.as_str()).to_owned();
    Shell { site: state.site.clone(), viewer, here, accepts_gzip: accepts_gzip(&parts.headers) }
}

/// The name of the session's cookie.
pub(super) fn cookie_name(site: &Site) -> &'static str {
    if site.is_secure() { SECURE_COOKIE_NAME } else { COOKIE_NAME }
}

/// Returns the session in the cookies. Anything else under its name is no session.
fn session(headers: &HeaderMap, site: &Site) -> Option<Secret> {
    let value = cookie(headers, cookie_name(site))?;
    let is_sane = value.len() == SESSION_DIGITS && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_sane.then(|| Secret::new(value))
}

/// Returns the first cookie of a name.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lists = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = lists.flat_map(|list| list.split(';')).filter_map(|pair| pair.trim().split_once('='));
    cookies.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// Marks a response as a failure that [`render_errors`] turns into a page.
impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Middleware of all pages: renders failures for the visitor.
pub(super) async fn render_errors(State(state): State<PagesState>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let kept = parts.clone();
    let mut response = next.run(Request::from_parts(parts, body)).await;
    let error = match response.extensions_mut().remove::<PageError>() {
        Some(error) => error,
        None => match response.extensions_mut().remove::<ApiError>() {
            Some(error) => PageError::from(error),
            None => return response,
        },
    };
    error.respond(&shell_of_failure(kept, &state).await)
}

/// The shell of a page that failed. Asks for the account again, unless that is what failed.
async fn shell_of_failure(mut parts: Parts, state: &PagesState) -> Shell {
    match Visit::from_request_parts(&mut parts, state).await {
        Ok(visit) => visit.shell,
        Err(_) => shell(&parts, state, None),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_a_value_of_the_right_form_is_a_session() {
        let value = "0123456789abcdef0123456789abcdef01234567";
        let read = |cookies: &str, url: &str| {
            let headers = [(COOKIE, HeaderValue::from_str(cookies).unwrap())].into_iter().collect();
            session(&headers, &Site::new(url, String::new())).map(|session| session.expose().to_owned())
        };
        let plain = "http://127.0.0.1:3000";
        assert_eq!(read(&format!("a=b; ferrite_session={value}"), plain).as_deref(), Some(value));
        assert_eq!(read(&format!("ferrite_session={value}"), "https://h"), None, "set by another host, perhaps");
        assert_eq!(read(&format!("__Host-ferrite_session={value}"), "https://h").as_deref(), Some(value));
        for bad in ["ferrite_session=", "ferrite_session=abc", &format!("ferrite_session={value}0"), "ferrite_session"]
        {
            assert_eq!(read(bad, plain), None, "{bad}");
        }
    }
}
