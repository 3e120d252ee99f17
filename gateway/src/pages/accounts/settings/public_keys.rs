//! The visitor's SSH keys.

use askama::Template;
use axum::http::Method;
use ferrite_api_types::links::encode;
use serde::Deserialize;
use serde_json::json;

use super::Section;
use crate::pages::components::{Listed, Pager, Time, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, Form, FormToken};
use crate::pages::visit::Visit;

const PAGE_SIZE: u64 = 50;

#[derive(Clone, Debug, Deserialize)]
struct Key {
    id: i64,
    title: String,
    fingerprint: String,
    created_at: Time,
    token: Option<KeyToken>,
}

/// The token that limits a key.
#[derive(Clone, Debug, Deserialize)]
struct KeyToken {
    name: String,
}

#[derive(Template)]
#[template(path = "settings/public_keys.html")]
struct Keys<'a> {
    token: FormToken,
    keys: Vec<Key>,
    fields: &'a Fields,
    pager: Pager,
}

pub(super) async fn show(visit: Visit) -> PageResult {
    visit.signed_in()?;
    page(&visit, &Fields::default(), "").await
}

async fn page(visit: &Visit, fields: &Fields, error: &str) -> PageResult {
    let here = &visit.shell.here;
    let listed: Listed<Key> =
        visit.api.list(&format!("user/keys?page={}&limit={PAGE_SIZE}", page_number(here))).await?;
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    Section::PublicKeys.page(visit, &Keys { token: FormToken::of(visit), keys: listed.items, fields, pager }, error)
}

/// Adds or removes a key.
pub(super) async fn change(Form { visit, fields }: Form) -> PageResult {
    let changed = match fields.text("action") {
        "remove" => {
            let path = format!("user/keys/{}", encode(fields.text("id").as_bytes()));
            visit.api.change(Method::DELETE, &path, None).await
        }
        _ => {
            let body = json!({"title": fields.text("title").trim(), "key": fields.text("key").trim()});
            visit.api.change(Method::POST, "user/keys", Some(body)).await
        }
    };
    match changed {
        Ok(_) => Ok(visit.redirect(Section::PublicKeys.path())),
        Err(error) => {
            let message = error.mistake()?;
            page(&visit, &fields, &message).await
        }
    }
}
