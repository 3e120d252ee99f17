//! The forms of teams.

use askama::Template;
use axum::http::Method;
use serde_json::{Value, json};

use super::organization_frame::{OrganizationForm, OrganizationVisit, Tab};
use super::teams::{Team, find, teams_path};
use crate::http::error::ApiError;
use crate::pages::error::PageResult;
use crate::pages::form::{Fields, FormToken, changes};
use crate::pages::layout::Content;

const PERMISSIONS: [(&str, &str); 3] = [
    ("read", "Read: see and clone, open issues and review"),
    ("write", "Write: that, and push, merge and edit issues"),
    ("admin", "Admin: that, and settings and collaborators"),
];

#[derive(Template)]
#[template(path = "accounts/team_edit.html")]
struct EditPage<'a> {
    heading: &'static str,
    action: String,
    back: String,
    draft: &'a Draft,
    is_owners: bool,
    token: FormToken,
    message: &'a str,
}

#[derive(Template)]
#[template(path = "accounts/team_removal.html")]
struct Removal<'a> {
    name: &'a str,
    path: String,
    token: FormToken,
    message: &'a str,
}

/// What is in the fields.
#[derive(Clone)]
struct Draft {
    name: String,
    description: String,
    permission: String,
    includes_all_repositories: bool,
    can_create_org_repo: bool,
}

impl Content for EditPage<'_> {
    fn title(&self) -> String {
        self.heading.to_owned()
    }
}

impl Content for Removal<'_> {
    fn title(&self) -> String {
        format!("Delete the team {}", self.name)
    }
}

impl Draft {
    fn of_new() -> Self {
        Self::of_fields(&Fields::default())
    }

    fn of_fields(fields: &Fields) -> Self {
        let text = |name| fields.text(name).trim().to_owned();
        let permission = text("permission");
        Self {
            name: text("name"),
            description: text("description"),
            permission: if permission.is_empty() { "read".to_owned() } else { permission },
            includes_all_repositories: fields.is_checked("includes_all_repositories"),
            can_create_org_repo: fields.is_checked("can_create_org_repo"),
        }
    }

    fn of_team(team: &Team) -> Self {
        Self {
            name: team.name.clone(),
            description: team.description.clone(),
            permission: team.permission.clone(),
            includes_all_repositories: team.includes_all_repositories,
            can_create_org_repo: team.can_create_org_repo,
        }
    }

    fn has_permission(&self, word: &str) -> bool {
        self.permission == word
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "description": self.description, "permission": self.permission,
            "includes_all_repositories": self.includes_all_repositories,
            "can_create_org_repo": self.can_create_org_repo,
        })
    }
}

pub(super) async fn new(at: OrganizationVisit) -> PageResult {
    at.require_owner()?;
    page(&at, None, &Draft::of_new(), "")
}

pub(super) async fn create(OrganizationForm { at, fields }: OrganizationForm) -> PageResult {
    let draft = Draft::of_fields(&fields);
    match at.visit.api.change(Method::POST, &format!("{}/teams", at.api()), Some(draft.json())).await {
        Ok(made) => {
            let team: Team = serde_json::from_value(made).map_err(|_| ApiError::internal())?;
            Ok(at.visit.redirect(&team_path(&at, &team)))
        }
        Err(error) => page(&at, None, &draft, &error.mistake()?),
    }
}

pub(super) async fn edit(at: OrganizationVisit) -> PageResult {
    at.require_owner()?;
    let team = find(&at).await?;
    page(&at, Some(&team), &Draft::of_team(&team), "")
}

pub(super) async fn save(OrganizationForm { at, fields }: OrganizationForm) -> PageResult {
    let team = find(&at).await?;
    let (old, typed) = (Draft::of_team(&team), Draft::of_fields(&fields));
    let draft = if team.is_owners() { Draft { description: typed.description, ..old.clone() } } else { typed };
    let changed = if draft.name.is_empty() {
        // The API takes an empty name for none.
        Err(ApiError::invalid_field("name", "required", "is required").into())
    } else {
        at.visit.api.change(Method::PATCH, &team.api(), Some(changes(draft.json(), &old.json()))).await
    };
    match changed {
        Ok(_) => Ok(at.visit.redirect(&team_path(&at, &Team { name: draft.name, ..team }))),
        Err(error) => page(&at, Some(&team), &draft, &error.mistake()?),
    }
}

pub(super) async fn ask_to_delete(at: OrganizationVisit) -> PageResult {
    at.require_owner()?;
    let team = find(&at).await?;
    removal(&at, &team, "")
}

pub(super) async fn delete(OrganizationForm { at, .. }: OrganizationForm) -> PageResult {
    let team = find(&at).await?;
    match at.visit.api.change(Method::DELETE, &team.api(), None).await {
        Ok(_) => Ok(at.visit.redirect(&teams_path(&at))),
        Err(error) => removal(&at, &team, &error.mistake()?),
    }
}

fn team_path(at: &OrganizationVisit, team: &Team) -> String {
    format!("{}/{}", teams_path(at), team.segment())
}

fn removal(at: &OrganizationVisit, team: &Team, message: &str) -> PageResult {
    let content = Removal { name: &team.name, path: team_path(at, team), token: FormToken::of(&at.visit), message };
    at.form(Tab::Teams, &content, message)
}

/// `team` is the one that is changed; `None` for a new one.
fn page(at: &OrganizationVisit, team: Option<&Team>, draft: &Draft, message: &str) -> PageResult {
    let (heading, action, back) = match team {
        Some(team) => ("Edit team", format!("{}/edit", team_path(at, team)), team_path(at, team)),
        None => ("New team", format!("{}/new", teams_path(at)), teams_path(at)),
    };
    let content = EditPage {
        heading,
        action,
        back,
        draft,
        is_owners: team.is_some_and(Team::is_owners),
        token: FormToken::of(&at.visit),
        message,
    };
    at.form(Tab::Teams, &content, message)
}
