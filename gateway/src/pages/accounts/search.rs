//! Search of the site, and lists of all users and organizations.

use askama::Template;
use ferrite_api_types::links::encode;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{PEOPLE_PER_PAGE, REPOSITORIES_PER_PAGE};
use crate::pages::components::{Count, Listed, Pager, Time, filters, page_number, parameter, with_parameter};
use crate::pages::error::PageResult;
use crate::pages::front::Explore;
use crate::pages::layout::Content;
use crate::pages::view::{Account, Organization, Repository};
use crate::pages::visit::Visit;

const ISSUES_PER_PAGE: u64 = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Repositories,
    Users,
    Issues,
}

#[derive(Clone, Debug, Deserialize)]
struct FoundIssue {
    number: i64,
    title: String,
    state: String,
    comments: u64,
    created_at: Time,
    user: Account,
    repository: RepositoryName,
    #[serde(default)]
    pull_request: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Deserialize)]
struct RepositoryName {
    full_name: String,
}

enum Entries {
    Repositories(Vec<Repository>),
    People(Vec<Account>),
    Issues(Vec<FoundIssue>),
    /// Only users who are signed in can search this.
    SignIn,
    /// Nothing was typed, and the list of everything is not shown.
    NoQuery,
}

#[derive(Template)]
#[template(path = "accounts/search.html")]
struct Search<'a> {
    here: &'a str,
    sign_in: String,
    kind: Kind,
    query: String,
    total: Option<u64>,
    entries: Entries,
    pager: Pager,
}

#[derive(Template)]
#[template(path = "accounts/explore.html")]
struct ExplorePage {
    explore: Explore,
    heading: &'static str,
    query: String,
    people: Vec<Account>,
    pager: Pager,
}

impl Content for Search<'_> {
    fn title(&self) -> String {
        if self.query.is_empty() { "Search".to_owned() } else { format!("Search: {}", self.query) }
    }
}

impl Content for ExplorePage {
    fn title(&self) -> String {
        self.heading.to_owned()
    }
}

impl Kind {
    const ALL: [Self; 3] = [Self::Repositories, Self::Users, Self::Issues];

    fn of(here: &str) -> Self {
        let word = parameter(here, "type").unwrap_or_default();
        Self::ALL.into_iter().find(|kind| kind.word() == word).unwrap_or(Self::Repositories)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Repositories => "repositories",
            Self::Users => "users",
            Self::Issues => "issues",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Repositories => "Repositories",
            Self::Users => "Users and organizations",
            Self::Issues => "Issues and pull requests",
        }
    }

    /// The same search of another kind, from its first page.
    fn link(self, here: &str) -> String {
        with_parameter(&with_parameter(here, "page", ""), "type", self.word())
    }
}

impl FoundIssue {
    fn is_pull(&self) -> bool {
        self.pull_request.is_some()
    }

    fn is_open(&self) -> bool {
        self.state == "open"
    }

    fn comments(&self) -> Count<'static> {
        Count(self.comments, "comment")
    }

    fn path(&self) -> String {
        let page = if self.is_pull() { "pulls" } else { "issues" };
        format!("/{}/{page}/{}", self.repository.full_name, self.number)
    }
}

impl Entries {
    fn is_empty(&self) -> bool {
        match self {
            Self::Repositories(repositories) => repositories.is_empty(),
            Self::People(people) => people.is_empty(),
            Self::Issues(issues) => issues.is_empty(),
            Self::SignIn | Self::NoQuery => false,
        }
    }
}

impl Search<'_> {
    fn found(&self) -> String {
        self.total.map_or_else(String::new, |total| Count(total, "result").to_string())
    }
}

pub(super) async fn search(visit: Visit) -> PageResult {
    let here = visit.shell.here.as_str();
    let (kind, query) = (Kind::of(here), parameter(here, "q").unwrap_or_default());
    let (encoded, number) = (encode(query.as_bytes()), page_number(here));
    let (entries, total, pager) = match kind {
        Kind::Repositories => {
            let path = format!("repos/search?q={encoded}&page={number}&limit={REPOSITORIES_PER_PAGE}");
            shown(here, REPOSITORIES_PER_PAGE, visit.api.search(&path).await?, Entries::Repositories)
        }
        // The API finds no users without a text.
        Kind::Users if query.is_empty() => (Entries::NoQuery, None, Pager::default()),
        Kind::Users => {
            let found = visit.api.search(&users_path(&encoded, number)).await?;
            shown(here, PEOPLE_PER_PAGE, found, Entries::People)
        }
        Kind::Issues if visit.shell.viewer.is_none() => (Entries::SignIn, None, Pager::default()),
        Kind::Issues => {
            let path = format!("repos/issues/search?q={encoded}&state=all&page={number}&limit={ISSUES_PER_PAGE}");
            shown(here, ISSUES_PER_PAGE, visit.api.list(&path).await?, Entries::Issues)
        }
    };
    visit.page(&Search { here, sign_in: visit.shell.sign_in(), kind, query, total, entries, pager })
}

fn shown<T>(here: &str, size: u64, listed: Listed<T>, entries: fn(Vec<T>) -> Entries) -> (Entries, Option<u64>, Pager) {
    let pager = Pager::of(here, size, &listed);
    (entries(listed.items), listed.total, pager)
}

fn users_path(encoded: &str, number: u64) -> String {
    format!("users/search?q={encoded}&page={number}&limit={PEOPLE_PER_PAGE}")
}

pub(super) async fn users(visit: Visit) -> PageResult {
    let here = visit.shell.here.as_str();
    let query = parameter(here, "q").unwrap_or_default();
    let found = match query.is_empty() {
        true => Listed { items: Vec::new(), total: Some(0) },
        false => visit.api.search(&users_path(&encode(query.as_bytes()), page_number(here))).await?,
    };
    let pager = Pager::of(here, PEOPLE_PER_PAGE, &found);
    visit.page(&ExplorePage { explore: Explore::Users, heading: "Users", query, people: found.items, pager })
}

/// Only users who are signed in can list organizations.
pub(super) async fn organizations(visit: Visit) -> PageResult {
    visit.signed_in()?;
    let here = visit.shell.here.as_str();
    let path = format!("orgs?page={}&limit={PEOPLE_PER_PAGE}", page_number(here));
    let listed = visit.api.list::<Organization>(&path).await?;
    let pager = Pager::of(here, PEOPLE_PER_PAGE, &listed);
    let people = listed.items.into_iter().map(Account::from).collect();
    let (explore, heading) = (Explore::Organizations, "Organizations");
    visit.page(&ExplorePage { explore, heading, query: String::new(), people, pager })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_kind_begins_at_its_first_page() {
        let here = "/search?q=a&page=3&type=issues";
        assert_eq!(Kind::of(here), Kind::Issues);
        assert_eq!(Kind::Users.link(here), "/search?q=a&type=users");
        assert_eq!(Kind::of("/search?type=x"), Kind::Repositories);
    }

    #[test]
    fn a_pull_request_has_another_path_than_an_issue() {
        let read = |more: &str| {
            let text = format!(
                r#"{{"number": 7, "title": "T", "state": "open", "comments": 0, "user": {{"id": 1, "login": "ada"}},
                "created_at": "2026-01-02T03:04:05Z", "repository": {{"full_name": "ada/demo"}}{more}}}"#
            );
            serde_json::from_str::<FoundIssue>(&text).unwrap().path()
        };
        assert_eq!(read(""), "/ada/demo/issues/7");
        assert_eq!(read(r#", "pull_request": {"merged": false}"#), "/ada/demo/pulls/7");
    }
}
