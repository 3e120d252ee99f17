//! Who calls.

use ferrite_proto::{Permission, Scope, Scopes};

use crate::harness::User;

/// What somebody is to the organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    Outsider,
    Member,
    Owner,
}

/// What a caller shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Credential {
    /// Nothing.
    Nothing,
    /// Something that is not valid: unknown, expired, or of a disabled user.
    Invalid,
    /// A token.
    Token,
}

/// Which repositories a token opens beyond public ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Everything,
    /// None of those that are walked.
    Elsewhere,
}

/// One kind of caller.
#[derive(Clone)]
pub(super) struct Person {
    /// What it is, for people who read a failure.
    pub(super) title: String,
    pub(super) user: User,
    pub(super) credential: Credential,
    pub(super) scopes: Scopes,
    pub(super) reach: Reach,
    pub(super) is_admin: bool,
    /// Its level on the repositories of the user that are walked.
    pub(super) of_user: Permission,
    /// Its level on the repositories of the organization that are walked.
    pub(super) of_organization: Permission,
    pub(super) standing: Standing,
}

impl Person {
    /// Somebody with a token for everything, and nothing else.
    pub(super) fn new(title: &str, user: User) -> Self {
        Self {
            title: title.to_owned(),
            user,
            credential: Credential::Token,
            scopes: Scopes::all(),
            reach: Reach::Everything,
            is_admin: false,
            of_user: Permission::None,
            of_organization: Permission::None,
            standing: Standing::Outsider,
        }
    }

    /// The same person with a token for one thing.
    pub(super) fn with_only(&self, scope: Scope, token: &str) -> Self {
        Self {
            title: format!("{} with a token for {scope}", self.title),
            user: self.user.with_token(Some(token)),
            scopes: [scope].into_iter().collect(),
            ..self.clone()
        }
    }

    /// The same person with a credential that is not valid.
    pub(super) fn with_invalid(&self, title: &str, token: &str) -> Self {
        Self {
            title: title.to_owned(),
            user: self.user.with_token(Some(token)),
            credential: Credential::Invalid,
            ..self.clone()
        }
    }

    /// Whether it may do what administrators of the site may.
    pub(super) fn administers(&self) -> bool {
        self.is_admin && self.scopes.contain(Scope::Admin)
    }
}
