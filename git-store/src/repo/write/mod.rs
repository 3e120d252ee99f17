//! Makes commits and tags without a work tree: builds the objects; the caller writes them and moves
//! the ref.

mod changes;
mod commit;
mod files;
mod initial_commit;
mod overlay;
mod signature;
mod tag;
mod wiki;

pub use self::files::written_file;
pub use self::{
    commit::{CommitDraft, EntryPrecondition, PreparedCommit},
    files::{
        ChangeFiles, DeleteFile, FileChange, MAX_COMMIT_BYTES, MAX_FILES, Operation, PutFile, change_files,
        delete_file, put_file,
    },
    initial_commit::{InitialCommit, initial_commit},
    signature::{Author, CommitTime},
    tag::TagDraft,
    wiki::{NewPage, PageChange, PagePrecondition, PageRemoval, create_page, delete_page, update_page},
};

pub(super) use self::{
    commit::check_message,
    signature::{commit_content, with_trailer},
};

#[cfg(test)]
mod tests;
