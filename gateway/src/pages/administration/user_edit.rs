//! The forms to change and to delete a user.

use askama::Template;
use axum::http::Method;
use serde_json::{Value, json};

use super::users::{User, UserHead, UserTab, find};
use super::{AdministratorForm, AdministratorVisit, Part, saved};
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, FormToken, changes};
use crate::pages::layout::Content;
use crate::pages::visit::Visit;

const NOT_NAMED: &str = "Type the name of the user to delete the account.";

#[derive(Template)]
#[template(path = "administration/user_edit.html")]
struct EditPage<'a> {
    head: UserHead,
    user: &'a User,
    draft: &'a Draft,
    token: FormToken,
}

#[derive(Template)]
#[template(path = "administration/user_removal.html")]
struct Removal<'a> {
    user: &'a User,
    token: FormToken,
}

/// What is in the fields, except for the password, which no page shows.
struct Draft {
    email: String,
    full_name: String,
    website: String,
    location: String,
    active: bool,
    admin: bool,
}

impl Content for EditPage<'_> {
    fn title(&self) -> String {
        self.user.account.login.clone()
    }
}

impl Content for Removal<'_> {
    fn title(&self) -> String {
        format!("Delete {}", self.user.account.login)
    }
}

impl Draft {
    fn of_fields(fields: &Fields) -> Self {
        let text = |name| fields.text(name).trim().to_owned();
        Self {
            email: text("email"),
            full_name: text("full_name"),
            website: text("website"),
            location: text("location"),
            active: fields.is_checked("active"),
            admin: fields.is_checked("admin"),
        }
    }

    fn of_user(user: &User) -> Self {
        Self {
            email: user.email.clone(),
            full_name: user.account.full_name.clone(),
            website: user.website.clone(),
            location: user.location.clone(),
            active: user.is_active(),
            admin: user.account.is_admin,
        }
    }

    fn json(&self) -> Value {
        json!({
            "email": self.email, "full_name": self.full_name, "website": self.website, "location": self.location,
            "active": self.active, "admin": self.admin,
        })
    }
}

pub(super) async fn show(AdministratorVisit(visit): AdministratorVisit) -> PageResult {
    let user = find(&visit).await?;
    page(&visit, &user, &Draft::of_user(&user), "")
}

fn page(visit: &Visit, user: &User, draft: &Draft, error: &str) -> PageResult {
    let head = UserHead::new(&user.account.login, UserTab::Account);
    Part::Users.page(visit, &EditPage { head, user, draft, token: FormToken::of(visit) }, error)
}

pub(super) async fn save(AdministratorForm { visit, fields }: AdministratorForm) -> PageResult {
    let user = find(&visit).await?;
    let draft = Draft::of_fields(&fields);
    let mut body = changes(draft.json(), &Draft::of_user(&user).json());
    if !fields.text("password").is_empty() {
        body["password"] = fields.text("password").into();
    }
    match visit.api.change(Method::PATCH, &api(&user), Some(body)).await {
        // The visitor gave up the right to see the page.
        Ok(_) if is_own(&visit, &user)? && !(draft.active && draft.admin) => Ok(visit.redirect("/")),
        Ok(_) => Ok(saved(&visit, &UserHead::new(&user.account.login, UserTab::Account).path())),
        Err(error) => page(&visit, &user, &draft, &error.mistake()?),
    }
}

pub(super) async fn ask_to_delete(AdministratorVisit(visit): AdministratorVisit) -> PageResult {
    let user = find(&visit).await?;
    removal(&visit, &user, "")
}

fn removal(visit: &Visit, user: &User, error: &str) -> PageResult {
    Part::Users.page(visit, &Removal { user, token: FormToken::of(visit) }, error)
}

pub(super) async fn delete(AdministratorForm { visit, fields }: AdministratorForm) -> PageResult {
    let user = find(&visit).await?;
    if fields.text("name").trim() != user.account.login {
        return removal(&visit, &user, NOT_NAMED);
    }
    match visit.api.change(Method::DELETE, &api(&user), None).await {
        Ok(_) if is_own(&visit, &user)? => Ok(visit.redirect("/")),
        Ok(_) => Ok(visit.redirect(&Part::Users.path())),
        Err(error) => removal(&visit, &user, &error.mistake()?),
    }
}

/// The path of its operations in the API.
fn api(user: &User) -> String {
    format!("admin/users/{}", user.account.login)
}

fn is_own(visit: &Visit, user: &User) -> PageResult<bool> {
    Ok(visit.signed_in()?.id == user.account.id)
}
