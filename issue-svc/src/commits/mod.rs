//! Closes and reopens issues when commit messages on default branches say so.
//!
//! The transaction that receives the event of a default branch update stores a scan
//! ([`ScanQueue`]). A background task ([`CommitScanner`]) gets the commits from git-svc, parses
//! their messages, asks repo-svc what the pusher may do in the repositories they mention, and
//! passes the references to the store. The store applies each commit to an issue once and checks
//! the right to close it.

mod queue;
mod scanner;
mod targets;

#[cfg(test)]
mod tests;

pub(crate) use queue::ScanQueue;
pub(crate) use scanner::CommitScanner;
