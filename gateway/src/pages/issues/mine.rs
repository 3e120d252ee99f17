//! The visitor's issues and pull requests in all repositories.

use askama::Template;
use ferrite_api_types::links::encode;

use super::list::{PAGE_SIZE, Tabs, states};
use super::view::Issue;
use crate::pages::components::{Pager, filters, page_number, parameter, with_parameter};
use crate::pages::error::PageResult;
use crate::pages::layout::Content;
use crate::pages::visit::Visit;

/// The parts of the list: the value in links, the words, and the filter of the API.
const PARTS: [(&str, &str, &str); 3] = [
    ("created_by", "Created", "created"),
    ("assigned", "Assigned", "assigned"),
    ("mentioned", "Mentioned", "mentioned"),
];

#[derive(Template)]
#[template(path = "issues/mine.html")]
struct Mine {
    heading: &'static str,
    parts: Vec<Part>,
    /// The part that is shown, as links name it.
    part: &'static str,
    is_closed: bool,
    query: String,
    tabs: Tabs,
    issues: Vec<Issue>,
    shows_repository: bool,
    pager: Pager,
}

struct Part {
    words: &'static str,
    link: String,
    is_shown: bool,
}

impl Content for Mine {
    fn title(&self) -> String {
        self.heading.to_owned()
    }
}

pub(super) async fn issues(visit: Visit) -> PageResult {
    list(&visit, "Issues", "issues").await
}

pub(super) async fn pulls(visit: Visit) -> PageResult {
    list(&visit, "Pull requests", "pulls").await
}

async fn list(visit: &Visit, heading: &'static str, kind: &'static str) -> PageResult {
    visit.signed_in()?;
    let here = &visit.shell.here;
    let (part, _, filter) = part(here);
    let query = parameter(here, "q").unwrap_or_default();
    let (state, _) = states(here);
    let path = format!(
        "repos/issues/search?type={kind}&{filter}=true&state={state}&q={}&page={}&limit={PAGE_SIZE}",
        encode(query.as_bytes()),
        page_number(here)
    );
    let issues = visit.api.list::<Issue>(&path).await?;
    let pager = Pager::of(here, PAGE_SIZE, &issues);
    let first_page = with_parameter(here, "page", "");
    let parts = PARTS.into_iter().map(|(name, words, _)| Part {
        words,
        link: with_parameter(&first_page, "type", name),
        is_shown: name == part,
    });
    visit.page(&Mine {
        heading,
        parts: parts.collect(),
        part,
        is_closed: state == "closed",
        query,
        tabs: Tabs::new(here, issues.total, None),
        issues: issues.items,
        shows_repository: true,
        pager,
    })
}

fn part(here: &str) -> (&'static str, &'static str, &'static str) {
    let name = parameter(here, "type").unwrap_or_default();
    PARTS.into_iter().find(|(found, ..)| *found == name).unwrap_or(PARTS[0])
}
