//! The SSH keys of a user.

use askama::Template;
use axum::http::Method;
use ferrite_api_types::links::encode;
use serde::Deserialize;
use serde_json::json;

use super::users::{UserHead, UserTab, find};
use super::{AdministratorForm, AdministratorVisit, Part};
use crate::pages::components::{Listed, Pager, Time, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, FormToken};
use crate::pages::layout::Content;
use crate::pages::visit::Visit;

const PAGE_SIZE: u64 = 50;

#[derive(Clone, Debug, Deserialize)]
struct Key {
    id: i64,
    title: String,
    fingerprint: String,
    created_at: Time,
}

#[derive(Template)]
#[template(path = "administration/public_keys.html")]
struct Keys<'a> {
    head: UserHead,
    keys: Vec<Key>,
    pager: Pager,
    fields: &'a Fields,
    token: FormToken,
}

impl Content for Keys<'_> {
    fn title(&self) -> String {
        format!("SSH keys of {}", self.head.name)
    }
}

pub(super) async fn show(AdministratorVisit(visit): AdministratorVisit) -> PageResult {
    page(&visit, &Fields::default(), "").await
}

async fn page(visit: &Visit, fields: &Fields, error: &str) -> PageResult {
    let here = &visit.shell.here;
    let path = format!("users/{}/keys?page={}&limit={PAGE_SIZE}", visit.segment(3), page_number(here));
    let (user, listed): (_, Listed<Key>) = tokio::try_join!(find(visit), visit.api.list(&path))?;
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    let head = UserHead::new(&user.account.login, UserTab::PublicKeys);
    let content = Keys { head, keys: listed.items, pager, fields, token: FormToken::of(visit) };
    Part::Users.page(visit, &content, error)
}

/// Adds or removes a key.
pub(super) async fn change(AdministratorForm { visit, fields }: AdministratorForm) -> PageResult {
    let keys = format!("admin/users/{}/keys", visit.segment(3));
    let changed = match fields.text("action") {
        "remove" => {
            let path = format!("{keys}/{}", encode(fields.text("id").as_bytes()));
            visit.api.change(Method::DELETE, &path, None).await
        }
        _ => {
            let body = json!({"title": fields.text("title").trim(), "key": fields.text("key").trim()});
            visit.api.change(Method::POST, &keys, Some(body)).await
        }
    };
    match changed {
        Ok(_) => Ok(visit.redirect(&UserHead::new(&visit.name(3), UserTab::PublicKeys).path())),
        Err(error) => page(&visit, &fields, &error.mistake()?).await,
    }
}
