use std::{fs, path::Path, time::Duration};

use ferrite_proto::id::RepositoryId;

use super::{
    cache::{Failure, Follower, Maker, Packs, Plan},
    request::Key,
};

const ONE: RepositoryId = RepositoryId(1);
const OTHER: RepositoryId = RepositoryId(2);

fn key(number: u8) -> Key {
    [number; 32]
}

fn make(packs: &Packs, number: u8, repository: RepositoryId) -> (Follower, Maker) {
    match packs.plan(key(number), repository, true) {
        Plan::Make(follower, maker) => (follower, maker),
        Plan::Run | Plan::Follow(_) => panic!("{number} is not to be made"),
    }
}

fn joined(packs: &Packs, number: u8) -> Follower {
    match packs.plan(key(number), ONE, true) {
        Plan::Follow(follower) => follower,
        Plan::Run | Plan::Make(..) => panic!("{number} is not there"),
    }
}

fn runs(packs: &Packs, number: u8, is_clone: bool) -> bool {
    matches!(packs.plan(key(number), ONE, is_clone), Plan::Run)
}

/// Writes that many bytes, and says that this is the whole.
fn finish(maker: Maker, bytes: usize) {
    maker.begin();
    fs::write(maker.path(), vec![b'x'; bytes]).unwrap();
    let file = fs::File::open(maker.path()).unwrap();
    let size = maker.measure(&file).unwrap();
    maker.finish(Ok(size));
}

fn keep(packs: &Packs, number: u8, bytes: usize) {
    let (follower, maker) = make(packs, number, ONE);
    finish(maker, bytes);
    drop(follower);
}

async fn files(folder: &Path, expected: usize) {
    let count = || fs::read_dir(folder.join("packs")).unwrap().count();
    for _ in 0..500 {
        if count() == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} files, not {expected}", count());
}

#[tokio::test]
async fn one_makes_and_all_follow() {
    let folder = tempfile::tempdir().unwrap();
    let packs = Packs::open(folder.path(), 1000).unwrap();
    let (mut first, maker) = make(&packs, 1, ONE);
    let mut second = joined(&packs, 1);
    maker.begin();
    maker.say(b"Counting: 1%\r");
    let path = first.begun().await.unwrap().to_owned();
    assert_eq!(second.begun().await.unwrap(), path);
    let mut told = 0;
    assert_eq!(first.news(&mut told).await.text, b"Counting: 1%\r");
    maker.say(b"Counting: done\nTotal 3\n");
    assert_eq!(first.news(&mut told).await.text, b"Counting: done\nTotal 3\n");
    finish(maker, 100);
    let news = first.news(&mut told).await;
    assert_eq!((news.text, news.end), (Vec::new(), Some(Ok(100))));
    let mut third = joined(&packs, 1);
    let news = third.news(&mut 0).await;
    assert_eq!((news.text, news.end), (b"Counting: done\nTotal 3\n".to_vec(), Some(Ok(100))));
    assert_eq!(fs::read(third.begun().await.unwrap()).unwrap().len(), 100);
}

#[tokio::test]
async fn a_fetch_is_kept_from_its_second_request_and_a_clone_from_its_first() {
    let folder = tempfile::tempdir().unwrap();
    let packs = Packs::open(folder.path(), 1000).unwrap();
    assert!(runs(&packs, 1, false));
    assert!(matches!(packs.plan(key(1), ONE, false), Plan::Make(..)));
    assert!(matches!(packs.plan(key(2), ONE, true), Plan::Make(..)));
    let off = Packs::open(folder.path(), 0).unwrap();
    assert!(runs(&off, 1, true) && runs(&off, 1, true));
}

#[tokio::test]
async fn what_is_not_asked_for_goes_when_others_need_the_room() {
    let folder = tempfile::tempdir().unwrap();
    let packs = Packs::open(folder.path(), 500).unwrap();
    for number in 1..=5 {
        keep(&packs, number, 100);
    }
    drop(joined(&packs, 1));
    let reading = joined(&packs, 2);
    keep(&packs, 6, 100);
    drop((joined(&packs, 6), joined(&packs, 1), joined(&packs, 2)));
    files(folder.path(), 5).await;
    drop(reading);
    let (_follower, _maker) = make(&packs, 3, ONE);
    drop(Packs::open(folder.path(), 500).unwrap());
    files(folder.path(), 0).await;
}

#[tokio::test]
async fn a_large_pack_is_read_to_its_end_and_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let packs = Packs::open(folder.path(), 400).unwrap();
    let (mut follower, maker) = make(&packs, 1, ONE);
    finish(maker, 101);
    assert!(runs(&packs, 1, true), "nobody joins it");
    assert_eq!(follower.news(&mut 0).await.end, Some(Ok(101)));
    assert!(follower.begun().await.unwrap().exists());
    assert_eq!(packs.taken(), 101);
    drop(follower);
    assert_eq!(packs.taken(), 0);
    files(folder.path(), 0).await;
    let (_follower, maker) = make(&packs, 2, ONE);
    fs::write(maker.path(), [0; 401]).unwrap();
    let file = fs::File::open(maker.path()).unwrap();
    assert!(matches!(maker.measure(&file), Err(Failure::Broken(_))), "it takes more than there is");
    assert!(runs(&packs, 3, true), "nothing is begun without room");
}

#[tokio::test]
async fn nobody_makes_what_nobody_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let packs = Packs::open(folder.path(), 1000).unwrap();
    let (follower, maker) = make(&packs, 1, ONE);
    maker.begin();
    fs::write(maker.path(), [0; 10]).unwrap();
    let file = fs::File::open(maker.path()).unwrap();
    drop(follower);
    maker.abandoned().await;
    assert!(matches!(maker.watch(&file).await, Failure::Broken(_)));
    let (mut next, another) = make(&packs, 1, ONE);
    maker.finish(Err(Failure::Broken("gone".to_owned())));
    let mut beside = joined(&packs, 1);
    drop(another);
    assert!(matches!(next.begun().await, Err(Failure::Again(_))));
    assert!(matches!(beside.begun().await, Err(Failure::Again(_))));
    drop((next, beside));
    files(folder.path(), 0).await;
}

#[tokio::test]
async fn inputs_have_a_bounded_place_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let packs = Packs::open(folder.path(), 1000).unwrap();
    let first = packs.room_for_input(20 << 20).unwrap();
    assert!(packs.room_for_input(20 << 20).is_none() && packs.room_for_input(1).is_some());
    drop(first);
    assert!(packs.room_for_input(32 << 20).is_some());
}

#[tokio::test]
async fn packs_go_with_their_repository() {
    let folder = tempfile::tempdir().unwrap();
    let packs = Packs::open(folder.path(), 1000).unwrap();
    keep(&packs, 1, 100);
    let (_reading, other) = make(&packs, 2, OTHER);
    finish(other, 100);
    packs.forget(ONE);
    files(folder.path(), 1).await;
    packs.forget(OTHER);
    assert_eq!(packs.taken(), 100, "somebody reads it");
    make(&packs, 2, OTHER);
    packs.expire();
}
