//! The collaborators of a repository, and the teams of its organization that have it.

use askama::Template;
use axum::http::{Method, StatusCode};
use ferrite_api_types::links::encode;
use serde::Deserialize;
use serde_json::json;

use super::{Section, administered, is_owner, missing};
use crate::pages::components::{Listed, Pager, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, Form, FormToken};
use crate::pages::repositories::RepositoryVisit;
use crate::pages::view::{Account, Permissions, Repository};
use crate::pages::visit::Visit;

const PAGE_SIZE: u64 = 30;
/// Teams that the page shows.
const MAX_TEAMS: u64 = 50;
const PERMISSIONS: [(&str, &str); 3] = [("read", "Read"), ("write", "Write"), ("admin", "Administrate")];

#[derive(Clone, Debug, Deserialize)]
struct Collaborator {
    #[serde(flatten)]
    account: Account,
    permissions: Permissions,
}

#[derive(Clone, Debug, Deserialize)]
struct Team {
    name: String,
    description: String,
    permission: String,
    includes_all_repositories: bool,
}

#[derive(Deserialize)]
struct TeamSettings {
    repo_admin_change_team_access: bool,
}

/// The teams that have the repository.
struct Teams {
    shown: Vec<Team>,
    hidden_count: u64,
    can_change: bool,
}

#[derive(Template)]
#[template(path = "repository_settings/collaborators.html")]
struct Collaborators<'a> {
    repository: &'a Repository,
    token: FormToken,
    path: String,
    collaborators: Vec<Collaborator>,
    pager: Pager,
    /// What was typed to add a collaborator or a team.
    typed: &'a Fields,
    /// `None` if a user owns the repository, or the visitor does not belong to its organization.
    teams: Option<Teams>,
}

impl Collaborator {
    fn has(&self, permission: &str) -> bool {
        let has = match self.permissions {
            Permissions { admin: true, .. } => "admin",
            Permissions { push: true, .. } => "write",
            Permissions { .. } => "read",
        };
        has == permission
    }
}

impl Collaborators<'_> {
    fn permissions(&self) -> [(&'static str, &'static str); PERMISSIONS.len()] {
        PERMISSIONS
    }

    /// The permission that the form for another collaborator offers first.
    fn offers(&self, permission: &str) -> bool {
        match self.typed.text("permission") {
            "" => permission == "write",
            typed => permission == typed,
        }
    }
}

pub(super) async fn show(visit: Visit) -> PageResult {
    let at = administered(visit).await?;
    page(&at, &Fields::default(), "").await
}

async fn page(at: &RepositoryVisit, typed: &Fields, error: &str) -> PageResult {
    let here = &at.visit.shell.here;
    let path = format!("{}/collaborators?page={}&limit={PAGE_SIZE}", at.repository.api(), page_number(here));
    let (listed, teams) = tokio::try_join!(at.visit.api.list::<Collaborator>(&path), teams(at))?;
    let content = Collaborators {
        repository: &at.repository,
        token: FormToken::of(&at.visit),
        path: Section::Collaborators.path(&at.repository.path()),
        pager: Pager::of(here, PAGE_SIZE, &listed),
        collaborators: listed.items,
        typed,
        teams,
    };
    Section::Collaborators.page(at, &content, error)
}

async fn teams(at: &RepositoryVisit) -> PageResult<Option<Teams>> {
    let path = format!("{}/teams?limit={MAX_TEAMS}", at.repository.api());
    let listed: Listed<Team> = match at.visit.api.list(&path).await {
        // A user owns the repository.
        Err(error) if error.status() == StatusCode::NOT_FOUND => return Ok(None),
        listed => listed?,
    };
    // Members of the organization see at least the owners.
    if listed.items.is_empty() {
        return Ok(None);
    }
    let hidden_count = listed.total.unwrap_or_default().saturating_sub(listed.items.len() as u64);
    Ok(Some(Teams { shown: listed.items, hidden_count, can_change: may_change_teams(at).await? }))
}

async fn may_change_teams(at: &RepositoryVisit) -> PageResult<bool> {
    if is_owner(at).await? {
        return Ok(true);
    }
    let path = format!("orgs/{}", at.repository.owner.login);
    let organization: TeamSettings = at.visit.api.get(&path).await?;
    Ok(organization.repo_admin_change_team_access)
}

/// Adds, changes or removes a collaborator or a team.
pub(super) async fn change(Form { visit, fields }: Form) -> PageResult {
    let at = administered(visit).await?;
    let action = fields.text("action");
    let (kind, field) = match action {
        "add_team" | "remove_team" => ("teams", "team"),
        _ => ("collaborators", "collaborator"),
    };
    let name = fields.text(field).trim();
    let is_removal = matches!(action, "remove" | "remove_team");
    let none = Fields::default();
    let typed = if matches!(action, "add" | "add_team") { &fields } else { &none };
    if name.is_empty() {
        return page(&at, typed, &missing(field)).await;
    }
    let path = format!("{}/{kind}/{}", at.repository.api(), encode(name.as_bytes()));
    let body = match kind {
        "collaborators" if !is_removal => Some(json!({"permission": fields.text("permission")})),
        _ => None,
    };
    let method = if is_removal { Method::DELETE } else { Method::PUT };
    if let Err(error) = at.visit.api.change(method, &path, body).await {
        return page(&at, typed, &error.refusal()?).await;
    }
    let is_own = field == "collaborator" && name.eq_ignore_ascii_case(&at.visit.signed_in()?.login);
    match (is_own, is_removal) {
        (false, _) => Ok(Section::Collaborators.saved(&at)),
        // The visitor may no longer change the settings, or see the repository.
        (true, false) => Ok(at.visit.redirect(&at.repository.path())),
        (true, true) => Ok(at.visit.redirect("/")),
    }
}
