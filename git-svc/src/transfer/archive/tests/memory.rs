//! Memory for files that are stored as deltas: which client it counts for, and what does not start
//! without it.

use std::sync::Arc;

use ferrite_core::Lifecycle;
use git_store::{
    disk::{delta_mark, repositories::RepositoryStore},
    git::command::{Git, GitOptions},
    repo::pool::{Pool, PoolOptions},
    types::name::BranchName,
};

use super::*;
use crate::admission::{
    limiter::{ClientKey, Limiter},
    memory_budget::MemoryBudget,
};

/// Memory limit of one client, in bytes.
const SHARE: u64 = 2 << 20;

/// Returns a service with a repository. Requests for memory fail at once instead of waiting.
async fn service(limits: ArchiveLimits) -> (tempfile::TempDir, ArchiveService) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(RepositoryStore::open(folder.path(), "s", Duration::from_secs(10)).await.unwrap());
    store.create(ONE, &BranchName::parse(b"main").unwrap(), |_| Ok(None)).unwrap();
    let archives = ArchiveService {
        git: Arc::new(Git::find(GitOptions::default()).await.unwrap()),
        pool: Pool::new(Arc::clone(&store), PoolOptions { workers: 2, ..PoolOptions::default() }).unwrap(),
        limiter: Arc::new(Limiter::new("archive", 2, 2)),
        diff_limiter: Arc::new(Limiter::new("diff", 2, 2)),
        delta_memory: Arc::new(MemoryBudget::new(2 * SHARE, Duration::ZERO)),
        cache: ArchiveCache::open(&store.cache(), limits, 1 << 30).unwrap(),
        life: Lifecycle::new(Duration::from_secs(5)),
        store,
    };
    (folder, archives)
}

#[tokio::test]
async fn a_client_without_memory_keeps_a_file_from_no_other() {
    let (_folder, archives) = service(ArchiveLimits::default()).await;
    let blob = Repository::open_bare(archives.store.path(ONE)).unwrap().blob(b"content").unwrap();
    let file = DeltaFile { repository: ONE, blob, size: 7, memory: 1 };
    let [full, also_full, free] = [1, 2, 3].map(ClientKey::User);
    let held = archives.delta_memory.acquire(SHARE, &full).await.unwrap();
    // In this order: the second reads what is built for the first.
    let (first, second) = tokio::join!(archives.open_file(file, &full), archives.open_file(file, &free));
    assert!(matches!(first, Err(GitError::Overloaded)));
    assert_eq!(all(second.unwrap()).await.unwrap(), b"content");
    archives.cache.forget(ONE);
    drop(held);
    // Two clients hold a part of the share that the file needs.
    let file = DeltaFile { memory: SHARE, ..file };
    let _held = (
        archives.delta_memory.acquire(1, &full).await.unwrap(),
        archives.delta_memory.acquire(1, &also_full).await.unwrap(),
    );
    let (first, _, third) = tokio::join!(
        archives.open_file(file, &full),
        archives.open_file(file, &also_full),
        archives.open_file(file, &free)
    );
    assert!(matches!(first, Err(GitError::Overloaded)));
    assert_eq!(all(third.unwrap()).await.unwrap(), b"content");
}

#[tokio::test]
async fn git_makes_no_archive_of_deltas_without_memory() {
    let (_folder, archives) = service(ArchiveLimits { whole: 1 << 20, ..ArchiveLimits::default() }).await;
    let path = archives.store.path(ONE);
    let repo = Repository::open_bare(&path).unwrap();
    let text = |last: &str| format!("{}{last}", "a line of a text that is long\n".repeat(40_000));
    let [one, two] = ["a", "b"].map(|last| repo.blob(text(last).as_bytes()).unwrap());
    let tip = commit(&repo, folder_of(&repo, &[(b"a", one, 0o100_644), (b"b", two, 0o100_644)]));
    let mut builder = repo.packbuilder().unwrap();
    [one, two].into_iter().for_each(|id| builder.insert_object(id, None).unwrap());
    builder.write(&path.join("objects/pack"), 0).unwrap();
    assert_eq!(planned(&repo, tip).unwrap().delta_bytes, 0, "marked: there are no large ones");
    delta_mark::clear(&path).unwrap();
    let delta_bytes = planned(&repo, tip).unwrap().delta_bytes;
    assert!(delta_bytes > 2 * text("a").len() as u64, "{delta_bytes}");
    let client = ClientKey::User(1);
    let held = archives.delta_memory.acquire(SHARE, &client).await.unwrap();
    let begun = archives.open(spec(tip, Format::Zip), client.clone()).begun().await;
    assert!(matches!(begun, Err(GitError::Overloaded)), "{begun:?}");
    drop(held);
    assert!(archives.open(spec(tip, Format::Zip), client).whole().await.unwrap() > 0);
}
