//! Typed 64-bit ids: an id of one kind cannot be passed where another kind is expected.

use std::fmt;

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
