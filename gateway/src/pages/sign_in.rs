//! Sign-in and sign-out. A session comes from repo-svc, and the browser keeps it in a cookie that no
//! script reads.

use askama::Template;
use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{CACHE_CONTROL, RETRY_AFTER, SET_COOKIE, USER_AGENT};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use chrono::Utc;
use ferrite_api_types::convert::require;
use ferrite_core::Secret;
use ferrite_proto::metadata::AUTHORIZATION;
use ferrite_proto::repo::{BasicCredential, CreateSessionRequest, CreateSessionResponse, DeleteSessionRequest};
use http_body_util::Limited;
use tonic::metadata::MetadataValue;
use uuid::Uuid;

use super::components::{Count, parameter};
use super::error::{PageError, PageResult};
use super::form::{Form, FormToken, TOKEN_FIELD, check_origin, own_path, read};
use super::layout::{Content, Site, with_status};
use super::visit::{PagesState, SIGN_IN_PATH, Visit, cookie, cookie_name};
use crate::http::body_limits::MAX_UNVERIFIED_BODY_BYTES;
use crate::http::caching::NO_STORE;
use crate::http::error::ApiError;
use crate::upstream::client_headers::ClientHeaders;

/// The cookie of a visitor who has no session yet, to which the form belongs.
const FORM_COOKIE: &str = "ferrite_form";
const SECURE_FORM_COOKIE: &str = "__Host-ferrite_form";
const FORM_SECONDS: i64 = 60 * 60;
const FORM_DIGITS: usize = 32;
const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");
/// Pages of the account that the browser keeps.
const CACHE: HeaderValue = HeaderValue::from_static("\"cache\"");
const WRONG: &str = "The name or the password is wrong.";
const STALE: &str = "The form was open for too long, or your browser keeps no cookies. Try again.";

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn<'a> {
    token: FormToken,
    redirect_to: &'a str,
    username: &'a str,
    error: &'a str,
}

#[derive(Template)]
#[template(path = "sign_out.html")]
struct SignOut {
    token: FormToken,
}

impl Content for SignIn<'_> {
    fn title(&self) -> String {
        "Sign in".to_owned()
    }
}

impl Content for SignOut {
    fn title(&self) -> String {
        "Sign out".to_owned()
    }
}

pub(super) fn router() -> Router<PagesState> {
    Router::new().route(SIGN_IN_PATH, get(show).post(sign_in)).route("/user/logout", get(show_sign_out).post(sign_out))
}

async fn show(visit: Visit) -> PageResult {
    let redirect_to = parameter(&visit.shell.here, "redirect_to").unwrap_or_default();
    let redirect_to = own_path(&redirect_to);
    if visit.shell.viewer.is_some() {
        return Ok(visit.redirect(redirect_to));
    }
    form(&visit, redirect_to, "", "")
}

/// Responds with the form, and with the cookie that it belongs to.
fn form(visit: &Visit, redirect_to: &str, username: &str, error: &str) -> PageResult {
    let secret = form_secret(visit).map_or_else(|| Uuid::new_v4().simple().to_string(), str::to_owned);
    let mut response = visit.page(&SignIn { token: FormToken::new(&secret), redirect_to, username, error })?;
    set_cookie(&mut response, &visit.state.site, form_cookie(&visit.state.site), &secret, FORM_SECONDS);
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    Ok(response)
}

fn form_cookie(site: &Site) -> &'static str {
    if site.is_secure() { SECURE_FORM_COOKIE } else { FORM_COOKIE }
}

fn form_secret(visit: &Visit) -> Option<&str> {
    let value = cookie(&visit.headers, form_cookie(&visit.state.site))?;
    let is_sane = value.len() == FORM_DIGITS && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_sane.then_some(value)
}

/// Sets a cookie of this site that no script reads. Zero seconds delete it.
fn set_cookie(response: &mut Response, site: &Site, name: &str, value: &str, seconds: i64) {
    let secure = if site.is_secure() { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    match HeaderValue::try_from(text) {
        Ok(mut value) => {
            value.set_sensitive(true);
            response.headers_mut().append(SET_COOKIE, value);
        }
        Err(_) => tracing::error!("a cookie has an unusable value"),
    }
}

async fn sign_in(State(state): State<PagesState>, request: Request) -> PageResult {
    let (mut parts, body) = request.into_parts();
    check_origin(&parts.headers, &state.site)?;
    let visit = Visit::from_request_parts(&mut parts, &state).await?;
    let fields = read(&visit.headers, Body::new(Limited::new(body, MAX_UNVERIFIED_BODY_BYTES))).await?;
    let (redirect_to, username) = (own_path(fields.text("redirect_to")), fields.text("username").trim());
    if !form_secret(&visit).is_some_and(|secret| FormToken::is_valid(secret, fields.text(TOKEN_FIELD))) {
        return Ok(with_status(StatusCode::FORBIDDEN, form(&visit, redirect_to, username, STALE)?));
    }
    match create_session(&visit, username, fields.text("password")).await {
        Ok(made) => signed_in(&visit, made, redirect_to).await,
        Err(error) => refused(&visit, &error, redirect_to, username),
    }
}

async fn create_session(visit: &Visit, username: &str, password: &str) -> Result<CreateSessionResponse, ApiError> {
    let user_agent = visit.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let credential = BasicCredential { username: username.to_owned(), password: password.to_owned() };
    let request = CreateSessionRequest { credential: Some(credential), user_agent: user_agent.to_owned() };
    let request = ClientHeaders::of(&visit.headers).request(request);
    Ok(visit.state.clients.sessions().create_session(request).await?.into_inner())
}

/// Signs a visitor in again whose new password has ended all sessions, and leads to a page.
pub(super) async fn renew(visit: &Visit, username: &str, password: &str, redirect_to: &str) -> PageResult {
    match create_session(visit, username, password).await {
        Ok(made) => signed_in(visit, made, redirect_to).await,
        // The password is changed in any case.
        Err(_) => Ok(visit.redirect("/user/login")),
    }
}

/// Shows the form again, with what was typed except for the password.
fn refused(visit: &Visit, error: &ApiError, redirect_to: &str, username: &str) -> PageResult {
    let (status, message) = match error.status {
        StatusCode::UNAUTHORIZED => (StatusCode::UNPROCESSABLE_ENTITY, WRONG.to_owned()),
        StatusCode::UNPROCESSABLE_ENTITY => (error.status, error.message().to_owned()),
        StatusCode::TOO_MANY_REQUESTS => (error.status, too_many(error.retry_after().unwrap_or(1))),
        _ => return Err(error.clone().into()),
    };
    let mut response = form(visit, redirect_to, username, &message)?;
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    Ok(with_status(status, response))
}

fn too_many(seconds: u64) -> String {
    let wait = if seconds < 120 { Count(seconds, "second") } else { Count(seconds.div_ceil(60), "minute") };
    format!("There were too many attempts. Try again in {wait}.")
}

/// Keeps the new session in place of the one that the browser had, which ends.
async fn signed_in(visit: &Visit, made: CreateSessionResponse, redirect_to: &str) -> PageResult {
    let session = require(made.session, "session").map_err(ApiError::from)?;
    let expire = require(session.expire_time, "expire_time").map_err(ApiError::from)?;
    if let Err(error) = end_session(visit).await {
        // It can still be ended from the list of sessions.
        tracing::warn!("the former session of a browser is left: {}", error.message());
    }
    let (site, seconds) = (&visit.state.site, expire.seconds.saturating_sub(Utc::now().timestamp()).max(1));
    let mut response = visit.redirect(redirect_to);
    set_cookie(&mut response, site, cookie_name(site), &made.value, seconds);
    set_cookie(&mut response, site, form_cookie(site), "", 0);
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    Ok(response)
}

/// Ends the session of the browser, if it has one.
async fn end_session(visit: &Visit) -> PageResult<()> {
    let Some(session) = visit.api.session() else { return Ok(()) };
    let mut request = ClientHeaders::of(&visit.headers).request(DeleteSessionRequest { session_id: 0 });
    request.metadata_mut().insert(AUTHORIZATION, bearer(session)?);
    match visit.state.clients.sessions().delete_session(request).await.map_err(ApiError::from) {
        Ok(_) => Ok(()),
        // It has ended meanwhile, or is an access token that somebody put into the cookie.
        Err(error) if matches!(error.status, StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn bearer(session: &Secret) -> PageResult<MetadataValue<tonic::metadata::Ascii>> {
    let value = MetadataValue::try_from(format!("Bearer {}", session.expose()));
    let mut value = value.map_err(|_| PageError::from(ApiError::bad_credentials()))?;
    value.set_sensitive(true);
    Ok(value)
}

async fn show_sign_out(visit: Visit) -> PageResult {
    match visit.shell.viewer {
        Some(_) => visit.page(&SignOut { token: FormToken::of(&visit) }),
        None => Ok(visit.redirect("/")),
    }
}

async fn sign_out(Form { visit, .. }: Form) -> PageResult {
    end_session(&visit).await?;
    let site = &visit.state.site;
    let mut response = visit.redirect("/");
    set_cookie(&mut response, site, cookie_name(site), "", 0);
    response.headers_mut().insert(CLEAR_SITE_DATA, CACHE);
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_out_of_reach_for_scripts_and_other_sites() {
        let header = |url: &str, seconds| {
            let (mut response, site) = (Response::new(Body::empty()), Site::new(url, String::new()));
            set_cookie(&mut response, &site, form_cookie(&site), "0a", seconds);
            response.headers()[SET_COOKIE].to_str().unwrap().to_owned()
        };
        assert_eq!(
            header("https://h", 60),
            "__Host-ferrite_form=0a; Path=/; Max-Age=60; HttpOnly; SameSite=Lax; Secure"
        );
        assert_eq!(header("http://h", 0), "ferrite_form=0a; Path=/; Max-Age=0; HttpOnly; SameSite=Lax");
    }

    #[test]
    fn a_long_wait_is_told_in_minutes() {
        assert_eq!(too_many(1), "There were too many attempts. Try again in 1 second.");
        assert_eq!(too_many(121), "There were too many attempts. Try again in 3 minutes.");
    }
}
