//! Typed 64-bit ids, so that an id of one kind cannot be passed for another, and references to
//! repositories by id or name.

use std::fmt;

use crate::repo::repository_ref::By;
use crate::repo::{RepositoryName, RepositoryRef};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(out)
            }
        }

        impl From<$name> for i64 {
            fn from(id: $name) -> i64 {
                id.0
            }
        }
    )*};
}

ids! {
    /// A user or organization, assigned by repo-svc.
    UserId
    /// An organization: the id of its account.
    OrganizationId
    /// A repository, assigned by repo-svc.
    RepositoryId
    /// An access token, assigned by repo-svc.
    TokenId
    /// A team of an organization, assigned by repo-svc.
    TeamId
    /// A public key of a user, assigned by repo-svc.
    PublicKeyId
    /// A deploy key of a repository, assigned by repo-svc.
    DeployKeyId
    /// An issue, assigned by issue-svc.
    IssueId
    /// A webhook, assigned by hook-svc.
    HookId
}

impl RepositoryRef {
    /// Returns a reference by id.
    #[must_use]
    pub fn by_id(id: impl Into<i64>) -> Self {
        Self { by: Some(By::Id(id.into())) }
    }

    /// Returns a reference by owner and name.
    #[must_use]
    pub fn by_name(owner: impl Into<String>, name: impl Into<String>) -> Self {
        Self { by: Some(By::Name(RepositoryName { owner: owner.into(), name: name.into() })) }
    }
}
