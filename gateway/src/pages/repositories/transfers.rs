//! Transfers of repositories that wait for their new owner.

use askama::Template;
use axum::Router;
use axum::http::{Method, StatusCode};
use axum::routing::get;
use ferrite_api_types::links::encode;
use serde::Deserialize;

use super::create::to_repository;
use crate::http::error::ApiError;
use crate::pages::components::{Pager, Time, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::form::{Form, FormToken};
use crate::pages::layout::{Content, with_status};
use crate::pages::view::{Account, Repository};
use crate::pages::visit::{PagesState, Visit};

const PAGE_SIZE: u64 = 30;
const PATH: &str = "/user/transfers";

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Transfer {
    repository: Repository,
    doer: Account,
    pub(super) recipient: Account,
    pub(super) created_at: Time,
    pub(super) expires_at: Time,
}

#[derive(Template)]
#[template(path = "repository/transfers.html")]
struct Transfers<'a> {
    token: FormToken,
    viewer: &'a Account,
    transfers: Vec<Transfer>,
    pager: Pager,
    error: &'a str,
}

impl Content for Transfers<'_> {
    fn title(&self) -> String {
        "Transfers".to_owned()
    }
}

impl Transfer {
    /// Whether the visitor may be the new owner. The organizations that the visitor owns are not known
    /// here, so that a few buttons lead to a refusal of the API.
    fn may_be_received(&self, viewer: &Account) -> bool {
        let is_from_viewer = [&self.doer, &self.repository.owner].iter().any(|from| from.login == viewer.login);
        self.recipient.login == viewer.login || !is_from_viewer
    }

    /// Whether the visitor may be an owner of the repository.
    fn may_be_sent(&self, viewer: &Account) -> bool {
        self.recipient.login != viewer.login && self.repository.permissions.admin
    }
}

pub(super) fn router() -> Router<PagesState> {
    Router::new().route(PATH, get(list).post(answer))
}

/// Lists the transfers from and to the visitor and the organizations that the visitor owns.
async fn list(visit: Visit) -> PageResult {
    page(&visit, "").await
}

async fn page(visit: &Visit, error: &str) -> PageResult {
    let (viewer, here) = (visit.signed_in()?, &visit.shell.here);
    let path = format!("user/transfers?page={}&limit={PAGE_SIZE}", page_number(here));
    let listed = visit.api.list::<Transfer>(&path).await?;
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    let status = if error.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    let content = Transfers { token: FormToken::of(visit), viewer, transfers: listed.items, pager, error };
    Ok(with_status(status, visit.page(&content)?))
}

/// Accepts, rejects or cancels a transfer.
async fn answer(Form { visit, fields }: Form) -> PageResult {
    let (owner, name) = fields.text("repository").split_once('/').unwrap_or_default();
    let path = format!("repos/{}/{}/transfer", encode(owner.as_bytes()), encode(name.as_bytes()));
    let action = fields.text("action");
    let (method, rest) = match action {
        "accept" => (Method::POST, "/accept"),
        "reject" => (Method::POST, "/reject"),
        "cancel" => (Method::DELETE, ""),
        _ => return Err(ApiError::bad_request("the form has no action").into()),
    };
    match visit.api.change(method, &format!("{path}{rest}"), None).await {
        Ok(made) if action == "accept" => Ok(to_repository(&visit, &made)),
        Ok(_) => Ok(visit.redirect(PATH)),
        Err(error) if error.status().is_client_error() && error.status() != StatusCode::UNAUTHORIZED => {
            page(&visit, &error.message()).await
        }
        Err(error) => Err(error),
    }
}
