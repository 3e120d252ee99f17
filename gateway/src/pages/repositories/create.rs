//! The form for a new repository.

use askama::Template;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use ferrite_api_types::links::encode;
use serde_json::{Value, json};

use crate::pages::components::parameter;
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, Form, FormToken};
use crate::pages::layout::{Content, with_status};
use crate::pages::view::Organization;
use crate::pages::visit::Visit;

/// Organizations that a form offers as owners.
const MAX_ORGANIZATIONS: u64 = 100;

#[derive(Template)]
#[template(path = "repository/create.html")]
struct NewRepository<'a> {
    token: FormToken,
    viewer: &'a str,
    organizations: Vec<Organization>,
    owner: &'a str,
    fields: &'a Fields,
    error: &'a str,
}

impl Content for NewRepository<'_> {
    fn title(&self) -> String {
        "New repository".to_owned()
    }
}

pub(super) async fn show(visit: Visit) -> PageResult {
    let owner = parameter(&visit.shell.here, "owner").unwrap_or_default();
    form(&visit, &owner, &Fields::default(), "").await
}

async fn form(visit: &Visit, owner: &str, fields: &Fields, error: &str) -> PageResult {
    let viewer = &visit.signed_in()?.login;
    let organizations = own_organizations(visit).await?;
    visit.page(&NewRepository { token: FormToken::of(visit), viewer, organizations, owner, fields, error })
}

pub(super) async fn create(Form { visit, fields }: Form) -> PageResult {
    let (text, owner) = (|name| fields.text(name).trim(), fields.text("owner"));
    let body = json!({
        "name": text("name"), "description": text("description"), "private": fields.is_checked("private"),
        "auto_init": fields.is_checked("auto_init"), "gitignores": text("gitignores"), "license": text("license"),
        "default_branch": text("default_branch"),
    });
    let path = match visit.signed_in()?.login == owner {
        true => "user/repos".to_owned(),
        false => format!("orgs/{}/repos", encode(owner.as_bytes())),
    };
    match visit.api.change(Method::POST, &path, Some(body)).await {
        Ok(made) => Ok(to_repository(&visit, &made)),
        Err(error) => {
            let message = error.mistake()?;
            let page = form(&visit, owner, &fields, &message).await?;
            Ok(with_status(StatusCode::UNPROCESSABLE_ENTITY, page))
        }
    }
}

/// The organizations of the visitor, as possible owners of something new.
pub(super) async fn own_organizations(visit: &Visit) -> PageResult<Vec<Organization>> {
    let listed = visit.api.list(&format!("user/orgs?limit={MAX_ORGANIZATIONS}")).await?;
    Ok(listed.items)
}

/// Goes to a repository that the API just responded with.
pub(super) fn to_repository(visit: &Visit, made: &Value) -> Response {
    visit.redirect(&format!("/{}", made["full_name"].as_str().unwrap_or_default()))
}
