//! Tests of objects beyond their limits, which are put into the repository as old ones were.

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

/// Moves all loose objects into one pack, with the real git.
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
    let found = find_commit(&repo, commit);
    assert!(matches!(found, Err(GitError::TooLarge { what: "the commit", limit: 1_048_576 })));
    assert_eq!(tree_id(&repo, commit).unwrap().to_string(), TREE);
    let tag = format!("object {commit}\ntype commit\ntag v1\ntagger A <a@x> 5 +0000\n\n{}", "m".repeat(2 << 20));
    let tag = odb.write(ObjectType::Tag, tag.as_bytes()).unwrap();
    assert!(matches!(find_tag(&repo, tag), Err(GitError::TooLarge { .. })));
    assert_eq!(tag_target(&repo, tag).unwrap(), commit);
    let small = odb.write(ObjectType::Commit, &commit_of(1, b"m")).unwrap();
    assert_eq!(find_commit(&repo, small).unwrap().id(), small);
    assert!(matches!(find_tree(&repo, small), Err(GitError::Git(error)) if error.code() == git2::ErrorCode::NotFound));
}

#[test]
fn fields_are_read_from_loose_and_packed_objects_alike() {
    let (_folder, repo) = repository();
    let object = commit_of(10_000, &vec![b'm'; 2 << 20]);
    let id = repo.odb().unwrap().write(ObjectType::Commit, &object).unwrap();
    let loose = ObjectHead::read(&repo, id, 100).unwrap().unwrap();
    assert_eq!((loose.parents.len(), loose.parents[7].to_string()), (MAX_COMMIT_PARENTS, format!("{:040x}", 7)));
    assert_eq!(loose.after(b"author "), Some(b"A <a@x> 5 +0100".as_slice()));
    assert_eq!((loose.message.len(), loose.id_after(b"object ")), (100, None));
    pack(&repo);
    let repo = Repository::open_bare(repo.path()).unwrap();
    assert!(repo.odb().unwrap().reader(id).is_err(), "the object is in a pack");
    assert_eq!(ObjectHead::read(&repo, id, 100).unwrap(), Some(loose));
    assert_eq!(ObjectHead::read(&repo, Oid::from_bytes(&[9; 20]).unwrap(), 100).unwrap(), None);
}

#[test]
fn a_header_without_end_has_the_fields_that_it_has() {
    let head = ObjectHead::parse(b"tree x\nauthor A".as_slice(), 10).unwrap();
    assert_eq!((head.after(b"author "), head.message.as_slice()), (Some(b"A".as_slice()), b"".as_slice()));
    assert_eq!(head.id_after(b"tree "), None);
    assert_eq!(ObjectHead::parse(b"".as_slice(), 10).unwrap(), ObjectHead::default());
}

#[test]
fn headers_are_those_of_the_objects_whatever_was_read_before() {
    let ((_one, one), (_two, two)) = (repository(), repository());
    // Of more blobs than there are places, some have the same one.
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
