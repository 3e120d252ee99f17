use std::{
    fs,
    sync::atomic::{AtomicUsize, Ordering},
};

use git2::{ObjectType, Oid};
use tokio::sync::oneshot;

use super::*;
use crate::{repo::refs::table::RefEntry, types::name::RefName};

const ID: RepositoryId = RepositoryId(1);

/// A folder that looks like a repository, its cache, and a count of loads.
struct Fixture {
    folder: tempfile::TempDir,
    cache: RefCache,
    loads: AtomicUsize,
}

fn fixture(bytes: u64) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("HEAD"), "ref: refs/heads/main\n").unwrap();
    Fixture { folder, cache: RefCache::new(bytes), loads: AtomicUsize::new(0) }
}

fn entry(name: &str, number: u8) -> RefEntry {
    let (name, target) = (RefName::parse(name.as_bytes()).unwrap(), Oid::from_bytes(&[number; 20]).unwrap());
    RefEntry { name, target, peeled: None, kind: ObjectType::Commit }
}

fn set(name: &str, number: u8) -> Vec<TableChange> {
    vec![TableChange::Set(entry(name, number))]
}

impl Fixture {
    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn read(&self) -> RefTable {
        self.loads.fetch_add(1, Ordering::SeqCst);
        RefTable::new(vec![entry("refs/heads/a", 1)], None, true, Stamp::of(self.path()).unwrap())
    }

    async fn table(&self) -> Arc<RefTable> {
        self.cache.table(ID, self.path(), async { Ok(self.read()) }).await.unwrap()
    }

    /// Loads a table, reports `started`, and returns it after `go`.
    async fn slow(&self, started: oneshot::Sender<()>, go: oneshot::Receiver<()>) -> Arc<RefTable> {
        let load = async {
            let table = self.read();
            started.send(()).unwrap();
            go.await.unwrap();
            Ok(table)
        };
        self.cache.table(ID, self.path(), load).await.unwrap()
    }

    fn committed(&self, changes: Vec<TableChange>) {
        self.cache.begin_update(ID).committed(self.path(), changes);
    }

    fn loads(&self) -> usize {
        self.loads.load(Ordering::SeqCst)
    }
}

fn numbers(table: &RefTable) -> Vec<u8> {
    table.rows(0..table.len()).map(|entry| entry.target.as_bytes()[0]).collect()
}

#[tokio::test]
async fn refs_are_read_once_and_changed_in_memory() {
    let f = fixture(1 << 20);
    let before = f.table().await;
    f.committed(set("refs/heads/b", 2));
    assert_eq!(numbers(&*f.table().await), [1, 2]);
    f.committed(set("refs/heads/a", 3));
    f.committed(vec![TableChange::Removed(RefName::parse(b"refs/heads/b").unwrap())]);
    assert_eq!(numbers(&*f.table().await), [3]);
    f.cache.begin_update(ID).rolled_back();
    assert_eq!((numbers(&*f.table().await), f.loads()), (vec![3], 1));
    assert_eq!(numbers(&before), [1], "who has a table keeps it as it was");
    assert!(f.cache.states.lock().is_empty());
}

#[tokio::test]
async fn a_change_during_a_reading_is_in_it() {
    let f = fixture(1 << 20);
    let (started, has_started) = oneshot::channel();
    let (go, may_go) = oneshot::channel();
    let meanwhile = async {
        has_started.await.unwrap();
        assert!(f.cache.is_cached_or_loading(ID));
        f.committed(set("refs/heads/b", 2));
        // A second request joins the load and sees the change.
        let late = f.table();
        let release = async {
            tokio::task::yield_now().await;
            go.send(()).unwrap();
        };
        tokio::join!(late, release).0
    };
    let (first, late) = tokio::join!(f.slow(started, may_go), meanwhile);
    assert_eq!((numbers(&first), numbers(&late), f.loads()), (vec![1, 2], vec![1, 2], 1));
    assert_eq!((numbers(&*f.table().await), f.loads()), (vec![1, 2], 1));
    assert!(f.cache.states.lock().is_empty());
}

#[tokio::test]
async fn a_reading_that_saw_an_unknown_end_is_used_once() {
    let f = fixture(1 << 20);
    let (started, has_started) = oneshot::channel();
    let (go, may_go) = oneshot::channel();
    let meanwhile = async {
        has_started.await.unwrap();
        f.cache.forget(ID);
        // A second request starts its own load.
        let table = f.table().await;
        go.send(()).unwrap();
        table
    };
    tokio::join!(f.slow(started, may_go), meanwhile);
    assert_eq!(f.loads(), 2);
    f.table().await;
    assert_eq!(f.loads(), 2, "the second reading was kept");
}

#[tokio::test]
async fn a_transaction_that_was_given_up_leaves_no_table() {
    let f = fixture(1 << 20);
    f.table().await;
    drop(f.cache.begin_update(ID));
    assert!(!f.cache.is_cached_or_loading(ID));
    f.table().await;
    f.table().await;
    assert_eq!(f.loads(), 3, "nothing is kept while its process may live");
    f.cache.states.lock().get_mut(&ID).unwrap().quarantined_until = Some(Instant::now());
    f.table().await;
    f.table().await;
    assert_eq!(f.loads(), 4);
    assert!(f.cache.states.lock().is_empty());
}

#[tokio::test]
async fn a_reading_that_is_given_up_or_fails_leaves_room_for_the_next() {
    let f = fixture(1 << 20);
    let (started, _has_started) = oneshot::channel();
    let (_go, may_go) = oneshot::channel();
    let mut given_up = Box::pin(f.slow(started, may_go));
    assert!(futures_util::poll!(&mut given_up).is_pending());
    drop(given_up);
    let failed = f.cache.table(ID, f.path(), async { Err(GitError::Overloaded) }).await;
    assert!(matches!(failed, Err(GitError::Overloaded)));
    f.committed(set("refs/heads/b", 2));
    f.table().await;
    assert_eq!((numbers(&*f.table().await), f.loads()), (vec![1], 2));
    assert!(f.cache.states.lock().is_empty());
}

#[tokio::test]
async fn files_that_changed_are_read_again_once() {
    let f = fixture(1 << 20);
    f.table().await;
    for (name, content) in [("packed-refs", "# x\n"), ("packed-refs", "# yy\n"), ("HEAD", "ref: refs/heads/other\n")] {
        fs::write(f.path().join("new"), content).unwrap();
        fs::rename(f.path().join("new"), f.path().join(name)).unwrap();
        let before = f.loads();
        f.table().await;
        f.table().await;
        assert_eq!(f.loads(), before + 1, "{name}");
    }
    // A deletion by transaction rewrites `packed-refs`; its new stamp is known.
    fs::write(f.path().join("packed-refs"), "").unwrap();
    f.committed(vec![TableChange::Removed(RefName::parse(b"refs/heads/a").unwrap())]);
    let before = f.loads();
    assert_eq!((numbers(&*f.table().await), f.loads()), (vec![], before));
    fs::remove_file(f.path().join("HEAD")).unwrap();
    let gone = f.cache.table(ID, f.path(), async { Ok(f.read()) }).await;
    assert!(matches!(gone, Err(GitError::RepositoryNotFound)));
}

#[tokio::test]
async fn tables_take_no_more_than_their_room() {
    let f = fixture(2000);
    for id in 1..50 {
        f.cache.table(RepositoryId(id), f.path(), async { Ok(f.read()) }).await.unwrap();
    }
    f.cache.ready.run_pending_tasks();
    assert!((1..10).contains(&f.cache.ready.entry_count()), "{}", f.cache.ready.entry_count());
    let small = fixture(0);
    small.table().await;
    small.committed(set("refs/heads/b", 2));
    assert!(small.table().await.len() <= 2);
}
