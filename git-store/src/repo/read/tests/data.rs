use std::{path::Path, process::Command, time::Duration};

use git2::{ObjectType, Oid, Repository, Signature, Time};

use super::super::*;
use crate::{
    repo::{
        read::{
            log::{PathLog, page_of, skipped},
            tree::MAX_ITEMS,
        },
        refs::{Page, load},
        revision::Revision,
    },
    types::{error::GitError, name::RefName, path::TreePath},
};

const ALL: Page = Page { number: 1, size: 1000 };

pub(super) fn who(seconds: i64) -> Signature<'static> {
    Signature::new("Ada", "ada@example.com", &Time::new(seconds, 0)).unwrap()
}

pub(super) fn empty_repository() -> (tempfile::TempDir, Repository) {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repository::init_bare(folder.path()).unwrap();
    repo.set_head("refs/heads/main").unwrap();
    (folder, repo)
}

pub(super) fn start_deadline() -> (Deadline, deadline::CancelOnDrop) {
    Deadline::start(Duration::from_secs(60))
}

pub(super) fn revision(text: &str) -> Revision {
    Revision::parse(text.as_bytes()).unwrap()
}

/// Returns the output lines of `git rev-list` with `args`.
pub(super) fn rev_list(repo: &Path, args: &[&str]) -> Vec<String> {
    let output = Command::new("git").arg("--git-dir").arg(repo).arg("rev-list").args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn ids(page: &LogPage) -> Vec<String> {
    page.commits.iter().map(|commit| commit.id.to_string()).collect()
}

/// A tree of three one-byte files.
fn tree_of(repo: &Repository, files: [u8; 3]) -> Oid {
    let blob = |number: u8| repo.blob(&[number]).unwrap();
    let mut dir = repo.treebuilder(None).unwrap();
    dir.insert("b", blob(files[1]), 0o100_644).unwrap();
    if files[2] > 0 {
        dir.insert("c", blob(files[2]), 0o100_644).unwrap();
    }
    let mut root = repo.treebuilder(None).unwrap();
    root.insert("a", blob(files[0]), 0o100_644).unwrap();
    root.insert("d", dir.write().unwrap(), 0o040_000).unwrap();
    root.write().unwrap()
}

/// A history with merges, equal times and files that come and go, from a fixed sequence of numbers.
pub(super) fn tangled(repo: &Repository) -> Oid {
    let mut state = 7_u32;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    let mut tips: Vec<(Oid, [u8; 3])> = Vec::new();
    for number in 0..120_u32 {
        let (mut parents, mut files) = (Vec::new(), [0, 0, 0]);
        if let Some((tip, state)) = tips.get(next(3) as usize % tips.len().max(1)) {
            (files, _) = (*state, parents.push(*tip));
        }
        if tips.len() > 1 && next(4) == 0 {
            let (other, state) = tips[next(u32::try_from(tips.len()).unwrap()) as usize];
            if !parents.contains(&other) {
                parents.push(other);
                files[next(3) as usize] = state[next(3) as usize];
            }
        }
        if next(3) > 0 {
            files[next(3) as usize] = u8::try_from(next(3)).unwrap();
        }
        let tree = repo.find_tree(tree_of(repo, files)).unwrap();
        let parents: Vec<_> = parents.into_iter().map(|id| repo.find_commit(id).unwrap()).collect();
        let author = who(1_000_000 + i64::from(number / 4));
        let commit = repo
            .commit(None, &author, &author, &format!("{number}"), &tree, &parents.iter().collect::<Vec<_>>())
            .unwrap();
        tips.insert(0, (commit, files));
        tips.truncate(4);
    }
    let parents: Vec<_> = tips.iter().map(|(id, _)| repo.find_commit(*id).unwrap()).collect();
    let tree = repo.find_tree(tree_of(repo, tips[0].1)).unwrap();
    let parents = parents.iter().collect::<Vec<_>>();
    repo.commit(Some("refs/heads/main"), &who(2_000_000), &who(2_000_000), "tip", &tree, &parents).unwrap()
}

#[test]
fn history_comes_in_gits_order_page_by_page() {
    let (folder, repo) = empty_repository();
    let tip = tangled(&repo);
    let (deadline, _waiting) = start_deadline();
    let wanted = rev_list(folder.path(), &[&tip.to_string()]);
    assert!(wanted.len() > 60);
    let all = log(&repo, &revision("main"), ALL, &deadline).unwrap();
    assert_eq!((ids(&all), all.has_more, all.total), (wanted.clone(), false, Some(wanted.len())));
    let second = log(&repo, &revision(""), Page { number: 2, size: 10 }, &deadline).unwrap();
    assert_eq!((ids(&second), second.has_more, second.total), (wanted[10..20].to_vec(), true, None));
    let beyond = log(&repo, &revision(""), Page { number: 1000, size: 1000 }, &deadline).unwrap();
    assert_eq!((beyond.commits.len(), beyond.total), (0, Some(wanted.len())));
    assert!(matches!(log(&repo, &revision("nope"), ALL, &deadline), Err(GitError::RevisionNotFound)));
}

/// libgit2 cannot parse the first commit, and the history is long enough for its walk.
#[test]
fn a_long_history_that_libgit2_cannot_read_is_listed_nevertheless() {
    let (_folder, repo) = empty_repository();
    let (odb, tree) = (repo.odb().unwrap(), tree_of(&repo, [1, 2, 3]));
    let who = "Ada <ada@example.com> 5 +0000";
    let mut tip =
        odb.write(ObjectType::Commit, format!("tree {tree}\nauthor Ada\ncommitter Ada\n\n0\n").as_bytes()).unwrap();
    assert!(repo.find_commit(tip).is_err());
    for number in 1..2100 {
        let text = format!("tree {tree}\nparent {tip}\nauthor {who}\ncommitter {who}\n\n{number}\n");
        tip = odb.write(ObjectType::Commit, text.as_bytes()).unwrap();
    }
    repo.reference("refs/heads/main", tip, true, "").unwrap();
    let (deadline, _waiting) = start_deadline();
    let last = log(&repo, &revision("main"), Page { number: 3, size: 1000 }, &deadline).unwrap();
    assert_eq!((last.commits.len(), last.total), (100, Some(2100)));
    assert_eq!((last.commits[99].message.as_str(), last.commits[99].author.seconds), ("0\n", 0));
}

#[test]
fn the_history_of_a_path_is_what_git_finds() {
    let (folder, repo) = empty_repository();
    let tip = tangled(&repo);
    let (deadline, _waiting) = start_deadline();
    for path in ["a", "d", "d/b", "d/c", "d/c/x", "none"] {
        let tree_path = TreePath::clean(path.as_bytes()).unwrap();
        let found = log_of_path(&repo, &revision("main"), &tree_path, ALL, 1_000_000, &deadline).unwrap();
        let PathLog::Page(found) = found else { panic!("{path}") };
        let wanted = rev_list(folder.path(), &[&tip.to_string(), "--", path]);
        assert_eq!((ids(&found), found.total), (wanted.clone(), Some(wanted.len())), "{path}");
        let page = Page { number: 2, size: 3 };
        let part = log_of_path(&repo, &revision("main"), &tree_path, page, 1_000_000, &deadline).unwrap();
        let PathLog::Page(part) = part else { panic!("{path}") };
        assert_eq!(ids(&part), wanted.iter().skip(skipped(page)).take(3).cloned().collect::<Vec<_>>(), "{path}");
    }
}

#[test]
fn a_walk_that_finds_nothing_ends_at_its_budget() {
    let (_folder, repo) = empty_repository();
    let tip = tangled(&repo);
    let (deadline, waiting) = start_deadline();
    let path = TreePath::clean(b"none").unwrap();
    let found = log_of_path(&repo, &revision(""), &path, ALL, 5, &deadline).unwrap();
    assert_eq!(found, PathLog::TooLong(tip));
    let ids: Vec<_> =
        log(&repo, &revision(""), ALL, &deadline).unwrap().commits.iter().map(|commit| commit.id).collect();
    let page = page_of(&repo, &ids[..4], Page { number: 2, size: 3 }).unwrap();
    assert_eq!((page.commits.len(), page.has_more, page.total), (3, true, None));
    let page = page_of(&repo, &ids[..3], Page { number: 2, size: 3 }).unwrap();
    assert_eq!((page.commits.len(), page.has_more, page.total), (3, false, Some(6)));
    drop(waiting);
    assert!(matches!(log(&repo, &revision(""), ALL, &deadline), Err(GitError::ClientGone)));
}

#[test]
fn a_repository_without_commits_has_an_empty_history() {
    let (_folder, repo) = empty_repository();
    let (deadline, _waiting) = start_deadline();
    for text in ["", "HEAD", "main"] {
        assert_eq!(log(&repo, &revision(text), ALL, &deadline).unwrap().total, Some(0), "{text}");
    }
    assert!(matches!(log(&repo, &revision("other"), ALL, &deadline), Err(GitError::RevisionNotFound)));
    let table = load(&repo).unwrap();
    assert_eq!((tag_refs(&table, ALL).total, table.page(b"", ALL).total), (0, 0));
    assert!(matches!(tree(&repo, &revision(""), false, &deadline), Err(GitError::RevisionNotFound)));
}

fn objects(repo: &Repository) -> (Oid, Oid) {
    let blob = |text: &[u8]| repo.blob(text).unwrap();
    let mut dir = repo.treebuilder(None).unwrap();
    dir.insert(b"\xff".as_slice(), blob(b"odd"), 0o100_755).unwrap();
    let dir = dir.write().unwrap();
    let mut root = repo.treebuilder(None).unwrap();
    root.insert("a.txt", blob(b"hello\n"), 0o100_644).unwrap();
    root.insert("dir", dir, 0o040_000).unwrap();
    root.insert("link", blob(b"a.txt"), 0o120_000).unwrap();
    root.insert("sub", Oid::from_str("1234567890123456789012345678901234567890").unwrap(), 0o160_000).unwrap();
    let root = root.write().unwrap();
    let tree = repo.find_tree(root).unwrap();
    let commit = repo.commit(Some("refs/heads/main"), &who(5), &who(5), "m", &tree, &[]).unwrap();
    (commit, root)
}

#[test]
fn trees_are_listed_with_modes_and_sizes() {
    let (_folder, repo) = empty_repository();
    let (commit, root) = objects(&repo);
    repo.reference("refs/tags/a-tree", root, false, "").unwrap();
    let (deadline, _waiting) = start_deadline();
    let flat = tree(&repo, &revision("main"), false, &deadline).unwrap();
    let shown: Vec<_> =
        flat.items.iter().map(|item| (String::from_utf8_lossy(&item.path), item.mode, item.size)).collect();
    assert_eq!(
        shown,
        [
            ("a.txt".into(), 0o100_644, Some(6)),
            ("dir".into(), 0o040_000, None),
            ("link".into(), 0o120_000, Some(5)),
            ("sub".into(), 0o160_000, None),
        ]
    );
    let deep = tree(&repo, &revision(&commit.to_string()[..7]), true, &deadline).unwrap();
    let paths: Vec<_> = deep.items.iter().map(|item| item.path.as_slice()).collect();
    assert_eq!(paths, [b"a.txt".as_slice(), b"dir", b"dir/\xff", b"link", b"sub"]);
    assert_eq!((deep.items[2].mode, deep.is_truncated), (0o100_755, false));
    for text in [&root.to_string(), &root.to_string()[..10], "a-tree", "refs/tags/a-tree", ""] {
        assert_eq!(tree(&repo, &revision(text), false, &deadline).unwrap(), flat, "{text}");
    }
    let blob = flat.items[0].id.to_string();
    for text in [&blob, "none", "main:dir", "main^{tree}", "0000000"] {
        let found = Revision::parse(text.as_bytes()).and_then(|revision| tree(&repo, &revision, false, &deadline));
        assert!(matches!(found, Err(GitError::RevisionNotFound)), "{text}");
    }
}

#[test]
fn a_tree_with_too_many_entries_is_truncated() {
    let (_folder, repo) = empty_repository();
    let mut id = repo.blob(b"x").unwrap();
    let mut mode = 0o100_644;
    for _ in 0..6 {
        let mut level = repo.treebuilder(None).unwrap();
        for name in 0..10 {
            level.insert(format!("{name}"), id, mode).unwrap();
        }
        (id, mode) = (level.write().unwrap(), 0o040_000);
    }
    let (deadline, _waiting) = start_deadline();
    let found = tree(&repo, &revision(&id.to_string()), true, &deadline).unwrap();
    assert_eq!((found.items.len(), found.is_truncated), (MAX_ITEMS, true));
    let mut chain = id;
    for _ in 0..20 {
        let mut level = repo.treebuilder(None).unwrap();
        level.insert("x".repeat(250), chain, 0o040_000).unwrap();
        chain = level.write().unwrap();
    }
    let found = tree(&repo, &revision(&chain.to_string()), true, &deadline);
    assert!(matches!(found, Err(GitError::TooLarge { .. })), "a path that is too long");
}

#[test]
fn tags_lead_to_their_commits() {
    let (_folder, repo) = empty_repository();
    let (commit, root) = objects(&repo);
    let target = repo.find_object(commit, None).unwrap();
    let annotated = repo.tag("v2", &target, &who(9), "two\n", false).unwrap();
    let nested = repo.tag("v3", &repo.find_object(annotated, None).unwrap(), &who(9), "three", false).unwrap();
    repo.reference("refs/tags/v1", commit, false, "").unwrap();
    repo.reference("refs/tags/a-tree", root, false, "").unwrap();
    let listed = tag_refs(&load(&repo).unwrap(), Page { number: 1, size: 2 });
    let found = tags(&repo, &listed.entries).unwrap();
    let shown: Vec<_> = found.iter().map(|tag| (String::from_utf8_lossy(&tag.name), tag.tag, tag.commit.id)).collect();
    assert_eq!((shown, listed.total), (vec![("v1".into(), None, commit), ("v2".into(), Some(annotated), commit)], 3));
    let object = tag_object(&repo, &nested.to_string()[..9]).unwrap();
    assert_eq!((object.target, object.kind, object.message), (annotated, ObjectType::Tag, "three".to_owned()));
    assert_eq!(object.tagger.unwrap().seconds, 9);
    for id in [commit.to_string(), "v2".to_owned(), "0".repeat(40), "-1234567".to_owned(), String::new()] {
        assert!(matches!(tag_object(&repo, &id), Err(GitError::ObjectNotFound)), "{id}");
    }
}

#[test]
fn refs_are_found_by_prefix_and_hidden_ones_never() {
    let (_folder, repo) = empty_repository();
    let (commit, root) = objects(&repo);
    for name in ["refs/heads/feature/one", "refs/heads/feature/two", "refs/ferrite/x", "refs/pull/1/head"] {
        repo.reference(name, commit, false, "").unwrap();
    }
    repo.reference("refs/tags/a-tree", root, false, "").unwrap();
    let table = load(&repo).unwrap();
    let page = table.page(b"refs/heads/feature", Page { number: 2, size: 1 });
    assert_eq!((page.entries[0].name.as_bytes(), page.total), (b"refs/heads/feature/two".as_slice(), 2));
    let kinds: Vec<_> = table.page(b"", ALL).entries.into_iter().map(|found| listed_reference(found).kind).collect();
    assert_eq!(kinds, [ObjectType::Commit, ObjectType::Commit, ObjectType::Commit, ObjectType::Tree]);
    assert_eq!(table.page(b"refs/pull", ALL).total, 0);
    let found = |name: &str| reference(&repo, &RefName::parse(name.as_bytes()).unwrap());
    assert_eq!(found("refs/tags/a-tree").unwrap().kind, ObjectType::Tree);
    for name in ["refs/heads/none", "refs/ferrite/x", "refs/pull/1/head", "refs/heads/feature"] {
        assert!(matches!(found(name), Err(GitError::RefNotFound)), "{name}");
    }
}

#[test]
fn blobs_come_whole_or_not_at_all() {
    let (_folder, repo) = empty_repository();
    let (commit, _) = objects(&repo);
    let id = repo.blob(b"hello\n").unwrap();
    assert_eq!(blob(&repo, &id.to_string()).unwrap(), (id, b"hello\n".to_vec()));
    assert_eq!(blob(&repo, &id.to_string()[..8].to_uppercase()).unwrap().0, id);
    let large = repo.blob(&vec![0; contents::MAX_RESPONSE_BYTES as usize + 1]).unwrap();
    assert!(matches!(blob(&repo, &large.to_string()), Err(GitError::TooLarge { .. })));
    for id in [&commit.to_string(), "main", "--all", "../../x"] {
        assert!(matches!(blob(&repo, id), Err(GitError::ObjectNotFound)), "{id}");
    }
}
