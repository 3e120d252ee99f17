//! Commits made without a work tree: objects first, durable, then the caller moves the ref.

mod commit;
pub(crate) mod durable;
mod first;
mod signature;

pub use self::{
    commit::{MAX_FILE, Prepared, PutFile, put_file},
    first::{FirstCommit, initial_commit},
    signature::Author,
};

#[cfg(test)]
mod tests;
