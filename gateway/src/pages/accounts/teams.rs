//! The teams of an organization, with their members and repositories.

use askama::Template;
use axum::http::Method;
use ferrite_api_types::links::encode;
use serde::Deserialize;

use super::organization_frame::{OrganizationForm, OrganizationVisit, Tab, mistake};
use super::{PEOPLE_PER_PAGE, REPOSITORIES_PER_PAGE};
use crate::pages::components::{Listed, Pager, filters, page_number};
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::FormToken;
use crate::pages::layout::Content;
use crate::pages::view::{Account, Repository};

const TEAMS_PER_PAGE: u64 = 50;
/// The API finds teams by id alone, so the team of a name is looked for in the list: in this many
/// pages of this size.
const LOOKUP_PAGES: u64 = 4;
const LOOKUP_PAGE_SIZE: usize = 1_000;
const OWNERS: &str = "owner";

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Team {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) permission: String,
    pub(super) includes_all_repositories: bool,
    pub(super) can_create_org_repo: bool,
}

/// The top of the pages of a team.
struct Head<'a> {
    team: &'a Team,
    /// The paths of the list of teams, and of this one.
    teams: String,
    path: String,
    is_owner: bool,
    is_repositories: bool,
}

#[derive(Template)]
#[template(path = "accounts/teams.html")]
struct Teams {
    path: String,
    teams: Vec<Team>,
    pager: Pager,
    is_owner: bool,
}

#[derive(Template)]
#[template(path = "accounts/team_members.html")]
struct TeamMembers<'a> {
    head: Head<'a>,
    people: Vec<Account>,
    pager: Pager,
    token: FormToken,
    typed: &'a str,
    message: &'a str,
}

#[derive(Template)]
#[template(path = "accounts/team_repositories.html")]
struct TeamRepositories<'a> {
    head: Head<'a>,
    repositories: Vec<Repository>,
    pager: Pager,
    /// Whether the visitor can give it single repositories.
    is_changed_here: bool,
    token: FormToken,
    typed: &'a str,
    message: &'a str,
}

impl Content for Teams {
    fn title(&self) -> String {
        "Teams".to_owned()
    }
}

impl Content for TeamMembers<'_> {
    fn title(&self) -> String {
        format!("Team {}", self.head.team.name)
    }
}

impl Content for TeamRepositories<'_> {
    fn title(&self) -> String {
        format!("Repositories of the team {}", self.head.team.name)
    }
}

impl Team {
    /// The path of its operations in the API.
    pub(super) fn api(&self) -> String {
        format!("teams/{}", self.id)
    }

    /// The name as a segment of a path.
    pub(super) fn segment(&self) -> String {
        encode(self.name.as_bytes())
    }

    pub(super) fn is_owners(&self) -> bool {
        self.permission == OWNERS
    }

    /// What its members may do, as a sentence.
    fn rights(&self) -> String {
        let repositories = if self.includes_all_repositories || self.is_owners() { "all" } else { "its" };
        let more = match (self.is_owners(), self.can_create_org_repo) {
            (true, _) => ", and manages the organization",
            (false, true) => ", and creates repositories for the organization",
            (false, false) => "",
        };
        format!("Has the permission {} on {repositories} repositories{more}.", self.permission)
    }
}

impl<'a> Head<'a> {
    fn new(at: &OrganizationVisit, team: &'a Team, is_repositories: bool) -> Self {
        let teams = teams_path(at);
        Self { team, path: format!("{teams}/{}", team.segment()), teams, is_owner: at.is_owner(), is_repositories }
    }
}

/// The path of the list.
pub(super) fn teams_path(at: &OrganizationVisit) -> String {
    format!("{}/teams", at.path())
}

/// Reads the team of `/org/{org}/teams/{team}/…`.
pub(super) async fn find(at: &OrganizationVisit) -> PageResult<Team> {
    let name = at.visit.name(3);
    for page in 1..=LOOKUP_PAGES {
        let path = format!("{}/teams?page={page}&limit={LOOKUP_PAGE_SIZE}", at.api());
        let teams = at.visit.api.list::<Team>(&path).await?.items;
        let is_last = teams.len() < LOOKUP_PAGE_SIZE;
        if let Some(team) = teams.into_iter().find(|team| team.name.eq_ignore_ascii_case(&name)) {
            return Ok(team);
        }
        if is_last {
            break;
        }
    }
    Err(PageError::not_found())
}

pub(super) async fn list(at: OrganizationVisit) -> PageResult {
    let here = &at.visit.shell.here;
    let path = format!("{}/teams?page={}&limit={TEAMS_PER_PAGE}", at.api(), page_number(here));
    let listed: Listed<Team> = at.visit.api.list(&path).await?;
    let pager = Pager::of(here, TEAMS_PER_PAGE, &listed);
    let content = Teams { path: teams_path(&at), teams: listed.items, pager, is_owner: at.is_owner() };
    at.page(Tab::Teams, &content)
}

pub(super) async fn members(at: OrganizationVisit) -> PageResult {
    let team = find(&at).await?;
    members_page(&at, &team, "", "").await
}

async fn members_page(at: &OrganizationVisit, team: &Team, typed: &str, message: &str) -> PageResult {
    let here = &at.visit.shell.here;
    let path = format!("{}/members?page={}&limit={PEOPLE_PER_PAGE}", team.api(), page_number(here));
    let listed: Listed<Account> = at.visit.api.list(&path).await?;
    let content = TeamMembers {
        head: Head::new(at, team, false),
        pager: Pager::of(here, PEOPLE_PER_PAGE, &listed),
        people: listed.items,
        token: FormToken::of(&at.visit),
        typed,
        message,
    };
    at.form(Tab::Teams, &content, message)
}

/// Adds or removes a member.
pub(super) async fn change_members(OrganizationForm { at, fields }: OrganizationForm) -> PageResult {
    let (team, name) = (find(&at).await?, fields.text("username").trim());
    let path = format!("{}/members/{}", team.api(), encode(name.as_bytes()));
    match at.visit.api.change(method(fields.text("action")), &path, None).await {
        Ok(_) => Ok(at.visit.redirect(&Head::new(&at, &team, false).path)),
        Err(error) => members_page(&at, &team, name, &mistake(error)?).await,
    }
}

pub(super) async fn repositories(at: OrganizationVisit) -> PageResult {
    let team = find(&at).await?;
    repositories_page(&at, &team, "", "").await
}

async fn repositories_page(at: &OrganizationVisit, team: &Team, typed: &str, message: &str) -> PageResult {
    let here = &at.visit.shell.here;
    let path = format!("{}/repos?page={}&limit={REPOSITORIES_PER_PAGE}", team.api(), page_number(here));
    let listed: Listed<Repository> = at.visit.api.list(&path).await?;
    let content = TeamRepositories {
        head: Head::new(at, team, true),
        pager: Pager::of(here, REPOSITORIES_PER_PAGE, &listed),
        repositories: listed.items,
        is_changed_here: at.is_owner() && !team.is_owners() && !team.includes_all_repositories,
        token: FormToken::of(&at.visit),
        typed,
        message,
    };
    at.form(Tab::Teams, &content, message)
}

/// Adds or removes a repository of the organization.
pub(super) async fn change_repositories(OrganizationForm { at, fields }: OrganizationForm) -> PageResult {
    let (team, name) = (find(&at).await?, fields.text("repository").trim());
    let path = format!("{}/repos/{}/{}", team.api(), at.organization.username, encode(name.as_bytes()));
    match at.visit.api.change(method(fields.text("action")), &path, None).await {
        Ok(_) => Ok(at.visit.redirect(&format!("{}/repositories", Head::new(&at, &team, true).path))),
        Err(error) => repositories_page(&at, &team, name, &mistake(error)?).await,
    }
}

fn method(action: &str) -> Method {
    if action == "remove" { Method::DELETE } else { Method::PUT }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_says_what_its_members_may_do() {
        let team = |permission: &str, includes_all_repositories, can_create_org_repo| Team {
            id: 1,
            name: "a/b c".to_owned(),
            description: String::new(),
            permission: permission.to_owned(),
            includes_all_repositories,
            can_create_org_repo,
        };
        assert_eq!(team("read", false, false).rights(), "Has the permission read on its repositories.");
        let expected = "Has the permission write on all repositories, and creates repositories for the organization.";
        assert_eq!(team("write", true, true).rights(), expected);
        let owners = team("owner", false, false);
        assert!(owners.is_owners() && owners.rights().ends_with("manages the organization."));
        assert_eq!(owners.segment(), "a%2Fb%20c");
    }
}
