//! The git stores: their use and state, their weights, new ones, and their removal.

use askama::Template;
use axum::http::Method;
use ferrite_api_types::links::encode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{AdministratorForm, AdministratorVisit, Part};
use crate::pages::components::{Bytes, Count, Listed, Pager, Time, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, FormToken};
use crate::pages::layout::Content;
use crate::pages::visit::Visit;

const PAGE_SIZE: u64 = 50;
const NOT_NAMED: &str = "Type the name of the store to remove it.";

#[derive(Clone, Debug, Deserialize)]
struct Store {
    name: String,
    weight: i64,
    repositories: u64,
    reachable: bool,
    free_bytes: Option<u64>,
    total_bytes: Option<u64>,
    last_seen_at: Option<Time>,
    created_at: Time,
}

#[derive(Template)]
#[template(path = "administration/stores.html")]
struct Stores<'a> {
    path: String,
    stores: Vec<Store>,
    pager: Pager,
    fields: &'a Fields,
    token: FormToken,
}

#[derive(Template)]
#[template(path = "administration/store_removal.html")]
struct Removal {
    /// The path of the list.
    path: String,
    name: String,
    action: String,
    token: FormToken,
}

impl Content for Stores<'_> {
    fn title(&self) -> String {
        "Stores".to_owned()
    }
}

impl Content for Removal {
    fn title(&self) -> String {
        format!("Remove the store {}", self.name)
    }
}

impl Store {
    fn repositories(&self) -> String {
        Count(self.repositories, "repository").to_string()
    }

    /// How much of the disk is free; empty if that is not known.
    fn space(&self) -> String {
        match (self.free_bytes, self.total_bytes) {
            (Some(free), Some(total)) => format!("{} of {} free", Bytes(free), Bytes(total)),
            _ => String::new(),
        }
    }
}

pub(super) async fn list(AdministratorVisit(visit): AdministratorVisit) -> PageResult {
    page(&visit, &Fields::default(), "").await
}

async fn page(visit: &Visit, fields: &Fields, error: &str) -> PageResult {
    let here = &visit.shell.here;
    let listed: Listed<Store> =
        visit.api.list(&format!("admin/stores?page={}&limit={PAGE_SIZE}", page_number(here))).await?;
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    let content =
        Stores { path: Part::Stores.path(), stores: listed.items, pager, fields, token: FormToken::of(visit) };
    Part::Stores.page(visit, &content, error)
}

/// Adds a store, or changes the weight of one.
pub(super) async fn change(AdministratorForm { visit, fields }: AdministratorForm) -> PageResult {
    let is_new = fields.text("action") == "add";
    let path = format!("admin/stores/{}", encode(fields.text("name").trim().as_bytes()));
    let method = if is_new { Method::PUT } else { Method::PATCH };
    match visit.api.change(method, &path, Some(weight(fields.text("weight")))).await {
        Ok(_) => Ok(visit.redirect(&Part::Stores.path())),
        Err(error) => {
            let message = error.mistake()?;
            // Only the fields of a new store are shown again.
            let typed = if is_new { fields } else { Fields::default() };
            page(&visit, &typed, &message).await
        }
    }
}

/// The request for a weight; without one the API chooses it. It refuses other texts than numbers.
fn weight(text: &str) -> Value {
    match text.trim() {
        "" => json!({}),
        text => json!({"weight": text.parse::<i64>().map_or_else(|_| text.into(), Value::from)}),
    }
}

pub(super) async fn ask_to_delete(AdministratorVisit(visit): AdministratorVisit) -> PageResult {
    removal(&visit, "")
}

fn removal(visit: &Visit, error: &str) -> PageResult {
    let path = Part::Stores.path();
    let action = format!("{path}/{}/delete", visit.segment(3));
    Part::Stores.page(visit, &Removal { path, name: visit.name(3), action, token: FormToken::of(visit) }, error)
}

pub(super) async fn delete(AdministratorForm { visit, fields }: AdministratorForm) -> PageResult {
    if fields.text("name").trim() != visit.name(3) {
        return removal(&visit, NOT_NAMED);
    }
    match visit.api.change(Method::DELETE, &format!("admin/stores/{}", visit.segment(3)), None).await {
        Ok(_) => Ok(visit.redirect(&Part::Stores.path())),
        Err(error) => removal(&visit, &error.mistake()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_has_a_weight_and_a_disk() {
        assert_eq!((weight(" "), weight("5"), weight("x")), (json!({}), json!({"weight": 5}), json!({"weight": "x"})));
        let text = r#"{"name": "a", "weight": 1, "repositories": 1, "reachable": true, "free_bytes": 1024,
            "total_bytes": 2048, "last_seen_at": null, "created_at": "2026-01-02T03:04:05Z"}"#;
        let store: Store = serde_json::from_str(text).unwrap();
        assert_eq!((store.space(), store.repositories()), ("1.0 KiB of 2.0 KiB free".into(), "1 repository".into()));
        assert_eq!(Store { free_bytes: None, ..store }.space(), "");
    }
}
