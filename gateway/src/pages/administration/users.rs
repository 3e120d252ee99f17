//! The list of users, the form for a new one, and the top of the pages of one.

use askama::Template;
use axum::http::Method;
use ferrite_api_types::links::encode;
use serde::Deserialize;
use serde_json::json;

use super::{AdministratorForm, AdministratorVisit, Part};
use crate::pages::components::{Listed, Pager, Time, filters, page_number, parameter};
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::{Fields, FormToken};
use crate::pages::layout::Content;
use crate::pages::view::Account;
use crate::pages::visit::Visit;

const PAGE_SIZE: u64 = 50;
const ORDERS: [(&str, &str); 4] = [
    ("oldest", "Oldest first"),
    ("newest", "Newest first"),
    ("alphabetically", "By name"),
    ("reversealphabetically", "By name, from the end"),
];

/// A user, as administrators see one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct User {
    #[serde(flatten)]
    pub(super) account: Account,
    pub(super) email: String,
    pub(super) website: String,
    pub(super) location: String,
    /// Absent for organizations.
    active: Option<bool>,
    created: Option<Time>,
}

/// The pages of one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UserTab {
    Account,
    Quota,
    PublicKeys,
    Emails,
}

/// The top of the pages of one user.
pub(super) struct UserHead {
    pub(super) name: String,
    pub(super) tab: UserTab,
}

#[derive(Template)]
#[template(path = "administration/users.html")]
struct Users<'a> {
    users: Vec<User>,
    query: String,
    order: &'a str,
    pager: Pager,
}

#[derive(Template)]
#[template(path = "administration/new_user.html")]
struct NewUser<'a> {
    token: FormToken,
    fields: &'a Fields,
}

impl Content for Users<'_> {
    fn title(&self) -> String {
        "Users".to_owned()
    }
}

impl Content for NewUser<'_> {
    fn title(&self) -> String {
        "New user".to_owned()
    }
}

impl User {
    pub(super) fn is_active(&self) -> bool {
        self.active.unwrap_or_default()
    }

    /// The path of its pages.
    pub(super) fn path(&self) -> String {
        user_path(&self.account.login)
    }
}

impl UserTab {
    pub(super) const ALL: [Self; 4] = [Self::Account, Self::Quota, Self::PublicKeys, Self::Emails];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Account => "Account",
            Self::Quota => "Limits",
            Self::PublicKeys => "SSH keys",
            Self::Emails => "E-mail addresses",
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Account => "edit",
            Self::Quota => "quota",
            Self::PublicKeys => "keys",
            Self::Emails => "emails",
        }
    }
}

impl UserHead {
    pub(super) fn new(name: &str, tab: UserTab) -> Self {
        Self { name: name.to_owned(), tab }
    }

    /// The path of the user's pages.
    pub(super) fn user_path(&self) -> String {
        user_path(&self.name)
    }

    /// The path of the page.
    pub(super) fn path(&self) -> String {
        format!("{}/{}", self.user_path(), self.tab.word())
    }
}

fn user_path(name: &str) -> String {
    format!("{}/{name}", Part::Users.path())
}

/// Reads the user of `/-/admin/users/{username}/…`.
pub(super) async fn find(visit: &Visit) -> PageResult<User> {
    let user: User = visit.api.get(&format!("users/{}", visit.segment(3))).await?;
    if user.active.is_some() { Ok(user) } else { Err(PageError::not_found()) }
}

pub(super) async fn list(AdministratorVisit(visit): AdministratorVisit) -> PageResult {
    let here = &visit.shell.here;
    let query = parameter(here, "q").unwrap_or_default();
    let chosen = parameter(here, "sort").unwrap_or_default();
    let order = ORDERS.iter().find(|(word, _)| *word == chosen).map_or(ORDERS[0].0, |(word, _)| *word);
    let path =
        format!("admin/users?q={}&sort={order}&page={}&limit={PAGE_SIZE}", encode(query.as_bytes()), page_number(here));
    let listed: Listed<User> = visit.api.list(&path).await?;
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    Part::Users.page(&visit, &Users { users: listed.items, query, order, pager }, "")
}

pub(super) async fn new(AdministratorVisit(visit): AdministratorVisit) -> PageResult {
    form(&visit, &Fields::default(), "")
}

fn form(visit: &Visit, fields: &Fields, error: &str) -> PageResult {
    Part::Users.page(visit, &NewUser { token: FormToken::of(visit), fields }, error)
}

pub(super) async fn create(AdministratorForm { visit, fields }: AdministratorForm) -> PageResult {
    let text = |name| fields.text(name).trim();
    let body = json!({
        "username": text("username"), "email": text("email"), "full_name": text("full_name"),
        "password": fields.text("password"),
    });
    match visit.api.change(Method::POST, "admin/users", Some(body)).await {
        Ok(made) => {
            let name = made["login"].as_str().unwrap_or_default();
            Ok(visit.redirect(&UserHead::new(name, UserTab::Account).path()))
        }
        Err(error) => form(&visit, &fields, &error.mistake()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_without_a_state_is_no_user() {
        let read = |text: &str| serde_json::from_str::<User>(text).unwrap();
        let user = read(r#"{"id": 3, "login": "ada", "email": "a@b", "active": false, "is_admin": true}"#);
        assert_eq!((user.active, user.is_active(), user.account.is_admin), (Some(false), false, true));
        assert_eq!(user.path(), "/-/admin/users/ada");
        assert_eq!(read(r#"{"id": 4, "login": "acme"}"#).active, None);
    }
}
