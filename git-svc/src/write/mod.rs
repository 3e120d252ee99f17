//! Commits made without a work tree: objects first, durable, then the caller moves the ref.

mod commit;
pub(crate) mod durable;
mod files;
mod first;
mod overlay;
pub(crate) mod room;
mod signature;

pub use self::{
    commit::{Draft, Prepared},
    files::{
        ChangeFiles, DeleteFile, FileChange, MAX_ALL, MAX_FILE, MAX_FILES, Operation, PutFile, change_files,
        delete_file, put_file,
    },
    first::{FirstCommit, initial_commit},
    signature::Author,
};

#[cfg(test)]
mod tests;
