//! The releases of a repository, and the page of one.

use askama::Template;

use super::{Release, can_write, find};
use crate::pages::components::{Pager, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::layout::Content;
use crate::pages::markdown::render_many;
use crate::pages::repositories::{RepositoryVisit, Tab};

const PAGE_SIZE: u64 = 20;

#[derive(Template)]
#[template(path = "releases/list.html")]
struct ListPage {
    repository: String,
    can_write: bool,
    is_signed_in: bool,
    /// Each with its notes as HTML.
    releases: Vec<(Release, String)>,
    pager: Pager,
}

#[derive(Template)]
#[template(path = "releases/release.html")]
struct ReleasePage {
    repository: String,
    can_write: bool,
    is_signed_in: bool,
    release: Release,
    html: String,
}

impl Content for ListPage {
    fn title(&self) -> String {
        "Releases".to_owned()
    }
}

impl Content for ReleasePage {
    fn title(&self) -> String {
        self.release.title().to_owned()
    }
}

pub(super) async fn list(at: RepositoryVisit) -> PageResult {
    let here = &at.visit.shell.here;
    let path = format!("{}/releases?page={}&limit={PAGE_SIZE}", at.repository.api(), page_number(here));
    let found = at.visit.api.list::<Release>(&path).await?;
    let pager = Pager::of(here, PAGE_SIZE, &found);
    let notes = found.items.iter().map(|release| release.body.clone()).collect();
    let html = render_many(&at.visit, notes, &at.repository.full_name()).await?;
    let releases = found.items.into_iter().zip(html).collect();
    let (repository, can_write, is_signed_in) = facts(&at);
    at.page(Tab::Releases, &ListPage { repository, can_write, is_signed_in, releases, pager })
}

/// Leads to the page of the latest release.
pub(super) async fn latest(at: RepositoryVisit) -> PageResult {
    let release: Release = at.visit.api.get(&format!("{}/releases/latest", at.repository.api())).await?;
    Ok(at.visit.redirect(&format!("{}/releases/tag/{}", at.repository.path(), release.tag())))
}

pub(super) async fn release(at: RepositoryVisit) -> PageResult {
    let release = find(&at, "tag").await?;
    let html = render_many(&at.visit, vec![release.body.clone()], &at.repository.full_name()).await?;
    let html = html.into_iter().next().unwrap_or_default();
    let (repository, can_write, is_signed_in) = facts(&at);
    at.page(Tab::Releases, &ReleasePage { repository, can_write, is_signed_in, release, html })
}

/// What an entry knows of the repository and the visitor: the path, and whether they may write, and
/// have an account.
fn facts(at: &RepositoryVisit) -> (String, bool, bool) {
    (at.repository.path(), can_write(at), at.visit.shell.viewer.is_some())
}
