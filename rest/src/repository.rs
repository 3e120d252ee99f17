//! Repositories, as one caller sees them.

use ferrite_proto::{Permission, repo};
use serde::Serialize;

use super::convert::{MissingField, require, time};
use super::user::User;
use crate::links::Links;

/// The caller of a response, as far as its shape depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// A caller without credentials: e-mail addresses are blank.
    Anonymous,
    /// A caller with credentials.
    Authenticated,
}

/// A repository as one caller sees it.
#[derive(Clone, Debug, Serialize)]
pub struct Repository {
    id: i64,
    owner: User,
    name: String,
    full_name: String,
    description: String,
    private: bool,
    fork: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<Box<Repository>>,
    empty: bool,
    mirror: bool,
    size: i64,
    html_url: String,
    ssh_url: String,
    clone_url: String,
    website: String,
    stars_count: i64,
    forks_count: i64,
    watchers_count: i64,
    open_issues_count: i64,
    default_branch: String,
    created_at: String,
    updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions: Option<Permissions>,
}

/// Permissions of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Permissions {
    admin: bool,
    push: bool,
    pull: bool,
}

impl From<Permission> for Permissions {
    fn from(permission: Permission) -> Self {
        Self {
            admin: permission >= Permission::Admin,
            push: permission >= Permission::Write,
            pull: permission >= Permission::Read,
        }
    }
}

impl Repository {
    /// Converts a repository.
    ///
    /// # Errors
    /// When the owner or a time is missing.
    pub fn new(repository: repo::Repository, viewer: Viewer, links: &Links) -> Result<Self, MissingField> {
        let permission = Permission::from(repository.permission());
        let mut owner = require(repository.owner, "owner")?;
        if viewer == Viewer::Anonymous {
            owner.email.clear();
        }
        let urls = links.repository(&owner.username, &repository.name);
        let parent = match repository.parent {
            // The parent of a parent is left out.
            Some(parent) if repository.is_fork => {
                let alone = repo::Repository { parent: None, ..*parent };
                Some(Box::new(Self::new(alone, viewer, links)?))
            }
            _ => None,
        };
        Ok(Self {
            id: repository.id,
            full_name: format!("{}/{}", owner.username, repository.name),
            owner: User::new(owner, links),
            name: repository.name,
            description: repository.description,
            private: repository.is_private,
            fork: repository.is_fork,
            parent,
            empty: repository.is_empty,
            mirror: repository.is_mirror,
            size: repository.size_bytes,
            html_url: urls.html(),
            ssh_url: urls.clone_ssh(),
            clone_url: urls.clone_http(),
            website: repository.website,
            stars_count: repository.star_count,
            forks_count: repository.fork_count,
            watchers_count: repository.watcher_count,
            open_issues_count: repository.open_issue_count,
            default_branch: repository.default_branch,
            created_at: time(repository.create_time, "create_time")?,
            updated_at: time(repository.update_time, "update_time")?,
            permissions: Some(permission.into()),
        })
    }

    /// Removes `permissions`, which search results do not have.
    #[must_use]
    pub fn without_permissions(self) -> Self {
        Self { permissions: None, ..self }
    }
}

#[cfg(test)]
mod tests;
