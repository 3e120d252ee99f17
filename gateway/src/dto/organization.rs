//! Collaborators.

use ferrite_proto::Permission;
use ferrite_proto::repo;
use serde::Serialize;

use ferrite_api_types::Permissions;
use ferrite_api_types::User;
use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::links::Links;

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
}
