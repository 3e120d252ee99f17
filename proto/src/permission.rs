use serde::{Deserialize, Serialize};

/// What a caller may do to a repository; each level includes those before it, and they compare in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// Nothing, not even knowing that the repository exists.
    None,
    /// See and clone, open issues, comment.
    Read,
    /// Push, edit issues.
    Write,
    /// Settings, hooks, keys, collaborators.
    Admin,
    /// Everything, deletion included.
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
    /// Anything that is not a known level is no permission at all.
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
mod tests;
