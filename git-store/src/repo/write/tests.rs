mod one_file;
mod wiki_pages;

use std::{collections::BTreeMap, path::Path, process::Command};

use git2::{Oid, Repository};
use proptest::prelude::*;

use super::*;
use crate::{
    disk::loose_objects::write_objects,
    repo::{read, templates::ReadmeValues},
    types::{error::GitError, name::BranchName, path::TreePath},
};
use ferrite_core::version::PreconditionFailed;
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

fn put(file: FileChange) -> PutFile {
    let draft = draft(&format!("Write {}", file.path));
    PutFile { file, draft }
}

fn file(at: &str, content: &str) -> PutFile {
    put(FileChange { path: path(at), operation: Operation::Put(content.to_owned().into()), expected_blob: None })
}

fn expecting(expected_blob: Option<Oid>, put: PutFile) -> PutFile {
    PutFile { file: FileChange { expected_blob, ..put.file }, ..put }
}

fn draft(message: &str) -> CommitDraft {
    let author = Author::new("Ada", "ada@example.com", 1_700_000_000);
    let (branch, new_branch, committer) = (None, None, author.clone());
    CommitDraft { message: message.to_owned(), branch, new_branch, author, committer, signoff: false }
}

fn on(branch: &str, put: PutFile) -> PutFile {
    let branch = Some(BranchName::parse(branch.as_bytes()).unwrap());
    PutFile { draft: CommitDraft { branch, ..put.draft }, ..put }
}

fn onto_new(branch: &str, draft: CommitDraft) -> CommitDraft {
    CommitDraft { new_branch: Some(BranchName::parse(branch.as_bytes()).unwrap()), ..draft }
}

fn put_file(repo: &Repository, put: &PutFile) -> Result<PreparedCommit, GitError> {
    super::put_file(repo, put, &|_| Ok(()))
}

fn delete_file(repo: &Repository, delete: &DeleteFile) -> Result<PreparedCommit, GitError> {
    super::delete_file(repo, delete, &|_| Ok(()))
}

impl Fixture {
    /// Builds the commit, writes its objects and moves the branch, as callers do.
    fn put(&self, put: &PutFile) -> PreparedCommit {
        self.apply(put_file(&self.repo, put).unwrap())
    }

    fn apply(&self, prepared: PreparedCommit) -> PreparedCommit {
        write_objects(&self.repo.path().join("objects"), &prepared.objects).unwrap();
        assert_eq!(read::commit_info(&self.repo, prepared.new_commit).unwrap(), prepared.commit);
        let name = prepared.branch.to_ref();
        self.repo.reference(name.as_str().unwrap(), prepared.new_commit, true, "").unwrap();
        prepared
    }

    fn files(&self, branch: &str) -> String {
        self.git(&["ls-tree", "-r", "--name-only", branch])
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
    assert_eq!((first.entries[0].size, second.entries[0].size), (4, 0));
    let third = f.put(&expecting(Some(first.entries[0].id), file("docs/a/b.txt", "two\n")));
    assert_eq!(third.commit.message, "Write docs/a/b.txt");
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
    assert!(matches!(refused(expecting(stale, file("dir/a", "2"))), GitError::StaleBlob));
    assert!(matches!(refused(expecting(stale, file("new", "2"))), GitError::StaleBlob));
    for message in [" ", " \n", "a\0b"] {
        let error = refused(PutFile { draft: draft(message), ..file("m", "2") });
        assert_eq!(error.violations()[0].field, "message");
    }
    let harmful = "[submodule \"../x\"]\n\tpath = x\n\turl = -u\n";
    assert_eq!(refused(file("sub/.GITMODULES", harmful)).violations()[0].field, "content");
    assert_eq!(refused(file(".gitattributes", &"a".repeat(3000))).violations()[0].field, "content");
    f.put(&file(".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = ../x.git\n"));
    f.git(&["fsck", "--strict"]);
}

#[test]
fn a_commit_without_a_message_names_its_files() {
    let f = fixture();
    let unnamed = |put: PutFile| f.put(&PutFile { draft: draft(""), ..put });
    let told = |prepared: PreparedCommit| (prepared.commit.message, prepared.is_update);
    assert_eq!(told(unnamed(file("dir/a", "1"))), ("Add dir/a".to_owned(), false));
    assert_eq!(told(unnamed(file("dir/a", "2"))), ("Update dir/a".to_owned(), true));
    assert_eq!(told(unnamed(put(rename("dir/a", "b")))), ("Update b".to_owned(), true));
    let signed = CommitDraft { signoff: true, ..draft("") };
    let made = f.apply(delete_file(&f.repo, &DeleteFile { draft: signed, ..delete("b") }).unwrap());
    assert_eq!(made.commit.message, "Delete b\n\nSigned-off-by: Ada <ada@example.com>\n");
    f.put(&file("old", "1"));
    f.put(&file("kept", "1"));
    let files = vec![remove("old"), create("x", "1"), update("kept", "2"), create("y", "1")];
    let made = change_files(&f.repo, &ChangeFiles { files, draft: draft("") }).unwrap();
    assert_eq!(told(made), ("Add x, y\nUpdate kept\nDelete old".to_owned(), true));
}

#[test]
fn a_new_repository_starts_with_its_templates() {
    let f = fixture();
    let first = InitialCommit {
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
    let unknown = InitialCommit { license: "Nope".to_owned(), ..first };
    assert_eq!(unknown.files().unwrap_err().violations()[0].field, "license");
}

#[test]
fn what_was_written_reads_back() {
    let f = fixture();
    let prepared = f.put(&file("docs/ü.txt", "text"));
    let path = TreePath::clean("docs/ü.txt".as_bytes()).unwrap();
    let found = read::contents(&f.repo, &crate::repo::revision::Revision::parse(b"").unwrap(), &path).unwrap();
    let written = read::Entry { content: Some(b"text".to_vec()), ..prepared.entries[0].clone() };
    assert_eq!(found.target, read::Target::Entry(written));
    assert_eq!(read::commit_info(&f.repo, prepared.new_commit).unwrap(), prepared.commit);
}

fn path(path: &str) -> TreePath {
    TreePath::strict(path.as_bytes()).unwrap()
}

fn delete(at: &str) -> DeleteFile {
    DeleteFile { path: path(at), expected_blob: None, draft: draft("Remove") }
}

#[test]
fn a_precondition_gets_what_the_branch_has_after_the_fields_and_before_the_blob() {
    let f = fixture();
    let id = f.put(&file("dir/a", "1")).entries[0].id;
    let fail = |_: Option<(read::EntryKind, Oid)>| Err(PreconditionFailed);
    let put = |put: PutFile| super::put_file(&f.repo, &put, &fail).unwrap_err();
    let stale = Some(f.tip("main"));
    for at in ["dir/a", "new"] {
        let refused = put(on("main", expecting(stale, file(at, "2"))));
        assert!(matches!(&refused, GitError::Precondition { branch } if branch == b"main"), "{refused}");
        assert_eq!(refused.reason(), "PRECONDITION_FAILED");
    }
    assert_eq!(put(file("dir", "x")).violations()[0].field, "path");
    assert_eq!(put(PutFile { draft: draft(" "), ..file("dir/a", "2") }).violations()[0].field, "message");
    assert_eq!(put(file(".gitattributes", &"a".repeat(3000))).violations()[0].field, "content");
    let remove = |at: &str| super::delete_file(&f.repo, &DeleteFile { expected_blob: stale, ..delete(at) }, &fail);
    assert!(matches!(remove("dir/a"), Err(GitError::Precondition { .. })));
    assert!(matches!(remove("none"), Err(GitError::PathNotFound)));
    // A branch that does not exist starts with the files of the default branch.
    for (branch, at, expected) in [
        ("main", "dir/a", Some((read::EntryKind::File, id))),
        ("new", "dir/a", Some((read::EntryKind::File, id))),
        ("main", "b", None),
    ] {
        let require =
            |found: Option<(read::EntryKind, Oid)>| if found == expected { Ok(()) } else { Err(PreconditionFailed) };
        super::put_file(&f.repo, &on(branch, file(at, "2")), &require).unwrap();
    }
}

fn create(at: &str, content: &str) -> FileChange {
    FileChange { path: path(at), operation: Operation::Create(content.to_owned().into()), expected_blob: None }
}

fn update(at: &str, content: &str) -> FileChange {
    FileChange { operation: Operation::Update(content.to_owned().into()), ..create(at, "") }
}

fn remove(at: &str) -> FileChange {
    FileChange { operation: Operation::Delete, ..create(at, "") }
}

fn rename(from: &str, to: &str) -> FileChange {
    FileChange { operation: Operation::Move(path(from), None), ..create(to, "") }
}

fn change(files: Vec<FileChange>) -> ChangeFiles {
    ChangeFiles { files, draft: draft("Change") }
}

#[test]
fn a_file_goes_and_empty_directories_with_it() {
    let f = fixture();
    f.put(&file("a/b/c.txt", "1"));
    let kept = f.put(&file("d.txt", "2"));
    let stale = DeleteFile { expected_blob: Some(kept.entries[0].id), ..delete("a/b/c.txt") };
    assert!(matches!(delete_file(&f.repo, &stale), Err(GitError::StaleBlob)));
    for missing in ["x", "a/x", "d.txt/x", "x/y/z"] {
        assert!(matches!(delete_file(&f.repo, &delete(missing)), Err(GitError::PathNotFound)), "{missing}");
    }
    assert_eq!(delete_file(&f.repo, &delete("a/b")).unwrap_err().violations()[0].field, "path");
    let gone = f.apply(delete_file(&f.repo, &delete("a/b/c.txt")).unwrap());
    assert_eq!((gone.entries.len(), gone.commit.parents.as_slice()), (0, [kept.new_commit].as_slice()));
    assert_eq!(f.files("main"), "d.txt\n");
    f.apply(delete_file(&f.repo, &delete("d.txt")).unwrap());
    assert_eq!(f.files("main"), "");
    f.git(&["fsck", "--strict"]);
    let empty = fixture();
    assert!(matches!(delete_file(&empty.repo, &delete("a")), Err(GitError::PathNotFound)));
}

#[test]
fn a_new_branch_gets_the_commit_and_its_base_stays() {
    let f = fixture();
    f.put(&file("a", "1"));
    let side = f.put(&on("side", file("b", "1")));
    let (main, base) = (f.tip("main"), side.new_commit);
    let topic = on("side", file("a", "2"));
    let topic = PutFile { draft: onto_new("topic", topic.draft), ..topic };
    let made = f.put(&topic);
    assert_eq!((made.branch.as_bytes(), made.old), (b"topic".as_slice(), None));
    assert_eq!((made.commit.parents.as_slice(), f.files("topic")), ([base].as_slice(), "a\nb\n".into()));
    let gone = DeleteFile { draft: onto_new("gone", draft("Remove")), ..delete("a") };
    let made = f.apply(delete_file(&f.repo, &gone).unwrap());
    assert_eq!((made.branch.as_bytes(), made.commit.parents.as_slice()), (b"gone".as_slice(), [main].as_slice()));
    assert_eq!((f.files("gone"), f.tip("main"), f.tip("side")), (String::new(), main, base));
    for error in [put_file(&f.repo, &topic).unwrap_err(), delete_file(&f.repo, &gone).unwrap_err()] {
        assert_eq!(error.violations()[0].field, "new_branch");
    }
    let nowhere = PutFile { draft: onto_new("n", on("nope", file("a", "2")).draft), ..file("a", "2") };
    assert!(matches!(put_file(&f.repo, &nowhere), Err(GitError::BranchNotFound)));
    let empty = fixture();
    let first = PutFile { draft: onto_new("n", draft("m")), ..file("a", "1") };
    assert!(matches!(put_file(&empty.repo, &first), Err(GitError::BranchNotFound)));
    f.git(&["fsck", "--strict"]);
}

#[test]
fn several_files_change_in_one_commit() {
    let f = fixture();
    for (path, content) in [("a", "a"), ("dir/b", "b"), ("dir/c", "c"), ("old/name", "n")] {
        f.put(&file(path, content));
    }
    let base = f.tip("main");
    let files = vec![
        // Both use paths freed by other changes of this commit.
        create("a/below", "new"),
        rename("old/name", "dir"),
        remove("a"),
        remove("dir/b"),
        remove("dir/c"),
        create("x/y/z", "z"),
    ];
    let made = f.apply(change_files(&f.repo, &change(files)).unwrap());
    assert_eq!((made.old, made.commit.parents.as_slice()), (Some(base), [base].as_slice()));
    assert_eq!(f.files("main"), "a/below\ndir\nx/y/z\n");
    assert_eq!(f.git(&["show", "main:dir"]), "n");
    let names: Vec<_> = made.entries.iter().map(|entry| String::from_utf8_lossy(&entry.path)).collect();
    assert_eq!(names, ["a/below", "dir", "x/y/z"]);
    let twice = change(vec![update("dir", "1"), create("k", "1")]);
    let twice = ChangeFiles { draft: onto_new("topic", twice.draft), ..twice };
    let topic = f.apply(change_files(&f.repo, &twice).unwrap());
    assert_eq!((topic.branch.as_bytes(), topic.old), (b"topic".as_slice(), None));
    assert_eq!(f.tip("main"), made.new_commit);
    assert_eq!(change_files(&f.repo, &twice).unwrap_err().violations()[0].field, "new_branch");
    f.git(&["fsck", "--strict"]);
}

#[test]
fn refusals_name_the_file_among_several() {
    let f = fixture();
    for (path, content) in [("a", "a"), ("b", "b"), ("dir/c", "c")] {
        f.put(&file(path, content));
    }
    let tip = f.tip("main");
    let harmful = "[submodule \"../x\"]\n\tpath = x\n\turl = -u\n";
    f.put(&on("other", file("harmful", harmful)));
    let cases = [
        (vec![], "files"),
        ((0..1001).map(|index| create(&format!("f{index}"), "x")).collect(), "files"),
        (vec![create("n", "1"), create("n/m", "2")], "files[1].path"),
        (vec![create("n/m", "1"), create("n", "2")], "files[1].path"),
        (vec![create("n", "1"), update("n", "2")], "files[1].path"),
        (vec![remove("a"), rename("a", "x")], "files[1].from_path"),
        (vec![create("x", "1"), create("a", "1")], "files[1].path"),
        (vec![create("x", "1"), update("y", "1")], "files[1].path"),
        (vec![remove("nope")], "files[0].path"),
        (vec![remove("dir")], "files[0].path"),
        (vec![rename("nope", "x")], "files[0].from_path"),
        (vec![rename("a", "b")], "files[0].path"),
        (vec![rename("a", "b/x")], "files[0].path"),
        (vec![update("a", "2"), create(".gitmodules", harmful)], "files[1].content"),
    ];
    for (files, field) in cases {
        let error = change_files(&f.repo, &change(files)).unwrap_err();
        assert_eq!(error.violations()[0].field, field, "{error}");
    }
    let other = CommitDraft { branch: Some(BranchName::parse(b"other").unwrap()), ..draft("m") };
    let disguise = ChangeFiles { draft: other, ..change(vec![rename("harmful", ".gitmodules")]) };
    assert_eq!(change_files(&f.repo, &disguise).unwrap_err().violations()[0].field, "files[0].content");
    let stale = FileChange { expected_blob: Some(tip), ..update("b", "2") };
    let error = change_files(&f.repo, &change(vec![update("a", "2"), stale])).unwrap_err();
    assert!(matches!(error, GitError::StaleFile { index: 1 }), "{error}");
    let same = change(vec![update("a", "a"), update("dir/c", "c")]);
    assert!(matches!(change_files(&f.repo, &same), Err(GitError::UnchangedContent)));
    let nope = CommitDraft { branch: Some(BranchName::parse(b"nope").unwrap()), ..draft("m") };
    let nowhere = ChangeFiles { draft: onto_new("n", nope), files: vec![create("x", "1")] };
    assert!(matches!(change_files(&f.repo, &nowhere), Err(GitError::BranchNotFound)));
    let large = "x".repeat(25 << 20);
    let large = change(vec![create("x", &large), create("y", &large)]);
    assert!(matches!(change_files(&f.repo, &large), Err(GitError::TooLarge { .. })));
    assert_eq!(f.tip("main"), tip);
}

#[test]
fn author_and_committer_are_as_given() {
    let f = fixture();
    let author = Author::exact("author", "Grace", "grace@example.com", 86_400).unwrap();
    f.put(&PutFile { draft: CommitDraft { author, ..draft("m") }, ..file("a", "1") });
    let shown = f.git(&["log", "-1", "--format=%an %ae %at %cn %ct", "main"]);
    assert_eq!(shown, "Grace grace@example.com 86400 Ada 1700000000\n");
}

/// Returns the root tree that git's index builds from these files.
fn tree_of_index(repo: &Repository, files: &BTreeMap<String, Oid>) -> Oid {
    let time = || git2::IndexTime::new(0, 0);
    let mut index = git2::Index::new().unwrap();
    for (path, id) in files {
        let entry = git2::IndexEntry {
            ctime: time(),
            mtime: time(),
            dev: 0,
            ino: 0,
            mode: 0o100_644,
            uid: 0,
            gid: 0,
            file_size: 0,
            id: *id,
            flags: 0,
            flags_extended: 0,
            path: path.as_bytes().to_vec(),
        };
        index.add(&entry).unwrap();
    }
    index.write_tree_to(repo).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The names sort differently as files and directories: `a.b` sorts before the directory `a`
    /// and after the file.
    #[test]
    fn trees_are_those_that_git_makes_of_the_same_files(changes in prop::collection::vec(("[ab][.0-]?[ab]?(/[ab][.0]?b?)?", any::<bool>()), 1..12)) {
        let (f, mut files) = (fixture(), BTreeMap::new());
        for (path, is_removal) in changes {
            let Ok(_) = TreePath::strict(path.as_bytes()) else { continue };
            let prepared = if is_removal { delete_file(&f.repo, &delete(&path)) } else { put_file(&f.repo, &file(&path, &path)) };
            // A file is in the way of a folder, or nothing changes.
            let Ok(prepared) = prepared else { continue };
            let commit = f.apply(prepared);
            match commit.entries.first() {
                Some(entry) => drop(files.insert(path, entry.id)),
                None => drop(files.remove(&path)),
            }
            prop_assert_eq!(commit.commit.tree, tree_of_index(&f.repo, &files));
        }
    }
}
