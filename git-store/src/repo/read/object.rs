//! Reads tags, refs and single objects.

use git2::{ObjectType, Oid, Repository};

use super::{
    commit::{CommitInfo, Signature, commit_info, signature_after},
    commit_list::{CommitList, MAX_LISTED_MESSAGE_BYTES, MAX_TEXT_BYTES},
    contents::MAX_RESPONSE_BYTES,
    entry::read_blob,
};
use crate::{
    repo::{
        deltas::LoadCheck,
        objects,
        refs::{self, Page, RefEntry, RefPage, RefTable},
        revision::{object_by_id, object_id, peel},
        text,
    },
    types::{
        error::GitError,
        limits::{MAX_COMMIT_BYTES, MAX_LOADED_DELTA_OBJECT_BYTES},
        name::RefName,
    },
};

/// A tag and its commit, peeled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagInfo {
    /// The short name.
    pub name: Vec<u8>,
    /// The id of the tag object, if the tag is annotated.
    pub tag: Option<Oid>,
    /// The message of the tag object; empty without one.
    pub message: String,
    /// Whether the message was cut.
    pub is_truncated: bool,
    /// The commit.
    pub commit: CommitInfo,
}

/// A ref and its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefInfo {
    /// The full name.
    pub name: RefName,
    /// Its object.
    pub target: Oid,
    /// The type of its object.
    pub kind: ObjectType,
}

/// The fields of a tag object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagObject {
    /// The tag object's id.
    pub id: Oid,
    /// The name in the tag object, which may differ from the ref's.
    pub name: String,
    /// The message.
    pub message: String,
    /// The tagger; absent in some old tags.
    pub tagger: Option<Signature>,
    /// The object it points to.
    pub target: Oid,
    /// The type of that object.
    pub kind: ObjectType,
    /// Whether the message was cut.
    pub is_truncated: bool,
}

/// Returns a page of the tags that lead to a commit, sorted by name, and their total.
pub fn tag_refs(table: &RefTable, page: Page) -> RefPage {
    let tags = || table.rows(table.span(b"refs/tags/")).filter(|entry| entry.kind == ObjectType::Commit);
    let total = tags().count();
    let wanted = page.range(total);
    let entries = tags().skip(wanted.start).take(wanted.len()).cloned().collect();
    RefPage { entries, total }
}

/// Reads the tags of a page of [`tag_refs`]. Messages share [`MAX_TEXT_BYTES`].
pub fn tags(repo: &Repository, listed: &[RefEntry]) -> Result<Vec<TagInfo>, GitError> {
    let ids = listed.iter().map(|entry| entry.peeled.unwrap_or(entry.target));
    let commits = CommitList::read(repo, ids)?;
    let max_message_bytes = (MAX_TEXT_BYTES / listed.len().max(1)).min(MAX_LISTED_MESSAGE_BYTES);
    let tag = |(entry, commit): (&RefEntry, CommitInfo)| -> Result<TagInfo, GitError> {
        let name = entry.name.short().to_vec();
        let Some(id) = entry.peeled.map(|_| entry.target) else {
            return Ok(TagInfo { name, tag: None, message: String::new(), is_truncated: false, commit });
        };
        let (message, is_truncated) = match tag_message(repo, id, max_message_bytes) {
            Err(error) if error.is_unreadable() => (String::new(), true),
            message => message?,
        };
        Ok(TagInfo { name, tag: Some(id), message, is_truncated, commit })
    };
    listed.iter().zip(commits).map(tag).collect()
}

/// Reads the tag with this short name.
///
/// # Errors
/// `TagNotFound` if it does not exist or leads to no commit, and `TooLarge` if the fields of an
/// oversized tag or commit cannot be read.
pub fn tag(repo: &Repository, name: &[u8]) -> Result<TagInfo, GitError> {
    let full = RefName::parse(&[b"refs/tags/", name].concat()).map_err(|_| GitError::TagNotFound)?;
    let target = refs::lookup(repo, &full)?.ok_or(GitError::TagNotFound)?;
    let commit = peel(repo, target)?.ok_or(GitError::TagNotFound)?;
    let tag = (commit != target).then_some(target);
    let (message, is_truncated) = match tag {
        Some(id) => tag_message(repo, id, MAX_COMMIT_BYTES)?,
        None => (String::new(), false),
    };
    Ok(TagInfo { name: name.to_vec(), tag, message, is_truncated, commit: commit_info(repo, commit)? })
}

/// Reads the message of a tag object. Returns whether it was cut.
fn tag_message(repo: &Repository, id: Oid, max_bytes: usize) -> Result<(String, bool), GitError> {
    let head = objects::tag_head(repo, id, max_bytes)?;
    let (message, is_cut) = text::decode(&head.message, head.encoding(), max_bytes);
    Ok((message, is_cut || head.is_cut))
}

/// Converts a listed ref.
#[must_use]
pub fn listed_reference(entry: RefEntry) -> RefInfo {
    let kind = if entry.peeled.is_some() || entry.kind == ObjectType::Any { ObjectType::Tag } else { entry.kind };
    RefInfo { name: entry.name, target: entry.target, kind }
}

/// Reads one ref; `RefNotFound` if it is hidden, or belongs to a pull request.
pub fn reference(repo: &Repository, name: &RefName) -> Result<RefInfo, GitError> {
    if name.is_hidden() || name.is_of_pull() {
        return Err(GitError::RefNotFound);
    }
    let target = refs::lookup(repo, name)?.ok_or(GitError::RefNotFound)?;
    let (kind, _) = objects::read_header(repo, target)?;
    Ok(RefInfo { name: name.clone(), target, kind })
}

/// Reads the blob with this full or abbreviated id.
///
/// # Errors
/// `ObjectNotFound`, and `TooLarge` above 8 MiB or if it is a delta too large to load.
pub fn blob(repo: &Repository, id: &str) -> Result<(Oid, Vec<u8>), GitError> {
    let id = find(repo, id)?;
    match read_blob(&LoadCheck::new(repo), id, MAX_RESPONSE_BYTES) {
        Ok((_, Some(content))) => Ok((id, content)),
        Ok((size, None)) if size <= MAX_RESPONSE_BYTES => {
            let what = "the size of the blob's delta or base (read the raw file)";
            Err(GitError::TooLarge { what, limit: MAX_LOADED_DELTA_OBJECT_BYTES })
        }
        Ok((_, None)) => Err(GitError::TooLarge { what: "the blob (read the raw file)", limit: MAX_RESPONSE_BYTES }),
        Err(GitError::PathNotFound) => Err(GitError::ObjectNotFound),
        Err(error) => Err(error),
    }
}

/// Reads the tag object with this full or abbreviated id. An oversized message is truncated.
///
/// # Errors
/// `ObjectNotFound`, and `TooLarge` if the fields of an oversized tag cannot be read.
pub fn tag_object(repo: &Repository, id: &str) -> Result<TagObject, GitError> {
    let id = find(repo, id)?;
    let (kind, _) = objects::read_header(repo, id)?;
    if kind != ObjectType::Tag {
        return Err(GitError::ObjectNotFound);
    }
    let head = objects::tag_head(repo, id, MAX_COMMIT_BYTES)?;
    let (message, is_message_cut) = text::decode(&head.message, head.encoding(), MAX_COMMIT_BYTES);
    let (name, is_name_cut) = text::decode(head.after(b"tag ").unwrap_or_default(), head.encoding(), MAX_COMMIT_BYTES);
    let (tagger, is_tagger_cut) = signature_after(&head, b"tagger ", MAX_COMMIT_BYTES);
    Ok(TagObject {
        id,
        name,
        message,
        tagger: head.after(b"tagger ").map(|_| tagger),
        target: head.target()?,
        kind: match head.after(b"type ") {
            Some(b"commit") => ObjectType::Commit,
            Some(b"tree") => ObjectType::Tree,
            Some(b"blob") => ObjectType::Blob,
            Some(b"tag") => ObjectType::Tag,
            _ => ObjectType::Any,
        },
        is_truncated: head.is_cut || is_message_cut || is_name_cut || is_tagger_cut,
    })
}

fn find(repo: &Repository, id: &str) -> Result<Oid, GitError> {
    let digits = object_id(id.as_bytes()).ok_or(GitError::ObjectNotFound)?;
    object_by_id(repo, &digits)?.ok_or(GitError::ObjectNotFound)
}
