//! Reads commits, each within bounds.

use git2::{Oid, Repository};

use crate::{
    repo::{
        objects::{self, ObjectHead},
        revision::Revision,
    },
    types::{
        error::GitError,
        limits::{MAX_COMMIT_BYTES, MAX_COMMIT_PARENTS},
    },
};

/// The author, committer or tagger of an object, and the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The name as stored.
    pub name: Vec<u8>,
    /// The email address as stored.
    pub email: Vec<u8>,
    /// Seconds since 1970.
    pub seconds: i64,
    /// Offset from UTC, in minutes to the east.
    pub offset_minutes: i32,
}

/// The fields of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitInfo {
    /// The commit's id.
    pub id: Oid,
    /// The id of its root tree.
    pub tree: Oid,
    /// The ids of its parents, in order.
    pub parents: Vec<Oid>,
    /// The message as stored.
    pub message: Vec<u8>,
    /// The author of the change.
    pub author: Signature,
    /// The committer.
    pub committer: Signature,
    /// True if the message, a name or an address is longer, or there are more parents.
    pub is_truncated: bool,
}

/// Bounds of what is read of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommitBounds {
    /// Bytes of the message.
    pub(super) message_bytes: usize,
    /// Number of parents.
    pub(super) parents: usize,
    /// Bytes of each name and each address.
    pub(super) identity_bytes: usize,
}

impl CommitBounds {
    /// Bounds of a commit that is read by itself: only an oversized one is beyond them.
    const SINGLE: Self =
        Self { message_bytes: MAX_COMMIT_BYTES, parents: MAX_COMMIT_PARENTS, identity_bytes: MAX_COMMIT_BYTES };
}

/// Resolves a revision, and reads its commit.
///
/// # Errors
/// `RevisionNotFound`.
pub fn commit(repo: &Repository, revision: &Revision) -> Result<CommitInfo, GitError> {
    commit_info(repo, revision.resolve(repo)?.commit)
}

/// Returns name and email address of a line such as `Ada <ada@example.com> 0 +0000`, split as git does.
pub(crate) fn identity(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let open = line.iter().position(|byte| *byte == b'<')?;
    let (name, rest) = (&line[..open], &line[open + 1..]);
    let close = rest.iter().position(|byte| *byte == b'>')?;
    Some((name.trim_ascii(), &rest[..close]))
}

/// Reads the commit with this id. An oversized one is truncated.
///
/// # Errors
/// `TooLarge` for an oversized commit whose fields cannot be read, and those of libgit2, also when the object is missing.
pub fn commit_info(repo: &Repository, id: Oid) -> Result<CommitInfo, GitError> {
    bounded_commit(repo, id, &CommitBounds::SINGLE)
}

/// Reads a commit within bounds.
///
/// # Errors
/// As [`commit_info`].
pub(super) fn bounded_commit(repo: &Repository, id: Oid, bounds: &CommitBounds) -> Result<CommitInfo, GitError> {
    let commit = match objects::find_commit(repo, id) {
        Ok(commit) => commit,
        Err(error @ GitError::TooLarge { .. }) => {
            let head = ObjectHead::read(repo, id, bounds.message_bytes)?;
            return head.and_then(|head| oversized_commit(id, head, bounds)).ok_or(error);
        }
        Err(error) => return Err(error),
    };
    let header = commit.raw_header_bytes();
    let message = commit.message_raw_bytes();
    let mut info = CommitInfo {
        id,
        tree: commit.tree_id(),
        parents: commit.parent_ids().take(bounds.parents).collect(),
        message: message[..message.len().min(bounds.message_bytes + 1)].to_vec(),
        author: signature_of(header, b"author ", &commit.author()),
        committer: signature_of(header, b"committer ", &commit.committer()),
        is_truncated: commit.parent_count() > bounds.parents,
    };
    info.truncate(bounds);
    Ok(info)
}

/// Returns the fields of an oversized commit; `None` if they are not in its header.
fn oversized_commit(id: Oid, head: ObjectHead, bounds: &CommitBounds) -> Option<CommitInfo> {
    let tree = head.id_after(b"tree ")?;
    let author = head.after(b"author ").and_then(signature_in)?;
    let committer = head.after(b"committer ").and_then(signature_in)?;
    let parents = head.parents.into_iter().take(bounds.parents).collect();
    let mut info = CommitInfo { id, tree, parents, message: head.message, author, committer, is_truncated: true };
    info.truncate(bounds);
    Some(info)
}

/// Returns an oversized commit of which only the id is known.
pub(super) fn unreadable_commit(id: Oid) -> CommitInfo {
    let nobody = Signature { name: Vec::new(), email: Vec::new(), seconds: 0, offset_minutes: 0 };
    CommitInfo {
        id,
        tree: Oid::ZERO_SHA1,
        parents: Vec::new(),
        message: Vec::new(),
        author: nobody.clone(),
        committer: nobody,
        is_truncated: true,
    }
}

/// Returns the time of a commit in seconds since 1970, and its parents, of which those after the first
/// [`MAX_COMMIT_PARENTS`] are left out. An oversized commit whose fields cannot be read has neither.
///
/// # Errors
/// Those of libgit2, also when the object is missing.
pub(crate) fn time_and_parents(repo: &Repository, id: Oid) -> Result<(i64, Vec<Oid>), GitError> {
    match objects::find_commit(repo, id) {
        Ok(commit) => Ok((commit.time().seconds(), commit.parent_ids().take(MAX_COMMIT_PARENTS).collect())),
        Err(GitError::TooLarge { .. }) => {
            let head = ObjectHead::read(repo, id, 0)?.unwrap_or_default();
            let committer = head.after(b"committer ").and_then(signature_in);
            Ok((committer.map_or(0, |committer| committer.seconds), head.parents))
        }
        Err(error) => Err(error),
    }
}

impl CommitInfo {
    /// Cuts the message, the names and the addresses.
    pub(super) fn truncate(&mut self, bounds: &CommitBounds) {
        let mut is_cut = cut(&mut self.message, bounds.message_bytes);
        for signature in [&mut self.author, &mut self.committer] {
            is_cut |= cut(&mut signature.name, bounds.identity_bytes);
            is_cut |= cut(&mut signature.email, bounds.identity_bytes);
        }
        self.is_truncated |= is_cut;
    }
}

/// Cuts a text, not within a character of UTF-8. Returns whether it was longer.
fn cut(text: &mut Vec<u8>, max_bytes: usize) -> bool {
    let is_longer = text.len() > max_bytes;
    if is_longer {
        let is_inner = |at: usize| text[at] & 0xc0 == 0x80;
        let end = (max_bytes.saturating_sub(3)..=max_bytes).rev().find(|at| !is_inner(*at)).unwrap_or(max_bytes);
        text.truncate(end);
        text.shrink_to_fit();
    }
    is_longer
}

/// Parses the rest of a header line, `Ada <ada@example.com> 1136239445 +0100`.
pub(super) fn signature_in(line: &[u8]) -> Option<Signature> {
    let (name, email) = identity(line)?;
    let end = line.iter().rposition(|byte| *byte == b'>')?;
    let mut rest = std::str::from_utf8(&line[end + 1..]).ok()?.split_ascii_whitespace();
    let seconds = rest.next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
    let offset: i32 = rest.next().and_then(|offset| offset.parse().ok()).unwrap_or(0);
    let offset_minutes = offset / 100 * 60 + offset % 100;
    Some(Signature { name: name.to_vec(), email: email.to_vec(), seconds, offset_minutes })
}

/// Returns the signature in the header line that begins with `role`. Name and address come from the line itself, because
/// libgit2, which read `signature`, strips full stops from the ends of names.
pub(super) fn signature_of(header: &[u8], role: &[u8], signature: &git2::Signature<'_>) -> Signature {
    let line = header.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(role));
    let (name, email) = line.and_then(identity).unwrap_or_else(|| (signature.name_bytes(), signature.email_bytes()));
    Signature {
        name: name.to_vec(),
        email: email.to_vec(),
        seconds: signature.when().seconds(),
        offset_minutes: signature.when().offset_minutes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        let cut = |text: &[u8], max| {
            let mut text = text.to_vec();
            let is_longer = super::cut(&mut text, max);
            (text, is_longer)
        };
        assert_eq!(cut(b"abc", 3), (b"abc".to_vec(), false));
        assert_eq!(cut(b"abc", 2), (b"ab".to_vec(), true));
        assert_eq!(cut("ab\u{20ac}".as_bytes(), 4), (b"ab".to_vec(), true));
        assert_eq!(cut(&[0x80; 9], 5), (vec![0x80; 5], true), "no UTF-8");
        assert_eq!(cut(b"abc", 0), (Vec::new(), true));
    }

    #[test]
    fn a_signature_is_read_from_its_line() {
        let signature = signature_in(b"Ada L. <ada@example.com> 1136239445 -0130").unwrap();
        assert_eq!((signature.name.as_slice(), signature.email.as_slice()), (&b"Ada L."[..], &b"ada@example.com"[..]));
        assert_eq!((signature.seconds, signature.offset_minutes), (1_136_239_445, -90));
        assert_eq!(signature_in(b"Ada <a>").map(|signature| signature.seconds), Some(0));
        assert_eq!(signature_in(b"Ada"), None);
    }
}
