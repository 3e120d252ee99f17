//! The commits of a pull request.

use askama::Template;

use super::{Head, PullTab, PullVisit};
use crate::pages::components::{Pager, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::layout::Content;
use crate::pages::view::commits::{Commit, Day};

const PAGE_SIZE: u64 = 50;

#[derive(Template)]
#[template(path = "pulls/commits.html")]
struct CommitsPage<'a> {
    head: Head<'a>,
    title: String,
    days: Vec<Day>,
    pager: Pager,
}

impl Content for CommitsPage<'_> {
    fn title(&self) -> String {
        self.title.clone()
    }
}

pub(super) async fn commits(on: PullVisit) -> PageResult {
    let here = &on.visit().shell.here;
    let page = page_number(here);
    let path = format!("{}/commits?stat=false&files=false&limit={PAGE_SIZE}&page={page}", on.api());
    let found = on.visit().api.list::<Commit>(&path).await?;
    let (pager, count) = (Pager::of(here, PAGE_SIZE, &found), found.total);
    let days = Day::group(found.items, &on.at.repository.path());
    on.page(&CommitsPage {
        head: on.head(PullTab::Commits, count),
        title: format!("Commits of {}", on.title()),
        days,
        pager,
    })
}
