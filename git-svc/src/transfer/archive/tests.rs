//! Archives: their bytes compared with `git archive` and other programs, their limits, and the
//! cache.

mod memory;

use std::{
    io::{Read as _, Write as _},
    path::Path,
    process::Command,
    time::Duration,
};

use ferrite_core::testing::eventually;
use ferrite_proto::id::RepositoryId;
use flate2::read::{DeflateDecoder, GzDecoder};
use futures_util::StreamExt as _;
use git_store::{
    repo::read::EntryKind,
    types::{
        archive::{Format, Prefix},
        error::GitError,
    },
};
use git2::{ObjectType, Oid, Repository, Signature, Time};

use super::{
    cache::Reader,
    plan::{ArchivePlan, plan},
    produce::write,
    zip::Zip,
    *,
};

const ONE: RepositoryId = RepositoryId(1);
const SECONDS: i64 = 1_700_000_001;

struct Fixture {
    folder: tempfile::TempDir,
    repo: Repository,
    commit: Oid,
}

fn commit(repo: &Repository, tree: Oid) -> Oid {
    let who = Signature::new("Ada", "ada@example.com", &Time::new(SECONDS, 60)).unwrap();
    repo.commit(None, &who, &who, "m", &repo.find_tree(tree).unwrap(), &[]).unwrap()
}

fn bare() -> (tempfile::TempDir, Repository) {
    let folder = tempfile::tempdir().unwrap();
    let repo = Repository::init_bare(folder.path()).unwrap();
    (folder, repo)
}

fn folder_of(repo: &Repository, entries: &[(&[u8], Oid, i32)]) -> Oid {
    let mut tree = repo.treebuilder(None).unwrap();
    for (name, id, mode) in entries {
        tree.insert(*name, *id, *mode).unwrap();
    }
    tree.write().unwrap()
}

/// Returns a repository with every kind of entry, and with names that are long or not UTF-8.
fn fixture() -> Fixture {
    let (folder, repo) = bare();
    let blob = |text: &[u8]| repo.blob(text).unwrap();
    let long = [b'l'; 120];
    let longer = [b'm'; 200];
    let sub = Oid::from_str("1234567890123456789012345678901234567890").unwrap();
    let inner = folder_of(
        &repo,
        &[
            (b"run", blob(b"#!/bin/sh\n"), 0o100_755),
            (b"\xff\xfe", blob(b"odd"), 0o100_644),
            ("\u{fc}".as_bytes(), blob(&[b'x'; 512]), 0o100_644),
            (&[b'n'; 90], blob(b""), 0o100_644),
            (&longer, blob(b"far away"), 0o100_644),
        ],
    );
    let middle = folder_of(&repo, &[(&long, inner, 0o040_000), (b"x", blob(b"x"), 0o100_644)]);
    let root = folder_of(
        &repo,
        &[
            (b"README.md", blob(&b"hello hello hello\n".repeat(100)), 0o100_644),
            (b"link", blob(b"dir/x"), 0o120_000),
            (b"long-link", blob(&[b'y'; 150]), 0o120_000),
            (b"sub", sub, 0o160_000),
            (b"dir", middle, 0o040_000),
        ],
    );
    let commit = commit(&repo, root);
    Fixture { folder, repo, commit }
}

fn spec(commit: Oid, format: Format) -> ArchiveSpec {
    ArchiveSpec { repository: RepositoryId(1), commit, format, prefix: Prefix::parse(b"demo").unwrap(), git: (2, 47) }
}

fn planned(repo: &Repository, commit: Oid) -> Result<ArchivePlan, GitError> {
    plan(repo, commit, &ArchiveLimits::default(), || Ok(()))
}

fn archive(f: &Fixture, format: Format) -> Vec<u8> {
    let plan = planned(&f.repo, f.commit).unwrap();
    assert!(!plan.by_git);
    let mut out = Vec::new();
    write(&f.repo, &spec(f.commit, format), plan, &mut out).unwrap();
    out
}

fn gits_tar(repo: &Path, commit: Oid) -> Vec<u8> {
    let output = Command::new("git")
        .args(["-c", "tar.umask=0022", "--git-dir"])
        .arg(repo)
        .args(["archive", "--format=tar", "--prefix=demo/", &commit.to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

#[test]
fn tar_files_are_those_of_git() {
    let f = fixture();
    let packed = archive(&f, Format::TarGz);
    let mut ours = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut ours).unwrap();
    let gits = gits_tar(f.folder.path(), f.commit);
    let differs = ours.iter().zip(&gits).position(|(one, other)| one != other);
    let near = |file: &[u8]| differs.map(|at| String::from_utf8_lossy(&file[at / 512 * 512..][..512]).into_owned());
    assert_eq!((ours.len(), near(&ours)), (gits.len(), near(&gits)));
}

/// An entry of a zip file, uncompressed.
struct Unzipped {
    name: Vec<u8>,
    flags: u16,
    mode: u32,
    content: Vec<u8>,
}

fn number(bytes: &[u8], at: usize, size: usize) -> usize {
    bytes[at..at + size].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// Reads a zip file through its directory. Returns the entries and the comment.
fn unzip(file: &[u8]) -> (Vec<Unzipped>, Vec<u8>) {
    let end = file.windows(4).rposition(|found| found == b"PK\x05\x06").unwrap();
    let comment = file[end + 22..].to_vec();
    assert_eq!(comment.len(), number(file, end + 20, 2));
    let (mut at, mut entries) = (number(file, end + 16, 4), Vec::new());
    for _ in 0..number(file, end + 10, 2) {
        assert_eq!(&file[at..at + 4], b"PK\x01\x02");
        let (flags, method, packed) = (number(file, at + 8, 2), number(file, at + 10, 2), number(file, at + 20, 4));
        let (size, name, extra) = (number(file, at + 24, 4), number(file, at + 28, 2), number(file, at + 30, 2));
        let (mode, local) = (number(file, at + 38, 4) >> 16, number(file, at + 42, 4));
        let body = local + 30 + number(file, local + 26, 2) + number(file, local + 28, 2);
        assert_eq!(file[local + 4..local + 30], file[at + 6..at + 32], "both headers say the same");
        let mut content = file[body..body + packed].to_vec();
        if method == 8 {
            let mut plain = Vec::new();
            DeflateDecoder::new(&content[..]).read_to_end(&mut plain).unwrap();
            content = plain;
        }
        let mut crc = flate2::Crc::new();
        crc.update(&content);
        assert_eq!((content.len(), crc.sum() as usize), (size, number(file, at + 16, 4)));
        entries.push(Unzipped {
            name: file[at + 46..at + 46 + name].to_vec(),
            flags: u16::try_from(flags).unwrap(),
            mode: u32::try_from(mode).unwrap(),
            content,
        });
        at += 46 + name + extra;
    }
    (entries, comment)
}

#[test]
fn zip_files_hold_every_entry_and_name_the_commit() {
    let f = fixture();
    let file = archive(&f, Format::Zip);
    let (entries, comment) = unzip(&file);
    assert_eq!(comment, f.commit.to_string().into_bytes());
    assert!(entries.iter().all(|entry| entry.name.starts_with(b"demo/")));
    let of = |end: &[u8]| entries.iter().find(|entry| entry.name.ends_with(end)).unwrap();
    assert_eq!((of(b"demo/").mode, of(b"sub/").mode, of(b"dir/").mode), (0o040_755, 0o040_755, 0o040_755));
    assert_eq!((of(b"/run").mode, of(b"/link").mode, of(b"README.md").mode), (0o100_755, 0o120_777, 0o100_644));
    assert_eq!((of(b"/link").content.as_slice(), of(b"README.md").content.len()), (b"dir/x".as_slice(), 1800));
    assert_eq!((of("\u{fc}".as_bytes()).flags, of(b"\xff\xfe").flags), (1 << 11, 0));
    assert_eq!(entries.len(), 13);
    let path = f.folder.path().join("demo.zip");
    std::fs::write(&path, &file).unwrap();
    let tested = Command::new("unzip").arg("-tqq").arg(&path).output();
    assert!(tested.is_err() || tested.is_ok_and(|output| output.status.success()), "unzip finds no fault");
}

#[test]
fn a_zip_file_may_have_more_entries_than_the_old_form_can_count() {
    let mut zip = Zip::begin(Vec::new(), SECONDS);
    for index in 0..70_000 {
        zip.add(format!("demo/{index}").as_bytes(), EntryKind::File, 0o100_644, b"").unwrap();
    }
    let file = zip.finish(Oid::from_bytes(&[1; 20]).unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("many.zip");
    std::fs::write(&path, &file).unwrap();
    let end = file.windows(4).rposition(|found| found == b"PK\x06\x06").unwrap();
    assert_eq!((number(&file, end + 24, 8), number(&file, end + 32, 8)), (70_000, 70_000));
    let directory = number(&file, end + 48, 8);
    assert_eq!(&file[directory..directory + 4], b"PK\x01\x02");
    let tested = Command::new("unzip").arg("-tqq").arg(&path).output();
    assert!(tested.is_err() || tested.is_ok_and(|output| output.status.success()), "unzip finds no fault");
}

/// The entity tag identifies these bytes: when they change, `WRITER_VERSION` must change too.
#[test]
fn the_bytes_of_this_writer_stay_the_same() {
    let f = fixture();
    let hash = |format| {
        let file = archive(&f, format);
        assert_eq!(file, archive(&f, format));
        hex::encode(&Sha256::digest(&file)[..8])
    };
    assert_eq!(
        (WRITER_VERSION, hash(Format::Zip).as_str(), hash(Format::TarGz).as_str()),
        (4, "69c604fcff2d797b", "1bffefe0f5db3f4d")
    );
    let key = |spec: &ArchiveSpec| spec.key();
    let one = spec(f.commit, Format::Zip);
    let others = [
        ArchiveSpec { repository: RepositoryId(2), ..one.clone() },
        ArchiveSpec { format: Format::TarGz, ..one.clone() },
        ArchiveSpec { prefix: Prefix::parse(b"other").unwrap(), ..one.clone() },
        ArchiveSpec { git: (2, 48), ..one.clone() },
        ArchiveSpec { commit: Oid::from_bytes(&[1; 20]).unwrap(), ..one.clone() },
    ];
    assert!(others.iter().all(|other| key(other) != key(&one)));
}

#[test]
fn trees_that_expand_to_too_much_are_refused() {
    let (_folder, repo) = bare();
    let mut id = repo.blob(&[0; 1000]).unwrap();
    let mut mode = 0o100_644;
    for level in 0..9 {
        let names: Vec<_> = (b'0'..=b'9').map(|name| [name]).collect();
        let entries: Vec<_> = names.iter().map(|name| (name.as_slice(), id, mode)).collect();
        (id, mode) = (folder_of(&repo, &entries), 0o040_000);
        let result = planned(&repo, commit(&repo, id));
        match level {
            0..=4 => assert!(result.is_ok(), "{level}"),
            _ => assert!(matches!(result, Err(GitError::TooLarge { limit: 200_000, .. })), "{level} {result:?}"),
        }
    }
    let limits = ArchiveLimits { bytes: 20_000, ..ArchiveLimits::default() };
    let one = folder_of(&repo, &[(b"big", repo.blob(&[1; 20_001]).unwrap(), 0o100_644)]);
    let result = plan(&repo, commit(&repo, one), &limits, || Ok(()));
    assert!(matches!(result, Err(GitError::TooLarge { limit: 20_000, .. })), "{result:?}");
    let result = plan(&repo, commit(&repo, id), &ArchiveLimits::default(), || Err(GitError::ClientGone));
    assert!(matches!(result, Err(GitError::ClientGone)));
}

#[test]
fn a_tree_with_a_name_that_leads_out_is_refused() {
    let (_folder, repo) = bare();
    let blob = repo.blob(b"x").unwrap();
    for name in [b"..".as_slice(), b".", b"../../etc", b"a/b"] {
        let raw = [b"100644 ", name, b"\0", blob.as_bytes()].concat();
        // libgit2 may refuse to write or to read the tree.
        let Ok(tree) = repo.odb().unwrap().write(ObjectType::Tree, &raw) else { continue };
        let raw = format!("tree {tree}\nauthor a <a@b> 0 +0000\ncommitter a <a@b> 0 +0000\n\nm\n");
        let commit = repo.odb().unwrap().write(ObjectType::Commit, raw.as_bytes()).unwrap();
        let result = planned(&repo, commit);
        assert!(matches!(result, Err(GitError::Invalid(_) | GitError::Git(_))), "{name:?} {result:?}");
    }
}

#[test]
fn attributes_and_large_files_are_left_to_git() {
    let (_folder, repo) = bare();
    for (attributes, by_git) in [
        ("*.txt export-ignore\n", true),
        ("a export-subst", false),
        ("* eol=crlf", true),
        ("* text=auto\n*.png binary\n", false),
    ] {
        let file = repo.blob(attributes.as_bytes()).unwrap();
        let inner = folder_of(&repo, &[(b".gitattributes", file, 0o100_644)]);
        let tree = folder_of(&repo, &[(b"dir", inner, 0o040_000)]);
        assert_eq!(planned(&repo, commit(&repo, tree)).unwrap().by_git, by_git, "{attributes}");
    }
    let limits = ArchiveLimits { whole: 10, ..ArchiveLimits::default() };
    let tree = folder_of(&repo, &[(b"a", repo.blob(&[0; 11]).unwrap(), 0o100_644)]);
    assert!(plan(&repo, commit(&repo, tree), &limits, || Ok(())).unwrap().by_git);
}

#[test]
fn only_plain_names_are_folders() {
    for name in ["demo", "a.b", "...a", "A_b-c", "1"] {
        assert_eq!(Prefix::parse(name.as_bytes()).unwrap().to_string(), name);
    }
    for name in ["", ".", "..", "...", "a/b", "../a", "/a", "-x", "--output=x", "a\\b", "a b", "\u{fc}", ".git", ".GIT"]
    {
        assert!(matches!(Prefix::parse(name.as_bytes()), Err(GitError::Invalid(_))), "{name:?}");
    }
    assert!(Prefix::parse(&[b'a'; 101]).is_err() && Prefix::parse(b"a\0").is_err() && Prefix::parse(b"\xff").is_err());
    for name in ["", "tar", "ZIP", "zip/../x", "--remote=x"] {
        assert!(matches!(Format::parse(name.as_bytes()), Err(GitError::Invalid(_))), "{name:?}");
    }
}

/// Waits until the cache has this many files.
async fn files(folder: &Path, expected: usize) {
    let count = || std::fs::read_dir(folder.join("archives")).unwrap().count();
    eventually(&format!("{expected} files"), || std::future::ready(count() == expected)).await;
}

fn keep(archives: &ArchiveCache, repository: RepositoryId, key: &str) -> Reader {
    let (reader, producer) = archives.reader(repository, key);
    let producer = producer.unwrap();
    std::fs::write(producer.path(), [0; 100]).unwrap();
    producer.set_written(100);
    producer.finish(Ok(()));
    reader
}

/// Returns which of these archives are cached and complete.
fn kept<'a>(archives: &ArchiveCache, keys: &[&'a str]) -> Vec<&'a str> {
    keys.iter().copied().filter(|key| archives.size(key).is_some()).collect()
}

async fn all(mut reader: Reader) -> Result<Vec<u8>, String> {
    reader.begun().await.map_err(|error| error.to_string())?;
    let chunks: Vec<_> = reader.bytes(0, None).await.unwrap().collect().await;
    let chunks: Result<Vec<_>, _> = chunks.into_iter().collect();
    Ok(chunks.map_err(|error| error.to_string())?.concat())
}

#[tokio::test]
async fn one_makes_and_all_read() {
    let folder = tempfile::tempdir().unwrap();
    let archives = ArchiveCache::open(folder.path(), ArchiveLimits::default(), 1000).unwrap();
    let (first, producer) = archives.reader(ONE, "a");
    let producer = producer.unwrap();
    let (second, none) = archives.reader(ONE, "a");
    assert!(none.is_none(), "somebody makes it already");
    let mut file = std::fs::File::create(producer.path()).unwrap();
    let made = async {
        for part in 1..=3_u64 {
            file.write_all(&[b'x'; 100]).unwrap();
            producer.set_written(part * 100);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // A smaller number, as from a second run, is ignored.
        producer.set_written(100);
        producer.finish(Ok(()));
    };
    let (one, two, ()) = tokio::join!(all(first), all(second), made);
    assert_eq!((one.unwrap(), two.unwrap()), (vec![b'x'; 300], vec![b'x'; 300]));
    let (mut third, none) = archives.reader(ONE, "a");
    assert!(none.is_none());
    assert_eq!(third.whole().await.unwrap(), 300);
    let part: Vec<_> = third.bytes(290, Some(295)).await.unwrap().collect().await;
    assert_eq!(part[0].as_ref().unwrap().len(), 5);
}

#[tokio::test]
async fn what_is_not_asked_for_goes_when_others_need_the_room() {
    let folder = tempfile::tempdir().unwrap();
    let archives = ArchiveCache::open(folder.path(), ArchiveLimits::default(), 250).unwrap();
    drop((keep(&archives, ONE, "a"), keep(&archives, ONE, "b")));
    drop(archives.reader(ONE, "a"));
    drop(keep(&archives, ONE, "c"));
    files(folder.path(), 2).await;
    assert_eq!(kept(&archives, &["a", "b", "c"]), ["a", "c"]);
    drop(archives);
    files(folder.path(), 0).await;
    std::fs::write(folder.path().join("archives/old"), b"x").unwrap();
    ArchiveCache::open(folder.path(), ArchiveLimits::default(), 250).unwrap();
    files(folder.path(), 0).await;
}

#[tokio::test]
async fn archives_that_are_being_made_or_read_take_room() {
    let folder = tempfile::tempdir().unwrap();
    let archives = ArchiveCache::open(folder.path(), ArchiveLimits::default(), 250).unwrap();
    drop((keep(&archives, ONE, "a"), keep(&archives, ONE, "b")));
    let (waiting, producer) = archives.reader(ONE, "c");
    let producer = producer.unwrap();
    producer.set_written(51);
    tokio::time::timeout(Duration::from_millis(10), producer.stopped()).await.unwrap_err();
    assert_eq!(kept(&archives, &["a", "b"]), ["b"], "`c` grows");
    drop((producer, waiting));
    let reading = keep(&archives, RepositoryId(2), "d");
    archives.forget(RepositoryId(2));
    drop(keep(&archives, ONE, "e"));
    assert_eq!(kept(&archives, &["b", "e"]), ["e"], "`d` is unlisted, and read");
    drop(reading);
    drop(keep(&archives, ONE, "f"));
    assert_eq!(kept(&archives, &["e", "f"]), ["e", "f"], "`d` is deleted");
}

#[tokio::test]
async fn archives_that_are_being_read_are_deleted_after_their_last_reader_if_they_take_too_much() {
    let folder = tempfile::tempdir().unwrap();
    let archives = ArchiveCache::open(folder.path(), ArchiveLimits::default(), 50).unwrap();
    let reading = keep(&archives, ONE, "a");
    let (another, none) = archives.reader(ONE, "a");
    assert!(none.is_none());
    drop(another);
    assert_eq!(kept(&archives, &["a"]), ["a"], "further readers share it");
    assert_eq!(all(reading).await.unwrap().len(), 100);
    files(folder.path(), 0).await;
    assert_eq!(kept(&archives, &["a"]), [""; 0]);
}

#[tokio::test]
async fn an_archive_without_readers_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let archives = ArchiveCache::open(folder.path(), ArchiveLimits::default(), 1000).unwrap();
    let (reader, producer) = archives.reader(ONE, "a");
    let producer = producer.unwrap();
    producer.check().unwrap();
    drop(reader);
    assert!(matches!(producer.stopped().await, GitError::ClientGone));
    let (next, another) = archives.reader(ONE, "a");
    let another = another.unwrap();
    producer.finish(Err(GitError::ClientGone));
    assert!(archives.reader(ONE, "a").1.is_none(), "the end of the first takes nothing from the second");
    another.finish(Err(GitError::TooLarge { what: "the archive", limit: 5 }));
    assert_eq!(all(next).await.unwrap_err(), "the archive exceeds the limit of 5");
    let (reader, producer) = archives.reader(ONE, "a");
    let producer = producer.unwrap();
    std::fs::write(producer.path(), [0; 10]).unwrap();
    producer.set_written(10);
    drop(producer);
    assert!(all(reader).await.unwrap_err().contains("unfinished"));
    files(folder.path(), 0).await;
}

#[tokio::test]
async fn an_archive_of_a_deleted_repository_is_read_to_its_end_and_removed_then() {
    let folder = tempfile::tempdir().unwrap();
    let archives = ArchiveCache::open(folder.path(), ArchiveLimits::default(), 1000).unwrap();
    drop((keep(&archives, ONE, "a"), keep(&archives, RepositoryId(2), "b")));
    let reader = keep(&archives, ONE, "c");
    let (unfinished, producer) = archives.reader(ONE, "d");
    let producer = producer.unwrap();
    std::fs::write(producer.path(), [0; 50]).unwrap();
    producer.set_written(50);
    archives.forget(ONE);
    files(folder.path(), 3).await;
    assert_eq!(kept(&archives, &["a", "b", "c"]), ["b"]);
    assert_eq!(all(reader).await.unwrap().len(), 100);
    files(folder.path(), 2).await;
    producer.finish(Ok(()));
    assert_eq!(all(unfinished).await.unwrap().len(), 50);
    drop(producer);
    files(folder.path(), 1).await;
}
