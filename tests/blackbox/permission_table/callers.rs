//! Kinds of callers with the facts that the permission table depends on: credential, scopes and
//! roles.

use ferrite_proto::{Permission, Scope, Scopes};

use crate::harness::User;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum OrgRole {
    Outsider,
    Member,
    Owner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Credential {
    Nothing,
    /// A token that is unknown, expired, or of a disabled user.
    Invalid,
    Token,
}

/// Private repositories that a token gives access to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TokenReach {
    Everything,
    /// One repository that is not in [`super::fixture::Fixture::repos`].
    Elsewhere,
}

#[derive(Clone)]
pub(super) struct Caller {
    /// For failure messages.
    pub(super) title: String,
    pub(super) user: User,
    pub(super) credential: Credential,
    pub(super) scopes: Scopes,
    /// Whether the token has exactly one scope.
    pub(super) has_one_scope: bool,
    pub(super) reach: TokenReach,
    pub(super) is_admin: bool,
    /// Level on the fixture's repositories of the user.
    pub(super) of_user: Permission,
    /// Level on the fixture's repositories of the organization.
    pub(super) of_organization: Permission,
    pub(super) org_role: OrgRole,
}

/// Facts about a caller that the text of a refusal might depend on; scopes are not among them.
pub(super) type Kind = (Credential, bool, TokenReach, bool, OrgRole);

impl Caller {
    /// A user without any role, with a token that has all scopes.
    pub(super) fn new(title: &str, user: User) -> Self {
        Self {
            title: title.to_owned(),
            user,
            credential: Credential::Token,
            scopes: Scopes::all(),
            has_one_scope: false,
            reach: TokenReach::Everything,
            is_admin: false,
            of_user: Permission::None,
            of_organization: Permission::None,
            org_role: OrgRole::Outsider,
        }
    }

    /// The caller with a token that has only one scope.
    pub(super) fn with_only(&self, scope: Scope, token: &str) -> Self {
        Self {
            title: format!("{} with a token for {scope}", self.title),
            user: self.user.with_token(Some(token)),
            scopes: [scope].into_iter().collect(),
            has_one_scope: true,
            ..self.clone()
        }
    }

    pub(super) fn with_invalid(&self, title: &str, token: &str) -> Self {
        Self {
            title: title.to_owned(),
            user: self.user.with_token(Some(token)),
            credential: Credential::Invalid,
            ..self.clone()
        }
    }

    pub(super) fn administers(&self) -> bool {
        self.is_admin && self.scopes.contain(Scope::Admin)
    }

    pub(super) fn kind(&self) -> Kind {
        (self.credential, self.has_one_scope, self.reach, self.is_admin, self.org_role)
    }
}
