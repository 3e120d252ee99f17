//! What operations require of their callers.
//!
//! Not here: which operation requires what, which the contracts say (`operation`).

use crate::{Permission, Scope};

/// The requirement of an operation on its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A service of this installation: one of the roles that [`callers`](crate::callers) names.
    Service,
    /// Nothing. Credentials in the request must still be valid, and decide what the response shows.
    Anyone,
    /// The password of the account that the request is about.
    Password,
    /// An authenticated user; with a token of this scope, if there is one.
    User(Option<Scope>),
    /// An administrator of the site, with a token of scope `admin`.
    Administrator,
    /// A role in the organization that the request is about, and a token of this scope. Administrators of the site have every role.
    Organization(RequiredRole, Scope),
    /// A role in the organization of the team that the request is about, and a token of scope `org`. The team is hidden from users
    /// who are not members of the organization.
    Team(RequiredRole),
    /// A level on a part of the repository that the request is about.
    Repository {
        /// The part.
        unit: Unit,
        /// The lowest sufficient level.
        level: Permission,
        /// True if callers without a token may do it as well on a public repository.
        anonymous: bool,
    },
}

/// The role in an organization that an operation requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredRole {
    /// A member.
    Member,
    /// A member of the team of owners, or a member whose request is about itself.
    OwnerOrSelf,
    /// A member of the team of owners.
    Owner,
}

/// A part of a repository with scopes of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Content and settings.
    Repository,
    /// Issues.
    Issues,
    /// Webhooks.
    Hooks,
    /// Forks: to make one is to create a repository, which takes the scope for that, and to read this one.
    Forks,
}

impl Unit {
    /// Returns the scope that a token needs for `level` on this part.
    #[must_use]
    pub fn scope(self, level: Permission) -> Scope {
        match (self, level) {
            (Self::Repository, Permission::None | Permission::Read) => Scope::RepoRead,
            (Self::Repository, Permission::Write) => Scope::RepoWrite,
            (Self::Repository, Permission::Admin | Permission::Owner) => Scope::RepoAdmin,
            (Self::Issues, _) => Scope::Issue,
            (Self::Hooks, _) => Scope::Hook,
            (Self::Forks, _) => Scope::RepoAdmin,
        }
    }
}

/// The capacity in which a caller acts. Some requests name it in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// For its own account.
    Own,
    /// For an organization.
    Organization,
    /// As an administrator of the site, for the account or organization that the request names.
    Administrator,
}

impl Capacity {
    /// Returns the capacity in which the caller of a request acts that names an organization, or none by the empty text.
    #[must_use]
    pub fn named(as_administrator: bool, organization: &str) -> Self {
        match (as_administrator, organization) {
            (true, _) => Self::Administrator,
            (false, "") => Self::Own,
            (false, _) => Self::Organization,
        }
    }
}
