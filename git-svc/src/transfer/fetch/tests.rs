use std::{fs, path::Path};

use ferrite_core::testing::eventually;
use ferrite_proto::id::RepositoryId;

use super::{
    cache::{Lookup, PackCache, ProduceError, Producer, Reader},
    request::Key,
};

const ONE: RepositoryId = RepositoryId(1);
const OTHER: RepositoryId = RepositoryId(2);

fn key(number: u8) -> Key {
    [number; 32]
}

fn make(packs: &PackCache, number: u8, repository: RepositoryId) -> (Reader, Producer) {
    match packs.lookup(key(number), repository, true) {
        Lookup::Miss(reader, producer) => (reader, producer),
        Lookup::Bypass | Lookup::Hit(_) => panic!("{number} is not to be made"),
    }
}

fn joined(packs: &PackCache, number: u8) -> Reader {
    match packs.lookup(key(number), ONE, true) {
        Lookup::Hit(reader) => reader,
        Lookup::Bypass | Lookup::Miss(..) => panic!("{number} is not there"),
    }
}

fn runs(packs: &PackCache, number: u8, is_clone: bool) -> bool {
    matches!(packs.lookup(key(number), ONE, is_clone), Lookup::Bypass)
}

/// Writes `bytes` bytes and completes the pack.
fn finish(producer: Producer, bytes: usize) {
    producer.begin();
    fs::write(producer.path(), vec![b'x'; bytes]).unwrap();
    let file = fs::File::open(producer.path()).unwrap();
    let size = producer.update_size(&file).unwrap();
    producer.finish(Ok(size));
}

fn keep(packs: &PackCache, number: u8, bytes: usize) {
    let (reader, producer) = make(packs, number, ONE);
    finish(producer, bytes);
    drop(reader);
}

async fn files(folder: &Path, expected: usize) {
    let count = || fs::read_dir(folder.join("packs")).unwrap().count();
    eventually(&format!("{expected} files"), || std::future::ready(count() == expected)).await;
}

#[tokio::test]
async fn one_makes_and_all_follow() {
    let folder = tempfile::tempdir().unwrap();
    let packs = PackCache::open(folder.path(), 1000).unwrap();
    let (mut first, producer) = make(&packs, 1, ONE);
    let mut second = joined(&packs, 1);
    producer.begin();
    producer.append_log(b"Counting: 1%\r");
    let path = first.begun().await.unwrap().to_owned();
    assert_eq!(second.begun().await.unwrap(), path);
    let mut log_offset = 0;
    assert_eq!(first.progress(&mut log_offset).await.text, b"Counting: 1%\r");
    producer.append_log(b"Counting: done\nTotal 3\n");
    assert_eq!(first.progress(&mut log_offset).await.text, b"Counting: done\nTotal 3\n");
    finish(producer, 100);
    let progress = first.progress(&mut log_offset).await;
    assert_eq!((progress.text, progress.end), (Vec::new(), Some(Ok(100))));
    let mut third = joined(&packs, 1);
    let progress = third.progress(&mut 0).await;
    assert_eq!((progress.text, progress.end), (b"Counting: done\nTotal 3\n".to_vec(), Some(Ok(100))));
    assert_eq!(fs::read(third.begun().await.unwrap()).unwrap().len(), 100);
}

#[tokio::test]
async fn a_fetch_is_kept_from_its_second_request_and_a_clone_from_its_first() {
    let folder = tempfile::tempdir().unwrap();
    let packs = PackCache::open(folder.path(), 1000).unwrap();
    assert!(runs(&packs, 1, false));
    assert!(matches!(packs.lookup(key(1), ONE, false), Lookup::Miss(..)));
    assert!(matches!(packs.lookup(key(2), ONE, true), Lookup::Miss(..)));
    let off = PackCache::open(folder.path(), 0).unwrap();
    assert!(runs(&off, 1, true) && runs(&off, 1, true));
}

#[tokio::test]
async fn what_is_not_asked_for_goes_when_others_need_the_room() {
    let folder = tempfile::tempdir().unwrap();
    let packs = PackCache::open(folder.path(), 500).unwrap();
    for number in 1..=5 {
        keep(&packs, number, 100);
    }
    drop(joined(&packs, 1));
    let reading = joined(&packs, 2);
    keep(&packs, 6, 100);
    drop((joined(&packs, 6), joined(&packs, 1), joined(&packs, 2)));
    files(folder.path(), 5).await;
    drop(reading);
    let (_reader, _producer) = make(&packs, 3, ONE);
    drop(PackCache::open(folder.path(), 500).unwrap());
    files(folder.path(), 0).await;
}

#[tokio::test]
async fn a_large_pack_is_read_to_its_end_and_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let packs = PackCache::open(folder.path(), 400).unwrap();
    let (mut reader, producer) = make(&packs, 1, ONE);
    finish(producer, 101);
    assert!(runs(&packs, 1, true), "no reader joins");
    assert_eq!(reader.progress(&mut 0).await.end, Some(Ok(101)));
    assert!(reader.begun().await.unwrap().exists());
    assert_eq!(packs.used_bytes(), 101);
    drop(reader);
    assert_eq!(packs.used_bytes(), 0);
    files(folder.path(), 0).await;
    let (_reader, producer) = make(&packs, 2, ONE);
    fs::write(producer.path(), [0; 401]).unwrap();
    let file = fs::File::open(producer.path()).unwrap();
    assert!(matches!(producer.update_size(&file), Err(ProduceError::Failed(_))), "it takes more than there is");
    assert!(runs(&packs, 3, true), "nothing is begun without room");
}

#[tokio::test]
async fn a_pack_without_readers_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let packs = PackCache::open(folder.path(), 1000).unwrap();
    let (reader, producer) = make(&packs, 1, ONE);
    producer.begin();
    fs::write(producer.path(), [0; 10]).unwrap();
    let file = fs::File::open(producer.path()).unwrap();
    drop(reader);
    producer.abandoned().await;
    assert!(matches!(producer.watch(&file).await, ProduceError::Failed(_)));
    let (mut next, another) = make(&packs, 1, ONE);
    producer.finish(Err(ProduceError::Failed("gone".to_owned())));
    let mut beside = joined(&packs, 1);
    drop(another);
    assert!(matches!(next.begun().await, Err(ProduceError::Retryable(_))));
    assert!(matches!(beside.begun().await, Err(ProduceError::Retryable(_))));
    drop((next, beside));
    files(folder.path(), 0).await;
}

#[tokio::test]
async fn inputs_have_a_bounded_place_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let packs = PackCache::open(folder.path(), 1000).unwrap();
    let first = packs.reserve_input(20 << 20).unwrap();
    assert!(packs.reserve_input(20 << 20).is_none() && packs.reserve_input(1).is_some());
    drop(first);
    assert!(packs.reserve_input(32 << 20).is_some());
}

#[tokio::test]
async fn packs_go_with_their_repository() {
    let folder = tempfile::tempdir().unwrap();
    let packs = PackCache::open(folder.path(), 1000).unwrap();
    keep(&packs, 1, 100);
    let (_reading, other) = make(&packs, 2, OTHER);
    finish(other, 100);
    packs.forget(ONE);
    files(folder.path(), 1).await;
    packs.forget(OTHER);
    assert_eq!(packs.used_bytes(), 100, "a reader holds it");
    make(&packs, 2, OTHER);
    packs.expire();
}
