//! Converts domain structs to messages.

use ferrite_core::timestamp;
use ferrite_proto::git::{
    self, Branch, ChangeStatus, ChangedFile, Commit, CommitSignature, EntryKind, Protection, Tag, TreeEntry,
};
use git_store::{
    repo::{
        read,
        read::{BranchInfo, CommitInfo, Signature, TagInfo, diff},
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

pub(super) fn tag(tag: TagInfo) -> Tag {
    Tag {
        name: tag.name,
        commit: Some(commit(tag.commit)),
        tag_id: tag.tag.map(|id| id.to_string()).unwrap_or_default(),
        message: tag.message.into_bytes(),
        is_truncated: tag.is_truncated,
    }
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
        changes: None,
    }
}

pub(super) fn changes(changes: diff::Changes) -> git::Changes {
    git::Changes {
        files: changes.files.into_iter().map(changed_file).collect(),
        file_count: total_count(changes.file_count),
        additions: count(changes.additions),
        deletions: count(changes.deletions),
        is_truncated: changes.is_truncated,
    }
}

fn changed_file(file: diff::ChangedFile) -> ChangedFile {
    let status = match file.status {
        diff::ChangeStatus::Added => ChangeStatus::Added,
        diff::ChangeStatus::Changed => ChangeStatus::Changed,
        diff::ChangeStatus::Deleted => ChangeStatus::Deleted,
        diff::ChangeStatus::Renamed => ChangeStatus::Renamed,
        diff::ChangeStatus::Copied => ChangeStatus::Copied,
        diff::ChangeStatus::TypeChanged => ChangeStatus::TypeChanged,
    };
    let id = |id: Oid| if id.is_zero() { String::new() } else { id.to_string() };
    ChangedFile {
        status: status.into(),
        path: file.path,
        old_path: file.old_path.unwrap_or_default(),
        old_mode: file.old_mode,
        new_mode: file.new_mode,
        old_id: id(file.old_id),
        new_id: id(file.new_id),
        similarity_percent: file.similarity,
        additions: count(file.additions),
        deletions: count(file.deletions),
        is_binary: file.is_binary,
    }
}

pub(super) fn signature(from: Signature) -> CommitSignature {
    let time = prost_types::Timestamp { seconds: from.seconds, nanos: 0 };
    CommitSignature { name: from.name.into_bytes(), email: from.email.into_bytes(), time: Some(time) }
}

pub(super) fn entry_kind(kind: read::EntryKind) -> EntryKind {
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
        merge_user_ids: rule.mergers,
        requires_current_head: rule.requires_current_head,
        required_approvals: rule.reviews.approvals.into(),
        approver_ids: rule.reviews.approvers,
        dismisses_stale_approvals: rule.reviews.dismisses_stale,
        ignores_stale_approvals: rule.reviews.ignores_stale,
        blocks_on_rejection: rule.reviews.blocks_on_rejection,
        blocks_on_requests: rule.reviews.blocks_on_requests,
    }
}

pub(super) fn total_count(total: usize) -> i64 {
    i64::try_from(total).unwrap_or(i64::MAX)
}

fn count(lines: u64) -> i64 {
    i64::try_from(lines).unwrap_or(i64::MAX)
}
