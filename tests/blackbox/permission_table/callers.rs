//! The kinds of callers, each with what the permission table asks about: credential, scopes, and its roles.

use ferrite_proto::{Permission, Scope, Scopes};

use crate::harness::User;

/// Role of a caller in the organization of the fixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum OrgRole {
    Outsider,
    Member,
    Owner,
}

/// Kind of the credential that a caller sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Credential {
    Nothing,
    /// A token that is unknown, expired, or of a disabled user.
    Invalid,
    Token,
}

/// The repositories that a token opens beside public ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TokenReach {
    Everything,
    /// One repository that is not in [`super::fixture::Fixture::repos`].
    Elsewhere,
}

/// One kind of caller.
#[derive(Clone)]
pub(super) struct Caller {
    /// Shown when a test fails.
    pub(super) title: String,
    pub(super) user: User,
    pub(super) credential: Credential,
    pub(super) scopes: Scopes,
    /// True if the token has one scope alone.
    pub(super) has_one_scope: bool,
    pub(super) reach: TokenReach,
    pub(super) is_admin: bool,
    /// Level on the user's repositories of the fixture.
    pub(super) of_user: Permission,
    /// Level on the organization's repositories of the fixture.
    pub(super) of_organization: Permission,
    pub(super) org_role: OrgRole,
}

/// The part of a caller on which the text of a refusal might depend; scopes are none of it.
pub(super) type Kind = (Credential, bool, TokenReach, bool, OrgRole);

impl Caller {
    /// A user without any role, with a token of all scopes.
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

    /// The caller with a token of one scope.
    pub(super) fn with_only(&self, scope: Scope, token: &str) -> Self {
        Self {
            title: format!("{} with a token for {scope}", self.title),
            user: self.user.with_token(Some(token)),
            scopes: [scope].into_iter().collect(),
            has_one_scope: true,
            ..self.clone()
        }
    }

    /// The caller with a token that is not valid.
    pub(super) fn with_invalid(&self, title: &str, token: &str) -> Self {
        Self {
            title: title.to_owned(),
            user: self.user.with_token(Some(token)),
            credential: Credential::Invalid,
            ..self.clone()
        }
    }

    /// True if the caller may do what administrators of the site may.
    pub(super) fn administers(&self) -> bool {
        self.is_admin && self.scopes.contain(Scope::Admin)
    }

    pub(super) fn kind(&self) -> Kind {
        (self.credential, self.has_one_scope, self.reach, self.is_admin, self.org_role)
    }
}
