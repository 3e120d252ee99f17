//! The commits that merges, rebases and reverts make.

use git2::{ObjectType, Oid};

use super::MergeDraft;
use crate::{
    disk::loose_objects::NewObject,
    repo::{
        objects::ObjectHead,
        write::{Author, check_message, commit_content},
    },
    types::error::GitError,
};

impl MergeDraft {
    pub(super) fn check(&self) -> Result<(), GitError> {
        check_message(&self.message)
    }

    pub(super) fn commit(&self, tree: Oid, parents: &[Oid]) -> Result<NewObject, GitError> {
        let content = commit_content(tree, parents, (&self.author, &self.committer), &self.message);
        NewObject::new(ObjectType::Commit, content)
    }
}

/// Returns a commit with author, message and encoding of another. Its signature, which is of the
/// other, is left out.
pub(super) fn replayed(
    original: &ObjectHead,
    tree: Oid,
    parent: Oid,
    committer: &Author,
) -> Result<NewObject, GitError> {
    let author = original.after(b"author ").ok_or(GitError::Unreadable { what: "the author of a commit" })?;
    let mut content = format!("tree {tree}\nparent {parent}\nauthor ").into_bytes();
    content.extend_from_slice(author);
    content.extend_from_slice(format!("\ncommitter {}\n", committer.line()).as_bytes());
    if let Some(encoding) = original.encoding() {
        content.extend_from_slice(b"encoding ");
        content.extend_from_slice(encoding);
        content.push(b'\n');
    }
    content.push(b'\n');
    content.extend_from_slice(&original.message);
    NewObject::new(ObjectType::Commit, content)
}
