//! Reads through git-svc's threads and libgit2 in this process, without sockets and gateway.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_benches::Failure;
use ferrite_proto::id::RepositoryId;
use git_store::disk::repositories::RepositoryStore;
use git_store::repo::pool::{Pool, PoolOptions};
use git_store::repo::read::raw::raw;

use crate::daemon::copy;
use crate::report::{Sample, Series, median};
use crate::servers::Servers;

/// Reads the large repository's file from a store in this process.
pub(super) async fn blob(servers: &Servers) -> Result<Series, Failure> {
    let root = servers.folder();
    std::fs::create_dir_all(&root)?;
    let store = Arc::new(RepositoryStore::open(&root, "bench", Duration::from_secs(5)).await?);
    let id = RepositoryId(1);
    let path = store.path(id);
    std::fs::create_dir_all(path.parent().ok_or("the store has no folders")?)?;
    copy(&servers.large.source, &path)?;
    let pool = Pool::new(store, PoolOptions::default())?;
    let name: Arc<[u8]> = format!("{}/{}", servers.large.branch, servers.large.file).into_bytes().into();
    let mut series = Series::default();
    for _ in 0..servers.scale.rounds {
        let mut times = Vec::new();
        for number in 0..servers.scale.calls * 20 {
            let name = Arc::clone(&name);
            let begin = Instant::now();
            let file = pool.run(id, move |repo| raw(repo, &name)).await?;
            // The first calls of each thread open the repository and fill the caches, so they do
            // not count.
            if number >= servers.scale.calls * 10 {
                times.push(begin.elapsed());
            }
            file.content.ok_or("the file is too large to be read at once")?;
        }
        let wall = Duration::from_secs_f64(median(times.into_iter()) / 1e3);
        series.push(Sample { wall, cpu: Duration::ZERO });
    }
    drop(std::fs::remove_dir_all(&root));
    Ok(series)
}
