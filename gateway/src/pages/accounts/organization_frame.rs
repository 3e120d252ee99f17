//! The frame around the pages of an organization, and what the visitor may do there.

use askama::Template;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::Deserialize;

use super::website;
use crate::http::error::ApiError;
use crate::pages::atom::ENDING;
use crate::pages::components::filters;
use crate::pages::error::{PageError, PageResult, render};
use crate::pages::form::{Fields, Form};
use crate::pages::layout::{Content, with_status};
use crate::pages::view::{Account, Organization};
use crate::pages::visit::{PagesState, Visit};

const OWNER: &str = "admin";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pages) enum Tab {
    Repositories,
    Members,
    Teams,
    Settings,
}

/// The visitor's membership.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Membership {
    role: String,
    public: bool,
}

/// A visit of a page of an organization that the visitor may see.
pub(in crate::pages) struct OrganizationVisit {
    pub(in crate::pages) visit: Visit,
    pub(in crate::pages) organization: Organization,
    membership: Option<Membership>,
}

/// A form that the visitor sent from a page of an organization.
pub(super) struct OrganizationForm {
    pub(super) at: OrganizationVisit,
    pub(super) fields: Fields,
}

#[derive(Template)]
#[template(path = "accounts/organization_frame.html")]
struct Frame<'a> {
    organization: &'a Organization,
    account: Account,
    website: Option<&'a str>,
    sees_teams: bool,
    is_owner: bool,
    tab: Tab,
    title: String,
    main: String,
}

impl Content for Frame<'_> {
    fn title(&self) -> String {
        match self.title.as_str() {
            "" => self.account.name().to_owned(),
            title => format!("{title} · {}", self.account.name()),
        }
    }

    fn feed(&self) -> Option<String> {
        Some(format!("/{}{ENDING}", self.account.login))
    }
}

impl FromRequestParts<PagesState> for OrganizationVisit {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, state: &PagesState) -> PageResult<Self> {
        Self::of(Visit::from_request_parts(parts, state).await?).await
    }
}

impl FromRequest<PagesState> for OrganizationForm {
    type Rejection = PageError;

    async fn from_request(request: Request, state: &PagesState) -> PageResult<Self> {
        let Form { visit, fields } = Form::from_request(request, state).await?;
        Ok(Self { at: OrganizationVisit::of(visit).await?, fields })
    }
}

impl OrganizationVisit {
    /// Reads the organization of `/org/{org}/…`.
    pub(in crate::pages) async fn of(visit: Visit) -> PageResult<Self> {
        let name = visit.segment(1).to_owned();
        let path = format!("orgs/{name}");
        let (organization, membership) = tokio::try_join!(visit.api.get(&path), membership(&visit, &name))?;
        Ok(Self::with(visit, organization, membership))
    }

    /// As [`Self::of`], with what it would read.
    pub(super) fn with(visit: Visit, organization: Organization, membership: Option<Membership>) -> Self {
        Self { visit, organization, membership }
    }

    /// The path of its pages, such as that of its members.
    pub(in crate::pages) fn path(&self) -> String {
        format!("/org/{}", self.organization.username)
    }

    /// The path of its operations in the API.
    pub(in crate::pages) fn api(&self) -> String {
        format!("orgs/{}", self.organization.username)
    }

    fn is_administrator(&self) -> bool {
        self.visit.shell.viewer.as_ref().is_some_and(|viewer| viewer.is_admin)
    }

    pub(super) fn is_member(&self) -> bool {
        self.membership.is_some()
    }

    /// Whether everybody sees the visitor's membership; `None` without one.
    pub(super) fn is_public_member(&self) -> Option<bool> {
        self.membership.as_ref().map(|membership| membership.public)
    }

    /// Whether the visitor has the rights of an owner, as administrators of the site do.
    pub(super) fn is_owner(&self) -> bool {
        self.is_administrator() || self.membership.as_ref().is_some_and(|membership| membership.role == OWNER)
    }

    /// Fails for a visitor without the rights of an owner.
    pub(super) fn require_owner(&self) -> PageResult<()> {
        self.visit.signed_in()?;
        let message = "only owners of the organization can do this";
        if self.is_owner() { Ok(()) } else { Err(ApiError::new(StatusCode::FORBIDDEN, message).into()) }
    }

    /// Whether the visitor has the account of this name.
    pub(super) fn is_own_name(&self, name: &str) -> bool {
        self.visit.shell.viewer.as_ref().is_some_and(|viewer| viewer.login.eq_ignore_ascii_case(name))
    }

    /// Responds with a page below the name of the organization and its tabs. Its title can be empty.
    pub(in crate::pages) fn page(&self, tab: Tab, content: &impl Content) -> PageResult {
        self.visit.page(&Frame {
            account: self.organization.clone().into(),
            website: website(&self.organization.website),
            sees_teams: self.is_administrator() || self.is_member(),
            is_owner: self.is_owner(),
            tab,
            title: content.title(),
            main: render(content)?,
            organization: &self.organization,
        })
    }

    /// As [`Self::page`], for a form. `message` says what is wrong in it, empty if nothing is.
    pub(super) fn form(&self, tab: Tab, content: &impl Content, message: &str) -> PageResult {
        let status = if message.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
        Ok(with_status(status, self.page(tab, content)?))
    }
}

/// Reads the visitor's membership.
pub(super) async fn membership(visit: &Visit, organization: &str) -> PageResult<Option<Membership>> {
    match &visit.shell.viewer {
        Some(viewer) => visit.api.find(&format!("orgs/{organization}/memberships/{}", viewer.login)).await,
        None => Ok(None),
    }
}

/// What a form says about a name that does not exist, or another mistake.
pub(super) fn mistake(error: PageError) -> PageResult<String> {
    if error.status() == StatusCode::NOT_FOUND { Ok(error.message()) } else { error.mistake() }
}
