//! Converts domain structs to messages.

use ferrite_core::timestamp;
use ferrite_proto::git::{Branch, Commit, CommitSignature, EntryKind, Protection, TreeEntry};
use git_store::{
    repo::{
        read,
        read::{BranchInfo, CommitInfo, Signature},
    },
    types::{
        path::TreePath,
        protection::{Rule, Rules},
    },
};
use git2::Oid;

pub(super) fn branch(branch: BranchInfo, rules: &Rules) -> Branch {
    let is_protected = rules.protect(&branch.name);
    Branch { name: branch.name, commit: Some(commit(branch.commit)), is_protected }
}

pub(super) fn commit(commit: CommitInfo) -> Commit {
    Commit {
        id: commit.id.to_string(),
        tree_id: commit.tree.to_string(),
        parent_ids: commit.parents.iter().map(ToString::to_string).collect(),
        message: commit.message.into_bytes(),
        author: Some(signature(commit.author)),
        committer: Some(signature(commit.committer)),
        is_truncated: commit.is_truncated,
    }
}

pub(super) fn signature(from: Signature) -> CommitSignature {
    let time = prost_types::Timestamp { seconds: from.seconds, nanos: 0 };
    CommitSignature { name: from.name.into_bytes(), email: from.email.into_bytes(), time: Some(time) }
}

fn entry_kind(kind: read::EntryKind) -> EntryKind {
    match kind {
        read::EntryKind::File => EntryKind::File,
        read::EntryKind::Directory => EntryKind::Directory,
        read::EntryKind::Symlink => EntryKind::Symlink,
        read::EntryKind::Submodule => EntryKind::Submodule,
    }
}

pub(super) fn entry(entry: read::Entry) -> TreeEntry {
    TreeEntry {
        kind: entry_kind(entry.kind).into(),
        name: entry.name,
        path: entry.path,
        id: entry.id.to_string(),
        size_bytes: i64::try_from(entry.size).unwrap_or(i64::MAX),
        content: entry.content.map(Into::into),
        submodule_url: entry.submodule_url,
    }
}

/// Returns the kind, path and id of an entry, from which its version is computed. They determine
/// its content.
pub(super) fn entry_version(kind: read::EntryKind, path: &TreePath, id: Oid) -> TreeEntry {
    let (kind, path, id) = (entry_kind(kind).into(), path.as_bytes().to_vec(), id.to_string());
    TreeEntry { kind, path, id, ..TreeEntry::default() }
}

pub(super) fn protection(rule: Rule) -> Protection {
    Protection {
        id: rule.id,
        pattern: rule.pattern.as_str().to_owned(),
        allow_force: rule.allow_force,
        allow_delete: rule.allow_delete,
        forbids_push: rule.forbids_push,
        push_user_ids: rule.users,
        requires_checks: rule.checks.are_required,
        required_contexts: rule.checks.contexts,
        created_time: Some(timestamp(rule.created_us)),
        updated_time: Some(timestamp(rule.updated_us)),
    }
}

pub(super) fn total_count(total: usize) -> i64 {
    i64::try_from(total).unwrap_or(i64::MAX)
}
