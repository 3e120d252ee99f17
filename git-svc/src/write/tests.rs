use std::{path::Path, process::Command};

use git2::{Oid, Repository};

use super::*;
use crate::{error::GitError, name::BranchName, path::TreePath, read, templates::ReadmeValues};
use ferrite_proto::error::ServiceError as _;

struct Fixture {
    _folder: tempfile::TempDir,
    repo: Repository,
}

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repository::init_bare(folder.path()).unwrap();
    repo.set_head("refs/heads/main").unwrap();
    Fixture { _folder: folder, repo }
}

fn file(path: &str, content: &str) -> PutFile {
    PutFile {
        path: TreePath::strict(path.as_bytes()).unwrap(),
        content: content.as_bytes().to_vec(),
        message: format!("Write {path}"),
        branch: None,
        expected_blob: None,
        author: Author::new("Ada", "ada@example.com", 1_700_000_000),
    }
}

fn on(branch: &str, put: PutFile) -> PutFile {
    PutFile { branch: Some(BranchName::parse(branch.as_bytes()).unwrap()), ..put }
}

impl Fixture {
    /// Prepares the commit and moves the branch, as the caller does with `Refs`.
    fn put(&self, put: &PutFile) -> Prepared {
        let prepared = put_file(&self.repo, put).unwrap();
        let name = prepared.branch.to_ref();
        self.repo.reference(name.as_str().unwrap(), prepared.new_commit, true, "").unwrap();
        prepared
    }

    fn tip(&self, branch: &str) -> Oid {
        self.repo.refname_to_id(&format!("refs/heads/{branch}")).unwrap()
    }

    fn git(&self, arguments: &[&str]) -> String {
        git(self.repo.path(), arguments)
    }
}

fn git(path: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(path).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn files_are_made_and_replaced() {
    let f = fixture();
    let first = f.put(&file("docs/a/b.txt", "one\n"));
    assert_eq!((first.old, first.commit.parents.len()), (None, 0));
    let second = f.put(&file("docs/c.txt", ""));
    assert_eq!((second.old, second.commit.parents.as_slice()), (Some(first.new_commit), [first.new_commit].as_slice()));
    assert_eq!((second.entry.size, second.entry.content.as_deref()), (0, Some(b"".as_slice())));
    let third = f.put(&PutFile { expected_blob: Some(first.entry.id), ..file("docs/a/b.txt", "two\n") });
    assert_eq!(third.commit.message, b"Write docs/a/b.txt");
    assert_eq!(f.git(&["show", "main:docs/a/b.txt"]), "two\n");
    assert_eq!(f.git(&["ls-tree", "-r", "--name-only", "main"]), "docs/a/b.txt\ndocs/c.txt\n");
    assert_eq!(
        f.git(&["fsck", "--strict", "--no-progress"]).replace("notice: HEAD points to an unborn branch (main)", ""),
        ""
    );
}

#[test]
fn branches_start_at_the_default_branch() {
    let f = fixture();
    let first = f.put(&on("dev", file("a", "1")));
    assert_eq!(first.old, None);
    assert!(f.repo.refname_to_id("refs/heads/main").is_err(), "the first commit goes to the branch that was named");
    f.put(&file("b", "2"));
    let base = f.tip("main");
    let other = f.put(&on("feature/x", file("c", "3")));
    assert_eq!((other.old, other.commit.parents.as_slice()), (None, [base].as_slice()));
    let again = f.put(&on("feature/x", file("c", "4")));
    assert_eq!(again.old, Some(other.new_commit));
    assert_eq!(f.tip("main"), base);
}

#[test]
fn the_mode_of_a_file_stays() {
    let f = fixture();
    let mut root = f.repo.treebuilder(None).unwrap();
    root.insert("run", f.repo.blob(b"#!").unwrap(), 0o100_755).unwrap();
    root.insert("link", f.repo.blob(b"run").unwrap(), 0o120_000).unwrap();
    root.insert("sub", Oid::from_str(&"12".repeat(20)).unwrap(), 0o160_000).unwrap();
    let tree = f.repo.find_tree(root.write().unwrap()).unwrap();
    let who = git2::Signature::new("Ada", "ada@example.com", &git2::Time::new(0, 0)).unwrap();
    let tip = f.repo.commit(Some("refs/heads/main"), &who, &who, "m", &tree, &[]).unwrap();
    for path in ["link", "link/x", "sub", "sub/x", "run/x"] {
        let error = put_file(&f.repo, &file(path, "x")).unwrap_err();
        assert_eq!(error.violations()[0].field, "path", "{path}: {error}");
    }
    assert_eq!(f.tip("main"), tip);
    f.put(&file("run", "#!/bin/sh"));
    assert!(f.git(&["ls-tree", "main", "run"]).starts_with("100755 "));
}

#[test]
fn refusals_name_their_field() {
    let f = fixture();
    let first = f.put(&file("dir/a", "1"));
    let refused = |put: PutFile| put_file(&f.repo, &put).unwrap_err();
    assert_eq!(refused(file("dir", "x")).violations()[0].field, "path");
    assert_eq!(refused(file("dir/a/b", "x")).violations()[0].field, "path");
    assert!(matches!(refused(file("dir/a", "1")), GitError::UnchangedContent));
    let stale = Some(first.new_commit);
    assert!(matches!(refused(PutFile { expected_blob: stale, ..file("dir/a", "2") }), GitError::StaleBlob));
    assert!(matches!(refused(PutFile { expected_blob: stale, ..file("new", "2") }), GitError::StaleBlob));
    for message in ["", " \n", "a\0b"] {
        let error = refused(PutFile { message: message.to_owned(), ..file("m", "2") });
        assert_eq!(error.violations()[0].field, "message");
    }
    let trap = "[submodule \"../x\"]\n\tpath = x\n\turl = -u\n";
    assert_eq!(refused(file("sub/.GITMODULES", trap)).violations()[0].field, "content");
    assert_eq!(refused(file(".gitattributes", &"a".repeat(3000))).violations()[0].field, "content");
    f.put(&file(".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = ../x.git\n"));
    f.git(&["fsck", "--strict"]);
}

#[test]
fn a_new_repository_starts_with_its_templates() {
    let f = fixture();
    let first = FirstCommit {
        author: Author::new("Ada", "ada@example.com", 1_767_225_600),
        gitignores: vec!["Go".to_owned(), "Rust".to_owned()],
        license: "MIT License".to_owned(),
        readme: String::new(),
        values: ReadmeValues { name: "demo".to_owned(), description: "A demo".to_owned(), ..ReadmeValues::default() },
    };
    let commit = initial_commit(&f.repo, &first).unwrap();
    f.repo.reference("refs/heads/main", commit, false, "").unwrap();
    assert_eq!(f.git(&["ls-tree", "--name-only", "main"]), ".gitignore\nLICENSE\nREADME.md\n");
    assert_eq!(f.git(&["show", "main:README.md"]), "# demo\n\nA demo\n");
    assert!(f.git(&["show", "main:LICENSE"]).contains("Copyright (c) 2026 Ada"));
    assert_eq!(f.git(&["log", "--format=%s by %an", "main"]), "Initial commit by Ada\n");
    f.git(&["fsck", "--strict"]);
    let unknown = FirstCommit { license: "Nope".to_owned(), ..first };
    assert_eq!(unknown.files().unwrap_err().violations()[0].field, "license");
}

#[test]
fn what_was_written_reads_back() {
    let f = fixture();
    let prepared = f.put(&file("docs/ü.txt", "text"));
    let path = TreePath::clean("docs/ü.txt".as_bytes()).unwrap();
    let found = read::contents(&f.repo, &crate::revision::Revision::parse(b"").unwrap(), &path).unwrap();
    assert_eq!(found.target, read::Target::Entry(prepared.entry));
    assert_eq!(read::commit_info(&f.repo, prepared.new_commit).unwrap(), prepared.commit);
}
