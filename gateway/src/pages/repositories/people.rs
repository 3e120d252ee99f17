//! Stars and watches of a repository: who starred or watches it, and what the buttons do.

use askama::Template;
use axum::http::Method;
use serde::de::IgnoredAny;

use super::{RepositoryVisit, Tab};
use crate::pages::components::{Listed, Pager, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::form::{Form, FormToken, own_path};
use crate::pages::layout::Content;
use crate::pages::view::Account;
use crate::pages::visit::Visit;

const PAGE_SIZE: u64 = 40;

#[derive(Template)]
#[template(path = "repository/people.html")]
struct People<'a> {
    heading: &'static str,
    /// What an empty list says.
    empty: &'static str,
    /// The button of a visitor with an account, unless the frame has it.
    button: Option<Button<'a>>,
    people: Vec<Account>,
    pager: Pager,
}

struct Button<'a> {
    token: FormToken,
    path: String,
    here: &'a str,
    action: &'static str,
    title: &'static str,
}

impl Content for People<'_> {
    fn title(&self) -> String {
        self.heading.to_owned()
    }
}

pub(super) async fn stars(at: RepositoryVisit) -> PageResult {
    let here = &at.visit.shell.here;
    let path = format!("{}/stargazers?page={}&limit={PAGE_SIZE}", at.repository.api(), page_number(here));
    let listed: Listed<Account> = at.visit.api.list(&path).await?;
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    let empty = "Nobody has starred this repository yet.";
    at.page(Tab::Code, &People { heading: "Stars", empty, button: None, people: listed.items, pager })
}

pub(super) async fn watchers(at: RepositoryVisit) -> PageResult {
    let (here, api) = (&at.visit.shell.here, at.repository.api());
    let path = format!("{api}/subscribers?page={}&limit={PAGE_SIZE}", page_number(here));
    let watch = format!("{api}/subscription");
    let (listed, is_watched) = tokio::try_join!(at.visit.api.list::<Account>(&path), is_watched(&at.visit, &watch))?;
    let button = is_watched.map(|is_watched| {
        let (action, title) = if is_watched { ("unwatch", "Unwatch") } else { ("watch", "Watch") };
        let path = format!("{}/watchers", at.repository.path());
        Button { token: FormToken::of(&at.visit), path, here, action, title }
    });
    let pager = Pager::of(here, PAGE_SIZE, &listed);
    let empty = "Nobody watches this repository yet.";
    at.page(Tab::Code, &People { heading: "Watchers", empty, button, people: listed.items, pager })
}

async fn is_watched(visit: &Visit, path: &str) -> PageResult<Option<bool>> {
    match visit.shell.viewer {
        Some(_) => visit.api.find::<IgnoredAny>(path).await.map(|watch| Some(watch.is_some())),
        None => Ok(None),
    }
}

/// Stars the repository, or takes the star away.
pub(super) async fn star(Form { visit, fields }: Form) -> PageResult {
    let path = format!("user/starred/{}/{}", visit.segment(0), visit.segment(1));
    let method = if fields.text("action") == "unstar" { Method::DELETE } else { Method::PUT };
    visit.api.change(method, &path, None).await?;
    Ok(visit.redirect(own_path(fields.text("redirect_to"))))
}

/// Watches the repository, or ends that.
pub(super) async fn watch(Form { visit, fields }: Form) -> PageResult {
    let path = format!("repos/{}/{}/subscription", visit.segment(0), visit.segment(1));
    let method = if fields.text("action") == "unwatch" { Method::DELETE } else { Method::PUT };
    visit.api.change(method, &path, None).await?;
    Ok(visit.redirect(own_path(fields.text("redirect_to"))))
}
