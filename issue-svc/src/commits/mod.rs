//! Closing and opening issues by the messages of commits that arrive on default branches.
//!
//! An update of a default branch is stored in the transaction that delivers its event ([`ScanQueue`]). A background task
//! ([`CommitScanner`]) asks git-svc for the commits of the update, parses their messages, asks repo-svc what their pusher may do in the
//! repositories they name, and hands the references to the store, which applies each commit to an issue once.
//!
//! Not here: the grammar of messages (`ferrite_markdown::commit`), and the right to close an issue (the store).

mod queue;
mod scanner;
mod targets;

#[cfg(test)]
mod tests;

pub(crate) use queue::ScanQueue;
pub(crate) use scanner::CommitScanner;
