//! Copies repositories within this store, for forks.
//!
//! A copy has the branches, tags and HEAD of its source, and one pack of the objects they reach.
//! Other objects, such as those left behind by a force push, are not copied, because readers of the
//! copy may read all of its objects. Source and copy share no files.
//!
//! Maintenance may repack the source meanwhile: git keeps the packs it has opened, looks again for
//! those that are gone, and unreferenced objects are kept for days. If one is missing nevertheless,
//! the copy is repeated with the current refs.

use std::{path::Path, sync::Arc, time::Duration};

use ferrite_core::Lifecycle;
use ferrite_proto::id::RepositoryId;
use git_store::{
    disk::{delta_mark, repositories::RepositoryStore},
    git::command::Git,
    repo::{
        pool::Pool,
        refs::{RefEntry, Refs, write_packed},
    },
    types::error::GitError,
};
use tokio::time::Instant;

use crate::admission::limiter::{ClientKey, Limiter};

const COPY_TIMEOUT: Duration = Duration::from_secs(600);
const MAX_ATTEMPTS: usize = 2;
const COPIED_REFS: [&[u8]; 2] = [b"refs/heads/", b"refs/tags/"];

/// Copies repositories. Clones share everything.
#[derive(Clone)]
pub(crate) struct CopyService {
    pub(crate) git: Arc<Git>,
    pub(crate) store: Arc<RepositoryStore>,
    pub(crate) pool: Pool,
    pub(crate) refs: Refs,
    pub(crate) limiter: Arc<Limiter>,
    /// Stops running copies when the service stops.
    pub(crate) life: Lifecycle,
}

impl CopyService {
    /// Creates repository `id` as a copy of `source`. Does nothing if `id` exists. On success the
    /// whole copy is on disk; after an error nothing of it remains. Fails with `Overloaded` also
    /// when the process stops.
    pub(crate) async fn copy(
        &self,
        id: RepositoryId,
        source: RepositoryId,
        client: &ClientKey,
    ) -> Result<(), GitError> {
        if self.store.exists(id) {
            return Ok(());
        }
        let _permit = self.limiter.acquire(source, client).await?;
        let deadline = Instant::now() + COPY_TIMEOUT;
        for _ in 1..MAX_ATTEMPTS {
            match self.attempt(id, source, deadline).await {
                Err(GitError::Command { command, stderr, .. }) => {
                    tracing::warn!(repo.id = %source, command, stderr, "retrying to copy a repository");
                }
                outcome => return outcome,
            }
        }
        let outcome = self.attempt(id, source, deadline).await;
        // git fails with a different error if the repository is deleted under it.
        if outcome.is_err() && !self.store.exists(source) {
            return Err(GitError::RepositoryNotFound);
        }
        outcome
    }

    async fn attempt(&self, id: RepositoryId, source: RepositoryId, deadline: Instant) -> Result<(), GitError> {
        let branch = self.refs.head(source).await?.branch;
        let table = self.refs.table(source).await?;
        let refs: Vec<_> = COPIED_REFS.iter().flat_map(|prefix| table.rows(table.span(prefix))).cloned().collect();
        drop(table);
        // An upper bound, because it includes objects that are not copied.
        let begin = move |store: &RepositoryStore| store.begin_build(id, &branch, store.size(source)?);
        let incoming = self.pool.run_blocking(begin).await?;
        match self.fill(source, &incoming, refs, deadline).await {
            Ok(()) => self.pool.run_blocking(move |store| store.publish_built(id, &incoming)).await,
            Err(error) => self.pool.run_blocking(move |store| Err(store.discard_built(&incoming, error))).await,
        }
    }

    /// Writes the refs, and all objects they reach, to the repository at `incoming`.
    async fn fill(
        &self,
        source: RepositoryId,
        incoming: &Path,
        refs: Vec<RefEntry>,
        deadline: Instant,
    ) -> Result<(), GitError> {
        if refs.is_empty() {
            return Ok(());
        }
        let is_marked = move |store: &RepositoryStore| Ok(delta_mark::is_set(&store.path(source)));
        let was_marked = self.pool.run_blocking(is_marked).await?;
        let child = self.git.copy_objects(&self.store.path(source), &incoming.join("objects"))?;
        let tips: String = refs.iter().map(|entry| format!("{}\n", entry.target)).collect();
        let left = deadline.saturating_duration_since(Instant::now());
        if child.output_unless(tips.as_bytes(), self.life.stopping(), left).await?.is_none() {
            return Err(GitError::Overloaded);
        }
        let incoming = incoming.to_owned();
        let write = move |store: &RepositoryStore| {
            // After git has read the source, which may have received large deltas meanwhile.
            let marked = delta_mark::copy(was_marked, &store.path(source), &incoming);
            marked.map_err(GitError::io("marking a copy"))?;
            write_packed(&incoming, &refs)
        };
        self.pool.run_blocking(write).await
    }
}

#[cfg(test)]
mod tests;
