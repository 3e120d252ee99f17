//! The issues of a repository, and its pull requests.

use askama::Template;
use ferrite_api_types::links::encode;

use super::view::{Choice, Issue, Milestone, can_comment};
use crate::pages::client::Client;
use crate::pages::components::{Listed, Pager, filters, page_number, parameter, with_parameter};
use crate::pages::error::PageResult;
use crate::pages::layout::Content;
use crate::pages::repositories::{RepositoryVisit, Tab};
use crate::pages::view::Label;

pub(super) const PAGE_SIZE: u64 = 25;
/// Labels and milestones to filter by; others work in links.
const MAX_CHOICES: u32 = 100;
/// Orders as links name them, in words, and as the API takes them. The first is the usual one.
const ORDERS: [(&str, &str, &str); 6] = [
    ("newest", "Newest", "sort=created&direction=desc"),
    ("oldest", "Oldest", "sort=created&direction=asc"),
    ("recentupdate", "Recently updated", "sort=updated&direction=desc"),
    ("leastupdate", "Least recently updated", "sort=updated&direction=asc"),
    ("mostcomment", "Most comments", "sort=comments&direction=desc"),
    ("leastcomment", "Fewest comments", "sort=comments&direction=asc"),
];
/// Filters that are the API's own.
const FILTERS: [&str; 5] = ["q", "labels", "milestone", "assignee", "creator"];

#[derive(Template)]
#[template(path = "issues/list.html")]
struct List {
    kind: Kind,
    repository: String,
    can_open: bool,
    tabs: Tabs,
    filter: Filter,
    issues: Vec<Issue>,
    shows_repository: bool,
    pager: Pager,
}

/// What a list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Issues,
    Pulls,
}

/// The open and the closed part of a list. Numbers are absent where the API does not count.
pub(super) struct Tabs {
    pub(super) is_open: bool,
    pub(super) open_link: String,
    pub(super) closed_link: String,
    pub(super) open: Option<u64>,
    pub(super) closed: Option<u64>,
}

/// What is in the fields of the filter.
struct Filter {
    query: String,
    labels: Vec<Choice>,
    milestones: Vec<Choice>,
    assignee: String,
    creator: String,
    orders: Vec<Choice>,
    is_active: bool,
}

impl Content for List {
    fn title(&self) -> String {
        self.kind.heading().to_owned()
    }
}

impl Kind {
    /// What labels and milestones are about: pull requests alone while issues are off.
    pub(super) fn of(at: &RepositoryVisit) -> Self {
        if at.repository.has_issues { Self::Issues } else { Self::Pulls }
    }

    pub(super) fn heading(self) -> &'static str {
        match self {
            Self::Issues => "Issues",
            Self::Pulls => "Pull requests",
        }
    }

    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Issues => "issue",
            Self::Pulls => "pull request",
        }
    }

    /// The word of paths, and of the API.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Issues => "issues",
            Self::Pulls => "pulls",
        }
    }

    pub(super) fn icon(self) -> &'static str {
        match self {
            Self::Issues => "issue",
            Self::Pulls => "pull",
        }
    }

    pub(super) fn tab(self) -> Tab {
        match self {
            Self::Issues => Tab::Issues,
            Self::Pulls => Tab::Pulls,
        }
    }
}

impl Tabs {
    /// `here` is path and query of the page, `shown` the number of the part that it shows.
    pub(super) fn new(here: &str, shown: Option<u64>, other: Option<u64>) -> Self {
        let is_open = is_open(here);
        let (open, closed) = if is_open { (shown, other) } else { (other, shown) };
        let first_page = with_parameter(here, "page", "");
        let (open_link, closed_link) =
            (with_parameter(&first_page, "state", ""), with_parameter(&first_page, "state", "closed"));
        Self { is_open, open_link, closed_link, open, closed }
    }
}

/// Returns whether a page shows the open part of a list.
pub(super) fn is_open(here: &str) -> bool {
    parameter(here, "state").as_deref() != Some("closed")
}

/// The words of the API for the shown and the other part of a list.
pub(super) fn states(here: &str) -> (&'static str, &'static str) {
    if is_open(here) { ("open", "closed") } else { ("closed", "open") }
}

pub(super) async fn list(at: RepositoryVisit) -> PageResult {
    page(&at, Kind::Issues).await
}

/// The pull requests of a repository.
pub(in crate::pages) async fn pulls(at: RepositoryVisit) -> PageResult {
    page(&at, Kind::Pulls).await
}

async fn page(at: &RepositoryVisit, kind: Kind) -> PageResult {
    let (api, here, repository) = (&at.visit.api, &at.visit.shell.here, at.repository.api());
    let (shown, other) = states(here);
    let filters = api_filters(here);
    let (page, kinds) = (page_number(here), kind.word());
    let path = format!(
        "{repository}/issues?type={kinds}&state={shown}&page={page}&limit={PAGE_SIZE}&{}{filters}",
        order(here).2
    );
    let other_path = format!("{repository}/issues?type={kinds}&state={other}&limit=1{filters}");
    let labels_path = format!("{repository}/labels?limit={MAX_CHOICES}");
    let milestones_path = format!("{repository}/milestones?state=all&limit={MAX_CHOICES}");
    let (issues, other, labels, milestones) = tokio::try_join!(
        api.list::<Issue>(&path),
        count(api, &other_path),
        api.list::<Label>(&labels_path),
        api.list::<Milestone>(&milestones_path)
    )?;
    let pager = Pager::of(here, PAGE_SIZE, &issues);
    let tabs = Tabs::new(here, issues.total, other);
    let content = List {
        kind,
        repository: at.repository.path(),
        can_open: can_comment(at),
        tabs,
        filter: Filter::new(here, &labels, &milestones),
        issues: issues.items,
        shows_repository: false,
        pager,
    };
    at.page(kind.tab(), &content)
}

/// Returns the number of entries of a list.
pub(super) async fn count(api: &Client, path: &str) -> PageResult<Option<u64>> {
    let listed: Listed<serde_json::Value> = api.list(path).await?;
    Ok(listed.total)
}

/// Returns the filters in the query of a page as a query of the API.
fn api_filters(here: &str) -> String {
    let filter = |name: &&str| {
        let value = parameter(here, name).filter(|value| !value.trim().is_empty())?;
        Some(format!("&{name}={}", encode(value.trim().as_bytes())))
    };
    FILTERS.iter().filter_map(filter).collect()
}

fn order(here: &str) -> (&'static str, &'static str, &'static str) {
    let name = parameter(here, "sort").unwrap_or_default();
    ORDERS.into_iter().find(|(found, ..)| *found == name).unwrap_or(ORDERS[0])
}

impl Filter {
    fn new(here: &str, labels: &Listed<Label>, milestones: &Listed<Milestone>) -> Self {
        let text = |name| parameter(here, name).unwrap_or_default();
        let (label, milestone) = ([text("labels")], [text("milestone")]);
        let labels = labels.items.iter().map(|found| Choice::new(&found.id.to_string(), &found.name, &label));
        let milestones = milestones.items.iter();
        let milestones = milestones.map(|found| Choice::new(&found.id.to_string(), &found.title, &milestone));
        let no_milestone = Choice::new("none", "No milestone", &milestone);
        let order = [order(here).0.to_owned()];
        Self {
            query: text("q"),
            labels: Choice::with_others(labels.collect(), &label),
            milestones: Choice::with_others(std::iter::once(no_milestone).chain(milestones).collect(), &milestone),
            assignee: text("assignee"),
            creator: text("creator"),
            orders: ORDERS.iter().map(|(name, words, _)| Choice::new(name, words, &order)).collect(),
            is_active: !api_filters(here).is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_filters_that_are_set_go_to_the_api() {
        let here = "/a/b/issues?q=+crash%26x&labels=&milestone=none&state=closed&sort=oldest&evil=1";
        assert_eq!(api_filters(here), "&q=crash%26x&milestone=none");
        assert_eq!((states(here), order(here).2), (("closed", "open"), "sort=created&direction=asc"));
        assert_eq!((states("/a"), order("/a?sort=x").0), (("open", "closed"), "newest"));
    }

    #[test]
    fn tabs_keep_the_filters_and_begin_at_the_first_page() {
        let tabs = Tabs::new("/a/b/issues?q=x&page=3&state=closed", Some(2), Some(5));
        assert_eq!((tabs.open_link.as_str(), tabs.open), ("/a/b/issues?q=x", Some(5)));
        assert_eq!((tabs.closed_link.as_str(), tabs.closed), ("/a/b/issues?q=x&state=closed", Some(2)));
    }
}
