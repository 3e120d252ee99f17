//! Pages of webhooks. Repositories, organizations and the site have the same ones, in frames of
//! their own.

mod deliveries;
mod edit;
mod events;
mod list;
mod replay;
mod view;

use askama::Template;
use axum::Router;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::CACHE_CONTROL;
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::get;

use self::view::Hook;
use super::accounts::organization_frame::{OrganizationVisit, Tab as OrganizationTab};
use super::error::{PageError, PageResult, render};
use super::form::{Fields, Form};
use super::layout::Content;
use super::repositories::{RepositoryVisit, Tab};
use super::view::{Organization, Repository};
use super::visit::{PagesState, Visit};
use crate::http::caching::NO_STORE;

/// The path of the webhooks of the site. An account cannot have the name `-`.
const OF_SITE: &str = "/-/admin/hooks";

/// Whose webhooks a page is about.
enum Owner {
    Repository(Box<RepositoryVisit>),
    Organization(Box<OrganizationVisit>),
    Site(Box<Visit>),
}

/// A visit of a page of webhooks by a user. The API decides whether they may see them.
struct HooksVisit {
    owner: Owner,
    /// The segments of the path after that of the list, encoded.
    rest: Vec<String>,
}

/// A form that the visitor sent from a page of webhooks.
struct HooksForm {
    at: HooksVisit,
    fields: Fields,
}

/// The pages of one webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HookTab {
    Deliveries,
    Settings,
    Replay,
}

/// The top of the pages of one webhook.
struct Head<'a> {
    hook: &'a Hook,
    /// The path of the list.
    hooks: String,
    tab: HookTab,
}

#[derive(Template)]
#[template(path = "hooks/repository_frame.html")]
struct RepositoryFrame<'a> {
    repository: &'a Repository,
    title: String,
    main: String,
}

#[derive(Template)]
#[template(path = "hooks/organization_frame.html")]
struct OrganizationFrame<'a> {
    organization: &'a Organization,
    title: String,
    main: String,
}

#[derive(Template)]
#[template(path = "hooks/site_frame.html")]
struct SiteFrame {
    title: String,
    main: String,
}

impl Content for RepositoryFrame<'_> {
    fn title(&self) -> String {
        self.title.clone()
    }
}

impl Content for OrganizationFrame<'_> {
    fn title(&self) -> String {
        self.title.clone()
    }
}

impl Content for SiteFrame {
    fn title(&self) -> String {
        format!("{} · Administration", self.title)
    }
}

pub(super) fn router() -> Router<PagesState> {
    let owners = ["/{owner}/{repo}/settings/hooks", "/org/{org}/settings/hooks", OF_SITE];
    owners.into_iter().fold(Router::new(), |router, hooks| {
        let hook = format!("{hooks}/{{hook}}");
        router
            .route(hooks, get(list::list))
            .route(&format!("{hook}/new"), get(edit::new).post(edit::create))
            .route(&hook, get(edit::edit).post(edit::save))
            .route(&format!("{hook}/delete"), get(list::ask_to_delete).post(list::delete))
            .route(&format!("{hook}/deliveries"), get(deliveries::list).post(deliveries::test))
            .route(&format!("{hook}/deliveries/{{delivery}}"), get(deliveries::show).post(deliveries::redeliver))
            .route(&format!("{hook}/replay"), get(replay::show).post(replay::send))
    })
}

impl FromRequestParts<PagesState> for HooksVisit {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &PagesState) -> PageResult<Self> {
        Self::of(Visit::from_request_parts(parts, state).await?).await
    }
}

impl FromRequest<PagesState> for HooksForm {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &PagesState) -> PageResult<Self> {
        let Form { visit, fields } = Form::from_request(request, state).await?;
        Ok(Self { at: HooksVisit::of(visit).await?, fields })
    }
}

impl HooksVisit {
    /// Reads the owner of the path.
    async fn of(visit: Visit) -> PageResult<Self> {
        visit.signed_in()?;
        let path = visit.shell.here.split('?').next().unwrap_or_default();
        let segments: Vec<_> = path.split('/').skip(1).map(str::to_owned).collect();
        let (owner, length) = match segments.first().map(String::as_str) {
            Some("-") => {
                visit.require_administrator()?;
                (Owner::Site(Box::new(visit)), 3)
            }
            Some("org") => (Owner::Organization(Box::new(OrganizationVisit::of(visit).await?)), 4),
            _ => (Owner::Repository(Box::new(RepositoryVisit::of(visit).await?)), 4),
        };
        Ok(Self { owner, rest: segments.into_iter().skip(length).collect() })
    }

    fn visit(&self) -> &Visit {
        match &self.owner {
            Owner::Repository(at) => &at.visit,
            Owner::Organization(at) => &at.visit,
            Owner::Site(visit) => visit,
        }
    }

    /// The path of the list in the API.
    fn api(&self) -> String {
        match &self.owner {
            Owner::Repository(at) => format!("{}/hooks", at.repository.api()),
            Owner::Organization(at) => format!("{}/hooks", at.api()),
            Owner::Site(_) => "admin/hooks".to_owned(),
        }
    }

    /// The path of the page with the list.
    fn hooks(&self) -> String {
        match &self.owner {
            Owner::Repository(at) => format!("{}/settings/hooks", at.repository.path()),
            Owner::Organization(at) => format!("{}/settings/hooks", at.path()),
            Owner::Site(_) => OF_SITE.to_owned(),
        }
    }

    /// Whether the API takes changes. An archived repository keeps its webhooks as they are.
    fn can_change(&self) -> bool {
        match &self.owner {
            Owner::Repository(at) => !at.repository.archived,
            Owner::Organization(_) | Owner::Site(_) => true,
        }
    }

    /// A segment of the path after that of the list, encoded; empty without one.
    fn segment(&self, place: usize) -> &str {
        self.rest.get(place).map_or("", String::as_str)
    }

    /// The id of the webhook in the path.
    fn id(&self) -> PageResult<i64> {
        self.segment(0).parse().ok().filter(|id| *id > 0).ok_or_else(PageError::not_found)
    }

    /// Reads the webhook of the path.
    async fn hook(&self) -> PageResult<Hook> {
        self.visit().api.get(&format!("{}/{}", self.api(), self.id()?)).await
    }

    fn head<'a>(&self, hook: &'a Hook, tab: HookTab) -> Head<'a> {
        Head { hook, hooks: self.hooks(), tab }
    }

    /// Responds with a page in the frame of the owner, which nothing keeps.
    fn page(&self, content: &impl Content) -> PageResult {
        let title = content.title();
        let main = render(content)?;
        let mut response = match &self.owner {
            Owner::Repository(at) => {
                at.page(Tab::Settings, &RepositoryFrame { repository: &at.repository, title, main })?
            }
            Owner::Organization(at) => {
                let frame = OrganizationFrame { organization: &at.organization, title, main };
                at.page(OrganizationTab::Settings, &frame)?
            }
            Owner::Site(visit) => visit.page(&SiteFrame { title, main })?,
        };
        response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
        Ok(response)
    }

    /// Sends the visitor to a page below the list, after a form.
    fn see(&self, rest: &str) -> Response {
        self.visit().redirect(&format!("{}{rest}", self.hooks()))
    }
}
