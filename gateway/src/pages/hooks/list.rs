//! The list of webhooks, and the question before one is deleted.

use askama::Template;
use axum::http::Method;

use super::view::{Hook, KINDS, Kind};
use super::{HooksForm, HooksVisit, Owner};
use crate::pages::components::{Listed, Pager, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::form::FormToken;
use crate::pages::layout::Content;

const PAGE_SIZE: u64 = 30;

#[derive(Template)]
#[template(path = "hooks/list.html")]
struct ListPage {
    hooks: String,
    /// Which events the webhooks get.
    range: &'static str,
    listed: Vec<Hook>,
    kinds: &'static [Kind],
    can_change: bool,
    pager: Pager,
}

#[derive(Template)]
#[template(path = "hooks/delete.html")]
struct DeletePage {
    hooks: String,
    hook: Hook,
    token: FormToken,
}

impl Content for ListPage {
    fn title(&self) -> String {
        "Webhooks".to_owned()
    }
}

impl Content for DeletePage {
    fn title(&self) -> String {
        "Delete webhook".to_owned()
    }
}

pub(super) async fn list(at: HooksVisit) -> PageResult {
    let here = &at.visit().shell.here;
    let path = format!("{}?page={}&limit={PAGE_SIZE}", at.api(), page_number(here));
    let listed: Listed<Hook> = at.visit().api.list(&path).await?;
    let range = match &at.owner {
        Owner::Repository(_) => "this repository",
        Owner::Organization(_) => "all repositories of this organization",
        Owner::Site(_) => "all repositories of this site",
    };
    at.page(&ListPage {
        hooks: at.hooks(),
        range,
        pager: Pager::of(here, PAGE_SIZE, &listed),
        listed: listed.items,
        kinds: &KINDS,
        can_change: at.can_change(),
    })
}

pub(super) async fn ask_to_delete(at: HooksVisit) -> PageResult {
    let hook = at.hook().await?;
    at.page(&DeletePage { hooks: at.hooks(), hook, token: FormToken::of(at.visit()) })
}

pub(super) async fn delete(HooksForm { at, .. }: HooksForm) -> PageResult {
    at.visit().api.change(Method::DELETE, &format!("{}/{}", at.api(), at.id()?), None).await?;
    Ok(at.see(""))
}
