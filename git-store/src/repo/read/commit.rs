//! Reads commits within limits.

use git2::{Oid, Repository};

use crate::{
    repo::{
        objects::{self, ObjectHead},
        revision::Revision,
        text,
    },
    types::{
        error::GitError,
        limits::{MAX_COMMIT_BYTES, MAX_COMMIT_PARENTS},
    },
};

/// Author, committer or tagger, with the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// The name.
    pub name: String,
    /// The email address.
    pub email: String,
    /// Seconds since 1970.
    pub seconds: i64,
    /// Offset from UTC in minutes, positive to the east.
    pub offset_minutes: i32,
}

/// The fields of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitInfo {
    /// The commit's id.
    pub id: Oid,
    /// Its root tree.
    pub tree: Oid,
    /// Its parents, in order.
    pub parents: Vec<Oid>,
    /// The message.
    pub message: String,
    /// The author.
    pub author: Signature,
    /// The committer.
    pub committer: Signature,
    /// Whether the message, a name or an address was cut, or parents were left out.
    pub is_truncated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommitBounds {
    pub(super) message_bytes: usize,
    pub(super) parents: usize,
    pub(super) identity_bytes: usize,
}

/// Stored bytes read per message byte shown: UTF-16 uses two per letter.
const STORED_BYTES_PER_BYTE: usize = 2;

impl CommitBounds {
    /// Limits for reading a single commit. Only oversized ones exceed them.
    const SINGLE: Self =
        Self { message_bytes: MAX_COMMIT_BYTES, parents: MAX_COMMIT_PARENTS, identity_bytes: MAX_COMMIT_BYTES };
}

/// Resolves a revision and reads its commit.
pub fn commit(repo: &Repository, revision: &Revision) -> Result<CommitInfo, GitError> {
    commit_info(repo, revision.resolve(repo)?.commit)
}

/// Splits name and email of a line such as `Ada <ada@example.com> 0 +0000` as git does.
pub fn identity(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let open = line.iter().position(|byte| *byte == b'<')?;
    let (name, rest) = (&line[..open], &line[open + 1..]);
    let close = rest.iter().position(|byte| *byte == b'>')?;
    Some((name.trim_ascii(), &rest[..close]))
}

/// Reads a commit. An oversized one is truncated.
///
/// # Errors
/// `TooLarge` if the fields of an oversized commit cannot be read.
pub fn commit_info(repo: &Repository, id: Oid) -> Result<CommitInfo, GitError> {
    bounded_commit(repo, id, &CommitBounds::SINGLE)
}

pub(super) fn bounded_commit(repo: &Repository, id: Oid, bounds: &CommitBounds) -> Result<CommitInfo, GitError> {
    let head = objects::commit_head(repo, id, bounds.message_bytes.saturating_mul(STORED_BYTES_PER_BYTE))?;
    let (message, is_message_cut) = text::decode(&head.message, head.encoding(), bounds.message_bytes);
    let (author, is_author_cut) = signature_after(&head, b"author ", bounds.identity_bytes);
    let (committer, is_committer_cut) = signature_after(&head, b"committer ", bounds.identity_bytes);
    let is_cut = is_message_cut || is_author_cut || is_committer_cut || head.parents.len() > bounds.parents;
    Ok(CommitInfo {
        id,
        tree: head.tree()?,
        parents: head.parents.iter().copied().take(bounds.parents).collect(),
        message,
        author,
        committer,
        is_truncated: is_cut || head.is_cut,
    })
}

/// Returns an oversized commit of which only the id is known.
pub(super) fn unreadable_commit(id: Oid) -> CommitInfo {
    CommitInfo {
        id,
        tree: Oid::ZERO_SHA1,
        parents: Vec::new(),
        message: String::new(),
        author: Signature::default(),
        committer: Signature::default(),
        is_truncated: true,
    }
}

/// Returns the time of a commit in seconds since 1970, and its first [`MAX_COMMIT_PARENTS`]
/// parents. Both are empty for an oversized commit whose fields cannot be read.
pub fn time_and_parents(repo: &Repository, id: Oid) -> Result<(i64, Vec<Oid>), GitError> {
    match objects::commit_head(repo, id, 0) {
        Ok(head) => Ok((head.after(b"committer ").map_or(0, seconds_in), head.parents)),
        Err(GitError::TooLarge { .. }) => Ok((0, Vec::new())),
        Err(error) => Err(error),
    }
}

impl CommitInfo {
    pub(super) fn truncate(&mut self, bounds: &CommitBounds) {
        let mut is_cut = text::truncate(&mut self.message, bounds.message_bytes);
        for signature in [&mut self.author, &mut self.committer] {
            is_cut |= text::truncate(&mut signature.name, bounds.identity_bytes);
            is_cut |= text::truncate(&mut signature.email, bounds.identity_bytes);
        }
        self.is_truncated |= is_cut;
    }
}

/// Parses the header line that starts with `role`; empty if missing. Returns whether name or
/// address was longer than `max_bytes`.
pub(super) fn signature_after(head: &ObjectHead, role: &[u8], max_bytes: usize) -> (Signature, bool) {
    let line = head.after(role).unwrap_or_default();
    let (name, email) = identity(line).unwrap_or_default();
    let (name, is_name_cut) = text::decode(name, head.encoding(), max_bytes);
    let (email, is_email_cut) = text::decode(email, head.encoding(), max_bytes);
    let (seconds, offset_minutes) = date(line);
    (Signature { name, email, seconds, offset_minutes }, is_name_cut || is_email_cut)
}

fn seconds_in(line: &[u8]) -> i64 {
    date(line).0
}

/// Parses time and offset in minutes of a line such as `Ada <ada@example.com> 1136239445 +0100`. As
/// in git, the date follows the last `>`, with or without a space; an invalid or too large number
/// is zero.
fn date(line: &[u8]) -> (i64, i32) {
    let Some(end) = line.iter().rposition(|byte| *byte == b'>') else { return (0, 0) };
    let rest = line[end + 1..].trim_ascii_start();
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let signed = usize::from(rest.first() == Some(&b'-'));
    let (seconds, rest) = rest.split_at(signed + digits(&rest[signed..]));
    let rest = rest.trim_ascii_start();
    let offset = match rest.first() {
        Some(b'+' | b'-') => &rest[..1 + digits(&rest[1..])],
        _ => b"",
    };
    let offset: i32 = number(offset).unwrap_or(0);
    (number(seconds).unwrap_or(0), offset / 100 * 60 + offset % 100)
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(line: &[u8]) -> (String, String, i64, i32) {
        let object = [b"tree x\ncommitter ", line, b"\n\nm"].concat();
        let head = ObjectHead::parse(object.as_slice(), usize::MAX, 10).unwrap();
        let (signature, is_cut) = signature_after(&head, b"committer ", 1000);
        assert!(!is_cut && seconds_in(line) == signature.seconds);
        (signature.name, signature.email, signature.seconds, signature.offset_minutes)
    }

    #[test]
    fn a_signature_is_split_as_git_does() {
        let (name, email) = ("Ada L.", "ada@example.com");
        for (line, expected) in [
            ("Ada L. <ada@example.com> 1136239445 -0130", (name, email, 1_136_239_445, -90)),
            ("Ada L. <ada@example.com>1136239445 +0530", (name, email, 1_136_239_445, 330)),
            ("Ada L.<ada@example.com> 01136239445 +0000", (name, email, 1_136_239_445, 0)),
            ("Ada L. <ada@example.com> <ada@example.com> 7 +0100", (name, email, 7, 60)),
            ("Ada L. <ada@example.com>", (name, email, 0, 0)),
            ("Ada L. <ada@example.com> yesterday", (name, email, 0, 0)),
            ("Ada L. <ada@example.com> -5 +0000", (name, email, -5, 0)),
            ("Ada L. <ada@example.com> 18446744073709551617 +99999999999", (name, email, 0, 0)),
            ("Ada L. <ada@example.com> 7 +51800", (name, email, 7, 31_080)),
            ("Ada L. <ada@example.com> 7 0100", (name, email, 7, 0)),
            ("<ada@example.com> 7 +0100", ("", email, 7, 60)),
            (" <> 7 +0000", ("", "", 7, 0)),
            ("a> <none@none> 7 +0000", ("a>", "none@none", 7, 0)),
            ("Ada <a <b> 7 +0000", ("Ada", "a <b", 7, 0)),
            ("Ada 7 +0000", ("", "", 0, 0)),
            ("Ada <a 7 +0000", ("", "", 0, 0)),
            ("", ("", "", 0, 0)),
        ] {
            let (name, email, seconds, offset) = read(line.as_bytes());
            assert_eq!((name.as_str(), email.as_str(), seconds, offset), expected, "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_a_signature(line in "[^\n\\x00]{0,60}", bytes in proptest::collection::vec(1_u8.., 0..60)) {
            read(line.as_bytes());
            read(&bytes.into_iter().filter(|byte| *byte != b'\n').collect::<Vec<_>>());
        }
    }
}
