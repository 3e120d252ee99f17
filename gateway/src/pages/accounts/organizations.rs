//! Pages of an organization, and the form for a new one.

use askama::Template;
use axum::http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::{PEOPLE_PER_PAGE, REPOSITORIES_PER_PAGE, repositories_of, website};
use crate::pages::atom::ENDING;
use crate::pages::client::Listed;
use crate::pages::components::{Pager, filters, page_number, parameter};
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, Form, FormToken};
use crate::pages::layout::{Content, with_status};
use crate::pages::view::{Account, Organization, Repository};
use crate::pages::visit::Visit;

const TEAMS_PER_PAGE: u64 = 50;
const VISIBILITIES: [(&str, &str); 3] = [
    ("public", "Everyone can see it"),
    ("limited", "Users who are signed in can see it"),
    ("private", "Only members can see it"),
];

#[derive(Clone, Debug, Deserialize)]
struct Team {
    name: String,
    description: String,
    permission: String,
    includes_all_repositories: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tab {
    Repositories,
    Members,
    Teams,
}

enum Entries {
    Repositories(Vec<Repository>),
    People(Vec<Account>),
    Teams(Vec<Team>),
}

#[derive(Template)]
#[template(path = "accounts/organization.html")]
struct OrganizationPage<'a> {
    organization: &'a Organization,
    account: Account,
    website: Option<&'a str>,
    is_member: bool,
    tab: Tab,
    query: String,
    entries: Entries,
    pager: Pager,
}

#[derive(Template)]
#[template(path = "accounts/new_organization.html")]
struct NewOrganization<'a> {
    token: FormToken,
    fields: &'a Fields,
    error: &'a str,
}

impl Content for OrganizationPage<'_> {
    fn title(&self) -> String {
        match self.tab {
            Tab::Repositories => self.account.name().to_owned(),
            Tab::Members => format!("Members of {}", self.account.name()),
            Tab::Teams => format!("Teams of {}", self.account.name()),
        }
    }

    fn feed(&self) -> Option<String> {
        Some(format!("/{}{ENDING}", self.account.login))
    }
}

impl Content for NewOrganization<'_> {
    fn title(&self) -> String {
        "New organization".to_owned()
    }
}

impl Tab {
    /// What an empty tab says.
    fn empty(self) -> &'static str {
        match self {
            Self::Repositories => "There are no repositories that you can see.",
            Self::Members => "There are no members that you can see.",
            Self::Teams => "There are no teams.",
        }
    }
}

impl Entries {
    fn is_empty(&self) -> bool {
        match self {
            Self::Repositories(repositories) => repositories.is_empty(),
            Self::People(people) => people.is_empty(),
            Self::Teams(teams) => teams.is_empty(),
        }
    }
}

pub(super) async fn repositories(visit: Visit, organization: Organization) -> PageResult {
    show(visit, organization, Tab::Repositories).await
}

pub(super) async fn members(visit: Visit) -> PageResult {
    let organization = of_path(&visit).await?;
    show(visit, organization, Tab::Members).await
}

pub(super) async fn teams(visit: Visit) -> PageResult {
    let organization = of_path(&visit).await?;
    show(visit, organization, Tab::Teams).await
}

/// Reads the organization of `/org/{org}/…`.
async fn of_path(visit: &Visit) -> PageResult<Organization> {
    visit.api.get(&format!("orgs/{}", visit.segment(1))).await
}

async fn show(visit: Visit, organization: Organization, tab: Tab) -> PageResult {
    let ((entries, pager), is_member) =
        tokio::try_join!(entries(&visit, &organization, tab), is_member(&visit, &organization))?;
    visit.page(&OrganizationPage {
        account: organization.clone().into(),
        website: website(&organization.website),
        is_member,
        tab,
        query: parameter(&visit.shell.here, "q").unwrap_or_default(),
        entries,
        pager,
        organization: &organization,
    })
}

async fn entries(visit: &Visit, organization: &Organization, tab: Tab) -> PageResult<(Entries, Pager)> {
    let (here, name) = (&visit.shell.here, &organization.username);
    let number = page_number(here);
    match tab {
        Tab::Repositories => {
            let found = repositories_of(visit, organization.id).await?;
            let pager = Pager::of(here, REPOSITORIES_PER_PAGE, &found);
            Ok((Entries::Repositories(found.items), pager))
        }
        Tab::Members => {
            let path = format!("orgs/{name}/members?page={number}&limit={PEOPLE_PER_PAGE}");
            let listed = visit.api.list(&path).await?;
            let pager = Pager::of(here, PEOPLE_PER_PAGE, &listed);
            Ok((Entries::People(listed.items), pager))
        }
        Tab::Teams => {
            let path = format!("orgs/{name}/teams?page={number}&limit={TEAMS_PER_PAGE}");
            let listed: Listed<Team> = visit.api.list(&path).await?;
            let pager = Pager::of(here, TEAMS_PER_PAGE, &listed);
            Ok((Entries::Teams(listed.items), pager))
        }
    }
}

async fn is_member(visit: &Visit, organization: &Organization) -> PageResult<bool> {
    match &visit.shell.viewer {
        Some(viewer) => visit.api.exists(&format!("orgs/{}/members/{}", organization.username, viewer.login)).await,
        None => Ok(false),
    }
}

pub(super) async fn show_form(visit: Visit) -> PageResult {
    visit.signed_in()?;
    form(&visit, &Fields::default(), "")
}

fn form(visit: &Visit, fields: &Fields, error: &str) -> PageResult {
    visit.page(&NewOrganization { token: FormToken::of(visit), fields, error })
}

pub(super) async fn create(Form { visit, fields }: Form) -> PageResult {
    let text = |name| fields.text(name).trim();
    let body = json!({
        "username": text("username"), "full_name": text("full_name"), "description": text("description"),
        "website": text("website"), "location": text("location"), "visibility": text("visibility"),
    });
    match visit.api.change(Method::POST, "orgs", Some(body)).await {
        Ok(made) => Ok(visit.redirect(&format!("/{}", made["username"].as_str().unwrap_or_default()))),
        Err(error) => {
            let message = error.mistake()?;
            Ok(with_status(StatusCode::UNPROCESSABLE_ENTITY, form(&visit, &fields, &message)?))
        }
    }
}
