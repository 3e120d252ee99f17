//! The browsers in which the visitor is signed in.

use askama::Template;
use axum::http::{Method, StatusCode};
use ferrite_api_types::links::encode;
use serde::Deserialize;

use super::Section;
use crate::pages::components::Time;
use crate::pages::error::PageResult;
use crate::pages::form::{Form, FormToken};
use crate::pages::visit::Visit;

/// An account has no more.
const MAX_SESSIONS: usize = 100;

#[derive(Clone, Debug, Deserialize)]
struct Session {
    id: i64,
    created_at: Time,
    last_used_at: Time,
    expires_at: Time,
    address: String,
    user_agent: String,
    is_current: bool,
}

#[derive(Template)]
#[template(path = "settings/sessions.html")]
struct Sessions {
    token: FormToken,
    sessions: Vec<Session>,
}

pub(super) async fn show(visit: Visit) -> PageResult {
    visit.signed_in()?;
    let sessions = visit.api.list(&format!("user/sessions?limit={MAX_SESSIONS}")).await?.items;
    Section::Sessions.page(&visit, &Sessions { token: FormToken::of(&visit), sessions }, "")
}

pub(super) async fn end(Form { visit, fields }: Form) -> PageResult {
    let path = format!("user/sessions/{}", encode(fields.text("id").as_bytes()));
    match visit.api.change(Method::DELETE, &path, None).await {
        Err(error) if error.status() != StatusCode::NOT_FOUND => Err(error),
        // One that is not there has ended.
        _ => Ok(visit.redirect(Section::Sessions.path())),
    }
}
