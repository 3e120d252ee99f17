//! The visitor's e-mail addresses.

use askama::Template;
use axum::http::Method;
use serde::Deserialize;
use serde_json::json;

use super::Section;
use crate::pages::error::PageResult;
use crate::pages::form::{Form, FormToken};
use crate::pages::visit::Visit;

const MAX_EMAILS: usize = 200;

#[derive(Clone, Debug, Deserialize)]
struct Email {
    email: String,
    verified: bool,
    primary: bool,
}

#[derive(Template)]
#[template(path = "settings/emails.html")]
struct Emails<'a> {
    token: FormToken,
    emails: Vec<Email>,
    /// What was typed.
    typed: &'a str,
}

pub(super) async fn show(visit: Visit) -> PageResult {
    visit.signed_in()?;
    page(&visit, "", "").await
}

async fn page(visit: &Visit, typed: &str, error: &str) -> PageResult {
    let emails = visit.api.list(&format!("user/emails?limit={MAX_EMAILS}")).await?.items;
    Section::Emails.page(visit, &Emails { token: FormToken::of(visit), emails, typed }, error)
}

/// Adds or removes an address, or makes it the primary one.
pub(super) async fn change(Form { visit, fields }: Form) -> PageResult {
    let email = fields.text("email").trim();
    let action = fields.text("action");
    let (method, body) = match action {
        "primary" => (Method::PATCH, json!({"email": email})),
        "remove" => (Method::DELETE, json!({"emails": [email]})),
        _ => (Method::POST, json!({"emails": [email]})),
    };
    match visit.api.change(method, "user/emails", Some(body)).await {
        Ok(_) => Ok(visit.redirect(Section::Emails.path())),
        Err(error) => {
            let message = error.mistake()?;
            let typed = if matches!(action, "primary" | "remove") { "" } else { email };
            page(&visit, typed, &message).await
        }
    }
}
