//! Lists of a wiki: its pages, and the revisions of one.

use askama::Template;
use axum::http::StatusCode;
use serde::Deserialize;

use super::{Commit, PageHead, WikiPage, WikiVisit};
use crate::pages::components::{Listed, Pager, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::layout::Content;

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

pub(super) async fn pages(wiki: &WikiVisit) -> PageResult {
    let visit = wiki.visit();
    let (here, site) = (&visit.shell.here, &visit.shell.site);
    let path = wiki.api(&format!("pages?page={}&limit={PAGE_SIZE}", page_number(here)));
    let listed = match visit.api.list::<PageHead>(&path).await {
        // No page was ever written. A public wiki without pages is hidden with its repository.
        Err(error) if error.status() == StatusCode::NOT_FOUND && wiki.repository().is_some() => {
            Listed { items: Vec::new(), total: Some(0) }
        }
        listed => listed?,
    };
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    let content = Pages {
        wiki: wiki.path(),
        pages: listed.items,
        clone_url: format!("{}{}/{}.wiki.git", site.origin, site.root, wiki.full_name()),
        can_write: wiki.can_write(),
        pager,
    };
    wiki.page(&content)
}

/// `page` is encoded.
pub(super) async fn revisions(wiki: &WikiVisit, page: &str) -> PageResult {
    let (api, here) = (&wiki.visit().api, &wiki.visit().shell.here);
    let page_path = wiki.api(&format!("page/{page}"));
    let path = wiki.api(&format!("revisions/{page}?page={}&limit={PAGE_SIZE}", page_number(here)));
    let (page, found) = tokio::try_join!(api.get::<WikiPage>(&page_path), api.get::<FoundRevisions>(&path))?;
    let listed = Listed { items: found.commits, total: Some(found.count) };
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    wiki.page(&Revisions { wiki: wiki.path(), page: &page.head, commits: listed.items, pager })
}
