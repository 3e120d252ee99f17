//! SSH keys that open one repository.

use askama::Template;
use axum::http::Method;
use ferrite_api_types::links::encode;
use serde::Deserialize;
use serde_json::json;

use super::{Section, administered};
use crate::pages::components::{Listed, Pager, Time, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, Form, FormToken};
use crate::pages::repositories::RepositoryVisit;
use crate::pages::visit::Visit;

const PAGE_SIZE: u64 = 30;

#[derive(Clone, Debug, Deserialize)]
struct DeployKey {
    id: i64,
    title: String,
    fingerprint: String,
    created_at: Time,
    read_only: bool,
}

#[derive(Template)]
#[template(path = "repository_settings/deploy_keys.html")]
struct DeployKeys<'a> {
    token: FormToken,
    path: String,
    keys: Vec<DeployKey>,
    pager: Pager,
    typed: &'a Fields,
    /// Whether the form is for a key that only reads.
    is_read_only: bool,
}

pub(super) async fn show(visit: Visit) -> PageResult {
    let at = administered(visit).await?;
    page(&at, None, "").await
}

/// `typed` are the fields of a key that was not added.
async fn page(at: &RepositoryVisit, typed: Option<&Fields>, error: &str) -> PageResult {
    let here = &at.visit.shell.here;
    let path = format!("{}/keys?page={}&limit={PAGE_SIZE}", at.repository.api(), page_number(here));
    let listed: Listed<DeployKey> = at.visit.api.list(&path).await?;
    let none = Fields::default();
    let content = DeployKeys {
        token: FormToken::of(&at.visit),
        path: Section::DeployKeys.path(&at.repository.path()),
        pager: Pager::of(here, PAGE_SIZE, &listed),
        keys: listed.items,
        typed: typed.unwrap_or(&none),
        is_read_only: typed.is_none_or(|typed| typed.is_checked("read_only")),
    };
    Section::DeployKeys.page(at, &content, error)
}

/// Adds or removes a key.
pub(super) async fn change(Form { visit, fields }: Form) -> PageResult {
    let at = administered(visit).await?;
    let (api, keys) = (&at.visit.api, format!("{}/keys", at.repository.api()));
    let is_removal = fields.text("action") == "remove";
    let changed = if is_removal {
        api.change(Method::DELETE, &format!("{keys}/{}", encode(fields.text("id").as_bytes())), None).await
    } else {
        let body = json!({
            "title": fields.text("title").trim(), "key": fields.text("key").trim(),
            "read_only": fields.is_checked("read_only"),
        });
        api.change(Method::POST, &keys, Some(body)).await
    };
    match changed {
        Ok(_) => Ok(Section::DeployKeys.saved(&at)),
        Err(error) => page(&at, (!is_removal).then_some(&fields), &error.refusal()?).await,
    }
}
