//! Organizations, memberships, teams and collaborators.

use ferrite_proto::Permission;
use ferrite_proto::repo::{self, MembershipRole};
use serde::Serialize;

use ferrite_api_types::Permissions;
use ferrite_api_types::User;
use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::links::Links;

/// An organization.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Organization {
    id: i64,
    username: String,
    full_name: String,
    avatar_url: String,
    description: String,
    website: String,
    location: String,
}

impl Organization {
    pub(crate) fn new(organization: repo::Organization, links: &Links) -> Self {
        Self {
            id: organization.id,
            avatar_url: links.avatar(organization.id),
            username: organization.username,
            full_name: organization.full_name,
            description: organization.description,
            website: organization.website,
            location: organization.location,
        }
    }
}

/// The membership of a user in an organization.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Membership {
    role: &'static str,
    public: bool,
    user: User,
}

impl Membership {
    pub(crate) fn new(role: MembershipRole, public: bool, user: User) -> Result<Self, MissingField> {
        let role = match role {
            MembershipRole::Member => "member",
            MembershipRole::Admin => "admin",
            MembershipRole::Unspecified => return Err(MissingField("role")),
        };
        Ok(Self { role, public, user })
    }
}

/// A team.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Team {
    id: i64,
    name: String,
    description: String,
    permission: String,
}

impl From<repo::Team> for Team {
    fn from(team: repo::Team) -> Self {
        let permission = Permission::from(team.permission()).to_string();
        Self { id: team.id, name: team.name, description: team.description, permission }
    }
}

/// A collaborator of a repository, with its permissions.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Collaborator {
    #[serde(flatten)]
    user: User,
    permissions: Permissions,
}

impl Collaborator {
    pub(crate) fn new(collaborator: repo::Collaborator, links: &Links) -> Result<Self, MissingField> {
        let permissions = Permission::from(collaborator.permission()).into();
        Ok(Self { user: User::new(require(collaborator.user, "user")?, links), permissions })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_collaborator_is_a_user_with_permissions() {
        let links = Links::new("http://h", "h:22");
        let message = repo::Collaborator {
            user: Some(repo::User { id: 3, username: "bob".into(), ..Default::default() }),
            permission: repo::Permission::Write.into(),
        };
        let expected = json!({
            "id": 3, "username": "bob", "login": "bob", "full_name": "", "email": "", "avatar_url": "http://h/avatars/3",
            "permissions": {"admin": false, "push": true, "pull": true},
        });
        assert_eq!(serde_json::to_value(Collaborator::new(message, &links).unwrap()).unwrap(), expected);
    }

    #[test]
    fn teams_and_organizations_have_the_shapes_of_the_contract() {
        for (permission, expected) in [
            (repo::Permission::Read, "read"),
            (repo::Permission::Write, "write"),
            (repo::Permission::Admin, "admin"),
            (repo::Permission::Owner, "owner"),
        ] {
            let team = repo::Team { id: 1, name: "t".into(), permission: permission.into(), ..Default::default() };
            let expected = json!({"id": 1, "name": "t", "description": "", "permission": expected});
            assert_eq!(serde_json::to_value(Team::from(team)).unwrap(), expected);
        }
        let organization = repo::Organization { id: 2, username: "acme".into(), ..Default::default() };
        let shown = Organization::new(organization, &Links::new("http://h", "h:22"));
        let expected = json!({
            "id": 2, "username": "acme", "full_name": "", "avatar_url": "http://h/avatars/2", "description": "",
            "website": "", "location": "",
        });
        assert_eq!(serde_json::to_value(shown).unwrap(), expected);
    }
}
