//! The requests that are measured.

use clap::ValueEnum;

use crate::site::{BRANCHES, FOUND, REPOSITORY, SEARCHED};
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
    /// A search for repositories that finds a page of fifty.
    Search,
    /// An issue with labels and a milestone, by another user.
    Issue,
    /// A page of such issues.
    Issues,
    /// A small file as JSON.
    Contents,
    /// A small file.
    Raw,
    /// The newest commit of a branch.
    Commit,
    /// A page of branches.
    Branches,
}

impl Read {
    pub(crate) const ALL: [Self; 10] = [
        Self::Unknown,
        Self::User,
        Self::Repository,
        Self::Search,
        Self::Issue,
        Self::Issues,
        Self::Contents,
        Self::Raw,
        Self::Commit,
        Self::Branches,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::User => "user",
            Self::Repository => "repository",
            Self::Search => "search",
            Self::Issue => "issue",
            Self::Issues => "issues",
            Self::Contents => "contents",
            Self::Raw => "raw",
            Self::Commit => "commit",
            Self::Branches => "branches",
        }
    }

    /// The path and query.
    pub(crate) fn path(self) -> String {
        let repository = format!("/api/v1/repos/{USER}/{REPOSITORY}");
        match self {
            Self::Unknown => "/api/v1/unknown".to_owned(),
            Self::User => format!("/api/v1/users/{USER}"),
            Self::Repository => repository,
            Self::Search => format!("/api/v1/repos/search?q={SEARCHED}&limit={FOUND}"),
            Self::Issue => format!("{repository}/issues/1"),
            Self::Issues => format!("{repository}/issues?limit=10"),
            Self::Contents => format!("{repository}/contents/README.md"),
            Self::Raw => format!("{repository}/raw/main/README.md"),
            Self::Commit => format!("{repository}/commits/main"),
            Self::Branches => format!("{repository}/branches?limit={BRANCHES}"),
        }
    }

    /// The status of the answer.
    pub(crate) fn status(self) -> u16 {
        if self == Self::Unknown { 404 } else { 200 }
    }
}
