use std::fmt;

/// The role of a Ferrite process, which it proves with the key of the role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ServiceRole {
    /// The public interface.
    Gateway,
    /// Accounts, access and the metadata of repositories.
    RepoSvc,
    /// Issues.
    IssueSvc,
    /// Webhooks and feeds.
    HookSvc,
    /// Repositories on disk.
    GitSvc,
}

impl ServiceRole {
    /// All roles.
    pub const ALL: [Self; 5] = [Self::Gateway, Self::RepoSvc, Self::IssueSvc, Self::HookSvc, Self::GitSvc];

    /// Returns the name, as in tokens, names of key files, logs, and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::RepoSvc => "repo-svc",
            Self::IssueSvc => "issue-svc",
            Self::HookSvc => "hook-svc",
            Self::GitSvc => "git-svc",
        }
    }

    /// Returns the role with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

impl fmt::Display for ServiceRole {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
