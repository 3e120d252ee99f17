//! Requirements of operations on their callers.

use crate::{Permission, Scope};

/// The requirement of an operation on its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A service of this installation, one of the roles in [`callers`](crate::callers).
    Service,
    /// Nothing. Credentials must still be valid if present, and decide what the response shows.
    Anyone,
    /// Nothing. Credentials are not looked at, so that invalid ones are no error.
    Public,
    /// The password of the account that the request is about.
    Password,
    /// An authenticated user. A token needs this scope, if there is one.
    User(Option<Scope>),
    /// An administrator of the site, with a token of scope `admin`.
    Administrator,
    /// A role in the organization that the request is about, and a token of this scope. Site
    /// administrators have every role.
    Organization(RequiredRole, Scope),
    /// A role in the organization of the team that the request is about, and a token of scope
    /// `org`. The team is hidden from users who are not members of the organization.
    Team(RequiredRole),
    /// A permission on a part of the repository that the request is about.
    Repository {
        /// The part.
        unit: Unit,
        /// The lowest sufficient permission.
        level: Permission,
        /// True if callers without a token may also do it on a public repository.
        anonymous: bool,
    },
}

/// The role in an organization that an operation requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredRole {
    /// A member.
    Member,
    /// An owner of the organization, or a member whose request is about themselves.
    OwnerOrSelf,
    /// An owner of the organization.
    Owner,
    /// An owner of the organization, or a member of a team that may create repositories.
    Creator,
}

/// A part of a repository that has its own scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Content and settings.
    Repository,
    /// Issues.
    Issues,
    /// Webhooks.
    Hooks,
    /// Forks. Forking creates a repository, so it needs the scope for that, and permission to read
    /// this one.
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

/// The capacity in which a caller acts. Some requests have a field for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// For their own account.
    Own,
    /// For an organization.
    Organization,
    /// As a site administrator, for the account or organization in the request.
    Administrator,
}

impl Capacity {
    /// Returns the capacity of a caller. An empty `organization` means none.
    #[must_use]
    pub fn named(as_administrator: bool, organization: &str) -> Self {
        match (as_administrator, organization) {
            (true, _) => Self::Administrator,
            (false, "") => Self::Own,
            (false, _) => Self::Organization,
        }
    }
}
