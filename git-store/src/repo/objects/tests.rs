//! Oversized objects are written as old ones were.

use std::process::{Command, Stdio};

use super::*;

const TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

fn repository() -> (tempfile::TempDir, Repository) {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repository::init_bare(folder.path()).unwrap();
    (folder, repo)
}

fn commit_of(parents: usize, message: &[u8]) -> Vec<u8> {
    let parents: String = (0..parents).map(|index| format!("parent {index:040x}\n")).collect();
    let people = "author A <a@x> 5 +0100\ncommitter B <b@x> 6 +0000\n";
    let header = format!("tree {TREE}\n{parents}{people}odd {}\n\n", "o".repeat(9000));
    [header.as_bytes(), message].concat()
}

/// Moves all loose objects into one pack, with git itself.
fn pack(repo: &Repository) {
    let mut objects = Vec::new();
    let add = |id: &Oid| {
        objects.push(id.to_string());
        true
    };
    repo.odb().unwrap().foreach(add).unwrap();
    let mut git = Command::new("git")
        .args(["-C", repo.path().to_str().unwrap(), "pack-objects", "--window=0", "-q", "objects/pack/pack"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    io::Write::write_all(&mut git.stdin.take().unwrap(), objects.join("\n").as_bytes()).unwrap();
    assert!(git.wait().unwrap().success());
    let prune = Command::new("git").args(["-C", repo.path().to_str().unwrap(), "prune-packed", "-q"]).status().unwrap();
    assert!(prune.success());
}

#[test]
fn an_object_beyond_its_limit_is_not_loaded() {
    let (_folder, repo) = repository();
    let odb = repo.odb().unwrap();
    let commit = odb.write(ObjectType::Commit, &commit_of(1, &vec![b'm'; 2 << 20])).unwrap();
    let found = commit_head(&repo, commit, 100).unwrap();
    assert_eq!((found.message.len(), found.is_cut), (100, true));
    assert_eq!(tree_id(&repo, commit).unwrap().to_string(), TREE);
    let tag = format!("object {commit}\ntype commit\ntag v1\ntagger A <a@x> 5 +0000\n\n{}", "m".repeat(2 << 20));
    let tag = odb.write(ObjectType::Tag, tag.as_bytes()).unwrap();
    assert!(tag_head(&repo, tag, 10).unwrap().is_cut);
    assert_eq!(tag_target(&repo, tag).unwrap(), commit);
    let small = odb.write(ObjectType::Commit, &commit_of(1, b"m")).unwrap();
    assert!(!commit_head(&repo, small, 1).unwrap().is_cut && commit_head(&repo, small, 0).unwrap().is_cut);
    assert!(
        matches!(tag_head(&repo, small, 0), Err(GitError::Git(error)) if error.code() == git2::ErrorCode::NotFound)
    );
    assert!(matches!(find_tree(&repo, small), Err(GitError::Git(error)) if error.code() == git2::ErrorCode::NotFound));
}

#[test]
fn fields_are_read_from_loose_and_packed_objects_alike() {
    let (_folder, repo) = repository();
    let object = commit_of(10_000, &vec![b'm'; 2 << 20]);
    let id = repo.odb().unwrap().write(ObjectType::Commit, &object).unwrap();
    let loose = ObjectHead::stream(&repo, id, 100).unwrap().unwrap();
    assert_eq!((loose.parents.len(), loose.parents[7].to_string()), (MAX_COMMIT_PARENTS, format!("{:040x}", 7)));
    assert_eq!(loose.after(b"author "), Some(b"A <a@x> 5 +0100".as_slice()));
    assert!(loose.message.len() == 100 && loose.target().is_err());
    pack(&repo);
    let repo = Repository::open_bare(repo.path()).unwrap();
    assert!(repo.odb().unwrap().reader(id).is_err(), "the object is in a pack");
    assert_eq!(ObjectHead::stream(&repo, id, 100).unwrap(), Some(loose));
    assert_eq!(ObjectHead::stream(&repo, Oid::from_bytes(&[9; 20]).unwrap(), 100).unwrap(), None);
}

#[test]
fn a_header_without_end_has_the_fields_that_it_has() {
    let head = ObjectHead::parse(b"tree x\nauthor A".as_slice(), 9999, 10).unwrap();
    assert_eq!((head.after(b"author "), head.message.as_slice()), (Some(b"A".as_slice()), b"".as_slice()));
    assert!(head.tree().is_err());
    assert_eq!(ObjectHead::parse(b"".as_slice(), 9999, 10).unwrap(), ObjectHead::default());
}

#[test]
fn headers_are_those_of_the_objects_whatever_was_read_before() {
    let ((_one, one), (_two, two)) = (repository(), repository());
    // More blobs than places in the cache, so some collide.
    let blobs: Vec<_> = (1..2 * REMEMBERED_HEADERS).map(|size| one.blob(&vec![b'x'; size]).unwrap()).collect();
    for _ in 0..2 {
        for (size, id) in (1..).zip(&blobs) {
            assert_eq!(header(&one, *id).unwrap(), (ObjectType::Blob, size));
        }
    }
    let last = *blobs.last().unwrap();
    std::fs::remove_dir_all(one.path().join("objects")).unwrap();
    assert!(header(&one, last).is_ok(), "it was read a moment ago");
    assert!(read_header(&one, last).is_err());
    assert!(crate::repo::read::blob(&two, &last.to_string()).is_err(), "another repository has no such blob");
}

#[test]
fn parents_are_where_git_reads_them_and_the_first_line_of_a_kind_counts() {
    let (one, two) = ("1".repeat(40), "2".repeat(40));
    let text = format!(
        "tree {TREE}\nparent {one}\nauthor A <a> 1 +0000\nauthor B <b> 2 +0000\ncommitter C <c> 3 +0000\nparent {two}\ntree {one}\n\
         encoding latin1\nencoding utf-8\n\nencoding x\nparent {two}\n"
    );
    let head = ObjectHead::parse(text.as_bytes(), usize::MAX, 100).unwrap();
    assert_eq!(head.parents, [Oid::from_str(&one).unwrap()]);
    assert_eq!(
        (head.tree().unwrap().to_string().as_str(), head.after(b"author ")),
        (TREE, Some(&b"A <a> 1 +0000"[..]))
    );
    assert_eq!(head.encoding(), Some(b"latin1".as_slice()));
    assert_eq!(head.message, format!("encoding x\nparent {two}\n").as_bytes());
}

#[test]
fn modes_are_those_that_git_reads() {
    let (_folder, repo) = repository();
    let blob = repo.blob(b"x").unwrap();
    for (stored, mode) in [
        ("100644", 0o100_644),
        ("100664", 0o100_644),
        ("100666", 0o100_644),
        ("100775", 0o100_755),
        ("0100644", 0o100_644),
        ("40000", 0o040_000),
        ("040000", 0o040_000),
        ("40755", 0o040_000),
        ("120000", 0o120_000),
        ("120755", 0o120_000),
        ("160000", 0o160_000),
        ("160755", 0o160_000),
        ("150000", 0o160_000),
    ] {
        let content = [format!("{stored} a\0").as_bytes(), blob.as_bytes()].concat();
        let tree = repo.odb().unwrap().write(ObjectType::Tree, &content).unwrap();
        assert_eq!(entry_mode(&find_tree(&repo, tree).unwrap().get(0).unwrap()), mode, "{stored}");
    }
    let content = [b"1100644 a\0".as_slice(), blob.as_bytes()].concat();
    let tree = repo.odb().unwrap().write(ObjectType::Tree, &content).unwrap();
    assert!(matches!(find_tree(&repo, tree), Err(GitError::Unreadable { .. })));
}
