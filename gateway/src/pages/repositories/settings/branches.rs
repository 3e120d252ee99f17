//! The default branch, the rules that protect branches, and new names of branches.

use askama::Template;
use axum::http::Method;
use ferrite_api_types::links::encode_path;
use serde::Deserialize;
use serde_json::json;

use super::protections::{MAX_RULES, Rule};
use super::{Section, administered, missing};
use crate::pages::components::filters;
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, Form, FormToken};
use crate::pages::repositories::RepositoryVisit;
use crate::pages::view::Repository;
use crate::pages::visit::Visit;

/// Branches that the forms offer; others can be typed.
const OFFERED_BRANCHES: u64 = 100;

#[derive(Clone, Debug, Deserialize)]
struct Branch {
    name: String,
}

#[derive(Template)]
#[template(path = "repository_settings/branches.html")]
struct Branches<'a> {
    repository: &'a Repository,
    token: FormToken,
    path: String,
    branches: Vec<Branch>,
    rules: Vec<Rule>,
    /// What was typed to rename a branch.
    typed: &'a Fields,
    default_branch: &'a str,
}

pub(super) async fn show(visit: Visit) -> PageResult {
    let at = administered(visit).await?;
    page(&at, &Fields::default(), "").await
}

async fn page(at: &RepositoryVisit, typed: &Fields, error: &str) -> PageResult {
    let api = at.repository.api();
    let (branches, rules) =
        (format!("{api}/branches?limit={OFFERED_BRANCHES}"), format!("{api}/branch_protections?limit={MAX_RULES}"));
    let (branches, rules) =
        tokio::try_join!(at.visit.api.list::<Branch>(&branches), at.visit.api.list::<Rule>(&rules))?;
    let default_branch = match typed.text("action") {
        "default" => typed.text("default_branch"),
        _ => &at.repository.default_branch,
    };
    let content = Branches {
        repository: &at.repository,
        token: FormToken::of(&at.visit),
        path: Section::Branches.path(&at.repository.path()),
        branches: branches.items,
        rules: rules.items,
        typed,
        default_branch,
    };
    Section::Branches.page(at, &content, error)
}

/// Selects the default branch, or renames a branch.
pub(super) async fn change(Form { visit, fields }: Form) -> PageResult {
    let at = administered(visit).await?;
    let (is_rename, text) = (fields.text("action") == "rename", |name: &str| fields.text(name).trim());
    let required: &[&str] = if is_rename { &["branch", "name"] } else { &["default_branch"] };
    if let Some(field) = required.iter().find(|field| text(field).is_empty()) {
        return page(&at, &fields, &missing(field)).await;
    }
    let api = at.repository.api();
    let (path, body) = match is_rename {
        true => (format!("{api}/branches/{}", encode_path(text("branch").as_bytes())), json!({"name": text("name")})),
        false => (api, json!({"default_branch": text("default_branch")})),
    };
    match at.visit.api.change(Method::PATCH, &path, Some(body)).await {
        Ok(_) => Ok(Section::Branches.saved(&at)),
        Err(error) => page(&at, &fields, &error.refusal()?).await,
    }
}
