//! The profile of a user.

use askama::Template;
use axum::http::Method;
use serde::Deserialize;

use super::{ACTIVITIES_PER_PAGE, MAX_ORGANIZATIONS, PEOPLE_PER_PAGE, REPOSITORIES_PER_PAGE, repositories_of, website};
use crate::pages::atom::{self, ENDING, MAX_ENTRIES};
use crate::pages::components::{Listed, Pager, Time, filters, page_number, parameter};
use crate::pages::error::PageResult;
use crate::pages::form::{Form, FormToken};
use crate::pages::layout::Content;
use crate::pages::view::activities::Activity;
use crate::pages::view::{Account, Organization, Repository};
use crate::pages::visit::Visit;

/// A user, with what they say about themselves, and what only administrators see of one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct User {
    #[serde(flatten)]
    account: Account,
    website: String,
    location: String,
    description: String,
    created: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tab {
    Repositories,
    Activity,
    Stars,
    Followers,
    Following,
}

enum Entries {
    Repositories(Vec<Repository>),
    Activities(Vec<Activity>),
    People(Vec<Account>),
}

#[derive(Template)]
#[template(path = "accounts/user.html")]
struct Profile<'a> {
    user: &'a User,
    website: Option<&'a str>,
    organizations: Vec<Organization>,
    /// Whether the visitor follows the user; `None` if the visitor cannot.
    follows: Option<bool>,
    token: FormToken,
    tab: Tab,
    query: String,
    entries: Entries,
    pager: Pager,
    is_own: bool,
}

impl Content for Profile<'_> {
    fn title(&self) -> String {
        self.user.account.name().to_owned()
    }

    fn feed(&self) -> Option<String> {
        Some(format!("/{}{ENDING}", self.user.account.login))
    }
}

impl Tab {
    const ALL: [Self; 5] = [Self::Repositories, Self::Activity, Self::Stars, Self::Followers, Self::Following];

    fn of(here: &str) -> Self {
        let word = parameter(here, "tab").unwrap_or_default();
        Self::ALL.into_iter().find(|tab| tab.word() == word).unwrap_or(Self::Repositories)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Repositories => "repositories",
            Self::Activity => "activity",
            Self::Stars => "stars",
            Self::Followers => "followers",
            Self::Following => "following",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Repositories => "Repositories",
            Self::Activity => "Activity",
            Self::Stars => "Stars",
            Self::Followers => "Followers",
            Self::Following => "Following",
        }
    }

    /// What an empty tab says.
    fn empty(self) -> &'static str {
        match self {
            Self::Repositories => "There are no repositories that you can see.",
            Self::Activity => "There is no activity of the last days that you can see.",
            Self::Stars => "There are no starred repositories that you can see.",
            Self::Followers => "There are no followers yet.",
            Self::Following => "No users are followed yet.",
        }
    }
}

impl Entries {
    fn is_empty(&self) -> bool {
        match self {
            Self::Repositories(repositories) => repositories.is_empty(),
            Self::Activities(activities) => activities.is_empty(),
            Self::People(people) => people.is_empty(),
        }
    }
}

pub(super) async fn show(visit: Visit, user: User) -> PageResult {
    let (here, name) = (&visit.shell.here, &user.account.login);
    let tab = Tab::of(here);
    let organizations = format!("users/{name}/orgs?limit={MAX_ORGANIZATIONS}");
    let ((entries, pager), organizations, follows) = tokio::try_join!(
        entries(&visit, &user.account, tab),
        visit.api.list::<Organization>(&organizations),
        follows(&visit, &user.account)
    )?;
    visit.page(&Profile {
        website: website(&user.website),
        organizations: organizations.items,
        follows,
        token: FormToken::of(&visit),
        tab,
        query: parameter(here, "q").unwrap_or_default(),
        entries,
        pager,
        is_own: visit.shell.viewer.as_ref().is_some_and(|viewer| viewer.id == user.account.id),
        user: &user,
    })
}

async fn entries(visit: &Visit, account: &Account, tab: Tab) -> PageResult<(Entries, Pager)> {
    let (here, name) = (&visit.shell.here, &account.login);
    let number = page_number(here);
    match tab {
        Tab::Repositories => {
            let found = repositories_of(visit, account.id).await?;
            let pager = Pager::of(here, REPOSITORIES_PER_PAGE, &found);
            Ok((Entries::Repositories(found.items), pager))
        }
        Tab::Activity => {
            let listed = activities(visit, name, number, ACTIVITIES_PER_PAGE).await?;
            let pager = Pager::of(here, ACTIVITIES_PER_PAGE, &listed);
            Ok((Entries::Activities(listed.items), pager))
        }
        Tab::Stars => {
            let path = format!("users/{name}/starred?page={number}&limit={REPOSITORIES_PER_PAGE}");
            let listed = visit.api.list(&path).await?;
            let pager = Pager::of(here, REPOSITORIES_PER_PAGE, &listed);
            Ok((Entries::Repositories(listed.items), pager))
        }
        Tab::Followers | Tab::Following => {
            let path = format!("users/{name}/{}?page={number}&limit={PEOPLE_PER_PAGE}", tab.word());
            let listed = visit.api.list(&path).await?;
            let pager = Pager::of(here, PEOPLE_PER_PAGE, &listed);
            Ok((Entries::People(listed.items), pager))
        }
    }
}

/// Reads what a user did.
async fn activities(visit: &Visit, name: &str, number: u64, size: u64) -> PageResult<Listed<Activity>> {
    let path = format!("users/{name}/activities/feeds?only-performed-by=true&page={number}&limit={size}");
    visit.api.list(&path).await
}

/// `/{user}.atom`: what the user did.
pub(super) async fn feed(visit: &Visit, name: &str) -> PageResult {
    let listed = activities(visit, name, 1, MAX_ENTRIES as u64).await?;
    atom::activities(visit, &format!("Activity of {name}"), &format!("/{name}"), listed.items)
}

async fn follows(visit: &Visit, account: &Account) -> PageResult<Option<bool>> {
    match &visit.shell.viewer {
        Some(viewer) if viewer.id != account.id => {
            visit.api.exists(&format!("user/following/{}", account.login)).await.map(Some)
        }
        _ => Ok(None),
    }
}

/// Follows a user, or ends that.
pub(super) async fn follow(Form { visit, fields }: Form) -> PageResult {
    let (name, is_end) = (visit.segment(0), fields.text("action") == "unfollow");
    let method = if is_end { Method::DELETE } else { Method::PUT };
    visit.api.change(method, &format!("user/following/{name}"), None).await?;
    Ok(visit.redirect(&format!("/{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_tab_is_the_first_one() {
        for (here, tab) in
            [("/ada", Tab::Repositories), ("/ada?tab=stars", Tab::Stars), ("/ada?tab=x&page=2", Tab::Repositories)]
        {
            assert_eq!(Tab::of(here), tab, "{here}");
        }
    }

    #[test]
    fn a_user_is_read_with_and_without_details() {
        let read = |text: &str| serde_json::from_str::<User>(text).unwrap();
        let user = read(r#"{"id": 3, "login": "ada", "username": "ada", "full_name": "", "visibility": "public"}"#);
        assert_eq!((user.account.name(), user.created.is_none()), ("ada", true));
        let details = r#"{"id": 3, "login": "ada", "website": "https://h", "created": "2026-01-02T03:04:05Z"}"#;
        assert!(read(details).created.is_some());
    }
}
