use std::time::Duration;

use git2::{ObjectType, Oid, Repository};

use super::super::*;
use crate::{
    repo::{
        refs::{Page, load},
        revision::Revision,
    },
    types::{error::GitError, limits::MAX_COMMIT_PARENTS, path::TreePath},
};

const PAGE: Page = Page { number: 1, size: 10 };

fn empty_repository() -> (tempfile::TempDir, Repository) {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repository::init_bare(folder.path()).unwrap();
    repo.set_head("refs/heads/main").unwrap();
    (folder, repo)
}

fn revision(text: &str) -> Revision {
    Revision::parse(text.as_bytes()).unwrap()
}

/// Writes a tree of files with the same content.
fn tree_of(repo: &Repository, entries: usize, suffix: &str) -> Oid {
    let blob = repo.blob(b"x").unwrap();
    let mut tree = Vec::new();
    for index in 0..entries {
        tree.extend_from_slice(format!("100644 {index:07}{suffix}\0").as_bytes());
        tree.extend_from_slice(blob.as_bytes());
    }
    repo.odb().unwrap().write(ObjectType::Tree, &tree).unwrap()
}

fn write_commit(repo: &Repository, tree: Oid, parents: &[Oid], message: &str) -> Oid {
    let parents: String = parents.iter().map(|id| format!("parent {id}\n")).collect();
    let people = "author Ada <ada@example.com> 100 +0000\ncommitter Bob <bob@example.com> 200 +0000\n";
    let text = format!("tree {tree}\n{parents}{people}\n{message}");
    repo.odb().unwrap().write(ObjectType::Commit, text.as_bytes()).unwrap()
}

fn set(repo: &Repository, name: &str, target: Oid) {
    repo.reference(name, target, true, "").unwrap();
}

#[test]
fn an_oversized_commit_is_truncated_wherever_it_is_read() {
    let (_folder, repo) = empty_repository();
    let tree = tree_of(&repo, 1, "");
    let first = write_commit(&repo, tree, &[], "First\n");
    let long = write_commit(&repo, tree, &[first], &"m".repeat(3 << 20));
    let above = write_commit(&repo, tree, &[long], "Above\n");
    set(&repo, "refs/heads/main", above);
    set(&repo, "refs/heads/long", long);
    let single = commit(&repo, &revision("long")).unwrap();
    assert_eq!((single.message.len(), single.is_truncated, single.parents), (1 << 20, true, vec![first]));
    assert_eq!((single.author.name.as_str(), single.committer.seconds), ("Ada", 200));
    let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
    let page = log(&repo, &revision("main"), PAGE, &deadline).unwrap();
    let shown: Vec<_> = page.commits.iter().map(|commit| (commit.id, commit.message.len())).collect();
    assert_eq!(shown, [(above, 6), (long, 64 << 10), (first, 6)]);
    let flags: Vec<_> = page.commits.iter().map(|commit| commit.is_truncated).collect();
    assert_eq!((flags, page.total), (vec![false, true, false], Some(3)));
    let path = TreePath::clean(b"0000000").unwrap();
    let changes = log_of_path(&repo, &revision("main"), &path, PAGE, 100, &deadline).unwrap();
    let log::PathLog::Page(changes) = changes else { panic!("a page") };
    assert_eq!(changes.commits.iter().map(|commit| commit.id).collect::<Vec<_>>(), [first]);
    let listed = branches(&repo, &load(&repo).unwrap().page(b"refs/heads/", PAGE).entries).unwrap();
    assert_eq!(listed[0].commit.message.len(), 64 << 10);
    let pushed = pushed_commits(&repo, first, above, 10, &deadline).unwrap();
    assert_eq!(pushed.iter().map(|commit| commit.message.len()).collect::<Vec<_>>(), [64 << 10, 6]);
    assert_eq!(raw(&repo, b"long/0000000").unwrap().content.as_deref(), Some(b"x".as_slice()));
}

#[test]
fn an_oversized_tag_leads_to_its_commit() {
    let (_folder, repo) = empty_repository();
    let first = write_commit(&repo, tree_of(&repo, 1, ""), &[], "First\n");
    let text = format!("object {first}\ntype commit\ntag v1\ntagger Ada <a@x> 5 +0000\n\n{}", "m".repeat(3 << 20));
    let tag = repo.odb().unwrap().write(ObjectType::Tag, text.as_bytes()).unwrap();
    set(&repo, "refs/tags/v1", tag);
    assert_eq!(commit(&repo, &revision("v1")).unwrap().id, first);
    let shown = tag_object(&repo, &tag.to_string()).unwrap();
    assert_eq!((shown.message.len(), shown.is_truncated, shown.target), (1 << 20, true, first));
    assert_eq!(shown.tagger.unwrap().seconds, 5);
    let listed = tags(&repo, &tag_refs(&load(&repo).unwrap(), PAGE).entries).unwrap();
    assert_eq!((listed[0].tag, listed[0].commit.id), (Some(tag), first));
}

#[test]
fn parents_without_number_are_cut() {
    let (_folder, repo) = empty_repository();
    let tree = tree_of(&repo, 1, "");
    let first = write_commit(&repo, tree, &[], "First\n");
    for count in [5000, 50_000] {
        let wide = write_commit(&repo, tree, &vec![first; count], "Wide\n");
        set(&repo, "refs/heads/main", wide);
        let shown = commit(&repo, &revision("main")).unwrap();
        assert_eq!((shown.parents.len(), shown.is_truncated), (MAX_COMMIT_PARENTS, true));
        assert_eq!(shown.message, "Wide\n");
        let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
        let page = log(&repo, &revision("main"), PAGE, &deadline).unwrap();
        assert_eq!((page.commits.len(), page.commits[0].parents.len()), (2, commit_list::MAX_LISTED_PARENTS));
    }
}

#[test]
fn a_folder_whose_list_would_be_too_long_is_refused() {
    let (_folder, repo) = empty_repository();
    let at = |entries: usize, suffix: &str| {
        set(&repo, "refs/heads/main", write_commit(&repo, tree_of(&repo, entries, suffix), &[], "m"));
        contents(&repo, &revision("main"), &TreePath::root())
    };
    assert!(matches!(at(20_001, ""), Err(GitError::TooLarge { limit: 20_000, .. })));
    assert!(matches!(at(1000, &"p".repeat(4000)), Err(GitError::TooLarge { limit: 16_777_216, .. })));
    let Target::Directory(entries) = at(500, &"p".repeat(4000)).unwrap().target else { panic!("a directory") };
    assert_eq!(entries.len(), 500);
}

#[test]
fn folders_in_each_other_are_bounded_together() {
    let (_folder, repo) = empty_repository();
    let odb = repo.odb().unwrap();
    let blob = repo.blob(b"x").unwrap();
    let mut below = tree_of(&repo, 1, "");
    // Each folder starts with the next one, so a walk has all of them in memory.
    for _ in 0..5 {
        let mut tree = [b"40000 a\0".as_slice(), below.as_bytes()].concat();
        for index in 0..60_000 {
            tree.extend_from_slice(format!("100644 b{index:05}{}\0", "p".repeat(240)).as_bytes());
            tree.extend_from_slice(blob.as_bytes());
        }
        below = odb.write(ObjectType::Tree, &tree).unwrap();
    }
    set(&repo, "refs/heads/main", write_commit(&repo, below, &[], "m"));
    let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
    let listed = tree(&repo, &revision("main"), true, &deadline);
    assert!(matches!(listed, Err(GitError::TooLarge { what: "the size of the folders above a path", .. })));
    assert!(tree(&repo, &revision("main"), false, &deadline).unwrap().is_truncated);
}
