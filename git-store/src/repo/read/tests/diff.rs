//! Diffs compared with what a plain `git diff` prints in the same repository.

mod ahead;
mod whitespace;

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use git2::{Oid, Repository};
use tokio::io::AsyncReadExt as _;

use super::super::diff::{
    Ahead, ChangeLimits, ChangeStatus, ChangedFile, Changes, Diff, DiffPair, LineKind, MAX_FILES, MAX_LINES, ahead,
    ahead_by_git, read_changes, read_diff,
};
use crate::{
    git::command::{
        Git, GitChild, GitOptions,
        diff::{DiffBase, Whitespace},
    },
    repo::{read::Deadline, refs::Page},
    types::error::GitError,
};

const FILE: i32 = 0o100_644;
const PROGRAM: i32 = 0o100_755;
const LINK: i32 = 0o120_000;
const SUBMODULE: i32 = 0o160_000;

const SHOW_ALL: Whitespace = Whitespace::ShowAll;

/// Path, content or id, and mode.
type File<'a> = (&'a [u8], &'a [u8], i32);
type Files<'a> = [File<'a>];

struct Fixture {
    folder: tempfile::TempDir,
    repo: Repository,
    git: Git,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(folder.path()).unwrap();
        Self { folder, repo, git: Git::find(GitOptions::default()).await.unwrap() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn tree(&self, files: &Files<'_>) -> Oid {
        let mut tree = self.repo.treebuilder(None).unwrap();
        for (name, content, mode) in files {
            let id = match *mode {
                SUBMODULE => Oid::from_str(std::str::from_utf8(content).unwrap()).unwrap(),
                _ => self.repo.blob(content).unwrap(),
            };
            tree.insert(*name, id, *mode).unwrap();
        }
        tree.write().unwrap()
    }

    fn commit(&self, tree: Oid, parents: &[Oid], seconds: i64, message: &str) -> Oid {
        let who = git2::Signature::new("Ada L\u{e4}", "ada@example.com", &git2::Time::new(seconds, 60)).unwrap();
        let tree = self.repo.find_tree(tree).unwrap();
        let parents: Vec<_> = parents.iter().map(|id| self.repo.find_commit(*id).unwrap()).collect();
        self.repo.commit(None, &who, &who, message, &tree, &parents.iter().collect::<Vec<_>>()).unwrap()
    }

    /// What git prints with its own defaults.
    fn plain(&self, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new("git");
        let path = std::env::vars_os().find(|(name, _)| name == "PATH").unwrap_or_default().1;
        command.env_clear().env("PATH", path).env("HOME", "/nonexistent");
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        let output = command.arg("-C").arg(self.path()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    async fn diff(&self, pair: DiffPair) -> Diff {
        read_diff(&self.git, self.path(), pair, SHOW_ALL).await.unwrap()
    }
}

/// Reads all output: a diff may be longer than what `finish` keeps.
async fn output(child: Result<GitChild, GitError>) -> Vec<u8> {
    let mut child = child.unwrap();
    let mut bytes = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut bytes).await.unwrap();
    assert!(child.wait().await.unwrap().success());
    bytes
}

/// Trees with every kind of change between them.
fn awkward(f: &Fixture) -> Vec<Oid> {
    let lines = |range: std::ops::Range<u32>| -> Vec<u8> {
        let line = |n: u32| {
            if n.is_multiple_of(20) { format!("int function_{n}(void)\n{{\n") } else { format!("\tline {n};\n") }
        };
        range.map(line).collect::<String>().into_bytes()
    };
    let (text, edited) = (lines(0..200), [lines(0..90), b"new\n".to_vec(), lines(95..200)].concat());
    let binary: Vec<u8> = (0..=255).collect();
    let similar: Vec<u8> = binary.iter().rev().copied().collect();
    let sub = "1234567890123456789012345678901234567890".as_bytes();
    let other = "abcdefabcdefabcdefabcdefabcdefabcdefabcd".as_bytes();
    let latin = b"caf\xe9\nna\xefve\n".repeat(20);
    let no_newline = b"one\ntwo\nthree";
    let headers = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-- \n++ \n\\ No newline at end of file\n";
    let attributes = b"* -diff\n*.txt binary\n";
    let drivers = b"*.c diff=cpp\n* text eol=crlf\n";
    let long = vec![b'x'; 20_000];
    let many: Vec<_> = (0..300).map(|n| (format!("many-{n}").into_bytes(), lines(n..n + 30))).collect();
    let of_many = |skip: usize| -> Vec<File<'_>> {
        many.iter().skip(skip).map(|(name, content)| (name.as_slice(), content.as_slice(), FILE)).collect()
    };
    let trees: Vec<Vec<File<'_>>> = vec![
        vec![],
        vec![
            (b"a.txt", &text, FILE),
            (b"bin", &binary, FILE),
            (b"empty", b"", FILE),
            (b"end", no_newline, FILE),
            (b"latin", &latin, FILE),
            (b"link", b"a.txt", LINK),
            (b"mode", b"#!/bin/sh\n", FILE),
            (b"sub", sub, SUBMODULE),
            (b"headers", headers, FILE),
        ],
        vec![
            (b"b.txt", &edited, PROGRAM),
            (b"bin", &similar, FILE),
            (b"end", b"one\ntwo\nthree\n", FILE),
            (b"latin", &latin[6..], FILE),
            (b"link", b"b.txt", LINK),
            (b"mode", b"#!/bin/sh\n", PROGRAM),
            (b"sub", other, SUBMODULE),
            (b"headers", &headers[20..], FILE),
            (b".gitattributes", attributes, FILE),
        ],
        vec![
            (b"a.txt", b"b.txt", LINK),
            (b"copy", &text, FILE),
            (b"copy of copy", &text, FILE),
            (b"link", b"no longer a link\n", FILE),
            (b"sub", b"no longer a submodule\n", FILE),
            (b"end", b"one\r\ntwo\r\nthree", FILE),
            (b".gitattributes", drivers, FILE),
            (b"x.c", &edited, FILE),
        ],
        vec![
            (b"tab\there", &text, FILE),
            (b"new\nline", &text[..400], FILE),
            (b"quote\"d", b"q\n", FILE),
            (b"back\\slash", b"b\n", FILE),
            (b" space ", b"s\n", FILE),
            (b"\xff\xfe", b"bytes\n", FILE),
            ("\u{e4}\u{1f600}".as_bytes(), b"utf-8\n", FILE),
            (b"-option", b"o\n", FILE),
            (b":colon", b"c\n", FILE),
            (b"end", b"", FILE),
            (b"long", &long, FILE),
        ],
        vec![
            (b"tab\tthere", &edited, FILE),
            (b"new\r\nline", &text[..500], FILE),
            (b"quote'd", b"q\n", FILE),
            (b"\xff", b"bytes\n", PROGRAM),
            ("\u{e4}\u{1f601}".as_bytes(), b"utf-8\n", LINK),
            (b"long", &long[1..], FILE),
            (b"nul", b"a\0b\n", FILE),
        ],
        of_many(0),
        of_many(40),
    ];
    let mut ids: Vec<Oid> = trees.iter().map(|files| f.tree(files)).collect();
    let nested = |tree: Oid, name: &str| {
        let mut outer = f.repo.treebuilder(None).unwrap();
        outer.insert(name, tree, 0o040_000).unwrap();
        outer.write().unwrap()
    };
    ids.push(nested(ids[1], "folder"));
    ids.push(nested(nested(ids[2], "deeper"), "folder"));
    ids
}

/// All pairs of commits, and each commit alone.
fn pairs(commits: &[Oid]) -> Vec<DiffPair> {
    let olds = || commits.iter().copied().map(Some).chain([None]);
    commits.iter().flat_map(|new| olds().map(|old| DiffPair { old, new: *new })).collect()
}

fn base_of(pair: DiffPair) -> DiffBase {
    pair.old.map_or(DiffBase::Empty, DiffBase::Commit)
}

/// The hunks of a diff as git prints them.
fn hunks(diff: &Diff) -> Vec<u8> {
    let mut text = Vec::new();
    diff.patches.iter().flat_map(|patch| &patch.hunks).for_each(|hunk| hunk.print(&mut text));
    text
}

/// The text of a diff without the lines before the hunks of each file.
fn without_headers(text: &[u8]) -> Vec<u8> {
    const HEADERS: [&[u8]; 13] = [
        b"diff --git ",
        b"index ",
        b"old mode ",
        b"new mode ",
        b"new file mode ",
        b"deleted file mode ",
        b"similarity index ",
        b"rename from ",
        b"rename to ",
        b"copy from ",
        b"copy to ",
        b"Binary files ",
        b"--- ",
    ];
    let mut kept = Vec::new();
    let mut lines = text.split_inclusive(|byte| *byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        // `---` and `+++` come together; a deleted line `-- …` may begin in the same way.
        let is_path = line.starts_with(b"--- ") && lines.peek().is_some_and(|next| next.starts_with(b"+++ "));
        if is_path {
            lines.next();
        } else if line.starts_with(b"--- ") || !HEADERS.iter().any(|header| line.starts_with(header)) {
            kept.extend_from_slice(line);
        }
    }
    kept
}

#[tokio::test]
async fn the_text_is_that_of_git_diff_and_the_data_agrees_with_it() {
    let f = Fixture::new().await;
    let commits: Vec<_> = awkward(&f).into_iter().map(|tree| f.commit(tree, &[], 1_000, "m")).collect();
    let pairs = pairs(&commits);
    let empty = "4b825dc642cb6eb9a060e54bf8d69288fbee4904".to_owned();
    let mut seen = Vec::new();
    for pair in &pairs {
        let (old, new) = (pair.old.map_or(empty.clone(), |old| old.to_string()), pair.new.to_string());
        let plain = f.plain(&["diff", &old, &new]);
        let ours = output(f.git.diff(f.path(), base_of(*pair), pair.new, false, SHOW_ALL)).await;
        assert!(ours == plain, "{old} {new}:\n{}", String::from_utf8_lossy(&ours));
        let ours = output(f.git.diff(f.path(), base_of(*pair), pair.new, true, SHOW_ALL)).await;
        assert!(ours == f.plain(&["diff", "--binary", &old, &new]), "{old} {new}");
        let diff = f.diff(*pair).await;
        assert!(!diff.changes.is_truncated && diff.patches.iter().all(|patch| !patch.is_truncated));
        let (data, text) = (hunks(&diff), without_headers(&plain));
        // Lines that look like headers are dropped by the test, not by the parser.
        if !plain.windows(13).any(|part| part == b"-- a/x\n+++ b/") {
            assert!(data == text, "{old} {new}:\n{}\n{}", data.escape_ascii(), text.escape_ascii());
        }
        let count = |kind| {
            let lines = diff.patches.iter().flat_map(|patch| &patch.hunks).flat_map(|hunk| &hunk.lines);
            lines.filter(|line| line.kind == kind).count() as u64
        };
        let changes = &diff.changes;
        assert_eq!((changes.additions, changes.deletions), (count(LineKind::Added), count(LineKind::Deleted)));
        seen.extend(changes.files.iter().map(|file| (file.status, file.is_binary)));
    }
    for status in [
        ChangeStatus::Added,
        ChangeStatus::Changed,
        ChangeStatus::Deleted,
        ChangeStatus::Renamed,
        ChangeStatus::TypeChanged,
    ] {
        assert!(seen.iter().any(|(found, _)| *found == status), "{status:?}");
    }
    assert!(seen.iter().any(|(_, is_binary)| *is_binary));
}

#[tokio::test]
async fn attributes_of_trees_and_of_the_head_do_not_count() {
    let f = Fixture::new().await;
    let tree = |content: &[u8]| f.tree(&[(b".gitattributes", b"* -diff\n", FILE), (b"a", content, FILE)]);
    let (one, two) = (f.commit(tree(b"1\n"), &[], 1, "m"), f.commit(tree(b"2\n"), &[], 2, "m"));
    f.repo.set_head("refs/heads/main").unwrap();
    f.repo.reference("refs/heads/main", two, true, "").unwrap();
    let diff = f.diff(DiffPair { old: Some(one), new: two }).await;
    assert!(!diff.changes.files[0].is_binary && diff.patches[0].hunks.len() == 1);
}

#[tokio::test]
async fn paths_modes_and_ids_are_bytes_and_numbers() {
    let f = Fixture::new().await;
    let content = "line\n".repeat(50).into_bytes();
    let old = f.tree(&[(b"from\n\xff", &content, FILE), (b"gone", b"x", LINK), (b"kept", b"y", FILE)]);
    let edited = [&content[..], b"more\n"].concat();
    let new = f.tree(&[(b"to\t\"", &edited, PROGRAM), (b"new", b"\0", FILE), (b"kept", b"y", FILE)]);
    let pair = DiffPair { old: Some(f.commit(old, &[], 1, "m")), new: f.commit(new, &[], 2, "m") };
    let Changes { files, file_count, additions, deletions, .. } = f.diff(pair).await.changes;
    assert_eq!((file_count, additions, deletions), (3, 1, 1));
    let [gone, made, moved] = &files[..] else { panic!("{files:?}") };
    assert_eq!((gone.status, gone.path.as_slice(), gone.old_mode), (ChangeStatus::Deleted, &b"gone"[..], 0o120_000));
    assert_eq!((gone.new_mode, gone.new_id), (0, Oid::ZERO_SHA1));
    assert_eq!((made.status, made.is_binary, made.old_id), (ChangeStatus::Added, true, Oid::ZERO_SHA1));
    assert_eq!((moved.status, moved.path.as_slice()), (ChangeStatus::Renamed, &b"to\t\""[..]));
    assert_eq!(moved.old_path.as_deref(), Some(&b"from\n\xff"[..]));
    assert_eq!((moved.old_mode, moved.new_mode, moved.additions), (0o100_644, 0o100_755, 1));
    assert!((50..100).contains(&moved.similarity), "{}", moved.similarity);
    assert_eq!(moved.new_id, f.repo.blob(&edited).unwrap());
}

/// A root, a commit without changes, two branches with a merge, and a commit after it.
fn history(f: &Fixture) -> Vec<Oid> {
    let tree = |names: &[&str]| {
        let files: Vec<_> = names.iter().map(|name| (name.as_bytes(), name.as_bytes(), FILE)).collect();
        f.tree(&files)
    };
    let root = f.commit(tree(&["a"]), &[], 10, "root");
    let empty = f.commit(tree(&["a"]), &[root], 20, "nothing");
    let main = f.commit(tree(&["a", "main"]), &[empty], 30, "main\n\nW\u{e4}nde\n");
    let side = f.commit(tree(&["a", "side"]), &[root], 40, "side");
    let more = f.commit(tree(&["a", "side", "more"]), &[side], 50, "more");
    let merge = f.commit(tree(&["a", "main", "side", "more"]), &[main, more], 60, "merge");
    let last = f.commit(tree(&["main", "side", "more"]), &[merge], 70, "last");
    vec![root, empty, main, side, more, merge, last]
}

#[tokio::test]
async fn the_commits_of_a_page_are_compared_with_their_first_parents_by_one_process() {
    let f = Fixture::new().await;
    let commits = history(&f);
    let first_parent = |id: Oid| f.repo.find_commit(id).unwrap().parent_id(0).ok();
    let pairs: Vec<_> = commits.iter().rev().map(|id| DiffPair { old: first_parent(*id), new: *id }).collect();
    let outcome = read_changes(&f.git, f.path(), &pairs, ChangeLimits::page()).await.unwrap();
    assert!(outcome.failure.is_none());
    let names = |changes: &Changes| {
        let names = changes.files.iter().map(|file| String::from_utf8_lossy(&file.path).into_owned());
        names.collect::<Vec<_>>().join(" ")
    };
    let shown: Vec<_> = outcome.changes.iter().map(|changes| names(changes.as_ref().unwrap())).collect();
    assert_eq!(shown, ["a", "more side", "more", "side", "main", "", "a"]);
    let lines: Vec<_> =
        outcome.changes.iter().flatten().map(|changes| (changes.additions, changes.deletions)).collect();
    assert_eq!(lines, [(0, 1), (2, 0), (1, 0), (1, 0), (1, 0), (0, 0), (1, 0)]);
    let files = ChangeLimits { with_lines: false, ..ChangeLimits::page() };
    let without = read_changes(&f.git, f.path(), &pairs, files).await.unwrap();
    assert!(without.changes.iter().flatten().all(|changes| changes.additions == 0));
    assert_eq!(without.changes.iter().flatten().map(names).collect::<Vec<_>>(), shown);
    assert!(read_changes(&f.git, f.path(), &[], files).await.unwrap().changes.is_empty());
}

#[tokio::test]
async fn an_object_that_is_missing_ends_the_list_and_is_told() {
    let f = Fixture::new().await;
    let commits = history(&f);
    let (good, bad) = (commits[2], commits[4]);
    let tree = f.repo.find_commit(bad).unwrap().tree_id().to_string();
    std::fs::remove_file(f.path().join("objects").join(&tree[..2]).join(&tree[2..])).unwrap();
    let pairs = [(good, commits[1]), (bad, commits[3]), (commits[1], commits[0])];
    let pairs = pairs.map(|(new, old)| DiffPair { old: Some(old), new });
    let outcome = read_changes(&f.git, f.path(), &pairs, ChangeLimits::page()).await.unwrap();
    assert!(matches!(outcome.failure, Some(GitError::Command { .. })), "{outcome:?}");
    assert_eq!(outcome.changes[0].as_ref().unwrap().files.len(), 1);
    assert!(outcome.changes[2].is_none());
    assert!(matches!(read_diff(&f.git, f.path(), pairs[1], SHOW_ALL).await, Err(GitError::Command { .. })));
    let gone = f.folder.path().join("none.git");
    assert!(matches!(read_diff(&f.git, &gone, pairs[0], SHOW_ALL).await, Err(GitError::RepositoryNotFound)));
}

#[tokio::test]
async fn patches_are_those_of_format_patch() {
    let f = Fixture::new().await;
    let commits = history(&f);
    let (root, side, more, merge) = (commits[0], commits[3], commits[4], commits[5]);
    for id in [side, more] {
        let parent = f.repo.find_commit(id).unwrap().parent_id(0).unwrap();
        let ours = output(f.git.format_patch(f.path(), DiffBase::Commit(parent), id)).await;
        let plain = f.plain(&["format-patch", "--stdout", "--no-signature", "-1", &id.to_string()]);
        assert!(ours == plain && ours.starts_with(format!("From {id} ").as_bytes()), "{}", ours.escape_ascii());
    }
    let ours = output(f.git.format_patch(f.path(), DiffBase::Empty, root)).await;
    assert_eq!(ours, f.plain(&["format-patch", "--stdout", "--no-signature", "--root", &root.to_string()]));
    // Of a merge: the commits that it brought.
    let ours = output(f.git.format_patch(f.path(), DiffBase::Commit(commits[2]), merge)).await;
    let ours = String::from_utf8(ours).unwrap();
    assert!(ours.contains("[PATCH 1/2] side") && ours.contains("[PATCH 2/2] more"), "{ours}");
}

#[tokio::test]
async fn a_diff_from_the_merge_base_is_that_of_three_dots() {
    let f = Fixture::new().await;
    let commits = history(&f);
    for (base, head) in [(2, 4), (4, 2), (0, 6), (6, 0), (3, 3)] {
        let (base, head) = (commits[base], commits[head]);
        let ours = output(f.git.diff(f.path(), DiffBase::MergeBase(base), head, false, SHOW_ALL)).await;
        assert_eq!(ours, f.plain(&["diff", &format!("{base}...{head}")]));
    }
    let alone = f.commit(f.tree(&[]), &[], 1, "alone");
    let failed = f.git.diff(f.path(), DiffBase::MergeBase(alone), commits[6], false, SHOW_ALL).unwrap();
    let failed = failed.finish(&[], Duration::from_secs(10)).await;
    assert!(matches!(failed, Err(GitError::Command { .. })), "{failed:?}");
}

#[tokio::test]
async fn a_large_diff_stays_within_its_bounds() {
    let f = Fixture::new().await;
    let (start, content) = (Instant::now(), b"0123456789012345678901234567890\n".repeat(1 << 17));
    let names: Vec<_> = (0..40).map(|n| format!("f{n:02}").into_bytes()).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_slice(), content.as_slice(), FILE)).collect();
    let large = f.commit(f.tree(&files), &[], 1, "m");
    let diff = f.diff(DiffPair { old: None, new: large }).await;
    assert!(!diff.changes.is_truncated, "all files are listed");
    assert_eq!((diff.changes.files.len(), diff.changes.additions), (40, 40 << 17));
    assert!(diff.patches.iter().all(|patch| patch.is_truncated));
    let lines: usize = diff.patches.iter().flat_map(|patch| &patch.hunks).map(|hunk| hunk.lines.len()).sum();
    assert!(lines > 0 && lines <= MAX_LINES, "{lines}");
    assert!(start.elapsed() < Duration::from_secs(60));

    let names: Vec<_> = (0..MAX_FILES + 10).map(|n| format!("{n:05}").into_bytes()).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_slice(), name.as_slice(), FILE)).collect();
    let many = f.commit(f.tree(&files), &[], 1, "m");
    let diff = f.diff(DiffPair { old: None, new: many }).await;
    let changes = &diff.changes;
    assert_eq!((changes.files.len(), changes.file_count, changes.is_truncated), (MAX_FILES, MAX_FILES + 10, true));
    assert_eq!(changes.additions, (MAX_FILES + 10) as u64);
    assert!(diff.patches.len() == MAX_FILES && diff.patches.iter().all(|patch| !patch.is_truncated));
}
