//! The requests that are measured.

use clap::ValueEnum;

use crate::site::{BRANCHES, REPOSITORY, SEARCHED};
use crate::support::server::USER;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Read {
    /// A path that does not exist: what a request costs that no service is asked for.
    Unknown,
    /// A user.
    User,
    /// A repository.
    Repository,
    /// An issue with labels and a milestone, by another user.
    Issue,
    /// A page of such issues.
    Issues,
    /// A page of branches.
    Branches,
    /// A small file.
    Raw,
    /// A search for repositories that finds ten.
    Search,
}

impl Read {
    pub(crate) const ALL: [Self; 8] = [
        Self::Unknown,
        Self::User,
        Self::Repository,
        Self::Issue,
        Self::Issues,
        Self::Branches,
        Self::Raw,
        Self::Search,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::User => "user",
            Self::Repository => "repository",
            Self::Issue => "issue",
            Self::Issues => "issues",
            Self::Branches => "branches",
            Self::Raw => "raw",
            Self::Search => "search",
        }
    }

    /// The path and query.
    pub(crate) fn path(self) -> String {
        let repository = format!("/api/v1/repos/{USER}/{REPOSITORY}");
        match self {
            Self::Unknown => "/api/v1/unknown".to_owned(),
            Self::User => format!("/api/v1/users/{USER}"),
            Self::Repository => repository,
            Self::Issue => format!("{repository}/issues/1"),
            Self::Issues => format!("{repository}/issues?limit=10"),
            Self::Branches => format!("{repository}/branches?limit={BRANCHES}"),
            Self::Raw => format!("{repository}/raw/main/README.md"),
            Self::Search => format!("/api/v1/repos/search?q={SEARCHED}&limit=10"),
        }
    }

    /// The status of the answer.
    pub(crate) fn status(self) -> u16 {
        if self == Self::Unknown { 404 } else { 200 }
    }
}
