//! The measured requests.

use clap::ValueEnum;
use ferrite_benches::history::MAIN;
use ferrite_benches::installation::USER;

use crate::files;
use crate::site::{BRANCHES, FOUND, REPOSITORY, SEARCHED};

/// Minimum length of a search text: shorter ones are also part of other names.
const MIN_SEARCHED_CHARS: usize = 6;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Read {
    /// A path that does not exist: the cost of a request without calls to services.
    Unknown,
    /// A user.
    User,
    /// A repository.
    Repository,
    /// A search for repositories with the same page of fifty results each time.
    Search,
    /// Searches for different texts with such a page.
    Searches,
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
    /// A commit that changes ten of 10,000 files, with the lines it adds and removes.
    Stats,
    /// The comparison of two branches of the same repository.
    Compare,
    /// The combined status of the same commit.
    Status,
}

impl Read {
    pub(crate) const ALL: [Self; 14] = [
        Self::Unknown,
        Self::User,
        Self::Repository,
        Self::Search,
        Self::Searches,
        Self::Issue,
        Self::Issues,
        Self::Contents,
        Self::Raw,
        Self::Commit,
        Self::Branches,
        Self::Stats,
        Self::Compare,
        Self::Status,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::User => "user",
            Self::Repository => "repository",
            Self::Search => "search",
            Self::Searches => "searches",
            Self::Issue => "issue",
            Self::Issues => "issues",
            Self::Contents => "contents",
            Self::Raw => "raw",
            Self::Commit => "commit",
            Self::Branches => "branches",
            Self::Stats => "stats",
            Self::Compare => "compare",
            Self::Status => "status",
        }
    }

    /// The path and query of a request.
    pub(crate) fn path(self, number: usize) -> String {
        let repository = format!("/api/v1/repos/{USER}/{REPOSITORY}");
        let files = format!("/api/v1/repos/{USER}/{}", files::REPOSITORY);
        let branch = files::BRANCH;
        match self {
            Self::Unknown => "/api/v1/unknown".to_owned(),
            Self::User => format!("/api/v1/users/{USER}"),
            Self::Repository => repository,
            Self::Search => format!("/api/v1/repos/search?q={SEARCHED}&limit={FOUND}"),
            Self::Searches => format!("/api/v1/repos/search?q={}&limit={FOUND}", searched(number)),
            Self::Issue => format!("{repository}/issues/1"),
            Self::Issues => format!("{repository}/issues?limit=10"),
            Self::Contents => format!("{repository}/contents/README.md"),
            Self::Raw => format!("{repository}/raw/main/README.md"),
            Self::Commit => format!("{repository}/commits/main"),
            Self::Branches => format!("{repository}/branches?limit={BRANCHES}"),
            Self::Stats => format!("{files}/git/commits/{branch}?stat=true&files=true"),
            Self::Compare => format!("{files}/compare/{MAIN}...{branch}"),
            Self::Status => format!("{files}/commits/{branch}/status"),
        }
    }

    /// Whether the server runs only one of them at a time for each user and refuses others.
    pub(crate) fn is_one_at_a_time(self) -> bool {
        matches!(self, Self::Stats | Self::Compare)
    }

    /// The status of the answer.
    pub(crate) fn status(self) -> u16 {
        if self == Self::Unknown { 404 } else { 200 }
    }
}

/// Part of the searched name.
fn searched(number: usize) -> &'static str {
    let chars = MIN_SEARCHED_CHARS + number % (SEARCHED.len() - MIN_SEARCHED_CHARS);
    let begin = number / (SEARCHED.len() - MIN_SEARCHED_CHARS) % (SEARCHED.len() - chars + 1);
    &SEARCHED[begin..begin + chars]
}
