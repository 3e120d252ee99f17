use std::io::Write as _;

use flate2::{Compression, write::ZlibEncoder};
use git_store::types::limits::MAX_DELTA_OBJECT_BYTES;
use git2::{Commit, PackBuilder, Repository, Signature, Time};

use super::*;
use crate::testing::pack_limits;

/// An object directory with one pack of the objects `ids` of `repo`.
fn packed(repo: &Repository, ids: &[Oid]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let packs = folder.path().join("pack");
    fs::create_dir(&packs).unwrap();
    let mut builder: PackBuilder<'_> = repo.packbuilder().unwrap();
    ids.iter().for_each(|id| builder.insert_object(*id, None).unwrap());
    builder.write(&packs, 0).unwrap();
    folder
}

fn repository() -> (tempfile::TempDir, Repository) {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repository::init_bare(folder.path()).unwrap();
    (folder, repo)
}

fn commit(repo: &Repository, message: &str, parents: &[&Commit<'_>]) -> Oid {
    let tree = repo.find_tree(repo.treebuilder(None).unwrap().write().unwrap()).unwrap();
    let who = Signature::new("Ada", "ada@example.com", &Time::new(0, 0)).unwrap();
    repo.commit(None, &who, &who, message, &tree, parents).unwrap()
}

fn flaw_of(repo: &Repository, ids: &[Oid]) -> Option<String> {
    find_flaw(packed(repo, ids).path(), None).unwrap().map(|flaw| flaw.to_string())
}

#[test]
fn ordinary_objects_have_no_flaw() {
    let (_folder, repo) = repository();
    let first = commit(&repo, "first", &[]);
    let long = commit(&repo, &"m".repeat(1 << 19), &[]);
    let blob = repo.blob(&vec![b'x'; 2 << 20]).unwrap();
    assert_eq!(flaw_of(&repo, &[first, long, blob]), None);
    assert_eq!(find_flaw(tempfile::tempdir().unwrap().path(), None).unwrap(), None, "no packs at all");
}

#[test]
fn a_commit_or_tag_that_is_too_long_is_named_with_its_size() {
    let (_folder, repo) = repository();
    let message = "m".repeat(1 << 20);
    let (first, long) = (commit(&repo, "first", &[]), commit(&repo, &message, &[]));
    let text = flaw_of(&repo, &[first, long]).unwrap();
    assert!(text.starts_with(&format!("the commit {long} has 10")), "{text}");
    assert!(text.ends_with(" bytes; the limit is 1048576"), "{text}");
    let (target, who) = (repo.find_object(first, None).unwrap(), Signature::now("Ada", "a@example.com").unwrap());
    let tag = repo.tag_annotation_create("v1", &target, &who, &message).unwrap();
    assert!(flaw_of(&repo, &[first, tag]).unwrap().starts_with(&format!("the tag {tag} has 10")));
}

#[test]
fn a_delta_counts_as_the_object_that_it_makes() {
    let (_folder, repo) = repository();
    let message = |last: &str| format!("{}{last}", "a message that is long ".repeat(60_000));
    let ids = [commit(&repo, &message("a"), &[]), commit(&repo, &message("b"), &[])];
    let folder = packed(&repo, &ids);
    let index = fs::read_dir(folder.path().join("pack")).unwrap().map(|entry| entry.unwrap().path());
    let index = index.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "idx")).unwrap();
    let pack = ReceivedPack::read(PackFile::open(&index).unwrap().unwrap()).unwrap();
    let sizes: Vec<_> =
        pack.offsets.iter().map(|offset| pack.bytes(&pack.pack.entry(*offset).unwrap()).unwrap()).collect();
    assert_eq!(sizes[0], sizes[1]);
    assert!(sizes[0] > 1 << 20, "{sizes:?}");
    assert!(find_flaw(folder.path(), None).unwrap().is_some());
}

/// Returns an object directory with one pack: an object of `kind` and one byte, and a delta that
/// claims these sizes.
fn with_delta(kind: u8, sizes: DeltaSizes) -> tempfile::TempDir {
    let entry = |kind: u8, size: u64, base: &[u8], content: &[u8]| {
        let (mut bytes, mut rest) = (vec![kind << 4 | (size & 15) as u8], size >> 4);
        while rest > 0 {
            *bytes.last_mut().unwrap() |= 0x80;
            bytes.push((rest & 0x7f) as u8);
            rest >>= 7;
        }
        bytes.extend(base);
        let mut encoder = ZlibEncoder::new(bytes, Compression::none());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    };
    let number =
        |size: u64| (0..5).map(move |index| (size >> (7 * index) & 0x7f) as u8 | if index < 4 { 0x80 } else { 0 });
    let delta: Vec<u8> = number(sizes.base).chain(number(sizes.result)).collect();
    let base = entry(kind, 1, b"", b"x");
    let second = 12 + u32::try_from(base.len()).unwrap();
    let distance = u8::try_from(base.len()).unwrap();
    let delta = entry(6, sizes.delta, &[distance], &delta);
    let pack = [b"PACK\0\0\0\x02\0\0\0\x02".as_slice(), &base, &delta, &[0; 20]].concat();
    // Magic, counts by first byte, ids, checksums, offsets.
    let counts = 2_u32.to_be_bytes().repeat(256);
    let offsets = [12_u32.to_be_bytes(), second.to_be_bytes()].concat();
    let index = [b"\xfftOc\0\0\0\x02".as_slice(), &counts, &[0; 20], &[1; 20], &[0; 8], &offsets].concat();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("pack")).unwrap();
    fs::write(folder.path().join("pack/pack-1.pack"), pack).unwrap();
    fs::write(folder.path().join("pack/pack-1.idx"), index).unwrap();
    folder
}

const COMMIT: u8 = 1;
const TREE: u8 = 2;
const BLOB: u8 = 3;

#[test]
fn a_large_delta_from_a_remote_is_refused_or_takes_the_mark_of_the_repository() {
    let (_folder, repo) = repository();
    let (limits, repository) = (pack_limits(), repo.path());
    let flaw_of = |kind, delta, result| {
        let folder = with_delta(kind, DeltaSizes { delta, base: 1, result });
        find_flaw(folder.path(), Some(UnreadPacks { limits: &limits, repository })).unwrap()
    };
    delta_mark::set(repository).unwrap();
    assert_eq!((flaw_of(BLOB, 10, 32 << 20), delta_mark::is_set(repository)), (None, true));
    let (bytes, limit) = (MAX_DELTA_OBJECT_BYTES + 1, MAX_DELTA_OBJECT_BYTES);
    assert_eq!(flaw_of(BLOB, 10, bytes), Some(PackFlaw::Sizes(PackRefusal::LargeDelta { bytes, limit })));
    let long = PackRefusal::LongDelta { bytes: 2000, result: 10, limit: 1034 };
    assert_eq!(flaw_of(BLOB, 2000, 10), Some(PackFlaw::Sizes(long)));
    assert!(matches!(flaw_of(COMMIT, 10, 33 << 20), Some(PackFlaw::TooLarge { .. })));
    assert!(delta_mark::is_set(repository), "nothing was taken");
    assert_eq!((flaw_of(BLOB, 10, limit), delta_mark::is_set(repository)), (None, false));
    delta_mark::set(repository).unwrap();
    let large = flaw_of(BLOB, (32 << 20) + 1, 32 << 20);
    assert_eq!((large, delta_mark::is_set(repository)), (None, false), "the delta itself is large");
}

#[test]
fn the_deltas_and_bases_of_commits_and_trees_are_as_small_as_these() {
    for (kind, limit) in [(COMMIT, MAX_COMMIT_BYTES as u64), (TREE, MAX_TREE_BYTES)] {
        let flaw_of =
            |delta, base, result| find_flaw(with_delta(kind, DeltaSizes { delta, base, result }).path(), None).unwrap();
        assert_eq!(flaw_of(1000, 1000, 1000), None);
        for (delta, base, result) in [(limit + 1, 1, 10), (10, limit + 1, 10), (10, 1, limit + 1)] {
            let flaw = flaw_of(delta, base, result);
            let is_named = matches!(flaw, Some(PackFlaw::TooLarge { count, .. }) if count == limit + 1);
            assert!(is_named, "{delta} {base} {result}: {flaw:?}");
        }
    }
}

#[test]
fn parents_and_entries_are_counted() {
    let header = |parents: usize| {
        let parent = format!("parent {}\n", "1".repeat(40));
        format!("tree {}\n{}author A <a> 1 +0000\n\nparent of all\n", "2".repeat(40), parent.repeat(parents))
    };
    assert_eq!((count_parents(header(0).as_bytes()), count_parents(header(5000).as_bytes())), (0, 5000));
    let entry = [b"100644 a\0".as_slice(), &[0; 20]].concat();
    assert_eq!((count_entries(&[]), count_entries(&entry.repeat(3))), (0, 3));
}

#[test]
fn a_commit_with_too_many_parents_is_named() {
    let (_folder, repo) = repository();
    let parents: Vec<_> = (0..5000).map(|index| commit(&repo, &index.to_string(), &[])).collect();
    let parents: Vec<_> = parents.into_iter().map(|id| repo.find_commit(id).unwrap()).collect();
    let merge = |count: usize| commit(&repo, "merge", &parents.iter().take(count).collect::<Vec<_>>());
    assert_eq!(flaw_of(&repo, &[merge(MAX_COMMIT_PARENTS)]), None);
    let wide = merge(5000);
    assert_eq!(flaw_of(&repo, &[wide]), Some(format!("the commit {wide} has 5000 parents; the limit is 4096")));
}
