//! The visitor's password. A change ends all sessions, so that of this browser is made anew.

use askama::Template;
use axum::http::{Method, StatusCode};
use serde_json::json;

use super::Section;
use crate::pages::error::PageResult;
use crate::pages::form::{Form, FormToken};
use crate::pages::sign_in;
use crate::pages::visit::Visit;

const WRONG_PASSWORD: &str = "The current password is wrong.";
const DIFFERENT: &str = "The new passwords differ.";

#[derive(Template)]
#[template(path = "settings/password.html")]
struct Password<'a> {
    token: FormToken,
    username: &'a str,
}

pub(super) async fn show(visit: Visit) -> PageResult {
    page(&visit, "")
}

fn page(visit: &Visit, error: &str) -> PageResult {
    let username = &visit.signed_in()?.login;
    Section::Password.page(visit, &Password { token: FormToken::of(visit), username }, error)
}

pub(super) async fn change(Form { visit, fields }: Form) -> PageResult {
    let (username, new) = (&visit.signed_in()?.login, fields.text("password"));
    if new != fields.text("retype") {
        return page(&visit, DIFFERENT);
    }
    let api = visit.api.with_password(username, fields.text("old_password"));
    match api.change(Method::PUT, "user/password", Some(json!({"password": new}))).await {
        Ok(_) => sign_in::renew(&visit, username, new, Section::Sessions.path()).await,
        Err(error) if error.status() == StatusCode::UNAUTHORIZED => page(&visit, WRONG_PASSWORD),
        Err(error) => page(&visit, &error.mistake()?),
    }
}
