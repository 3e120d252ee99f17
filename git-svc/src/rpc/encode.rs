//! Domain structs as messages.

use ferrite_proto::git::{Branch, Commit, CommitSignature, EntryKind, TreeEntry};

use crate::read::{self, BranchInfo, CommitInfo, Person};

pub(super) fn branch(branch: BranchInfo) -> Branch {
    Branch { name: branch.name, commit: Some(commit(branch.commit)) }
}

pub(super) fn commit(commit: CommitInfo) -> Commit {
    Commit {
        id: commit.id.to_string(),
        tree_id: commit.tree.to_string(),
        parent_ids: commit.parents.iter().map(ToString::to_string).collect(),
        message: commit.message,
        author: Some(signature(commit.author)),
        committer: Some(signature(commit.committer)),
    }
}

pub(super) fn signature(person: Person) -> CommitSignature {
    let time = prost_types::Timestamp { seconds: person.seconds, nanos: 0 };
    CommitSignature { name: person.name, email: person.email, time: Some(time) }
}

pub(super) fn entry(entry: read::Entry) -> TreeEntry {
    let kind = match entry.kind {
        read::EntryKind::File => EntryKind::File,
        read::EntryKind::Directory => EntryKind::Directory,
        read::EntryKind::Symlink => EntryKind::Symlink,
        read::EntryKind::Submodule => EntryKind::Submodule,
    };
    TreeEntry {
        kind: kind.into(),
        name: entry.name,
        path: entry.path,
        id: entry.id.to_string(),
        size_bytes: i64::try_from(entry.size).unwrap_or(i64::MAX),
        content: entry.content.map(Into::into),
        submodule_url: entry.submodule_url,
    }
}
