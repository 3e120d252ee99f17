//! Parsing of texts: mentions, references, closing keywords, and the words of the search index. A text is parsed
//! once, when it is written.
//!
//! Pure functions over texts of any content. Each takes time linear in the length of its text, and returns at most what the constants
//! of its module allow.
//!
//! Not here: looking up the accounts, repositories and issues that are named.

mod bounds;
pub(crate) mod commit;
pub(crate) mod markdown;
mod scan;
#[cfg(test)]
mod timing;
pub(crate) mod words;

/// Owner and name of a repository, folded as repo-svc folds names for a lookup.
pub(crate) type RepositoryKey = (String, String);

/// A reference to an issue by its number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct IssueRef {
    /// The repository of the issue; `None` for the one that the text belongs to.
    pub(crate) repository: Option<RepositoryKey>,
    /// At least 1.
    pub(crate) number: i64,
}
