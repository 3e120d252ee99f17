//! Blames compared with what a plain `git blame` prints.

use std::{collections::BTreeSet, path::Path, process::Command};

use git2::{Oid, Repository};

use super::data::{empty_repository, revision, who};
use crate::{
    git::command::{Git, GitOptions},
    repo::read::blame::{BlameRange, BlamedFile, blamed_commits, blamed_file, read_blame},
    types::{error::GitError, path::TreePath},
};

const ODD: &str = "-new \"name\"\t\u{e4}";

/// Commits one file on top of another commit.
fn commit(repo: &Repository, name: &str, content: &[u8], mode: i32, parents: &[Oid], seconds: i64) -> Oid {
    let mut tree = repo.treebuilder(None).unwrap();
    tree.insert(name, repo.blob(content).unwrap(), mode).unwrap();
    let tree = repo.find_tree(tree.write().unwrap()).unwrap();
    let parents: Vec<_> = parents.iter().map(|id| repo.find_commit(*id).unwrap()).collect();
    let who = who(seconds);
    repo.commit(None, &who, &who, &format!("{seconds}\n"), &tree, &parents.iter().collect::<Vec<_>>()).unwrap()
}

/// A history in which lines come, move and go, under two names of the file.
fn edited(repo: &Repository) -> Oid {
    let mut lines: Vec<String> = (0..40).map(|line| format!("line {line}\n")).collect();
    let mut tip = commit(repo, "old", lines.concat().as_bytes(), 0o100_644, &[], 1);
    for number in 2..30_i64 {
        let at = usize::try_from(number * 7).unwrap() % lines.len();
        match number % 4 {
            0 => drop(lines.remove(at)),
            1 => lines[at] = format!("edited {number}\n"),
            _ => lines.insert(at, format!("new {number}\n")),
        }
        // With a branch now and then.
        let name = if number < 15 { "old" } else { ODD };
        let other = commit(repo, name, lines.concat().as_bytes(), 0o100_644, &[tip], number);
        tip = match number % 5 {
            0 => commit(repo, name, lines.concat().as_bytes(), 0o100_644, &[tip, other], number),
            _ => other,
        };
    }
    lines.push("without a line feed".to_owned());
    commit(repo, ODD, lines.concat().as_bytes(), 0o100_755, &[tip], 50)
}

/// Commit and original line of each line, as git prints them.
fn plain(folder: &Path, commit: Oid, path: &str) -> Vec<(String, u32)> {
    let mut command = Command::new("git");
    command.arg("--git-dir").arg(folder).args(["blame", "--porcelain"]).arg(commit.to_string()).args(["--", path]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let head = |line: &str| {
        let (id, rest) = line.split_once(' ')?;
        let is_id = id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| (id.to_owned(), rest.split(' ').next().unwrap().parse().unwrap()))
    };
    text.lines().filter_map(head).collect()
}

fn by_line(ranges: &[BlameRange]) -> Vec<(String, u32)> {
    let lines = ranges.iter().flat_map(|range| (0..range.lines).map(move |at| (range, at)));
    lines.map(|(range, at)| (range.commit.to_string(), range.original_start + at)).collect()
}

#[tokio::test]
async fn a_blame_is_that_of_git() {
    let (folder, repo) = empty_repository();
    let git = Git::find(GitOptions::default()).await.unwrap();
    let tip = edited(&repo);
    let path = TreePath::literal(ODD.as_bytes()).unwrap();
    let file = blamed_file(&repo, &revision(&tip.to_string()), &path).unwrap();
    let ranges = read_blame(&git, folder.path(), file, &path).await.unwrap();
    let lines = by_line(&ranges);
    assert_eq!(lines, plain(folder.path(), tip, ODD));
    assert_eq!((lines.len(), file.commit), (file.lines as usize, tip));
    let last = ranges.last().unwrap();
    assert_eq!((last.commit, last.original_path.as_slice(), last.lines), (tip, ODD.as_bytes(), 1));
    assert_eq!(last.previous.as_ref().unwrap().path, ODD.as_bytes());
    let first = ranges.iter().find(|range| range.previous.is_none()).unwrap();
    assert_eq!(first.original_path, b"old");
    let moved = ranges.iter().find(|range| range.original_path == ODD.as_bytes()).unwrap();
    assert!(moved.previous.is_some());
    let ids: BTreeSet<_> = ranges.iter().map(|range| range.commit).collect();
    let commits = blamed_commits(&repo, &ids).unwrap();
    assert_eq!(commits.iter().map(|commit| commit.id).collect::<BTreeSet<_>>(), ids);
    assert!(commits.iter().any(|commit| commit.subject == "50" && commit.author.seconds == 50));
}

#[tokio::test]
async fn only_texts_within_the_limits_are_blamed() {
    let (folder, repo) = empty_repository();
    let git = Git::find(GitOptions::default()).await.unwrap();
    let path = TreePath::clean(b"f").unwrap();
    let look = |content: &[u8], mode| {
        let commit = commit(&repo, "f", content, mode, &[], 1);
        blamed_file(&repo, &revision(&commit.to_string()), &path)
    };
    for (content, mode, code) in [
        (&b"x\0y"[..], 0o100_644, "invalid"),
        (b"target", 0o120_000, "invalid"),
        (&vec![b'x'; (1 << 20) + 1], 0o100_644, "too_large"),
        (&b"\n".repeat(20_001), 0o100_644, "too_large"),
    ] {
        let Err(GitError::Invalid(violation)) = look(content, mode) else { panic!("{code}") };
        assert_eq!((violation.field.as_str(), violation.code), ("file", code));
    }
    let empty = look(b"", 0o100_644).unwrap();
    assert!(read_blame(&git, folder.path(), empty, &path).await.unwrap().is_empty());
    let file = look(&b"\n".repeat(20_000), 0o100_644).unwrap();
    let ranges = read_blame(&git, folder.path(), file, &path).await.unwrap();
    assert_eq!(ranges.iter().map(|range| (range.start, range.lines)).collect::<Vec<_>>(), [(1, 20_000)]);
    let missing = TreePath::clean(b"g").unwrap();
    let head = revision(&file.commit.to_string());
    assert!(matches!(blamed_file(&repo, &head, &missing), Err(GitError::PathNotFound)));
    // What git cannot read is no empty blame.
    let unknown = BlamedFile { commit: Oid::from_bytes(&[1; 20]).unwrap(), lines: 1 };
    assert!(matches!(read_blame(&git, folder.path(), unknown, &path).await, Err(GitError::Command { .. })));
}
