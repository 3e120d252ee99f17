//! Large files that are stored as deltas. git holds such a file in memory until its last byte is
//! written, so it writes to the archive cache, within a memory budget, and clients read the cached
//! file at their own speed.

use std::{fs, sync::Arc};

use ferrite_proto::id::RepositoryId;
use git_store::{
    disk::{full::require_free_space, repositories::RepositoryStore},
    types::error::GitError,
};
use git2::Oid;

use super::{
    ArchiveService,
    cache::{Producer, Reader},
    produce::write_with_git,
};
use crate::admission::limiter::ClientKey;

#[derive(Clone, Copy, Debug)]
pub(crate) struct DeltaFile {
    pub(crate) repository: RepositoryId,
    pub(crate) blob: Oid,
    pub(crate) size: u64,
    /// Memory that git needs to write it, in bytes.
    pub(crate) memory: u64,
}

impl ArchiveService {
    /// Returns a reader of the file once its first bytes are built. Starts building it unless it is
    /// cached or being built. The memory counts for `client`.
    ///
    /// If it was being built for another client that got no memory, this client builds it instead;
    /// after a second such failure it builds a private copy. Fails with `Overloaded` if `client`
    /// gets no memory.
    pub(crate) async fn open_file(&self, file: DeltaFile, client: &ClientKey) -> Result<Reader, GitError> {
        for owner in [None, None, Some(client)] {
            let (mut reader, is_builder) = self.start_file(file, client, owner);
            match reader.begun().await {
                Err(GitError::Overloaded) if !is_builder => {}
                begun => return begun.map(|_| reader),
            }
        }
        Err(GitError::Overloaded)
    }

    /// Returns a reader of the file, or of the private copy of `owner`, and whether it is built for
    /// `client`.
    fn start_file(&self, file: DeltaFile, client: &ClientKey, owner: Option<&ClientKey>) -> (Reader, bool) {
        let (reader, producer) = self.cache.file_reader(file.repository, file.blob, owner);
        let is_builder = producer.is_some();
        if let Some(producer) = producer {
            let (own, client) = (self.clone(), client.clone());
            self.life.spawn_for_request("delta file", async move {
                let producer = Arc::new(producer);
                let end = tokio::select! {
                    end = own.build(file, &client, &producer) => end,
                    stopped = producer.stopped() => Err(stopped),
                };
                if let Err(error) = &end {
                    tracing::debug!(repo.id = %file.repository, %error, "cannot build a file");
                }
                producer.finish(end);
            });
        }
        (reader, is_builder)
    }

    async fn build(&self, file: DeltaFile, client: &ClientKey, producer: &Arc<Producer>) -> Result<(), GitError> {
        let _memory = self.delta_memory.acquire(file.memory, client).await?;
        let own = Arc::clone(producer);
        let begin = move |store: &RepositoryStore| {
            require_free_space(&store.cache(), file.size)?;
            let made = fs::File::create(own.path()).map(drop);
            made.map_err(|error| GitError::io("creating a cached file")(error).or_full())
        };
        self.pool.run_blocking(begin).await?;
        let child = self.git.cat_file(&self.store.path(file.repository), file.blob)?;
        write_with_git(child, producer, file.size).await
    }
}
