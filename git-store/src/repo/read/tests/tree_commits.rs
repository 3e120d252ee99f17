//! The last commits of the entries of folders, compared with `git rev-list`.

use std::time::Duration;

use git2::{Oid, Repository};

use super::data::{empty_repository, rev_list, start_deadline, tangled, who};
use crate::{
    repo::read::{
        CommitSummary, Deadline, EntryKind,
        tree_commits::{MAX_LISTED_ENTRIES, MAX_VISITED_COMMITS, TreeCommits, tree_commits},
    },
    types::{error::GitError, path::TreePath},
};

fn found(repo: &Repository, commit: Oid, folder: &str, visits: usize) -> Result<TreeCommits, GitError> {
    let (deadline, _waiting) = start_deadline();
    tree_commits(repo, commit, &TreePath::clean(folder.as_bytes()).unwrap(), visits, &deadline)
}

fn commit(repo: &Repository, tree: Oid, parents: &[Oid], message: &str) -> Oid {
    let parents: Vec<_> = parents.iter().map(|id| repo.find_commit(*id).unwrap()).collect();
    let tree = repo.find_tree(tree).unwrap();
    repo.commit(None, &who(7), &who(8), message, &tree, &parents.iter().collect::<Vec<_>>()).unwrap()
}

#[test]
fn the_last_commit_of_an_entry_is_the_one_that_git_finds() {
    let (folder, repo) = empty_repository();
    let tip = tangled(&repo);
    let tips = rev_list(folder.path(), &[&tip.to_string()]);
    for tip in tips.iter().step_by(6) {
        for (of, names) in [("", &["d", "a"][..]), ("d", &["b", "c"])] {
            let found = found(&repo, Oid::from_str(tip).unwrap(), of, MAX_VISITED_COMMITS).unwrap();
            assert!(found.is_complete && !found.is_truncated);
            assert_eq!(found.commit.unwrap().id.to_string(), *tip);
            let listed: Vec<_> =
                found.entries.iter().map(|entry| String::from_utf8(entry.name.clone()).unwrap()).collect();
            // The tree of an early commit may lack the last file.
            assert!(!listed.is_empty() && names.starts_with(&listed.iter().map(String::as_str).collect::<Vec<_>>()));
            for (name, entry) in listed.iter().zip(&found.entries) {
                let path = if of.is_empty() { name.clone() } else { format!("{of}/{name}") };
                let wanted = rev_list(folder.path(), &["-1", tip, "--", &path]);
                let last = entry.last_commit.unwrap();
                assert_eq!([last.to_string()][..], wanted[..], "{tip} {path}");
                assert!(found.commits.iter().any(|commit| commit.id == last));
            }
        }
    }
}

#[test]
fn folders_come_first_and_the_limits_are_marked() {
    let (_folder, repo) = empty_repository();
    let blob = repo.blob(b"text").unwrap();
    let below = {
        let mut tree = repo.treebuilder(None).unwrap();
        tree.insert("x", blob, 0o100_644).unwrap();
        tree.write().unwrap()
    };
    let tree = |files: usize| {
        let mut tree = repo.treebuilder(None).unwrap();
        for name in ["z", "a", "a-b"] {
            tree.insert(name, below, 0o040_000).unwrap();
        }
        tree.insert("m", Oid::from_bytes(&[1; 20]).unwrap(), 0o160_000).unwrap();
        tree.insert("link", blob, 0o120_000).unwrap();
        for number in 0..files {
            tree.insert(format!("f{number:04}"), blob, 0o100_755).unwrap();
        }
        tree.write().unwrap()
    };
    let first = commit(&repo, tree(1), &[], "\n  Subject \n\nbody");
    let all = found(&repo, first, "/", 0).unwrap();
    let shown: Vec<_> =
        all.entries.iter().map(|entry| (entry.name.as_slice(), entry.kind, entry.mode, entry.size)).collect();
    let folder = |name: &'static [u8]| (name, EntryKind::Directory, 0o040_000, None);
    assert_eq!(
        shown,
        [
            folder(b"a"),
            folder(b"a-b"),
            (b"m", EntryKind::Submodule, 0o160_000, None),
            folder(b"z"),
            (b"f0000", EntryKind::File, 0o100_755, Some(4)),
            (b"link", EntryKind::Symlink, 0o120_000, Some(4)),
        ]
    );
    assert!(all.is_complete && !all.is_truncated);
    let [CommitSummary { id, subject, author, commit_seconds }] = &all.commits[..] else { panic!("one commit") };
    assert_eq!((*id, subject.as_str(), author.seconds, *commit_seconds), (first, "Subject", 7, 8));

    let second = commit(&repo, tree(2), &[first], "second");
    let third = commit(&repo, tree(3), &[second], "third");
    let last =
        |found: &TreeCommits, name: &[u8]| found.entries.iter().find(|entry| entry.name == name).unwrap().last_commit;
    let part = found(&repo, third, "", 1).unwrap();
    assert_eq!([&b"f0002"[..], b"f0001", b"z"].map(|name| last(&part, name)), [Some(third), None, None]);
    assert!(!part.is_complete);
    let whole = found(&repo, third, "", 2).unwrap();
    assert_eq!([&b"f0001"[..], b"z"].map(|name| last(&whole, name)), [Some(second), Some(first)]);
    assert!(whole.is_complete);
    // No time is left, which is no error.
    let (deadline, waiting) = Deadline::start(Duration::ZERO);
    let late = tree_commits(&repo, third, &TreePath::root(), MAX_VISITED_COMMITS, &deadline).unwrap();
    assert!(!late.is_complete && late.entries.iter().all(|entry| entry.last_commit.is_none()));
    drop(waiting);
    let gone = tree_commits(&repo, third, &TreePath::root(), MAX_VISITED_COMMITS, &deadline);
    assert!(matches!(gone, Err(GitError::ClientGone)));

    let many = found(&repo, commit(&repo, tree(MAX_LISTED_ENTRIES), &[], "many"), "", 0).unwrap();
    assert_eq!((many.entries.len(), many.is_truncated), (MAX_LISTED_ENTRIES, true));
    assert_eq!(many.entries.iter().filter(|entry| entry.kind == EntryKind::File).count(), MAX_LISTED_ENTRIES - 4);
    for path in ["none", "f0000", "m", "a/x", "a/x/y"] {
        assert!(matches!(found(&repo, third, path, 9), Err(GitError::PathNotFound)), "{path}");
    }
}
