use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::types::name::BranchName;

async fn pool(options: PoolOptions) -> (tempfile::TempDir, Pool) {
    let folder = tempfile::tempdir().unwrap();
    let store = RepositoryStore::open(folder.path(), "s", Duration::ZERO).await.unwrap();
    for id in 1..=5 {
        store.create(RepositoryId(id), &BranchName::parse(b"main").unwrap(), |_| Ok(None)).unwrap();
    }
    let pool = Pool::new(Arc::new(store), options).unwrap();
    (folder, pool)
}

fn small() -> PoolOptions {
    PoolOptions { workers: 1, queue: 2, repos: 2, idle: Duration::from_millis(40) }
}

#[tokio::test]
async fn a_panic_is_contained() {
    let (_folder, pool) = pool(small()).await;
    let error = pool.run(RepositoryId(1), |_| -> Result<(), _> { panic!("on purpose") }).await.unwrap_err();
    assert!(matches!(&error, GitError::Internal(text) if text.contains("on purpose")), "{error:?}");
    assert!(pool.run(RepositoryId(1), |repo| Ok(repo.is_bare())).await.unwrap());
}

#[tokio::test]
async fn a_full_queue_refuses_and_the_gone_are_skipped() {
    let (_folder, pool) = pool(small()).await;
    let (release, blocked_until) = std::sync::mpsc::channel::<()>();
    let blocked_until = Mutex::new(blocked_until);
    let (started, mut has_started) = tokio::sync::mpsc::unbounded_channel();
    let ran = Arc::new(AtomicUsize::new(0));
    let blocker = pool.run(RepositoryId(1), move |_| {
        started.send(()).unwrap();
        blocked_until.lock().recv().unwrap();
        Ok(())
    });
    let others = async {
        has_started.recv().await.unwrap();
        let count = || {
            let ran = Arc::clone(&ran);
            pool.run(RepositoryId(1), move |_| Ok(ran.fetch_add(1, Ordering::SeqCst)))
        };
        // Two jobs wait and their callers leave; a third finds the queue full.
        let mut first = Box::pin(count());
        let mut second = Box::pin(count());
        assert!(futures_util::poll!(&mut first).is_pending());
        assert!(futures_util::poll!(&mut second).is_pending());
        assert!(matches!(count().await, Err(GitError::Overloaded)));
        drop((first, second));
        release.send(()).unwrap();
    };
    let (blocked, ()) = tokio::join!(blocker, others);
    blocked.unwrap();
    // The two jobs whose callers left are dropped from the queue without running.
    while let Err(error) = pool.run(RepositoryId(2), |_| Ok(())).await {
        assert!(matches!(error, GitError::Overloaded));
        tokio::task::yield_now().await;
    }
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn deleted_repositories_are_not_found() {
    let (_folder, pool) = pool(small()).await;
    let id = RepositoryId(3);
    pool.run(id, |_| Ok(())).await.unwrap();
    pool.run_blocking(move |store| store.delete(id)).await.unwrap();
    pool.forget(id);
    assert!(matches!(pool.run(id, |_| Ok(())).await, Err(GitError::RepositoryNotFound)));
    assert!(matches!(pool.run(RepositoryId(99), |_| Ok(())).await, Err(GitError::RepositoryNotFound)));
}

#[tokio::test]
async fn handles_are_bounded() {
    // Handles idle for longer than the loop below takes are closed before they are counted.
    let (_folder, pool) = pool(PoolOptions { idle: Duration::from_secs(1), ..small() }).await;
    for id in 1..=5 {
        pool.run(RepositoryId(id), |_| Ok(())).await.unwrap();
    }
    let open = pool.submit(|repos| Ok(repos.open.len())).await.unwrap();
    assert_eq!(open, 2);
    let deadline = Instant::now() + Duration::from_secs(10);
    while pool.submit(|repos| Ok(repos.open.len())).await.unwrap() > 0 {
        assert!(Instant::now() < deadline, "idle handles are closed");
        // A worker without jobs checks after a quarter of the idle time.
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
}

#[tokio::test]
async fn a_missing_object_is_looked_for_twice() {
    let (_folder, pool) = pool(small()).await;
    let id = RepositoryId(1);
    pool.run(id, |_| Ok(())).await.unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&ran);
    let missing = git2::Oid::from_str("1234567890123456789012345678901234567890").unwrap();
    let error = pool.run(id, move |repo| {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok(repo.find_blob(missing).map(|blob| blob.size())?)
    });
    assert!(error.await.unwrap_err().is_missing_object());
    assert_eq!(ran.load(Ordering::SeqCst), 2);
}
