//! Forks of a repository, and the form for a new one.

use askama::Template;
use axum::http::{Method, StatusCode};
use serde_json::json;

use super::create::{own_organizations, to_repository};
use super::{RepositoryVisit, Tab};
use crate::pages::components::{Listed, Pager, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, Form, FormToken};
use crate::pages::layout::{Content, with_status};
use crate::pages::view::{Organization, Repository};

const PAGE_SIZE: u64 = 20;

#[derive(Template)]
#[template(path = "repository/forks.html")]
struct Forks {
    repositories: Vec<Repository>,
    pager: Pager,
}

#[derive(Template)]
#[template(path = "repository/fork.html")]
struct NewFork<'a> {
    token: FormToken,
    action: String,
    viewer: &'a str,
    organizations: Vec<Organization>,
    owner: &'a str,
    name: &'a str,
    error: &'a str,
}

impl Content for Forks {
    fn title(&self) -> String {
        "Forks".to_owned()
    }
}

impl Content for NewFork<'_> {
    fn title(&self) -> String {
        "Fork".to_owned()
    }
}

pub(super) async fn show(at: RepositoryVisit) -> PageResult {
    let here = &at.visit.shell.here;
    let path = format!("{}/forks?page={}&limit={PAGE_SIZE}", at.repository.api(), page_number(here));
    let listed: Listed<Repository> = at.visit.api.list(&path).await?;
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    at.page(Tab::Code, &Forks { repositories: listed.items, pager })
}

pub(super) async fn show_form(at: RepositoryVisit) -> PageResult {
    form(&at, &Fields::default(), "").await
}

async fn form(at: &RepositoryVisit, fields: &Fields, error: &str) -> PageResult {
    let viewer = &at.visit.signed_in()?.login;
    let name = match fields.text("name") {
        "" => at.repository.name.as_str(),
        name => name,
    };
    let form = NewFork {
        token: FormToken::of(&at.visit),
        action: format!("{}/fork", at.repository.path()),
        viewer,
        organizations: own_organizations(&at.visit).await?,
        owner: fields.text("owner"),
        name,
        error,
    };
    at.page(Tab::Code, &form)
}

pub(super) async fn create(Form { visit, fields }: Form) -> PageResult {
    // An empty organization means the visitor's own account.
    let owner = fields.text("owner");
    let organization = if visit.signed_in()?.login == owner { "" } else { owner };
    let body = json!({"organization": organization, "name": fields.text("name").trim()});
    let path = format!("repos/{}/{}/forks", visit.segment(0), visit.segment(1));
    match visit.api.change(Method::POST, &path, Some(body)).await {
        Ok(made) => Ok(to_repository(&visit, &made)),
        Err(error) => {
            let message = error.mistake()?;
            let at = RepositoryVisit::of(visit).await?;
            Ok(with_status(StatusCode::UNPROCESSABLE_ENTITY, form(&at, &fields, &message).await?))
        }
    }
}
