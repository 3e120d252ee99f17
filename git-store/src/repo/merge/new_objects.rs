//! Finds the objects of a merge that the repository has not.

use std::collections::HashSet;

use git2::{ObjectType, Oid};

use crate::{
    disk::{loose_objects::NewObject, scratch::Scratch},
    repo::read::submodule::{MAX_GITMODULES, Submodules},
    types::{error::GitError, path::is_dot_gitmodules},
};

/// Maximum number of new trees and files of one merge.
pub const MAX_NEW_OBJECTS: usize = 20_000;
/// Limit on new trees and files of one merge, in bytes.
pub const MAX_NEW_BYTES: u64 = 64 << 20;

/// Returns the objects below `trees` that are in the scratch folder. All others are in the
/// repository with everything below them. Blocking.
pub(super) fn find(scratch: &Scratch, trees: &[Oid]) -> Result<Vec<NewObject>, GitError> {
    let (mut found, mut seen, mut left) = (Vec::new(), HashSet::new(), MAX_NEW_BYTES);
    let mut queue: Vec<_> = trees.iter().map(|id| (*id, false)).collect();
    while let Some((id, is_gitmodules)) = queue.pop() {
        if !seen.insert((id, is_gitmodules)) {
            continue;
        }
        let object = match scratch.read(id, left) {
            Err(GitError::TooLarge { .. }) => return Err(too_large()),
            object => object?,
        };
        let Some(object) = object else { continue };
        match object.kind() {
            ObjectType::Tree => queue.extend(entries(object.content()).ok_or_else(unreadable)?),
            _ if is_gitmodules => check_gitmodules(object.content())?,
            _ => {}
        }
        left = left.checked_sub(object.content().len() as u64).ok_or_else(too_large)?;
        found.push(object);
        if found.len() > MAX_NEW_OBJECTS {
            let what = "the number of files and folders that the merge changes on both sides";
            return Err(GitError::TooLarge { what, limit: MAX_NEW_OBJECTS as u64 });
        }
    }
    // A file may be there under two names.
    found.sort_unstable_by_key(NewObject::id);
    found.dedup_by_key(|object| object.id());
    Ok(found)
}

/// Returns the entries of a tree but submodules, and whether git reads them as `.gitmodules`.
fn entries(tree: &[u8]) -> Option<Vec<(Oid, bool)>> {
    let (mut entries, mut rest) = (Vec::new(), tree);
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == 0)?;
        let space = rest[..end].iter().position(|byte| *byte == b' ')?;
        let (mode, name) = (&rest[..space], &rest[space + 1..end]);
        let id = Oid::from_bytes(rest.get(end + 1..end + 21)?).ok()?;
        if mode != b"160000" {
            entries.push((id, is_dot_gitmodules(&String::from_utf8_lossy(name))));
        }
        rest = &rest[end + 21..];
    }
    Some(entries)
}

/// Checks a file that two harmless ones may have become harmful in. For pushes, git does.
fn check_gitmodules(content: &[u8]) -> Result<(), GitError> {
    if content.len() as u64 > MAX_GITMODULES || !Submodules::parse(content).is_harmless() {
        let message = "the merged `.gitmodules` contains a submodule that git would reject";
        return Err(GitError::invalid("head", "invalid", message));
    }
    Ok(())
}

fn too_large() -> GitError {
    GitError::TooLarge { what: "the size of the files that the merge changes", limit: MAX_NEW_BYTES }
}

fn unreadable() -> GitError {
    GitError::Unreadable { what: "the merged folder" }
}
