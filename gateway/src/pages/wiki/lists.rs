//! Lists of a wiki: its pages, and the revisions of one.

use askama::Template;
use axum::http::StatusCode;
use serde::Deserialize;

use super::{Commit, PageHead, WikiPage, api_path, can_write, wiki};
use crate::pages::components::{Listed, Pager, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::layout::Content;
use crate::pages::repositories::{RepositoryVisit, Tab};

const PAGE_SIZE: u64 = 50;

#[derive(Template)]
#[template(path = "wiki/pages.html")]
struct Pages {
    wiki: String,
    pages: Vec<PageHead>,
    clone_url: String,
    can_write: bool,
    pager: Pager,
}

#[derive(Template)]
#[template(path = "wiki/revisions.html")]
struct Revisions<'a> {
    wiki: String,
    page: &'a PageHead,
    commits: Vec<Commit>,
    pager: Pager,
}

#[derive(Deserialize)]
struct FoundRevisions {
    commits: Vec<Commit>,
    count: u64,
}

impl Content for Pages {
    fn title(&self) -> String {
        "Wiki".to_owned()
    }
}

impl Content for Revisions<'_> {
    fn title(&self) -> String {
        format!("Revisions of {} · Wiki", self.page.title)
    }
}

pub(super) async fn pages(at: &RepositoryVisit) -> PageResult {
    let here = &at.visit.shell.here;
    let path = format!("{}/wiki/pages?page={}&limit={PAGE_SIZE}", at.repository.api(), page_number(here));
    let listed = match at.visit.api.list::<PageHead>(&path).await {
        // No page was ever written.
        Err(error) if error.status() == StatusCode::NOT_FOUND => Listed { items: Vec::new(), total: Some(0) },
        listed => listed?,
    };
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    let clone_url = at.repository.clone_url.strip_suffix(".git").map(|url| format!("{url}.wiki.git"));
    let content = Pages {
        wiki: wiki(at),
        pages: listed.items,
        clone_url: clone_url.unwrap_or_default(),
        can_write: can_write(at),
        pager,
    };
    at.page(Tab::Wiki, &content)
}

/// `page` is encoded.
pub(super) async fn revisions(at: &RepositoryVisit, page: &str) -> PageResult {
    let here = &at.visit.shell.here;
    let (number, page_path) = (page_number(here), api_path(at, page));
    let path = format!("{}/wiki/revisions/{page}?page={number}&limit={PAGE_SIZE}", at.repository.api());
    let (page, found) =
        tokio::try_join!(at.visit.api.get::<WikiPage>(&page_path), at.visit.api.get::<FoundRevisions>(&path))?;
    let listed = Listed { items: found.commits, total: Some(found.count) };
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    at.page(Tab::Wiki, &Revisions { wiki: wiki(at), page: &page.head, commits: listed.items, pager })
}
