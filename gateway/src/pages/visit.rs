//! The extractor of all pages: the visitor's session, account, and client of the API.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{ALLOW, CACHE_CONTROL, COOKIE, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use ferrite_core::Secret;
use percent_encoding::percent_decode_str;

use super::client::Client;
use super::error::{PageError, PageResult};
use super::layout::{Content, Rendered, Shell, Site, page, protect};
use super::options::{PageLimits, SignInScope};
use super::pool::{ExpensivePool, Group};
use super::view::Account;
use crate::blocking::BlockingPool;
use crate::http::caching::NO_STORE;
use crate::http::embedded_file::accepts_gzip;
use crate::http::error::ApiError;
use crate::http::etag::{BodyTag, weakly_conditional};
use crate::upstream::clients::Clients;

/// Under TLS the cookie has a prefix, with which browsers take it from this host alone.
const COOKIE_NAME: &str = "ferrite_session";
const SECURE_COOKIE_NAME: &str = "__Host-ferrite_session";
/// The length of a session's value, in hexadecimal digits.
const SESSION_DIGITS: usize = 40;
/// The page that visitors without an account always see.
pub(super) const SIGN_IN_PATH: &str = "/user/login";

#[derive(Clone)]
pub(super) struct PagesState(Arc<PagesParts>);

pub(super) struct PagesParts {
    pub(super) site: Arc<Site>,
    /// The routes of the API.
    pub(super) api: Router,
    pub(super) clients: Clients,
    /// Where Markdown is rendered.
    pub(super) markdown: BlockingPool,
    pub(super) limits: PageLimits,
    pub(super) sign_in: SignInScope,
    /// The places for expensive pages.
    pub(super) pool: ExpensivePool,
}

impl PagesState {
    pub(super) fn new(parts: PagesParts) -> Self {
        Self(Arc::new(parts))
    }

    /// Returns a client of the API for a request with these headers.
    pub(super) fn client(&self, session: Option<Secret>, headers: &HeaderMap) -> Client {
        Client::new(self.api.clone(), session, headers, self.limits.max_response_bytes)
    }
}

/// Who visits a page. An extension of requests for expensive pages, for which it is known before.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    /// `None` also for a session that has ended.
    pub(super) session: Option<Secret>,
    pub(super) viewer: Option<Account>,
    is_at_expensive_page: bool,
}

impl Visitor {
    pub(super) async fn of(headers: &HeaderMap, state: &PagesState) -> PageResult<Self> {
        let nobody = Self { session: None, viewer: None, is_at_expensive_page: false };
        let Some(session) = session(headers, &state.site) else { return Ok(nobody) };
        match state.client(Some(session.clone()), headers).get::<Account>("user").await {
            Ok(viewer) => Ok(Self { session: Some(session), viewer: Some(viewer), ..nobody }),
            Err(error) if error.status() == StatusCode::UNAUTHORIZED => Ok(nobody),
            Err(error) => Err(error),
        }
    }

    pub(super) fn at_expensive_page(self) -> Self {
        Self { is_at_expensive_page: true, ..self }
    }
}

/// A visit of a page.
#[derive(Clone)]
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

    /// Fails unless the visitor is an administrator of the site. For other users the page does not
    /// exist.
    pub(super) fn require_administrator(&self) -> PageResult<()> {
        if self.signed_in()?.is_admin { Ok(()) } else { Err(PageError::not_found()) }
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

    /// Returns a segment of the page's path, decoded.
    pub(super) fn name(&self, place: usize) -> String {
        percent_decode_str(self.segment(place)).decode_utf8_lossy().into_owned()
    }

    /// The query of the page, without a question mark.
    pub(super) fn query(&self) -> &str {
        self.shell.here.split_once('?').map_or("", |(_, query)| query)
    }
}

impl FromRequestParts<PagesState> for Visit {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &PagesState) -> PageResult<Self> {
        let known = parts.extensions.get::<Visitor>().cloned();
        let visitor = match known {
            Some(visitor) => visitor,
            None => Visitor::of(&parts.headers, state).await?,
        };
        let is_public = !state.sign_in.is_for_all_pages() || parts.uri.path() == SIGN_IN_PATH;
        if visitor.viewer.is_none() && !is_public {
            return Err(PageError::SignIn);
        }
        let api = state.client(visitor.session, &parts.headers);
        let shell = shell(parts, state, visitor.viewer, !visitor.is_at_expensive_page);
        Ok(Self { api, shell, state: state.clone(), headers: parts.headers.clone() })
    }
}

fn shell(parts: &Parts, state: &PagesState, viewer: Option<Account>, is_indexed: bool) -> Shell {
    let here = parts.uri.path_and_query().map_or("/", |here| here.as_str()).to_owned();
    let is_indexed = is_indexed && parts.uri.path() != SIGN_IN_PATH;
    Shell { site: state.site.clone(), viewer, here, accepts_gzip: accepts_gzip(&parts.headers), is_indexed }
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

/// Marks a response as a failure that [`complete`] turns into a page.
impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Middleware of all pages: renders failures for the visitor, leaves out pages that the browser has,
/// protects, and counts.
pub(super) async fn complete(State(state): State<PagesState>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let kept = parts.clone();
    let mut response = next.run(Request::from_parts(parts, body)).await;
    let group = response.extensions_mut().remove::<Group>().map_or("other", Group::as_str);
    let error = response.extensions_mut().remove::<PageError>();
    let error = error.or_else(|| response.extensions_mut().remove::<ApiError>().map(PageError::from));
    if let Some(error) = error {
        let allowed = response.headers_mut().remove(ALLOW);
        response = error.respond(&shell_of_failure(kept.clone(), &state).await);
        response.headers_mut().extend(allowed.map(|methods| (ALLOW, methods)));
    }
    let mut response = conditional(&kept, &state.site, response);
    protect(&mut response);
    metrics::counter!("ferrite_pages_total", "group" => group, "status" => response.status().as_str().to_owned())
        .increment(1);
    response
}

/// Adds a tag to a page, of its content and the session to which its forms belong. 304 for a
/// browser that has it.
fn conditional(request: &Parts, site: &Site, mut response: Response) -> Response {
    let Some(rendered) = response.extensions_mut().remove::<Rendered>() else { return response };
    let is_read = matches!(request.method, Method::GET | Method::HEAD);
    let is_kept = response.headers().get(CACHE_CONTROL) != Some(&NO_STORE);
    if !is_read || !is_kept || response.status() != StatusCode::OK {
        return response;
    }
    let session = cookie(&request.headers, cookie_name(site)).unwrap_or_default();
    let tag = BodyTag::of_parts(&[b"page", session.as_bytes(), rendered.hash.as_bytes()]);
    let if_none_match: Vec<_> = request.headers.get_all(IF_NONE_MATCH).iter().cloned().collect();
    weakly_conditional(response, &tag, &if_none_match)
}

/// The shell of a page that failed. Asks for the account again, unless that is what failed.
async fn shell_of_failure(mut parts: Parts, state: &PagesState) -> Shell {
    match Visit::from_request_parts(&mut parts, state).await {
        Ok(visit) => visit.shell,
        Err(_) => shell(&parts, state, None, false),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::header::ETAG;
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    /// Completes a page with `text` for a browser that sends these headers.
    fn completed(text: &str, headers: &[(HeaderName, &str)]) -> Response {
        let mut request = Request::builder().uri("/ada");
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let (parts, _) = request.body(Body::empty()).unwrap().into_parts();
        let mut response = Response::new(Body::from(text.to_owned()));
        let body = text.to_owned().into();
        response.extensions_mut().insert(Rendered { body, hash: blake3::hash(text.as_bytes()) });
        conditional(&parts, &Site::new("http://127.0.0.1:3000", String::new()), response)
    }

    #[test]
    fn an_unchanged_page_of_the_same_session_is_not_sent_again() {
        let tag = completed("a", &[]).headers()[ETAG].to_str().unwrap().to_owned();
        assert!(tag.starts_with("W/\""));
        for (text, cookies, status) in [
            ("a", "", 304),
            ("a", "theme=dark", 304),
            ("b", "", 200),
            ("a", "ferrite_session=0123456789abcdef0123456789abcdef01234567", 200),
        ] {
            let response = completed(text, &[(IF_NONE_MATCH, tag.as_str()), (COOKIE, cookies)]);
            assert_eq!(response.status().as_u16(), status, "{text} {cookies}");
        }
    }

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
