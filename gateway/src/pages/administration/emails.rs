//! The verification of e-mail addresses. The API does not list those of another account.

use askama::Template;
use axum::http::Method;
use ferrite_api_types::links::encode;

use super::users::{User, UserHead, UserTab, find};
use super::{AdministratorForm, AdministratorVisit, Part, saved};
use crate::pages::error::PageResult;
use crate::pages::form::FormToken;
use crate::pages::layout::Content;
use crate::pages::visit::Visit;

#[derive(Template)]
#[template(path = "administration/emails.html")]
struct Emails<'a> {
    head: UserHead,
    user: User,
    /// What was typed.
    typed: &'a str,
    token: FormToken,
}

impl Content for Emails<'_> {
    fn title(&self) -> String {
        format!("E-mail addresses of {}", self.head.name)
    }
}

pub(super) async fn show(AdministratorVisit(visit): AdministratorVisit) -> PageResult {
    page(&visit, "", "").await
}

async fn page(visit: &Visit, typed: &str, error: &str) -> PageResult {
    let user = find(visit).await?;
    let head = UserHead::new(&user.account.login, UserTab::Emails);
    Part::Users.page(visit, &Emails { head, user, typed, token: FormToken::of(visit) }, error)
}

/// Verifies an address, or takes that back.
pub(super) async fn change(AdministratorForm { visit, fields }: AdministratorForm) -> PageResult {
    let email = fields.text("email").trim();
    let path = format!("admin/users/{}/emails/{}/verified", visit.segment(3), encode(email.as_bytes()));
    let method = if fields.text("action") == "unverify" { Method::DELETE } else { Method::PUT };
    match visit.api.change(method, &path, None).await {
        Ok(_) => Ok(saved(&visit, &UserHead::new(&visit.name(3), UserTab::Emails).path())),
        Err(error) => page(&visit, email, &error.mistake()?).await,
    }
}
