//! Repositories, as one caller sees them.

use ferrite_proto::{Permission, repo};
use serde::Serialize;

use super::convert::{MissingField, require, time};
use super::user::User;
use crate::http::links::Links;

/// The caller of a response, as far as its shape depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Viewer {
    /// A caller without credentials: e-mail addresses are blank.
    Anonymous,
    /// A caller with credentials.
    Authenticated,
}

/// A repository as one caller sees it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Repository {
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
pub(super) struct Permissions {
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
    pub(crate) fn new(repository: repo::Repository, viewer: Viewer, links: &Links) -> Result<Self, MissingField> {
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
    pub(crate) fn without_permissions(self) -> Self {
        Self { permissions: None, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> repo::Repository {
        repo::Repository {
            id: 2,
            owner: Some(repo::User {
                id: 1,
                username: "bob".into(),
                email: "bob@example.com".into(),
                ..Default::default()
            }),
            name: "demo".into(),
            create_time: Some(prost_types::Timestamp { seconds: 1, nanos: 0 }),
            update_time: Some(prost_types::Timestamp { seconds: 2, nanos: 0 }),
            permission: repo::Permission::Write.into(),
            ..Default::default()
        }
    }

    fn to_json(message: repo::Repository, viewer: Viewer) -> serde_json::Value {
        let links = Links::new("http://git.example.com", "git.example.com:22");
        serde_json::to_value(Repository::new(message, viewer, &links).unwrap()).unwrap()
    }

    #[test]
    fn a_repository_has_the_shape_of_the_contract() {
        insta::assert_json_snapshot!(to_json(message(), Viewer::Authenticated), @r#"
        {
          "clone_url": "http://git.example.com/bob/demo.git",
          "created_at": "1970-01-01T00:00:01Z",
          "default_branch": "",
          "description": "",
          "empty": false,
          "fork": false,
          "forks_count": 0,
          "full_name": "bob/demo",
          "html_url": "http://git.example.com/bob/demo",
          "id": 2,
          "mirror": false,
          "name": "demo",
          "open_issues_count": 0,
          "owner": {
            "avatar_url": "http://git.example.com/avatars/1",
            "email": "bob@example.com",
            "full_name": "",
            "id": 1,
            "login": "bob",
            "username": "bob"
          },
          "permissions": {
            "admin": false,
            "pull": true,
            "push": true
          },
          "private": false,
          "size": 0,
          "ssh_url": "git@git.example.com:bob/demo.git",
          "stars_count": 0,
          "updated_at": "1970-01-01T00:00:02Z",
          "watchers_count": 0,
          "website": ""
        }
        "#);
    }

    #[test]
    fn mail_addresses_are_blank_for_anonymous_callers() {
        assert_eq!(to_json(message(), Viewer::Anonymous)["owner"]["email"], "");
    }

    #[test]
    fn only_a_fork_has_a_parent_and_the_parent_has_none() {
        let grandparent = repo::Repository { id: 9, is_fork: true, ..message() };
        let parent = repo::Repository { id: 8, is_fork: true, parent: Some(Box::new(grandparent)), ..message() };
        let fork = repo::Repository { is_fork: true, parent: Some(Box::new(parent)), ..message() };
        let value = to_json(fork.clone(), Viewer::Authenticated);
        assert_eq!(value["parent"]["id"], 8);
        assert!(value["parent"].get("parent").is_none());
        assert!(to_json(repo::Repository { is_fork: false, ..fork }, Viewer::Authenticated).get("parent").is_none());
    }

    #[test]
    fn an_answer_without_an_owner_is_an_error() {
        let links = Links::new("http://h", "h:22");
        let error =
            Repository::new(repo::Repository { owner: None, ..message() }, Viewer::Authenticated, &links).unwrap_err();
        assert_eq!(error, MissingField("owner"));
    }
}
