//! Permissions on a repository, and their form in messages.

use serde::{Deserialize, Serialize};

/// A permission on a repository. Each level includes those before it, and levels compare in this
/// order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// None: the caller does not even learn that the repository exists.
    #[default]
    None,
    /// See and clone, open issues, comment.
    Read,
    /// Push, edit issues.
    Write,
    /// Settings, hooks, keys, collaborators.
    Admin,
    /// Everything, including deletion.
    Owner,
}

impl From<Permission> for crate::repo::Permission {
    fn from(permission: Permission) -> Self {
        match permission {
            Permission::None => Self::None,
            Permission::Read => Self::Read,
            Permission::Write => Self::Write,
            Permission::Admin => Self::Admin,
            Permission::Owner => Self::Owner,
        }
    }
}

impl From<crate::repo::Permission> for Permission {
    /// Converts an unspecified level to [`Permission::None`].
    fn from(permission: crate::repo::Permission) -> Self {
        match permission {
            crate::repo::Permission::Unspecified | crate::repo::Permission::None => Self::None,
            crate::repo::Permission::Read => Self::Read,
            crate::repo::Permission::Write => Self::Write,
            crate::repo::Permission::Admin => Self::Admin,
            crate::repo::Permission::Owner => Self::Owner,
        }
    }
}

impl std::fmt::Display for Permission {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
            Self::Owner => "owner",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [Permission; 5] =
        [Permission::None, Permission::Read, Permission::Write, Permission::Admin, Permission::Owner];

    #[test]
    fn each_level_includes_those_before_it() {
        for pair in LEVELS.windows(2) {
            assert!(pair[0] < pair[1], "{pair:?}");
        }
    }

    #[test]
    fn levels_are_converted_to_messages_and_back() {
        for level in LEVELS {
            assert_eq!(Permission::from(crate::repo::Permission::from(level)), level);
        }
    }

    #[test]
    fn a_level_that_is_not_set_is_no_permission() {
        assert_eq!(Permission::from(crate::repo::Permission::Unspecified), Permission::None);
    }
}
