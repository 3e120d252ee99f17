//! The start page, and the lists of all repositories that a visitor can see.

use askama::Template;
use axum::Router;
use axum::routing::get;
use ferrite_api_types::links::encode;

use super::components::{Pager, filters, page_number, parameter};
use super::error::PageResult;
use super::layout::Content;
use super::view::Repository;
use super::view::activities::Activity;
use super::visit::{PagesState, Visit};

const PAGE_SIZE: u64 = 20;
const ACTIVITIES: u64 = 15;

/// The lists of everything that a visitor can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Explore {
    Repositories,
    Users,
    Organizations,
}

#[derive(Template)]
#[template(path = "front.html")]
struct Front {
    heading: &'static str,
    /// `None` for the visitor's own repositories.
    explore: Option<Explore>,
    /// Where the form of the list leads.
    action: &'static str,
    is_signed_in: bool,
    query: String,
    repositories: Vec<Repository>,
    pager: Pager,
    /// What happened lately in the visitor's repositories; on their first page alone.
    activities: Vec<Activity>,
}

impl Explore {
    pub(super) fn is_at(self, other: Self) -> bool {
        self == other
    }
}

impl Content for Front {
    fn title(&self) -> String {
        self.heading.to_owned()
    }
}

pub(super) fn router() -> Router<PagesState> {
    Router::new().route("/", get(home)).route("/explore", get(explore)).route("/explore/repos", get(explore))
}

/// The repositories of the visitor, or those that everybody can see.
async fn home(visit: Visit) -> PageResult {
    match &visit.shell.viewer {
        Some(viewer) => {
            let owner = format!("&uid={}", viewer.id);
            list(&visit, "Your repositories", None, &owner).await
        }
        None => explore(visit).await,
    }
}

async fn explore(visit: Visit) -> PageResult {
    list(&visit, "Repositories", Some(Explore::Repositories), "").await
}

async fn list(visit: &Visit, heading: &'static str, explore: Option<Explore>, filter: &str) -> PageResult {
    let here = &visit.shell.here;
    let query = parameter(here, "q").unwrap_or_default();
    let path = format!(
        "repos/search?q={}&page={}&limit={PAGE_SIZE}&sort=updated&order=desc{filter}",
        encode(query.as_bytes()),
        page_number(here)
    );
    let (found, activities) =
        tokio::join!(visit.api.search::<Repository>(&path), activities(visit, explore.is_none(), &query));
    let found = found?;
    let pager = Pager::of(here, PAGE_SIZE, &found);
    let action = if explore.is_some() { "/explore/repos" } else { "/" };
    let is_signed_in = visit.shell.viewer.is_some();
    visit.page(&Front { heading, explore, action, is_signed_in, query, repositories: found.items, pager, activities })
}

/// A page that fails to learn this is shown without it.
async fn activities(visit: &Visit, is_home: bool, query: &str) -> Vec<Activity> {
    let viewer = visit.shell.viewer.as_ref().filter(|_| is_home && query.is_empty());
    let Some(viewer) = viewer.filter(|_| page_number(&visit.shell.here) == 1) else { return Vec::new() };
    let path = format!("users/{}/activities/feeds?limit={ACTIVITIES}", viewer.login);
    visit.api.list(&path).await.map_or_else(|_| Vec::new(), |listed| listed.items)
}
