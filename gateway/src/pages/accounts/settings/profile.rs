//! What the visitor says about themselves.

use askama::Template;
use axum::http::Method;
use serde::Deserialize;
use serde_json::json;

use super::Section;
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, Form, FormToken};
use crate::pages::visit::Visit;

#[derive(Clone, Debug, Deserialize)]
struct Settings {
    full_name: String,
    website: String,
    location: String,
    description: String,
    hide_activity: bool,
}

#[derive(Template)]
#[template(path = "settings/profile.html")]
struct Profile<'a> {
    token: FormToken,
    username: &'a str,
    settings: Settings,
}

impl Settings {
    /// What a form sent.
    fn typed(fields: &Fields) -> Self {
        Self {
            full_name: fields.text("full_name").trim().to_owned(),
            website: fields.text("website").trim().to_owned(),
            location: fields.text("location").trim().to_owned(),
            description: fields.text("description").trim().to_owned(),
            hide_activity: fields.is_checked("hide_activity"),
        }
    }
}

pub(super) async fn show(visit: Visit) -> PageResult {
    visit.signed_in()?;
    let settings = visit.api.get("user/settings").await?;
    page(&visit, settings, "")
}

fn page(visit: &Visit, settings: Settings, error: &str) -> PageResult {
    let username = &visit.signed_in()?.login;
    Section::Profile.page(visit, &Profile { token: FormToken::of(visit), username, settings }, error)
}

pub(super) async fn change(Form { visit, fields }: Form) -> PageResult {
    let typed = Settings::typed(&fields);
    let body = json!({
        "full_name": typed.full_name,
        "website": typed.website,
        "location": typed.location,
        "description": typed.description,
        "hide_activity": typed.hide_activity,
    });
    match visit.api.change(Method::PATCH, "user/settings", Some(body)).await {
        Ok(_) => Ok(visit.redirect(Section::Profile.path())),
        Err(error) => page(&visit, typed, &error.mistake()?),
    }
}
