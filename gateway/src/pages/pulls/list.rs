//! The pull requests of a repository.

use askama::Template;
use serde_json::Value;

use super::parse;
use crate::http::error::ApiError;
use crate::pages::components::{Pager, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::issues::list::{PAGE_SIZE, Tabs, count, pulls, states};
use crate::pages::issues::view::Issue;
use crate::pages::layout::Content;
use crate::pages::repositories::{RepositoryVisit, Tab};

/// A list without filters.
#[derive(Template)]
#[template(path = "pulls/list.html")]
struct PlainList {
    repository: String,
    tabs: Tabs,
    issues: Vec<Issue>,
    shows_repository: bool,
    pager: Pager,
}

impl Content for PlainList {
    fn title(&self) -> String {
        "Pull requests".to_owned()
    }
}

pub(super) async fn list(at: RepositoryVisit) -> PageResult {
    if at.repository.has_issues { pulls(&at).await } else { plain(&at).await }
}

/// The list of a repository without issues, whose pull requests the API cannot search.
async fn plain(at: &RepositoryVisit) -> PageResult {
    let (api, here, repository) = (&at.visit.api, &at.visit.shell.here, at.repository.api());
    let (shown, other) = states(here);
    let path = format!("{repository}/pulls?state={shown}&page={}&limit={PAGE_SIZE}", page_number(here));
    let other_path = format!("{repository}/pulls?state={other}&limit=1");
    let (found, other) = tokio::try_join!(api.list::<Value>(&path), count(api, &other_path))?;
    let (pager, total) = (Pager::of(here, PAGE_SIZE, &found), found.total);
    let issues = found.items.into_iter().map(|value| Ok(parse(value, &at.repository)?.1));
    let issues = issues.collect::<serde_json::Result<Vec<_>>>().map_err(|error| {
        tracing::error!("a page cannot read pull requests: {error}");
        ApiError::internal()
    })?;
    let content = PlainList {
        repository: at.repository.path(),
        tabs: Tabs::new(here, total, other),
        issues,
        shows_repository: false,
        pager,
    };
    at.page(Tab::Pulls, &content)
}
