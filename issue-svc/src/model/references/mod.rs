//! Parsing of texts: mentions, references, closing keywords, and the words of the search index. A text is parsed
//! once, when it is written.
//!
//! Pure functions over texts of any content. Each takes time linear in the length of its text, and returns at most what the constants
//! of its module allow.
//!
//! Not here: the signs themselves (`ferrite_markup`), and looking up the accounts, repositories and issues that are named.

pub(crate) mod commit;
pub(crate) mod markdown;
pub(crate) mod words;

pub(crate) use ferrite_markup::scan::{IssueRef, RepositoryKey};
